//! One column of a block: a sequence of 64-bit words, and the encodings of which
//! each column takes the shortest. Knows nothing of what the words mean.
//!
//! Bound: [`BLOCK_RECORDS_MAX`] words; what is read is never longer than asked
//! for, whatever the bytes say.

use super::bytes::{Malformed, Reader, put_varint, varint_bytes};
use super::pack;
use crate::limits::BLOCK_RECORDS_MAX;

/// First byte of a column that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Encoding {
    /// Each word as a varint.
    Varints = 0,
    /// Runs of equal words: the word and how many more of it follow.
    Runs = 1,
    /// pco of words below 2^16, 2^32 and 2^64.
    Pco16 = 2,
    Pco32 = 3,
    Pco64 = 4,
    /// pco of f64s, for values only: see [`super::delta`].
    PcoDouble = 5,
}

impl Encoding {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::Varints,
            Self::Runs,
            Self::Pco16,
            Self::Pco32,
            Self::Pco64,
            Self::PcoDouble,
        ]
        .into_iter()
        .find(|encoding| *encoding as u8 == byte)
    }
}

/// Longest varint of what follows in a run.
const RUN_LENGTH_BYTES_MAX: usize = 2;
const _: () = assert!(BLOCK_RECORDS_MAX <= 1 << (7 * RUN_LENGTH_BYTES_MAX));
/// A column that is this short in another encoding is not worth the time of pco.
const PCO_WORTH_BYTES: usize = 64;

/// A column under construction. Its size is known at each word.
#[derive(Debug, Clone, Default)]
pub(super) struct Words {
    words: Vec<u64>,
    varints_bytes: usize,
    /// As runs, at the most.
    runs_bytes: usize,
}

impl Words {
    #[inline]
    pub(super) fn push(&mut self, word: u64) {
        let bytes = varint_bytes(word);
        if self.words.last() != Some(&word) {
            self.runs_bytes += bytes + RUN_LENGTH_BYTES_MAX;
        }
        self.varints_bytes += bytes;
        self.words.push(word);
    }

    pub(super) fn as_slice(&self) -> &[u64] {
        &self.words
    }

    /// Puts another word in the place of the first.
    pub(super) fn set_first(&mut self, word: u64) {
        let (first, rest) = self.words.split_first_mut().expect("a block has a record");
        let is_run = rest.first() == Some(first);
        self.varints_bytes = self.varints_bytes + varint_bytes(word) - varint_bytes(*first);
        self.runs_bytes += varint_bytes(word) + RUN_LENGTH_BYTES_MAX;
        if !is_run {
            self.runs_bytes -= varint_bytes(*first) + RUN_LENGTH_BYTES_MAX;
        }
        *first = word;
    }

    /// Bytes of the words, at the most, without their encoding and length.
    #[inline]
    pub(super) fn size_bytes(&self) -> usize {
        self.varints_bytes.min(self.runs_bytes)
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        (self.varints_bytes, self.runs_bytes) = (0, 0);
    }

    /// Appends the column as varints or runs.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if self.words.is_empty() {
            return;
        }
        if self.varints_bytes <= self.runs_bytes {
            out.push(Encoding::Varints as u8);
            self.words.iter().for_each(|word| put_varint(out, *word));
            return;
        }
        out.push(Encoding::Runs as u8);
        for run in self.words.chunk_by(|a, b| a == b) {
            put_varint(out, run[0]);
            put_varint(out, run.len() as u64 - 1);
        }
    }

    /// Appends the column in the shortest encoding of all.
    pub(super) fn write_packed(&self, out: &mut Vec<u8>) {
        if self.size_bytes() <= PCO_WORTH_BYTES {
            return self.write(out);
        }
        let start = out.len();
        let most = self.words.iter().copied().max().unwrap_or(0);
        let packed = if most <= u64::from(u16::MAX) {
            out.push(Encoding::Pco16 as u8);
            let narrow = self
                .words
                .iter()
                .map(|word| *word as u16)
                .collect::<Vec<_>>();
            pack::put_words(&narrow, out)
        } else if most <= u64::from(u32::MAX) {
            out.push(Encoding::Pco32 as u8);
            let narrow = self
                .words
                .iter()
                .map(|word| *word as u32)
                .collect::<Vec<_>>();
            pack::put_words(&narrow, out)
        } else {
            out.push(Encoding::Pco64 as u8);
            pack::put_words(&self.words, out)
        };
        // Written and not estimated: how long runs come out shows only then.
        let packed_end = out.len();
        self.write(out);
        if !packed || out.len() - packed_end <= packed_end - start {
            out.drain(start..packed_end);
        } else {
            out.truncate(packed_end);
        }
    }
}

/// Reads a column of exactly `count` words into `words`, which are forgotten first.
///
/// # Errors
/// When the bytes are no such column.
pub(super) fn read(
    bytes: &[u8],
    encoding: Encoding,
    count: usize,
    words: &mut Vec<u64>,
) -> Result<(), Malformed> {
    words.clear();
    let mut reader = Reader::new(bytes);
    match encoding {
        Encoding::Varints => {
            for _ in 0..count {
                words.push(reader.varint()?);
            }
        }
        Encoding::Runs => {
            while words.len() < count {
                let word = reader.varint()?;
                let more = usize::try_from(reader.varint()?).map_err(|_| reader.malformed())?;
                if more >= count - words.len() {
                    return Err(reader.malformed());
                }
                words.resize(words.len() + more + 1, word);
            }
        }
        Encoding::Pco16 => widen(pack::take::<u16>(bytes, count)?, words),
        Encoding::Pco32 => widen(pack::take::<u32>(bytes, count)?, words),
        Encoding::Pco64 => *words = pack::take::<u64>(bytes, count)?,
        Encoding::PcoDouble => return Err(reader.malformed()),
    }
    let is_pco = matches!(
        encoding,
        Encoding::Pco16 | Encoding::Pco32 | Encoding::Pco64
    );
    if is_pco || reader.is_at_end() {
        Ok(())
    } else {
        Err(reader.malformed())
    }
}

