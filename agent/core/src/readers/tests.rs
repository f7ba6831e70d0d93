//! Random readings, crashes, trims of the front and growing layouts: the rows in the
//! derived topics are those of a run that saw all of it at once.

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, Ordinal, Tick};
use forebay_wire::message::Quality;
use proptest::prelude::*;

mod tables;

use super::*;
use crate::change::Change;
use crate::changes::CHANGES_AT;
use crate::changes::{Base, Changes};
use crate::engine::config::{Aggregate, Bounds, Emit, Grid, TimeRules, WindowKind, WindowSpec};
use crate::limits::DERIVE_KEPT_EVERY_US;
use crate::log::block::{Body, Record};
use crate::log::decode::decode;
use crate::log::key::BlockKey;
use crate::record::{ReadingRecord, Row, Series, TablesRecord, ValueKind};
use crate::units::{Epoch, EventTime, Span};

const TUMBLING: TopicId = TopicId(16);
const SLIDING: TopicId = TopicId(17);
const WINDOW: i64 = 10;

/// `hops`: hopping windows, else sliding ones.
fn config(hops: bool) -> EngineConfig {
    let window = |name: &str, kind, emit| WindowSpec {
        aggregates: vec![Aggregate::Count, Aggregate::Sum],
        emit,
        ..WindowSpec::new(name, kind)
    };
    let (size, offset) = (Span(WINDOW), Span(0));
    let sliding = WindowKind::Sliding {
        size,
        bounds: Bounds::HalfOpen,
    };
    let hopping = WindowKind::Hopping {
        size,
        hop: Span(WINDOW / 2),
        offset,
    };
    let second = if hops { hopping } else { sliding };
    EngineConfig {
        time: TimeRules {
            out_of_order: Span(3),
            ..TimeRules::default()
        },
        windows: vec![
            window(
                "tumbling",
                WindowKind::Tumbling(Grid::Fixed { size, offset }),
                Emit::OnClose,
            ),
            window("sliding", second, Emit::EveryUpdate),
        ],
        ..EngineConfig::default()
    }
}

/// One per stream.
fn topics(config: &EngineConfig) -> Vec<Option<TopicId>> {
    let streams = config.windows.len() + config.joins.len();
    (0..streams as u16)
        .map(|n| Some(TopicId(TUMBLING.0 + n)))
        .collect()
}

fn uid(device: u64) -> DeviceUid {
    DeviceUid(device.to_be_bytes())
}

/// A log on a disk that loses what was not synced, read by readers that are killed.
struct Rig {
    partitions: u16,
    config: EngineConfig,
    /// Changes of tables below it were told to all partitions.
    told: Offset,
    blocks: BTreeMap<BlockKey, Vec<u8>>,
    meta: BTreeMap<Vec<u8>, Vec<u8>>,
    heads: BTreeMap<TopicPartition, Offset>,
    epoch: u32,
    now: Mono,
    commit: GroupCommit,
    layouts: Layouts,
    readers: Readers,
    /// What the start had to write is durable.
    founded: bool,
    /// Newest time and number of readings per device.
    devices: BTreeMap<u64, (i64, u64)>,
    /// The same of what is durable.
    durable: BTreeMap<u64, (i64, u64)>,
    /// Engines that went on from a checkpoint, rows that were made again and found to
    /// be the same or not, and what an operator was told, over all starts.
    restored: usize,
    same: u64,
    different: u64,
    notes: Vec<String>,
}

impl Rig {
    fn new(partitions: u16, hops: bool) -> Self {
        Self::of(partitions, config(hops))
    }

    fn of(partitions: u16, config: EngineConfig) -> Self {
        let commit = GroupCommit::new(Epoch(0), Span(0), BTreeMap::new());
        let layouts = Layouts::restore(&[], 1, &BTreeMap::new())
            .expect("new")
            .layouts;
        let of = (layouts.clone(), false);
        let readers = Readers::new(&config, topics(&config), of, &[], (&commit, Mono(0)));
        let mut rig = Self {
            partitions,
            config,
            told: Offset(0),
            blocks: BTreeMap::new(),
            meta: BTreeMap::new(),
            heads: BTreeMap::new(),
            epoch: 0,
            now: Mono(0),
            commit,
            layouts,
            readers,
            founded: false,
            devices: BTreeMap::new(),
            durable: BTreeMap::new(),
            restored: 0,
            same: 0,
            different: 0,
            notes: Vec::new(),
        };
        rig.start();
        rig
    }

