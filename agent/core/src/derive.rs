//! One partition's engine: fed with the readings of its devices, it appends its
//! result rows to the derived topics, and keeps the time index and the newest
//! readings.
//!
//! Holds always: what the engine emits is a function of the order of the log alone.
//! After a restart it goes on from its last checkpoint, and what it emits again is
//! compared with what stands in the topics and left out. Without one it is fed from
//! the first reading that is kept; rows of readings before [`Since::place`] are left
//! out, as they are all in their topic, and of the rows after it those that stand
//! there already. Knows no clock and no store.

mod beside;
mod kept;
mod outlets;
pub(crate) mod standing;
mod stored;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use forebay_wire::ids::DeviceUid;

use self::kept::Keeping;
pub use self::kept::{Kept, Restored};
use self::outlets::is_taken;
pub use self::outlets::{Outlet, Outlets};
use self::stored::{Compared, Stored};
pub use self::stored::{Difference, StoredLine};
use self::tables::Applied;
pub use crate::checkpoint::Place;
use crate::checkpoint::{PipelineHash, Unit};
use crate::clock::Heard;
use crate::commit::GroupCommit;
use crate::engine::config::{Emit, EngineConfig};
use crate::engine::rolling::Rolling;
use crate::engine::row::{Rows, StreamId};
use crate::engine::{Batch, Engine, SeriesId};
use crate::limits::ROW_BYTES_MAX;
use crate::live::{ChannelKey, LiveIndex, LiveTable, figure};
use crate::log::block::{ReadingRecord, Row, Series};
use crate::log::index::TimeIndex;
use crate::log::key::TopicPartition;
use crate::parked::{Parked, Waiting};
use crate::record::{ClockRecord, ClockTrust};
use crate::units::{Epoch, EventTime, Mono, Offset, PartitionId, Span, TopicId};

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

/// What became of the rows of one stream.
#[derive(Debug, Clone)]
struct Output {
    to: Outlet,
    since: Since,
    stored: Stored,
    /// What stands there is compared, not only known again.
    is_compared: bool,
    /// Readings behind the kept place are missing: which of the rows that stand were theirs
    /// is not known.
    has_hole: bool,
    compared: Compared,
    /// Its rows say that a window has closed.
    fires: bool,
    /// It has rows that the kept place does not cover.
    moved: bool,
    /// Other engines write it as yet.
    muted: bool,
    /// Rows before this event time are left out.
    begins_at: EventTime,
}

impl Output {
    fn at(&self) -> Option<TopicPartition> {
        match self.to {
            Outlet::To(at) => Some(at),
            Outlet::Homeless | Outlet::Nowhere => None,
        }
    }

    fn is_of(&self, topic: TopicId) -> bool {
        self.at().is_some_and(|at| at.topic == topic)
    }

    /// Whether a row of the reading at `place` is to be written: it is none that the
    /// topic has already.
    fn is_new(
        &mut self,
        place: Place,
        (line, identity): (&[u8], usize),
        restored_at: Option<Place>,
        stored_until: Place,
    ) -> bool {
        let is_known = place < self.since.place;
        let is_past = (place.layout, place.step) < (stored_until.layout, stored_until.step);
        match &self.stored {
            Stored::Count(_) if is_known => return false,
            // Before the lines that are compared; what was written before the layout gave
            // its rows under the one before.
            Stored::Lines(_) if is_known && (restored_at.is_none() || is_past) => return false,
            Stored::Count(_) | Stored::Lines(_) => {}
        }
        if place >= stored_until {
            self.close();
        }
        let end = if is_known {
            self.since.next
        } else {
            self.pass_known();
            Offset(u64::MAX)
        };
        if self.has_hole && !is_known {
            return !self.stored.pick(line, identity);
        }
        let compared = self.is_compared.then_some(&mut self.compared);
        let stands = self.stored.take((line, identity), end, compared);
        // One that was left out, as the topic was full, is not written later.
        !stands && !is_known
    }

    /// The kept place is reached. What stands before the first row of what follows, and was
    /// not made again, never will be: the readings that gave it are gone. A row of a later
    /// reading is not among it, though it may be of the same time.
    fn pass_known(&mut self) {
        let compared = self.is_compared.then_some(&mut self.compared);
        self.stored.pass(self.since.next, compared);
    }