fn widen<T: Into<u64>>(narrow: Vec<T>, words: &mut Vec<u64>) {
    words.extend(narrow.into_iter().map(Into::into));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(words: &[u64], packed: bool) -> Vec<u8> {
        let mut column = Words::default();
        words.iter().for_each(|word| column.push(*word));
        let mut out = Vec::new();
        if packed {
            column.write_packed(&mut out);
        } else {
            column.write(&mut out);
        }
        assert!(out.len() <= 1 + column.size_bytes(), "{words:?}");
        out
    }

    fn read_back(bytes: &[u8], count: usize) -> Result<Vec<u64>, Malformed> {
        let encoding = Encoding::from_byte(bytes[0]).ok_or(Malformed { position: 0 })?;
        let mut words = Vec::new();
        read(&bytes[1..], encoding, count, &mut words).map(|()| words)
    }

    #[test]
    fn each_column_takes_its_shortest_encoding() {
        let full = BLOCK_RECORDS_MAX as u64;
        let noise = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        for (name, words, live, packed) in [
            ("one", vec![5], Encoding::Varints, Encoding::Varints),
            ("constant", vec![0; 512], Encoding::Runs, Encoding::Runs),
            (
                "short",
                (0..50).collect(),
                Encoding::Varints,
                Encoding::Varints,
            ),
            (
                "ten bits",
                (0..full).map(noise).collect(),
                Encoding::Varints,
                Encoding::Pco16,
            ),
            (
                "twenty bits",
                (0..full).map(|n| noise(n) + (1 << 20)).collect(),
                Encoding::Varints,
                Encoding::Pco32,
            ),
            (
                "forty bits",
                (0..full).map(|n| noise(n) + (1 << 40)).collect(),
                Encoding::Varints,
                Encoding::Pco64,
            ),
        ] {
            let words: Vec<u64> = words;
            for (is_packed, want) in [(false, live), (true, packed)] {
                let bytes = written(&words, is_packed);
                assert_eq!(bytes[0], want as u8, "{name}, packed {is_packed}");
                assert_eq!(
                    read_back(&bytes, words.len()).as_ref(),
                    Ok(&words),
                    "{name}"
                );
            }
        }
        assert!(written(&[], false).is_empty());
        assert!(written(&[], true).is_empty());
    }

    #[test]
    fn a_column_has_as_many_words_as_asked_for() {
        for words in [
            vec![7; 100],
            (0..100).collect(),
            (0..100).map(|n| n * n).collect(),
        ] {
            for packed in [false, true] {
                let bytes = written(&words, packed);
                for (count, fits) in [(99, false), (100, true), (101, false)] {
                    assert_eq!(read_back(&bytes, count).is_ok(), fits, "{count} {bytes:?}");
                }
            }
        }
    }

    #[test]
    fn the_size_follows_another_first_word() {
        for (words, first) in [
            (vec![0, 0, 0], 5),
            (vec![0, 1, 1], 300),
            (vec![1 << 40, 0], 0),
            (vec![9], 1 << 40),
        ] {
            let mut column = Words::default();
            words.iter().for_each(|word| column.push(*word));
            column.set_first(first);
            let mut out = Vec::new();
            column.write(&mut out);
            assert!(out.len() <= 1 + column.size_bytes(), "{words:?}");
            let want: Vec<u64> = [first]
                .into_iter()
                .chain(words[1..].iter().copied())
                .collect();
            assert_eq!(read_back(&out, want.len()), Ok(want));
        }
    }

    fn any_words() -> impl Strategy<Value = Vec<u64>> {
        let word = prop_oneof![
            Just(0_u64),
            0..3_u64,
            0..1000_u64,
            any::<u32>().prop_map(u64::from),
            any::<u64>(),
        ];
        let same = (word.clone(), 1..=BLOCK_RECORDS_MAX).prop_map(|(word, len)| vec![word; len]);
        let small = proptest::collection::vec(0..200_u64, 1..=BLOCK_RECORDS_MAX);
        prop_oneof![
            proptest::collection::vec(word, 1..=BLOCK_RECORDS_MAX),
            same,
            small
        ]
    }

    proptest! {
        #[test]
        fn words_come_back(words in any_words(), packed: bool) {
            let bytes = written(&words, packed);
            prop_assert_eq!(read_back(&bytes, words.len()), Ok(words));
        }

        #[test]
        fn any_bytes_are_survived(
            bytes in proptest::collection::vec(any::<u8>(), 1..200),
            encoding in 0..7_u8,
            count in 1..=BLOCK_RECORDS_MAX,
        ) {
            let mut bytes = bytes;
            bytes[0] = encoding;
            if let Ok(words) = read_back(&bytes, count) {
                prop_assert_eq!(words.len(), count);
            }
        }
    }
}
