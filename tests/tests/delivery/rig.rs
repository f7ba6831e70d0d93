//! Simulated devices in this process, the agent and the receiver as real binaries, and
//! the scripted broker between them. Every wait is for something that the test can see.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_node::local;
use forebay_node::sim::{
    RingSize, SamplePeriod, SimConfig, SimDevices, SimLines, SimPlace, SimSnapshot,
};
use forebay_tests::process::{Running, ask};
use forebay_tests::scripted::Broker;
use forebay_tests::tap::{Boot, Heard};
use forebay_tests::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

/// For one thing to be seen; a machine under load may need most of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// For all to have arrived: probes come at twice the distance each time.
pub(crate) const SETTLE_LIMIT: Duration = Duration::from_secs(150);
const GATEWAY: &str = "gw-delivery";

/// What to put together.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) devices: u32,
    /// Samples per second of each of two channels.
    pub(crate) hz: f64,
    pub(crate) ring: u32,
    pub(crate) partitions: u64,
    /// More lines of `[forward]`, of `[upstream]`, and more sections.
    pub(crate) forward: String,
    pub(crate) upstream: String,
    /// More lines of `[log]`.
    pub(crate) log: String,
    pub(crate) sections: String,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 1,
            devices: 12,
            hz: 20.0,
            ring: 8192,
            partitions: 1,
            forward: "ack_timeout = \"500ms\"\nbackoff_max = \"200ms\"\n".to_owned(),
            upstream: "backoff_max = \"200ms\"\n".to_owned(),
            log: String::new(),
            sections: String::new(),
        }
    }
}

/// The parts. Dropping it ends all of them.
pub(crate) struct Rig {
    pub(crate) agent: Option<Running>,
    pub(crate) receiver: Option<Running>,
    pub(crate) broker: Broker,
    sim: SimDevices,
    config: PathBuf,
    dir: TempDir,
}

/// In memory where there is such a place: syncs cost most of the time, and a kill
/// proves nothing about them.
fn home() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.unwrap()
}

impl Rig {
    pub(crate) fn start(plan: &Plan) -> Self {
        let dir = home();
        let sim = devices(plan);
        let broker = Broker::start(plan.seed);
        let config = dir.path().join("forebay.toml");
        fs::write(&config, config_text(plan, &sim, broker.port())).unwrap();
        let mut rig = Self {
            agent: None,
            receiver: None,
            broker,
            sim,
            config,
            dir,
        };
        rig.receiver_starts();
        rig.agent_starts();
        rig
    }

    fn run(&self, verb: &str) -> Running {
        let args = [verb, "--config", self.config.to_str().unwrap()];
        Running::forebay(verb, &args, self.dir.path())
    }

    pub(crate) fn agent_starts(&mut self) {
        self.agent = Some(self.run("run"));
    }

    pub(crate) fn receiver_starts(&mut self) {
        self.receiver = Some(self.run("upstream"));
    }

    pub(crate) fn agent_dies(&mut self) {
        self.agent.take().unwrap().kill_9();
    }

    pub(crate) fn receiver_dies(&mut self) {
        self.receiver.take().unwrap().kill_9();
    }

    /// Fails the test when a process that should run does not.
    pub(crate) fn all_run(&mut self) {
        for part in [&mut self.agent, &mut self.receiver].into_iter().flatten() {
            part.must_run();
        }
    }

    /// Asks the agent by its socket.
    pub(crate) fn agent_says(&self) -> Result<Value, String> {
        let socket = self.dir.path().join("gateway/forebay.sock");
        local::ask(&socket, &json!({ "query": "status" })).map_err(|failure| failure.to_string())
    }

    /// Asks the receiver by its socket.
    pub(crate) fn receiver_says(&self) -> Result<Value, String> {
        let socket = self.dir.path().join("upstream/upstream.sock");
        local::ask(&socket, &json!({ "status": {} })).map_err(|failure| failure.to_string())
    }

    /// Asks by the command line, as an operator does.
    pub(crate) fn ask(&self, words: &[&str]) -> Result<String, String> {
        let mut args = words.to_vec();
        args.extend(["--config", self.config.to_str().unwrap()]);
        ask(&args, self.dir.path())
    }

    pub(crate) fn produced(&self) -> u64 {
        let all = self.sim.snapshot();
        all.iter().map(SimSnapshot::produced_in_all).sum()
    }

    /// Readings that the gateway has on its disk, as the devices know.
    pub(crate) fn acked(&self) -> u64 {
        let all = self.sim.snapshot();
        all.iter().map(|device| device.acked).sum()
    }

    /// Readings that the devices had to drop.
    pub(crate) fn lost(&self) -> u64 {
        let all = self.sim.snapshot();
        all.iter().map(|device| device.gaps).sum()
    }