    /// Rows that stand may be of readings that are missing, or of such that come yet: how
    /// far the topic has come with the readings so far cannot be told by its rows.
    fn is_unsure(&self) -> bool {
        self.has_hole && !self.stored.is_empty()
    }

    /// What stands there and was not made again yet can be compared.
    fn is_exact(&self) -> bool {
        self.is_compared || self.stored.is_empty()
    }

    fn close(&mut self) {
        let compared = self.is_compared.then_some(&mut self.compared);
        self.stored.close(compared);
    }
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
    /// Rows that were made again since the start and are what stands in their topic,
    /// and those that are not.
    pub rows_same: u64,
    pub rows_different: u64,
    /// Changes of tables that were gone before they were applied.
    pub changes_missing: u64,
}

/// The place of an engine: which one it is, and of which pipeline.
#[derive(Debug, Clone, Copy)]
pub struct Seat {
    pub unit: Unit,
    pub hash: PipelineHash,
    /// What rows stand there already is of readings before this place.
    pub stored_until: Place,
    pub now: Mono,
}

/// The engine of one partition.
#[derive(Debug)]
pub struct Derive {
    partition: PartitionId,
    engine: Engine,
    /// Windows in config order, then joins, then `late`, then `quarantine`.
    outputs: Vec<Output>,
    windows: usize,
    /// How far the changes of tables are in it.
    applied: Applied,
    /// Series whose lateness others judge.
    judged: Option<EngineConfig>,
    /// Time index and newest readings are those of this one.
    shows: bool,
    pub(crate) index: TimeIndex,
    pub(crate) live: LiveTable,
    parked: Parked<Known>,
    /// So many of them are as they were kept, on so many pages.
    parked_taken: usize,
    parked_pages: usize,
    /// The device that was looked for last, and its name.
    named: Option<(DeviceUid, String)>,
    /// Of the block that is read.
    epoch: Epoch,
    batch: Batch,
    /// Of each reading of the batch.
    places: Vec<Place>,
    rows: Rows,
    /// Readings taken since the last step.
    fed: u64,
    /// What rows stand there already is of readings before this place.
    stored_until: Place,
    /// Place of the checkpoint from which it goes on.
    restored_at: Option<Place>,
    keeping: Keeping,
    pub(crate) counters: DeriveCounters,
}

impl Derive {
    /// The engine that sits at `seat` and writes its rows to `outlets`. `since` says how far
    /// a topic has come, and its durable head.
    #[must_use]
    pub fn new(
        seat: Seat,
        config: &EngineConfig,
        outlets: Outlets,
        since: impl Fn(TopicPartition) -> (Since, Offset),
    ) -> Self {
        let emits = config.windows.iter().map(|window| Some(window.emit));
        // Each row of a join is one of its own: nothing closes.
        let emits = emits.chain(config.joins.iter().map(|_| Some(Emit::EveryUpdate)));
        let emits = emits.chain([None, None]);
        let outputs = outlets.streams.into_iter().zip(emits).map(|(to, emit)| {
            let (since, head) = match to {
                Outlet::To(at) => since(at),
                Outlet::Homeless | Outlet::Nowhere => Default::default(),
            };
            Output {
                to,
                since,
                stored: Stored::Count(head.0.saturating_sub(since.next.0)),
                // What stands aside depends on all windows, also on those before.
                is_compared: emit.is_some(),
                has_hole: false,
                compared: Compared::default(),
                fires: matches!(emit, Some(Emit::OnClose | Emit::FinalOnly)),
                moved: false,
                muted: false,
                begins_at: EventTime(i64::MIN),
            }
        });
        let Seat {
            unit,
            hash,
            stored_until,
            now,
        } = seat;
        Self {
            partition: unit.partition,
            engine: Engine::new(config),
            outputs: outputs.collect(),
            windows: config.windows.len(),
            applied: Applied::new(!config.tables.is_empty()),
            judged: outlets.judged,
            shows: outlets.shows,
            index: TimeIndex::default(),
            live: LiveTable::default(),
            parked: Parked::default(),
            parked_taken: 0,
            parked_pages: 0,
            named: None,
            epoch: Epoch(0),
            batch: Batch::new(),
            places: Vec::new(),
            rows: Rows::new(),
            fed: 0,
            stored_until,
            restored_at: None,
            keeping: Keeping::new(unit, hash, now),
            counters: DeriveCounters::default(),
        }
    }

