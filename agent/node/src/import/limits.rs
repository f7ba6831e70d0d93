//! Bounds of reading recorded data.

/// Longest line of input, and longest CSV record over several lines.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Most columns of a CSV file.
pub const CSV_COLUMNS_MAX: usize = 256;