    /// What the gateway's log takes on disk.
    pub(crate) fn log_bytes(&self) -> u64 {
        bytes_below(&self.dir.path().join("gateway"))
    }

    /// The gateway forwards and the receiver is there.
    #[track_caller]
    pub(crate) fn connected(&mut self) {
        wait::until("both are connected", LIMIT, || {
            let forward = self.agent_says()?["forward"].take();
            let both = forward["connected"] == true && forward["receiver_online"] == true;
            both.then_some(()).ok_or_else(|| forward.to_string())
        });
        self.all_run();
    }

    pub(crate) fn sampling_stops(&self) {
        self.sim.stop_sampling();
    }

    /// The devices produce `more` readings, whoever takes them.
    #[track_caller]
    pub(crate) fn goes_on(&mut self, more: u64) {
        let enough = self.produced() + more;
        wait::until("the devices go on", LIMIT, || {
            let now = self.produced();
            (now >= enough)
                .then_some(())
                .ok_or(format!("{now} of {enough}"))
        });
        self.all_run();
    }

    /// No more readings; all that was produced is applied, or declared lost, and the
    /// gateway knows that it is.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        self.sim.stop_sampling();
        wait::until("the devices hold nothing", LIMIT, || {
            let all = self.sim.snapshot();
            let rests = |device: &SimSnapshot| device.open && device.waiting == 0;
            all.iter()
                .all(rests)
                .then_some(())
                .ok_or(format!("{all:?}"))
        });
        let produced = self.produced();
        wait::until("all has arrived", SETTLE_LIMIT, || {
            let forward = self.agent_says()?["forward"].take();
            let receiver = self.receiver_says()?;
            let of = |value: &Value, key: &str| value[key].as_u64().unwrap_or(u64::MAX);
            // What is declared missing is judged by its offsets.
            let applied = ["readings", "gap_readings", "missing"]
                .map(|key| of(&receiver, key))
                .iter()
                .sum::<u64>();
            let there = applied >= produced
                && of(&receiver, "holes") == 0
                && of(&forward, "unconfirmed") == 0;
            there
                .then_some(())
                .ok_or_else(|| format!("{applied} of {produced}; {forward}; {receiver}"))
        });
        self.all_run();
    }

    /// What the devices produced: ordinals from 0 on, each.
    pub(crate) fn heard(&self) -> Heard {
        let mut heard = Heard::default();
        for device in self.sim.snapshot() {
            let boot = Boot {
                readings: (0..device.produced).collect(),
                ..Boot::default()
            };
            heard.boots.insert((device.uid, device.boot), boot);
        }
        heard
    }

    /// Ends both processes as an operator does.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        for part in [self.agent.take(), self.receiver.take()]
            .into_iter()
            .flatten()
        {
            let status = part.end_by("TERM");
            assert!(status.success(), "{status}");
        }
    }

    /// What the receiver holds; it must not run.
    pub(crate) fn export(&self) -> Vec<Value> {
        let rows = self.ask(&["upstream", "export"]).unwrap();
        let parse =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        rows.lines().map(parse).collect()
    }
}

/// Length of all files below a folder; one that goes meanwhile has none.
fn bytes_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

fn devices(plan: &Plan) -> SimDevices {
    SimDevices::spawn(SimConfig {
        devices: plan.devices,
        host_sensors: false,
        period: SamplePeriod::from_hz(plan.hz).unwrap(),
        seed: plan.seed,
        lines: SimLines::Tcp {
            listen: "127.0.0.1:0".parse().unwrap(),
        },
        ring: RingSize::new(plan.ring).unwrap(),
        ..SimConfig::default()
    })
    .unwrap()
}

fn config_text(plan: &Plan, sim: &SimDevices, broker: u16) -> String {
    let Plan {
        partitions,
        forward,
        upstream,
        log,
        sections,
        ..
    } = plan;
    let mut text = format!(
        "[agent]\ngateway = \"{GATEWAY}\"\ndata_dir = \"gateway\"\nlinger = \"5ms\"\n\
         partitions = {partitions}\n[log]\ngroup = \"1ms\"\n{log}\
         [[forward]]\nbroker = \"127.0.0.1:{broker}\"\n{forward}\
         [upstream]\ndata_dir = \"upstream\"\nbroker = \"127.0.0.1:{broker}\"\n{upstream}\
         [engine]\nout_of_order = \"100ms\"\n\
         [[window]]\nname = \"second\"\nkind = \"tumbling\"\nsize = \"1s\"\n\
         aggregates = [\"count\", \"mean\"]\n{sections}"
    );
    for info in sim.devices() {
        let SimPlace::Tcp(at) = info.place else {
            panic!("{info:?}")
        };
        let _ = write!(
            text,
            "[[device_port]]\nkind = \"tcp\"\naddress = \"{at}\"\n"
        );
    }
    text
}
