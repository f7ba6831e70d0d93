//! Makes full blocks of small ones: what a generation is rewritten with when it
//! is sealed. Knows no file: blocks come in key order and leave in the same.
//!
//! Holds always: order, content, offsets and epochs of all records stay as they
//! were. Bound: the records of two blocks.

use super::block::{Block, Body};
use super::builder::{Full, ReadingsBuilder, RowsBuilder};
use super::decode::decode;
use super::key::{BlockKey, StoredBlock, TopicPartition};
use crate::record::Record;
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
}

impl Run {
    fn start(block: &Block) -> Self {
        Self {
            at: block.at,
            epoch: block.epoch,
            base: block.base,
            open: match block.body {
                Body::Readings { .. } => Open::Readings(ReadingsBuilder::new()),
                Body::Rows(_) => Open::Rows(RowsBuilder::default()),
            },
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
        let key = BlockKey {
            at: self.at,
            base: self.base,
            chunk: 0,
        };
        let bytes = match &mut self.open {
            Open::Readings(builder) => builder.seal(self.at, self.base, self.epoch),
            Open::Rows(builder) => builder.seal(self.at, self.base, self.epoch),
        };
        self.base.0 += count;
        out.push(StoredBlock { key, bytes });
    }

    fn take(&mut self, body: &Body, out: &mut Vec<StoredBlock>) {
        let count = body.len();
        for index in 0..count {
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
                match &records[index] {
                    Record::Reading(r) => builder.push_reading(&series[usize::from(r.series)], r),
                    Record::Gap(gap) => builder.push_gap(gap),
                }
            }
            (Open::Rows(builder), Body::Rows(rows)) => builder.push(&rows[index]),
            (Open::Readings(_), Body::Rows(_)) | (Open::Rows(_), Body::Readings { .. }) => {
                unreachable!("a run is continued by its own kind")
            }
        }
    }
}

/// Merges consecutive blocks of one partition and one epoch. A hole, another
/// epoch or a block that cannot be read ends a run; the last comes out as it was.
#[derive(Debug, Default)]
pub struct Merger {
    run: Option<Run>,
}

impl Merger {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next block, in key order, and returns those that are now full.
    pub fn push(&mut self, block: StoredBlock) -> Vec<StoredBlock> {
        let Ok(decoded) = decode(block.key, &block.bytes) else {
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
        run.take(&decoded.body, &mut out);
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

    use super::*;
    use crate::limits::BLOCK_RECORDS_MAX;
    use crate::record::{GapReason, GapRecord, ReadingRecord, Row, Series, ValueKind};
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
