//! `forebay device sim`: devices to try an agent with, without a board.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::{
    FaultRates, SamplePeriod, SimConfig, SimDeviceInfo, SimDevices, SimLines, SimPlace,
    SimSnapshot, UID_BASE_DEFAULT,
};

/// How often the end of the drain is looked for.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// Runs simulated devices that a gateway can open like real ones
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  Measure this computer, behind a pty that a config can name:
    forebay device sim --link /tmp/device
  Fifty made-up devices at 100 Hz on a bad cable, for one minute:
    forebay device sim --devices 50 --no-host-sensors --rate 100 --faults 0.001 --duration 1m")]
pub struct SimArgs {
    /// Number of devices; the first one measures this computer
    #[arg(long, default_value_t = 1, value_name = "N")]
    devices: u32,
    /// Make up the values of the first device too
    #[arg(long)]
    no_host_sensors: bool,
    /// Samples per second of each channel
    #[arg(long, default_value = "10", value_name = "HZ", value_parser = parse_rate)]
    rate: SamplePeriod,
    /// Seed of made-up values and of faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Id of the first device in hex; the others count up
    #[arg(long, default_value_t = UidBase(UID_BASE_DEFAULT), value_name = "HEX", value_parser = parse_uid)]
    uid_base: UidBase,
    /// Symlink to the first pty, for configs; further devices get PATH-2, PATH-3, ...
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    link: Option<PathBuf>,
    /// Listen on TCP instead of ptys: the first device here, others on the ports after it
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<SocketAddr>,
    /// Chance per byte that the cable flips, drops or adds something, 0 to 0.5
    #[arg(long, default_value_t = 0.0, value_name = "RATE", value_parser = parse_chance)]
    faults: f64,
    /// Stop by itself after this long, such as 20s; otherwise at Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// At the end, give a gateway this long to take what the devices still hold
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = parse_duration)]
    drain: Duration,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy)]
struct UidBase(u64);

impl std::fmt::Display for UidBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

fn parse_rate(text: &str) -> Result<SamplePeriod, String> {
    let hz = text.parse().map_err(|_| "is no number".to_owned())?;
    SamplePeriod::from_hz(hz)
}

fn parse_uid(text: &str) -> Result<UidBase, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map(UidBase)
        .map_err(|_| "must be 1 to 16 hex digits".to_owned())
}

fn parse_chance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(chance) if (0.0..=0.5).contains(&chance) => Ok(chance),
        Ok(_) | Err(_) => Err("must be a number from 0 to 0.5".to_owned()),
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let span = crate::config::duration::parse(text)?;
    let micros = u64::try_from(span.0).map_err(|_| "must not be negative".to_owned())?;
    Ok(Duration::from_micros(micros))
}

impl SimArgs {
    fn config(&self) -> SimConfig {
        SimConfig {
            devices: self.devices,
            host_sensors: !self.no_host_sensors,
            period: self.rate,
            seed: self.seed,
            uid_base: self.uid_base.0,
            boot: None,
            lines: match self.listen {
                Some(listen) => SimLines::Tcp { listen },
                None => SimLines::Ptys {
                    link: self.link.clone(),
                },
            },
            faults: FaultRates::even(self.faults),
        }
    }
}

/// Runs until the time is up, or until SIGINT or SIGTERM.
#[must_use]
pub fn run(args: &SimArgs) -> ExitCode {
    match simulate(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay device sim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(args: &SimArgs) -> io::Result<()> {
    let devices = SimDevices::spawn(args.config())?;
    let mut out = io::stdout().lock();
    for info in devices.devices() {
        writeln!(out, "{}", describe(info, args.json))?;
    }
    out.flush()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        wait_for_end(args.duration).await?;
        devices.stop_sampling();
        // A second signal ends the drain.
        tokio::select! {
            () = drained(&devices) => Ok(()),
            ended = wait_for_end(Some(args.drain)) => ended,
        }
    })?;
    for snapshot in devices.stop()? {
        writeln!(out, "{}", count(&snapshot, args.json))?;
    }
    out.flush()
}

async fn wait_for_end(time: Option<Duration>) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let time_up = async {
        match time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = time_up => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Until no device holds a reading that a gateway could still take.
async fn drained(devices: &SimDevices) {
    // The last sample may be under way while sampling is being stopped.
    tokio::time::sleep(super::limits::WAIT_MAX * 2).await;
    while devices
        .snapshot()
        .iter()
        .any(|device| device.open && device.waiting > 0)
    {
        tokio::time::sleep(DRAIN_LOOK).await;
    }
}

fn describe(info: &SimDeviceInfo, as_json: bool) -> String {
    let (key, place) = match &info.place {
        SimPlace::Pty { path, link } => {
            ("path", link.as_ref().unwrap_or(path).display().to_string())
        }
        SimPlace::Tcp(address) => ("address", address.to_string()),
        SimPlace::InProcess => ("in_process", "true".to_owned()),
    };
    if as_json {
        json!({"uid": info.uid.to_string(), key: place, "channels": info.channels}).to_string()
    } else {
        format!(
            "device {} at {place} measures {}",
            info.uid,
            info.channels.join(", ")
        )
    }
}

fn count(device: &SimSnapshot, as_json: bool) -> String {
    if as_json {
        json!({
            "uid": device.uid.to_string(),
            "boot": device.boot.0,
            "produced": device.produced,
            "acked": device.acked,
            "waiting": device.waiting,
            "gaps": device.gaps,
            "resends": device.resends,
            "bad_frames": device.bad_frames,
            "faults": device.faults,
            "missed_samples": device.missed_samples,
        })
        .to_string()
    } else {
        format!(
            "device {}: produced {}, acked {}, waiting {}, overwritten {}, resends {}, bad frames {}",
            device.uid,
            device.produced,
            device.acked,
            device.waiting,
            device.gaps,
            device.resends,
            device.bad_frames
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Outer {
        #[command(flatten)]
        sim: SimArgs,
    }

    #[test]
    fn options_become_a_config() {
        let line = "sim --devices 50 --rate 100 --seed 7 --uid-base ff00 --faults 0.03 --duration 1m --json";
        let args = Outer::try_parse_from(line.split(' ')).unwrap().sim;
        let config = args.config();
        assert_eq!(
            (config.devices, config.period.micros(), config.seed),
            (50, 10_000, 7)
        );
        assert_eq!(config.uid(1).to_string(), "000000000000ff01");
        assert_eq!(config.faults, FaultRates::even(0.03));
        assert_eq!(args.duration, Some(Duration::from_secs(60)));
    }

    #[test]
    fn bad_options_are_refused_with_a_reason() {
        for (name, line, want) in [
            ("no rate", "sim --rate 0", "must be from 0.001 to 10000 Hz"),
            ("a word", "sim --rate fast", "is no number"),
            ("too bad a cable", "sim --faults 0.6", "from 0 to 0.5"),
            ("no hex", "sim --uid-base xyz", "1 to 16 hex digits"),
            ("back in time", "sim --duration=-5s", "must not be negative"),
            (
                "two lines",
                "sim --link a --listen 127.0.0.1:1",
                "cannot be used with",
            ),
        ] {
            let error = Outer::try_parse_from(line.split(' '))
                .unwrap_err()
                .to_string();
            assert!(error.contains(want), "{name}: {error}");
        }
    }
}
