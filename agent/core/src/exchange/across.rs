//! The engine of the windows that cross devices: it reads the exchange, and writes rows.
//!
//! Holds always: what it emits is a function of what stands in the exchange. After a
//! restart it reads all of that again; rows of records before the kept place are left
//! out, and of those after it such as stand in their topic already. Knows no partitions.

use std::collections::{BTreeMap, VecDeque};

use super::{CROSSING_PARTITION, EXCHANGE_AT, EXCHANGE_META_PREFIX, Split};
use crate::clock::Heard;
use crate::commit::GroupCommit;
use crate::engine::config::{EngineConfig, Source};
use crate::engine::row::{RowView, Rows, StreamId};
use crate::engine::{Batch, Engine};
use crate::limits::{ROW_BYTES_MAX, STORED_ROWS_MAX};
use crate::live::figure;
use crate::log::block::{Block, Body, Record, Row};
use crate::log::bytes::put_varint;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::LATE;
use crate::log::walk::{Met, Walk};
use crate::meta::{Entry, checked, with_crc};
use crate::readers::DERIVE_META_PREFIX;
use crate::record::ClockTrust;
use crate::units::{EventTime, Mono, Offset, PartitionId, Span, TopicId};

const VERSION: u8 = 1;

/// How far a topic has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Since {
    /// All rows of records of the exchange before this offset are in the topic.
    place: Offset,
    /// Offset of the first row of what follows.
    next: Offset,
}

#[derive(Debug)]
struct Output {
    at: TopicPartition,
    since: Since,
    /// Rows that stand there after the kept place, and how often.
    standing: BTreeMap<Vec<u8>, u32>,
    /// From one partition's time: all rows of its readings before this offset are there.
    before: Option<Offset>,
    moved: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Across {
    engine: Engine,
    /// Of each window; `None` for what is only read by others.
    outputs: Vec<Option<Output>>,
    late: Output,
    /// What windows by device take: their lateness is judged there.
    by_device: EngineConfig,
    walk: Walk,
    loading: VecDeque<(Walk, Offset)>,
    /// What stands in the topics is of records before this.
    opened_at: Offset,
    batch: Batch,
    places: Vec<Offset>,
    rows: Rows,
    pub(super) rows_written: u64,
    pub(super) missing: u64,
}

impl Across {
    /// The windows of `split` that cross devices, with the topics of all windows, on a log
    /// that was just opened.
    #[must_use]
    pub fn new(
        split: &Split,
        topics: &[Option<TopicId>],
        meta: &[Entry],
        commit: &GroupCommit,
    ) -> Self {
        let mut config = split.across.clone();
        // Each partition has judged by its own clock already.
        config.time.future_guard = Span(i64::MAX);
        let mut loading = VecDeque::new();
        let mut output = |at| {
            let output = open(at, meta, commit);
            let head = commit.head(at);
            let rows = head.0.saturating_sub(output.since.next.0);
            if (1..=STORED_ROWS_MAX).contains(&rows) {
                loading.push_back((Walk::new(at, output.since.next), head));
            }
            output
        };
        let windows = split.across_of.iter().zip(&split.across.windows);
        let outputs = windows.map(|(place, window)| {
            let topic = topics.get(*place).copied().flatten();
            let topic = topic.filter(|_| !window.key.device)?;
            Some(output(TopicPartition {
                topic,
                partition: PartitionId(0),
            }))
        });
        let outputs = outputs.collect();
        let late = output(TopicPartition {
            topic: LATE,
            partition: CROSSING_PARTITION,
        });
        Self {
            engine: Engine::new(&config),
            outputs,
            late,
            by_device: split.by_device.clone(),
            walk: Walk::new(EXCHANGE_AT, Offset(0)),
            loading,
            opened_at: commit.head(EXCHANGE_AT),
            batch: Batch::new(),
            places: Vec::new(),
            rows: Rows::new(),
            rows_written: 0,
            missing: 0,
        }
    }

    fn outputs_mut(&mut self) -> impl Iterator<Item = &mut Output> {
        self.outputs.iter_mut().flatten().chain([&mut self.late])
    }

    pub(super) fn is_loading(&self) -> bool {
        !self.loading.is_empty()
    }

