//! Makes full blocks of small ones: what a generation is rewritten with when it
//! is sealed. Knows no file: blocks come in key order and leave in the same.
//!
//! Holds always: order, content, offsets and epochs of all records stay as they
//! were. Bound: the records of two blocks.

use super::block::{Block, BlockHead, Body};
use super::builder::{Full, ReadingsBuilder, RowsBuilder};
use super::decode::{Scratch, decode_all};
use super::head::stamp_unsynced;
use super::key::{BlockKey, StoredBlock, TopicPartition};
use crate::record::{Record, Series};
use crate::units::{Epoch, Offset};

#[derive(Debug)]
enum Open {
    Readings(ReadingsBuilder),
    Rows(RowsBuilder),
}

/// Blocks that follow each other in one partition and one epoch.
#[derive(Debug)]
struct Run {
    at: TopicPartition,
    epoch: Epoch,
    base: Offset,
    open: Open,
    /// What any of the blocks so far says was durable before it.
    durable_below: Offset,
}

impl Run {
    fn start(block: &Block) -> Self {
        Self {
            at: block.at,
            epoch: block.epoch,
            base: block.base,
            open: match block.body {
                Body::Readings { .. } => Open::Readings(ReadingsBuilder::unmeasured()),
                Body::Rows(_) => Open::Rows(RowsBuilder::default()),
            },
            durable_below: Offset(0),
        }
    }

    fn len(&self) -> u64 {
        match &self.open {
            Open::Readings(builder) => builder.len() as u64,
            Open::Rows(builder) => builder.len() as u64,
        }
    }

    fn continues_with(&self, block: &Block) -> bool {
        let same_kind = matches!(
            (&self.open, &block.body),
            (Open::Readings(_), Body::Readings { .. }) | (Open::Rows(_), Body::Rows(_))
        );
        let next = Offset(self.base.0 + self.len());
        same_kind && (self.at, self.epoch, next) == (block.at, block.epoch, block.base)
    }

    fn seal(&mut self, out: &mut Vec<StoredBlock>) {
        let count = self.len();
        if count == 0 {
            return;
        }
        let (at, base, epoch) = (self.at, self.base, self.epoch);
        match &mut self.open {
            Open::Readings(builder) => match builder.pack(at, base, epoch) {
                Some(bytes) => self.put(base, bytes, out),
                None => self.seal_halves(out),
            },
            Open::Rows(builder) => {
                let bytes = builder.seal(at, base, epoch);
                self.put(base, bytes, out);
            }
        }
        self.base.0 += count;
    }

    /// What no encoding makes short enough becomes more blocks than one.
    fn seal_halves(&mut self, out: &mut Vec<StoredBlock>) {
        let Open::Readings(builder) = &mut self.open else {
            unreachable!("rows are measured as they are pushed")
        };
        let (series, records) = (builder.series().to_vec(), builder.records());
        *builder = ReadingsBuilder::unmeasured();
        self.seal_part(self.base, &series, &records, out);
    }

    fn seal_part(
        &self,
        base: Offset,
        series: &[Series],
        records: &[Record],
        out: &mut Vec<StoredBlock>,
    ) {
        let mut builder = ReadingsBuilder::unmeasured();
        for record in records {
            push_record(&mut builder, series, record).expect("a part has fewer records and series");
        }
        if let Some(bytes) = builder.pack(self.at, base, self.epoch) {
            return self.put(base, bytes, out);
        }
        let (first, second) = records.split_at(records.len() / 2);
        let middle = Offset(base.0 + first.len() as u64);
        self.seal_part(base, series, first, out);
        self.seal_part(middle, series, second, out);
    }

    fn put(&self, base: Offset, mut bytes: Vec<u8>, out: &mut Vec<StoredBlock>) {
        let unsynced = base.0.saturating_sub(self.durable_below.0);
        if let Ok(unsynced) = u32::try_from(unsynced) {
            stamp_unsynced(&mut bytes, unsynced);
        }
        let key = BlockKey {
            at: self.at,
            base,
            chunk: 0,
        };
        out.push(StoredBlock { key, bytes });
    }

