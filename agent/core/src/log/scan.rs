//! Finds intact blocks in bytes of any kind: a damaged segment, or the raw file
//! of a database that does not open. Knows nothing of what stands between them.
//! Bound: one block at a time, and each byte is looked at once per magic before it.

use super::block::{BLOCK_HEAD_BYTES, BLOCK_MAGIC, BlockHead};
use super::head::{decode_head, self_key};
use super::key::BlockKey;

/// An intact block among other bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'a> {
    pub key: BlockKey,
    pub head: BlockHead,
    /// Where it starts in the bytes that were searched.
    pub position: usize,
    pub bytes: &'a [u8],
}

impl Found<'_> {
    /// Where to search on.
    #[must_use]
    pub fn end(&self) -> usize {
        self.position + self.bytes.len()
    }
}

/// The first intact block (head, length and CRC) that starts at or after `from`.
/// Its payload is not read: a CRC that holds says that it is what was written.
/// One that is cut by the end of `bytes` is not found, so a caller that reads a
/// file piece by piece keeps the last `BLOCK_BYTES_MAX - 1` bytes for the next piece.
#[must_use]
pub fn next_block(bytes: &[u8], from: usize) -> Option<Found<'_>> {
    let mut position = from;
    while let Some(rest) = bytes
        .get(position..)
        .filter(|r| r.len() >= BLOCK_HEAD_BYTES)
    {
        position += rest.iter().position(|byte| *byte == BLOCK_MAGIC[0])?;
        if let Some(found) = block_at(bytes, position) {
            return Some(found);
        }
        position += 1;
    }
    None
}

fn block_at(bytes: &[u8], position: usize) -> Option<Found<'_>> {
    let rest = bytes.get(position..)?;
    let (key, length) = self_key(rest)?;
    let block = rest.get(..length)?;
    let head = decode_head(key, block).ok()?;
    Some(Found {
        key,
        head,
        position,
        bytes: block,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::block::Row;
    use super::super::builder::RowsBuilder;
    use super::super::key::TopicPartition;
    use super::*;
    use crate::units::{Epoch, EventTime, Offset, PartitionId, TopicId};

    const AT: TopicPartition = TopicPartition {
        topic: TopicId(17),
        partition: PartitionId(2),
    };

    fn block(base: u64, line: &[u8]) -> Vec<u8> {
        let mut rows = RowsBuilder::default();
        let row = Row {
            time: EventTime(5),
            line: line.to_vec(),
        };
        assert!(rows.push(&row).is_ok());
        rows.seal(AT, Offset(base), Epoch(3))
    }

    fn all(bytes: &[u8]) -> Vec<(usize, u64)> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(block) = next_block(bytes, from) {
            assert_eq!(block.key.at, AT);
            found.push((block.position, block.key.base.0));
            from = block.end();
        }
        found
    }

    #[test]
    fn blocks_are_found_between_other_bytes() {
        let (a, b) = (block(1, b"{}"), block(2, b"{\"F\":1}"));
        let cut = &b[..b.len() - 1];
        let mut flipped = b.clone();
        flipped[50] ^= 1;
        for (name, parts, want) in [
            ("nothing", vec![], vec![]),
            ("one", vec![&a[..]], vec![(0, 1)]),
            ("two in a row", vec![&a, &b], vec![(0, 1), (a.len(), 2)]),
            ("the magic before", vec![b"FFBFB\x02", &a], vec![(6, 1)]),
            ("cut at the end", vec![&a, cut], vec![(0, 1)]),
            ("cut, then another", vec![cut, &a], vec![(cut.len(), 1)]),
            ("a flipped bit", vec![&flipped, &a], vec![(b.len(), 1)]),
        ] {
            assert_eq!(all(&parts.concat()), want, "{name}");
        }
    }

    #[test]
    fn searching_past_the_end_finds_nothing() {
        let a = block(1, b"{}");
        for from in [1, a.len() - 1, a.len(), a.len() + 1, usize::MAX] {
            assert_eq!(next_block(&a, from), None, "{from}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived_and_a_block_in_them_is_found(
            before in proptest::collection::vec(any::<u8>(), 0..200),
            after in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let a = block(9, b"{\"x\":1}");
            let bytes = [&before[..], &a, &after].concat();
            prop_assert_eq!(all(&bytes), vec![(before.len(), 9)]);
        }
    }
}