    pub(super) fn next_standing(&mut self) -> Option<(TopicPartition, Offset)> {
        let (walk, end) = self.loading.front_mut()?;
        walk.next_fetch(*end)
    }

    pub(super) fn on_standing(&mut self, at: TopicPartition, blocks: &[StoredBlock]) {
        let Some((walk, end)) = self.loading.front_mut().filter(|(w, _)| w.at() == at) else {
            return;
        };
        let mut lines = Vec::new();
        walk.on_fetched(blocks, *end, |met| {
            if let Met::Block { block, records, .. } = met
                && let Body::Rows(rows) = &block.body
            {
                lines.extend(rows[records].iter().map(|row| row.line.clone()));
            }
        });
        if walk.cursor() >= *end {
            self.loading.pop_front();
        }
        if let Some(output) = self.outputs_mut().find(|output| output.at == at) {
            for line in lines {
                *output.standing.entry(line).or_default() += 1;
            }
        }
    }

    /// A record at `offset` of a partition is about to stand at `next` in the exchange.
    pub(super) fn on_source(&mut self, partition: PartitionId, offset: Offset, next: Offset) {
        if partition != PartitionId(0) {
            return;
        }
        for output in self.outputs_mut() {
            if output.before.is_some_and(|before| offset >= before) {
                output.before = None;
                output.since.place = next;
                output.moved = true;
            }
        }
    }

    /// The next read of the exchange.
    pub fn next_fetch(&mut self, commit: &GroupCommit) -> Option<(TopicPartition, Offset)> {
        self.walk.next_fetch(commit.head(EXCHANGE_AT))
    }

    /// Takes what it brought.
    pub fn on_fetched(&mut self, blocks: &[StoredBlock], now: Mono, commit: &mut GroupCommit) {
        let mut walk = self.walk.clone();
        walk.on_fetched(blocks, commit.head(EXCHANGE_AT), |met| match met {
            Met::Block { block, records, .. } => self.on_block(block, records, now, commit),
            // The front was trimmed before this run: nothing that it had.
            Met::Hole { first, end } if first > Offset(0) => self.missing += end.0 - first.0,
            Met::Hole { .. } => {}
        });
        self.walk = walk;
        if self.walk.cursor() >= self.opened_at {
            self.outputs_mut()
                .for_each(|output| output.standing.clear());
        }
    }

    fn on_block(
        &mut self,
        block: &Block,
        records: std::ops::Range<usize>,
        now: Mono,
        commit: &mut GroupCommit,
    ) {
        let Body::Readings {
            series,
            records: all,
        } = &block.body
        else {
            return;
        };
        let engine = &mut self.engine;
        let known = series.iter().map(|series| {
            let device = series.uid.to_string();
            engine.series(&device, &series.name).ok()
        });
        let known: Vec<_> = known.collect();
        for index in records {
            let place = Offset(block.base.0 + index as u64);
            match &all[index] {
                Record::Reading(reading) => {
                    let of = usize::from(reading.series);
                    // One beyond the series that are taken: in no window.
                    if let Some(id) = known[of] {
                        let value = figure(&series[of], reading);
                        self.batch.push(id, reading.time, value, None);
                        self.places.push(place);
                    }
                }
                Record::Gap(_) | Record::Tables(_) => {}
                Record::Clock(clock) => {
                    self.step(now, commit);
                    match clock.trust {
                        ClockTrust::No => self.engine.on_clock_lost(),
                        ClockTrust::Yes | ClockTrust::Since(_) => {
                            self.places.push(place);
                            self.engine.on_clock(clock.now, &mut self.rows);
                            self.write_rows(now, commit);
                        }
                    }
                }
            }
        }
        self.step(now, commit);
    }

    fn step(&mut self, now: Mono, commit: &mut GroupCommit) {
        self.engine.on_batch(&self.batch, &mut self.rows);
        self.batch.clear();
        self.write_rows(now, commit);
    }

