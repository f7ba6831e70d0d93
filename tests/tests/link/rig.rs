//! Simulated devices in this process, a bad cable before each, the agent's own
//! binary, and if asked a broker and the receiver. Every wait is for something that
//! the test can see.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_node::sim::{
    RingSize, SamplePeriod, SimConfig, SimDevices, SimLines, SimPlace, SimSnapshot,
};
use forebay_tests::cable::{Cable, DeviceEnd, GatewayEnd};
use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::process::{Running, ask};
use forebay_tests::wait;
use serde_json::Value;
use tempfile::TempDir;

/// For one thing to be seen; a machine under load may need most of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// What to put together.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) devices: u32,
    /// Samples per second of each of two channels.
    pub(crate) hz: f64,
    pub(crate) ring: u32,
    pub(crate) resets: Option<Duration>,
    /// Of devices and cables.
    pub(crate) seed: u64,
    /// Rates of the ports, as in a config.
    pub(crate) baud: &'static str,
    pub(crate) upstream: bool,
    /// Keys of the log; when any, blocks are short as well.
    pub(crate) log: &'static str,
}

pub(crate) const PLAN: Plan = Plan {
    devices: 1,
    hz: 50.0,
    ring: 2730,
    resets: None,
    seed: 1,
    baud: "115200",
    upstream: false,
    log: "",
};

/// The parts. Dropping it ends all of them.
pub(crate) struct Rig {
    pub(crate) agent: Option<Running>,
    pub(crate) upstream: Option<Running>,
    broker: Option<Mosquitto>,
    pub(crate) cables: Vec<Cable>,
    sim: SimDevices,
    config: PathBuf,
    dir: TempDir,
}

impl Rig {
    pub(crate) fn start(plan: &Plan) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sim = devices(plan);
        let cables = cables(&sim, dir.path(), plan.seed);
        let broker = plan.upstream.then(Mosquitto::start);
        let config = dir.path().join("forebay.toml");
        let text = config_text(plan, dir.path(), broker.as_ref().map(Mosquitto::port));
        fs::write(&config, text).unwrap();
        let mut rig = Self {
            agent: None,
            upstream: None,
            broker,
            cables,
            sim,
            config,
            dir,
        };
        if plan.upstream {
            rig.upstream = Some(rig.run("upstream"));
        }
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

    pub(crate) fn agent_dies(&mut self) {
        self.agent.take().unwrap().kill_9();
    }

    pub(crate) fn broker_stops(&mut self) {
        self.broker.as_mut().unwrap().stop();
    }

    pub(crate) fn broker_starts(&mut self) {
        self.broker.as_mut().unwrap().restart();
    }

    fn all_run(&mut self) {
        for part in [&mut self.agent, &mut self.upstream].into_iter().flatten() {
            part.must_run();
        }
    }

    /// Asks by the command line, as an operator does.
    pub(crate) fn ask(&self, words: &[&str]) -> Result<String, String> {
        let mut args = words.to_vec();
        args.extend(["--config", self.config.to_str().unwrap()]);
        ask(&args, self.dir.path())
    }

    pub(crate) fn ask_json(&self, words: &[&str]) -> Result<Value, String> {
        let text = self.ask(&[words, &["--json"]].concat())?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// What the agent knows of a port.
    pub(crate) fn port(&self, number: usize) -> Result<Value, String> {
        Ok(self.ask_json(&["status"])?["ports"][number].take())
    }

    /// What the agent knows of a device.
    pub(crate) fn known(&self, number: usize) -> Result<Value, String> {
        let uid = self.sim.devices()[number].uid.to_string();
        let mut status = self.ask_json(&["status", "--ledger"])?;
        let devices = status["devices"].as_array_mut().ok_or("no devices")?;
        let found = devices.iter_mut().find(|device| device["uid"] == *uid);
        found.map(Value::take).ok_or_else(|| "not known".to_owned())
    }

    /// What the receiver's ledger has of a device.
    pub(crate) fn applied(&self, number: usize) -> Result<Value, String> {
        let uid = self.sim.devices()[number].uid.to_string();
        let mut status = self.ask_json(&["upstream", "status", "--ledger"])?;
        let devices = status["ledger"]["devices"].as_array_mut();
        let devices = devices.ok_or("no devices")?;
        let found = devices.iter_mut().find(|device| device["device"] == *uid);
        found
            .map(Value::take)
            .ok_or_else(|| "not applied".to_owned())
    }

    pub(crate) fn device(&self, number: usize) -> SimSnapshot {
        self.sim.snapshot()[number]
    }

    pub(crate) fn devices(&self) -> Vec<SimSnapshot> {
        self.sim.snapshot()
    }

    /// The devices come to a state, and every part runs.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut(&[SimSnapshot]) -> bool) {
        wait::until(what, LIMIT, || {
            let all = self.sim.snapshot();
            holds(&all).then_some(()).ok_or(format!("{all:?}"))
        });
        self.all_run();
    }

