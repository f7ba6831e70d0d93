//! Devices played by hand: what they say, what they are told, and what operators hear.

use forebay_wire::SCHEMA_HASH;
use forebay_wire::codec::GatewayMessage;
use forebay_wire::codec::PROTOCOL_MINOR;
use forebay_wire::deframer::Deframer;
use forebay_wire::ids::{ChannelNo, DeviceUid};
use forebay_wire::message::{ChannelInfo, CmdResult, CmdStatus, ResetCause};
use forebay_wire::settings::Settings as WireSettings;

use super::*;
use crate::limits::{
    COMMAND_EACH_US, COMMAND_SENDS_MAX, COMMANDS_PER_DEVICE_MAX, CONFIG_EACH_US, CONFIG_SENDS_MAX,
    DEVICE_ANSWER_US, PORT_NOTE_EACH_US, SETS_WAITING_MAX,
};
use crate::query::Reply;

const UID: DeviceUid = DeviceUid([7; 8]);
const NAME: &str = "0707070707070707";

/// The table, and what it wanted since it was last asked.
struct Bench {
    devices: Devices,
    now: u64,
    boot: u32,
    asked: u64,
    entries: Vec<Entry>,
}

/// What an operator hears.
type Said = Result<Value, String>;

/// What a device is told.
#[derive(Debug, PartialEq)]
enum Told {
    Cmd(u32, Operation),
    /// The whole of a config, when its last chunk has come.
    Config(u32, WireSettings),
}

impl Bench {
    fn new() -> Self {
        Self {
            devices: Devices::restore(&[], 100).0,
            now: 1,
            boot: 5,
            asked: 0,
            entries: Vec::new(),
        }
    }

    fn hello(&self) -> Hello {
        Hello {
            uid: UID,
            boot: BootId(self.boot),
            protocol_minor: PROTOCOL_MINOR,
            schema_hash: SCHEMA_HASH,
            firmware_version: [1, 2, 3],
            build_id: [9; 8],
            reset_cause: ResetCause::Pin,
            tick_hz: 1_000_000,
            ring_capacity: 100,
            channel_count: 2,
        }
    }

    fn heard(&mut self, port: u32, heard: Heard) {
        let source = Source {
            uid: UID,
            boot: BootId(self.boot),
        };
        let names = Names::default();
        let now = Mono(self.now);
        self.devices
            .on_heard(PortId(port), (source, heard), &names, now);
    }

    /// A device on `port` that is ready to be told something.
    fn open(&mut self, port: u32) {
        self.heard(port, Heard::Hello(self.hello()));
        self.heard(port, Heard::Open);
        for (number, quantity, scale) in [(0, "temperature", 2), (1, "pressure", 0)] {
            let info = ChannelInfo {
                channel: ChannelNo(number),
                quantity: quantity.try_into().expect("short"),
                unit: "u".try_into().expect("short"),
                scale,
                range: (-10, 10),
                period_us: 100_000,
            };
            self.heard(port, Heard::Channel(info));
        }
        self.commit();
    }

    fn health(&mut self, config: u32, config_refused: u32) {
        let health = Health {
            boot: BootId(self.boot),
            config,
            config_refused,
            produced: 10,
            acked: 7,
            waiting: 2,
            gaps: [1, 0, 0, 0],
            suppressed: 0,
            ring_high: 0,
            received: Default::default(),
            rx_dropped: 0,
            resends: 0,
            missed: 0,
            log_dropped: 0,
            stack_free: u32::MAX,
            errors: Default::default(),
        };
        self.heard(1, Heard::Health(health));
    }

    /// All that was given is durable.
    fn commit(&mut self) {
        self.entries.extend(self.devices.take_entries());
        self.devices.on_cut();
        self.devices.on_committed(Mono(self.now));
    }

    fn ask(&mut self, request: DeviceRequest) -> QueryId {
        self.asked += 1;
        let id = QueryId(self.asked);
        self.devices
            .on_request(id, (UID, NAME), &request, Mono(self.now));
        id
    }

    fn set(&mut self, period_us: Option<u32>, threshold: Option<f64>, once: bool) -> QueryId {
        self.ask(DeviceRequest::Set(SetRequest {
            device: NAME.to_owned(),
            channel: "temperature".to_owned(),
            period_us,
            threshold,
            once,
        }))
    }

