//! What the log must reach, and how much is written to see whether it does.

use std::time::Duration;

/// Interval of the group commit.
pub(crate) const GROUP: Duration = Duration::from_millis(50);
/// A raw file is as long as a generation may be.
pub(crate) const RAW_FILE_BYTES: usize = 32 * 1024 * 1024;
/// Blocks in one batch, of the store and of the raw file.
pub(crate) const BATCH_BLOCKS: usize = 512;
/// Batches that wait for their sync: about what a group interval brings at the
/// most that the disk takes.
pub(crate) const BATCHES_UNDER_WAY: usize = 8;

pub(crate) const READINGS_PER_S_MIN: f64 = 1e6;
pub(crate) const SHARE_OF_RAW_MIN: f64 = 0.5;
pub(crate) const SEALED_BYTES_MAX: f64 = 5.0;
pub(crate) const LIVE_BYTES_MAX: f64 = 8.0;
pub(crate) const DISK_FACTOR_MAX: f64 = 2.1;
pub(crate) const WRITTEN_FACTOR_MAX: f64 = 4.0;
pub(crate) const DRAIN_RSS_MIB_MAX: f64 = 64.0;
pub(crate) const RESTART_S_MAX: f64 = 2.0;
/// Largest disk of the later turns of the ring over that of the earlier ones.
pub(crate) const RING_GROWTH_MAX: f64 = 1.05;

/// How much is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) rate_readings: u64,
    pub(crate) store_bytes: usize,
    pub(crate) store_rounds: usize,
    pub(crate) backlog_bytes: u64,
    pub(crate) ring_turns: u64,
    pub(crate) ack_seconds: u64,
    pub(crate) syncs: usize,
}

impl Sizes {
    pub(crate) const FULL: Self = Self {
        rate_readings: 30_000_000,
        store_bytes: 1 << 30,
        store_rounds: 3,
        backlog_bytes: 10_000_000_000,
        ring_turns: 100,
        ack_seconds: 20,
        syncs: 100,
    };
    /// To see that it runs: its figures say little.
    pub(crate) const QUICK: Self = Self {
        rate_readings: 3_000_000,
        store_bytes: 1 << 28,
        store_rounds: 1,
        backlog_bytes: 500_000_000,
        ring_turns: 20,
        ack_seconds: 4,
        syncs: 20,
    };
}
