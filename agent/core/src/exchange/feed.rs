//! The way of readings from their partitions into the exchange.
//!
//! Holds always: of one partition they go in the order in which they stand there, those
//! of one layout before those of the next. What its engine sets aside by the clock does
//! not go: the clock is followed here as it is there. Knows no windows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use forebay_wire::ids::Ordinal;

use super::{EXCHANGE_AT, EXCHANGE_META_PREFIX};
use crate::commit::GroupCommit;
use crate::layout::Layouts;
use crate::ledger::Source;
use crate::limits::{CLOCK_EVERY_US, EVENT_TIME_MAX, EXCHANGE_WAITING_MAX};
use crate::log::block::{Block, Body, ReadingRecord, Record, Series};
use crate::log::bytes::{put_varint, put_zigzag};
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::READINGS;
use crate::log::walk::{Met, Walk};
use crate::meta::{Entry, checked, with_crc};
use crate::parked::{Parked, Waiting};
use crate::record::{ClockRecord, ClockTrust, TablesRecord};
use crate::units::{EventTime, Mono, Offset, PartitionId, Span};

const VERSION: u8 = 1;

#[derive(Debug)]
enum Item {
    Reading(Arc<Series>, ReadingRecord),
    Clock(ClockRecord),
    Tables(TablesRecord),
}

/// An item, and where to start from to meet it again.
#[derive(Debug)]
struct Queued {
    from: From,
    /// Where it stands; of one that was parked, where it was released.
    offset: Offset,
    key: i64,
    item: Item,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct From {
    offset: Offset,
    /// What the clock had said by then.
    clock: Option<EventTime>,
    /// Nothing from there on is in the exchange.
    is_exact: bool,
}

/// What is kept of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Kept {
    /// All before is in the exchange.
    offset: Offset,
    clock: Option<EventTime>,
    /// Offset in the exchange from which on what follows stands.
    next: Offset,
}

#[derive(Debug)]
struct Lane {
    walk: Walk,
    queue: VecDeque<Queued>,
    /// About when the last one came, by the gateway's clock: by it partitions are merged.
    key: i64,
    clock: Option<EventTime>,
    parked: Parked<Arc<Series>>,
    parked_from: Offset,
    kept: Kept,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Feed {
    layouts: Layouts,
    guard: Span,
    lanes: Vec<Lane>,
    /// Number of the layout of which is read.
    layout: usize,
    /// What stood in the exchange when the log was opened: the last ordinal of each.
    standing: BTreeMap<Source, Ordinal>,
    loading: Option<(Walk, Offset)>,
    /// The clock that was written last.
    clock: Option<EventTime>,
    /// How far tables are known there.
    tables: Offset,
    moved: bool,
    pub(super) readings: u64,
    pub(super) missing: u64,
}

fn readings_of(partition: PartitionId) -> TopicPartition {
    TopicPartition {
        topic: READINGS,
        partition,
    }
}

impl Feed {
    pub(super) fn new(layouts: Layouts, guard: Span, meta: &[Entry], commit: &GroupCommit) -> Self {
        let head = commit.head(EXCHANGE_AT);
        let partitions: Vec<_> = layouts.current().router.partitions().collect();
        let lanes = partitions.into_iter().map(|partition| {
            let entry = meta.iter().find(|(key, _)| *key == key_of(partition));
            let mut kept = entry.and_then(|(_, v)| parse(v)).unwrap_or_default();
            let end = commit.head(readings_of(partition));
            if kept.offset > end || kept.next > head {
                // Of records that are gone.
                kept.offset = kept.offset.min(end);
                kept.next = kept.next.min(head);
            }
            Lane {
                walk: Walk::new(readings_of(partition), kept.offset),
                queue: VecDeque::new(),
                key: i64::MIN,
                clock: kept.clock,
                parked: Parked::default(),
                parked_from: Offset(0),
                kept,
            }
        });
        let lanes: Vec<Lane> = lanes.collect();
        let first = lanes.iter().map(|lane| lane.kept.next).min();
        let first = first.unwrap_or(head);
        let loading = (first < head).then(|| (Walk::new(EXCHANGE_AT, first), head));
        let mut feed = Self {
            layouts,
            guard,
            lanes,
            layout: 0,
            standing: BTreeMap::new(),
            loading,
            clock: None,
            tables: Offset(0),
            moved: false,
            readings: 0,
            missing: 0,
        };
        feed.layout = feed.oldest();
        feed
    }