    /// Does what is due; gives what the device on `port` was told, and the answers.
    fn act(&mut self, port: u32) -> (Vec<Told>, Vec<(u64, Said)>) {
        self.devices.on_deadline(Mono(self.now));
        let (mut told, mut answers, mut config) = (Vec::new(), Vec::new(), Vec::new());
        for action in self.devices.take_actions() {
            match action {
                DeviceAction::Say(to, line) => {
                    assert_eq!(to, PortId(port));
                    Deframer::new().receive_gateway(&line, |message| match message {
                        Ok(GatewayMessage::Cmd(cmd)) => told.push(Told::Cmd(cmd.id, cmd.operation)),
                        Ok(GatewayMessage::Config(chunk)) => {
                            config.extend_from_slice(chunk.bytes);
                            if chunk.chunk + 1 == chunk.chunks {
                                let whole = WireSettings::decode(&config).expect("it reads");
                                told.push(Told::Config(chunk.version, whole));
                            }
                        }
                        other => panic!("{other:?}"),
                    });
                }
                DeviceAction::Answer(id, answer) => {
                    answers.push((id.0, answer.map(Reply::into_value)))
                }
                DeviceAction::Note(_) | DeviceAction::Dismiss(_) | DeviceAction::Log { .. } => {}
            }
        }
        (told, answers)
    }

    fn notes(&mut self) -> Vec<String> {
        let actions = self.devices.take_actions().into_iter();
        let notes = actions.filter_map(|action| match action {
            DeviceAction::Note(text) => Some(text),
            DeviceAction::Say(..)
            | DeviceAction::Dismiss(_)
            | DeviceAction::Answer(..)
            | DeviceAction::Log { .. } => None,
        });
        notes.collect()
    }

    fn result(&mut self, id: u32, status: CmdStatus) {
        let result = CmdResult {
            id,
            status,
            payload: Default::default(),
        };
        self.heard(1, Heard::Result(result));
    }
}

fn why(answer: &Said) -> &str {
    answer.as_ref().expect_err("it failed")
}

const IDENTIFY: Operation = Operation::Identify { seconds: 3 };

fn identify() -> DeviceRequest {
    DeviceRequest::Identify {
        device: NAME.to_owned(),
        seconds: 3,
    }
}

#[test]
fn a_command_is_sent_again_until_it_is_answered() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.ask(identify());
    for wait in [0, COMMAND_EACH_US, COMMAND_EACH_US] {
        bench.now += wait;
        assert_eq!(
            bench.act(1),
            (vec![Told::Cmd(100, IDENTIFY)], vec![]),
            "{wait}"
        );
        assert_eq!(bench.act(1), (vec![], vec![]), "not at once");
    }
    bench.result(99, CmdStatus::Done);
    assert_eq!(bench.act(1), (vec![], vec![]), "another's answer");
    bench.result(100, CmdStatus::Done);
    bench.result(100, CmdStatus::Done);
    let (told, answers) = bench.act(1);
    assert_eq!((told, answers.len()), (vec![], 1), "one answer");
    assert_eq!(answers[0].1.as_ref().expect("done")["done"], true);
    assert_eq!(bench.devices.next_deadline(), None);
}

#[test]
fn a_device_that_does_not_answer_is_given_up() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.ask(identify());
    for _ in 0..COMMAND_SENDS_MAX {
        assert_eq!(bench.act(1).0.len(), 1);
        bench.now += COMMAND_EACH_US;
    }
    let (told, answers) = bench.act(1);
    assert_eq!(told, []);
    assert!(why(&answers[0].1).contains("did not answer within 3 s"));
    bench.result(100, CmdStatus::Done);
    assert_eq!(bench.act(1), (vec![], vec![]), "too late");
}

