//! What an edge node says over blocks, connections and commands of any order breaks no rule
//! of the specification, and a host gets each reading.

use std::sync::Arc;

use forebay_core::limits::{
    MESSAGE_BYTES_MAX, SPARKPLUG_DEVICES_MAX, SPARKPLUG_METRICS_MAX,
    SPARKPLUG_METRICS_PER_DEVICE_MAX,
};
use forebay_core::payload::GatewayName;
use forebay_core::payload::sparkplug::{EdgeNode, NodeId, Sending, SparkplugMessage};
use forebay_core::record::{
    ClockRecord, ClockTrust, ReadingRecord, Record, Series, UNSYNCED_US, ValueKind,
};
use forebay_core::units::EventTime;
use forebay_tests::sparkplug::{Host, Taken, decode, rebirth_command};
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;
use proptest::prelude::*;

/// 2026-03-01T00:00:00Z.
const NOW: EventTime = EventTime(1_772_323_200_000_000);

fn id() -> NodeId {
    NodeId::new("plant", &GatewayName::new("gw-1").unwrap()).unwrap()
}

fn series(device: u64, channel: u8, unit: &str) -> Series {
    Series {
        uid: DeviceUid(device.to_be_bytes()),
        boot: BootId(1),
        channel: ChannelNo(channel),
        kind: ValueKind::Scaled { scale: 2 },
        name: Arc::from(format!("channel_{channel}")),
        unit: Arc::from(unit),
    }
}

fn reading(series: u16, n: u64, quality: Quality) -> ReadingRecord {
    ReadingRecord {
        series,
        ordinal: Ordinal(n),
        tick: Tick(n),
        time: EventTime(NOW.0 + n as i64 * 1_500),
        uncertainty_us: 1,
        value: if quality == Quality::Ok { n as i64 } else { 0 },
        quality,
    }
}

fn sending(historical: bool) -> Sending {
    Sending {
        now: NOW,
        historical,
        bytes_max: MESSAGE_BYTES_MAX,
    }
}

/// An edge node and a host, with a broker that loses nothing between them.
struct Pair {
    node: EdgeNode,
    host: Host,
    attempt: u64,
}

impl Pair {
    fn new() -> Self {
        let mut pair = Self {
            node: EdgeNode::new(id()),
            host: Host::default(),
            attempt: 0,
        };
        pair.connect();
        pair
    }

    fn connect(&mut self) {
        let will = id().death(self.attempt);
        self.host.on_will(&will.topic, &will.payload);
        self.node.on_connected(self.attempt);
        self.attempt += 1;
    }

    fn say(&mut self, messages: Vec<SparkplugMessage>) {
        for SparkplugMessage { topic, payload } in messages {
            self.host.on_message(&topic, &payload);
        }
    }

    fn births(&mut self) {
        while let Some(birth) = self.node.next_birth(NOW) {
            self.say(vec![birth]);
        }
    }

    fn send(&mut self, series: &[Series], records: &[Record], sending: &Sending) {
        let messages = self.node.of_readings(series, records, sending);
        self.say(messages);
    }
}

