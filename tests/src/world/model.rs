//! What must have come of a world, told from what its devices produced and from
//! everything that was ever durable in the gateway's log.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::change::Change;
use forebay_core::changes::CHANGES_AT;
use forebay_core::engine::config::EngineConfig;
use forebay_core::engine::row::{self, RowView, StreamId};
use forebay_core::engine::{Batch, Engine};
use forebay_core::exchange::{EXCHANGE_AT, Split};
use forebay_core::live::figure;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::{CONTROL, DERIVED_FIRST, LATE, QUARANTINE, READINGS};
use forebay_core::record::{ClockTrust, GapReason, gap_name, trust_name};
use forebay_core::units::{PartitionId, Span, TopicId};
use forebay_core::upstream::rows::RowReader;
use serde_json::Value;

use super::archive::{Archive, Entry};
use super::device::WorldDevice;
use super::gateway::WorldGateway;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the receiver has of one partition.
#[derive(Debug, Default)]
struct Arrived {
    /// By offset.
    lines: BTreeMap<u64, String>,
    /// Offsets of which it was told that they will never come.
    missing: BTreeSet<u64>,
}

type Lines = BTreeMap<TopicPartition, Arrived>;

/// What became of the records of a world: each is in one of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ends {
    /// Readings and gaps that the log still holds.
    pub kept: u64,
    /// Those that were dropped to make room.
    pub dropped: u64,
    /// Of these, what never reached the receiver.
    pub never_arrived: u64,
    /// Readings that a full log did not take.
    pub rejected: u64,
    /// Readings that the devices lost.
    pub device_gaps: u64,
    /// Result rows that were dropped to make room.
    pub rows_dropped: u64,
    /// Result rows that a full topic did not take.
    pub rows_refused: u64,
}

/// Topics by the name of their stream.
fn topic_of(stream: &str) -> TopicId {
    match stream {
        "readings" => return READINGS,
        "control" => return CONTROL,
        _ => {}
    }
    let windows = super::crossing_config().windows;
    let place = windows.iter().position(|window| window.name == stream);
    let place = place.expect("a stream of this world");
    TopicId(DERIVED_FIRST.0 + u16::try_from(place).expect("few windows"))
}

fn lines(rows: &Rows) -> Lines {
    let mut reader = RowReader::default();
    let mut found = Lines::new();
    for (key, value) in rows {
        for row in reader.push(key, value).expect("rows read back") {
            let at = TopicPartition {
                topic: topic_of(row.source.stream.as_str()),
                partition: row.source.partition,
            };
            let text = String::from_utf8(row.json).expect("JSON is text");
            let arrived = found.entry(at).or_default();
            let json: Value = serde_json::from_str(&text).expect("JSON");
            if json["missing"].is_string() {
                let end = |key: &str| json[key].as_u64().expect("an offset");
                let range = end("first_offset")..=end("last_offset");
                arrived.missing.extend(range);
                continue;
            }
            let before = arrived.lines.insert(row.offset.0, text);
            assert_eq!(before, None, "offset {} applied twice", row.offset.0);
        }
    }
    found
}

/// Whether the receiver has everything that the gateway's log holds, and knows of the
/// rest that it will never come.
#[must_use]
pub fn has_arrived(gateway: &WorldGateway, rows: &Rows) -> bool {
    let lines = lines(rows);
    sent(gateway.archive()).all(|(at, place)| {
        let first = gateway.first_kept(at);
        let arrived = lines.get(&at);
        place.keys().all(|offset| {
            arrived.is_some_and(|arrived| {
                let told = *offset < first && arrived.missing.contains(offset);
                told || arrived.lines.contains_key(offset)
            })
        })
    })
}

/// Compares the receiver's rows with what must stand there.
///
/// # Panics
/// At the first difference, with the seed to replay.
pub fn judge(
    seed: u64,
    now: u64,
    devices: &[WorldDevice],
    gateway: &mut WorldGateway,
    rows: &Rows,
    faults: &BTreeMap<&'static str, u32>,
) -> Ends {
    let replay = format!("replay: cargo xtask sim --seed {seed}");
    let lines = lines(rows);
    let status = gateway.status(now);
    let mut ends = judge_arrival(gateway, &lines, &replay);
    judge_ordinals(devices, gateway.archive(), &mut ends, &replay);
    judge_accounts(gateway.archive(), &status, &replay);
    judge_room(gateway, &status, &mut ends, &replay);
    // What the broker had and lost, it had acked.
    if !faults.contains_key("broker lost its disk") {
        let unsent = topic(&status, READINGS)["dropped_unsent"].as_u64();
        assert!(
            unsent >= Some(ends.never_arrived),
            "{} never arrived, {unsent:?} were dropped unsent; {replay}",
            ends.never_arrived
        );
    }
    if ends.dropped == 0 && ends.rows_refused == 0 {
        if faults.contains_key("partitions grew") {
            judge_results_by_device(devices, gateway.archive(), &replay);
        } else {
            judge_results(gateway, &replay);
        }
    }
    gateway.restart(now);
    let again = gateway.status(now);
    for at in [READINGS, DERIVED_FIRST, TopicId(DERIVED_FIRST.0 + 1)] {
        for count in ["dropped", "dropped_unsent"] {
            assert_eq!(
                topic(&again, at)[count],
                topic(&status, at)[count],
                "{count} of {at:?} after a restart; {replay}"
            );
        }
    }
    ends
}

