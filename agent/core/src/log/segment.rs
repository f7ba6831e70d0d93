//! A sealed segment: the blocks of one topic of one generation in key order, with
//! an index behind them. Bytes only: who writes and reads the file is elsewhere.
//! Byte table: `agent/core/docs/format.md`.
//!
//! Holds always: entries stand in the order of (partition, base) and do not
//! overlap. The index is a convenience: every block describes itself, so a segment
//! whose head or index is damaged is read by searching it ([`super::scan`]).
//! Bounds: [`SEGMENT_BLOCKS_MAX`] blocks, [`SEGMENT_BYTES_MAX`] bytes.

use std::fmt;

use super::block::BlockHead;
use super::bytes::{Malformed, Reader};
use super::key::{BlockKey, TopicPartition};
use crate::limits::{BLOCK_BYTES_MAX, PARTITIONS_MAX, SEGMENT_BLOCKS_MAX, SEGMENT_BYTES_MAX};
use crate::units::{Epoch, EventTime, GenerationNo, LogId, Offset, PartitionId, TopicId};

const MAGIC: [u8; 4] = *b"FSEG";
const FOOTER_MAGIC: [u8; 4] = *b"FIDX";
const VERSION: u8 = 1;
/// Length of the head of a segment.
pub const SEGMENT_HEAD_BYTES: usize = 4 + 1 + 3 + 4 + 16 + 4 + 2 + 8 + 4;
/// Length of the footer, the last bytes of a segment.
pub const SEGMENT_FOOTER_BYTES: usize = 8 + 4 + 2 + 4 + 4 + 4 + 4;
const ENTRY_BYTES: usize = 2 + 8 + 2 + 2 + 4;
const RANGE_BYTES: usize = 2 + 8 + 8 + 8 + 8 + 8;

/// The last bytes of a segment in which its ranges and footer stand for sure.
pub const SEGMENT_TAIL_BYTES_MAX: usize = PARTITIONS_MAX * RANGE_BYTES + SEGMENT_FOOTER_BYTES;

const _: () = assert!(
    SEGMENT_BYTES_MAX <= u32::MAX as u64,
    "a position takes four bytes"
);

/// A sealed segment: what one topic has in one generation. The unit of retention.
/// In order of age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId {
    pub generation: GenerationNo,
    pub topic: TopicId,
}

/// What a segment holds of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentRange {
    pub partition: PartitionId,
    pub first: Offset,
    /// Offset after the last record.
    pub end: Offset,
    /// Records that are there: fewer than `end - first` when some were lost.
    pub records: u64,
    /// Smallest and largest event time.
    pub time_min: EventTime,
    pub time_max: EventTime,
}

/// A sealed segment and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    pub id: SegmentId,
    /// Length on disk.
    pub bytes: u64,
    /// What the gateway's clock said when it was sealed.
    pub sealed_at: EventTime,
    /// In order of partition.
    pub ranges: Vec<SegmentRange>,
}

/// What a segment's first bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHead {
    pub log_id: LogId,
    pub id: SegmentId,
    /// What the gateway's clock said when it was sealed.
    pub sealed_at: EventTime,
    /// Opening of the log in which it was sealed: no block in it is of a later one.
    pub epoch: Epoch,
}

/// Where the index stands, from the last bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentFooter {
    /// First byte of the index: end of the blocks.
    pub index_at: u64,
    /// Bytes of the index.
    pub index_bytes: usize,
    /// Bytes of the ranges, which stand between index and footer.
    pub ranges_bytes: usize,
    index_crc: u32,
    ranges_crc: u32,
}

/// One block of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEntry {
    pub partition: PartitionId,
    pub base: Offset,
    pub count: u16,
    /// Bytes of the block.
    pub length: u16,
    /// First byte of the block in the file.
    pub position: u32,
}

impl SegmentEntry {
    /// Offset after the last record.
    #[must_use]
    pub fn end(&self) -> Offset {
        Offset(self.base.0.saturating_add(u64::from(self.count)))
    }

    /// The block's key.
    #[must_use]
    pub fn key(&self, topic: TopicId) -> BlockKey {
        BlockKey {
            at: TopicPartition {
                topic,
                partition: self.partition,
            },
            base: self.base,
            chunk: 0,
        }
    }
}

