//! Bounds of the PostgreSQL sink.

use std::time::Duration;

/// Oldest server that is taken: the first whose partitions are attached while others
/// read and write.
pub(super) const SERVER_VERSION_MIN: u32 = 120_000;
/// How long a connection may take to come up.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A peer that does not answer on the wire for so long is gone.
pub(super) const PEER_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
pub(super) const KEEPALIVE_RETRIES: u32 = 3;
/// Longest statement; also the longest that a server keeps the locks of a receiver
/// that has stopped within a transaction.
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for another worker of the same gateway.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for the lock that a new partition needs; after it rows go to the
/// default partition, and the partition is tried again later.
pub(super) const ATTACH_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause before a partition is tried again.
pub(super) const ATTACH_PAUSE: Duration = Duration::from_secs(60);
/// Partitions are made for this many periods before now; older times go to the
/// default partition.
pub(super) const PERIODS_BACK_MAX: i64 = 400;
/// And for as many after now: the next one, so that it is there when it begins.
pub(super) const PERIODS_AHEAD_MAX: i64 = 2;
/// Most partitions that one batch makes; the next batches make the others, and until then
/// their rows are in the default partition.
pub(super) const PARTITIONS_PER_BATCH_MAX: usize = 16;
/// Sources and series whose numbers are kept in memory; at one more all are asked for
/// again.
pub(super) const KNOWN_MAX: usize = 65_536;
/// Bytes that are handed to the connection at once.
pub(super) const COPY_CHUNK_BYTES: usize = 64 * 1024;
/// Longest step of reading all: a whole partition may have to be sorted first.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(3600);
/// Rows that are held while reading.
pub(super) const FETCH_ROWS: i32 = 5_000;
/// How much of what the server says is repeated.
pub(super) const SAID_CHARS_MAX: usize = 300;