#[test]
fn a_command_follows_its_device_to_another_port_but_not_into_another_boot() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.ask(identify());
    bench.act(1);
    bench.devices.on_port_closed(PortId(1));
    bench.now += COMMAND_EACH_US;
    assert_eq!(bench.act(1), (vec![], vec![]), "on no port");
    bench.open(2);
    bench.now += COMMAND_EACH_US;
    assert_eq!(bench.act(2).0, [Told::Cmd(100, IDENTIFY)]);
    let reboot = DeviceRequest::Reboot {
        device: NAME.to_owned(),
    };
    bench.ask(reboot);
    let boot = BootId(bench.boot);
    assert_eq!(bench.act(2).0, [Told::Cmd(101, Operation::Reboot { boot })]);
    bench.boot += 1;
    bench.heard(2, Heard::Hello(bench.hello()));
    let (_, answers) = bench.act(2);
    assert!(why(&answers[0].1).contains("was reset before"));
    assert!(answers[1].1.is_ok(), "it was to be reset");
}

#[test]
fn commands_are_bounded_and_refusals_are_told() {
    let mut bench = Bench::new();
    bench.ask(identify());
    assert!(why(&bench.act(1).1[0].1).contains("not connected"));
    bench.open(1);
    for nth in 0..=COMMANDS_PER_DEVICE_MAX {
        bench.ask(identify());
        let refused = bench.act(1).1;
        assert_eq!(refused.len(), usize::from(nth == COMMANDS_PER_DEVICE_MAX));
    }
    for (nth, (status, word)) in [
        (CmdStatus::UnknownOperation, "does not know"),
        (CmdStatus::BadArgument, "does not take"),
        (CmdStatus::WrongBoot, "was reset"),
        (CmdStatus::Refused, "refused"),
    ]
    .into_iter()
    .enumerate()
    {
        bench.result(100 + nth as u32, status);
        let (_, answers) = bench.act(1);
        assert!(why(&answers[0].1).contains(word), "{answers:?}");
    }
}

fn settings(channel: u8, period_us: u32, threshold: u32) -> WireSettings {
    let mut settings = WireSettings::default();
    let entry = forebay_wire::settings::ChannelSetting {
        channel: ChannelNo(channel),
        period_us,
        threshold,
    };
    settings.entries.push(entry).expect("room");
    settings
}

#[test]
fn settings_go_to_the_disk_first_then_to_the_device_and_are_answered_when_it_has_them() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.health(0, 0);
    bench.set(Some(500_000), Some(0.25), false);
    assert_eq!(bench.act(1), (vec![], vec![]), "not durable");
    bench.health(0, 0);
    assert_eq!(bench.act(1), (vec![], vec![]), "not durable");
    bench.commit();
    let want = Told::Config(1, settings(0, 500_000, 25));
    assert_eq!(bench.act(1), (vec![want], vec![]));
    bench.health(0, 0);
    assert_eq!(bench.act(1).0, [], "a moment ago");
    bench.now += CONFIG_EACH_US;
    let want = Told::Config(1, settings(0, 500_000, 25));
    assert_eq!(bench.act(1).0, [want], "once more");
    bench.health(1, 0);
    let (told, answers) = bench.act(1);
    assert_eq!(told, []);
    let answer = answers[0].1.as_ref().expect("applied");
    assert_eq!(
        (&answer["applied"], &answer["version"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(bench.devices.next_deadline(), None);
    // Another start knows it, and the device that was reset gets it again.
    let mut entries = bench.entries.split_off(bench.entries.len() - 1);
    let (devices, note) = Devices::restore(&entries, 500);
    assert_eq!(note, None);
    bench.devices = devices;
    let last = entries[0].1.len() - 1;
    entries[0].1[last] ^= 1;
    let (devices, note) = Devices::restore(&entries, 500);
    assert_eq!(devices.iter().count(), 0);
    assert!(note.is_some_and(|note| note.contains("1 devices")));
    bench.boot += 1;
    bench.open(1);
    bench.health(0, 0);
    let want = Told::Config(1, settings(0, 500_000, 25));
    assert_eq!(bench.act(1).0, [want]);
    // Back to what it was built with.
    bench.set(Some(0), Some(0.0), false);
    bench.commit();
    assert_eq!(bench.act(1).0, [Told::Config(2, WireSettings::default())]);
}

#[test]
fn settings_of_a_device_that_is_away_are_kept() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.devices.on_port_closed(PortId(1));
    bench.set(Some(1_000), None, false);
    assert_eq!(bench.act(1), (vec![], vec![]), "not durable");
    bench.commit();
    let (_, answers) = bench.act(1);
    let answer = answers[0].1.as_ref().expect("kept");
    assert_eq!(answer["applied"], false);
    assert!(
        answer["note"]
            .as_str()
            .is_some_and(|n| n.starts_with("kept; "))
    );
    bench.open(1);
    bench.health(0, 0);
    assert_eq!(bench.act(1).0.len(), 1, "now it gets it");
}

#[test]
fn a_device_that_is_silent_or_refuses_is_told_so() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.health(0, 0);
    bench.set(Some(1_000), None, false);
    bench.commit();
    let mut sent = 0;
    let start = bench.now;
    let mut answered_at = None;
    while let Some(next) = bench.devices.next_deadline() {
        bench.now = next.0;
        let (told, answers) = bench.act(1);
        sent += told.len() as u32;
        if !answers.is_empty() {
            answered_at = Some(bench.now - start);
        }
    }
    assert_eq!(sent, CONFIG_SENDS_MAX);
    assert_eq!(answered_at, Some(DEVICE_ANSWER_US));
    bench.health(0, 0);
    assert_eq!(bench.act(1).0.len(), 1, "its Health asks for it again");
    bench.set(Some(2_000), None, false);
    bench.commit();
    bench.health(0, 2);
    let (told, answers) = bench.act(1);
    assert_eq!(told, []);
    assert!(why(&answers[0].1).contains("refused version 2"));
    bench.now += CONFIG_EACH_US;
    bench.health(0, 2);
    assert_eq!(bench.act(1).0, [], "not again");
}

