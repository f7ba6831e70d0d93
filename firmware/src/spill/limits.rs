//! Every bound of the spill.

use forebay_wire::limits::{DATA_RECORDS_MAX, LINE_BYTES_MAX};

/// Readings that wait in RAM for a batch, and while the store is at work.
pub const TAIL: usize = 64;
/// Readings that go to the store at once.
pub const BATCH: usize = DATA_RECORDS_MAX;
/// Room in the ring without which nothing is brought back: a batch and a gap.
pub const BRING_BACK: usize = BATCH + 1;
/// Bytes of an item: a line of the link without its delimiter.
pub const ITEM_BYTES_MAX: usize = LINE_BYTES_MAX - 1;
/// Failures of the store in a row after which it is given up until the next reset.
pub const FAILURES_MAX: u8 = 3;
/// Largest unit in which a flash may be read or written, bytes.
pub const ALIGN_MAX: usize = 32;
/// Without an Ack for this long, a full ring spills although the session is open: its
/// own silence is 3 s, in which a fast device would overwrite readings, us.
pub const QUIET_US: u64 = 500_000;
/// Smallest page (erase unit) of a flash: its head and a few items, bytes.
pub const PAGE_BYTES_MIN: usize = 1_024;
/// Fewest pages: one is written while the one before still counts.
pub const PAGES_MIN: u32 = 2;

const _: () = assert!(BATCH <= TAIL);