    /// Counts what this run found.
    fn sum_up(&mut self) {
        self.restored += self.readers.start_up().restored;
        for stage in self.readers.stages() {
            let counters = stage.counters();
            self.same += counters.rows_same;
            self.different += counters.rows_different;
        }
        self.notes.extend(self.readers.take_notes());
    }

    /// Opens what the disk holds.
    fn start(&mut self) {
        self.epoch += 1;
        let meta: Vec<MetaEntry> = self.meta.clone().into_iter().collect();
        let restored = Layouts::restore(&meta, self.partitions, &self.heads).expect("it grows");
        self.commit = GroupCommit::new(Epoch(self.epoch), Span(0), self.heads.clone());
        self.layouts = restored.layouts.clone();
        // Told again, which changes nothing.
        self.told = Offset(0);
        let of = (restored.layouts, restored.anew);
        self.readers = Readers::new(
            &self.config,
            topics(&self.config),
            of,
            &meta,
            (&self.commit, self.now),
        );
        self.readers.set_base(&Arc::new(Base::restore(&meta)));
        let filled = self.readers.take_filled();
        let entries: Vec<_> = restored.entries.into_iter().chain(filled).collect();
        self.founded = entries.is_empty();
        for (key, value) in entries {
            self.commit.meta(key, value, self.now);
        }
    }

    /// A reading of a device; of a run of devices each has its own order of times.
    fn take(&mut self, device: u64, step: i64) {
        if !self.founded {
            self.turn(None);
        }
        let (newest, count) = self.devices.entry(device).or_default();
        let time = (*newest + step).max(0);
        *newest = time.max(*newest);
        let ordinal = *count;
        *count += 1;
        let series = Series {
            uid: uid(device),
            boot: BootId(1),
            channel: ChannelNo(0),
            kind: ValueKind::Scaled { scale: 0 },
            name: Arc::from("a"),
            unit: Arc::from(""),
        };
        let record = ReadingRecord {
            series: 0,
            ordinal: Ordinal(ordinal),
            tick: Tick(ordinal),
            time: EventTime(time),
            uncertainty_us: 0,
            value: 1 << (ordinal % 20),
            quality: Quality::Ok,
        };
        let partition = self.layouts.current().router.partition(uid(device));
        self.commit
            .reading(readings_of(partition), &series, &record, self.now);
    }

    /// A change of a table.
    fn change(&mut self, change: &Change) {
        let mut line = Vec::new();
        change.write_json(&mut line);
        let time = change.time;
        self.commit.row(CHANGES_AT, &Row { time, line }, self.now);
    }

    /// Tells each partition what is durable of the changes.
    fn tell(&mut self) {
        let upto = self.commit.head(CHANGES_AT);
        if !self.founded || upto <= self.told {
            return;
        }
        self.told = upto;
        let tables = TablesRecord {
            upto,
            time: EventTime(0),
        };
        for partition in self.layouts.current().router.partitions() {
            let at = readings_of(partition);
            self.commit.tables(at, &tables, self.now);
        }
    }

    /// One turn of the pipeline, with a cut of what was given. `lose_blocks` and
    /// `lose_meta` say what of it a crash takes, after which it starts again.
    fn turn(&mut self, crash: Option<(bool, bool)>) -> bool {
        self.now.0 += 1;
        self.tell();
        if let Some(entries) = self.readers.next_layout(&self.commit, self.now) {
            for (key, value) in entries {
                self.commit.meta(key, value, self.now);
            }
        }
        if self.commit.is_due(self.now) {
            for (key, value) in self.readers.take_entries(false, &self.commit, self.now) {
                self.commit.meta(key, value, self.now);
            }
        }
        let batch = self.commit.poll(self.now);
        let (lose_blocks, lose_meta) = crash.unwrap_or((false, false));
        let some = batch.is_some();
        if let Some((token, batch)) = batch {
            self.readers.on_cut();
            self.founded = true;
            if !lose_blocks {
                self.durable.clone_from(&self.devices);
                for block in batch.blocks {
                    let head = decode(block.key, &block.bytes).expect("a block").end();
                    self.heads.insert(block.key.at, head);
                    self.blocks.insert(block.key, block.bytes);
                }
                if !lose_meta {
                    self.meta.extend(batch.meta);
                }
            }
            self.commit.committed(token);
            self.readers.on_committed();
        }
        if crash.is_some() {
            // What was not durable the devices still have: it comes again.
            self.sum_up();
            self.start();
            self.devices.clone_from(&self.durable);
        }
        some
    }

