//! Rows of a sealed segment once more, by key: behind the blocks stands for each key what
//! its rows say, packed, so that a question about few of many keys reads little. Bytes
//! only: what a key and a packed row are is not known here. Byte table:
//! `agent/core/docs/format.md`.
//!
//! Holds always: it says which offsets it speaks of, and of these it has every row that
//! has a key. It is a convenience: what does not read is as if it were not there, and the
//! blocks are read. Bounds: [`KEYED_BYTES_MAX`], [`KEYED_BUCKETS_MAX`],
//! [`KEYED_SPANS_MAX`], [`KEYED_NOTE_BYTES_MAX`].

use super::bytes::{Malformed, Reader};
use super::segment::{SEGMENT_HEAD_BYTES, SegmentFault};
use crate::ingest::fnv1a;
use crate::limits::{
    KEYED_BUCKETS_MAX, KEYED_BYTES_MAX, KEYED_NOTE_BYTES_MAX, KEYED_SPANS_MAX, PARTITIONS_MAX,
};
use crate::units::{EventTime, Offset, PartitionId};
use std::ops::Range;

mod build;

pub use build::{KeyedBuilder, KeyedFull};

const MAGIC: [u8; 4] = *b"FKEY";
const VERSION: u8 = 1;
/// The last bytes of it, which stand before the segment's index.
pub const KEYED_TRAILER_BYTES: usize = 4 + 2 + 2 + 4 + 4 + 1 + 3 + 4 + 4;
const SPAN_BYTES: usize = 2 + 8 + 8;

const _: () = assert!(
    KEYED_BYTES_MAX <= u32::MAX as usize && KEYED_SPANS_MAX <= u16::MAX as usize,
    "positions take four bytes, and the number of spans two"
);
const _: () = assert!(KEYED_NOTE_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(KEYED_SPANS_MAX > PARTITIONS_MAX, "one each at least");

/// Offsets of one partition of which it speaks, half-open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedSpan {
    pub partition: PartitionId,
    pub first: Offset,
    pub end: Offset,
}

/// What the trailer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedTrailer {
    buckets: usize,
    spans: usize,
    note_bytes: usize,
    buckets_bytes: usize,
    table_crc: u32,
}

impl KeyedTrailer {
    /// Bytes of table, spans and note, which stand before the trailer.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.buckets * 4 + self.spans * SPAN_BYTES + self.note_bytes
    }

    /// Bytes of all of it, with the trailer.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buckets_bytes + self.table_bytes() + KEYED_TRAILER_BYTES
    }
}

/// Where rows stand, and of which offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedTable {
    /// Where each bucket ends, from the first byte of all on.
    ends: Vec<u32>,
    /// In order, and apart.
    pub spans: Vec<KeyedSpan>,
    /// What whoever packed the rows says of all of them.
    pub note: Vec<u8>,
}

impl KeyedTable {
    /// Where the rows of a key stand if there are any, from the first byte of all on.
    #[must_use]
    pub fn bucket(&self, key: &[u8]) -> Range<u64> {
        let at = bucket_of(fnv1a(key), self.ends.len());
        let before = at.checked_sub(1).and_then(|before| self.ends.get(before));
        let end = self.ends.get(at).copied().unwrap_or(0);
        u64::from(before.copied().unwrap_or(0))..u64::from(end)
    }

    /// The rows of all buckets.
    #[must_use]
    pub fn buckets_bytes(&self) -> u64 {
        u64::from(self.ends.last().copied().unwrap_or(0))
    }

    /// Each bucket in order.
    pub fn buckets(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| u64::from(start)..u64::from(*end))
    }

    /// Where the offsets end that it speaks of, from `from` on; `None` where it does not
    /// speak of `from`.
    #[must_use]
    pub fn end_of(&self, partition: PartitionId, from: Offset) -> Option<Offset> {
        let holds = |span: &&KeyedSpan| {
            span.partition == partition && span.first <= from && from < span.end
        };
        self.spans.iter().find(holds).map(|span| span.end)
    }
}

fn bucket_of(hash: u64, buckets: usize) -> usize {
    (((hash >> 32) * buckets as u64) >> 32) as usize
}

/// Reads the trailer from the last bytes before `index_at`, where a segment's index begins.
///
/// # Errors
/// [`SegmentFault::Keyed`]: it is not there, or does not read.
pub fn decode_keyed_trailer(tail: &[u8], index_at: u64) -> Result<KeyedTrailer, SegmentFault> {
    let bytes = tail.last_chunk::<KEYED_TRAILER_BYTES>();
    let bytes = bytes.ok_or(SegmentFault::Keyed)?;
    let (body, end) = bytes.split_at(KEYED_TRAILER_BYTES - 8);
    let read = |reader: &mut Reader<'_>| -> Result<KeyedTrailer, Malformed> {
        Ok(KeyedTrailer {
            buckets: u32::from_le_bytes(reader.array()?) as usize,
            spans: usize::from(u16::from_le_bytes(reader.array()?)),
            note_bytes: usize::from(u16::from_le_bytes(reader.array()?)),
            buckets_bytes: u32::from_le_bytes(reader.array()?) as usize,
            table_crc: u32::from_le_bytes(reader.array()?),
        })
    };
    let trailer = read(&mut Reader::new(body)).map_err(|_| SegmentFault::Keyed)?;
    let holds = end[..4] == crc32c::crc32c(body).to_le_bytes()
        && end[4..] == MAGIC
        && body[KEYED_TRAILER_BYTES - 12] == VERSION;
    let bounded = (1..=KEYED_BUCKETS_MAX).contains(&trailer.buckets)
        && trailer.spans <= KEYED_SPANS_MAX
        && trailer.note_bytes <= KEYED_NOTE_BYTES_MAX
        && trailer.buckets_bytes <= KEYED_BYTES_MAX;
    let fits = bounded && (trailer.bytes() + SEGMENT_HEAD_BYTES) as u64 <= index_at;
    if holds && fits {
        Ok(trailer)
    } else {
        Err(SegmentFault::Keyed)
    }
}

