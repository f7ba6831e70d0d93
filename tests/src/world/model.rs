//! What must have come of a world, told from what its devices produced and from
//! the gateway's log alone.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::engine::Engine;
use forebay_core::engine::row::StreamId;
use forebay_core::live::figure;
use forebay_core::log::block::{Body, Record};
use forebay_core::log::decode::decode;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::READINGS;
use forebay_core::units::PartitionId;
use forebay_core::upstream::rows::RowReader;
use serde_json::Value;

use super::device::WorldDevice;
use super::gateway::WorldGateway;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Lines of one stream and partition, in order of offsets.
type Lines = BTreeMap<(String, u16), Vec<String>>;

fn lines(rows: &Rows) -> Lines {
    let mut reader = RowReader::default();
    let mut found: BTreeMap<(String, u16), BTreeMap<u64, String>> = BTreeMap::new();
    for (key, value) in rows {
        for row in reader.push(key, value).expect("rows read back") {
            let place = (
                row.source.stream.as_str().to_owned(),
                row.source.partition.0,
            );
            let text = String::from_utf8(row.json).expect("JSON is text");
            let before = found.entry(place).or_default().insert(row.offset.0, text);
            assert_eq!(before, None, "offset {} applied twice", row.offset.0);
        }
    }
    let in_order = |(place, lines): (_, BTreeMap<u64, String>)| {
        let offsets: Vec<u64> = lines.keys().copied().collect();
        let all: Vec<u64> = (0..lines.len() as u64).collect();
        assert_eq!(offsets, all, "offsets of {place:?} have a hole");
        (place, lines.into_values().collect())
    };
    found.into_iter().map(in_order).collect()
}

/// Whether the receiver has as many rows as the gateway's log has records.
#[must_use]
pub fn has_arrived(gateway: &WorldGateway, rows: &Rows) -> bool {
    let mut reader = RowReader::default();
    let arrived: usize = rows
        .iter()
        .map(|(key, value)| reader.push(key, value).map_or(0, |rows| rows.len()))
        .sum();
    arrived as u64 == gateway.core().records()
}

/// Compares the receiver's rows with what must stand there.
///
/// # Panics
/// At the first difference, with the seed to replay.
pub fn judge(seed: u64, devices: &[WorldDevice], gateway: &WorldGateway, rows: &Rows) {
    let replay = format!("replay: cargo xtask sim --seed {seed}");
    let lines = lines(rows);
    judge_readings(devices, &lines, &replay);
    judge_results(gateway, &lines, &replay);
}

/// Every ordinal once: as its reading, unaltered, or in one declared gap.
fn judge_readings(devices: &[WorldDevice], lines: &Lines, replay: &str) {
    let mut seen: BTreeMap<(String, u64), BTreeSet<u64>> = BTreeMap::new();
    let mut values: BTreeMap<(String, u64, u64), Value> = BTreeMap::new();
    let readings = lines.iter().filter(|((stream, _), _)| stream == "readings");
    for line in readings.flat_map(|(_, lines)| lines) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let device = line["device"].as_str().expect("a device").to_owned();
        let boot = line["boot"].as_u64().expect("a boot");
        let ordinals = if line["gap"].is_string() {
            let first = line["first_ordinal"].as_u64().expect("a first ordinal");
            first..first + line["count"].as_u64().expect("a count")
        } else {
            let ordinal = line["ordinal"].as_u64().expect("an ordinal");
            values.insert((device.clone(), boot, ordinal), line["value"].clone());
            ordinal..ordinal + 1
        };
        let known = seen.entry((device.clone(), boot)).or_default();
        for ordinal in ordinals {
            assert!(
                known.insert(ordinal),
                "{device} boot {boot} ordinal {ordinal} twice; {replay}"
            );
        }
    }
    for device in devices {
        judge_device(device, &seen, &values, replay);
    }
}

fn judge_device(
    device: &WorldDevice,
    seen: &BTreeMap<(String, u64), BTreeSet<u64>>,
    values: &BTreeMap<(String, u64, u64), Value>,
    replay: &str,
) {
    let name = format!("{:016x}", device.uid());
    for boot in &device.boots {
        let key = (name.clone(), u64::from(boot.id));
        let arrived = seen.get(&key).map_or(0, |ordinals| ordinals.len() as u64);
        let up_to = seen.get(&key).and_then(|ordinals| ordinals.last().copied());
        assert_eq!(
            up_to.map_or(0, |last| last + 1),
            arrived,
            "{key:?}: an ordinal is neither there nor in a gap; {replay}"
        );
        assert_eq!(
            arrived, boot.produced,
            "{key:?}: produced and arrived or declared lost; {replay}"
        );
        for (ordinal, value) in (0..).zip(&boot.values) {
            if let Some(got) = values.get(&(key.0.clone(), key.1, ordinal)) {
                assert_eq!(got.as_f64(), *value, "{key:?} ordinal {ordinal}; {replay}");
            }
        }
    }
}

/// The results are those of a fresh engine over the log.
fn judge_results(gateway: &WorldGateway, lines: &Lines, replay: &str) {
    let config = super::engine_config();
    for partition in gateway.core().partitions() {
        let mut engine = Engine::new(&config);
        let mut rows = Vec::new();
        for (device, channel, time, value) in logged(gateway, partition) {
            let series = engine.series(&device, &channel).expect("room for it");
            engine.on_reading(series, time, value, &mut rows);
        }
        for (at, window) in (0..).zip(&config.windows) {
            let of_window = rows
                .iter()
                .filter(|row| row.stream() == StreamId::Window(at));
            let want: Vec<String> = of_window
                .map(|row| {
                    let mut line = Vec::new();
                    row.write_json(&mut line);
                    String::from_utf8(line).expect("JSON is text")
                })
                .collect();
            let got = lines.get(&(window.name.clone(), partition.0));
            let got = got.map_or(&[][..], Vec::as_slice);
            assert_eq!(got, want, "{} of {partition:?}; {replay}", window.name);
        }
    }
}

type Logged = (String, String, forebay_core::units::EventTime, Option<f64>);

/// The readings of a partition as its log holds them.
fn logged(gateway: &WorldGateway, partition: PartitionId) -> Vec<Logged> {
    let at = TopicPartition {
        topic: READINGS,
        partition,
    };
    let mut out = Vec::new();
    for stored in gateway.blocks(at) {
        let block = decode(stored.key, &stored.bytes).expect("a block of ours");
        let Body::Readings { series, records } = &block.body else {
            panic!("rows in a readings topic");
        };
        for record in records {
            if let Record::Reading(reading) = record {
                let series = &series[usize::from(reading.series)];
                let value = figure(series, reading);
                out.push((
                    series.uid.to_string(),
                    series.name.to_string(),
                    reading.time,
                    value,
                ));
            }
        }
    }
    out
}
