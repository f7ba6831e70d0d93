//! Rows by key in segment files: gathered while a segment is written, and read by position
//! for few of many keys. What the bytes mean is `forebay_core::log::keyed`, what a packed
//! row says `forebay_core::query`.
//!
//! Holds always: what does not read is as if it were not there. Bounds: those of the
//! format; one bucket at a time.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use forebay_core::limits::KEYED_BYTES_MAX;
use forebay_core::log::block::BlockHead;
use forebay_core::log::key::StoredBlock;
use forebay_core::log::keyed::{
    KEYED_TRAILER_BYTES, KeyedBuilder, KeyedTable, check_bucket, decode_keyed_table,
    decode_keyed_trailer,
};
use forebay_core::log::pick::each_row;
use forebay_core::log::segment::{SEGMENT_FOOTER_BYTES, SegmentFault, decode_segment_footer};
use forebay_core::log::topic::DERIVED_FIRST;
use forebay_core::query::{NotPacked, Packer};
use forebay_core::units::{Offset, TopicId};

/// What is read at once of the end of rows by key: table and trailer of most.
pub(super) const TAIL_BYTES: u64 = 8 * 1024;

/// Rows of the segment that is being written.
#[derive(Debug, Default)]
pub(super) struct KeyedRows {
    builder: KeyedBuilder,
    packer: Packer,
}

impl KeyedRows {
    /// Of a derived topic; others have no rows with keys.
    pub(super) fn of(topic: TopicId) -> Option<Self> {
        (topic >= DERIVED_FIRST).then(Self::default)
    }

    /// With the rows of the next block; `None` when the rows of this topic do not stand by
    /// key: they have none, are too many, or do not say the same figures.
    pub(super) fn with(mut self, block: &StoredBlock, head: &BlockHead) -> Option<Self> {
        let partition = block.key.at.partition;
        let mut fits = true;
        let shown = each_row(block, |index, time, line| {
            if !fits {
                return;
            }
            fits = match self.packer.pack(time, line) {
                Ok((key, row)) => {
                    let offset = Offset(head.base.0 + index as u64);
                    let pushed = self.builder.push((partition, key), (offset, time), row);
                    pushed.is_ok()
                }
                // Those of joins and rolling windows: no need to look at all of them.
                Err(NotPacked::NoKey) => !self.builder.is_empty(),
                Err(NotPacked::Unread) => true,
                Err(NotPacked::OtherFigures) => false,
            };
        });
        let spanned = self.builder.span(partition, head.base, head.end());
        (fits && shown.is_ok() && spanned.is_ok()).then_some(self)
    }

    /// All of it as bytes.
    pub(super) fn finish(self) -> Vec<u8> {
        self.builder.finish(self.packer.note())
    }
}

/// Where rows by key stand in a segment file.
#[derive(Debug)]
pub(super) struct KeyedFile {
    /// First byte of all of it.
    at: u64,
    pub(super) table: KeyedTable,
}

impl KeyedFile {
    /// Reads where they stand in a segment whose index begins there.
    ///
    /// # Errors
    /// When the system cannot.
    pub(super) fn of(file: &File, index_at: u64) -> std::io::Result<Result<Self, SegmentFault>> {
        let mut tail = vec![0; index_at.min(TAIL_BYTES) as usize];
        let tail_at = index_at - tail.len() as u64;
        file.read_exact_at(&mut tail, tail_at)?;
        let trailer = match decode_keyed_trailer(&tail, index_at) {
            Ok(trailer) => trailer,
            Err(fault) => return Ok(Err(fault)),
        };
        let end = tail.len() - KEYED_TRAILER_BYTES;
        let table = match end.checked_sub(trailer.table_bytes()) {
            Some(start) => decode_keyed_table(&tail[start..end], &trailer),
            None => {
                let mut table = vec![0; trailer.table_bytes()];
                let before = trailer.table_bytes() + KEYED_TRAILER_BYTES;
                file.read_exact_at(&mut table, index_at - before as u64)?;
                decode_keyed_table(&table, &trailer)
            }
        };
        let at = index_at - trailer.bytes() as u64;
        Ok(table.map(|table| Self { at, table }))
    }

    /// First byte of all of it.
    pub(super) fn first(&self) -> u64 {
        self.at
    }

    /// Where the bucket of a key stands in the file.
    pub(super) fn bucket(&self, key: &[u8]) -> Range<u64> {
        let bucket = self.table.bucket(key);
        self.at + bucket.start..self.at + bucket.end
    }

    /// Reads every bucket.
    ///
    /// # Errors
    /// When the system cannot.
    pub(super) fn check(&self, file: &File) -> std::io::Result<Result<(), SegmentFault>> {
        let mut bytes = Vec::new();
        for bucket in self.table.buckets() {
            read_bucket(
                file,
                self.at + bucket.start..self.at + bucket.end,
                &mut bytes,
            )?;
            if let Err(fault) = check_bucket(&bytes) {
                return Ok(Err(fault));
            }
        }
        Ok(Ok(()))
    }
}

/// Where the index of a segment file begins: behind the rows by key, where there are some.
///
/// # Errors
/// When the system cannot read.
pub(super) fn index_at(file: &File) -> std::io::Result<Result<u64, SegmentFault>> {
    let bytes = file.metadata()?.len();
    let Some(footer_at) = bytes.checked_sub(SEGMENT_FOOTER_BYTES as u64) else {
        return Ok(Err(SegmentFault::Footer));
    };
    let mut footer = [0; SEGMENT_FOOTER_BYTES];
    file.read_exact_at(&mut footer, footer_at)?;
    let footer = decode_segment_footer(&footer, bytes);
    Ok(footer.map(|footer| footer.index_at))
}

/// Reads a bucket in place of what `into` held.
///
/// # Errors
/// When the system cannot.
pub(super) fn read_bucket(file: &File, at: Range<u64>, into: &mut Vec<u8>) -> std::io::Result<()> {
    // Bounded: a table says no more than KEYED_BYTES_MAX of all buckets together.
    debug_assert!(at.end - at.start <= KEYED_BYTES_MAX as u64);
    into.clear();
    into.resize((at.end - at.start) as usize, 0);
    file.read_exact_at(into, at.start)
}
