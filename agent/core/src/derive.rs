//! One partition's reader of the log: feeds the engine, appends its result rows to
//! the derived topics, keeps the time index and the newest readings.
//!
//! Holds always: it reads below the durable head only, in order, each record once;
//! what the engine emits is a function of that order alone. After a restart it
//! reads from offset 0 and leaves out as many rows per derived topic as stand there
//! already: they are the same rows. Knows no clock.

use std::collections::BTreeMap;

use forebay_wire::ids::DeviceUid;

use crate::commit::GroupCommit;
use crate::engine::config::EngineConfig;
use crate::engine::row::{OutRow, StreamId};
use crate::engine::{Engine, SeriesId};
use crate::limits::ROW_BYTES_MAX;
use crate::live::{LiveIndex, LiveTable, figure};
use crate::log::block::{Block, Body, ReadingRecord, Record, Row, Series};
use crate::log::decode::{decode, decode_head};
use crate::log::index::TimeIndex;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::{LATE, QUARANTINE, READINGS};
use crate::units::{EventTime, Mono, Offset, PartitionId, TopicId};

/// What a series of a block is to the engine and to the newest readings; no id
/// when the engine takes no more series.
type Known = (Option<SeriesId>, LiveIndex);

/// Where the rows of one stream go.
#[derive(Debug, Clone, Copy)]
struct Output {
    /// `None`: the log has no room for one more definition; its rows are left out.
    topic: Option<TopicId>,
    /// Rows that stand in the topic already and are still to be emitted again.
    known: u64,
}

/// What one partition's reader met that an operator should hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeriveCounters {
    /// Blocks that could not be read; their offsets are skipped.
    pub blocks_bad: u64,
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

/// The reader of one readings partition.
#[derive(Debug)]
pub struct Derive {
    at: TopicPartition,
    engine: Engine,
    /// Windows in config order, then `late`, then `quarantine`.
    outputs: Vec<Output>,
    cursor: Offset,
    fetching: bool,
    pub(crate) index: TimeIndex,
    pub(crate) live: LiveTable,
    scratch: Vec<OutRow>,
    counters: DeriveCounters,
}

impl Derive {
    /// A reader of `partition` that writes window n to `topics[n]`, if it has one.
    #[must_use]
    pub fn new(
        partition: PartitionId,
        config: &EngineConfig,
        topics: &[Option<TopicId>],
        heads: &BTreeMap<TopicPartition, Offset>,
    ) -> Self {
        let head = |topic| {
            let at = TopicPartition { topic, partition };
            heads.get(&at).copied().unwrap_or(Offset(0))
        };
        let outputs = topics
            .iter()
            .chain(&[Some(LATE), Some(QUARANTINE)])
            .map(|topic| Output {
                topic: *topic,
                known: topic.map_or(0, |topic| head(topic).0),
            });
        Self {
            at: TopicPartition {
                topic: READINGS,
                partition,
            },
            engine: Engine::new(config),
            outputs: outputs.collect(),
            cursor: Offset(0),
            fetching: false,
            index: TimeIndex::default(),
            live: LiveTable::default(),
            scratch: Vec::new(),
            counters: DeriveCounters::default(),
        }
    }

