//! Every bound of the sources.

use std::time::Duration;

use forebay_core::limits::SOURCE_POSITION_BYTES_MAX;

/// Longest line of a file, without its end.
pub const LINE_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a file that are read at once.
pub const CHUNK_BYTES_MAX: usize = 512 * 1024;
/// How often a file is looked at for more.
pub const FILE_LOOK: Duration = Duration::from_millis(200);
/// How long a file that was moved away must have been silent.
pub const MOVED_AWAY_WAIT: Duration = Duration::from_secs(2);
/// Bytes at a file's beginning by which it is known again.
pub const HEAD_BYTES_MAX: usize = 1024;
/// Entries of a folder among which a file that was moved away is looked for.
pub const SIBLINGS_MAX: usize = 4096;
/// Messages of a table's topic that may be unacked.
pub const MESSAGES_MAX: u16 = 192;
/// How long the broker keeps messages for a table while the agent is away, seconds.
pub const SESSION_EXPIRY_S: u32 = 7 * 86_400;
/// Pause before acks are tried again that the client had no room for.
pub const ACK_PAUSE: Duration = Duration::from_millis(20);
/// Malformed events of a source that are told one by one in a minute.
pub const TOLD_MAX: u32 = 10;

const _: () = assert!(
    MESSAGES_MAX as usize * 8 + 256 <= SOURCE_POSITION_BYTES_MAX,
    "the position of a topic has room for a checksum of each"
);
const _: () = assert!(
    LINE_BYTES_MAX < CHUNK_BYTES_MAX,
    "a line that is taken fits into a chunk"
);
