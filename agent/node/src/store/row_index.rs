//! Which blocks of a sealed segment hold rows of which key, and of which times: derived
//! from the segment when it is first asked for, never kept on disk.
//!
//! Holds always: a block that has a row of a key is among its blocks; some others may be,
//! where two keys have one hash. Bound: about one byte per row, and twelve per key.

use forebay_core::log::decode::decode_head;
use forebay_core::log::key::StoredBlock;
use forebay_core::log::pick::each_row;
use forebay_core::query::row_key;
use forebay_core::units::{EventTime, TopicId};

use super::segment_file::SegmentFile;

/// Stands for a key: the first bytes of a row, up to its first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyHash(u32);

impl KeyHash {
    /// Of the bytes that [`row_key`] gives.
    #[must_use]
    pub fn of(key: &[u8]) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for chunk in key.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        }
        Self((hash >> 32) as u32)
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct RowIndex {
    /// Smallest and largest time of each block, in the order of the segment's index; a
    /// block that does not read has all times.
    times: Vec<(EventTime, EventTime)>,
    /// By hash; each with the place of its blocks.
    keys: Vec<(KeyHash, u32)>,
    /// Numbers of blocks as differences, one list behind the other.
    blocks: Vec<u8>,
}

impl RowIndex {
    /// Reads the whole segment.
    ///
    /// # Errors
    /// When the system cannot.
    pub(super) fn build(file: &SegmentFile, topic: TopicId) -> std::io::Result<Self> {
        let mut out = Self::default();
        let mut found: Vec<(KeyHash, u32)> = Vec::new();
        for (number, entry) in (0..).zip(&file.index.entries) {
            let block = file.read(entry, topic)?;
            let head = decode_head(block.key, &block.bytes);
            let all = (EventTime(i64::MIN), EventTime(i64::MAX));
            let times = head.map_or(all, |head| (head.time_min, head.time_max));
            out.times.push(times);
            found.extend(keys_of(&block).into_iter().map(|key| (key, number)));
        }
        found.sort_unstable();
        for of_key in found.chunk_by(|a, b| a.0 == b.0) {
            out.keys.push((of_key[0].0, out.blocks.len() as u32));
            let mut before = 0;
            for (_, number) in of_key {
                put(&mut out.blocks, number - before);
                before = *number;
            }
        }
        out.keys.shrink_to_fit();
        out.blocks.shrink_to_fit();
        Ok(out)
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.times.len() * 16 + self.keys.len() * 8 + self.blocks.len()
    }

    /// Smallest and largest time of a block.
    pub(super) fn times(&self, number: usize) -> (EventTime, EventTime) {
        let all = (EventTime(i64::MIN), EventTime(i64::MAX));
        self.times.get(number).copied().unwrap_or(all)
    }

    /// For each block whether it may have a row of one of the keys.
    pub(super) fn blocks_of(&self, keys: &[KeyHash]) -> Vec<bool> {
        let mut out = vec![false; self.times.len()];
        for key in keys {
            let Ok(place) = self.keys.binary_search_by_key(key, |(of, _)| *of) else {
                continue;
            };
            let first = self.keys[place].1 as usize;
            let next = self.keys.get(place + 1).map(|(_, next)| *next as usize);
            let mut rest = &self.blocks[first..next.unwrap_or(self.blocks.len())];
            let mut number = 0;
            while let Some((step, behind)) = take(rest) {
                number += step as usize;
                rest = behind;
                if let Some(is_wanted) = out.get_mut(number) {
                    *is_wanted = true;
                }
            }
        }
        out
    }
}

/// The keys of the rows of a block, each once, in order. One that does not read gives
/// nothing, as it would to a reader.
pub(super) fn keys_of(block: &StoredBlock) -> Vec<KeyHash> {
    let mut found = Vec::new();
    let _ = each_row(block, |_, _, line| {
        found.extend(row_key(line).map(KeyHash::of));
    });
    found.sort_unstable();
    found.dedup();
    found
}

/// As LEB128.
fn put(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        number |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_both_ways() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u32::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            bytes.push(7);
            assert_eq!(take(&bytes), Some((number, &[7][..])));
        }
        assert_eq!(take(&[0x80]), None);
    }

    #[test]
    fn keys_that_differ_in_one_byte_differ_in_their_hashes() {
        let key = |n: u8| KeyHash::of(&[n, 1, 2, 3, 4, 5, 6, 7, 8, n]);
        let mut all: Vec<_> = (0..=255).map(key).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 256);
    }
}