    #[must_use]
    pub fn cursor(&self) -> Offset {
        self.cursor
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

    /// The next read of the log, when there is something below `head` and none is
    /// under way.
    pub fn next_fetch(&mut self, head: Offset) -> Option<(TopicPartition, Offset)> {
        if self.fetching || self.cursor >= head {
            return None;
        }
        self.fetching = true;
        Some((self.at, self.cursor))
    }

    /// Takes what a read brought; blocks at or above `head` are left for later.
    pub fn on_fetched(
        &mut self,
        blocks: &[StoredBlock],
        (head, now): (Offset, Mono),
        commit: &mut GroupCommit,
    ) {
        self.fetching = false;
        let before = self.cursor;
        for stored in blocks.iter().filter(|stored| stored.key.base < head) {
            self.on_block(stored, now, commit);
        }
        if self.cursor == before {
            // Nothing readable up to the head: it must not be asked for again.
            self.counters.blocks_bad += 1;
            self.cursor = head;
        }
    }

    fn on_block(&mut self, stored: &StoredBlock, now: Mono, commit: &mut GroupCommit) {
        if stored.key.base < self.cursor {
            return;
        }
        let read = decode_head(stored.key, &stored.bytes)
            .and_then(|head| Ok((head, decode(stored.key, &stored.bytes)?)));
        let Ok((head, block)) = read else {
            self.counters.blocks_bad += 1;
            return;
        };
        self.index.push(&head);
        self.feed(&block, now, commit);
        self.cursor = block.end();
    }

    fn feed(&mut self, block: &Block, now: Mono, commit: &mut GroupCommit) {
        let Body::Readings { series, records } = &block.body else {
            return;
        };
        let known: Vec<Known> = series.iter().map(|series| self.intern(series)).collect();
        for record in records {
            match record {
                Record::Reading(reading) => {
                    let index = usize::from(reading.series);
                    self.on_reading(known[index], &series[index], reading);
                }
                // A gap is an account of what is not there: no window has it.
                Record::Gap(_) => {}
            }
        }
        self.write_rows(now, commit);
    }

    fn intern(&mut self, series: &Series) -> Known {
        let device = series.uid.to_string();
        let id = self.engine.series(&device, &series.name).ok();
        (id, self.live.intern(series))
    }

    fn on_reading(&mut self, (id, live): Known, series: &Series, reading: &ReadingRecord) {
        let value = figure(series, reading);
        self.live.update(live, value, reading);
        match id {
            Some(id) => self
                .engine
                .on_reading(id, reading.time, value, &mut self.scratch),
            None => self.counters.readings_beyond += 1,
        }
    }

    fn write_rows(&mut self, now: Mono, commit: &mut GroupCommit) {
        for row in self.scratch.drain(..) {
            let windows = self.outputs.len() - 2;
            let place = match row.stream() {
                StreamId::Window(place) => usize::from(place),
                StreamId::Late => windows,
                StreamId::Quarantine => windows + 1,
            };
            let output = &mut self.outputs[place];
            let Some(topic) = output.topic else {
                self.counters.rows_homeless += 1;
                continue;
            };
            // Before the known ones are counted off: it does not stand among them.
            let mut line = Vec::new();
            row.write_json(&mut line);
            if line.len() > ROW_BYTES_MAX {
                self.counters.rows_oversize += 1;
                continue;
            }
            if output.known > 0 {
                output.known -= 1;
                continue;
            }
            let at = TopicPartition {
                topic,
                partition: self.at.partition,
            };
            let time = row.time();
            if commit.row(at, &Row { time, line }, now) {
                self.counters.rows += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_wire::ids::{BootId, ChannelNo, Ordinal, Tick};
    use forebay_wire::message::Quality;

    use super::*;
    use crate::engine::config::{Aggregate, Bounds, Emit, KeySpec, TimeRules};
    use crate::engine::config::{WindowKind, WindowSpec};
    use crate::record::ValueKind;
    use crate::units::{Epoch, Span};

    const FIRST: TopicId = TopicId(16);

    fn window(name: &str) -> WindowSpec {
        WindowSpec {
            name: name.into(),
            kind: WindowKind::Sliding {
                size: Span(10),
                bounds: Bounds::HalfOpen,
            },
            channels: None,
            devices: None,
            key: KeySpec::DeviceChannel,
            aggregates: vec![Aggregate::Count],
            emit: Emit::EveryUpdate,
            finalize: false,
        }
    }

    fn block() -> Block {
        let series = Series {
            uid: DeviceUid([1; 8]),
            boot: BootId(1),
            channel: ChannelNo(0),
            kind: ValueKind::Scaled { scale: 0 },
            name: Arc::from("a"),
            unit: Arc::from(""),
        };
        let reading = |n: u64| {
            Record::Reading(ReadingRecord {
                series: 0,
                ordinal: Ordinal(n),
                tick: Tick(n),
                time: EventTime(n as i64),
                uncertainty_us: 0,
                value: 1,
                quality: Quality::Ok,
            })
        };
        Block {
            at: place(READINGS),
            base: Offset(0),
            epoch: Epoch(1),
            body: Body::Readings {
                series: vec![series],
                records: (0..3).map(reading).collect(),
            },
        }
    }

    fn place(topic: TopicId) -> TopicPartition {
        TopicPartition {
            topic,
            partition: PartitionId(0),
        }
    }

    /// Feeds three readings; gives how far `topic` and `late` have come.
    fn fed(name: &str, topics: &[Option<TopicId>], known: u64) -> (u64, u64, DeriveCounters) {
        let config = EngineConfig {
            time: TimeRules::default(),
            windows: vec![window(name), window("second")],
        };
        let heads = BTreeMap::from([(place(FIRST), Offset(known))]);
        let mut commit = GroupCommit::new(Epoch(1), Span(0), heads.clone());
        let mut derive = Derive::new(PartitionId(0), &config, topics, &heads);
        derive.feed(&block(), Mono(0), &mut commit);
        let next = |topic| commit.next(place(topic)).0;
        (next(FIRST), next(LATE), derive.counters())
    }

    #[test]
    fn a_window_without_a_topic_takes_nobody_elses() {
        let (second, late, counters) = fed("first", &[None, Some(FIRST)], 0);
        assert_eq!((second, late), (3, 0), "each keeps its own");
        assert_eq!((counters.rows, counters.rows_homeless), (3, 3));
    }

    #[test]
    fn a_row_that_was_never_stored_is_not_among_the_known_ones() {
        let long = "x".repeat(ROW_BYTES_MAX);
        let (first, _, counters) = fed(&long, &[Some(FIRST), None], 2);
        assert_eq!((first, counters.rows_oversize), (2, 3));
        let (first, ..) = fed("first", &[Some(FIRST), None], 2);
        assert_eq!(first, 3, "two stand there, the third is new");
    }
}
