//! All parts of a run, wired: devices, broker and receiver in this process, the agent as
//! a child, and what devices saw acked. Decides nothing about the run.
//!
//! Always holds: nothing listens off loopback; all ends when this is dropped.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::child::AgentChild;
use super::limits::{DEVICES, DRAIN_MAX, LOOK, RATE_HZ, RING, START_MAX};
use super::place::Place;
use super::plan::Plan;
use super::witness::Witness;
use crate::config::{Config, SyncMode};
use crate::mqtt::broker::EmbeddedBroker;
use crate::ports::Say;
use crate::sim::{
    CableFaults, FaultRates, RingSize, SamplePeriod, SimConfig, SimDevices, SimLines, SimSnapshot,
    Spell,
};
use crate::upstream::{UpstreamProcess, UpstreamSnapshot};

/// Uid of the first device.
const UID_BASE: u64 = 0xf0be_5e1f_0000_0001;

/// Why a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// Ctrl-C, or a polite signal.
    Asked,
    Failed(String),
}

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

/// See the module's text. Fields end in their order: first the agent.
#[derive(Debug)]
pub(super) struct Bench {
    agent: Option<AgentChild>,
    devices: SimDevices,
    upstream: Option<UpstreamProcess>,
    _broker: EmbeddedBroker,
    runtime: Runtime,
    /// Sockets, links and the config: their paths must be short.
    meet: TempDir,
    pub(super) witness: Witness,
    asked_to_stop: Arc<AtomicBool>,
    /// Duplicates as the agents said last, all lives of them.
    duplicates: u64,
    duplicates_before: u64,
}

/// What a cable does under `--link-chaos`.
fn chaos() -> Result<CableFaults, String> {
    let spell = |lasts_ms, each_s| {
        Spell::new(Duration::from_millis(lasts_ms), Duration::from_secs(each_s)).map(Some)
    };
    Ok(CableFaults {
        rates: FaultRates {
            flip: 0.0005,
            drop: 0.0005,
            insert: 0.0002,
            double: 0.0005,
            echo: 0.001,
            noise: 0.0002,
        },
        stall: spell(300, 5)?,
        unplug: spell(700, 8)?,
    })
}

fn devices(plan: &Plan, meet: &Path) -> Result<SimDevices, String> {
    let config = SimConfig {
        devices: DEVICES,
        host_sensors: false,
        period: SamplePeriod::from_hz(RATE_HZ)?,
        seed: plan.seed,
        uid_base: UID_BASE,
        lines: SimLines::Ptys {
            link: Some(meet.join("device")),
        },
        faults: if plan.link_chaos {
            chaos()?
        } else {
            CableFaults::default()
        },
        ring: RingSize::new(RING)?,
        ..SimConfig::default()
    };
    SimDevices::spawn(config).map_err(|error| format!("no simulated device: {error}"))
}

fn config_text(plan: &Plan, place: &Place, devices: &SimDevices, broker: u16) -> String {
    let sync = match plan.sync {
        SyncMode::Group(time) => format!("\"group\"\ngroup = \"{}us\"", time.as_micros()),
        SyncMode::EveryBlock => "\"every_block\"".to_owned(),
        SyncMode::None => "\"none\"".to_owned(),
    };
    // A clock that nobody trusts is the doctor's matter.
    let mut text = format!(
        "[agent]\ngateway = \"selftest\"\ndata_dir = {agent}\nclock = \"always\"\n\
         [log]\nsync = {sync}\nreserve = \"0B\"\nballast = \"1MiB\"\n\
         [query]\nsocket = \"agent.sock\"\n\
         [forward]\nbroker = \"127.0.0.1:{broker}\"\n\
         [upstream]\nbroker = \"127.0.0.1:{broker}\"\ndata_dir = {upstream}\nsocket = \"upstream.sock\"\n\
         [[window]]\nname = \"second\"\nkind = \"tumbling\"\nsize = \"1s\"\n\
         aggregates = [\"count\", \"mean\"]\n",
        agent = quoted(&place.agent_dir()),
        upstream = quoted(&place.upstream_dir()),
    );
    for path in devices.paths() {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "[[device_port]]\nkind = \"serial\"\npath = {}\n",
            quoted(&path)
        );
    }
    text
}

/// A path as TOML.
fn quoted(path: &Path) -> String {
    Value::from(path.display().to_string()).to_string()
}

