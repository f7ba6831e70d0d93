//! `forebay try` over a CSV file, and other engines over the same one.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Args;
use super::limits::TRY_DEVICES;
use super::peers::{self, Peer};
use super::windows::Windows;
use crate::data::Dice;
use crate::sys;

const PIPELINE: &str = r#"
[engine]
out_of_order = "5s"
allowed_lateness = "0s"

[[window]]
name = "w"
kind = "tumbling"
size = "1m"
aggregates = ["count", "mean", "max"]
"#;

/// What came of another engine.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) rows_per_s: f64,
    pub(crate) version: String,
}

/// What came of all.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) rows: u64,
    pub(crate) windows: usize,
    pub(crate) ours: f64,
    /// Or why there is nothing.
    pub(crate) peers: Vec<(Peer, Result<Reached, String>)>,
}

pub(crate) fn run(args: &Args) -> Result<Trial, String> {
    let sizes = args.sizes();
    let input = args.dir.join("readings.csv");
    write_csv(&input, sizes.try_rows).map_err(|e| format!("{}: {e}", input.display()))?;
    let best = |runs: &[f64]| sizes.try_rows as f64 / runs.iter().copied().fold(f64::MAX, f64::min);
    let mut seconds = Vec::new();
    let mut ours = Windows::default();
    for _ in 0..sizes.try_rounds {
        let (took, windows) = ours_once(args, &input)?;
        seconds.push(took);
        ours = windows;
    }
    let mut trial = Trial {
        rows: sizes.try_rows,
        windows: ours.len(),
        ours: best(&seconds),
        peers: Vec::new(),
    };
    for peer in Peer::ALL {
        let rounds = if peer.is_slow() { 1 } else { sizes.try_rounds };
        let result = if peer.is_slow() && !sizes.slow_peers {
            Err("not run with --quick".to_owned())
        } else {
            peer_runs(peer, args, &input, rounds, &ours).map(|(seconds, version)| Reached {
                rows_per_s: best(&seconds),
                version,
            })
        };
        trial.peers.push((peer, result));
    }
    Ok(trial)
}

/// In order of time, as one logger of many devices writes it: a reading per second
/// and device, values that wander.
fn write_csv(path: &Path, rows: u64) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut dice = Dice(1);
    let mut values = vec![2_150_i64; TRY_DEVICES as usize];
    out.write_all(b"device,channel,time,value\n")?;
    for n in 0..rows {
        let device = n % TRY_DEVICES;
        let value = &mut values[device as usize];
        *value += (dice.next() >> 16) as i64 % 41 - 20;
        let ms = n / TRY_DEVICES * 1_000 + device * (1_000 / TRY_DEVICES);
        let (day, s) = (ms / 86_400_000 + 1, ms / 1_000 % 86_400);
        let sign = if *value < 0 { "-" } else { "" };
        let cents = value.unsigned_abs();
        writeln!(
            out,
            "d{device},temp,2026-03-{day:02}T{:02}:{:02}:{:02}.{:03}Z,{sign}{}.{:02}",
            s / 3_600,
            s / 60 % 60,
            s % 60,
            ms % 1_000,
            cents / 100,
            cents % 100,
        )?;
    }
    out.flush()
}

/// Processor seconds of one run, from its start to its end, and its windows.
fn ours_once(args: &Args, input: &Path) -> Result<(f64, Windows), String> {
    let failed = |path: &PathBuf, e: std::io::Error| format!("{}: {e}", path.display());
    let config = args.dir.join("pipeline.toml");
    let output = args.dir.join("forebay.ndjson");
    std::fs::write(&config, PIPELINE).map_err(|e| failed(&config, e))?;
    let out = File::create(&output).map_err(|e| failed(&output, e))?;
    let before = sys::children_cpu_s()?;
    let status = Command::new(&args.forebay)
        .arg("try")
        .arg("--config")
        .arg(&config)
        .arg("--input")
        .arg(input)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(Stdio::null())
        .status()
        .map_err(|e| failed(&args.forebay, e))?;
    let took = sys::children_cpu_s()? - before;
    if !status.success() {
        return Err(format!(
            "{} try ended with {status}",
            args.forebay.display()
        ));
    }
    Ok((took, Windows::read_json(&output)?))
}

/// Processor seconds of each run of another engine, without the start of its virtual
/// machine, and its version.
fn peer_runs(
    peer: Peer,
    args: &Args,
    input: &Path,
    rounds: usize,
    ours: &Windows,
) -> Result<(Vec<f64>, String), String> {
    peers::bring(peer, args)?;
    let output = args.dir.join(format!("{peer:?}.csv"));
    let mut seconds = Vec::new();
    let mut version = String::new();
    for _ in 0..rounds {
        let said = peers::run_try(peer, args, input, &output)?;
        seconds.push(said.number("cpu_seconds")?);
        version = said.text("version").unwrap_or_default().to_owned();
    }
    match Windows::read_csv(&output)?.differs_from(ours) {
        None => Ok((seconds, version)),
        Some(difference) => Err(format!("WRONG: other windows: {difference}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_in_order_and_the_same_each_time() {
        let dir = std::env::temp_dir().join(format!("forebay-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("a.csv");
        write_csv(&path, 250).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines.len(), 250);
        assert!(
            lines[101].starts_with("d1,temp,2026-03-01T00:00:01.010Z,2"),
            "{}",
            lines[101]
        );
        let time = |line: &&str| line.split(',').nth(2).unwrap().to_owned();
        assert!(lines.is_sorted_by_key(time));
    }
}
