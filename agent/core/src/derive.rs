//! One partition's engine: fed with the readings of its devices, it appends its
//! result rows to the derived topics, and keeps the time index and the newest
//! readings.
//!
//! Holds always: what the engine emits is a function of the order of the log alone.
//! After a restart it is fed from the first reading that is kept; rows of readings
//! before [`Since::place`] are left out, as they are all in their topic, and of the
//! rows after it those that stand there already. Knows no clock and no store.

use std::collections::VecDeque;

use forebay_wire::ids::DeviceUid;

pub use crate::checkpoint::Place;
use crate::clock::Heard;
use crate::commit::GroupCommit;
use crate::engine::config::EngineConfig;
use crate::engine::row::{Rows, StreamId};
use crate::engine::{Batch, Engine, SeriesId};
use crate::limits::ROW_BYTES_MAX;
use crate::live::{LiveIndex, LiveTable, figure};
use crate::log::block::{ReadingRecord, Row, Series};
use crate::log::index::TimeIndex;
use crate::log::key::TopicPartition;
use crate::log::topic::{LATE, QUARANTINE};
use crate::parked::{Parked, Waiting};
use crate::record::{ClockRecord, ClockTrust};
use crate::units::{Epoch, EventTime, Mono, Offset, PartitionId, TopicId};

/// What a series of a block is to the engine and to the newest readings; no id
/// when the engine takes no more series.
pub type Known = (Option<SeriesId>, LiveIndex);

/// How far a derived topic of one partition has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Since {
    /// All rows of readings before this place are in the topic.
    pub place: Place,
    /// Offset of the first row of what follows.
    pub next: Offset,
}

/// Rows of readings after the kept place that stand in the topic already.
#[derive(Debug, Clone)]
enum Stored {
    /// Their lines, in order.
    Lines(VecDeque<Vec<u8>>),
    /// Too many to be held: they are counted off. Where the log lost readings between,
    /// none is: a row twice is better than none.
    Count(u64),
}

impl Stored {
    /// Whether a line stands there; `identity` are the bytes that say which one it is.
    /// Where readings were trimmed, the figures may be others, and lines before it may
    /// not come again.
    fn take(&mut self, identity: &[u8]) -> bool {
        match self {
            Self::Lines(lines) => {
                let found = lines.iter().position(|line| line.starts_with(identity));
                if let Some(index) = found {
                    lines.drain(..=index);
                }
                found.is_some()
            }
            Self::Count(count) => {
                let some = *count > 0;
                *count = count.saturating_sub(1);
                some
            }
        }
    }
}

/// Where the rows of one stream go.
#[derive(Debug, Clone)]
struct Output {
    /// `None`: the log has no room for one more definition; its rows are left out.
    topic: Option<TopicId>,
    since: Since,
    stored: Stored,
    /// It has rows that the kept place does not cover.
    moved: bool,
}

/// What one partition's reader met that an operator should hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeriveCounters {
    /// Records of the log that were passed over: trimmed, lost, or unreadable.
    pub records_missing: u64,
    /// Rows of a window that got no topic.
    pub rows_homeless: u64,
    /// Rows longer than a block takes.
    pub rows_oversize: u64,
    /// Readings of series beyond those that the engine takes: stored and forwarded,
    /// in no window.
    pub readings_beyond: u64,
    /// Rows written to derived topics since the start.
    pub rows: u64,
}

/// The engine of one partition.
#[derive(Debug)]
pub struct Derive {
    partition: PartitionId,
    engine: Engine,
    /// Windows in config order, then `late`, then `quarantine`.
    outputs: Vec<Output>,
    pub(crate) index: TimeIndex,
    pub(crate) live: LiveTable,
    parked: Parked<Known>,
    /// Of the block that is read.
    epoch: Epoch,
    batch: Batch,
    /// Of each reading of the batch.
    places: Vec<Place>,
    rows: Rows,
    /// What rows stand there already is of readings before this place.
    stored_until: Place,
    pub(crate) counters: DeriveCounters,
}