    fn take(&mut self, head: &BlockHead, body: &Body, out: &mut Vec<StoredBlock>) {
        self.durable_below = self.durable_below.max(head.durable_below());
        for index in 0..body.len() {
            if self.push(body, index).is_err() {
                self.seal(out);
                self.push(body, index)
                    .expect("one record fits an empty block");
            }
        }
    }

    fn push(&mut self, body: &Body, index: usize) -> Result<(), Full> {
        match (&mut self.open, body) {
            (Open::Readings(builder), Body::Readings { series, records }) => {
                push_record(builder, series, &records[index])
            }
            (Open::Rows(builder), Body::Rows(rows)) => builder.push(&rows[index]),
            (Open::Readings(_), Body::Rows(_)) | (Open::Rows(_), Body::Readings { .. }) => {
                unreachable!("a run is continued by its own kind")
            }
        }
    }
}

fn push_record(
    builder: &mut ReadingsBuilder,
    series: &[Series],
    record: &Record,
) -> Result<(), Full> {
    match record {
        Record::Reading(r) => builder.push_reading(&series[usize::from(r.series)], r),
        Record::Gap(gap) => builder.push_gap(gap),
        Record::Clock(clock) => builder.push_clock(clock),
        Record::Tables(tables) => builder.push_tables(tables),
    }
}

/// Merges consecutive blocks of one partition and one epoch. A hole, another
/// epoch or a block that cannot be read ends a run; the last comes out as it was.
#[derive(Debug, Default)]
pub struct Merger {
    run: Option<Run>,
    scratch: Scratch,
}

impl Merger {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next block, in key order, and returns those that are now full.
    pub fn push(&mut self, block: StoredBlock) -> Vec<StoredBlock> {
        let Ok((head, decoded)) = decode_all(block.key, &block.bytes, &mut self.scratch) else {
            let mut out = self.finish();
            out.push(block);
            return out;
        };
        let mut out = Vec::new();
        if !self
            .run
            .as_ref()
            .is_some_and(|run| run.continues_with(&decoded))
        {
            out = self.finish();
        }
        let run = self.run.get_or_insert_with(|| Run::start(&decoded));
        run.take(&head, &decoded.body, &mut out);
        out
    }