    pub(super) fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    pub(super) fn next_standing(&mut self) -> Option<(TopicPartition, Offset)> {
        let (walk, end) = self.loading.as_mut()?;
        walk.next_fetch(*end)
    }

    pub(super) fn on_standing(&mut self, blocks: &[StoredBlock]) {
        let Some((walk, end)) = &mut self.loading else {
            return;
        };
        let standing = &mut self.standing;
        walk.on_fetched(blocks, *end, |met| {
            let Met::Block { block, records, .. } = met else {
                return;
            };
            let Body::Readings {
                series,
                records: all,
            } = &block.body
            else {
                return;
            };
            for record in &all[records] {
                if let Record::Reading(reading) = record {
                    let source = source_of(&series[usize::from(reading.series)]);
                    let last = standing.entry(source).or_insert(reading.ordinal);
                    *last = (*last).max(reading.ordinal);
                }
            }
        });
        if walk.cursor() >= *end {
            self.loading = None;
        }
    }

    /// The layout of which something is still to be read.
    fn oldest(&self) -> usize {
        let number = self.layouts.number();
        let is_open = |layout: &usize| {
            self.lanes.iter().any(|lane| {
                let end = self.layouts.end(*layout, lane.walk.at().partition);
                end.is_some_and(|end| lane.walk.cursor() < end)
            })
        };
        (0..number).find(is_open).unwrap_or(number)
    }

    /// Where the readings of a lane end for now.
    fn limit(&self, lane: &Lane, commit: &GroupCommit) -> Offset {
        let head = commit.head(lane.walk.at());
        let end = self.layouts.end(self.layout, lane.walk.at().partition);
        let end = end.map_or(head, |end| end.min(head));
        // One that this layout does not have.
        end.max(lane.walk.cursor())
    }

    pub(super) fn next_fetch(&mut self, commit: &GroupCommit) -> Option<(TopicPartition, Offset)> {
        // What it does not take now waits where it stands.
        if commit.is_full(EXCHANGE_AT.topic) {
            return None;
        }
        if self.lanes.iter().all(|lane| lane.queue.is_empty()) {
            self.layout = self.oldest();
        }
        (0..self.lanes.len()).find_map(|index| {
            let limit = self.limit(&self.lanes[index], commit);
            let lane = &mut self.lanes[index];
            if lane.queue.len() >= EXCHANGE_WAITING_MAX {
                return None;
            }
            lane.walk.next_fetch(limit)
        })
    }

    pub(super) fn on_fetched(
        &mut self,
        partition: PartitionId,
        blocks: &[StoredBlock],
        commit: &GroupCommit,
    ) {
        let Some(lane) = self.lanes.get(usize::from(partition.0)) else {
            return;
        };
        let limit = self.limit(lane, commit);
        let (guard, missing) = (self.guard, &mut self.missing);
        let lane = &mut self.lanes[usize::from(partition.0)];
        let mut walk = lane.walk.clone();
        walk.on_fetched(blocks, limit, |met| match met {
            Met::Block { block, records, .. } => lane.on_block(block, records, guard),
            Met::Hole { first, end } => *missing += end.0 - first.0,
        });
        lane.walk = walk;
    }