    /// One read of the log; false when there is none to do.
    fn read(&mut self, bytes_max: usize) -> bool {
        if !self.founded {
            return false;
        }
        let Some((read, at, from)) = self.readers.next_fetch(&self.commit) else {
            return false;
        };
        let blocks = self.blocks_of(at, from, bytes_max);
        self.readers
            .on_fetched(read, &blocks, self.now, &mut self.commit);
        true
    }

    /// What a read of the log gives.
    fn blocks_of(&self, at: TopicPartition, from: Offset, bytes_max: usize) -> Vec<StoredBlock> {
        let key = |base| BlockKey { at, base, chunk: 0 };
        let of = self.blocks.range(key(Offset(0))..=key(Offset(u64::MAX)));
        let before = of.clone().rfind(|(key, _)| key.base <= from);
        let first = before.map_or(from, |(key, _)| key.base);
        let mut sum = 0;
        of.filter(|(key, _)| key.base >= first)
            .take_while(|(_, bytes)| {
                sum += bytes.len();
                sum == bytes.len() || sum <= bytes_max
            })
            .map(|(key, bytes)| StoredBlock {
                key: *key,
                bytes: bytes.clone(),
            })
            .collect()
    }

    /// Removes whole blocks of readings below a part of each partition.
    fn trim(&mut self, part: f64) {
        let heads = self.heads.clone();
        self.blocks.retain(|key, bytes| {
            let below = heads[&key.at].0 as f64 * part;
            let end = decode(*key, bytes).expect("a block").end();
            key.at.topic != READINGS || end.0 as f64 > below
        });
    }

    fn settle(&mut self) {
        loop {
            while self.read(400) {}
            if !self.turn(None) && self.readers.is_settled(&self.commit) {
                return;
            }
        }
    }

    /// Lines of a derived topic, by partition.
    fn lines(&self, topic: TopicId) -> BTreeMap<u16, Vec<String>> {
        let mut out: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        for (key, bytes) in self.blocks.iter().filter(|(key, _)| key.at.topic == topic) {
            let lines = out.entry(key.at.partition.0).or_default();
            assert_eq!(key.base.0, lines.len() as u64, "a hole in {topic:?}");
            let block = decode(*key, bytes).expect("a block");
            let Body::Rows(rows) = block.body else {
                panic!("readings in a derived topic");
            };
            let text = |row: &crate::record::Row| String::from_utf8(row.line.clone());
            lines.extend(rows.iter().map(|row| text(row).expect("JSON is text")));
        }
        out
    }
}

/// Ordinals and times of a device in a block.
fn times_of(key: BlockKey, bytes: &[u8], device: u64) -> Vec<(u64, i64)> {
    let block = decode(key, bytes).expect("a block");
    let Body::Readings { series, records } = block.body else {
        return Vec::new();
    };
    let of = |record: &Record| match record {
        Record::Reading(reading) if series[usize::from(reading.series)].uid == uid(device) => {
            Some((reading.ordinal.0, reading.time.0))
        }
        Record::Reading(_) | Record::Gap(_) | Record::Clock(_) | Record::Tables(_) => None,
    };
    records.iter().filter_map(of).collect()
}

/// Readings of every device in the order in which the log took them, by partition of
/// a log that had `partitions` from the start.
type History = Vec<(u64, i64, u64)>;

/// The rows of an engine per partition that sees it all at once, by partition.
fn reference(
    history: &History,
    (partitions, hops): (u16, bool),
    topic: TopicId,
) -> BTreeMap<u16, Vec<String>> {
    let mut rig = Rig::new(partitions, hops);
    for (device, time, ordinal) in history {
        let (newest, count) = rig.devices.entry(*device).or_default();
        let step = *time - *newest;
        assert_eq!(*count, *ordinal, "device {device}");
        rig.take(*device, step);
    }
    rig.turn(None);
    rig.settle();
    rig.lines(topic)
}

/// Everything that the readings of a rig's log say, layout by layout.
fn history(rig: &Rig) -> History {
    let mut out = Vec::new();
    let mut seen = BTreeMap::new();
    for device in rig.devices.keys() {
        let mut of: Vec<(u64, i64)> = Vec::new();
        for (key, bytes) in rig
            .blocks
            .iter()
            .filter(|(key, _)| key.at.topic == READINGS)
        {
            of.extend(times_of(*key, bytes, *device));
        }
        of.sort_unstable();
        seen.insert(*device, of);
    }
    for (device, of) in seen {
        out.extend(
            of.into_iter()
                .map(|(ordinal, time)| (device, time, ordinal)),
        );
    }
    out
}

