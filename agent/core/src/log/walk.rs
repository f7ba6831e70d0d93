//! One reader's way through a partition of the log, block by block: where it is, what
//! it asks for next, and what it passes over.
//!
//! Holds always: each record below the limit is met once, in order, or lies in a hole
//! that is told; a reader that stops before one meets it again; a block that begins before the cursor (it was merged with its
//! neighbours since) gives only its records from there on; a place that cannot be
//! read is never asked for twice. Bound: one read at a time. Knows no store.

use std::ops::Range;

use super::block::{Block, BlockHead};
use super::decode::{Scratch, decode_all, decode_head};
use super::key::{StoredBlock, TopicPartition};
use crate::units::Offset;

/// See the module.
#[derive(Debug, Clone)]
pub struct Walk {
    at: TopicPartition,
    cursor: Offset,
    fetching: bool,
    scratch: Scratch,
}

/// What a reader meets, in order of offsets.
#[derive(Debug)]
pub enum Met<'a> {
    /// `records` of `block` are new to the reader; never empty.
    Block {
        head: &'a BlockHead,
        block: &'a Block,
        records: Range<usize>,
    },
    /// `[first, end)` was trimmed, lost, or does not read.
    Hole { first: Offset, end: Offset },
}

impl Walk {
    /// A way through `at` from `from` on.
    #[must_use]
    pub fn new(at: TopicPartition, from: Offset) -> Self {
        Self {
            at,
            cursor: from,
            fetching: false,
            scratch: Scratch::default(),
        }
    }

    /// All below has been met.
    #[must_use]
    pub fn cursor(&self) -> Offset {
        self.cursor
    }

    /// Whether a read is under way.
    #[must_use]
    pub fn is_fetching(&self) -> bool {
        self.fetching
    }

    #[must_use]
    pub fn at(&self) -> TopicPartition {
        self.at
    }

    /// The next read of the log, when there is something below `limit` and none is
    /// under way.
    pub fn next_fetch(&mut self, limit: Offset) -> Option<(TopicPartition, Offset)> {
        if self.fetching || self.cursor >= limit {
            return None;
        }
        self.fetching = true;
        Some((self.at, self.cursor))
    }

    /// Takes what the read brought, up to `limit`, which is durable.
    pub fn on_fetched(&mut self, blocks: &[StoredBlock], limit: Offset, mut on: impl FnMut(Met)) {
        self.on_fetched_until(blocks, limit, |met| {
            on(met);
            None
        });
    }

    /// The same until `on` gives an offset: the record there, and what comes after it, has
    /// not been met, and is asked for again.
    pub fn on_fetched_until(
        &mut self,
        blocks: &[StoredBlock],
        limit: Offset,
        mut on: impl FnMut(Met) -> Option<Offset>,
    ) {
        self.fetching = false;
        let before = self.cursor;
        for stored in blocks.iter().filter(|stored| stored.key.base < limit) {
            let Ok(head) = decode_head(stored.key, &stored.bytes) else {
                continue;
            };
            if head.end() <= self.cursor {
                continue;
            }
            let Ok((_, block)) = decode_all(stored.key, &stored.bytes, &mut self.scratch) else {
                continue;
            };
            self.pass(head.base, &mut on);
            let records = index(&head, self.cursor)..index(&head, limit);
            let stopped = on(Met::Block {
                head: &head,
                block: &block,
                records,
            });
            if let Some(at) = stopped {
                self.cursor = at.clamp(self.cursor, head.end().min(limit));
                return;
            }
            self.cursor = head.end().min(limit);
        }
        if self.cursor == before {
            // Nothing of it reads. It must not be asked for again.
            let last = blocks.last().map_or(Offset(0), |stored| stored.key.base);
            let next = Offset(last.0.saturating_add(1)).min(limit);
            let end = if next > self.cursor { next } else { limit };
            self.pass(end, &mut on);
        }
    }

    fn pass(&mut self, end: Offset, on: &mut impl FnMut(Met) -> Option<Offset>) {
        if end > self.cursor {
            on(Met::Hole {
                first: self.cursor,
                end,
            });
            self.cursor = end;
        }
    }
}

