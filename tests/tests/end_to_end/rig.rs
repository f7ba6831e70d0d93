//! The parts and what happens to them. Every wait is for something that the test
//! can see: what the device said on its line, what the agent answers, what the
//! receiver counts.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::process::{Running, ask};
use forebay_tests::qemu::{Machine, Options, Qemu, board_elf};
use forebay_tests::tap::{Heard, Tap};
use forebay_tests::wait;
use forebay_wire::ids::{BootId, DeviceUid};
use serde_json::Value;
use tempfile::TempDir;

/// For one thing to be seen; a machine under load may need most of it.
const LIMIT: Duration = Duration::from_secs(60);
/// A minute has to pass, and then its result has to be written.
const MINUTE_LIMIT: Duration = Duration::from_secs(120);
const UID: [u8; 8] = [0xf0, 0x2e, 0xba, 0x11, 0, 0, 0, 1];
const NAME: &str = "board";
const CHANNEL: &str = "temperature";

pub(crate) struct Rig {
    qemu: Qemu,
    tap: Tap,
    broker: Mosquitto,
    agent: Option<Running>,
    upstream: Option<Running>,
    config: PathBuf,
    dir: TempDir,
}

fn config(device: &str, broker: u16) -> String {
    let uid: String = UID.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        r#"
[agent]
gateway = "gw-e2e"
data_dir = "gateway"

[[device_port]]
kind = "tcp"
address = "{device}"

[[device]]
uid = "{uid}"
name = "{NAME}"

[engine]
out_of_order = "200ms"

[[window]]
name = "rolling_5s"
kind = "sliding"
size = "5s"
aggregates = ["count", "mean", "min", "max"]

[[window]]
name = "five_seconds"
kind = "tumbling"
size = "5s"
aggregates = ["count", "mean", "min", "max"]

[[window]]
name = "minute"
kind = "tumbling"
size = "1m"
aggregates = ["count", "mean", "min", "max"]

[forward]
broker = "127.0.0.1:{broker}"
backoff_max = "1s"

[upstream]
data_dir = "upstream"
broker = "127.0.0.1:{broker}"
backoff_max = "1s"
"#
    )
}

impl Rig {
    /// Starts all parts, the sensor at `degrees`.
    pub(crate) fn start(degrees: f64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let elf = board_elf(Machine::default()).unwrap_or_else(|error| panic!("{error}"));
        let options = Options {
            uid: Some(UID),
            temperature_milli_c: milli(degrees),
            ..Options::default()
        };
        let qemu = Qemu::start(&elf, &options).unwrap_or_else(|error| panic!("{error}"));
        let tap = Tap::open(qemu.serial_addr()).unwrap();
        let broker = Mosquitto::start();
        let path = dir.path().join("forebay.toml");
        fs::write(&path, config(&tap.addr().to_string(), broker.port())).unwrap();
        let mut rig = Self {
            qemu,
            tap,
            broker,
            agent: None,
            upstream: None,
            config: path,
            dir,
        };
        rig.upstream = Some(rig.run("upstream"));
        rig.agent_starts();
        rig
    }

    fn run(&self, verb: &str) -> Running {
        let args = [verb, "--config", self.config.to_str().unwrap()];
        Running::forebay(verb, &args, self.dir.path())
    }

    /// Asks by the command line, as an operator does.
    fn ask(&self, words: &[&str]) -> Result<String, String> {
        let mut args = words.to_vec();
        args.extend(["--config", self.config.to_str().unwrap()]);
        ask(&args, self.dir.path())
    }

    fn query(&self, what: &str, more: &[&str]) -> Result<Value, String> {
        let mut words = vec!["query", what, "--device", NAME, "--channel", CHANNEL];
        words.extend(more);
        words.push("--json");
        parse(&self.ask(&words)?)
    }

    pub(crate) fn agent_starts(&mut self) {
        self.agent = Some(self.run("run"));
    }

    pub(crate) fn agent_dies(&mut self) {
        self.agent.take().unwrap().kill_9();
    }

    pub(crate) fn broker_stops(&mut self) {
        self.broker.stop();
    }

    pub(crate) fn broker_starts(&mut self) {
        self.broker.restart();
    }

    /// Killed, and its disk is gone with all that it had acked.
    pub(crate) fn broker_loses_all(&mut self) {
        self.broker.kill();
        self.broker.lose_disk();
    }

    pub(crate) fn feels(&mut self, degrees: f64) {
        self.qemu.set_temperature(milli(degrees)).unwrap();
    }

