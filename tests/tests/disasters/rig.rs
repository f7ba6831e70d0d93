//! Simulated devices in this process, agent and receiver as real binaries, Mosquitto
//! between them, and their disks in hand. Every wait is for something that is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use forebay_node::local;
use forebay_node::sim::{
    RingSize, SamplePeriod, SimConfig, SimDevices, SimLines, SimPlace, SimSnapshot,
};
use forebay_tests::judge::hex;
use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::namespace::Namespace;
use forebay_tests::process::{Running, ask, forebay_bin};
use forebay_tests::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);
const SETTLE_LIMIT: Duration = Duration::from_secs(150);
const DEVICES: u32 = 4;
const HZ: f64 = 50.0;
/// Holds all that a device makes while nobody listens.
const RING: u32 = 8192;

/// Where a device was at some moment: ordinals below are produced.
pub(super) type Produced = BTreeMap<(String, u64), u64>;

pub(super) struct Rig {
    pub(super) broker: Mosquitto,
    agent: Option<Running>,
    receiver: Option<Running>,
    sim: SimDevices,
    dir: TempDir,
    /// Where broker and receiver are, if not here.
    apart: Option<Namespace>,
}

impl Rig {
    /// All parts run.
    pub(super) fn start() -> Self {
        Self::start_with(None)
    }

    /// All parts run, broker and receiver at the far end of a link that can be cut.
    pub(super) fn start_apart() -> Self {
        Self::start_with(Some(Namespace::open()))
    }

