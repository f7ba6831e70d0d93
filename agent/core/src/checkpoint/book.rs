//! Which entries make up a state, as one sum that each change moves on: a state of
//! which an entry is missing, old, or of another is known. Bound: 16 bytes an entry.

use std::collections::BTreeMap;

use crate::ingest::fnv1a;

/// An odd number with its bits well spread (2^64 over the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Book {
    /// CRC-32C of the value by hash of the key.
    crcs: BTreeMap<u64, u32>,
    sum: u64,
}

impl Book {
    /// The entry `key` has this value now.
    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        let (key, crc) = (fnv1a(key), crc32c::crc32c(value));
        let before = self.crcs.insert(key, crc);
        self.take(key, before);
        self.sum = self.sum.wrapping_add(mixed(key, crc));
    }

    /// The entry `key` is gone.
    pub fn remove(&mut self, key: &[u8]) {
        let key = fnv1a(key);
        let before = self.crcs.remove(&key);
        self.take(key, before);
    }

    fn take(&mut self, key: u64, crc: Option<u32>) {
        let term = crc.map_or(0, |crc| mixed(key, crc));
        self.sum = self.sum.wrapping_sub(term);
    }

    /// Number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.crcs.len() as u64
    }

    /// Sum over all entries.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

/// What one entry adds.
fn mixed(key: u64, crc: u32) -> u64 {
    let word = (key ^ u64::from(crc).wrapping_mul(SPREAD)).wrapping_mul(SPREAD);
    word ^ (word >> 29)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_sum_is_that_of_the_entries_whatever_came_before(
            steps in prop::collection::vec((0..6_u8, prop::option::of(0..9_u8)), 0..60),
        ) {
            let mut book = Book::default();
            let mut entries = BTreeMap::new();
            for (key, value) in steps {
                match value {
                    Some(value) => {
                        book.set(&[key], &[value]);
                        entries.insert(key, value);
                    }
                    None => {
                        book.remove(&[key]);
                        entries.remove(&key);
                    }
                }
            }
            let mut anew = Book::default();
            for (key, value) in entries {
                anew.set(&[key], &[value]);
            }
            prop_assert_eq!(book, anew);
        }
    }

    #[test]
    fn another_value_key_or_number_of_entries_is_another_sum() {
        let book = |entries: &[(&[u8], &[u8])]| {
            let mut book = Book::default();
            entries.iter().for_each(|(key, value)| book.set(key, value));
            (book.entries(), book.sum())
        };
        let whole = book(&[(b"a", b"1"), (b"b", b"2")]);
        for (name, other) in [
            ("a value", book(&[(b"a", b"1"), (b"b", b"3")])),
            ("a key", book(&[(b"a", b"1"), (b"c", b"2")])),
            ("one missing", book(&[(b"a", b"1")])),
            ("one more", book(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"")])),
            ("values exchanged", book(&[(b"a", b"2"), (b"b", b"1")])),
        ] {
            assert_ne!(whole, other, "{name}");
        }
    }
}
