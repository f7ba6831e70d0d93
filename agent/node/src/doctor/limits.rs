//! Every bound of the checks.

use std::time::Duration;

/// Bytes of each write that is timed: a page.
pub const SYNC_BYTES: usize = 4096;
/// Writes that are timed at the most.
pub const SYNCS_MAX: usize = 100;
/// How long writes are timed at the most.
pub const SYNC_TIME: Duration = Duration::from_secs(1);
/// A synced write that takes longer at the median holds acks up.
pub const SYNC_SLOW: Duration = Duration::from_millis(200);
/// No platter turns, and no plain flash card is written, in less.
pub const SYNC_PLATTER_MIN: Duration = Duration::from_micros(500);
pub const SYNC_CARD_MIN: Duration = Duration::from_micros(100);
/// Times that flash takes a write to each of its cells, of a plain consumer card.
pub const FLASH_CYCLES: u64 = 1000;
/// Bytes that such a card writes for one of ours, small and synced.
pub const FLASH_AMPLIFICATION: u64 = 4;
/// A flash that is worn out sooner is spoken of.
pub const FLASH_YEARS_MIN: f64 = 5.0;
/// What one synced batch writes at the least: page, file size and journal.
pub const BATCH_BYTES: u64 = 12 * 1024;
/// An agent that has written for less is no sample of a day.
pub const RUN_MIN: Duration = Duration::from_secs(600);
/// A clock that may be further off is spoken of, us.
pub const CLOCK_OFF_US: i64 = 1_000_000;
/// A certificate that ends sooner is spoken of.
pub const CERTIFICATE_DAYS: u64 = 30;
pub use crate::local::SOCKET_PATH_BYTES_MAX;
/// Memory that should be free for the agent.
pub const MEMORY_BYTES_MIN: u64 = 64 << 20;
/// Files that an agent has open beside its ports and destinations.
pub const FILES_BESIDE: u64 = 256;
/// Bytes of any small file of the system that are read.
pub const TEXT_BYTES_MAX: u64 = 1 << 20;
/// Processes whose names are looked at.
pub const PROCESSES_MAX: usize = 20_000;
/// How long one area may take, and how long one that goes over the network may.
pub const AREA_MAX: Duration = Duration::from_secs(5);
pub const NETWORK_MAX: Duration = Duration::from_secs(15);
/// How long all together may take.
pub const ALL_MAX: Duration = Duration::from_secs(30);
/// How long a device on TCP, or our own API, may take.
pub const CONNECT_MAX: Duration = Duration::from_secs(3);

const _: () = assert!(SYNC_TIME.as_millis() < AREA_MAX.as_millis());
const _: () = assert!(NETWORK_MAX.as_millis() < ALL_MAX.as_millis());