/// Lines by device, in order of partitions.
fn by_device(lines: &BTreeMap<u16, Vec<String>>) -> BTreeMap<String, Vec<String>> {
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines.values().flatten() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let device = row["device"].as_str().expect("a device").to_owned();
        out.entry(device).or_default().push(line.clone());
    }
    out
}

#[derive(Debug, Clone)]
enum Step {
    Take(u64, i64),
    Turn,
    Read(usize),
    /// The batch is lost, or only its meta entries, or nothing of it.
    Crash(bool, bool),
    Trim(f64),
    Grow(u16),
    /// Time goes on, so that places are kept without a row.
    Wait,
    /// State is kept with the next batch.
    Keep,
}

/// `back` microseconds is how far a reading may be behind its device's newest.
fn steps(back: i64, trims: bool, grows: bool) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        30 => (0..6_u64, -back..=6_i64).prop_map(|(device, step)| Step::Take(device, step)),
        12 => Just(Step::Turn),
        12 => prop_oneof![Just(100_usize), Just(400), Just(5000)].prop_map(Step::Read),
        4 => (any::<bool>(), any::<bool>()).prop_map(|(b, m)| Step::Crash(b, m)),
        if trims { 3 } else { 0 } => (0.0..1.0).prop_map(Step::Trim),
        if grows { 1 } else { 0 } => prop_oneof![Just(2_u16), Just(5)].prop_map(Step::Grow),
        1 => Just(Step::Wait),
        6 => Just(Step::Keep),
    ];
    prop::collection::vec(step, 1..250)
}

impl Rig {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Take(device, step) => self.take(*device, *step),
            Step::Turn => drop(self.turn(None)),
            Step::Read(bytes_max) => drop(self.read(*bytes_max)),
            Step::Crash(blocks, meta) => drop(self.turn(Some((*blocks, *meta)))),
            Step::Trim(part) => self.trim(*part),
            Step::Grow(partitions) => {
                self.partitions = self.partitions.max(*partitions);
                self.turn(Some((false, false)));
            }
            Step::Wait => self.now.0 += DERIVE_KEPT_EVERY_US,
            Step::Keep => {
                if self.readers.want() {
                    self.commit.wake(self.now);
                }
            }
        }
    }
}

fn run(partitions: u16, hops: bool, steps: &[Step]) -> Rig {
    let mut rig = Rig::new(partitions, hops);
    steps.iter().for_each(|step| rig.step(step));
    rig.turn(None);
    rig.settle();
    rig.sum_up();
    assert_eq!(
        (rig.different, &rig.notes),
        (0, &Vec::new()),
        "all is the same"
    );
    rig
}

/// Which device and time each row of a sliding window is of, with its count.
fn sliding_rows(lines: &BTreeMap<u16, Vec<String>>) -> Vec<(String, String, u64)> {
    let mut out = Vec::new();
    for line in lines.values().flatten() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let text = |key: &str| row[key].as_str().expect("text").to_owned();
        out.push((
            text("device"),
            text("time"),
            row["count"].as_u64().expect("a count"),
        ));
    }
    out
}

#[test]
fn nothing_is_kept_before_the_place_to_which_rows_were_written_already() {
    // Rows of five readings stand, and no checkpoint: the next start reads all anew. Were
    // it kept after three of them, the one after that would take the rows of the fourth
    // and fifth for those of later readings.
    for hops in [false, true] {
        let rig = run(
            1,
            hops,
            &[
                Step::Take(0, 0),
                Step::Take(0, 0),
                Step::Take(0, 0),
                Step::Crash(false, false),
                Step::Take(4, 0),
                Step::Take(0, 0),
                Step::Turn,
                Step::Read(400),
                Step::Take(4, 0),
                Step::Crash(false, false),
                Step::Read(100),
                Step::Keep,
                Step::Turn,
                Step::Read(100),
                Step::Read(100),
                Step::Crash(false, false),
            ],
        );
        assert!(rig.lines(SLIDING)[&0].len() >= 6);
    }
}