#[test]
fn settings_are_newer_than_those_that_the_device_has() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.health(41, 0);
    bench.set(None, Some(1.0), false);
    bench.commit();
    assert_eq!(bench.act(1).0, [Told::Config(42, settings(0, 0, 100))]);
    bench.health(u32::MAX, 0);
    bench.set(None, Some(2.0), false);
    assert!(why(&bench.act(1).1[0].1).contains("last version"));
}

#[test]
fn once_is_a_command_for_each_figure_and_one_answer() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.set(Some(1_000), Some(0.5), true);
    let channel = ChannelNo(0);
    let (period_us, threshold) = (1_000, 50);
    assert_eq!(
        bench.act(1).0,
        [
            Told::Cmd(100, Operation::SetPeriod { channel, period_us }),
            Told::Cmd(101, Operation::SetThreshold { channel, threshold }),
        ]
    );
    bench.result(101, CmdStatus::Done);
    assert_eq!(bench.act(1).1, [], "one of two");
    bench.result(100, CmdStatus::Done);
    assert!(bench.act(1).1[0].1.is_ok());
    assert_eq!(bench.devices.take_entries(), [], "nothing is kept of it");
    bench.set(Some(1_000), Some(0.5), true);
    bench.act(1);
    bench.result(102, CmdStatus::Refused);
    bench.result(103, CmdStatus::Done);
    let (_, answers) = bench.act(1);
    assert_eq!(answers.len(), 1);
    assert!(why(&answers[0].1).contains("refused"));
}

#[test]
fn figures_are_checked_at_their_edges() {
    let mut bench = Bench::new();
    bench.open(1);
    for (name, period_us, threshold, once, word) in [
        ("nothing", None, None, false, Some("neither")),
        ("period 0", Some(0), None, false, None),
        ("period 0, once", Some(0), None, true, Some("period")),
        ("below the shortest", Some(999), None, false, Some("period")),
        ("shortest", Some(1_000), None, false, None),
        ("longest", Some(3_600_000_000), None, false, None),
        ("above it", Some(3_600_000_001), None, false, Some("period")),
        ("negative", None, Some(-0.01), false, Some("threshold")),
        ("none", None, Some(0.0), false, None),
        ("below a step", None, Some(0.004), false, Some("step")),
        ("a step", None, Some(0.01), false, None),
        ("most", None, Some(42_949_672.95), false, None),
        (
            "above it",
            None,
            Some(42_949_672.96),
            false,
            Some("threshold"),
        ),
        ("no number", None, Some(f64::NAN), false, Some("threshold")),
    ] {
        bench.set(period_us, threshold, once);
        let refused = bench.act(1).1;
        let why = refused.first().map(|(_, answer)| why(answer));
        match word {
            Some(word) => assert!(why.is_some_and(|why| why.contains(word)), "{name}: {why:?}"),
            None => assert_eq!(why, None, "{name}"),
        }
    }
    bench.ask(DeviceRequest::Set(SetRequest {
        device: NAME.to_owned(),
        channel: "humidity".to_owned(),
        period_us: Some(1_000),
        threshold: None,
        once: false,
    }));
    let refused = bench.act(1).1;
    assert!(why(&refused[0].1).contains("it has temperature, pressure"));
}

