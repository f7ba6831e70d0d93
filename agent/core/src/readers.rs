//! All readers of the readings topic that derive rows: one engine per partition of a
//! layout, what was written before that layout, and when the next layout's turn is.
//!
//! Holds always: readings of one device are fed in the order in which they were
//! written, whatever partitions held them; what was written under one layout is read
//! to its end, and its rows are given to the log, before a reading of the next one is
//! fed. How far each derived topic has come is kept with its rows. Bound: one read
//! per partition, or one while the past is read; [`STORED_ROWS_MAX`] rows of a topic
//! are held to be known again. Knows no clock and no store.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use forebay_wire::ids::DeviceUid;

use crate::clock::Heard;
use crate::commit::GroupCommit;
use crate::derive::{Derive, Known, Place, Since};
use crate::engine::config::EngineConfig;
use crate::ingest::Router;
use crate::layout::{Layouts, Stretch};
use crate::limits::{DERIVE_KEPT_EVERY_US, STORED_ROWS_MAX};
use crate::log::block::{Block, Body, Record};
use crate::log::bytes::put_varint;
use crate::log::index::TimeIndex;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::{LATE, QUARANTINE, READINGS};
use crate::log::walk::{Met, Walk};
use crate::meta::{self, checked, with_crc};
use crate::units::{EventTime, Mono, Offset, PartitionId, TopicId};

/// Meta keys of how far derived topics have come: this, topic, `/`, partition.
pub const DERIVE_META_PREFIX: &[u8] = b"derive/";
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
    stored: BTreeMap<TopicPartition, VecDeque<Vec<u8>>>,
    /// What of them is still to be read, each up to where.
    loading: VecDeque<(Walk, Offset)>,
    /// Ends of the readings when the log was opened.
    opened_at: BTreeMap<PartitionId, Offset>,
    filled: Vec<MetaEntry>,
    /// Runs of readings that the last reads did not find.
    holes: Vec<(PartitionId, Offset, Offset)>,
    /// The turn of a layout has come and no batch that says so was cut yet.
    held: bool,
    kept_at: Mono,
}

