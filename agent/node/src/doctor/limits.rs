//! Every bound of the checks.

use std::time::Duration;

/// Bytes of each write that is timed: a page.
pub const SYNC_BYTES: usize = 4096;
/// Writes that are timed at the most.
pub const SYNCS_MAX: usize = 100;
/// How long writes are timed at the most.
pub const SYNC_TIME: Duration = Duration::from_secs(1);