impl Derive {
    /// The engine of `partition` that writes window n to `topics[n]`, if it has one.
    /// `since` says how far a topic has come, and its durable head; what stands there
    /// is of readings before `stored_until`.
    #[must_use]
    pub fn new(
        partition: PartitionId,
        config: &EngineConfig,
        topics: &[Option<TopicId>],
        since: impl Fn(TopicId) -> (Since, Offset),
        stored_until: Place,
    ) -> Self {
        let outputs = topics.iter().chain(&[Some(LATE), Some(QUARANTINE)]);
        let outputs = outputs.map(|topic| {
            let since = topic.map(&since);
            let (since, head) = since.unwrap_or_default();
            Output {
                topic: *topic,
                since,
                stored: Stored::Count(head.0.saturating_sub(since.next.0)),
                moved: false,
            }
        });
        Self {
            partition,
            engine: Engine::new(config),
            outputs: outputs.collect(),
            index: TimeIndex::default(),
            live: LiveTable::default(),
            parked: Parked::default(),
            epoch: Epoch(0),
            batch: Batch::new(),
            places: Vec::new(),
            rows: Rows::new(),
            stored_until,
            counters: DeriveCounters::default(),
        }
    }

    /// The lines of `topic` that stand there after its kept place, before anything
    /// is fed.
    pub fn set_stored(&mut self, topic: TopicId, lines: &VecDeque<Vec<u8>>) {
        let of = |output: &&mut Output| output.topic == Some(topic);
        for output in self.outputs.iter_mut().filter(of) {
            output.stored = Stored::Lines(lines.clone());
        }
    }

    #[must_use]
    pub fn counters(&self) -> DeriveCounters {
        self.counters
    }

    /// Below this time nothing more is expected of a device.
    #[must_use]
    pub fn watermark(&self, uid: DeviceUid) -> EventTime {
        let watermark = self.engine.watermark(&uid.to_string());
        watermark.unwrap_or(EventTime(i64::MIN))
    }

    /// What a series is to the engine; the same at every call.
    pub fn intern(&mut self, series: &Series) -> Known {
        let device = series.uid.to_string();
        let id = self.engine.series(&device, &series.name).ok();
        (id, self.live.intern(series))
    }

    /// Takes the reading that stands at `place`; its rows come with the next
    /// [`Derive::step`].
    pub fn on_reading(
        &mut self,
        known: Known,
        (series, reading): (&Series, &ReadingRecord),
        (place, now): (Place, Mono),
        commit: &mut GroupCommit,
    ) {
        let waiting = Waiting {
            known,
            reading: *reading,
            value: figure(series, reading),
        };
        if !reading.is_unsynced() {
            return self.push(&waiting, place);
        }
        if let Err(waiting) = self.parked.park(self.epoch, waiting) {
            self.quarantine(vec![waiting], (place, now), commit);
        }
    }

    fn push(&mut self, waiting: &Waiting<Known>, place: Place) {
        let (id, live) = waiting.known;
        self.live.update(live, waiting.value, &waiting.reading);
        let Some(id) = id else {
            self.counters.readings_beyond += 1;
            return;
        };
        let time = waiting.reading.time;
        self.batch.push(id, time, waiting.value, None);
        self.places.push(place);
    }

    /// Sets readings aside of which nobody will ever know the time.
    fn quarantine(
        &mut self,
        readings: Vec<Waiting<Known>>,
        (place, now): (Place, Mono),
        commit: &mut GroupCommit,
    ) {
        self.step(now, commit);
        for waiting in readings {
            if let (Some(id), _) = waiting.known {
                let time = waiting.reading.time;
                self.batch.push(id, time, waiting.value, None);
                self.places.push(place);
            }
        }
        self.engine.set_aside_all(&self.batch, &mut self.rows);
        self.batch.clear();
        self.write_rows(now, commit);
        self.places.clear();
    }

    /// What follows was written in this opening of the log.
    pub fn on_epoch(&mut self, epoch: Epoch, when: (Place, Mono), commit: &mut GroupCommit) {
        self.epoch = epoch;
        let lost = self.parked.take_lost(epoch);
        if !lost.is_empty() {
            self.quarantine(lost, when, commit);
        }
    }