/// The index of one segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentIndex {
    pub entries: Vec<SegmentEntry>,
    /// In order of partition.
    pub ranges: Vec<SegmentRange>,
}

/// What is wrong with a segment beside its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentFault {
    /// No head, or none whose CRC holds.
    Head,
    /// Written by a newer version.
    Version { found: u8 },
    /// No footer, or none whose CRC holds.
    Footer,
    /// The index does not have its CRC, or breaks the byte table.
    Index,
    /// Its rows by key ([`super::keyed`]) are not there, do not have their CRC, or break
    /// the byte table: the blocks say the same.
    Keyed,
}

impl fmt::Display for SegmentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str("its head does not read"),
            Self::Version { found } => write!(
                f,
                "it has version {found}, this program reads up to {VERSION}: use a newer one"
            ),
            Self::Footer => f.write_str("its footer does not read"),
            Self::Index => f.write_str("its index does not read"),
            Self::Keyed => f.write_str("its rows by key do not read"),
        }
    }
}

impl std::error::Error for SegmentFault {}

/// The head as bytes.
#[must_use]
pub fn encode_segment_head(head: &SegmentHead) -> [u8; SEGMENT_HEAD_BYTES] {
    let mut out = [0; SEGMENT_HEAD_BYTES];
    out[..4].copy_from_slice(&MAGIC);
    out[4] = VERSION;
    out[12..28].copy_from_slice(&head.log_id.0);
    out[28..32].copy_from_slice(&head.id.generation.0.to_le_bytes());
    out[32..34].copy_from_slice(&head.id.topic.0.to_le_bytes());
    out[34..42].copy_from_slice(&head.sealed_at.0.to_le_bytes());
    out[42..46].copy_from_slice(&head.epoch.0.to_le_bytes());
    let crc = head_crc(&out);
    out[8..12].copy_from_slice(&crc.to_le_bytes());
    out
}

fn head_crc(bytes: &[u8; SEGMENT_HEAD_BYTES]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..8]), &bytes[12..])
}

/// Reads the head of a segment.
///
/// # Errors
/// [`SegmentFault::Head`] or [`SegmentFault::Version`].
pub fn decode_segment_head(bytes: &[u8]) -> Result<SegmentHead, SegmentFault> {
    let head = bytes
        .first_chunk::<SEGMENT_HEAD_BYTES>()
        .ok_or(SegmentFault::Head)?;
    if head[..4] != MAGIC {
        return Err(SegmentFault::Head);
    }
    let read = |reader: &mut Reader<'_>| -> Result<(u32, SegmentHead), Malformed> {
        let crc = u32::from_le_bytes(reader.array()?);
        let log_id = LogId(reader.array()?);
        let generation = GenerationNo(u32::from_le_bytes(reader.array()?));
        let topic = TopicId(u16::from_le_bytes(reader.array()?));
        let head = SegmentHead {
            log_id,
            id: SegmentId { generation, topic },
            sealed_at: EventTime(i64::from_le_bytes(reader.array()?)),
            epoch: Epoch(u32::from_le_bytes(reader.array()?)),
        };
        Ok((crc, head))
    };
    let (crc, decoded) = read(&mut Reader::new(&head[8..])).map_err(|_| SegmentFault::Head)?;
    if crc != head_crc(head) {
        return Err(SegmentFault::Head);
    }
    if head[4] != VERSION {
        return Err(SegmentFault::Version { found: head[4] });
    }
    Ok(decoded)
}

