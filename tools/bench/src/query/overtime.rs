//! PromQL over a day: the mean of an hour at each minute of it, of a hundred series, of
//! the agent and of Prometheus over the same samples. The samples lie between the steps:
//! so it does not matter whose ranges are closed at their left end.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::ask::{agent_on, missed};
use super::http;
use super::limits::{OVERTIME_MS_MAX, OVERTIME_SERIES};
use super::load::Times;
use super::prepared::{Prepared, Shape, channel, uid};
use super::{Args, told, within};
use crate::delivery::process::{Process, wait_for};
use crate::delivery::rig::free_port;
use crate::table::Row;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600 * SECOND;
const EVERY: i64 = 10 * SECOND;
/// Relative: both add doubles, in another order.
const DIFFERENCE_MAX: f64 = 1e-9;
/// The program and the tool of its package.
const PROMETHEUS: &str = "prometheus";
const PROMTOOL: &str = "promtool";

pub(super) fn run(args: &Args) -> Result<Vec<Row>, String> {
    let length = (args.sizes().hours as i64 + 1) * HOUR;
    let shape = Shape {
        devices: OVERTIME_SERIES,
        channels: 1,
        every: EVERY,
        length,
    };
    let dir = args.dir.join("overtime");
    let (agent, prepared) = agent_on(args, &dir, shape, "")?;
    let path = path_of(&prepared);
    let under = format!(
        "{OVERTIME_SERIES} series of {}, {} h at 1 m",
        prepared.readings(),
        args.sizes().hours
    );
    let ours = asked(&mut agent.http()?, &path, args.sizes().repeats);
    agent.process.end()?;
    let what = "avg_over_time(x[1h])";
    let mut rows = vec![match &ours {
        Ok((_, times)) => {
            let row = told(what, &under, times.text());
            within(row, times.quantile_ms(1.0), OVERTIME_MS_MAX)
        }
        Err(why) => missed(what, &under, why, OVERTIME_MS_MAX),
    }];
    match beside(&dir.join("peer"), &prepared, &path, args.sizes().repeats) {
        Ok((theirs, times)) => {
            let alike = ours.and_then(|(ours, _)| compare(&ours, &theirs));
            let alike = alike.map_or_else(|why| why, |points| format!("{points} values alike"));
            let text = format!("{}; {alike:.160}", times.text());
            rows.push(told("Prometheus beside it", &under, text));
        }
        Err(why) => rows.push(told("Prometheus beside it", &under, why)),
    }
    std::fs::remove_dir_all(&dir).map_err(|error| error.to_string())?;
    Ok(rows)
}

/// The question; its steps lie 5 s behind the samples.
fn path_of(prepared: &Prepared) -> String {
    let first = (prepared.from.0 + HOUR) / SECOND + 5;
    let last = prepared.to.0 / SECOND - 55;
    format!(
        "/api/v1/query_range?query=avg_over_time({}%5B1h%5D)&start={first}&end={last}&step=60",
        channel(0)
    )
}

/// The first answer, and how long the others took.
fn asked(client: &mut http::Client, path: &str, repeats: usize) -> Result<(Value, Times), String> {
    let first = client.get(path, "application/json")?;
    let first = serde_json::from_slice(first).map_err(|error| error.to_string())?;
    let mut times = Times::default();
    for _ in 0..repeats {
        let started = Instant::now();
        client.get(path, "application/json")?;
        times.push(started.elapsed());
    }
    Ok((first, times))
}

/// The same of Prometheus, which gets the samples as OpenMetrics.
fn beside(
    dir: &Path,
    prepared: &Prepared,
    path: &str,
    repeats: usize,
) -> Result<(Value, Times), String> {
    let told = |error: std::io::Error| format!("{}: {error}", dir.display());
    std::fs::create_dir_all(dir).map_err(told)?;
    let (text, data) = (dir.join("samples.txt"), dir.join("data"));
    write_samples(&text, prepared).map_err(told)?;
    let mut load = Command::new(PROMTOOL);
    load.args(["tsdb", "create-blocks-from", "openmetrics"]);
    let done = load.arg(&text).arg(&data).output();
    let done = done.map_err(|error| format!("{PROMTOOL}: {error}: apt-get install prometheus"))?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    let config = dir.join("prometheus.yml");
    std::fs::write(&config, "").map_err(told)?;
    let port = free_port()?;
    let mut command = Command::new(PROMETHEUS);
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", data.display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    command.arg("--storage.tsdb.retention.time=30d");
    let _process = Process::start("prometheus", command, dir)?;
    wait_for("Prometheus is ready", || {
        let answer = http::Client::open(port).ok()?;
        let mut answer = answer;
        let (status, _) = answer.try_get("/-/ready", "*/*").ok()?;
        (status == 200).then_some(())
    })?;
    asked(&mut http::Client::open(port)?, path, repeats)
}

fn write_samples(file: &Path, prepared: &Prepared) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    let name = channel(0);
    writeln!(out, "# TYPE {name} gauge")?;
    let mut line = String::new();
    for device in 0..prepared.shape.devices {
        for n in 0..prepared.shape.length / prepared.shape.every {
            let value = prepared.value(device, 0, n) as f64 / 100.0;
            let seconds = (prepared.from.0 + n * prepared.shape.every) / SECOND;
            line.clear();
            let _ = writeln!(
                line,
                "{name}{{device=\"{}\"}} {value} {seconds}",
                uid(device)
            );
            out.write_all(line.as_bytes())?;
        }
    }
    out.write_all(b"# EOF\n")?;
    out.flush()
}

/// What is fast must be right as well; how many values there are.
fn compare(ours: &Value, theirs: &Value) -> Result<usize, String> {
    let series = |answer: &Value| -> std::collections::BTreeMap<String, Vec<(f64, f64)>> {
        let result = answer["data"]["result"].as_array();
        let values = |one: &Value| {
            let points = one["values"].as_array().map_or(&[][..], Vec::as_slice);
            let point = |point: &Value| {
                let value = point[1].as_str().and_then(|text| text.parse().ok());
                (
                    point[0].as_f64().unwrap_or(f64::NAN),
                    value.unwrap_or(f64::NAN),
                )
            };
            points.iter().map(point).collect()
        };
        let named = |one: &Value| {
            let device = one["metric"]["device"].as_str();
            (device.unwrap_or_default().to_owned(), values(one))
        };
        result.into_iter().flatten().map(named).collect()
    };
    let (ours, theirs) = (series(ours), series(theirs));
    if ours.len() != OVERTIME_SERIES || theirs.len() != OVERTIME_SERIES {
        return Err(format!("{} series, theirs {}", ours.len(), theirs.len()));
    }
    let mut count = 0;
    for (device, points) in &theirs {
        let mine = ours.get(device).map_or(&[][..], Vec::as_slice);
        if mine.len() != points.len() {
            return Err(format!(
                "{device}: {} values of {}",
                mine.len(),
                points.len()
            ));
        }
        for ((at, value), (time, want)) in mine.iter().zip(points) {
            let is_same = at == time && (value - want).abs() <= DIFFERENCE_MAX * want.abs();
            if !is_same {
                return Err(format!(
                    "{device}: {value} at {at}, theirs {want} at {time}"
                ));
            }
            count += 1;
        }
    }
    Ok(count)
}