fn topic(status: &Value, topic: TopicId) -> &Value {
    let topics = status["space"]["topics"].as_array().expect("a list");
    let found = topics.iter().find(|t| t["number"] == topic.0);
    found.expect("every topic is there")
}

/// What arrived is what the log held, each offset once; what did not arrive was
/// dropped.
fn judge_arrival(gateway: &WorldGateway, lines: &Lines, replay: &str) -> Ends {
    let mut ends = Ends::default();
    for (at, place) in sent(gateway.archive()) {
        let first = gateway.first_kept(at);
        let none = Arrived::default();
        let Arrived { lines, missing } = lines.get(&at).unwrap_or(&none);
        for (offset, entry) in place {
            match lines.get(offset) {
                Some(line) => assert!(
                    is_line_of(line, entry),
                    "{at:?} offset {offset}: {line} is not {entry:?}; {replay}"
                ),
                None => {
                    assert!(
                        *offset < first && missing.contains(offset),
                        "{at:?} offset {offset} is missing; {replay}"
                    );
                    ends.never_arrived += u64::from(at.topic == READINGS);
                }
            }
        }
        let kept = missing.iter().find(|offset| **offset >= first);
        assert_eq!(kept, None, "{at:?}: told to be gone and there; {replay}");
        let more = lines.keys().find(|offset| !place.contains_key(offset));
        assert_eq!(more, None, "{at:?}: never durable; {replay}");
        let heads: Vec<u64> = place.keys().copied().collect();
        let all: Vec<u64> = (0..heads.len() as u64).collect();
        assert_eq!(heads, all, "offsets of {at:?} have a hole; {replay}");
        let dropped = place.range(..first).count() as u64;
        if at.topic == READINGS {
            ends.kept += place.len() as u64 - dropped;
            ends.dropped += dropped;
        } else {
            ends.rows_dropped += dropped;
        }
    }
    ends
}

fn is_line_of(line: &str, entry: &Entry) -> bool {
    let json: Value = serde_json::from_str(line).expect("JSON");
    match entry {
        Entry::Row(text) => text == line,
        Entry::Gap(gap) => {
            json["gap"] == gap_name(gap.reason)
                && json["device"] == gap.uid.to_string()
                && json["boot"] == gap.boot.0
                && json["first_ordinal"] == gap.first.0
                && json["count"] == gap.count
        }
        Entry::Clock(clock) => json["clock"] == trust_name(clock.trust),
        Entry::Tables(tables) => json["tables_upto"] == tables.upto.0,
        Entry::Reading(series, reading) => {
            json["device"] == series.uid.to_string()
                && json["boot"] == series.boot.0
                && json["ordinal"] == reading.ordinal.0
                && json["value"].as_f64() == figure(series, reading)
        }
    }
}

/// Every ordinal once in the log: as its reading, unaltered, or in one gap.
fn judge_ordinals(devices: &[WorldDevice], archive: &Archive, ends: &mut Ends, replay: &str) {
    let mut seen: BTreeMap<(u64, u32), BTreeSet<u64>> = BTreeMap::new();
    let mut values: BTreeMap<(u64, u32, u64), Option<f64>> = BTreeMap::new();
    for entry in archive.readings() {
        let (uid, boot, ordinals) = match entry {
            Entry::Gap(gap) => {
                match gap.reason {
                    GapReason::LogFull => ends.rejected += gap.count,
                    GapReason::RingFull
                    | GapReason::IsrFull
                    | GapReason::SensorOff
                    | GapReason::PowerLoss => ends.device_gaps += gap.count,
                }
                let first = gap.first.0;
                (gap.uid, gap.boot, first..first + gap.count)
            }
            Entry::Reading(series, reading) => {
                let ordinal = reading.ordinal.0;
                let uid = u64::from_be_bytes(series.uid.0);
                values.insert((uid, series.boot.0, ordinal), figure(series, reading));
                (series.uid, series.boot, ordinal..ordinal + 1)
            }
            Entry::Clock(_) | Entry::Tables(_) => continue,
            Entry::Row(_) => panic!("rows in a readings topic"),
        };
        let known = seen.entry((u64::from_be_bytes(uid.0), boot.0)).or_default();
        for ordinal in ordinals {
            let is_new = known.insert(ordinal);
            assert!(
                is_new,
                "{uid} boot {boot:?} ordinal {ordinal} twice; {replay}"
            );
        }
    }
    for device in devices {
        judge_device(device, &seen, &values, replay);
    }
}

