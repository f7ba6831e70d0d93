//! All readers of the readings topic that derive rows: one engine per partition of a
//! layout, what was written before that layout, and when the next layout's turn is.
//!
//! Holds always: readings of one device are fed in the order in which they were
//! written, whatever partitions held them; what was written under one layout is read
//! to its end, and its rows are given to the log, before a reading of the next one is
//! fed. How far each derived topic has come is kept with its rows, and the state of
//! the engines now and then: a start goes on from there. Bound: one read per
//! partition, or one while the past is read; rows of a start are held to be known
//! again. Knows no clock and no store.

mod beside;
pub(crate) mod feed;
pub(crate) mod keep;
pub mod places;
mod start;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forebay_wire::ids::DeviceUid;

use self::beside::Beside;
use self::feed::Feed;
pub use self::places::kept_place;
use self::places::{clamp, entry, parse};
use crate::changes::Base;
use crate::checkpoint::{PipelineHash, Unit};
use crate::clock::Heard;
use crate::commit::GroupCommit;
use crate::derive::standing::Standing;
use crate::derive::{Derive, Outlets, Place, Restored, Seat, Since};
use crate::engine::STATE_VERSION;
use crate::engine::config::EngineConfig;
use crate::engine::rolling::Rolling;
use crate::ingest::Router;
use crate::layout::{Layouts, Stretch};
use crate::live::ChannelKey;
use crate::log::index::TimeIndex;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::{LATE, QUARANTINE, READINGS};
use crate::log::walk::{Met, Walk};
use crate::meta;
use crate::topics::pipeline_hash;
use crate::units::{EventTime, Mono, Offset, PartitionId, Span, TopicId};

/// Meta keys of how far derived topics have come: this, topic, `/`, partition.
pub const DERIVE_META_PREFIX: &[u8] = b"derive/";
/// The same of `late` and `quarantine` when windows or time rules were changed last:
/// what stands before is of others.
pub const CHANGED_META_PREFIX: &[u8] = b"changed/";
const VERSION: u8 = 1;

type MetaEntry = meta::Entry;

/// A read of the log for one of the readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeriveRead {
    /// Of rows that stand in a derived topic after its kept place.
    Stored,
    /// Of what was written before the layout.
    Past,
    /// Of what was written under it.
    Own(PartitionId),
    /// Of changes of tables, for the engine of a partition.
    Changes(PartitionId),
    /// Of the exchange, or of changes for the engine that reads it; not for the readers of
    /// partitions.
    Exchange,
}

/// See the module.
#[derive(Debug)]
pub struct Readers {
    config: EngineConfig,
    /// Of each window.
    topics: Vec<Option<TopicId>>,
    layouts: Layouts,
    anew: bool,
    /// Layout whose turn it is.
    active: usize,
    past: Vec<Stretch>,
    /// The span of `past` that is read; at its end when all are.
    step: usize,
    walk: Option<Walk>,
    stages: Vec<Derive>,
    /// One per stage.
    walks: Vec<Walk>,
    since: BTreeMap<TopicPartition, Since>,
    /// Rows that stood after the kept places when the log was opened.
    standing: Standing,
    hash: PipelineHash,
    /// What a checkpoint keeps of the stages, until they are built.
    restored: BTreeMap<PartitionId, Restored>,
    /// Keys of state that is of no use any more.
    stale: Vec<Vec<u8>>,
    /// For the operator.
    notes: Vec<String>,
    /// Each stage has a checkpoint under this layout, or needs none.
    all_kept: bool,
    /// A batch was asked for, for a checkpoint that is due.
    woken: bool,
    /// A checkpoint of all that changed is to go with the next batch.
    wanted: bool,
    /// Checkpoints of one engine are taken in steps.
    in_steps: bool,
    /// Places of the newest checkpoints: given, in the batch that was cut, and durable.
    written: BTreeMap<PartitionId, Place>,
    cut: BTreeMap<PartitionId, Place>,
    kept: BTreeMap<PartitionId, Place>,
    /// When the last read of a partition was done, where more was there to be read.
    busy: BTreeMap<PartitionId, Mono>,
    start: StartUp,
    /// Ends of the readings when the log was opened.
    opened_at: BTreeMap<PartitionId, Offset>,
    filled: Vec<MetaEntry>,
    /// Runs of readings that the last reads did not find.
    holes: Vec<(PartitionId, Offset, Offset)>,
    /// The turn of a layout has come and no batch that says so was cut yet.
    held: bool,
    kept_at: Mono,
    beside: Beside,
    /// What the changes of tables say that went; while engines of a later layout may need it.
    base: Option<Arc<Base>>,
}

