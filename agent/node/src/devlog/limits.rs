//! Every bound of device logs.

use std::time::Duration;

/// Lines kept per device.
pub const LINES_PER_DEVICE_MAX: usize = 256;
/// Bytes of all lines that are kept, about; above it the oldest of all go.
pub const LINES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest text of a line, bytes; what is longer ends with "...".
pub const LINE_TEXT_BYTES_MAX: usize = 2048;
/// Frames and questions that may wait for the log's thread; a frame beyond is dropped and
/// counted.
pub const WAITING_MAX: usize = 1024;
/// Largest ELF file that is read.
pub const ELF_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Largest section of one that is read.
pub const SECTION_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// Sections that one may have.
pub const SECTIONS_MAX: u16 = 4096;
/// Longest name of a symbol with a format text in it.
pub const SYMBOL_BYTES_MAX: usize = 8 * 1024;
/// Bytes of all formats of one file.
pub const FORMATS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Files of one folder that are looked at.
pub const FOLDER_FILES_MAX: usize = 256;
/// Firmware whose formats are kept in memory; the one that was used longest ago goes.
pub const FIRMWARE_KEPT_MAX: usize = 16;
/// Build ids that are remembered as in no file.
pub const MISSING_KEPT_MAX: usize = 64;
/// A build id that was in no file is looked for again after this.
pub const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Arguments of one format.
pub const ARGS_MAX: usize = 64;
/// Values in one frame, those inside of others included.
pub const VALUES_MAX: usize = 1024;
/// How deep values may stand inside of others.
pub const DEPTH_MAX: usize = 16;
/// Digits that a figure is filled up to with zeros at the most.
pub const ZEROS_MAX: usize = 128;