fn judge_device(
    device: &WorldDevice,
    seen: &BTreeMap<(u64, u32), BTreeSet<u64>>,
    values: &BTreeMap<(u64, u32, u64), Option<f64>>,
    replay: &str,
) {
    for boot in &device.boots {
        let key = (device.uid(), boot.id);
        let taken = seen.get(&key).map_or(0, |ordinals| ordinals.len() as u64);
        let up_to = seen.get(&key).and_then(|ordinals| ordinals.last().copied());
        assert_eq!(
            up_to.map_or(0, |last| last + 1),
            taken,
            "{key:?}: an ordinal is neither there nor in a gap; {replay}"
        );
        assert_eq!(
            taken, boot.produced,
            "{key:?}: produced and taken or declared lost; {replay}"
        );
        for (ordinal, value) in (0..).zip(&boot.values) {
            if let Some(got) = values.get(&(key.0, key.1, ordinal)) {
                assert_eq!(got, value, "{key:?} ordinal {ordinal}; {replay}");
            }
        }
    }
}

/// What the status says of each device is what its part of the log holds or held.
/// What a crash made it forget, because it was dropped by then, it says as well.
fn judge_accounts(archive: &Archive, status: &Value, replay: &str) {
    let mut readings: BTreeMap<String, u64> = BTreeMap::new();
    let mut gaps: BTreeMap<(String, &str), u64> = BTreeMap::new();
    for entry in archive.readings() {
        match entry {
            Entry::Reading(series, _) => *readings.entry(series.uid.to_string()).or_default() += 1,
            Entry::Gap(gap) => {
                let key = (gap.uid.to_string(), gap_name(gap.reason));
                *gaps.entry(key).or_default() += gap.count;
            }
            Entry::Clock(_) | Entry::Tables(_) => {}
            Entry::Row(_) => panic!("rows in a readings topic"),
        }
    }
    for device in status["devices"].as_array().expect("a list") {
        let uid = device["uid"].as_str().expect("a uid").to_owned();
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        let (received, lost) = (count(&device["received"]), count(&device["lost"]));
        let want = readings.get(&uid).copied().unwrap_or(0);
        let ours = gaps.iter().filter(|((of, _), _)| *of == uid);
        let want_gaps: u64 = ours.clone().map(|(_, count)| count).sum();
        let total = count(&device["gaps"]["total"]);
        assert_eq!(
            received + total + lost,
            want + want_gaps,
            "{uid}: {device}; {replay}"
        );
        if lost == 0 {
            assert_eq!(received, want, "{uid}: {device}; {replay}");
            for ((_, name), want) in ours {
                let got = count(&device["gaps"]["by_reason"][*name]);
                assert_eq!(got, *want, "{uid} {name}; {replay}");
            }
        }
    }
}

/// The counts of the room are what is not there any more.
fn judge_room(gateway: &WorldGateway, status: &Value, ends: &mut Ends, replay: &str) {
    let mut dropped: BTreeMap<TopicId, u64> = BTreeMap::new();
    for (at, _) in gateway.archive().places() {
        *dropped.entry(at.topic).or_default() += gateway.first_kept(at);
    }
    for (at, want) in dropped {
        let got = topic(status, at);
        assert_eq!(got["dropped"], want, "{got}; {replay}");
        if at != READINGS {
            ends.rows_refused += got["rejected"].as_u64().unwrap_or(0);
        }
    }
}

/// The results are those of a fresh engine over the log.
fn judge_results(gateway: &WorldGateway, replay: &str) {
    let partitions: Vec<_> = gateway.core().partitions().collect();
    judge_log(gateway.archive(), &partitions, gateway.engine(), replay);
}