    /// Returns the boot that it ended.
    pub(crate) fn device_resets(&mut self) -> (DeviceUid, BootId) {
        let before = self.heard();
        let ended = before.speaker().unwrap();
        let before = before.boots.len();
        self.qemu.system_reset().unwrap();
        wait::until("the device says Hello with another boot", LIMIT, || {
            let now = self.heard().boots.len();
            if now > before {
                Ok(())
            } else {
                Err(format!("{now} boots"))
            }
        });
        ended
    }

    pub(crate) fn device_halts(&mut self) {
        self.qemu.pause().unwrap();
    }

    /// The temperature is what an operator sees: in the newest reading, in the
    /// rolling average, and in a closed window.
    #[track_caller]
    pub(crate) fn sees(&mut self, degrees: f64) {
        wait::until("the newest reading follows", LIMIT, || {
            let answer = self.query("readings", &[])?;
            let newest = last(&answer["readings"], |_| true)?;
            let followed = newest["value"].as_f64() == Some(degrees);
            followed.then_some(()).ok_or(newest.to_string())
        });
        wait::until("the rolling average follows", LIMIT, || {
            let answer = self.query("rolling", &["--window", "5s"])?;
            let followed = answer["mean"].as_f64() == Some(degrees);
            followed.then_some(()).ok_or(answer.to_string())
        });
        wait::until("a closed window follows", LIMIT, || {
            let window = self.closed_window("5s")?;
            let is = |key: &str| window[key].as_f64() == Some(degrees);
            let followed = is("min") && is("mean") && is("max");
            followed.then_some(()).ok_or(window.to_string())
        });
        self.all_run();
    }

    /// The newest window of this size in which nothing can change.
    fn closed_window(&self, size: &str) -> Result<Value, String> {
        let answer = self.query("rollup", &["--window", size])?;
        last(&answer["windows"], |window| window["preliminary"] == false)
    }

    pub(crate) fn a_minute_closes(&mut self) {
        wait::until("a full minute is there", MINUTE_LIMIT, || {
            self.closed_window("1m")
        });
        self.all_run();
    }

    /// The device produces `more` readings, whoever listens.
    pub(crate) fn device_goes_on(&self, more: usize) {
        let start = self.produced();
        wait::until("the device goes on", LIMIT, || {
            let now = self.produced();
            if now >= start + more {
                Ok(())
            } else {
                Err(format!("{} more", now - start))
            }
        });
    }

    /// The gateway stores `more` readings, whether or not anybody takes them.
    pub(crate) fn gateway_goes_on(&mut self, more: u64) {
        let start = wait::until("the agent answers", LIMIT, || self.stored());
        wait::until("the gateway goes on", LIMIT, || {
            let now = self.stored()?;
            if now >= start + more {
                Ok(())
            } else {
                Err(format!("{} more", now - start))
            }
        });
        self.all_run();
    }

    fn stored(&self) -> Result<u64, String> {
        let status = parse(&self.ask(&["status", "--json"])?)?;
        status["stored"].as_u64().ok_or_else(|| status.to_string())
    }

    /// The receiver has applied what the device had produced when this was called.
    pub(crate) fn upstream_catches_up(&mut self) {
        let wanted = self.produced() as u64;
        wait::until("the receiver catches up", LIMIT, || {
            let status = parse(&self.ask(&["upstream", "status", "--json"])?)?;
            let count = |key: &str| status[key].as_u64().unwrap_or(0);
            let accounted = count("readings") + count("gap_readings");
            if accounted >= wanted {
                Ok(())
            } else {
                Err(format!("{accounted} of {wanted}: {status}"))
            }
        });
        self.all_run();
    }

    fn all_run(&mut self) {
        for part in [&mut self.agent, &mut self.upstream].into_iter().flatten() {
            part.must_run();
        }
    }

    pub(crate) fn heard(&self) -> Heard {
        self.tap.heard()
    }

    fn produced(&self) -> usize {
        let heard = self.heard();
        heard
            .boots
            .values()
            .map(|boot| boot.readings.union(&boot.gaps).count())
            .sum()
    }

    /// Ends the receiver and reads what it applied.
    pub(crate) fn export(&mut self) -> Vec<Value> {
        for part in [self.agent.take(), self.upstream.take()]
            .into_iter()
            .flatten()
        {
            let status = part.end_by("TERM");
            assert!(status.success(), "{status}");
        }
        let rows = self.ask(&["upstream", "export"]).unwrap();
        rows.lines().map(|line| parse(line).unwrap()).collect()
    }
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}

/// The last line of a list that is as wanted.
fn last(lines: &Value, wanted: impl Fn(&Value) -> bool) -> Result<Value, String> {
    let lines = lines.as_array().ok_or("no lines")?;
    let found = lines.iter().rev().find(|line| wanted(line));
    found.cloned().ok_or_else(|| "no such line yet".to_owned())
}

fn milli(degrees: f64) -> i32 {
    (degrees * 1000.0) as i32
}