    /// Each device gets `more` readings acked.
    #[track_caller]
    pub(crate) fn goes_on(&mut self, more: u64) {
        let acked = |device: &SimSnapshot| device.earlier.acked + device.acked;
        let before: Vec<u64> = self.sim.snapshot().iter().map(acked).collect();
        self.until("readings go on", |all| {
            let now = all.iter().map(acked).zip(&before);
            now.into_iter().all(|(now, before)| now >= before + more)
        });
    }

    /// No more readings; what the devices hold goes to the gateway.
    #[track_caller]
    pub(crate) fn settle(&mut self) -> Vec<SimSnapshot> {
        self.sim.stop_sampling();
        self.until("the devices hold nothing", |all| {
            all.iter()
                .all(|device| device.open && device.waiting == 0 && device.owed_boots == 0)
        });
        let all = self.devices();
        for device in &all {
            assert!(device.closes(), "{device:?}");
        }
        all
    }

    /// What each device produced is applied upstream, each once, or declared lost.
    #[track_caller]
    pub(crate) fn settle_upstream(&mut self, replay: &str) -> Vec<Value> {
        let all = self.settle();
        let numbers = 0..all.len();
        let done = numbers.map(|number| {
            let produced = all[number].produced_in_all();
            let ledger = wait::until(&format!("upstream has all; {replay}"), LIMIT, || {
                let ledger = self.applied(number)?;
                let there = ledger["produced"] == produced && ledger["missing"] == 0;
                there
                    .then(|| ledger.clone())
                    .ok_or(format!("{ledger} of {produced}"))
            });
            let count = |value: &Value| value.as_u64().unwrap();
            let applied = count(&ledger["readings"]) + count(&ledger["gaps"]["total"]);
            assert_eq!(applied, produced, "{ledger}; {replay}");
            assert_eq!(ledger["twice"], 0, "{ledger}; {replay}");
            assert_eq!(ledger["closes"], true, "{ledger}; {replay}");
            ledger
        });
        let done = done.collect();
        self.all_run();
        done
    }
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
        resets: plan.resets,
        ..SimConfig::default()
    })
    .unwrap()
}

fn link(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("tty-{number}"))
}

fn cables(sim: &SimDevices, dir: &Path, seed: u64) -> Vec<Cable> {
    let numbered = sim.devices().iter().enumerate();
    numbered
        .map(|(number, info)| {
            let SimPlace::Tcp(at) = info.place else {
                panic!("{info:?}")
            };
            let gateway = GatewayEnd::Pty(link(dir, number));
            let seed = seed.wrapping_mul(1_000) + number as u64;
            Cable::open(DeviceEnd::Tcp(at), gateway, seed).unwrap()
        })
        .collect()
}

fn config_text(plan: &Plan, dir: &Path, broker: Option<u16>) -> String {
    let mut text = String::from("[agent]\ngateway = \"gw-link\"\ndata_dir = \"gateway\"\n");
    if !plan.log.is_empty() {
        let _ = write!(text, "linger = \"5ms\"\n[log]\n{}", plan.log);
    }
    for number in 0..plan.devices as usize {
        let path = link(dir, number);
        let (path, baud) = (path.display(), plan.baud);
        let _ = write!(
            text,
            "[[device_port]]\nkind = \"serial\"\npath = \"{path}\"\nbaud = {baud}\n"
        );
    }
    if let Some(broker) = broker {
        let _ = write!(
            text,
            "[forward]\nbroker = \"127.0.0.1:{broker}\"\nbackoff_max = \"1s\"\n\
             [upstream]\ndata_dir = \"upstream\"\nbroker = \"127.0.0.1:{broker}\"\n\
             backoff_max = \"1s\"\n"
        );
    }
    text
}

impl Rig {
    /// The gateway's disk is gone.
    pub(crate) fn lose_log(&self) {
        fs::remove_dir_all(self.dir.path().join("gateway")).unwrap();
    }
}

/// Another agent, with nothing but one port of somebody else's.
pub(crate) struct Second {
    pub(crate) agent: Option<Running>,
    _dir: TempDir,
}

impl Rig {
    pub(crate) fn second_agent(port: &str) -> Second {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("forebay.toml");
        let text = format!(
            "[agent]\ngateway = \"gw-second\"\ndata_dir = \"gateway\"\n\
             [[device_port]]\nkind = \"serial\"\npath = \"{port}\"\n"
        );
        fs::write(&config, text).unwrap();
        let args = ["run", "--config", config.to_str().unwrap()];
        let agent = Running::forebay("second", &args, dir.path());
        Second {
            agent: Some(agent),
            _dir: dir,
        }
    }
}