/// What the start has cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartUp {
    pub began: Mono,
    /// Readings that were taken before all was derived that the log had; so far.
    pub replayed: u64,
    /// How long that took, us; `None` while it goes on.
    pub took_us: Option<u64>,
    /// Engines that went on from a checkpoint.
    pub restored: usize,
}

impl Readers {
    /// Readers of a log that was just opened; `anew` when its layouts before are lost,
    /// and with them the order in which rows were written.
    #[must_use]
    pub fn new(
        config: &EngineConfig,
        topics: Vec<Option<TopicId>>,
        layouts: (Layouts, bool),
        meta: &[MetaEntry],
        of: (&GroupCommit, Mono),
    ) -> Self {
        Self::beside(config, topics, layouts, meta, of, BTreeSet::new())
    }

    /// Readers beside live ones, which write the topics of `muted`.
    #[must_use]
    pub fn beside(
        config: &EngineConfig,
        topics: Vec<Option<TopicId>>,
        (layouts, anew): (Layouts, bool),
        meta: &[MetaEntry],
        (commit, now): (&GroupCommit, Mono),
        muted: BTreeSet<TopicId>,
    ) -> Self {
        let read = meta.iter().filter_map(|(key, value)| parse(key, value));
        let mut since: BTreeMap<_, _> = read.collect();
        for (at, since) in &mut since {
            clamp(since, *at, &layouts, commit);
        }
        let of_readings = commit.heads().filter(|(at, _)| at.topic == READINGS);
        let opened_at = of_readings.map(|(at, head)| (at.partition, head));
        let mut readers = Self {
            config: config.clone(),
            topics,
            layouts,
            anew,
            active: 0,
            past: Vec::new(),
            step: 0,
            walk: None,
            stages: Vec::new(),
            walks: Vec::new(),
            since,
            standing: Standing::default(),
            opened_at: opened_at.collect(),
            filled: Vec::new(),
            holes: Vec::new(),
            held: false,
            kept_at: now,
            beside: Beside::new(muted, meta),
            base: None,
            hash: pipeline_hash(config, STATE_VERSION),
            restored: BTreeMap::new(),
            stale: Vec::new(),
            notes: Vec::new(),
            all_kept: false,
            woken: false,
            wanted: false,
            in_steps: false,
            written: BTreeMap::new(),
            cut: BTreeMap::new(),
            kept: BTreeMap::new(),
            busy: BTreeMap::new(),
            start: StartUp {
                began: now,
                replayed: 0,
                took_us: None,
                restored: 0,
            },
        };
        readers.active = readers.oldest();
        readers.fill(commit);
        readers.past = readers.layouts.before(readers.active);
        readers.restore(meta, commit);
        readers.load(commit);
        readers.build((commit, now));
        readers
    }

    /// Gives each topic a place from which all rows are told, where none is kept.
    fn fill(&mut self, commit: &GroupCommit) {
        let place = self.place(0, Offset(0));
        let outputs: Vec<_> = self.outputs().collect();
        for partition in self.router().partitions() {
            for topic in &outputs {
                let at = TopicPartition {
                    topic: *topic,
                    partition,
                };
                let head = commit.head(at);
                let next = if self.anew { head } else { Offset(0) };
                if let Entry::Vacant(vacant) = self.since.entry(at) {
                    let since = Since { place, next };
                    vacant.insert(since);
                    self.filled.push(entry(at, &since));
                }
            }
        }
    }

    /// Entries that are to be durable before a row is written.
    pub fn take_filled(&mut self) -> Vec<MetaEntry> {
        std::mem::take(&mut self.filled)
    }