    fn start_with(apart: Option<Namespace>) -> Self {
        let sim = SimDevices::spawn(SimConfig {
            devices: DEVICES,
            host_sensors: false,
            period: SamplePeriod::from_hz(HZ).unwrap(),
            seed: 1,
            lines: SimLines::Tcp {
                listen: "127.0.0.1:0".parse().unwrap(),
            },
            ring: RingSize::new(RING).unwrap(),
            ..SimConfig::default()
        })
        .unwrap();
        let all_queued = "max_queued_messages 0";
        let broker = match &apart {
            None => Mosquitto::start_with(all_queued),
            Some(namespace) => Mosquitto::start_within(namespace, all_queued),
        };
        let mut rig = Self {
            broker,
            agent: None,
            receiver: None,
            sim,
            dir: tempfile::tempdir().unwrap(),
            apart,
        };
        rig.receiver_starts();
        rig.agent_starts("gateway");
        rig
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The config of a gateway with this disk.
    fn config(&self, disk: &str) -> PathBuf {
        let broker = format!("{}:{}", self.broker.address(), self.broker.port());
        let mut text = format!(
            "[agent]\ngateway = \"gw\"\ndata_dir = \"{disk}\"\nlinger = \"5ms\"\n\
             [log]\ngroup = \"5ms\"\n\
             [query]\nsocket = \"agent.sock\"\n\
             [forward]\nbroker = \"{broker}\"\nack_timeout = \"1s\"\nbackoff_max = \"200ms\"\n\
             [upstream]\ndata_dir = \"upstream\"\nsocket = \"upstream.sock\"\n\
             broker = \"{broker}\"\nbackoff_max = \"200ms\"\n"
        );
        for info in self.sim.devices() {
            let SimPlace::Tcp(at) = info.place else {
                panic!("{info:?}")
            };
            let _ = write!(
                text,
                "[[device_port]]\nkind = \"tcp\"\naddress = \"{at}\"\n"
            );
        }
        let file = self.path(&format!("{disk}.toml"));
        fs::write(&file, text).unwrap();
        file
    }

    fn run(&self, mut command: Command, verb: &str, disk: &str) -> Running {
        command.args([verb, "--config"]).arg(self.config(disk));
        Running::start(verb, command, self.dir.path())
    }

    /// Starts the agent on a disk of this name.
    pub(super) fn agent_starts(&mut self, disk: &str) {
        let command = Command::new(forebay_bin());
        self.agent = Some(self.run(command, "run", disk));
    }

    pub(super) fn receiver_starts(&mut self) {
        let command = match &self.apart {
            None => Command::new(forebay_bin()),
            Some(namespace) => namespace.command(forebay_bin().to_str().unwrap()),
        };
        self.receiver = Some(self.run(command, "upstream", "gateway"));
    }

    /// The link to broker and receiver is cut, and the agent has found out.
    #[track_caller]
    pub(super) fn link_is_cut(&self) {
        self.apart.as_ref().unwrap().cut();
        self.forward_says("the agent gives the connection up", |forward| {
            forward["connected"] == false
        });
    }

    pub(super) fn link_is_mended(&self) {
        self.apart.as_ref().unwrap().mend();
    }

    /// What the agent's destination says becomes so.
    #[track_caller]
    pub(super) fn forward_says(&self, what: &str, is: impl Fn(&Value) -> bool) {
        wait::until(what, LIMIT, || {
            let forward = self.agent_says()?["forward"].take();
            is(&forward)
                .then_some(())
                .ok_or_else(|| forward.to_string())
        });
    }

    pub(super) fn agent_dies(&mut self) {
        self.agent.take().unwrap().kill_9();
    }

    pub(super) fn receiver_dies(&mut self) {
        self.receiver.take().unwrap().kill_9();
    }

    pub(super) fn agent_says(&self) -> Result<Value, String> {
        local::ask(&self.path("agent.sock"), &json!({ "query": "status" }))
            .map_err(|failure| failure.to_string())
    }

    pub(super) fn receiver_says(&self) -> Result<Value, String> {
        local::ask(&self.path("upstream.sock"), &json!({ "status": {} }))
            .map_err(|failure| failure.to_string())
    }

    pub(super) fn produced(&self) -> Produced {
        let all = self.sim.snapshot().into_iter();
        all.map(|one| {
            let boot = (hex(&one.uid.0), u64::from(one.boot.0));
            (boot, one.produced)
        })
        .collect()
    }

    fn total(&self) -> u64 {
        self.produced().values().sum()
    }

    /// The devices produce `more` readings, whoever takes them.
    #[track_caller]
    pub(super) fn goes_on(&mut self, more: u64) {
        let enough = self.total() + more;
        wait::until("the devices go on", LIMIT, || {
            let now = self.total();
            (now >= enough)
                .then_some(())
                .ok_or(format!("{now} of {enough}"))
        });
        self.all_run();
    }

    fn all_run(&mut self) {
        for part in [&mut self.agent, &mut self.receiver].into_iter().flatten() {
            part.must_run();
        }
    }

    /// All that is produced until now is applied: from here on it cannot be lost. Gives
    /// what that was.
    #[track_caller]
    pub(super) fn safe(&mut self) -> Produced {
        let before = self.produced();
        self.confirmed_since();
        before
    }

    /// The agent has forwarded and been confirmed what it took since a look.
    #[track_caller]
    fn confirmed_since(&mut self) {
        // What devices hold now is in the log when they have handed over as much more.
        self.goes_on(200);
        wait::until("what was taken is applied", SETTLE_LIMIT, || {
            let status = self.agent_says()?;
            let open = self.sim.snapshot().iter().all(|device| device.open);
            let rest = status["forward"]["unconfirmed"].as_u64();
            (open && rest.is_some_and(|rest| rest < 100))
                .then_some(())
                .ok_or(format!("{}", status["forward"]))
        });
        // What was unconfirmed at that look is younger than the readings of before.
        self.goes_on(200);
        self.all_run();
    }

    /// No more readings; devices hold nothing, and the receiver has all that the running
    /// agent has.
    #[track_caller]
    pub(super) fn settle(&mut self) {
        self.sim.stop_sampling();
        wait::until("the devices hold nothing", LIMIT, || {
            let all = self.sim.snapshot();
            let rests = |device: &SimSnapshot| device.open && device.waiting == 0;
            all.iter()
                .all(rests)
                .then_some(())
                .ok_or(format!("{all:?}"))
        });
        wait::until("all is confirmed", SETTLE_LIMIT, || {
            let forward = self.agent_says()?["forward"].take();
            let receiver = self.receiver_says()?;
            let none = |value: &Value| value.as_u64() == Some(0);
            (none(&forward["unconfirmed"]) && none(&receiver["holes"]))
                .then_some(())
                .ok_or_else(|| format!("{forward}; {receiver}"))
        });
        self.all_run();
    }

    /// Ends both as an operator does; gives what the receiver holds.
    #[track_caller]
    pub(super) fn rows(&mut self) -> Vec<Value> {
        for part in [self.agent.take(), self.receiver.take()]
            .into_iter()
            .flatten()
        {
            let status = part.end_by("TERM");
            assert!(status.success(), "{status}");
        }
        let config = self.config("gateway");
        let args = ["upstream", "export", "--config", config.to_str().unwrap()];
        let rows = ask(&args, self.dir.path()).unwrap();
        let parse =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        rows.lines().map(parse).collect()
    }
}

/// Copies a disk.
pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &to);
        } else if kind.is_file() {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Readings upstream by device and boot, with how often each is there.
pub(super) fn readings(rows: &[Value]) -> BTreeMap<(String, u64), BTreeMap<u64, u32>> {
    let mut out: BTreeMap<_, BTreeMap<u64, u32>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row["stream"] == "readings") {
        let record = &row["record"];
        if let (Some(device), Some(boot), Some(ordinal)) = (
            record["device"].as_str(),
            record["boot"].as_u64(),
            record["ordinal"].as_u64(),
        ) {
            let boot = out.entry((device.to_owned(), boot)).or_default();
            *boot.entry(ordinal).or_default() += 1;
        }
    }
    out
}

/// Ordinals that were produced and are not upstream, but for those in `lost`: what a
/// gateway had acked and took with its disk.
#[track_caller]
pub(super) fn check_none_missing(
    rows: &[Value],
    produced: &Produced,
    lost: &[(Produced, Produced)],
) {
    let upstream = readings(rows);
    let none = BTreeMap::new();
    for (boot, end) in produced {
        let there = upstream.get(boot).unwrap_or(&none);
        let may_be_lost = |ordinal: &u64| {
            lost.iter().any(|(from, to)| {
                from.get(boot).is_some_and(|from| from <= ordinal)
                    && to.get(boot).is_some_and(|to| ordinal < to)
            })
        };
        let missing: BTreeSet<u64> = (0..*end)
            .filter(|ordinal| !there.contains_key(ordinal) && !may_be_lost(ordinal))
            .collect();
        assert!(
            missing.is_empty(),
            "{boot:?} of {end}: {} missing, from {:?} to {:?}; may be lost: {lost:?}",
            missing.len(),
            missing.first(),
            missing.last()
        );
    }
}

/// No offset of one opening is there twice.
#[track_caller]
pub(super) fn check_no_offset_twice(rows: &[Value]) {
    let mut seen = BTreeSet::new();
    for row in rows {
        let place = ["log_id", "stream", "partition", "epoch", "nonce", "offset"]
            .map(|key| row[key].to_string());
        assert!(seen.insert(place), "twice: {row}");
    }
}
