//! Drives a scan: reads what it asks for next until it has all. Bound: one read of
//! [`READ_AT_ONCE_BYTES`] and one more block at a time.

use forebay_core::log::key::{StoredBlock, TopicPartition};
use forebay_core::query::{Fold, Job, RowFold, RowsScan, Scan};
use forebay_core::units::Offset;

use super::ReadError;
use super::pool::Stopped;
use crate::store::LogReads;

/// Bytes of blocks that are read at once.
const READ_AT_ONCE_BYTES: usize = 256 * 1024;

/// What asks for reads of the log.
pub(super) trait Asks {
    fn next(&mut self) -> Option<(TopicPartition, Offset, Offset)>;

    /// Takes what came, up to before `next`.
    fn on_read(&mut self, blocks: &[StoredBlock], next: Offset);
}

impl<F: Fold> Asks for Scan<F> {
    fn next(&mut self) -> Option<(TopicPartition, Offset, Offset)> {
        Self::next(self)
    }

    fn on_read(&mut self, blocks: &[StoredBlock], next: Offset) {
        self.on_read(blocks, next);
    }
}

impl<F: RowFold> Asks for RowsScan<F> {
    fn next(&mut self) -> Option<(TopicPartition, Offset, Offset)> {
        Self::next(self)
    }

    fn on_read(&mut self, blocks: &[StoredBlock], next: Offset) {
        self.on_read(blocks, next);
    }
}

impl Asks for Job {
    fn next(&mut self) -> Option<(TopicPartition, Offset, Offset)> {
        Self::next(self)
    }

    fn on_read(&mut self, blocks: &[StoredBlock], next: Offset) {
        self.on_read(blocks, next);
    }
}

/// Reads all that `asks` wants. Gives how many records of it were not there.
///
/// # Errors
/// When the disk does not give them, or nobody waits for it any more.
pub(super) fn drive(
    log: &LogReads,
    asks: &mut impl Asks,
    stopped: &Stopped,
) -> Result<u64, ReadError> {
    let mut missing = 0;
    while let Some((at, first, end)) = asks.next() {
        if stopped.is_set() {
            return Err(ReadError::Stopped);
        }
        let part = log.read(at, first..end, READ_AT_ONCE_BYTES);
        let part = part.map_err(|error| ReadError::Disk(error.to_string()))?;
        let holes = part.missing.iter().map(|hole| hole.end.0 - hole.start.0);
        missing += holes.sum::<u64>();
        asks.on_read(&part.blocks, part.next);
    }
    Ok(missing)
}