/// All derived topics are what fresh engines make of what was ever durable, and so is the
/// exchange, where there is one.
///
/// # Panics
/// At the first difference, with `what`.
pub fn judge_log(archive: &Archive, partitions: &[PartitionId], whole: &EngineConfig, what: &str) {
    let split = Split::of(whole).filter(|_| partitions.len() > 1);
    let all: Vec<usize> = (0..whole.windows.len() + whole.joins.len()).collect();
    let (config, places) = match &split {
        Some(split) => (&split.by_device, &split.by_device_of),
        None => (whole, &all),
    };
    for partition in partitions {
        let at = TopicPartition {
            topic: READINGS,
            partition: *partition,
        };
        judge_engine(
            archive,
            at,
            config,
            &streams_of(config, places, *partition),
            what,
        );
    }
    if let Some(split) = split {
        judge_exchange(archive, what);
        judge_across(archive, &split, what);
    }
}

/// A stream of an engine, and where its rows are to stand.
type Judged = (StreamId, TopicPartition);

fn streams_of(config: &EngineConfig, places: &[usize], partition: PartitionId) -> Vec<Judged> {
    let windows = (0..config.windows.len() as u16).map(StreamId::Window);
    let joins = (0..config.joins.len() as u16).map(StreamId::Join);
    let windows = windows.chain(joins).zip(places);
    let windows = windows.map(|(stream, place)| {
        let topic = TopicId(DERIVED_FIRST.0 + *place as u16);
        (stream, topic)
    });
    let asides = [(StreamId::Late, LATE), (StreamId::Quarantine, QUARANTINE)];
    let all = windows.chain(asides);
    all.map(|(stream, topic)| (stream, TopicPartition { topic, partition }))
        .collect()
}

/// Each reading is in the exchange once, those of a device in their order.
fn judge_exchange(archive: &Archive, replay: &str) {
    let mut taken: BTreeMap<[u8; 8], Vec<(u32, u64)>> = BTreeMap::new();
    let mut given = taken.clone();
    let exchange = archive
        .place(EXCHANGE_AT)
        .into_iter()
        .flat_map(BTreeMap::values);
    let note = |to: &mut BTreeMap<[u8; 8], Vec<(u32, u64)>>, entry: &Entry| {
        if let Entry::Reading(series, reading) = entry {
            let of = to.entry(series.uid.0).or_default();
            of.push((series.boot.0, reading.ordinal.0));
        }
    };
    exchange.for_each(|entry| note(&mut taken, entry));
    archive.readings().for_each(|entry| note(&mut given, entry));
    assert_eq!(taken, given, "the exchange; {replay}");
}

/// The rows of what crosses devices are those of a fresh engine over the exchange.
fn judge_across(archive: &Archive, split: &Split, replay: &str) {
    let mut config = split.across.clone();
    config.time.future_guard = Span(i64::MAX);
    let mut streams = streams_of(&config, &split.across_of, PartitionId(0));
    streams.retain(|(stream, _)| match stream {
        StreamId::Window(index) => !config.windows[usize::from(*index)].key.device,
        // Who judges what is late, the tests of the exchange say.
        StreamId::Join(_) => true,
        StreamId::Late | StreamId::Quarantine => false,
    });
    judge_engine(archive, EXCHANGE_AT, &config, &streams, replay);
}

/// What the gateway sends: not what it keeps for itself.
fn sent(archive: &Archive) -> impl Iterator<Item = (TopicPartition, &BTreeMap<u64, Entry>)> {
    let places = archive.places();
    places.filter(|(at, _)| *at != EXCHANGE_AT)
}

/// Compares topics with what a fresh engine makes of what stands, or stood, in its input.
fn judge_engine(
    archive: &Archive,
    input: TopicPartition,
    config: &EngineConfig,
    streams: &[Judged],
    what: &str,
) {
    let mut engine = Engine::new(config);
    let mut rows = row::Rows::new();
    feed_from(&mut engine, archive, input, &mut rows);
    for (stream, at) in streams {
        let of_stream = engine.views(&rows).filter(|row| row.stream() == *stream);
        let want: Vec<String> = of_stream.map(line_of).collect();
        let got = archive.place(*at).into_iter().flat_map(BTreeMap::values);
        let got: Vec<&str> = got.map(row_text).collect();
        let differs = got.iter().zip(&want).position(|(got, want)| got != want);
        if let Some(place) = differs {
            panic!(
                "{stream:?} in {at:?} offset {place}: {} is not {}; {what}",
                got[place], want[place]
            );
        }
        assert_eq!(
            got.len(),
            want.len(),
            "rows of {stream:?} in {at:?}; {what}"
        );
    }
}

fn row_text(entry: &Entry) -> &str {
    match entry {
        Entry::Row(text) => text,
        Entry::Reading(..) | Entry::Gap(_) | Entry::Clock(_) | Entry::Tables(_) => {
            panic!("readings among rows")
        }
    }
}