#[test]
fn a_start_replays_what_came_since_the_checkpoint_however_long_the_log_is() {
    for readings in [1_000, 20_000] {
        let mut rig = Rig::new(2, true);
        let take = |rig: &mut Rig, count: u64| {
            for n in 0..count {
                rig.take(n % 5, (n % 7) as i64 - 1);
                if n % 100 == 0 {
                    rig.turn(None);
                }
            }
            rig.turn(None);
            rig.settle();
        };
        take(&mut rig, readings);
        assert!(rig.readers.want());
        rig.commit.wake(rig.now);
        rig.turn(None);
        take(&mut rig, 50);
        rig.turn(Some((false, false)));
        rig.settle();
        rig.sum_up();
        let start = rig.readers.start_up();
        assert_eq!((start.restored, start.replayed), (2, 50), "{readings}");
        assert!(rig.same > 0, "rows of the last 50 stand there");
        assert_eq!((rig.different, &rig.notes), (0, &Vec::new()), "{readings}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn crashes_neither_lose_nor_repeat_a_row(steps in steps(8, false, false), partitions in 1..3_u16, hops: bool) {
        let rig = run(partitions, hops, &steps);
        let history = history(&rig);
        for topic in [TUMBLING, SLIDING, LATE] {
            let (got, want) = (rig.lines(topic), reference(&history, (partitions, hops), topic));
            prop_assert_eq!(by_device(&got), by_device(&want));
        }
    }

    #[test]
    fn a_log_that_grew_has_the_rows_of_one_that_had_all_partitions(steps in steps(8, false, true), hops: bool) {
        let rig = run(1, hops, &steps);
        let history = history(&rig);
        let mut durable = BTreeMap::new();
        for (device, _, _) in &history {
            *durable.entry(*device).or_insert(0_u64) += 1;
        }
        for (device, (_, count)) in &rig.devices {
            prop_assert_eq!(durable.get(device).copied().unwrap_or(0), *count, "all are there");
        }
        for topic in [TUMBLING, SLIDING, LATE] {
            let got = rig.lines(topic);
            let want = by_device(&reference(&history, (5, hops), topic));
            for (device, mut lines) in by_device(&got) {
                for in_one in got.values() {
                    let rest = in_one.iter().filter(|line| line.contains(&device));
                    let mut wanted = want[&device].iter();
                    let in_order = rest.into_iter().all(|line| wanted.any(|w| w == line));
                    prop_assert!(in_order, "order of {} in {:?}", device, topic);
                }
                let mut want = want[&device].clone();
                lines.sort_unstable();
                want.sort_unstable();
                prop_assert_eq!(lines, want);
            }
            prop_assert_eq!(by_device(&got).len(), want.len());
        }
    }

    #[test]
    fn trims_lose_no_row_whose_window_is_kept(steps in steps(0, true, false)) {
        // Without trims the same steps give the rows to compare with.
        let whole: Vec<Step> = steps.iter().map(without_trim).collect();
        let (got, want) = (run(1, false, &steps), run(1, false, &whole));
        let kept: Vec<(u64, i64, u64)> = history(&got);
        let (got_rows, want_rows) = (sliding_rows(&got.lines(SLIDING)), sliding_rows(&want.lines(SLIDING)));
        // One row per reading, whatever was trimmed; the same one where nothing of its
        // window was.
        let times = |rows: &[(String, String, u64)]| {
            let all = rows.iter().map(|(device, time, _)| (device.clone(), time.clone()));
            all.collect::<Vec<_>>()
        };
        let mut missing: Vec<_> = times(&want_rows);
        for row in times(&got_rows) {
            let place = missing.iter().position(|other| *other == row);
            prop_assert!(place.is_some(), "{:?} twice or invented", row);
            missing.remove(place.unwrap_or(0));
        }
        let first: BTreeMap<String, i64> = kept
            .iter()
            .rev()
            .map(|(device, time, _)| (uid(*device).to_string(), *time))
            .collect();
        for topic in [TUMBLING, SLIDING] {
            let (got, want) = (got.lines(topic), want.lines(topic));
            let all = |lines: &BTreeMap<u16, Vec<String>>, line: &String| {
                lines.values().flatten().filter(|other| *other == line).count()
            };
            for line in want.values().flatten() {
                let (device, starts_at) = window_of(line);
                if first.get(&device).is_some_and(|first| starts_at > *first) {
                    prop_assert_eq!(all(&got, line), all(&want, line), "{}", line);
                }
            }
        }
    }
}

fn without_trim(step: &Step) -> Step {
    let is_trim = matches!(step, Step::Trim(_));
    if is_trim {
        Step::Trim(0.0)
    } else {
        step.clone()
    }
}

/// Device of a row, and the first time that its window may hold.
fn window_of(line: &str) -> (String, i64) {
    let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let device = row["device"].as_str().expect("a device").to_owned();
    let time = |key: &str| {
        let text = row[key].as_str().expect("a time");
        crate::utc::parse(text).expect("a time").0
    };
    let start = if row["start"].is_null() {
        time("time") - WINDOW + 1
    } else {
        time("start")
    };
    (device, start)
}