impl Readers {
    /// Readers of a log that was just opened; `anew` when its layouts before are lost,
    /// and with them the order in which rows were written.
    #[must_use]
    pub fn new(
        config: &EngineConfig,
        topics: Vec<Option<TopicId>>,
        (layouts, anew): (Layouts, bool),
        meta: &[MetaEntry],
        (commit, now): (&GroupCommit, Mono),
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
            stored: BTreeMap::new(),
            loading: VecDeque::new(),
            opened_at: opened_at.collect(),
            filled: Vec::new(),
            holes: Vec::new(),
            held: false,
            kept_at: now,
        };
        readers.active = readers.oldest();
        readers.fill(commit);
        readers.load(commit);
        readers.build(commit);
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
            let rows = head.0.saturating_sub(since.next.0);
            if (1..=STORED_ROWS_MAX).contains(&rows) {
                self.loading.push_back((Walk::new(*at, since.next), head));
            }
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
        windows.chain([LATE, QUARANTINE])
    }

    /// Engines that have seen nothing, for the layout whose turn it is.
    fn build(&mut self, commit: &GroupCommit) {
        self.past = self.layouts.before(self.active);
        self.step = 0;
        self.walk = self.past.first().map(walk_of);
        let (router, since) = (self.router(), &self.since);
        let stages = router.partitions().map(|partition| {
            let since = |topic| {
                let at = TopicPartition { topic, partition };
                // Every topic of this layout has one.
                let since = since.get(&at).copied().unwrap_or_default();
                (since, commit.next(at))
            };
            let end = self.opened_at.get(&partition).copied().unwrap_or_default();
            let until = self.place(self.past.len(), end);
            Derive::new(partition, &self.config, &self.topics, since, until)
        });
        let first = |partition| self.layout().fence(partition);
        let walks = router.partitions();
        let walks = walks.map(|partition| Walk::new(readings_of(partition), first(partition)));
        let (stages, walks) = (stages.collect(), walks.collect());
        self.walks = walks;
        let before = std::mem::replace(&mut self.stages, stages);
        for (stage, before) in self.stages.iter_mut().zip(before) {
            // What is read again is counted again, what is written is not.
            stage.counters.rows = before.counters.rows;
        }
        for (at, lines) in &self.stored {
            if let Some(stage) = self.stages.get_mut(usize::from(at.partition.0)) {
                stage.set_stored(at.topic, lines);
            }
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
        if let Some((walk, end)) = self.loading.front_mut() {
            let (at, from) = walk.next_fetch(*end)?;
            return Some((DeriveRead::Stored, at, from));
        }
        if let Some((walk, span)) = self.walk.as_mut().zip(self.past.get(self.step)) {
            let (at, from) = walk.next_fetch(span.end)?;
            return Some((DeriveRead::Past, at, from));
        }
        (0..self.walks.len()).find_map(|index| {
            let partition = self.walks[index].at().partition;
            let limit = self.limit(partition, commit);
            let (at, from) = self.walks[index].next_fetch(limit)?;
            Some((DeriveRead::Own(partition), at, from))
        })
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
            DeriveRead::Past => self.on_past(blocks, now, commit),
            DeriveRead::Own(partition) => {
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
                walk.on_fetched(blocks, limit, |met| match met {
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
                        feed.block(block, records);
                    }
                    Met::Hole { first, end } => {
                        holes.push((partition, first, end));
                        stages[index].counters.records_missing += end.0 - first.0;
                        stages[index].on_hole(place(end));
                    }
                });
            }
        }
    }

    fn on_stored(&mut self, blocks: &[StoredBlock]) {
        let Some((walk, end)) = self.loading.front_mut() else {
            return;
        };
        let at = walk.at();
        let lines = self.stored.entry(at).or_default();
        walk.on_fetched(blocks, *end, |met| match met {
            Met::Block { block, records, .. } => match &block.body {
                Body::Rows(rows) => lines.extend(rows[records].iter().map(|row| row.line.clone())),
                Body::Readings { .. } => {}
            },
            // Rows that are lost are written again.
            Met::Hole { .. } => {}
        });
        if walk.cursor() >= *end {
            self.loading.pop_front();
            let stage = self.stages.get_mut(usize::from(at.partition.0));
            if let Some((stage, lines)) = stage.zip(self.stored.get(&at)) {
                stage.set_stored(at.topic, lines);
            }
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
        let (stages, holes) = (&mut self.stages, &mut self.holes);
        walk.on_fetched(blocks, span.end, |met| match met {
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
                feed.block(block, records);
            }
            Met::Hole { first, end } => {
                holes.push((span.partition, first, end));
                stages[from].counters.records_missing += end.0 - first.0;
                stages
                    .iter_mut()
                    .for_each(|stage| stage.on_hole(place(end)));
            }
        });
        if walk.cursor() >= span.end {
            self.step += 1;
            self.walk = self.past.get(self.step).map(walk_of);
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
    pub fn next_layout(&mut self, commit: &GroupCommit) -> Option<Vec<MetaEntry>> {
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
                    self.stored.remove(&at);
                }
                entries.push(entry(at, since));
            }
        }
        self.build(commit);
        Some(entries)
    }

    /// A batch was cut: all entries so far are in it or in an earlier one.
    pub fn on_cut(&mut self) {
        self.held = false;
    }

    fn is_at_end(&self, commit: &GroupCommit) -> bool {
        let end = |walk: &Walk| walk.cursor() >= self.limit(walk.at().partition, commit);
        self.loading.is_empty() && self.walk.is_none() && self.walks.iter().all(end)
    }

    /// Whether all durable readings have been fed.
    #[must_use]
    pub fn is_settled(&self, commit: &GroupCommit) -> bool {
        !self.held && self.active == self.layouts.number() && self.is_at_end(commit)
    }

    /// The entries to write with the batch that holds all rows so far; `all` also
    /// those of topics without a new row.
    pub fn take_entries(&mut self, all: bool, commit: &GroupCommit, now: Mono) -> Vec<MetaEntry> {
        if self.active == self.layouts.number() && self.is_at_end(commit) {
            // What stood there at the start has been met again.
            self.stored.clear();
        }
        let all = all || now.0.saturating_sub(self.kept_at.0) >= DERIVE_KEPT_EVERY_US;
        if all {
            self.kept_at = now;
        }
        let mut entries = Vec::new();
        for index in 0..self.stages.len() {
            let cursor = self.walks[index].cursor();
            let place = match &self.walk {
                Some(walk) => self.place(self.step, walk.cursor()),
                None => self.place(self.past.len(), cursor),
            };
            for (at, since) in self.stages[index].take_since(place, all, commit) {
                entries.push(entry(at, &since));
                self.since.insert(at, since);
            }
        }
        entries
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

/// Gives the readings of a block to the engines of their devices.
struct Feed<'a, O, P> {
    stages: &'a mut [Derive],
    /// Those that the block may have readings for.
    all: std::ops::Range<usize>,
    owner: O,
    place: P,
    now: Mono,
    commit: &'a mut GroupCommit,
}