/// All rows of derived topics, by topic, partition and offset; what the gateway says of its
/// own state is none.
pub fn rows(archive: &Archive) -> impl Iterator<Item = (TopicPartition, &str)> {
    let derived = sent(archive).filter(|(at, _)| ![READINGS, CONTROL].contains(&at.topic));
    derived.flat_map(|(at, place)| place.values().map(move |entry| (at, row_text(entry))))
}

/// The results of each device are those of an engine that had all its readings in
/// order, whatever partitions held them; in one partition they stand in its order.
fn judge_results_by_device(devices: &[WorldDevice], archive: &Archive, replay: &str) {
    let config = super::engine_config();
    for device in devices {
        let place = |boot| device.boots.iter().position(|known| known.id == boot);
        let mut readings: Vec<_> = archive
            .readings()
            .filter_map(|entry| match entry {
                Entry::Reading(series, reading) => Some((series, reading)),
                Entry::Gap(_) | Entry::Clock(_) | Entry::Tables(_) | Entry::Row(_) => None,
            })
            .filter(|(series, _)| u64::from_be_bytes(series.uid.0) == device.uid())
            .collect();
        readings.sort_by_key(|(series, reading)| (place(series.boot.0), reading.ordinal));
        let mut engine = Engine::new(&config);
        let (mut batch, mut rows) = (Batch::new(), row::Rows::new());
        for (series, reading) in readings {
            let id = engine.series(&series.uid.to_string(), &series.name);
            let id = id.expect("room for it");
            batch.push(id, reading.time, figure(series, reading), None);
        }
        engine.on_batch(&batch, &mut rows);
        let name = format!("\"device\":\"{:016x}\"", device.uid());
        for (index, window) in (0..).zip(&config.windows) {
            let of_window = engine
                .views(&rows)
                .filter(|row| row.stream() == StreamId::Window(index));
            let mut want: Vec<String> = of_window.map(line_of).collect();
            let mut got = Vec::new();
            let topic = topic_of(&window.name);
            for (at, place) in archive.places().filter(|(at, _)| at.topic == topic) {
                let lines = place.values().filter_map(|entry| match entry {
                    // Which part of the log knew of the silence depends on the layout.
                    Entry::Row(text) if text.contains(IDLE) => None,
                    Entry::Row(text) if text.contains(&name) => Some(text.clone()),
                    Entry::Row(_)
                    | Entry::Reading(..)
                    | Entry::Gap(_)
                    | Entry::Clock(_)
                    | Entry::Tables(_) => None,
                });
                let here: Vec<String> = lines.collect();
                let mut rest = want.iter();
                let in_order = here.iter().all(|line| rest.any(|other| other == line));
                assert!(in_order, "order of {name} in {at:?}; {replay}");
                got.extend(here);
            }
            want.sort_unstable();
            got.sort_unstable();
            assert_eq!(got, want, "{} of {name}; {replay}", window.name);
        }
    }
}

fn line_of(row: RowView<'_>) -> String {
    let mut line = Vec::new();
    row.write_json(&mut line);
    String::from_utf8(line).expect("JSON is text")
}

/// What lines say that silence has caused.
const IDLE: &str = "\"reason\":\"idle\"";

/// Gives an engine what its input holds or held.
fn feed_from(engine: &mut Engine, archive: &Archive, at: TopicPartition, rows: &mut row::Rows) {
    let (mut batch, mut applied) = (Batch::new(), 0);
    for entry in archive.place(at).into_iter().flat_map(BTreeMap::values) {
        match entry {
            Entry::Reading(series, reading) => {
                let id = engine.series(&series.uid.to_string(), &series.name);
                let id = id.expect("room for it");
                batch.push(id, reading.time, figure(series, reading), None);
            }
            Entry::Clock(clock) => {
                engine.on_batch(&batch, rows);
                batch.clear();
                assert_eq!(clock.trust, ClockTrust::Yes, "the world's clock is right");
                engine.on_clock(clock.now, rows);
            }
            Entry::Tables(tables) => {
                engine.on_batch(&batch, rows);
                batch.clear();
                let upto = tables.upto.0.max(applied);
                let changes = archive.place(CHANGES_AT).into_iter();
                for (_, entry) in changes.flat_map(|place| place.range(applied..upto)) {
                    let change = Change::parse(row_text(entry).as_bytes());
                    engine.on_change(&change.expect("a change"), rows);
                }
                applied = upto;
            }
            Entry::Gap(_) => {}
            Entry::Row(_) => panic!("rows in a readings topic"),
        }
    }
    engine.on_batch(&batch, rows);
}