/// Reads the footer from the last bytes of a segment of `file_bytes` bytes.
///
/// # Errors
/// [`SegmentFault::Footer`].
pub fn decode_segment_footer(tail: &[u8], file_bytes: u64) -> Result<SegmentFooter, SegmentFault> {
    let footer = tail
        .last_chunk::<SEGMENT_FOOTER_BYTES>()
        .ok_or(SegmentFault::Footer)?;
    let (body, end) = footer.split_at(SEGMENT_FOOTER_BYTES - 8);
    let read = |reader: &mut Reader<'_>| -> Result<SegmentFooter, Malformed> {
        let index_at = u64::from_le_bytes(reader.array()?);
        let entries = u32::from_le_bytes(reader.array()?) as usize;
        let ranges = usize::from(u16::from_le_bytes(reader.array()?));
        Ok(SegmentFooter {
            index_at,
            index_bytes: entries.saturating_mul(ENTRY_BYTES),
            ranges_bytes: ranges * RANGE_BYTES,
            index_crc: u32::from_le_bytes(reader.array()?),
            ranges_crc: u32::from_le_bytes(reader.array()?),
        })
    };
    let footer = read(&mut Reader::new(body)).map_err(|_| SegmentFault::Footer)?;
    let fits = footer
        .index_at
        .saturating_add(footer.index_bytes as u64)
        .saturating_add(footer.ranges_bytes as u64)
        .saturating_add(SEGMENT_FOOTER_BYTES as u64)
        == file_bytes;
    let holds = end[..4] == crc32c::crc32c(body).to_le_bytes() && end[4..] == FOOTER_MAGIC;
    let bounded = footer.index_bytes <= SEGMENT_BLOCKS_MAX * ENTRY_BYTES
        && footer.ranges_bytes <= PARTITIONS_MAX * RANGE_BYTES;
    if fits && holds && bounded {
        Ok(footer)
    } else {
        Err(SegmentFault::Footer)
    }
}

/// Reads the ranges, the `footer.ranges_bytes` bytes before the footer.
///
/// # Errors
/// [`SegmentFault::Index`].
pub fn decode_segment_ranges(
    bytes: &[u8],
    footer: &SegmentFooter,
) -> Result<Vec<SegmentRange>, SegmentFault> {
    if bytes.len() != footer.ranges_bytes || crc32c::crc32c(bytes) != footer.ranges_crc {
        return Err(SegmentFault::Index);
    }
    let mut reader = Reader::new(bytes);
    let ranges = (0..bytes.len() / RANGE_BYTES).map(|_| read_range(&mut reader));
    let ranges: Vec<_> = ranges
        .collect::<Result<_, _>>()
        .map_err(|_| SegmentFault::Index)?;
    let sound = ranges.is_sorted_by(|a, b| a.partition < b.partition)
        && ranges.iter().all(|range| range.first < range.end);
    sound.then_some(ranges).ok_or(SegmentFault::Index)
}

impl SegmentIndex {
    /// Reads index and ranges, which stand one behind the other from
    /// `footer.index_at` on.
    ///
    /// # Errors
    /// [`SegmentFault::Index`].
    pub fn decode(bytes: &[u8], footer: &SegmentFooter) -> Result<Self, SegmentFault> {
        let (index, ranges) = bytes
            .split_at_checked(footer.index_bytes)
            .ok_or(SegmentFault::Index)?;
        if crc32c::crc32c(index) != footer.index_crc {
            return Err(SegmentFault::Index);
        }
        let ranges = decode_segment_ranges(ranges, footer)?;
        let mut reader = Reader::new(index);
        let entries = (0..index.len() / ENTRY_BYTES).map(|_| read_entry(&mut reader));
        let entries = entries
            .collect::<Result<_, _>>()
            .map_err(|_| SegmentFault::Index)?;
        let index = Self { entries, ranges };
        if index.is_sound(footer.index_at) {
            Ok(index)
        } else {
            Err(SegmentFault::Index)
        }
    }

    fn is_sound(&self, blocks_end: u64) -> bool {
        let placed = self.entries.iter().all(|entry| {
            let end = u64::from(entry.position) + u64::from(entry.length);
            usize::from(entry.length) <= BLOCK_BYTES_MAX && end <= blocks_end && entry.count > 0
        });
        let ordered = self.entries.is_sorted_by(|a, b| {
            (a.partition, a.base) < (b.partition, b.base)
                && (a.partition != b.partition || a.end() <= b.base)
        });
        placed && ordered
    }