    /// Takes what the gateway's clock said, as it stands at the place.
    pub fn on_clock(
        &mut self,
        clock: &ClockRecord,
        (place, now): (Place, Mono),
        commit: &mut GroupCommit,
    ) {
        self.step(now, commit);
        let step = match clock.trust {
            ClockTrust::No => return self.engine.on_clock_lost(),
            ClockTrust::Yes => None,
            ClockTrust::Since(step) => Some(step),
        };
        self.places.push(place);
        self.engine.on_clock(clock.now, &mut self.rows);
        self.write_rows(now, commit);
        self.places.clear();
        if let Some(step) = step {
            for waiting in self.parked.release(step) {
                self.push(&waiting, place);
            }
            self.step(now, commit);
        }
    }

    /// What this engine knows of the clock, which says `now`.
    pub fn heard(&mut self, now: EventTime) -> Heard {
        Heard {
            now: self.engine.clock(),
            next_idle: self.engine.next_idle(now),
            parks: !self.parked.is_empty(),
        }
    }

    /// Readings that wait until their time is known: none stands in a checkpoint.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Gives the readings taken so far to the engine, and its rows to `commit`.
    pub fn step(&mut self, now: Mono, commit: &mut GroupCommit) {
        self.engine.on_batch(&self.batch, &mut self.rows);
        self.batch.clear();
        if !self.rows.is_empty() {
            self.write_rows(now, commit);
        }
        self.places.clear();
    }

    /// Readings before `end` are missing that a run before may have had: how many rows
    /// it wrote of what follows cannot be counted any more.
    pub fn on_hole(&mut self, end: Place) {
        let before = |output: &&mut Output| output.since.place < end;
        for output in self.outputs.iter_mut().filter(before) {
            if let Stored::Count(count) = &mut output.stored {
                *count = 0;
            }
        }
    }

    fn write_rows(&mut self, now: Mono, commit: &mut GroupCommit) {
        let windows = self.outputs.len() - 2;
        for row in self.engine.views(&self.rows) {
            let place = self.places[row.cause()];
            let index = match row.stream() {
                StreamId::Window(index) => usize::from(index),
                StreamId::Late => windows,
                StreamId::Quarantine => windows + 1,
            };
            let output = &mut self.outputs[index];
            let Some(topic) = output.topic else {
                self.counters.rows_homeless += 1;
                continue;
            };
            // Before those that stand there: it is not among them.
            let mut line = Vec::new();
            let identity = row.write_json(&mut line);
            if line.len() > ROW_BYTES_MAX {
                self.counters.rows_oversize += 1;
                continue;
            }
            if place < output.since.place {
                continue;
            }
            if place >= self.stored_until {
                output.stored = Stored::Count(0);
            }
            if output.stored.take(&line[..identity]) {
                continue;
            }
            let at = TopicPartition {
                topic,
                partition: self.partition,
            };
            output.moved = true;
            let time = row.time();
            if commit.row(at, &Row { time, line }, now) {
                self.counters.rows += 1;
            }
        }
        self.rows.clear();
    }