/// Reads table, spans and note: the [`KeyedTrailer::table_bytes`] bytes before the trailer.
///
/// # Errors
/// [`SegmentFault::Keyed`].
pub fn decode_keyed_table(
    bytes: &[u8],
    trailer: &KeyedTrailer,
) -> Result<KeyedTable, SegmentFault> {
    if bytes.len() != trailer.table_bytes() || crc32c::crc32c(bytes) != trailer.table_crc {
        return Err(SegmentFault::Keyed);
    }
    let mut reader = Reader::new(bytes);
    let mut read = || -> Result<KeyedTable, Malformed> {
        let ends = (0..trailer.buckets).map(|_| reader.array().map(u32::from_le_bytes));
        let ends = ends.collect::<Result<_, _>>()?;
        let mut spans = Vec::with_capacity(trailer.spans);
        for _ in 0..trailer.spans {
            spans.push(KeyedSpan {
                partition: PartitionId(u16::from_le_bytes(reader.array()?)),
                first: Offset(u64::from_le_bytes(reader.array()?)),
                end: Offset(u64::from_le_bytes(reader.array()?)),
            });
        }
        let note = reader.take(trailer.note_bytes)?.to_vec();
        Ok(KeyedTable { ends, spans, note })
    };
    let table = read().map_err(|_| SegmentFault::Keyed)?;
    let placed = table.ends.is_sorted() && table.buckets_bytes() == trailer.buckets_bytes as u64;
    let apart = table.spans.is_sorted_by(|a, b| {
        a.partition < b.partition || (a.partition == b.partition && a.end < b.first)
    });
    let sound = placed && apart && table.spans.iter().all(|span| span.first < span.end);
    sound.then_some(table).ok_or(SegmentFault::Keyed)
}

/// Shows the rows of a key in a bucket: offset, event time, packed row, in order of
/// offsets.
///
/// # Errors
/// [`SegmentFault::Keyed`], when the bytes do not have their CRC or break the byte table.
/// Without the CRC nothing was shown.
pub fn each_of_key(
    bucket: &[u8],
    (partition, key): (PartitionId, &[u8]),
    mut visit: impl FnMut(Offset, EventTime, &[u8]),
) -> Result<(), SegmentFault> {
    each_group(bucket, |of, group| {
        if of == (partition, key) {
            each_row(group, &mut visit)?;
        }
        Ok(())
    })
}

/// Reads all of a bucket; gives how many rows it has.
///
/// # Errors
/// As [`each_of_key`].
pub fn check_bucket(bucket: &[u8]) -> Result<u64, SegmentFault> {
    let mut rows = 0;
    each_group(bucket, |_, group| each_row(group, &mut |_, _, _| rows += 1))?;
    Ok(rows)
}

fn each_group<'a>(
    bucket: &'a [u8],
    mut visit: impl FnMut((PartitionId, &'a [u8]), Reader<'a>) -> Result<(), Malformed>,
) -> Result<(), SegmentFault> {
    let Some((crc, body)) = bucket.split_first_chunk::<4>() else {
        // Empty, as some are; else it was cut.
        return match bucket {
            [] => Ok(()),
            [..] => Err(SegmentFault::Keyed),
        };
    };
    if crc32c::crc32c(body).to_le_bytes() != *crc {
        return Err(SegmentFault::Keyed);
    }
    let mut reader = Reader::new(body);
    let mut walk = || {
        while !reader.is_at_end() {
            let partition = PartitionId(u16::from_le_bytes(reader.array()?));
            let key = take_sized(&mut reader)?;
            let group = take_sized(&mut reader)?;
            visit((partition, key), Reader::new(group))?;
        }
        Ok(())
    };
    walk().map_err(|Malformed { .. }| SegmentFault::Keyed)
}

fn each_row(
    mut group: Reader<'_>,
    visit: &mut impl FnMut(Offset, EventTime, &[u8]),
) -> Result<(), Malformed> {
    let (mut offset, mut time) = (0_u64, 0_i64);
    while !group.is_at_end() {
        offset = offset.wrapping_add(group.varint()?);
        time = time.wrapping_add(group.zigzag()?);
        visit(Offset(offset), EventTime(time), take_sized(&mut group)?);
    }
    Ok(())
}

fn take_sized<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let len = usize::try_from(reader.varint()?).map_err(|_| reader.malformed())?;
    reader.take(len)
}

#[cfg(test)]
mod tests;
