//! What delivery must reach, and how much is sent to see whether it does.

use std::time::Duration;

/// From the log to committed, on loopback.
pub(super) const READINGS_PER_S_MIN: f64 = 500_000.0;
pub(super) const SHAPED_BITS_PER_S: u64 = 2_000_000;
/// Part of a shaped line that payloads fill.
pub(super) const SHAPED_PART_MIN: f64 = 0.8;
/// Per reading on the wire, all of MQTT included.
pub(super) const JSON_BYTES_MAX: f64 = 60.0;
pub(super) const COMPACT_BYTES_MAX: f64 = 8.0;
pub(super) const GATEWAYS: u32 = 10_000;
pub(super) const PARTITIONS: u16 = 16;
pub(super) const MARKS_BYTES_MAX: f64 = 40e6;
pub(super) const POSTGRES_ROWS_PER_S_MIN: f64 = 100_000.0;
/// From CONNACK to the first message of the backlog, nothing new.
pub(super) const RECONNECT_S_MAX: f64 = 1.0;
pub(super) const AGENTS: u32 = 1000;
pub(super) const SPREAD_S_MIN: f64 = 30.0;

/// Waits of one step of a part end after this long.
pub(super) const PATIENCE: Duration = Duration::from_secs(900);

/// How much is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Bytes of blocks of the backlog.
    pub(super) backlog_bytes: u64,
    /// Seconds on the shaped line.
    pub(super) shaped_s: u64,
    /// Messages that peers send.
    pub(super) peer_messages: u32,
    pub(super) reconnects: u32,
    /// Rows into PostgreSQL.
    pub(super) rows: u64,
}

impl Sizes {
    pub(super) const FULL: Self = Self {
        backlog_bytes: 1_000_000_000,
        shaped_s: 60,
        peer_messages: 20_000,
        reconnects: 10,
        rows: 4_000_000,
    };
    /// To see that it runs.
    pub(super) const QUICK: Self = Self {
        backlog_bytes: 40_000_000,
        shaped_s: 10,
        peer_messages: 5_000,
        reconnects: 3,
        rows: 500_000,
    };
}