    /// What is left, after the last block.
    pub fn finish(&mut self) -> Vec<StoredBlock> {
        let mut out = Vec::new();
        if let Some(mut run) = self.run.take() {
            run.seal(&mut out);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
    use forebay_wire::message::Quality;
    use proptest::prelude::*;

    use super::super::decode::{decode, decode_head};
    use super::*;
    use crate::limits::BLOCK_RECORDS_MAX;
    use crate::record::TablesRecord;
    use crate::record::{ClockRecord, ClockTrust, GapReason, GapRecord, ReadingRecord};
    use crate::record::{Row, Series, ValueKind};
    use crate::units::{EventTime, PartitionId, TopicId};

    const AT: TopicPartition = TopicPartition {
        topic: TopicId(0),
        partition: PartitionId(3),
    };

    fn series(n: u64) -> Series {
        Series {
            uid: DeviceUid([n as u8 % 2; 8]),
            boot: BootId(1),
            channel: ChannelNo(n as u8 % 3),
            kind: match n % 3 {
                0 => ValueKind::Double,
                n => ValueKind::Scaled { scale: n as u8 },
            },
            name: Arc::from("x"),
            unit: Arc::from(if n.is_multiple_of(5) { "V" } else { "" }),
        }
    }

    /// A block of `count` records from `base` on; what they hold follows from the offset.
    fn block(topic: u16, base: u64, count: u64, epoch: u32) -> StoredBlock {
        let at = TopicPartition {
            topic: TopicId(topic),
            ..AT
        };
        let (mut readings, mut rows) = (ReadingsBuilder::new(), RowsBuilder::default());
        for n in base..base + count {
            let time = EventTime(n as i64 * 1000);
            let pushed = match (topic, n % 7) {
                (0, 6) => readings.push_gap(&GapRecord {
                    uid: DeviceUid([1; 8]),
                    boot: BootId(1),
                    first: Ordinal(n),
                    count: 2,
                    reason: GapReason::RingFull,
                    time,
                }),
                (0, 5) => readings.push_clock(&ClockRecord {
                    now: time,
                    trust: ClockTrust::Yes,
                }),
                (0, 4) => readings.push_tables(&TablesRecord {
                    upto: Offset(n / 2),
                    time,
                }),
                (0, _) => readings.push_reading(
                    &series(n),
                    &ReadingRecord {
                        series: 0,
                        ordinal: Ordinal(n),
                        tick: Tick(n * 1000),
                        time,
                        uncertainty_us: 5,
                        value: n as i64 % 11,
                        quality: Quality::Ok,
                    },
                ),
                (_, _) => rows.push(&Row {
                    time,
                    line: format!("{{\"n\":{n}}}").into_bytes(),
                }),
            };
            assert_eq!(pushed, Ok(()), "{n}");
        }
        let bytes = match topic {
            0 => readings.seal(at, Offset(base), Epoch(epoch)),
            _ => rows.seal(at, Offset(base), Epoch(epoch)),
        };
        let key = BlockKey {
            at,
            base: Offset(base),
            chunk: 0,
        };
        StoredBlock { key, bytes }
    }

    fn merged(blocks: &[StoredBlock]) -> Vec<StoredBlock> {
        let mut merger = Merger::new();
        let mut out: Vec<_> = blocks
            .iter()
            .cloned()
            .flat_map(|b| merger.push(b))
            .collect();
        out.extend(merger.finish());
        assert!(merger.finish().is_empty());
        out
    }

    /// Every record of every block with its place, epoch and series.
    fn content(blocks: &[StoredBlock]) -> Vec<(TopicPartition, u64, Epoch, String)> {
        let mut out = Vec::new();
        for stored in blocks {
            let block = decode(stored.key, &stored.bytes).expect("written here");
            let mut put = |n: usize, text| {
                out.push((block.at, block.base.0 + n as u64, block.epoch, text));
            };
            match &block.body {
                Body::Readings { series, records } => {
                    for (n, record) in records.iter().enumerate() {
                        let text = match record {
                            Record::Reading(r) => {
                                let series = &series[usize::from(r.series)];
                                format!("{series:?} {:?}", ReadingRecord { series: 0, ..*r })
                            }
                            Record::Gap(gap) => format!("{gap:?}"),
                            Record::Clock(clock) => format!("{clock:?}"),
                            Record::Tables(tables) => format!("{tables:?}"),
                        };
                        put(n, text);
                    }
                }
                Body::Rows(rows) => {
                    for (n, row) in rows.iter().enumerate() {
                        put(n, format!("{row:?}"));
                    }
                }
            }
        }
        out
    }

    fn bases(blocks: &[StoredBlock]) -> Vec<u64> {
        blocks.iter().map(|block| block.key.base.0).collect()
    }

    #[test]
    fn small_blocks_become_full_ones() {
        let full = BLOCK_RECORDS_MAX as u64;
        for (name, blocks, want) in [
            ("nothing", vec![], vec![]),
            ("one", vec![(0, 5, 1)], vec![0]),
            ("two", vec![(0, 5, 1), (5, 5, 1)], vec![0]),
            ("a hole", vec![(0, 5, 1), (6, 5, 1)], vec![0, 6]),
            ("an epoch", vec![(0, 5, 1), (5, 5, 2)], vec![0, 5]),
            (
                "one less than full",
                vec![(0, 5, 1), (5, full - 6, 1)],
                vec![0],
            ),
            ("full", vec![(0, 5, 1), (5, full - 5, 1)], vec![0]),
            ("one more", vec![(0, 5, 1), (5, full - 4, 1)], vec![0, full]),
        ] {
            for topic in [0, 16] {
                let blocks: Vec<_> = blocks
                    .iter()
                    .map(|(base, count, epoch)| block(topic, *base, *count, *epoch))
                    .collect();
                let out = merged(&blocks);
                assert_eq!(bases(&out), want, "{name}, topic {topic}");
                assert_eq!(content(&out), content(&blocks), "{name}, topic {topic}");
            }
        }
    }

    #[test]
    fn a_block_that_cannot_be_read_comes_out_as_it_was() {
        let mut bad = block(0, 5, 5, 1);
        bad.bytes[60] ^= 4;
        let blocks = [block(0, 0, 5, 1), bad.clone(), block(0, 10, 5, 1)];
        let out = merged(&blocks);
        assert_eq!(bases(&out), [0, 5, 10]);
        assert_eq!(out[1], bad);
    }

    #[test]
    fn what_was_durable_before_stays_proved() {
        let said = |base: u64, count, unsynced: Option<u32>| {
            let mut block = block(0, base, count, 1);
            if let Some(unsynced) = unsynced {
                stamp_unsynced(&mut block.bytes, unsynced);
            }
            block
        };
        for (name, blocks, want) in [
            ("nobody says", vec![said(100, 5, None)], 0),
            ("all before it", vec![said(100, 5, Some(0))], 100),
            ("some before it", vec![said(100, 5, Some(30))], 70),
            (
                "a later one knows more",
                vec![said(100, 5, Some(30)), said(105, 5, Some(10))],
                95,
            ),
            (
                "a later one knows all of it",
                vec![said(100, 5, Some(30)), said(105, 5, Some(2))],
                100,
            ),
            (
                "a later one knows less",
                vec![said(100, 5, Some(30)), said(105, 5, None)],
                70,
            ),
        ] {
            let out = merged(&blocks);
            assert_eq!(out.len(), 1, "{name}");
            let head = decode_head(out[0].key, &out[0].bytes).expect("a block");
            assert_eq!(head.durable_below(), Offset(want), "{name}");
        }
    }

    #[test]
    fn what_no_encoding_makes_short_becomes_more_blocks() {
        let noise = |n: u64| {
            let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        let blocks: Vec<StoredBlock> = (0..8)
            .map(|part| {
                let mut builder = ReadingsBuilder::new();
                for n in part * 64..part * 64 + 64 {
                    let reading = ReadingRecord {
                        series: 0,
                        ordinal: Ordinal(noise(n)),
                        tick: Tick(noise(n + 1000)),
                        time: EventTime(noise(n + 2000) as i64),
                        uncertainty_us: 0,
                        value: (noise(n + 3000) >> 2) as i64,
                        quality: Quality::Ok,
                    };
                    assert_eq!(builder.push_reading(&series(0), &reading), Ok(()), "{n}");
                }
                let base = Offset(part * 64);
                let bytes = builder.seal(AT, base, Epoch(1));
                let key = BlockKey {
                    at: AT,
                    base,
                    chunk: 0,
                };
                StoredBlock { key, bytes }
            })
            .collect();
        let out = merged(&blocks);
        assert!(out.len() > 1);
        assert_eq!(content(&out), content(&blocks));
    }

    #[test]
    fn partitions_and_kinds_are_kept_apart() {
        let blocks = [block(0, 0, 5, 1), block(16, 5, 5, 1), block(17, 10, 5, 1)];
        assert_eq!(bases(&merged(&blocks)), [0, 5, 10]);
    }

    proptest! {
        #[test]
        fn merging_changes_no_record(
            parts in proptest::collection::vec((1..40_u64, 0..10_u64, 0..12_u32), 1..60),
            topic in prop_oneof![Just(0_u16), Just(16)],
        ) {
            let (mut next, mut epoch) = (0, 1);
            let mut blocks = Vec::new();
            for (count, hole, bump) in parts {
                next += u64::from(hole == 0);
                epoch += u32::from(bump == 0);
                blocks.push(block(topic, next, count, epoch));
                next += count;
            }
            let out = merged(&blocks);
            prop_assert_eq!(content(&out), content(&blocks));
            prop_assert!(out.len() <= blocks.len());
        }
    }
}