    /// The lines of `topic` that stand there after its kept place, before anything
    /// is fed; not `whole` where some are lost.
    pub fn set_stored(&mut self, topic: TopicId, lines: &VecDeque<StoredLine>, whole: bool) {
        let of = |output: &&mut Output| output.is_of(topic);
        for output in self.outputs.iter_mut().filter(of) {
            output.stored = Stored::Lines(lines.clone());
            output.is_compared &= whole;
        }
    }

    /// All rows of what comes before `place` are in this topic.
    pub(crate) fn set_since(&mut self, at: TopicPartition, place: Place) {
        let of = |output: &&mut Output| output.at() == Some(at);
        for output in self.outputs.iter_mut().filter(of) {
            output.since.place = place;
            output.moved = true;
        }
    }

    /// What rows stand there already is of what comes before `place`.
    pub(crate) fn set_stored_until(&mut self, place: Place) {
        self.stored_until = place;
    }

    #[must_use]
    pub fn counters(&self) -> DeriveCounters {
        let compared = self.outputs.iter().map(|output| &output.compared);
        let (mut same, mut different) = (0, 0);
        for compared in compared {
            same += compared.same;
            different += compared.different;
        }
        DeriveCounters {
            rows_same: self.counters.rows_same + same,
            rows_different: self.counters.rows_different + different,
            changes_missing: self.applied.missing,
            ..self.counters
        }
    }

    #[must_use]
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The first difference of each topic that was not given before.
    pub fn take_differences(&mut self) -> Vec<(TopicId, Difference)> {
        let outputs = self.outputs.iter_mut();
        let first = outputs.filter_map(|o| Some((o.at()?.topic, o.compared.first.take()?)));
        first.collect()
    }

    /// Below this time nothing more is expected of a device.
    #[must_use]
    pub fn watermark(&self, uid: DeviceUid) -> EventTime {
        let watermark = self.engine.watermark(&uid.to_string());
        watermark.unwrap_or(EventTime(i64::MIN))
    }

    /// Figures of the rolling window of a channel that ends at its newest reading.
    pub fn rolling(&mut self, key: &ChannelKey, size: Span) -> Option<Rolling> {
        let newest = self.live.get(key)?.time;
        let device = key.uid.to_string();
        self.engine.rolling((&device, &key.channel), size, newest)
    }

    /// What a series is to the engine; the same at every call.
    pub fn intern(&mut self, series: &Series) -> Known {
        // Series of one device stand side by side in a block.
        let named = self.named.take().filter(|(uid, _)| *uid == series.uid);
        let (_, device) = self
            .named
            .insert(named.unwrap_or_else(|| (series.uid, series.uid.to_string())));
        let id = self.engine.series(device, &series.name).ok();
        let live = if self.shows {
            self.live.intern(series)
        } else {
            LiveIndex::of_number(None)
        };
        (id, live)
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
        self.keeping.pace.on_fed((1, 0), false, now);
        if let Err(waiting) = self.parked.park(self.epoch, waiting) {
            self.quarantine(vec![waiting], (place, now), commit);
        }
    }

