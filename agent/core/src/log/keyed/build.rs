//! Writes rows by key: they are gathered while a segment is written, and stand by key once
//! all are there.
//!
//! Bound: [`KEYED_BYTES_MAX`] of keys and packed rows are held.

use std::collections::BTreeMap;

use super::super::bytes::{put_varint, put_zigzag};
use super::{KeyedSpan, MAGIC, SPAN_BYTES, VERSION, bucket_of};
use crate::ingest::fnv1a;
use crate::limits::{
    KEYED_BUCKET_BYTES, KEYED_BUCKETS_MAX, KEYED_BYTES_MAX, KEYED_NOTE_BYTES_MAX, KEYED_SPANS_MAX,
};
use crate::units::{EventTime, Offset, PartitionId};

/// Partition, two lengths of at most four bytes, and a CRC.
pub(super) const GROUP_BYTES_MORE: usize = 2 + 4 + 4 + 4;

/// The rows of one key in one partition.
#[derive(Debug)]
struct Group {
    partition: PartitionId,
    key: Box<[u8]>,
    offset: Offset,
    time: EventTime,
    rows: Vec<u8>,
}

/// Gathers rows while a segment is written.
#[derive(Debug, Default)]
pub struct KeyedBuilder {
    /// By hash.
    groups: BTreeMap<u64, Vec<Group>>,
    spans: Vec<KeyedSpan>,
    /// Bytes of keys and rows so far.
    bytes: usize,
}

/// There is more than it may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedFull;

impl KeyedBuilder {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no row was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// All rows of these offsets were given, or have no key.
    ///
    /// # Errors
    /// When there are more spans than it may have.
    pub fn span(
        &mut self,
        partition: PartitionId,
        first: Offset,
        end: Offset,
    ) -> Result<(), KeyedFull> {
        if let Some(last) = self.spans.last_mut()
            && last.partition == partition
            && last.end == first
        {
            last.end = end;
            return Ok(());
        }
        if self.spans.len() == KEYED_SPANS_MAX {
            return Err(KeyedFull);
        }
        self.spans.push(KeyedSpan {
            partition,
            first,
            end,
        });
        Ok(())
    }

    /// Takes the next row, in key order of their blocks.
    ///
    /// # Errors
    /// When it does not fit.
    pub fn push(
        &mut self,
        (partition, key): (PartitionId, &[u8]),
        (offset, time): (Offset, EventTime),
        row: &[u8],
    ) -> Result<(), KeyedFull> {
        let of_hash = self.groups.entry(fnv1a(key)).or_default();
        let is_it = |group: &Group| group.partition == partition && *group.key == *key;
        let place = of_hash.iter().position(is_it);
        if place.is_none() {
            // With what stands before a key and its rows, and a bucket's CRC.
            self.bytes += key.len() + GROUP_BYTES_MORE;
            of_hash.push(Group {
                partition,
                key: key.into(),
                offset: Offset(0),
                time: EventTime(0),
                rows: Vec::new(),
            });
        }
        let place = place.unwrap_or(of_hash.len() - 1);
        let group = &mut of_hash[place];
        let before = group.rows.len();
        put_varint(&mut group.rows, offset.0.wrapping_sub(group.offset.0));
        put_zigzag(&mut group.rows, time.0.wrapping_sub(group.time.0));
        put_varint(&mut group.rows, row.len() as u64);
        group.rows.extend_from_slice(row);
        (group.offset, group.time) = (offset, time);
        self.bytes += group.rows.len() - before;
        if self.bytes > KEYED_BYTES_MAX {
            return Err(KeyedFull);
        }
        Ok(())
    }

    /// All of it as bytes, to stand behind the blocks; none without a row.
    ///
    /// # Panics
    /// When the note is longer than [`KEYED_NOTE_BYTES_MAX`]: callers bound it.
    #[must_use]
    pub fn finish(mut self, note: &[u8]) -> Vec<u8> {
        assert!(note.len() <= KEYED_NOTE_BYTES_MAX, "a note is bounded");
        if self.groups.is_empty() {
            return Vec::new();
        }
        let buckets = self.bytes.div_ceil(KEYED_BUCKET_BYTES);
        let buckets = buckets.clamp(1, KEYED_BUCKETS_MAX);
        let mut out = Vec::with_capacity(self.bytes + buckets * 8 + note.len() + SPAN_BYTES);
        let ends = put_buckets(std::mem::take(&mut self.groups), buckets, &mut out);
        let table = out.len();
        for end in &ends {
            out.extend_from_slice(&end.to_le_bytes());
        }
        for span in &self.spans {
            out.extend_from_slice(&span.partition.0.to_le_bytes());
            out.extend_from_slice(&span.first.0.to_le_bytes());
            out.extend_from_slice(&span.end.0.to_le_bytes());
        }
        out.extend_from_slice(note);
        let table_crc = crc32c::crc32c(&out[table..]);
        let trailer = out.len();
        out.extend_from_slice(&(buckets as u32).to_le_bytes());
        out.extend_from_slice(&(self.spans.len() as u16).to_le_bytes());
        out.extend_from_slice(&(note.len() as u16).to_le_bytes());
        out.extend_from_slice(&(table as u32).to_le_bytes());
        out.extend_from_slice(&table_crc.to_le_bytes());
        out.extend_from_slice(&[VERSION, 0, 0, 0]);
        let crc = crc32c::crc32c(&out[trailer..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&MAGIC);
        out
    }
}

/// Writes the groups; gives where each bucket ends.
fn put_buckets(groups: BTreeMap<u64, Vec<Group>>, buckets: usize, out: &mut Vec<u8>) -> Vec<u32> {
    let mut ends = Vec::with_capacity(buckets);
    let mut groups = groups.into_iter().peekable();
    for bucket in 0..buckets {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        while let Some((_, of_hash)) =
            groups.next_if(|(hash, _)| bucket_of(*hash, buckets) == bucket)
        {
            for group in of_hash {
                out.extend_from_slice(&group.partition.0.to_le_bytes());
                put_varint(out, group.key.len() as u64);
                out.extend_from_slice(&group.key);
                put_varint(out, group.rows.len() as u64);
                out.extend_from_slice(&group.rows);
            }
        }
        if out.len() == start + 4 {
            out.truncate(start);
        } else {
            let crc = crc32c::crc32c(&out[start + 4..]);
            out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        }
        ends.push(out.len() as u32);
    }
    ends
}
