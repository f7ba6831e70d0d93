//! What a twin's disk holds: blocks of the live generation and of sealed segments,
//! heads, meta entries. Holds always: a block is in the live generation or in the
//! ranges of exactly one segment; a head never goes back.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::decode::decode_head;
use crate::log::key::{BlockKey, StoredBlock, TopicPartition};
use crate::log::merge::Merger;
use crate::store::{SegmentId, SegmentInfo, SegmentRange, WriteBatch};
use crate::units::{EventTime, GenerationNo, Offset, PartitionId, TopicId};

/// A segment with its blocks.
pub(super) type Whole = (SegmentInfo, Vec<StoredBlock>);

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub blocks: BTreeMap<BlockKey, Vec<u8>>,
    pub meta: BTreeMap<Vec<u8>, Vec<u8>>,
    pub heads: BTreeMap<TopicPartition, Offset>,
    pub segments: BTreeMap<SegmentId, SegmentInfo>,
    live: BTreeSet<BlockKey>,
    /// Generations that are sealed.
    sealed: u32,
}

impl Contents {
    pub(super) fn apply(&mut self, batch: &WriteBatch) {
        self.apply_blocks(batch);
        for (key, value) in &batch.meta {
            if value.is_empty() {
                self.meta.remove(key);
            } else {
                self.meta.insert(key.clone(), value.clone());
            }
        }
    }

    pub(super) fn apply_blocks(&mut self, batch: &WriteBatch) {
        for block in &batch.blocks {
            self.blocks.insert(block.key, block.bytes.clone());
            self.live.insert(block.key);
            // Bytes that are no block have no head; some tests store such.
            if let Ok(head) = decode_head(block.key, &block.bytes) {
                self.heads.insert(block.key.at, head.end());
            }
        }
    }

    fn bytes_of<'a>(&self, keys: impl Iterator<Item = &'a BlockKey>) -> u64 {
        let lengths = keys.filter_map(|key| self.blocks.get(key));
        lengths.map(|bytes| bytes.len() as u64).sum()
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.bytes_of(self.live.iter())
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.bytes_of(self.blocks.keys())
    }

    /// Seals the live generation: small blocks become full ones, one segment per
    /// topic.
    pub(super) fn seal(&mut self, sealed_at: EventTime) -> Vec<SegmentInfo> {
        self.sealed += 1;
        let generation = GenerationNo(self.sealed);
        let live = std::mem::take(&mut self.live);
        let mut partitions: BTreeMap<TopicPartition, Vec<StoredBlock>> = BTreeMap::new();
        for key in live {
            let bytes = self.blocks.remove(&key).unwrap_or_default();
            let block = StoredBlock { key, bytes };
            partitions.entry(key.at).or_default().push(block);
        }
        let mut sealed: BTreeMap<TopicId, SegmentInfo> = BTreeMap::new();
        for (at, blocks) in partitions {
            let blocks = merged(blocks);
            let info = sealed.entry(at.topic).or_insert_with(|| SegmentInfo {
                id: SegmentId {
                    generation,
                    topic: at.topic,
                },
                bytes: 0,
                sealed_at,
                ranges: Vec::new(),
            });
            info.bytes += blocks.iter().map(|b| b.bytes.len() as u64).sum::<u64>();
            info.ranges.extend(range_of(at.partition, &blocks));
            let blocks = blocks.into_iter().map(|block| (block.key, block.bytes));
            self.blocks.extend(blocks);
        }
        let sealed: Vec<_> = sealed.into_values().collect();
        let entries = sealed.iter().map(|info| (info.id, info.clone()));
        self.segments.extend(entries);
        sealed
    }

    /// Takes a segment out, if it is there.
    pub(super) fn remove(&mut self, id: SegmentId) -> Option<Whole> {
        let info = self.segments.remove(&id)?;
        let mut blocks = Vec::new();
        for range in &info.ranges {
            let at = TopicPartition {
                topic: id.topic,
                partition: range.partition,
            };
            let key = |base| BlockKey { at, base, chunk: 0 };
            let inside = self.blocks.range(key(range.first)..key(range.end));
            let keys: Vec<BlockKey> = inside.map(|(key, _)| *key).collect();
            for key in keys {
                let bytes = self.blocks.remove(&key).unwrap_or_default();
                blocks.push(StoredBlock { key, bytes });
            }
        }
        Some((info, blocks))
    }

    /// Puts a segment back, as a file whose removal did not reach the disk.
    pub(super) fn restore(&mut self, (info, blocks): Whole) {
        let blocks = blocks.into_iter().map(|block| (block.key, block.bytes));
        self.blocks.extend(blocks);
        self.segments.insert(info.id, info);
    }
}

fn merged(blocks: Vec<StoredBlock>) -> Vec<StoredBlock> {
    let mut merger = Merger::new();
    let mut out: Vec<StoredBlock> = Vec::new();
    for block in blocks {
        out.extend(merger.push(block));
    }
    out.extend(merger.finish());
    out
}

fn range_of(partition: PartitionId, blocks: &[StoredBlock]) -> Option<SegmentRange> {
    let heads = blocks.iter().map(|block| {
        decode_head(block.key, &block.bytes).expect("the twin holds what it was given")
    });
    let ranges = heads.map(|head| SegmentRange {
        partition,
        first: head.base,
        end: head.end(),
        records: u64::from(head.count),
        time_min: head.time_min,
        time_max: head.time_max,
    });
    ranges.reduce(|all, next| SegmentRange {
        partition,
        first: all.first,
        end: next.end,
        records: all.records + next.records,
        time_min: all.time_min.min(next.time_min),
        time_max: all.time_max.max(next.time_max),
    })
}