    /// Writes what no partition may have anything before.
    pub(super) fn flush(
        &mut self,
        now: Mono,
        commit: &mut GroupCommit,
        mut on: impl FnMut(PartitionId, Offset, Offset),
    ) {
        loop {
            let waits = self
                .lanes
                .iter()
                .any(|lane| lane.queue.is_empty() && lane.walk.cursor() < self.limit(lane, commit));
            let first = self.lanes.iter().enumerate();
            let first = first.filter_map(|(at, lane)| Some((lane.queue.front()?.key, at)));
            let Some((_, at)) = first.min().filter(|_| !waits) else {
                return;
            };
            let lane = &mut self.lanes[at];
            let partition = lane.walk.at().partition;
            let Some(queued) = lane.queue.pop_front() else {
                return;
            };
            on(partition, queued.offset, commit.next(EXCHANGE_AT));
            self.append(&queued.item, now, commit);
        }
    }

    fn append(&mut self, item: &Item, now: Mono, commit: &mut GroupCommit) {
        self.moved = true;
        match item {
            Item::Reading(series, reading) => {
                let last = self.standing.get(&source_of(series));
                if last.is_none_or(|last| reading.ordinal > *last) {
                    commit.exchange(EXCHANGE_AT, series, reading, now);
                    self.readings += 1;
                }
            }
            Item::Clock(clock) => {
                // Each partition has its own; a step back says nothing.
                let holds = clock.trust != ClockTrust::No;
                if holds && self.clock.is_some_and(|last| last >= clock.now) {
                    return;
                }
                self.clock = holds.then_some(clock.now);
                commit.clock(EXCHANGE_AT, clock, now);
            }
            Item::Tables(tables) => {
                // All partitions have each of them; the first says it.
                if tables.upto > self.tables {
                    self.tables = tables.upto;
                    commit.tables(EXCHANGE_AT, tables, now);
                }
            }
        }
    }

    pub(super) fn is_settled(&self, commit: &GroupCommit) -> bool {
        let at_end = |lane: &Lane| {
            lane.queue.is_empty() && lane.walk.cursor() >= commit.head(lane.walk.at())
        };
        self.loading.is_none() && self.lanes.iter().all(at_end)
    }

    pub(super) fn take_entries(&mut self, all: bool, commit: &GroupCommit) -> Vec<Entry> {
        if !all && !self.moved || self.loading.is_some() {
            return Vec::new();
        }
        self.moved = false;
        let mut entries = Vec::new();
        for lane in &mut self.lanes {
            let from = lane.from();
            if from.offset <= lane.kept.offset {
                continue;
            }
            lane.kept.offset = from.offset;
            lane.kept.clock = from.clock;
            if from.is_exact {
                lane.kept.next = commit.next(EXCHANGE_AT);
            }
            let partition = lane.walk.at().partition;
            entries.push((key_of(partition), bytes(&lane.kept)));
        }
        entries
    }
}

impl Lane {
    /// Where a start has to go on.
    fn from(&self) -> From {
        let parked = (!self.parked.is_empty()).then_some(From {
            offset: self.parked_from,
            clock: None,
            is_exact: false,
        });
        // Those that were parked stand behind others, and come from before them.
        let queued = self.queue.iter().map(|queued| queued.from);
        let first = queued.chain(parked).min_by_key(|from| from.offset);
        first.unwrap_or(From {
            offset: self.walk.cursor(),
            clock: self.clock,
            is_exact: true,
        })
    }

    fn on_block(&mut self, block: &Block, records: std::ops::Range<usize>, guard: Span) {
        let Body::Readings {
            series,
            records: all,
        } = &block.body
        else {
            return;
        };
        let series: Vec<Arc<Series>> = series.iter().cloned().map(Arc::new).collect();
        // Their engine sets them aside.
        drop(self.parked.take_lost(block.epoch));
        for index in records {
            let offset = Offset(block.base.0 + index as u64);
            match &all[index] {
                Record::Reading(reading) => {
                    let series = &series[usize::from(reading.series)];
                    if reading.is_unsynced() {
                        self.park(block, offset, series, reading);
                    } else {
                        let from = self.here(offset);
                        self.push(series, *reading, (from, offset), guard);
                    }
                }
                Record::Gap(_) => {}
                Record::Clock(clock) => self.on_clock(clock, offset, guard),
                Record::Tables(tables) => {
                    let (from, key) = (self.here(offset), self.key);
                    let item = Item::Tables(*tables);
                    self.queue.push_back(Queued {
                        from,
                        offset,
                        key,
                        item,
                    });
                }
            }
        }
    }