    /// How far each topic has come when all readings before `place` were fed, for those
    /// where it is worth keeping: all rows up to there are given to `commit`. `all`
    /// also gives those without a new row.
    pub fn take_since(
        &mut self,
        place: Place,
        all: bool,
        commit: &GroupCommit,
    ) -> Vec<(TopicPartition, Since)> {
        let partition = self.partition;
        let mut out = Vec::new();
        for output in &mut self.outputs {
            let worth = output.moved || (all && place > output.since.place);
            let reached = place >= output.since.place;
            let Some(topic) = output.topic.filter(|_| worth && reached) else {
                continue;
            };
            let at = TopicPartition { topic, partition };
            output.since.place = place;
            output.since.next = match &output.stored {
                // Lines that have not come again yet, or never will: from the first on.
                Stored::Lines(lines) if !lines.is_empty() => output.since.next,
                Stored::Lines(_) => commit.next(at),
                Stored::Count(count) => Offset(commit.next(at).0.saturating_sub(*count)),
            };
            output.moved = false;
            out.push((at, output.since));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use forebay_wire::ids::{BootId, ChannelNo, Ordinal, Tick};
    use forebay_wire::message::Quality;

    use super::*;
    use crate::engine::config::{Aggregate, Bounds, Emit, TimeRules, WindowKind, WindowSpec};
    use crate::record::ValueKind;
    use crate::units::{Epoch, Span};

    const FIRST: TopicId = TopicId(16);

    fn window(name: &str) -> WindowSpec {
        let kind = WindowKind::Sliding {
            size: Span(10),
            bounds: Bounds::HalfOpen,
        };
        WindowSpec {
            aggregates: vec![Aggregate::Count],
            emit: Emit::EveryUpdate,
            ..WindowSpec::new(name, kind)
        }
    }

    fn at(topic: TopicId) -> TopicPartition {
        TopicPartition {
            topic,
            partition: PartitionId(0),
        }
    }

    fn place(offset: u64) -> Place {
        Place {
            offset: Offset(offset),
            ..Place::default()
        }
    }

    struct Fed {
        derive: Derive,
        commit: GroupCommit,
    }

    impl Fed {
        /// Windows `name` and `second`; the topic FIRST holds `head` rows, of which those
        /// from `next` on are of readings from `since` on.
        fn new(name: &str, topics: &[Option<TopicId>], since: u64, next: u64, head: u64) -> Self {
            let config = EngineConfig {
                time: TimeRules::default(),
                windows: vec![window(name), window("second")],
            };
            let heads = BTreeMap::from([(at(FIRST), Offset(head))]);
            let commit = GroupCommit::new(Epoch(1), Span(0), heads);
            let derive = Derive::new(
                PartitionId(0),
                &config,
                topics,
                |topic| {
                    let since = Since {
                        place: place(since),
                        next: Offset(if topic == FIRST { next } else { 0 }),
                    };
                    (since, commit.head(at(topic)))
                },
                place(u64::MAX),
            );
            Self { derive, commit }
        }

        /// Feeds the readings at these offsets; gives how far FIRST has come.
        fn feed(&mut self, offsets: std::ops::Range<u64>) -> u64 {
            let series = Series {
                uid: DeviceUid([1; 8]),
                boot: BootId(1),
                channel: ChannelNo(0),
                kind: ValueKind::Scaled { scale: 0 },
                name: Arc::from("a"),
                unit: Arc::from(""),
            };
            for n in offsets {
                let reading = ReadingRecord {
                    series: 0,
                    ordinal: Ordinal(n),
                    tick: Tick(n),
                    time: EventTime(n as i64),
                    uncertainty_us: 0,
                    value: 1,
                    quality: Quality::Ok,
                };
                let known = self.derive.intern(&series);
                let of = (&series, &reading);
                let when = (place(n), Mono(0));
                self.derive.on_reading(known, of, when, &mut self.commit);
            }
            self.derive.step(Mono(0), &mut self.commit);
            self.commit.next(at(FIRST)).0
        }
    }

    #[test]
    fn a_window_without_a_topic_takes_nobody_elses() {
        let mut fed = Fed::new("first", &[None, Some(FIRST)], 0, 0, 0);
        assert_eq!(fed.feed(0..3), 3);
        assert_eq!(fed.commit.next(at(LATE)).0, 0, "each keeps its own");
        let counters = fed.derive.counters();
        assert_eq!((counters.rows, counters.rows_homeless), (3, 3));
    }

    #[test]
    fn a_row_that_was_never_stored_is_not_among_the_known_ones() {
        let long = "x".repeat(ROW_BYTES_MAX);
        let mut fed = Fed::new(&long, &[Some(FIRST), None], 0, 0, 2);
        assert_eq!(
            (fed.feed(0..3), fed.derive.counters().rows_oversize),
            (2, 3)
        );
        let mut fed = Fed::new("first", &[Some(FIRST), None], 0, 0, 2);
        assert_eq!(fed.feed(0..3), 3, "two stand there, the third is new");
    }

    #[test]
    fn rows_before_the_kept_place_are_left_out_and_so_many_after_it() {
        for (name, since, next, head, want) in [
            ("nothing kept", 0, 0, 0, 6),
            ("nothing kept, some there", 0, 0, 4, 6),
            ("all at the kept place", 4, 4, 4, 6),
            ("one more than the kept place says", 4, 4, 5, 6),
            (
                "more rows than readings, as of a longer log",
                4,
                104,
                104,
                106,
            ),
            (
                "the same, one written after the kept place",
                4,
                103,
                104,
                105,
            ),
            ("past the end", 9, 6, 6, 6),
        ] {
            let mut fed = Fed::new("first", &[Some(FIRST), None], since, next, head);
            assert_eq!(fed.feed(0..6), want, "{name}");
        }
    }

    #[test]
    fn after_a_loss_none_is_counted_off() {
        let fed = || Fed::new("first", &[Some(FIRST), None], 4, 4, 6);
        let mut holes = fed();
        holes.derive.on_hole(place(4));
        assert_eq!(holes.feed(4..8), 8, "a hole before the kept place");
        let mut holes = fed();
        holes.derive.on_hole(place(5));
        assert_eq!(holes.feed(5..8), 9, "one after it");
    }

    /// Lines of a row per reading with this `count` figure.
    fn lines(rows: &[(u64, u64)]) -> VecDeque<Vec<u8>> {
        let line = |(time, count): &(u64, u64)| {
            let head = "{\"stream\":\"first\",\"device\":\"0101010101010101\",\"channel\":\"a\"";
            let time = format!("1970-01-01T00:00:00.00000{time}Z");
            format!("{head},\"time\":\"{time}\",\"count\":{count}}}").into_bytes()
        };
        rows.iter().map(line).collect()
    }

    #[test]
    fn lines_that_stand_there_are_left_out_whatever_is_missing_before() {
        for (name, stored, from, want) in [
            ("all of them", &[(4, 5), (5, 6)][..], 0, 4 + 4),
            ("none", &[], 0, 4 + 4),
            ("the first is lost", &[(5, 6)], 0, 4 + 4),
            (
                "other figures, as some readings are trimmed",
                &[(4, 5), (5, 6)],
                3,
                4 + 4,
            ),
            ("one that does not come again", &[(4, 5), (5, 6)], 5, 4 + 4),
            ("one of another reading", &[(9, 9)], 0, 4 + 5),
        ] {
            let head = 4 + stored.len() as u64;
            let mut fed = Fed::new("first", &[Some(FIRST), None], 4, 4, head);
            fed.derive.set_stored(FIRST, &lines(stored));
            fed.derive.on_hole(place(5));
            assert_eq!(fed.feed(from..8), want, "{name}");
        }
    }

    #[test]
    fn what_stands_there_is_forgotten_behind_the_end_of_the_log_at_the_start() {
        let mut fed = Fed::new("first", &[Some(FIRST), None], 4, 4, 6);
        fed.derive.set_stored(FIRST, &lines(&[(4, 5), (6, 7)]));
        fed.derive.stored_until = place(6);
        assert_eq!(fed.feed(0..6), 7, "the one at 5 is new");
        assert_eq!(
            fed.feed(6..8),
            9,
            "and so is the one at 6, whatever it looks like"
        );
    }

    #[test]
    fn the_place_is_kept_with_new_rows_or_when_all_are_asked() {
        let mut fed = Fed::new("first", &[Some(FIRST), None], 4, 4, 5);
        let kept = |fed: &mut Fed, offset, all| {
            let since = fed.derive.take_since(place(offset), all, &fed.commit);
            let first = since.into_iter().find(|(to, _)| *to == at(FIRST));
            first.map(|(_, since)| (since.place.offset.0, since.next.0))
        };
        fed.feed(0..3);
        assert_eq!(kept(&mut fed, 3, true), None, "never before what is kept");
        fed.feed(3..4);
        assert_eq!(kept(&mut fed, 4, false), None, "no new row");
        fed.feed(4..5);
        assert_eq!(kept(&mut fed, 5, false), None, "a known one is not new");
        assert_eq!(kept(&mut fed, 5, true), Some((5, 5)));
        assert_eq!(kept(&mut fed, 5, true), None, "it has not moved");
        fed.feed(5..7);
        assert_eq!(kept(&mut fed, 7, false), Some((7, 7)));
    }
}
