//! `forebay device sim`: devices to try an agent with, without a board.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::report::{count, describe, shows, total};
use super::{
    CableFaults, ClockPpm, RingSize, SamplePeriod, SimConfig, SimDevices, SimLines,
    UID_BASE_DEFAULT, spec,
};

/// How often the end of the drain is looked for.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// How often it is looked for devices that were told to show where they are.
const SHOW_LOOK: Duration = Duration::from_millis(100);

/// Runs simulated devices that a gateway can open like real ones
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  Measure this computer, behind a pty that a config can name:
    forebay device sim --link /tmp/device
  Fifty made-up devices at 100 Hz on a bad cable, for one minute:
    forebay device sim --devices 50 --no-host-sensors --rate 100 --faults 0.001 --duration 1m
  A device that loses bytes, hears noise, hangs and is unplugged now and then:
    forebay device sim --link /tmp/device --faults drop=0.001,noise=0.001,stall=2s/60s,unplug=10s/120s

Faults per byte, as a chance: flip, drop, insert, double, noise (0 to 0.5), echo (0 to 1).
Faults by time, as how long in which time: stall (the line hangs), unplug (the device is
gone and comes back as another tty).")]
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
    #[arg(long, value_name = "IP:PORT", value_parser = parse_listen)]
    listen: Option<SocketAddr>,
    /// What the cable does wrong: a chance per byte of a flip, drop or insert, or single faults
    #[arg(long, default_value = "0", value_name = "FAULTS", value_parser = spec::parse)]
    faults: CableFaults,
    /// Readings that each device's ring holds: 64, 256, 1024, 2730 or 8192
    #[arg(long, default_value = "2730", value_name = "N", value_parser = parse_ring)]
    ring: RingSize,
    /// How far each device's clock is off and wanders, parts per million
    #[arg(long, default_value = "0", value_name = "PPM", value_parser = parse_ppm)]
    clock_ppm: ClockPpm,
    /// Reset each device once in this time, in the middle of a frame
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    reset: Option<Duration>,
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

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse();
    address.map_err(|_| "must be an IP address and a port, such as 127.0.0.1:7386".to_owned())
}

fn parse_ring(text: &str) -> Result<RingSize, String> {
    RingSize::new(text.parse().unwrap_or(0))
}

fn parse_ppm(text: &str) -> Result<ClockPpm, String> {
    ClockPpm::new(text.parse().unwrap_or(u32::MAX))
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
            faults: self.faults,
            ring: self.ring,
            clock: self.clock_ppm,
            resets: self.reset,
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
        tokio::select! {
            ended = wait_for_end(args.duration) => ended?,
            failed = show(&devices, &mut out, args.json) => return Err(failed),
        }
        devices.stop_sampling();
        // A second signal ends the drain.
        tokio::select! {
            () = drained(&devices, args.faults.unplug.is_some()) => Ok(()),
            ended = wait_for_end(Some(args.drain)) => ended,
        }
    })?;
    let snapshots = devices.stop()?;
    for snapshot in &snapshots {
        writeln!(out, "{}", count(snapshot, args.json))?;
    }
    writeln!(out, "{}", total(&snapshots, args.json))?;
    out.flush()
}

/// Prints who is told to show where it is, until printing fails.
async fn show(devices: &SimDevices, out: &mut impl Write, as_json: bool) -> io::Error {
    loop {
        tokio::time::sleep(SHOW_LOOK).await;
        let lines: String = devices
            .take_shows()
            .into_iter()
            .map(|device| shows(device, as_json) + "\n")
            .collect();
        if let Err(error) = out.write_all(lines.as_bytes()).and_then(|()| out.flush()) {
            return error;
        }
    }
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

/// Until no device holds anything that a gateway could still take. One that may have
/// been unplugged just now needs a while to be found again.
async fn drained(devices: &SimDevices, may_be_unplugged: bool) {
    // The last sample may be under way while sampling is being stopped.
    tokio::time::sleep(super::limits::WAIT_MAX * 2).await;
    while devices
        .snapshot()
        .iter()
        .any(|device| (device.open || may_be_unplugged) && device.holds_something())
    {
        tokio::time::sleep(DRAIN_LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::FaultRates;
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Outer {
        #[command(flatten)]
        sim: SimArgs,
    }

    #[test]
    fn options_become_a_config() {
        let line = "sim --devices 50 --rate 100 --seed 7 --uid-base ff00 --faults 0.03 --duration 1m --ring 256 --clock-ppm 40 --reset 30s --json";
        let args = Outer::try_parse_from(line.split(' ')).unwrap().sim;
        let config = args.config();
        assert_eq!(
            (config.devices, config.period.micros(), config.seed),
            (50, 10_000, 7)
        );
        assert_eq!(config.uid(1).to_string(), "000000000000ff01");
        assert_eq!(config.faults, FaultRates::even(0.03).into());
        assert_eq!(config.ring, RingSize::new(256).unwrap());
        assert_eq!(config.clock, ClockPpm::new(40).unwrap());
        assert_eq!(config.resets, Some(Duration::from_secs(30)));
        assert_eq!(args.duration, Some(Duration::from_secs(60)));
    }

    #[test]
    fn bad_options_are_refused_with_a_reason() {
        for (name, line, want) in [
            ("no rate", "sim --rate 0", "must be from 0.001 to 10000 Hz"),
            ("a word", "sim --rate fast", "is no number"),
            ("too bad a cable", "sim --faults 0.6", "from 0 to 0.5"),
            (
                "no such fault",
                "sim --faults flop=1",
                "\"flop\" is no fault",
            ),
            (
                "no such ring",
                "sim --ring 100",
                "must be one of 64, 256, 1024, 2730, 8192",
            ),
            (
                "no clock",
                "sim --clock-ppm 50001",
                "must be from 0 to 50000",
            ),
            ("no hex", "sim --uid-base xyz", "1 to 16 hex digits"),
            ("back in time", "sim --duration=-5s", "must not be negative"),
            (
                "a host",
                "sim --listen localhost:1",
                "such as 127.0.0.1:7386",
            ),
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