    fn here(&self, offset: Offset) -> From {
        From {
            offset,
            clock: self.clock,
            is_exact: self.parked.is_empty(),
        }
    }

    fn park(&mut self, block: &Block, offset: Offset, of: &Arc<Series>, reading: &ReadingRecord) {
        if self.parked.is_empty() {
            self.parked_from = offset;
        }
        let waiting = Waiting {
            known: of.clone(),
            reading: *reading,
            value: None,
        };
        // Beyond the bound its engine sets it aside.
        drop(self.parked.park(block.epoch, waiting));
    }

    fn push(
        &mut self,
        series: &Arc<Series>,
        reading: ReadingRecord,
        (from, offset): (From, Offset),
        guard: Span,
    ) {
        let latest = self.clock.map_or(EVENT_TIME_MAX, |now| {
            now.0.saturating_add(guard.0).min(EVENT_TIME_MAX)
        });
        let time = reading.time.0;
        if time > latest || time < -EVENT_TIME_MAX {
            return;
        }
        // It came soon after the clock before it, whatever it says.
        let came = self.clock.map_or(i64::MAX, |now| {
            now.0.saturating_add(CLOCK_EVERY_US.cast_signed())
        });
        self.key = self.key.max(time.min(came));
        self.queue.push_back(Queued {
            from,
            offset,
            key: self.key,
            item: Item::Reading(series.clone(), reading),
        });
    }

    fn on_clock(&mut self, clock: &ClockRecord, offset: Offset, guard: Span) {
        let from = self.here(offset);
        if clock.trust != ClockTrust::No {
            self.key = self.key.max(clock.now.0);
        }
        let trust = match clock.trust {
            ClockTrust::No => ClockTrust::No,
            ClockTrust::Yes | ClockTrust::Since(_) => ClockTrust::Yes,
        };
        self.queue.push_back(Queued {
            from,
            offset,
            key: self.key,
            item: Item::Clock(ClockRecord {
                now: clock.now,
                trust,
            }),
        });
        self.clock = match trust {
            ClockTrust::No => None,
            ClockTrust::Yes | ClockTrust::Since(_) => {
                Some(self.clock.map_or(clock.now, |now| now.max(clock.now)))
            }
        };
        if let ClockTrust::Since(step) = clock.trust {
            let from = From {
                offset: self.parked_from,
                clock: None,
                is_exact: false,
            };
            for mut waiting in self.parked.release(step) {
                waiting.reading.uncertainty_us = 0;
                self.push(&waiting.known, waiting.reading, (from, offset), guard);
            }
        }
    }
}

fn source_of(series: &Series) -> Source {
    Source {
        uid: series.uid,
        boot: series.boot,
    }
}

fn key_of(partition: PartitionId) -> Vec<u8> {
    [EXCHANGE_META_PREFIX, partition.0.to_string().as_bytes()].concat()
}

fn bytes(kept: &Kept) -> Vec<u8> {
    let mut value = vec![VERSION];
    put_varint(&mut value, kept.offset.0);
    put_varint(&mut value, kept.next.0);
    put_varint(&mut value, kept.clock.is_some().into());
    put_zigzag(&mut value, kept.clock.map_or(0, |clock| clock.0));
    with_crc(value)
}

fn parse(value: &[u8]) -> Option<Kept> {
    let mut reader = checked(VERSION, value)?;
    let (offset, next) = (Offset(reader.varint().ok()?), Offset(reader.varint().ok()?));
    let (some, clock) = (reader.varint().ok()?, reader.zigzag().ok()?);
    reader.is_at_end().then_some(Kept {
        offset,
        next,
        clock: (some == 1).then_some(EventTime(clock)),
    })
}
