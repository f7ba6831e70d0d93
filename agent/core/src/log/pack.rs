//! The one file that names pco: sequences of numbers in few bits each, for sealed
//! blocks. A column holds pco's *wrapped* format, version 4.1: the chunk metadata
//! and one page, without the file header, and the count stands in the block's head.
//!
//! Bounds: of what pco can write, only what this file writes is read (no
//! dictionary, no lookback), so that bytes from outside cannot ask for more
//! memory than some 2 MiB of bins, whatever they say.

use pco::data_types::Number;
use pco::metadata::{DeltaEncoding, Mode};
use pco::wrapped::{FileCompressor, FileDecompressor};
use pco::{ChunkConfig, DeltaSpec, ModeSpec};

use super::bytes::Malformed;

/// Header of pco's wrapped format that stands before none of our columns:
/// format 4.1.
const PCO_HEADER: [u8; 2] = [4, 1];
/// Measured on 512 values a time: level 4 takes 20 ns per word and 40 per double;
/// levels above it win less than 1 % of the bytes for half as much time again.
const LEVEL: usize = 4;
/// Low four bits of a chunk's first byte when a dictionary follows.
const DICTIONARY: u8 = 4;

/// Appends words; `false` when pco refuses, and then `out` holds a part of them.
/// They are differences already, of mixed series: pco takes no others of them.
pub(super) fn put_words<T: Number>(words: &[T], out: &mut Vec<u8>) -> bool {
    put(words, DeltaSpec::NoOp, ModeSpec::Classic, out)
}

/// Appends doubles that follow each other in time, most of them short decimals.
/// As [`put_words`].
pub(super) fn put_doubles(values: &[f64], out: &mut Vec<u8>) -> bool {
    put(values, DeltaSpec::TryConsecutive(1), ModeSpec::Auto, out)
}

fn put<T: Number>(numbers: &[T], delta: DeltaSpec, mode: ModeSpec, out: &mut Vec<u8>) -> bool {
    let config = ChunkConfig::default()
        .with_compression_level(LEVEL)
        .with_delta_spec(delta)
        .with_mode_spec(mode);
    let chunk = FileCompressor::default().chunk_compressor(numbers, &config);
    chunk.is_ok_and(|mut chunk| {
        chunk.write_meta(&mut *out).is_ok() && chunk.write_page(0, &mut *out).is_ok()
    })
}

/// Reads exactly `count` numbers that fill all of `bytes`.
///
/// # Errors
/// When the bytes are nothing that this file writes.
pub(super) fn take<T: Number>(bytes: &[u8], count: usize) -> Result<Vec<T>, Malformed> {
    let malformed = Malformed { position: 0 };
    // Read before pco does: it would make room for a dictionary first.
    if bytes.first().is_none_or(|byte| byte & 0xf == DICTIONARY) {
        return Err(malformed);
    }
    let (file, _) = FileDecompressor::new(&PCO_HEADER[..]).map_err(|_| malformed)?;
    let (mut chunk, rest) = file
        .chunk_decompressor::<T, _>(bytes)
        .map_err(|_| malformed)?;
    let is_ours = matches!(
        chunk.meta().delta_encoding,
        DeltaEncoding::NoOp | DeltaEncoding::Consecutive { .. }
    ) && !matches!(chunk.meta().mode, Mode::Dict(_));
    if !is_ours {
        return Err(malformed);
    }
    let mut page = chunk
        .page_decompressor(rest, count)
        .map_err(|_| malformed)?;
    let mut numbers = vec![T::default(); count];
    let progress = page.read(&mut numbers).map_err(|_| malformed)?;
    let is_all = progress.finished && progress.n_processed == count;
    if is_all && page.into_src().is_empty() {
        Ok(numbers)
    } else {
        Err(malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BLOCK_RECORDS_MAX;
    use proptest::prelude::*;

    /// What stands in the byte table must be what is written, also with another pco.
    #[test]
    fn this_is_format_4_1() {
        let mut header = Vec::new();
        assert!(FileCompressor::default().write_header(&mut header).is_ok());
        assert_eq!(header, PCO_HEADER);
    }

    fn packed(values: &[f64]) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(put_doubles(values, &mut out));
        out
    }

    #[test]
    fn what_we_never_write_is_refused() {
        let words: Vec<u64> = (0..400).map(|n| n % 7 * 1_000_003).collect();
        for (name, delta, mode, is_ours) in [
            ("ours", DeltaSpec::NoOp, ModeSpec::Classic, true),
            ("lookback", DeltaSpec::TryLookback, ModeSpec::Classic, false),
            ("dictionary", DeltaSpec::NoOp, ModeSpec::TryDict, false),
        ] {
            let mut out = Vec::new();
            assert!(put(&words, delta, mode, &mut out));
            assert_eq!(take::<u64>(&out, words.len()).is_ok(), is_ours, "{name}");
        }
        assert!(take::<u64>(&[], 1).is_err());
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_survived() {
        let doubles: Vec<f64> = (0..300).map(|n| f64::from(n % 37) * 0.01).collect();
        let words: Vec<u32> = (0..300_u32).map(|n| n * n % 1009).collect();
        let mut of_words = Vec::new();
        assert!(put_words(&words, &mut of_words));
        for bytes in [packed(&doubles), of_words] {
            for at in 0..bytes.len() {
                for value in (0..8).map(|bit| bytes[at] ^ (1 << bit)).chain([0, 255]) {
                    let mut bad = bytes.clone();
                    bad[at] = value;
                    let _ = take::<f64>(&bad, 300);
                    let _ = take::<u32>(&bad, 300);
                    let _ = take::<u16>(&bad, 300);
                }
                assert!(take::<f64>(&bytes[..at], 300).is_err(), "cut at {at}");
                assert!(take::<u32>(&bytes[..at], 300).is_err(), "cut at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn doubles_keep_every_bit(
            values in proptest::collection::vec(any::<u64>(), 1..=BLOCK_RECORDS_MAX),
            decimals: bool,
        ) {
            let values: Vec<f64> = values
                .into_iter()
                .map(|v| if decimals { (v % 10_000) as f64 / 100.0 } else { f64::from_bits(v) })
                .collect();
            let back = take::<f64>(&packed(&values), values.len());
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(back.as_deref().map(bits), Ok(bits(&values)));
        }

        #[test]
        fn any_bytes_are_survived(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            count in 1..=BLOCK_RECORDS_MAX,
        ) {
            let _ = take::<u16>(&bytes, count);
            let _ = take::<u32>(&bytes, count);
            let _ = take::<u64>(&bytes, count);
            let _ = take::<f64>(&bytes, count);
        }
    }
}