    fn push(&mut self, waiting: &Waiting<Known>, place: Place) {
        let (id, live) = waiting.known;
        self.live.update(live, waiting.value, &waiting.reading);
        self.fed += 1;
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
            self.parked_taken = 0;
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
            ClockTrust::No => {
                self.engine.on_clock_lost();
                return self.keeping.pace.on_fed((0, 0), false, now);
            }
            ClockTrust::Yes => None,
            ClockTrust::Since(step) => Some(step),
        };
        self.places.push(place);
        self.engine.on_clock(clock.now, &mut self.rows);
        self.write_rows(now, commit);
        self.places.clear();
        if let Some(step) = step {
            self.parked_taken = 0;
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
            waits: self.engine.waits_for_tables(),
            parks: !self.parked.is_empty(),
        }
    }

    /// Readings that wait until their time is known.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Gives the readings taken so far to the engine, and its rows to `commit`.
    pub fn step(&mut self, now: Mono, commit: &mut GroupCommit) {
        if self.fed == 0 {
            return;
        }
        self.engine.on_batch(&self.batch, &mut self.rows);
        self.batch.clear();
        self.write_rows(now, commit);
        self.places.clear();
    }

    /// Readings before `end` are missing that a run before may have had: how many rows
    /// it wrote of what follows cannot be counted any more, nor what they said.
    pub fn on_hole(&mut self, end: Place) {
        self.applied.on_hole();
        for output in &mut self.outputs {
            output.is_compared = false;
            if output.since.place >= end {
                continue;
            }
            output.has_hole = true;
            if let Stored::Count(count) = &mut output.stored {
                *count = 0;
            }
        }
    }

    /// Gives the rows of a step to `commit`, after which the state is another.
    fn write_rows(&mut self, now: Mono, commit: &mut GroupCommit) {
        let asides = self.outputs.len() - 2;
        let mut fired = false;
        let mut line = Vec::new();
        for row in self.engine.views(&self.rows) {
            let place = self.places[row.cause()];
            let index = match row.stream() {
                StreamId::Window(index) => usize::from(index),
                StreamId::Join(index) => self.windows + usize::from(index),
                StreamId::Late => asides,
                StreamId::Quarantine => asides + 1,
            };
            let output = &mut self.outputs[index];
            let at = match output.to {
                Outlet::To(at) => at,
                Outlet::Homeless => {
                    fired |= output.fires && row.window().is_some();
                    self.counters.rows_homeless += 1;
                    continue;
                }
                Outlet::Nowhere => continue,
            };
            fired |= output.fires && row.window().is_some();
            let judged = self.judged.as_ref().filter(|_| index == asides);
            let is_elsewhere = judged.is_some_and(|config| is_taken(config, &row));
            if is_elsewhere || output.muted || row.time() < output.begins_at {
                continue;
            }
            // Before those that stand there: it is not among them.
            line.clear();
            let identity = row.write_json(&mut line);
            if line.len() > ROW_BYTES_MAX {
                self.counters.rows_oversize += 1;
                continue;
            }
            if !output.is_new(
                place,
                (&line, identity),
                self.restored_at,
                self.stored_until,
            ) {
                continue;
            }
            output.moved = true;
            let row = Row {
                time: row.time(),
                line: std::mem::take(&mut line),
            };
            if commit.row(at, &row, now) {
                self.counters.rows += 1;
            }
            line = row.line;
        }
        let counts = (std::mem::take(&mut self.fed), self.rows.len() as u64);
        self.keeping.pace.on_fed(counts, fired, now);
        self.rows.clear();
    }

    /// All readings that the log had when it was opened have been fed.
    pub(crate) fn on_caught_up(&mut self) {
        for output in &mut self.outputs {
            output.close();
        }
    }

    /// How far each topic has come when all readings before `place` were fed, for those
    /// where it is worth keeping: all rows up to there are given to `commit`. `all`
    /// also gives those without a new row. Not while it is open which rows that stand are
    /// of missing readings: a start goes through the same once more.
    pub fn take_since(
        &mut self,
        place: Place,
        all: bool,
        commit: &GroupCommit,
    ) -> Vec<(TopicPartition, Since)> {
        let mut out = Vec::new();
        if self.is_inside_changes() {
            return out;
        }
        for output in &mut self.outputs {
            if place >= self.stored_until {
                output.close();
            }
            let worth = output.moved || (all && place > output.since.place);
            let reached = place >= output.since.place && !output.is_unsure();
            let is_ours = worth && reached && !output.muted;
            let Some(at) = output.at().filter(|_| is_ours) else {
                continue;
            };
            output.pass_known();
            output.since.place = place;
            output.since.next = output.stored.first(commit.next(at));
            output.moved = false;
            out.push((at, output.since));
        }
        out
    }
}
