//! Markers: what each partition of readings says of how far tables are known.
//!
//! Always holds: a marker stands only where all that it names is durable, so no crash
//! leaves one that speaks of changes that are not there. Bound: one per partition each
//! [`MARK_SPACING_US`], and one at each start. Knows no row.

use crate::commit::GroupCommit;
use crate::limits::MARK_SPACING_US;
use crate::log::key::TopicPartition;
use crate::log::topic::READINGS;
use crate::record::TablesRecord;
use crate::units::{Mono, Now, Offset, PartitionId};

/// See the module.
#[derive(Debug)]
pub(super) struct Marks {
    /// None where no engine uses a table.
    partitions: Vec<PartitionId>,
    /// In this run.
    told: Option<Offset>,
    next_at: Mono,
}

impl Marks {
    pub(super) fn new(partitions: Vec<PartitionId>) -> Self {
        Self {
            partitions,
            told: None,
            next_at: Mono(0),
        }
    }

    /// Whether engines hear of changes below `head` already, or never do.
    pub(super) fn is_told(&self, head: Offset) -> bool {
        // The first one of a run may say nothing new: an engine that is built anew in it
        // has to hear of what was there before.
        self.partitions.is_empty() || head == Offset(0) || self.told == Some(head)
    }

    /// Tells of the changes below `head`, which are durable.
    pub(super) fn step(&mut self, head: Offset, now: Now, commit: &mut GroupCommit) {
        if self.is_told(head) || now.mono < self.next_at || !commit.has_room() {
            return;
        }
        let record = TablesRecord {
            upto: head,
            time: now.utc,
        };
        for partition in &self.partitions {
            let at = TopicPartition {
                topic: READINGS,
                partition: *partition,
            };
            commit.tables(at, &record, now.mono);
        }
        self.told = Some(head);
        self.next_at = Mono(now.mono.0.saturating_add(MARK_SPACING_US));
    }

    /// When [`Marks::step`] has something to do.
    pub(super) fn next_deadline(&self, head: Offset) -> Option<Mono> {
        (!self.is_told(head)).then_some(self.next_at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::log::block::{Body, Record};
    use crate::log::decode::decode;
    use crate::units::{Epoch, EventTime, Span};

    /// Partition and offset of each marker that a step at this time gives.
    fn told(marks: &mut Marks, head: u64, at: u64) -> Vec<(u16, u64)> {
        let mut commit = GroupCommit::new(Epoch(1), Span(0), BTreeMap::new());
        let now = Now {
            mono: Mono(at),
            utc: EventTime(7),
        };
        marks.step(Offset(head), now, &mut commit);
        let Some((_, batch)) = commit.poll(Mono(at)) else {
            return Vec::new();
        };
        let told = batch.blocks.iter().map(|block| {
            let Body::Readings { records, .. } = decode(block.key, &block.bytes).unwrap().body
            else {
                panic!("a block of readings")
            };
            let [Record::Tables(tables)] = records[..] else {
                panic!("one marker: {records:?}")
            };
            assert_eq!(tables.time, EventTime(7));
            (block.key.at.partition.0, tables.upto.0)
        });
        told.collect()
    }

    #[test]
    fn each_partition_is_told_of_what_is_new_and_not_too_often() {
        let mut marks = Marks::new(vec![PartitionId(0), PartitionId(3)]);
        assert_eq!(told(&mut marks, 0, 5), []);
        assert_eq!(told(&mut marks, 8, 5), [(0, 8), (3, 8)]);
        assert_eq!(told(&mut marks, 8, 1_000_000), []);
        assert_eq!(told(&mut marks, 9, 1_000_000), [(0, 9), (3, 9)]);
        let due = 1_000_000 + MARK_SPACING_US;
        assert_eq!(told(&mut marks, 10, due - 1), []);
        assert_eq!(marks.next_deadline(Offset(10)), Some(Mono(due)));
        assert_eq!(told(&mut marks, 10, due), [(0, 10), (3, 10)]);
        assert_eq!(marks.next_deadline(Offset(10)), None);
    }

    #[test]
    fn a_start_tells_again_and_where_no_table_is_used_nobody_is_told() {
        let mut marks = Marks::new(vec![PartitionId(0)]);
        assert_eq!(told(&mut marks, 8, 0), [(0, 8)]);
        let mut none = Marks::new(Vec::new());
        assert_eq!(told(&mut none, 8, 0), []);
        assert!(none.is_told(Offset(8)));
    }
}