impl<O: Fn(DeviceUid) -> usize, P: Fn(Offset) -> Place> Feed<'_, O, P> {
    fn block(&mut self, block: &Block, records: std::ops::Range<usize>) {
        let Body::Readings {
            series,
            records: all,
        } = &block.body
        else {
            return;
        };
        let known: Vec<(usize, Known)> = series
            .iter()
            .map(|series| {
                let owner = (self.owner)(series.uid);
                (owner, self.stages[owner].intern(series))
            })
            .collect();
        let first = (self.place)(Offset(block.base.0 + records.start as u64));
        for stage in &mut self.stages[self.all.clone()] {
            stage.on_epoch(block.epoch, (first, self.now), self.commit);
        }
        for index in records {
            match &all[index] {
                Record::Reading(reading) => {
                    let of = usize::from(reading.series);
                    let (owner, known) = known[of];
                    let place = (self.place)(Offset(block.base.0 + index as u64));
                    let of = (&series[of], reading);
                    let when = (place, self.now);
                    self.stages[owner].on_reading(known, of, when, self.commit);
                }
                // A gap is an account of what is not there: no window has it.
                Record::Gap(_) => {}
                Record::Clock(clock) => {
                    let place = (self.place)(Offset(block.base.0 + index as u64));
                    for stage in &mut self.stages[self.all.clone()] {
                        stage.on_clock(clock, (place, self.now), self.commit);
                    }
                }
            }
        }
        for (owner, _) in known {
            self.stages[owner].step(self.now, self.commit);
        }
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

/// A place past the end of the log is of records that are gone, and one in a layout
/// that is lost says nothing: what comes in their place is not known.
fn clamp(since: &mut Since, at: TopicPartition, layouts: &Layouts, commit: &GroupCommit) {
    let place = &mut since.place;
    if usize::from(place.layout) > layouts.number() {
        *place = Place::default();
        since.next = commit.head(at);
        return;
    }
    let own = layouts.before(usize::from(place.layout)).len();
    if usize::from(place.step) == own {
        let end = commit.head(readings_of(at.partition));
        place.offset = place.offset.min(end);
    }
}

fn entry(at: TopicPartition, since: &Since) -> MetaEntry {
    let TopicPartition { topic, partition } = at;
    let name = format!("{}/{}", topic.0, partition.0);
    let key = [DERIVE_META_PREFIX, name.as_bytes()].concat();
    let Since { place, next } = since;
    let mut value = vec![VERSION];
    let (layout, step) = (u64::from(place.layout), u64::from(place.step));
    for number in [layout, step, place.offset.0, next.0] {
        put_varint(&mut value, number);
    }
    (key, with_crc(value))
}

/// `None` for anything else: the rows of that topic are then told from all readings
/// that are kept.
fn parse(key: &[u8], value: &[u8]) -> Option<(TopicPartition, Since)> {
    let name = std::str::from_utf8(key.strip_prefix(DERIVE_META_PREFIX)?).ok()?;
    let (topic, partition) = name.split_once('/')?;
    let at = TopicPartition {
        topic: TopicId(topic.parse().ok()?),
        partition: PartitionId(partition.parse().ok()?),
    };
    let mut reader = checked(VERSION, value)?;
    let mut number = || reader.varint().ok();
    let place = Place {
        layout: u16::try_from(number()?).ok()?,
        step: u16::try_from(number()?).ok()?,
        offset: Offset(number()?),
    };
    let next = Offset(number()?);
    reader.is_at_end().then_some((at, Since { place, next }))
}

#[cfg(test)]
mod tests;