    /// Adds the next block in key order.
    ///
    /// # Panics
    /// When it stands before the end of the last one: the caller has the order.
    pub fn push(&mut self, partition: PartitionId, head: &BlockHead, length: u16, position: u32) {
        let entry = SegmentEntry {
            partition,
            base: head.base,
            count: head.count,
            length,
            position,
        };
        if let Some(last) = self.entries.last() {
            let after = last.partition < partition
                || (last.partition == partition && last.end() <= entry.base);
            assert!(after, "{entry:?} after {last:?}");
        }
        self.entries.push(entry);
        let records = u64::from(head.count);
        match self.ranges.last_mut() {
            Some(range) if range.partition == partition => {
                range.end = head.end();
                range.records += records;
                range.time_min = range.time_min.min(head.time_min);
                range.time_max = range.time_max.max(head.time_max);
            }
            _ => self.ranges.push(SegmentRange {
                partition,
                first: head.base,
                end: head.end(),
                records,
                time_min: head.time_min,
                time_max: head.time_max,
            }),
        }
    }

    /// Entries of one partition from the one that holds `from`, or the first after
    /// it, on.
    #[must_use]
    pub fn from(&self, partition: PartitionId, from: Offset) -> &[SegmentEntry] {
        let first = self.entries.partition_point(|entry| {
            entry.partition < partition || (entry.partition == partition && entry.end() <= from)
        });
        let rest = &self.entries[first..];
        let end = rest.partition_point(|entry| entry.partition == partition);
        &rest[..end]
    }

    /// Index, ranges and footer, to stand behind the blocks at `index_at`.
    #[must_use]
    pub fn encode(&self, index_at: u64) -> Vec<u8> {
        let entries = self.entries.len() * ENTRY_BYTES;
        let ranges = self.ranges.len() * RANGE_BYTES;
        let mut out = Vec::with_capacity(entries + ranges + SEGMENT_FOOTER_BYTES);
        for entry in &self.entries {
            out.extend_from_slice(&entry.partition.0.to_le_bytes());
            out.extend_from_slice(&entry.base.0.to_le_bytes());
            out.extend_from_slice(&entry.count.to_le_bytes());
            out.extend_from_slice(&entry.length.to_le_bytes());
            out.extend_from_slice(&entry.position.to_le_bytes());
        }
        let index_crc = crc32c::crc32c(&out);
        let ranges_at = out.len();
        for range in &self.ranges {
            out.extend_from_slice(&range.partition.0.to_le_bytes());
            out.extend_from_slice(&range.first.0.to_le_bytes());
            out.extend_from_slice(&range.end.0.to_le_bytes());
            out.extend_from_slice(&range.records.to_le_bytes());
            out.extend_from_slice(&range.time_min.0.to_le_bytes());
            out.extend_from_slice(&range.time_max.0.to_le_bytes());
        }
        let ranges_crc = crc32c::crc32c(&out[ranges_at..]);
        let footer = out.len();
        out.extend_from_slice(&index_at.to_le_bytes());
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.ranges.len() as u16).to_le_bytes());
        out.extend_from_slice(&index_crc.to_le_bytes());
        out.extend_from_slice(&ranges_crc.to_le_bytes());
        let footer_crc = crc32c::crc32c(&out[footer..]);
        out.extend_from_slice(&footer_crc.to_le_bytes());
        out.extend_from_slice(&FOOTER_MAGIC);
        out
    }

    /// What the catalog keeps of a segment of `bytes` bytes.
    #[must_use]
    pub fn info(&self, head: &SegmentHead, bytes: u64) -> SegmentInfo {
        SegmentInfo {
            id: head.id,
            bytes,
            sealed_at: head.sealed_at,
            ranges: self.ranges.clone(),
        }
    }
}

fn read_entry(reader: &mut Reader<'_>) -> Result<SegmentEntry, Malformed> {
    Ok(SegmentEntry {
        partition: PartitionId(u16::from_le_bytes(reader.array()?)),
        base: Offset(u64::from_le_bytes(reader.array()?)),
        count: u16::from_le_bytes(reader.array()?),
        length: u16::from_le_bytes(reader.array()?),
        position: u32::from_le_bytes(reader.array()?),
    })
}