    /// Lists the rows to be read before anything is fed.
    fn load(&mut self, commit: &GroupCommit) {
        let outputs: Vec<_> = self.outputs().collect();
        for (at, since) in self
            .since
            .iter()
            .filter(|(at, _)| outputs.contains(&at.topic))
        {
            let head = commit.head(*at);
            let restored = self.restored.get(&at.partition);
            let first = restored.and_then(|restored| restored.manifest.head(at.topic));
            let rows = (first.unwrap_or(since.next), head);
            self.standing.list(*at, rows, restored.is_some());
        }
    }

    /// The layout that some topic has not come to the end of.
    fn oldest(&self) -> usize {
        let outputs: Vec<_> = self.outputs().collect();
        let ours = self
            .since
            .iter()
            .filter(|(at, _)| outputs.contains(&at.topic));
        let oldest = ours.map(|(_, since)| usize::from(since.place.layout)).min();
        oldest.unwrap_or(0)
    }

    /// Topics that rows go to.
    fn outputs(&self) -> impl Iterator<Item = TopicId> + '_ {
        let windows = self.topics.iter().flatten().copied();
        let all = windows.chain([LATE, QUARANTINE]);
        all.filter(|topic| !self.beside.muted.contains(topic))
    }

    /// Engines for the layout whose turn it is: as they were kept, or such that have
    /// seen nothing.
    fn build(&mut self, (commit, now): (&GroupCommit, Mono)) {
        self.past = self.layouts.before(self.active);
        let mut restored = std::mem::take(&mut self.restored);
        // The same of all, where the past is read.
        let first = restored.values().next().map(|r| r.manifest.place);
        let at = first.filter(|place| usize::from(place.step) < self.past.len());
        self.step = match (first, at) {
            (None, _) => 0,
            (Some(place), _) => usize::from(place.step).min(self.past.len()),
        };
        self.walk = self.past.get(self.step).map(walk_of);
        if let (Some(walk), Some(place)) = (self.walk.as_mut(), at) {
            *walk = Walk::new(walk.at(), place.offset);
        }
        let (router, since) = (self.router(), &self.since);
        let is_past = self.walk.is_some();
        let mut walks = Vec::new();
        let mut stages = Vec::new();
        for partition in router.partitions() {
            let since = |at| {
                // Every topic of this layout has one.
                let since = since.get(&at).copied().unwrap_or_default();
                (since, commit.next(at))
            };
            let outlets = Outlets::of_partition(&self.topics, partition);
            let end = self.opened_at.get(&partition).copied().unwrap_or_default();
            let seat = Seat {
                unit: self.unit(partition),
                hash: self.hash,
                stored_until: self.place(self.past.len(), end),
                now,
            };
            let mut stage = Derive::new(seat, &self.config, outlets, since);
            stage.mute(&self.beside.muted);
            stage.begin_at(&self.beside.froms);
            let mut from = self.layout().fence(partition);
            if let Some(restored) = restored.remove(&partition) {
                if !is_past {
                    from = restored.manifest.place.offset;
                }
                stage.restore(restored);
            }
            if let Some(base) = &self.base {
                stage.set_base(base);
            }
            walks.push(Walk::new(readings_of(partition), from));
            stages.push(stage);
        }
        self.walks = walks;
        let before = std::mem::replace(&mut self.stages, stages);
        for (stage, before) in self.stages.iter_mut().zip(before) {
            // What is read again is counted again, what is written is not.
            let counters = before.counters();
            stage.counters.rows = counters.rows;
            stage.counters.rows_same = counters.rows_same;
            stage.counters.rows_different = counters.rows_different;
        }
        for at in self.standing.places() {
            if let Some(stage) = self.stages.get_mut(usize::from(at.partition.0)) {
                self.standing.tell(at, stage);
            }
        }
    }

    /// What the changes of tables say that were removed.
    pub fn set_base(&mut self, base: &Arc<Base>) {
        self.stages
            .iter_mut()
            .for_each(|stage| stage.set_base(base));
        let has_later = self.active < self.layouts.number();
        self.base = has_later.then(|| base.clone());
    }

    /// Changes below it are not read again by an engine after a crash.
    pub fn changes_kept(&self) -> Option<Offset> {
        self.stages.iter().map(Derive::changes_kept).min()
    }

    fn unit(&self, partition: PartitionId) -> Unit {
        Unit {
            layout: self.active as u16,
            partition,
        }
    }

    fn layout(&self) -> &crate::layout::Layout {
        let layout = self.layouts.get(self.active);
        layout.expect("the active layout is one of them")
    }

    fn router(&self) -> Router {
        self.layout().router.clone()
    }

    fn place(&self, step: usize, offset: Offset) -> Place {
        Place {
            layout: self.active as u16,
            step: step as u16,
            offset,
        }
    }

    /// Where the own readings of a partition end for now.
    fn limit(&self, partition: PartitionId, commit: &GroupCommit) -> Offset {
        let head = commit.head(readings_of(partition));
        let head = self.beside.cap(partition).map_or(head, |cap| cap.min(head));
        let end = self.layouts.end(self.active, partition);
        end.map_or(head, |end| end.min(head))
    }

    /// The next read of the log.
    pub fn next_fetch(
        &mut self,
        commit: &GroupCommit,
    ) -> Option<(DeriveRead, TopicPartition, Offset)> {
        if self.held {
            return None;
        }
        if self.standing.is_loading() {
            let (at, from) = self.standing.next_fetch()?;
            return Some((DeriveRead::Stored, at, from));
        }
        if let Some(read) = self.next_changes() {
            return Some(read);
        }
        if let Some((walk, span)) = self.walk.as_mut().zip(self.past.get(self.step)) {
            if self.stages.iter().any(Derive::wants_changes) {
                return None;
            }
            let (at, from) = walk.next_fetch(span.end)?;
            return Some((DeriveRead::Past, at, from));
        }
        (0..self.walks.len()).find_map(|index| {
            if self.stages[index].wants_changes() || self.stages[index].is_keeping() {
                return None;
            }
            let partition = self.walks[index].at().partition;
            let limit = self.limit(partition, commit);
            let (at, from) = self.walks[index].next_fetch(limit)?;
            Some((DeriveRead::Own(partition), at, from))
        })
    }

    /// The next read of changes: of one engine at a time, so that not all hold a read of
    /// them.
    fn next_changes(&mut self) -> Option<(DeriveRead, TopicPartition, Offset)> {
        if self.stages.iter().any(Derive::is_fetching_changes) {
            return None;
        }
        let mut stages = self.stages.iter_mut();
        let stage = stages.find(|stage| stage.wants_changes() && !stage.is_keeping())?;
        let (at, from) = stage.next_changes()?;
        Some((DeriveRead::Changes(stage.partition()), at, from))
    }

    /// Takes what a read brought.
    pub fn on_fetched(
        &mut self,
        read: DeriveRead,
        blocks: &[StoredBlock],
        now: Mono,
        commit: &mut GroupCommit,
    ) {
        match read {
            DeriveRead::Stored => self.on_stored(blocks),
            DeriveRead::Exchange => {}
            DeriveRead::Changes(partition) => {
                if let Some(stage) = self.stages.get_mut(usize::from(partition.0)) {
                    stage.on_changes(blocks, now, commit);
                }
            }
            DeriveRead::Past => self.on_past(blocks, now, commit),
            DeriveRead::Own(partition) => {
                let before = self.walks[usize::from(partition.0)].cursor();
                let limit = self.limit(partition, commit);
                let (layout, step) = (self.active as u16, self.past.len() as u16);
                let place = |offset| Place {
                    layout,
                    step,
                    offset,
                };
                let index = usize::from(partition.0);
                let (stages, walk) = (&mut self.stages, &mut self.walks[index]);
                let holes = &mut self.holes;
                walk.on_fetched_until(blocks, limit, |met| match met {
                    Met::Block {
                        head,
                        block,
                        records,
                    } => {
                        stages[index].index.push(head);
                        // All of them, also where a lost layout put them elsewhere.
                        let mut feed = Feed {
                            stages,
                            all: index..index + 1,
                            owner: |_| index,
                            place,
                            now,
                            commit,
                        };
                        feed.block(block, records)
                    }
                    Met::Hole { first, end } => {
                        holes.push((partition, first, end));
                        stages[index].counters.records_missing += end.0 - first.0;
                        stages[index].on_hole(place(end));
                        None
                    }
                });
                let readings = self.walks[index].cursor().0 - before.0;
                self.on_read(partition, readings, now, commit);
            }
        }
    }

    /// How fast readings are taken shows where one read follows the other.
    fn on_read(&mut self, partition: PartitionId, readings: u64, now: Mono, commit: &GroupCommit) {
        let index = usize::from(partition.0);
        if self.start.took_us.is_none() {
            self.start.replayed += readings;
        }
        if let Some(since) = self.busy.remove(&partition) {
            self.stages[index].on_replayed(readings, now.0.saturating_sub(since.0));
        }
        if self.walks[index].cursor() < self.limit(partition, commit) {
            self.busy.insert(partition, now);
        }
    }

    fn on_stored(&mut self, blocks: &[StoredBlock]) {
        let Some(at) = self.standing.on_fetched(blocks) else {
            return;
        };
        if let Some(stage) = self.stages.get_mut(usize::from(at.partition.0)) {
            self.standing.tell(at, stage);
        }
    }

    fn on_past(&mut self, blocks: &[StoredBlock], now: Mono, commit: &mut GroupCommit) {
        let (layout, step) = (self.active as u16, self.step as u16);
        let router = self.router();
        let Some((walk, span)) = self.walk.as_mut().zip(self.past.get(self.step)) else {
            return;
        };
        let place = |offset| Place {
            layout,
            step,
            offset,
        };
        let from = usize::from(span.partition.0);
        let before = walk.cursor();
        let (stages, holes) = (&mut self.stages, &mut self.holes);
        walk.on_fetched_until(blocks, span.end, |met| match met {
            Met::Block {
                head,
                block,
                records,
            } => {
                stages[from].index.push(head);
                let mut feed = Feed {
                    all: 0..stages.len(),
                    stages,
                    owner: |uid| usize::from(router.partition(uid).0),
                    place,
                    now,
                    commit,
                };
                feed.block(block, records)
            }
            Met::Hole { first, end } => {
                holes.push((span.partition, first, end));
                stages[from].counters.records_missing += end.0 - first.0;
                stages
                    .iter_mut()
                    .for_each(|stage| stage.on_hole(place(end)));
                None
            }
        });
        let read = walk.cursor().0 - before.0;
        if walk.cursor() >= span.end {
            self.step += 1;
            self.walk = self.past.get(self.step).map(walk_of);
        }
        if self.start.took_us.is_none() {
            self.start.replayed += read;
        }
    }

    /// Runs of readings, `[first, end)`, that reads since the last call did not find.
    pub fn take_holes(&mut self) -> Vec<(PartitionId, Offset, Offset)> {
        std::mem::take(&mut self.holes)
    }

    /// Goes on to the next layout when all that was written under this one has been
    /// fed: the entries to write with the rows so far. `None` while it has not. Rows of
    /// the next layout come in later batches: else a crash could leave them without
    /// the entries that tell them from those before.
    pub fn next_layout(&mut self, commit: &GroupCommit, now: Mono) -> Option<Vec<MetaEntry>> {
        if self.held || self.active == self.layouts.number() || !self.is_at_end(commit) {
            return None;
        }
        self.held = true;
        self.active += 1;
        let step = self.layouts.before(self.active).len();
        let outputs: Vec<_> = self.outputs().collect();
        let mut entries = Vec::new();
        for partition in self.router().partitions() {
            let place = self.place(step, self.layout().fence(partition));
            for topic in &outputs {
                let at = TopicPartition {
                    topic: *topic,
                    partition,
                };
                let next = commit.next(at);
                let since = self.since.entry(at);
                let since = since.or_insert(Since { place, next });
                if since.place < place {
                    *since = Since { place, next };
                    self.standing.forget(at);
                }
                entries.push(entry(at, since));
            }
        }
        self.all_kept = false;
        self.build((commit, now));
        Some(entries)
    }

    fn is_at_end(&self, commit: &GroupCommit) -> bool {
        let end = |walk: &Walk| walk.cursor() >= self.limit(walk.at().partition, commit);
        !self.standing.is_loading() && self.walk.is_none() && self.walks.iter().all(end)
    }

    /// Whether all durable readings have been fed.
    #[must_use]
    pub fn is_settled(&self, commit: &GroupCommit) -> bool {
        !self.held && self.active == self.layouts.number() && self.is_at_end(commit)
    }

    /// What the engines know of the clock that have read all that is durable, at `now`.
    pub fn heard(&mut self, now: EventTime, commit: &GroupCommit) -> Vec<(PartitionId, Heard)> {
        let mut heard = Vec::new();
        if self.held || self.active != self.layouts.number() || self.walk.is_some() {
            return heard;
        }
        for index in 0..self.stages.len() {
            let partition = self.walks[index].at().partition;
            if self.walks[index].cursor() >= self.limit(partition, commit) {
                heard.push((partition, self.stages[index].heard(now)));
            }
        }
        heard
    }

    /// The engines, in order of their partitions.
    #[must_use]
    pub fn stages(&self) -> &[Derive] {
        &self.stages
    }

    /// The engine that a device's readings go to.
    #[must_use]
    pub fn stage(&self, uid: DeviceUid) -> &Derive {
        let partition = self.layout().router.partition(uid);
        &self.stages[usize::from(partition.0)]
    }

    /// Figures of the rolling window of a channel that ends at its newest reading, where
    /// an engine has them: see [`crate::engine::Engine::rolling`].
    pub fn rolling(&mut self, key: &ChannelKey, size: Span) -> Option<Rolling> {
        let partition = self.layout().router.partition(key.uid);
        let stage = self.stages.get_mut(usize::from(partition.0))?;
        stage.rolling(key, size)
    }

    /// Where readings of a device stand, as far as they were read, in order.
    #[must_use]
    pub fn spans(&self, uid: DeviceUid) -> Vec<Stretch> {
        let mut spans = self.layouts.spans(self.active, uid);
        if let Some(last) = spans.last_mut() {
            let walk = &self.walks[usize::from(last.partition.0)];
            last.end = last.end.min(walk.cursor());
        }
        spans
    }

    /// Which offsets of a partition hold which times, as far as they were read.
    #[must_use]
    pub fn index(&self, partition: PartitionId) -> Option<&TimeIndex> {
        let stage = self.stages.get(usize::from(partition.0));
        stage.map(|stage| &stage.index)
    }

    /// Up to where a partition has been read; 0 while older layouts are.
    #[must_use]
    pub fn cursor(&self, partition: PartitionId) -> Offset {
        let walk = self.walks.get(usize::from(partition.0));
        let current = self.active == self.layouts.number() && self.walk.is_none();
        let walk = walk.filter(|_| current);
        walk.map_or(Offset(0), Walk::cursor)
    }

    /// Durable readings that were not fed yet.
    #[must_use]
    pub fn behind(&self, commit: &GroupCommit) -> u64 {
        let current = self.layouts.current().router.partitions();
        let own = current.map(|partition| {
            let walk = self.walks.get(usize::from(partition.0));
            let cursor = walk.map_or(Offset(0), Walk::cursor);
            commit
                .head(readings_of(partition))
                .0
                .saturating_sub(cursor.0)
        });
        let spans = self.past.get(self.step..).unwrap_or_default();
        let past: u64 = spans.iter().map(|span| span.end.0 - span.first.0).sum();
        let walk = self.walk.as_ref().zip(spans.first());
        let read = walk.map_or(0, |(walk, span)| walk.cursor().0 - span.first.0);
        own.sum::<u64>() + past - read
    }

    /// Number of the layout whose turn it is.
    #[must_use]
    pub fn active(&self) -> usize {
        self.active
    }
}

fn readings_of(partition: PartitionId) -> TopicPartition {
    TopicPartition {
        topic: READINGS,
        partition,
    }
}

fn walk_of(span: &Stretch) -> Walk {
    Walk::new(readings_of(span.partition), span.first)
}

#[cfg(test)]
mod tests;