/// Place of the record at `offset` in a block, at most its length.
fn index(head: &BlockHead, offset: Offset) -> usize {
    let index = offset.0.saturating_sub(head.base.0);
    index.min(u64::from(head.count)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::appender::Appender;
    use crate::record::Row;
    use crate::units::{Epoch, EventTime, Mono, PartitionId, TopicId};

    const AT: TopicPartition = TopicPartition {
        topic: TopicId(16),
        partition: PartitionId(0),
    };

    fn block(base: u64, count: u64) -> StoredBlock {
        let mut appender = Appender::rows(AT, Epoch(1), Offset(base));
        for n in 0..count {
            let line = format!("{{\"n\":{}}}", base + n).into_bytes();
            let time = EventTime(0);
            appender.push_row(&Row { time, line }, Mono(0));
        }
        appender.seal();
        let block = appender.take_sealed().next();
        block.expect("one block")
    }

    fn bad(base: u64) -> StoredBlock {
        let mut block = block(base, 5);
        *block.bytes.last_mut().expect("bytes") ^= 1;
        block
    }

    /// What a walk from `from` meets: ranges of records, holes with a minus.
    fn met(from: u64, limit: u64, blocks: &[StoredBlock]) -> (Vec<(char, u64, u64)>, u64) {
        let mut walk = Walk::new(AT, Offset(from));
        assert_eq!(walk.next_fetch(Offset(limit)), Some((AT, Offset(from))));
        assert_eq!(walk.next_fetch(Offset(limit)), None, "one at a time");
        let mut out = Vec::new();
        walk.on_fetched(blocks, Offset(limit), |met| match met {
            Met::Block { head, records, .. } => {
                let offset = |index: usize| head.base.0 + index as u64;
                out.push(('+', offset(records.start), offset(records.end)));
            }
            Met::Hole { first, end } => out.push(('-', first.0, end.0)),
        });
        (out, walk.cursor().0)
    }

    #[test]
    fn a_walk_that_stops_before_a_record_meets_it_again() {
        let whole = [block(0, 5), block(5, 5)];
        for (name, stop, want) in [
            ("at the first", 0, &[(0, 5), (0, 5), (5, 10)][..]),
            ("inside of a block", 3, &[(0, 5), (3, 5), (5, 10)]),
            ("at the first of the second", 5, &[(0, 5), (5, 10), (5, 10)]),
            ("at the last", 9, &[(0, 5), (5, 10), (9, 10)]),
        ] {
            let (mut walk, mut met, mut stops) = (Walk::new(AT, Offset(0)), Vec::new(), 1);
            while let Some((at, from)) = walk.next_fetch(Offset(10)) {
                assert_eq!((at, from), (AT, walk.cursor()), "{name}");
                walk.on_fetched_until(&whole, Offset(10), |one| {
                    let Met::Block { head, records, .. } = one else {
                        panic!("{name}: a hole");
                    };
                    let offset = |index: usize| head.base.0 + index as u64;
                    let records = offset(records.start)..offset(records.end);
                    met.push((records.start, records.end));
                    let here = stops > 0 && records.contains(&stop);
                    stops -= u32::from(here);
                    here.then_some(Offset(stop))
                });
            }
            assert_eq!(met, want, "{name}");
        }
    }

    #[test]
    fn a_walk_meets_each_record_once_and_tells_each_hole() {
        let whole = [block(0, 5), block(5, 5)];
        for (name, from, limit, blocks, want, cursor) in [
            (
                "from the start",
                0,
                10,
                &whole[..],
                vec![('+', 0, 5), ('+', 5, 10)],
                10,
            ),
            (
                "inside of a block",
                3,
                10,
                &whole,
                vec![('+', 3, 5), ('+', 5, 10)],
                10,
            ),
            ("at its end", 5, 10, &whole, vec![('+', 5, 10)], 10),
            (
                "limit inside of a block",
                0,
                7,
                &whole,
                vec![('+', 0, 5), ('+', 5, 7)],
                7,
            ),
            ("limit at its start", 0, 5, &whole, vec![('+', 0, 5)], 5),
            (
                "trimmed",
                0,
                10,
                &whole[1..],
                vec![('-', 0, 5), ('+', 5, 10)],
                10,
            ),
            (
                "a hole",
                0,
                20,
                &[block(0, 5), block(15, 5)],
                vec![('+', 0, 5), ('-', 5, 15), ('+', 15, 20)],
                20,
            ),
            (
                "a bad one between",
                0,
                15,
                &[block(0, 5), bad(5), block(10, 5)],
                vec![('+', 0, 5), ('-', 5, 10), ('+', 10, 15)],
                15,
            ),
            ("nothing", 4, 9, &[], vec![('-', 4, 9)], 9),
            (
                "a bad end is asked for once more",
                0,
                20,
                &[bad(5)],
                vec![('-', 0, 6)],
                6,
            ),
            ("and then passed", 6, 20, &[bad(5)], vec![('-', 6, 20)], 20),
            (
                "more behind many bad ones",
                0,
                99,
                &[bad(0), bad(5)],
                vec![('-', 0, 6)],
                6,
            ),
        ] {
            assert_eq!(met(from, limit, blocks), (want, cursor), "{name}");
        }
    }
}