fn read_range(reader: &mut Reader<'_>) -> Result<SegmentRange, Malformed> {
    Ok(SegmentRange {
        partition: PartitionId(u16::from_le_bytes(reader.array()?)),
        first: Offset(u64::from_le_bytes(reader.array()?)),
        end: Offset(u64::from_le_bytes(reader.array()?)),
        records: u64::from_le_bytes(reader.array()?),
        time_min: EventTime(i64::from_le_bytes(reader.array()?)),
        time_max: EventTime(i64::from_le_bytes(reader.array()?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(base: u64, count: u16) -> BlockHead {
        BlockHead {
            epoch: Epoch(1),
            base: Offset(base),
            count,
            time_min: EventTime(base as i64),
            time_max: EventTime(base as i64 + 9),
            unsynced: None,
        }
    }

    fn segment_head() -> SegmentHead {
        SegmentHead {
            log_id: LogId([7; 16]),
            id: SegmentId {
                generation: GenerationNo(9),
                topic: TopicId(16),
            },
            sealed_at: EventTime(-5),
            epoch: Epoch(3),
        }
    }

    /// Two partitions; the second has a hole.
    fn index() -> SegmentIndex {
        let mut index = SegmentIndex::default();
        index.push(PartitionId(0), &head(0, 10), 100, 46);
        index.push(PartitionId(0), &head(10, 5), 100, 146);
        index.push(PartitionId(3), &head(7, 1), 60, 246);
        index.push(PartitionId(3), &head(20, 2), 60, 306);
        index
    }

    #[test]
    fn a_head_reads_back_and_no_flipped_bit_passes() {
        let bytes = encode_segment_head(&segment_head());
        assert_eq!(decode_segment_head(&bytes), Ok(segment_head()));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_segment_head(&bad).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(decode_segment_head(&bytes[..len]), Err(SegmentFault::Head));
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut bytes = encode_segment_head(&segment_head());
        bytes[4] = 2;
        let crc = head_crc(&bytes);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        let newer = Err(SegmentFault::Version { found: 2 });
        assert_eq!(decode_segment_head(&bytes), newer);
    }

    #[test]
    fn an_index_reads_back_and_no_flipped_bit_or_cut_passes() {
        let index_at = 366;
        let bytes = index().encode(index_at);
        let file_bytes = index_at + bytes.len() as u64;
        let decode = |bytes: &[u8], file_bytes| {
            let footer = decode_segment_footer(bytes, file_bytes)?;
            let end = footer.index_bytes + footer.ranges_bytes;
            let index = bytes.get(..end).ok_or(SegmentFault::Index)?;
            SegmentIndex::decode(index, &footer)
        };
        assert_eq!(decode(&bytes, file_bytes), Ok(index()));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad, file_bytes).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            let cut = index_at + len as u64;
            assert!(decode(&bytes[..len], cut).is_err(), "cut at {len}");
        }
        assert!(decode(&bytes, file_bytes + 1).is_err());
    }

    #[test]
    fn entries_are_found_from_an_offset_on() {
        let index = index();
        let bases = |partition, from| {
            let found = index.from(PartitionId(partition), Offset(from));
            found.iter().map(|entry| entry.base.0).collect::<Vec<_>>()
        };
        for (name, partition, from, want) in [
            ("first", 0, 0, vec![0, 10]),
            ("last of a block", 0, 9, vec![0, 10]),
            ("next block", 0, 10, vec![10]),
            ("end", 0, 15, vec![]),
            ("before a partition starts", 3, 0, vec![7, 20]),
            ("in a hole", 3, 8, vec![20]),
            ("another partition", 1, 0, vec![]),
            ("after all", 4, 0, vec![]),
        ] {
            assert_eq!(bases(partition, from), want, "{name}");
        }
    }

    #[test]
    fn ranges_sum_up_what_is_there() {
        let info = index().info(&segment_head(), 500);
        let ranges: Vec<_> = info
            .ranges
            .iter()
            .map(|r| (r.partition.0, r.first.0, r.end.0, r.records, r.time_max.0))
            .collect();
        assert_eq!(ranges, [(0, 0, 15, 15, 19), (3, 7, 22, 3, 29)]);
    }

    #[test]
    #[should_panic(expected = "after")]
    fn blocks_that_overlap_are_a_fault_of_the_writer() {
        index().push(PartitionId(3), &head(21, 1), 60, 366);
    }
}
