//! The firmware of the QEMU board on a bad cable before the real agent: what a
//! simulated device cannot show, the board's own interrupts and its resets.

use std::fs;

use forebay_node::sim::FaultRates;
use forebay_tests::cable::{Cable, DeviceEnd, GatewayEnd, Way};
use forebay_tests::process::{Running, ask};
use forebay_tests::qemu::{Options, Qemu, board_elf};
use forebay_tests::wait;
use serde_json::Value;
use tempfile::TempDir;

use super::rig::LIMIT;

const UID: [u8; 8] = [0xf0, 0x2e, 0xba, 0x11, 0, 0, 0, 7];

struct Bench {
    qemu: Qemu,
    cable: Cable,
    agent: Running,
    dir: TempDir,
}

impl Bench {
    fn start(options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let elf = board_elf(options.machine).unwrap_or_else(|error| panic!("{error}"));
        let options = Options {
            uid: Some(UID),
            ..options
        };
        let qemu = Qemu::start(&elf, &options).unwrap_or_else(|error| panic!("{error}"));
        let link = dir.path().join("tty");
        let device = DeviceEnd::Tcp(qemu.serial_addr());
        let cable = Cable::open(device, GatewayEnd::Pty(link.clone()), 5).unwrap();
        // As fast as the UART of a real board, which QEMU does not pace.
        cable.pace(115_200);
        let text = format!(
            "[agent]\ngateway = \"gw-board\"\ndata_dir = \"gateway\"\n\
             [[device_port]]\nkind = \"serial\"\npath = \"{}\"\n",
            link.display()
        );
        fs::write(dir.path().join("forebay.toml"), text).unwrap();
        let config = dir.path().join("forebay.toml");
        let args = ["run", "--config", config.to_str().unwrap()];
        let agent = Running::forebay("run", &args, dir.path());
        Self {
            qemu,
            cable,
            agent,
            dir,
        }
    }

    fn status(&self) -> Result<Value, String> {
        let config = self.dir.path().join("forebay.toml");
        let words = ["status", "--ledger", "--json", "--config"];
        let args = [&words[..], &[config.to_str().unwrap()]].concat();
        let text = ask(&args, self.dir.path())?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// The board's entry in the status, once it holds.
    #[track_caller]
    fn until(&mut self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let found = wait::until(what, LIMIT, || {
            let ended = self.qemu.ended().unwrap();
            assert_eq!(ended, None, "{what}: {}", self.qemu.messages());
            let mut status = self.status()?;
            let device = status["devices"].get_mut(0).map(Value::take);
            let counts = || Way::BOTH.map(|way| self.cable.counts(way));
            let device = device.ok_or_else(|| format!("no device yet: {:?}", counts()))?;
            if holds(&device) {
                Ok(device)
            } else {
                Err(device.to_string())
            }
        });
        self.agent.must_run();
        found
    }

    fn goes_on(&mut self, more: u64) -> Value {
        let before = taken(&self.until("the board is known", |device| taken(device) > 0));
        self.until("readings go on", |device| taken(device) >= before + more)
    }
}

fn taken(device: &Value) -> u64 {
    device["ledger"]["taken"].as_u64().unwrap_or(0)
}

fn boots(device: &Value) -> usize {
    device["ledger"]["boots"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_board_on_a_bad_cable_loses_nothing_over_replugs() {
    let mut bench = Bench::start(Options::default());
    bench.goes_on(20);
    bench.cable.rates(FaultRates {
        noise: 0.002,
        echo: 0.02,
        ..FaultRates::even(0.002)
    });
    for _ in 0..3 {
        bench.goes_on(20);
        bench.cable.unplug();
        bench.cable.plug_in();
        bench.cable.inject(Way::ToDevice, b"AT\r\0");
    }
    bench.goes_on(20);
    bench.cable.rates(FaultRates::default());
    let device = bench.goes_on(20);
    let ledger = &device["ledger"];
    assert_eq!(boots(&device), 1, "{ledger}");
    assert_eq!(ledger["gaps"]["total"], 0, "{ledger}");
    assert_eq!(ledger["lost"], 0, "{ledger}");
}

/// The button is pressed while frames are on the line, and while it is unplugged.
#[test]
fn a_board_that_is_reset_in_a_frame_closes_each_boot() {
    let mut bench = Bench::start(Options::default());
    bench.goes_on(20);
    for resets in 1..=4 {
        let unplugged = resets % 2 == 0;
        if unplugged {
            bench.cable.unplug();
        }
        bench.qemu.system_reset().unwrap();
        if unplugged {
            bench.cable.plug_in();
        }
        bench.until("the next boot is heard", |device| boots(device) > resets);
        bench.goes_on(12);
    }
    let device = bench.goes_on(12);
    let ledger = &device["ledger"];
    assert_eq!(boots(&device), 5, "{ledger}");
    assert_ne!(ledger["closes"], false, "{ledger}");
    assert_eq!(ledger["lost"], 0, "{ledger}");
    for boot in ledger["boots"].as_array().unwrap() {
        let count = |name: &str| boot[name].as_u64().unwrap();
        let gaps = boot["gaps"]["total"].as_u64().unwrap();
        assert_eq!(count("taken"), count("readings") + gaps, "{ledger}");
    }
}

/// No sensor answers on the bus: its channel says so, the other is on time.
#[test]
fn a_board_without_its_sensor_sends_a_quality_and_the_other_channel() {
    let mut bench = Bench::start(Options {
        sensor: false,
        ..Options::default()
    });
    let channel = |device: &Value, name: &str| {
        let all = device["channels"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|channel| channel["channel"] == name)
    };
    let device = bench.until("both channels are there", |device| {
        channel(device, "temperature").is_some() && channel(device, "uptime").is_some()
    });
    let temperature = channel(&device, "temperature").unwrap();
    assert_eq!(temperature["quality"], "bus_error", "{temperature}");
    assert!(temperature["value"].is_null(), "{temperature}");
    let uptime = channel(&device, "uptime").unwrap();
    assert_eq!(uptime["quality"], "ok", "{uptime}");
}
