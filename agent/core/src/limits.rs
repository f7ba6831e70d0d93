//! Every bound of the agent, with the relations between them asserted.

/// Largest stored block. sled spills values above about 7.6 KiB into files that
/// it never syncs, so a block stays well below.
pub const BLOCK_BYTES_MAX: usize = 6 * 1024;
/// Most records in one block: bounds the MQTT message that a block becomes.
pub const BLOCK_RECORDS_MAX: usize = 512;
/// Largest MQTT payload sent or taken.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// What one read of the log brings at the most, beside its first block.
pub const FETCH_BYTES_MAX: usize = 64 * 1024;
/// Most series that one block names; their index takes at most two bytes.
pub const SERIES_PER_BLOCK_MAX: usize = 128;
