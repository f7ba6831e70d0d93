//! Drives a scan: reads what it asks for next until it has all. Bound: one read of
//! [`READ_AT_ONCE_BYTES`] and one more block at a time.

use forebay_core::query::Asks;

use super::ReadError;
use super::pool::Stopped;
use crate::store::{KeyHash, LogReads, ReadWhat};

/// Bytes of blocks that are read at once.
const READ_AT_ONCE_BYTES: usize = 256 * 1024;

/// Reads all that `asks` wants; of rows only blocks that may have one of `keys`. Gives how
/// many records of it were not there.
///
/// # Errors
/// When the disk does not give them, or nobody waits for it any more.
pub(super) fn drive(
    log: &LogReads,
    asks: &mut impl Asks,
    keys: Option<&[KeyHash]>,
    stopped: &Stopped,
) -> Result<u64, ReadError> {
    let mut missing = 0;
    while let Some((at, first, end)) = asks.next_fetch() {
        if stopped.is_set() {
            return Err(ReadError::Stopped);
        }
        let (from, to) = asks.times();
        let part = log.read(&ReadWhat {
            at,
            range: first..end,
            times: from..to,
            keys,
            bytes_max: READ_AT_ONCE_BYTES,
        });
        let part = part.map_err(|error| ReadError::Disk(error.to_string()))?;
        let holes = part.missing.iter().map(|hole| hole.end.0 - hole.start.0);
        missing += holes.sum::<u64>();
        asks.on_read(&part.blocks, part.next);
    }
    Ok(missing)
}