impl Bench {
    /// Starts all but the agent.
    ///
    /// # Errors
    /// A sentence: what cannot be had.
    pub(super) fn new(plan: &Plan, place: &Place) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| format!("no threads: {error}"))?;
        let asked_to_stop = Arc::new(AtomicBool::new(false));
        let meet = tempfile::Builder::new().prefix("forebay-").tempdir();
        let meet = meet.map_err(|error| format!("no temporary directory: {error}"))?;
        let entered = runtime.enter();
        listen_for_end(&runtime, &asked_to_stop)?;
        let broker = EmbeddedBroker::start().map_err(|error| format!("no broker: {error}"))?;
        let devices = devices(plan, meet.path())?;
        let text = config_text(plan, place, &devices, broker.port());
        let file = meet.path().join("agent.toml");
        fs::write(&file, &text).map_err(|error| format!("{}: {error}", file.display()))?;
        let config = Config::from_text(&file, &text);
        let config = config.map_err(|error| format!("the self-test's own config: {error}"))?;
        // What it says now and then is of a broker that starts at the same time.
        let say: Say = Arc::new(|_: &str| {});
        let upstream = config.upstream().map_err(|error| error.to_string())?;
        let upstream = UpstreamProcess::spawn(upstream, &say)?;
        drop(entered);
        Ok(Self {
            agent: None,
            devices,
            upstream: Some(upstream),
            _broker: broker,
            runtime,
            meet,
            witness: Witness::default(),
            asked_to_stop,
            duplicates: 0,
            duplicates_before: 0,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.meet.path().join(name)
    }

    /// Starts an agent, and waits until a device sees a reading acked that was not
    /// before. Gives how long that took.
    ///
    /// # Errors
    /// It ends, does not ack, or we are told to end.
    pub(super) fn start_agent(&mut self) -> Result<Duration, Stop> {
        let since = Instant::now();
        self.duplicates_before = self.duplicates;
        let (config, socket) = (self.path("agent.toml"), self.path("agent.sock"));
        let said = self.path("agent.log");
        self.see();
        let before = self.witness.total();
        self.agent = Some(AgentChild::start(&config, &socket, &said)?);
        while self.witness.total() <= before {
            if since.elapsed() > START_MAX {
                let text = format!(
                    "no reading was acked within {} s of a start",
                    START_MAX.as_secs()
                );
                return Err(Stop::Failed(text));
            }
            self.pause(LOOK)?;
        }
        Ok(since.elapsed())
    }

    /// Lets time pass; the agent must run meanwhile if there is one.
    ///
    /// # Errors
    /// It ended, or we are told to end.
    pub(super) fn pause(&mut self, time: Duration) -> Result<(), Stop> {
        let until = Instant::now() + time;
        loop {
            self.see();
            if self.asked_to_stop.load(Ordering::Relaxed) {
                return Err(Stop::Asked);
            }
            if let Some(words) = self.agent.as_mut().and_then(AgentChild::ended) {
                return Err(Stop::Failed(words));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK));
        }
    }

    /// Takes notice of what devices say.
    pub(super) fn see(&mut self) -> Vec<SimSnapshot> {
        let devices = self.devices.snapshot();
        self.witness.see(&devices);
        devices
    }

    /// Notes what the agent says of duplicates; gives all that it says.
    pub(super) fn ask(&mut self) -> Option<Value> {
        let status = self.agent.as_ref()?.status().ok()?;
        let now = status["duplicates"].as_u64().unwrap_or_default();
        self.duplicates = self.duplicates_before + now;
        Some(status)
    }

    pub(super) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Ends the agent as a power cut does.
    pub(super) fn kill_agent(&mut self) {
        self.ask();
        if let Some(agent) = self.agent.take() {
            agent.kill();
        }
    }

    /// Ends the agent as an operator does.
    ///
    /// # Errors
    /// A sentence: it does not end, or not well.
    pub(super) fn end_agent(&mut self) -> Result<(), String> {
        self.ask();
        self.agent.take().map_or(Ok(()), AgentChild::end)
    }

    pub(super) fn upstream(&self) -> UpstreamSnapshot {
        let upstream = self.upstream.as_ref();
        upstream.map(UpstreamProcess::snapshot).unwrap_or_default()
    }

    /// Devices take no more readings; waits until all that they took has arrived.
    ///
    /// # Errors
    /// The agent ends, or we are told to end. That not all arrives is no error here.
    pub(super) fn drain(&mut self) -> Result<(), Stop> {
        self.devices.stop_sampling();
        let since = Instant::now();
        // The last sample may be under way.
        self.pause(2 * crate::sim::limits::WAIT_MAX)?;
        while since.elapsed() < DRAIN_MAX {
            let devices = self.see();
            let sent = devices.iter().all(|device| device.waiting == 0);
            if sent && self.has_arrived() {
                return Ok(());
            }
            self.pause(LOOK * 5)?;
        }
        Ok(())
    }

    /// Whether the receiver has all that the agent has.
    fn has_arrived(&mut self) -> bool {
        let Some(status) = self.ask() else {
            return false;
        };
        let number = |value: &Value| value.as_u64();
        let stored = number(&status["stored"]);
        let gaps = number(&status["gaps"]["total"]);
        let backlog = number(&status["forward"]["backlog_readings"]);
        let upstream = self.upstream();
        backlog == Some(0)
            && status["readings_behind"] == 0
            && stored.is_some_and(|stored| upstream.readings >= stored)
            && gaps.is_some_and(|gaps| upstream.gap_readings >= gaps)
    }

    /// Ends the receiver and gives its last figures.
    pub(super) fn end_upstream(&mut self) -> UpstreamSnapshot {
        match self.upstream.take() {
            Some(upstream) => self.runtime.block_on(upstream.stop()),
            None => UpstreamSnapshot::default(),
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // First, so that nothing that it says finds nobody.
        self.agent = None;
        self.end_upstream();
    }
}

/// The first polite signal is noted, the second ends us at once.
fn listen_for_end(runtime: &Runtime, asked: &Arc<AtomicBool>) -> Result<(), String> {
    let signals = |error| format!("no signal handler: {error}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(signals)?;
    let asked = Arc::clone(asked);
    runtime.spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        asked.store(true, Ordering::Relaxed);
    });
    Ok(())
}
