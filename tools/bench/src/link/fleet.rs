//! Many devices on one agent: what it costs the processor, and how long a reading waits
//! for its ack.
//!
//! The devices are the real firmware library, each behind a pty, in this process; the
//! agent is the program as it is shipped, with its log on the disk under `--dir` and a
//! rolling minute of every channel. Its time is that of the processor, all threads, after
//! a warm-up; so a busy machine tells nearly the same. The wait for an ack is by Little's
//! law: readings that wait on the devices, over those that are produced in a second.

use std::path::Path;
use std::time::{Duration, Instant};

use forebay_node::sim::{SamplePeriod, SimConfig, SimDevices, SimSnapshot};

use super::agent::{Agent, Setting, wait_until};
use super::row;
use crate::table::Row;

pub(super) const DEVICES: u32 = 200;
/// Of each device, on two channels.
const READINGS_PER_S: f64 = 100.0;
const CORE_PART_MAX: f64 = 0.25;
const WARM_UP: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn run(forebay: &Path, dir: &Path, quick: bool) -> Result<Vec<Row>, String> {
    let devices = SimDevices::spawn(SimConfig {
        devices: DEVICES,
        host_sensors: false,
        period: SamplePeriod::from_hz(READINGS_PER_S / 2.0)?,
        ..SimConfig::default()
    })
    .map_err(|error| format!("devices: {error}"))?;
    let agent = Agent::start(forebay, &dir.join("fleet"), &setting(&devices))?;
    wait_until("every device is answered", || {
        devices.snapshot().iter().all(|device| device.open)
    })?;
    std::thread::sleep(WARM_UP);
    let measured = Duration::from_secs(if quick { 5 } else { 30 });
    let before = (agent.cpu_s()?, Instant::now(), sums(&devices.snapshot()));
    let mut waiting = Vec::new();
    while before.1.elapsed() < measured {
        std::thread::sleep(LOOK);
        waiting.push(sums(&devices.snapshot()).waiting as f64);
    }
    let seconds = before.1.elapsed().as_secs_f64();
    let cpu = agent.cpu_s()? - before.0;
    let after = sums(&devices.snapshot());
    let acked = (after.acked - before.2.acked) as f64 / seconds;
    let produced = (after.produced - before.2.produced) as f64 / seconds;
    let wait_ms = waiting.iter().sum::<f64>() / waiting.len() as f64 / produced * 1e3;
    let core = cpu / seconds;
    let mut rows = vec![row(
        format!("agent's part of a core, {DEVICES} devices at 100 readings/s"),
        "ptys, group 50 ms".into(),
        format!("{:.1} %, {acked:.0} readings/s acked", core * 100.0),
        Some((core, CORE_PART_MAX)),
        "<= 25 %".into(),
    )];
    let told = |what: &str, measured| {
        row(
            what.into(),
            "ptys, group 50 ms".into(),
            measured,
            None,
            String::new(),
        )
    };
    rows.push(told(
        "from a sample to its ack, mean",
        format!("{wait_ms:.0} ms, of which a frame fills for up to 100"),
    ));
    rows.push(told(
        "lost, repeated",
        format!(
            "{} readings, {} times",
            after.gaps - before.2.gaps,
            after.resends - before.2.resends
        ),
    ));
    drop(agent);
    devices
        .stop()
        .map_err(|error| format!("devices: {error}"))?;
    Ok(rows)
}

/// A port for each device, and the log as by default.
fn setting(devices: &SimDevices) -> Setting {
    let port = |path: &std::path::PathBuf| {
        format!(
            "[[device_port]]\nkind = \"serial\"\npath = \"{}\"\n",
            path.display()
        )
    };
    Setting {
        ports: devices.paths().iter().map(port).collect(),
        group_ms: 50,
        linger_ms: 20,
    }
}

/// Sums over devices.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) produced: u64,
    pub(super) acked: u64,
    pub(super) waiting: u64,
    pub(super) gaps: u64,
    pub(super) resends: u64,
}

pub(super) fn sums(devices: &[SimSnapshot]) -> Sums {
    devices.iter().fold(Sums::default(), |sums, device| Sums {
        produced: sums.produced + device.produced,
        acked: sums.acked + device.acked,
        waiting: sums.waiting + device.waiting,
        gaps: sums.gaps + device.gaps,
        resends: sums.resends + device.resends,
    })
}