fn taken(series: &Series, reading: &ReadingRecord, historical: bool) -> Taken {
    let mut properties = Vec::new();
    match reading.quality {
        Quality::Ok => {}
        Quality::Stale => properties.push(("Quality".to_owned(), "500".to_owned())),
        Quality::Saturated
        | Quality::BusError
        | Quality::CrcError
        | Quality::Implausible
        | Quality::WarmingUp => properties.push(("Quality".to_owned(), "0".to_owned())),
    }
    if reading.uncertainty_us == UNSYNCED_US {
        properties.push(("unsynced".to_owned(), "1".to_owned()));
    }
    Taken {
        device: series.uid.to_string(),
        metric: series.name.to_string(),
        timestamp: (reading.time.0 / 1000) as u64,
        value: (reading.quality == Quality::Ok).then_some(reading.value as f64 / 100.0),
        is_historical: historical,
        properties,
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Readings of these devices and channels.
    Block(Vec<(u64, u8, Quality, bool)>, bool),
    Connect,
    Rebirth,
    Births,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let quality = prop_oneof![
        4 => Just(Quality::Ok),
        1 => Just(Quality::Stale),
        1 => Just(Quality::BusError),
    ];
    let record = (0..4u64, 0..5u8, quality, prop::bool::weighted(0.1));
    let records = prop::collection::vec(record, 0..12);
    let step = prop_oneof![
        6 => (records, any::<bool>()).prop_map(|(records, old)| Step::Block(records, old)),
        1 => Just(Step::Connect),
        1 => Just(Step::Rebirth),
        1 => Just(Step::Births),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #[test]
    fn a_host_gets_each_reading_and_no_rule_is_broken(steps in steps()) {
        let mut pair = Pair::new();
        let mut want = Vec::new();
        let mut n = 0;
        for step in steps {
            match step {
                Step::Connect => pair.connect(),
                Step::Rebirth => {
                    pair.node.on_message("spBv1.0/plant/NCMD/gw-1", &rebirth_command());
                }
                Step::Births => pair.births(),
                Step::Block(given, old) => {
                    let mut all: Vec<Series> = Vec::new();
                    let mut records = Vec::new();
                    for (device, channel, quality, unsynced) in given {
                        let one = series(device, channel, "degC");
                        let known = all.iter().position(|known| *known == one);
                        let index = known.unwrap_or_else(|| { all.push(one); all.len() - 1 });
                        let mut reading = reading(index as u16, n, quality);
                        if unsynced {
                            reading.uncertainty_us = UNSYNCED_US;
                        }
                        n += 1;
                        records.push(Record::Reading(reading));
                    }
                    pair.send(&all, &records, &sending(old));
                    // Device by device, each in its order.
                    let mut devices: Vec<DeviceUid> = Vec::new();
                    for record in &records {
                        let Record::Reading(reading) = record else { panic!("readings") };
                        let uid = all[usize::from(reading.series)].uid;
                        if !devices.contains(&uid) {
                            devices.push(uid);
                        }
                    }
                    for uid in devices {
                        for record in &records {
                            let Record::Reading(reading) = record else { panic!("readings") };
                            let of = &all[usize::from(reading.series)];
                            if of.uid == uid {
                                want.push(taken(of, reading, old));
                            }
                        }
                    }
                }
            }
        }
        prop_assert_eq!(pair.host.taken, want);
    }
}

fn one_each(devices: std::ops::Range<u64>, channel: u8) -> (Vec<Series>, Vec<Record>) {
    let all: Vec<_> = devices
        .clone()
        .map(|device| series(device, channel, "degC"))
        .collect();
    let records = (0..all.len() as u16).map(|index| {
        let n = devices.start + u64::from(index);
        Record::Reading(reading(index, n, Quality::Ok))
    });
    let records = records.collect();
    (all, records)
}

#[test]
fn numbers_go_from_255_to_0() {
    let mut pair = Pair::new();
    let (all, records) = one_each(1..2, 0);
    for _ in 0..600 {
        pair.send(&all, &records, &sending(false));
    }
    assert_eq!(pair.host.taken.len(), 600);
    assert_eq!(pair.host.births, 2, "the node and its device, once");
}

#[test]
fn bd_seq_goes_from_255_to_0() {
    let mut pair = Pair::new();
    for _ in 0..300 {
        pair.births();
        pair.connect();
    }
    pair.births();
    assert_eq!(pair.host.births, 301);
}

#[test]
fn a_death_counts_only_for_the_connection_of_its_birth() {
    let mut pair = Pair::new();
    pair.births();
    pair.connect();
    pair.births();
    for (attempt, deaths) in [(0, 0), (1, 1), (1, 1)] {
        let death = id().death(attempt);
        pair.say(vec![death]);
        assert_eq!(pair.host.deaths, deaths, "{attempt}");
    }
}

#[test]
fn a_rebirth_says_all_devices_with_their_newest_values() {
    let mut pair = Pair::new();
    let (all, records) = one_each(1..4, 0);
    pair.send(&all, &records, &sending(false));
    // Older data that comes late is not what is now.
    let Record::Reading(mut old) = records[0] else {
        panic!("readings")
    };
    (old.time, old.value) = (EventTime(NOW.0 - 1), 7);
    pair.send(&all[..1], &[Record::Reading(old)], &sending(true));
    for (name, topic, payload, births) in [
        (
            "another node",
            "spBv1.0/plant/NCMD/gw-2",
            rebirth_command(),
            0,
        ),
        ("no command", "spBv1.0/plant/NCMD/gw-1", vec![1, 2, 3], 0),
        ("asks for nothing", "spBv1.0/plant/NCMD/gw-1", Vec::new(), 0),
        ("asks", "spBv1.0/plant/NCMD/gw-1", rebirth_command(), 4),
    ] {
        let before = pair.host.births;
        pair.node.on_message(topic, &payload);
        while let Some(birth) = pair.node.next_birth(NOW) {
            if birth.topic.ends_with("DBIRTH/gw-1/0000000000000001") {
                let said = decode(&birth.payload);
                let value = forebay_tests::sparkplug::Value::Double(0.01);
                assert_eq!(said.metrics[0].value, Some(value), "{name}");
            }
            pair.say(vec![birth]);
        }
        assert_eq!(pair.host.births - before, births, "{name}");
    }
}

#[test]
fn a_metric_more_and_another_unit_are_announced() {
    let mut pair = Pair::new();
    let one = |unit: &str, channel| {
        let reading = Record::Reading(reading(0, 1, Quality::Ok));
        (vec![series(1, channel, unit)], vec![reading])
    };
    for (name, (all, records), births) in [
        ("the first", one("degC", 0), 2),
        ("the same", one("degC", 0), 0),
        ("one more", one("degC", 1), 1),
        ("another unit", one("K", 0), 1),
    ] {
        let before = pair.host.births;
        pair.send(&all, &records, &sending(false));
        assert_eq!(pair.host.births - before, births, "{name}");
    }
    let key = |channel: &str| ("0000000000000001".to_owned(), channel.to_owned());
    assert_eq!(pair.host.units[&key("channel_0")], "K");
    assert_eq!(pair.host.units[&key("channel_1")], "degC");
}

#[test]
fn what_has_no_place_in_sparkplug_is_left_out() {
    let mut pair = Pair::new();
    let clock = Record::Clock(ClockRecord {
        now: NOW,
        trust: ClockTrust::Yes,
    });
    let before = pair.host.births;
    assert_eq!(
        pair.node.of_readings(&[], &[clock], &sending(false)).len(),
        1
    );
    assert_eq!(before, 0, "only the birth that was due");
    assert!(
        pair.node
            .of_readings(&[], &[clock], &sending(false))
            .is_empty()
    );
}

#[test]
fn data_is_cut_to_the_longest_payload() {
    let mut pair = Pair::new();
    let all = vec![series(1, 0, "degC")];
    let records: Vec<_> = (0..512)
        .map(|n| Record::Reading(reading(0, n, Quality::BusError)))
        .collect();
    for (bytes_max, messages) in [(MESSAGE_BYTES_MAX, 1), (4096, 13), (1, 512)] {
        pair.births();
        let sending = Sending {
            bytes_max,
            ..sending(true)
        };
        let out = pair.node.of_readings(&all, &records, &sending);
        let data: Vec<_> = out.iter().filter(|m| m.topic.contains("DDATA")).collect();
        assert_eq!(data.len(), messages, "{bytes_max}");
        assert!(data.iter().all(|m| m.payload.len() <= bytes_max.max(128)));
        pair.say(out);
    }
    assert_eq!(pair.host.taken.len(), 3 * 512);
}

#[test]
fn devices_at_their_limit() {
    let mut pair = Pair::new();
    let most = SPARKPLUG_DEVICES_MAX as u64;
    for first in (0..most).step_by(128) {
        let (all, records) = one_each(first..first + 128, 0);
        pair.send(&all, &records, &sending(false));
    }
    assert_eq!(pair.host.births, 1 + most, "all of them");
    let (all, records) = one_each(most..most + 1, 0);
    pair.send(&all, &records, &sending(false));
    assert_eq!(
        pair.host.births,
        1 + most + 2,
        "it begins anew with that one"
    );
    let (all, records) = one_each(0..1, 0);
    pair.send(&all, &records, &sending(false));
    assert_eq!(pair.host.births, 1 + most + 3, "which another joins");
}

#[test]
fn metrics_at_their_limits() {
    let named = |device: u64, n: usize| Series {
        name: Arc::from(format!("m{n}")),
        ..series(device, 0, "")
    };
    let fill = |pair: &mut Pair, device: u64, names: std::ops::Range<usize>| {
        let names: Vec<_> = names.collect();
        for part in names.chunks(128) {
            let all: Vec<_> = part.iter().map(|n| named(device, *n)).collect();
            let records: Vec<_> = (0..all.len() as u16)
                .map(|index| Record::Reading(reading(index, 1, Quality::Ok)))
                .collect();
            pair.send(&all, &records, &sending(false));
        }
    };
    let node_births = |pair: &Pair| pair.host.births;
    // Of one device.
    let each = SPARKPLUG_METRICS_PER_DEVICE_MAX;
    let mut pair = Pair::new();
    fill(&mut pair, 1, 0..each);
    let before = node_births(&pair);
    fill(&mut pair, 1, each..each + 1);
    assert_eq!(node_births(&pair), before + 2, "the node and the device");
    // Of all.
    let mut pair = Pair::new();
    let devices = SPARKPLUG_METRICS_MAX / each;
    for device in 0..devices as u64 {
        fill(&mut pair, device, 0..each);
    }
    let before = node_births(&pair);
    fill(&mut pair, devices as u64, 0..1);
    assert_eq!(node_births(&pair), before + 2, "the node and the device");
}

#[test]
fn groups_are_names() {
    let gateway = GatewayName::new("gw-1").unwrap();
    for (group, fits) in [("plant", true), ("a/b", false), ("+", false), ("", false)] {
        assert_eq!(NodeId::new(group, &gateway).is_ok(), fits, "{group}");
    }
}