#[test]
fn those_who_wait_for_settings_are_bounded() {
    let mut bench = Bench::new();
    bench.open(1);
    for nth in 0..=SETS_WAITING_MAX {
        bench.set(Some(1_000 + nth as u32), None, false);
        let refused = bench.act(1).1;
        assert_eq!(refused.len(), usize::from(nth == SETS_WAITING_MAX), "{nth}");
    }
    bench.health(0, 0);
    bench.commit();
    bench.health(SETS_WAITING_MAX as u32, 0);
    assert_eq!(
        bench.act(1).1.len(),
        SETS_WAITING_MAX,
        "all hear of the last"
    );
}

#[test]
fn the_later_of_two_ports_with_one_device_wins_and_it_is_said_now_and_then() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.devices.take_actions();
    bench.heard(2, Heard::Hello(bench.hello()));
    let actions = bench.devices.take_actions();
    assert_eq!(actions[0], DeviceAction::Dismiss(PortId(1)));
    assert!(matches!(&actions[1], DeviceAction::Note(text) if text.contains("port 2 now")));
    for (wait, notes) in [(0, 0), (PORT_NOTE_EACH_US - 1, 0), (1, 1)] {
        bench.now += wait;
        bench.heard(1, Heard::Hello(bench.hello()));
        bench.devices.take_actions();
        bench.heard(2, Heard::Hello(bench.hello()));
        assert_eq!(bench.notes().len(), notes, "{wait}");
    }
    bench.devices.on_port_closed(PortId(1));
    let device = bench.devices.get(UID).expect("known");
    assert_eq!(device.link.map(|link| link.port), Some(PortId(2)));
}

#[test]
fn another_device_on_the_same_port_takes_it_over() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.ask(identify());
    bench.act(1);
    let other = DeviceUid([8; 8]);
    let hello = Hello {
        uid: other,
        ..bench.hello()
    };
    bench.heard(1, Heard::Hello(hello));
    assert!(bench.notes()[0].contains("instead of 0707070707070707"));
    assert_eq!(bench.devices.get(UID).and_then(|device| device.link), None);
    assert!(bench.devices.get(other).is_some_and(|d| d.link.is_some()));
    bench.now += COMMAND_EACH_US;
    assert_eq!(bench.act(1).0, [], "it is not for this device");
}

#[test]
fn firmware_with_other_tables_is_said_once() {
    for (name, hash, minor, word) in [
        ("same", SCHEMA_HASH, PROTOCOL_MINOR, None),
        (
            "newer",
            1,
            PROTOCOL_MINOR + 1,
            Some("newer than this agent"),
        ),
        (
            "older",
            1,
            PROTOCOL_MINOR - 1,
            Some("older than this agent"),
        ),
        ("other", 1, PROTOCOL_MINOR, Some("other tables")),
    ] {
        let mut bench = Bench::new();
        let hello = Hello {
            schema_hash: hash,
            protocol_minor: minor,
            ..bench.hello()
        };
        bench.heard(1, Heard::Hello(hello.clone()));
        let said = bench.notes();
        if let Some(word) = word {
            assert!(
                said.len() == 1 && said[0].contains(word),
                "{name}: {said:?}"
            );
            bench.heard(1, Heard::Hello(hello));
            assert_eq!(bench.notes(), [] as [String; 0], "{name}: once");
        }
        if name == "same" {
            assert_eq!(said, [] as [String; 0]);
        }
    }
}

#[test]
fn a_log_says_which_firmware_it_is_of() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.devices.take_actions();
    bench.heard(1, Heard::Log(vec![1, 2]));
    assert_eq!(
        bench.devices.take_actions(),
        [DeviceAction::Log {
            uid: UID,
            build_id: [9; 8],
            frame: vec![1, 2],
        }]
    );
}
