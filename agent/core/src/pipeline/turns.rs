//! What the loop does piece by piece, so that a question waits for one piece and not for all
//! of it: engines take what a read of the log brought, their state is kept, and a status is
//! told, in turns.
//!
//! Holds always: blocks of a partition are handed over in order, and each once; an engine
//! whose state is being kept is given nothing. Bound: what one read of each partition brought.

use std::collections::{BTreeMap, VecDeque};

use super::{Gateway, into_slot};
use crate::limits::READINGS_PER_TURN_MAX;
use crate::log::decode::decode_head;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::READINGS;
use crate::readers::DeriveRead;
use crate::units::{Mono, Offset};

/// What waits for its turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Reads that are answered.
    reads: VecDeque<(DeriveRead, TopicPartition, Vec<StoredBlock>)>,
    /// What a read brought beyond its first piece, in order, with the end of each block.
    ahead: BTreeMap<TopicPartition, VecDeque<(StoredBlock, Offset)>>,
    /// Whether a status had the last turn: the next one is an engine's.
    told: bool,
}

impl Turns {
    /// Whether a read waits.
    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Takes what a read brought.
    pub(super) fn push(&mut self, read: DeriveRead, at: TopicPartition, blocks: Vec<StoredBlock>) {
        self.reads.push_back((read, at, blocks));
    }

    /// A read of `from` is answered from what an earlier one brought; false when it has to be
    /// read.
    pub(super) fn answers(&mut self, read: DeriveRead, at: TopicPartition, from: Offset) -> bool {
        let Some(ahead) = self.ahead.get_mut(&at) else {
            return false;
        };
        while ahead.pop_front_if(|(_, end)| *end <= from).is_some() {}
        // It may go on elsewhere, or what is there was not among it.
        if ahead.front().is_none_or(|(block, _)| block.key.base > from) {
            self.ahead.remove(&at);
            return false;
        }
        let blocks = ahead.drain(..).map(|(block, _)| block).collect();
        self.reads.push_back((read, at, blocks));
        true
    }

    /// The next read that may be handed over, and the first piece of what it brought.
    fn next(
        &mut self,
        must_wait: impl Fn(DeriveRead) -> bool,
    ) -> Option<(DeriveRead, Vec<StoredBlock>)> {
        let index = self.reads.iter().position(|(read, ..)| !must_wait(*read))?;
        let (read, at, mut blocks) = self.reads.remove(index)?;
        if at.topic == READINGS {
            let rest = blocks.split_off(piece(&blocks));
            let end = |block: &StoredBlock| {
                let head = decode_head(block.key, &block.bytes);
                head.map_or(block.key.base, |head| head.end())
            };
            let rest = rest.into_iter().map(|block| {
                let end = end(&block);
                (block, end)
            });
            self.ahead.insert(at, rest.collect());
        }
        Some((read, blocks))
    }
}

/// How many of the blocks make one piece. One that does not read belongs to the next one that
/// does: by that it is known how much is missing.
fn piece(blocks: &[StoredBlock]) -> usize {
    let mut readings = 0;
    for (index, block) in blocks.iter().enumerate() {
        let count = decode_head(block.key, &block.bytes).map_or(0, |head| u64::from(head.count));
        if readings > 0 && readings + count > READINGS_PER_TURN_MAX {
            return index;
        }
        readings += count;
    }
    blocks.len()
}

impl Gateway {
    /// Whether something waits for [`Gateway::take_turn`].
    pub(super) fn has_turn(&self) -> bool {
        !self.statuses.is_empty() || self.has_engine_turn()
    }

    fn has_engine_turn(&self) -> bool {
        let mut reads = self.turns.reads.iter();
        self.readers.is_keeping() || reads.any(|(read, ..)| !self.readers.must_wait(*read))
    }

    /// One piece of what waits.
    pub(super) fn take_turn(&mut self, now: Mono) {
        let told = std::mem::take(&mut self.turns.told);
        if !(told && self.has_engine_turn()) && self.tell_some(now) {
            self.turns.told = true;
            return;
        }
        if self.readers.is_keeping() {
            let entries = self.readers.step_checkpoint(&self.commit, now);
            return self.keep(into_slot(self.live.slot, entries), now);
        }
        if let Some((read, blocks)) = self.turns.next(|read| self.readers.must_wait(read)) {
            self.readers
                .on_fetched(read, &blocks, now, &mut self.commit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::appender::Appender;
    use crate::record::Row;
    use crate::units::{Epoch, EventTime, PartitionId};

    const AT: TopicPartition = TopicPartition {
        topic: READINGS,
        partition: PartitionId(0),
    };
    const READ: DeriveRead = DeriveRead::Own(PartitionId(0));

    /// So many records from `base` on; what they are does not matter here.
    fn block(base: u64, count: u64) -> StoredBlock {
        let mut appender = Appender::rows(AT, Epoch(1), Offset(base));
        for _ in 0..count {
            let line = b"{}".to_vec();
            appender.push_row(
                &Row {
                    time: EventTime(0),
                    line,
                },
                Mono(0),
            );
        }
        appender.seal();
        appender.take_sealed().next().expect("one block")
    }

    fn bad(base: u64) -> StoredBlock {
        let mut block = block(base, 300);
        *block.bytes.last_mut().expect("bytes") ^= 1;
        block
    }

    fn bases(turns: &mut Turns) -> Option<Vec<u64>> {
        let (_, blocks) = turns.next(|_| false)?;
        Some(blocks.iter().map(|block| block.key.base.0).collect())
    }

    #[test]
    fn a_piece_is_as_many_blocks_as_a_turn_takes() {
        let most = READINGS_PER_TURN_MAX;
        for (name, blocks, want) in [
            ("nothing", vec![], 0),
            ("one", vec![block(0, 1)], 1),
            ("limit - 1", vec![block(0, most - 2), block(most - 2, 1)], 2),
            ("limit", vec![block(0, most - 1), block(most - 1, 1)], 2),
            ("limit + 1", vec![block(0, most), block(most, 1)], 1),
            ("a bad one before", vec![bad(0), block(300, most)], 2),
            ("bad ones alone", vec![bad(0), bad(300)], 2),
        ] {
            assert_eq!(piece(&blocks), want, "{name}");
        }
    }

    #[test]
    fn what_a_read_brought_is_given_out_piece_by_piece() {
        let mut turns = Turns::default();
        assert!(!turns.answers(READ, AT, Offset(0)));
        let blocks = (0..4).map(|n| block(300 * n, 300)).collect();
        turns.push(READ, AT, blocks);
        assert!(turns.next(|_| true).is_none(), "it has to wait");
        assert_eq!(bases(&mut turns), Some(vec![0]));
        assert_eq!(bases(&mut turns), None);
        assert!(turns.answers(READ, AT, Offset(300)));
        assert_eq!(bases(&mut turns), Some(vec![300]));
        // It stopped inside of a block, which is read once more.
        assert!(!turns.answers(READ, AT, Offset(400)));
        turns.push(READ, AT, vec![block(300, 300), block(600, 300)]);
        assert_eq!(bases(&mut turns), Some(vec![300]));
        assert!(turns.answers(READ, AT, Offset(700)), "inside of one");
        assert_eq!(bases(&mut turns), Some(vec![600]));
        assert!(!turns.answers(READ, AT, Offset(900)), "nothing is left");
    }
}