    fn write_rows(&mut self, now: Mono, commit: &mut GroupCommit) {
        for row in self.engine.views(&self.rows) {
            let place = self.places[row.cause()];
            let output = match row.stream() {
                StreamId::Window(index) => match &mut self.outputs[usize::from(index)] {
                    Some(output) => output,
                    None => continue,
                },
                StreamId::Join(_) => continue,
                StreamId::Late if !is_taken(&self.by_device, &row) => &mut self.late,
                // Its partition's engine has said so.
                StreamId::Late | StreamId::Quarantine => continue,
            };
            if place < output.since.place || output.before.is_some() {
                continue;
            }
            let mut line = Vec::new();
            row.write_json(&mut line);
            if line.len() > ROW_BYTES_MAX || output.take_standing(&line) {
                continue;
            }
            output.moved = true;
            let time = row.time();
            if commit.row(output.at, &Row { time, line }, now) {
                self.rows_written += 1;
            }
        }
        self.rows.clear();
        self.places.clear();
    }

    pub(super) fn heard(&mut self, now: EventTime) -> Heard {
        Heard {
            // Each partition says what does not hold.
            now: None,
            next_idle: self.engine.next_idle(now),
            parks: false,
        }
    }

    pub(super) fn is_settled(&self, commit: &GroupCommit) -> bool {
        self.loading.is_empty() && self.walk.cursor() >= commit.head(EXCHANGE_AT)
    }

    pub(super) fn take_entries(&mut self, all: bool, commit: &GroupCommit) -> Vec<Entry> {
        let mut entries = Vec::new();
        if self.is_loading() {
            return entries;
        }
        let cursor = self.walk.cursor();
        for output in self.outputs_mut() {
            let reached = cursor > output.since.place;
            if output.before.is_some() || !(output.moved || all && reached) {
                continue;
            }
            output.moved = false;
            if reached {
                output.since.place = cursor;
                // Lines that have not come again yet: from the first on.
                if output.standing.is_empty() {
                    output.since.next = commit.next(output.at);
                }
            }
            entries.push((key_of(output.at.topic), bytes(output.since)));
        }
        entries
    }
}

impl Output {
    fn take_standing(&mut self, line: &[u8]) -> bool {
        let Some(count) = self.standing.get_mut(line) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.standing.remove(line);
        }
        true
    }
}

/// Whether a window over readings takes the series of a row.
fn is_taken(config: &EngineConfig, row: &RowView<'_>) -> bool {
    let has = |names: &Option<Vec<String>>, name: Option<&str>| match (names, name) {
        (Some(names), Some(name)) => names.iter().any(|n| n == name),
        (None, _) | (_, None) => true,
    };
    config.windows.iter().any(|window| {
        window.from == Source::Readings
            && has(&window.channels, row.channel())
            && has(&window.devices, row.device())
    })
}

/// How far a topic has come that goes here. What was written while there was one
/// partition stands there by that partition's offsets.
fn open(at: TopicPartition, meta: &[Entry], commit: &GroupCommit) -> Output {
    let find = |wanted: &[u8]| meta.iter().find(|(key, _)| key == wanted);
    let kept = find(&key_of(at.topic)).and_then(|(_, value)| parse(value));
    let name = format!("{}/{}", at.topic.0, at.partition.0);
    let old = find(&[DERIVE_META_PREFIX, name.as_bytes()].concat());
    let old = old.filter(|_| kept.is_none());
    let old = old.and_then(|(key, value)| crate::readers::kept_place(key, value));
    let head = commit.head(at);
    let mut since = kept.unwrap_or_default();
    if let Some((_, next)) = old {
        since.next = next;
    }
    since.next = since.next.min(head);
    Output {
        at,
        since,
        standing: BTreeMap::new(),
        before: old.map(|(offset, _)| offset),
        moved: false,
    }
}

fn key_of(topic: TopicId) -> Vec<u8> {
    let name = format!("rows/{}", topic.0);
    [EXCHANGE_META_PREFIX, name.as_bytes()].concat()
}

fn bytes(since: Since) -> Vec<u8> {
    let mut value = vec![VERSION];
    put_varint(&mut value, since.place.0);
    put_varint(&mut value, since.next.0);
    with_crc(value)
}

fn parse(value: &[u8]) -> Option<Since> {
    let mut reader = checked(VERSION, value)?;
    let place = Offset(reader.varint().ok()?);
    let next = Offset(reader.varint().ok()?);
    reader.is_at_end().then_some(Since { place, next })
}
