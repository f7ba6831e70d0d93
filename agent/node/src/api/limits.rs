//! Bounds of what is served over HTTP; those that an operator may change stand in
//! `[api]` of the config.

use std::time::Duration;

/// Longest path with its query, bytes.
pub const URL_BYTES_MAX: usize = 8 * 1024;
/// Names and values of one request's headers together, bytes.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Headers of one request.
pub const HEADERS_MAX: usize = 64;
/// What a connection keeps of a request that is not read yet, bytes: longer heads are not
/// read to their end.
pub(super) const READ_BUFFER_BYTES: usize = 128 * 1024;
/// Longest body of a request, bytes: the forms of Prometheus have one.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// How long a client may take to agree on TLS, and from its connecting or its last
/// answer to the end of its next request's headers.
pub const HEADER_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a client may take none of what is written to it.
pub const STALL_MAX: Duration = Duration::from_secs(10);
/// Client addresses whose requests are counted apart.
pub const CLIENTS_MAX: usize = 1024;
/// Seconds' worth of requests that a client may make at once.
pub const BURST_S: u32 = 2;
/// Shortest token: 16 characters of hexadecimal digits are 64 bits.
pub const TOKEN_BYTES_MIN: usize = 16;
pub const TOKEN_BYTES_MAX: usize = 4096;
/// Largest file of a certificate, a key or authorities.
pub const TLS_FILE_BYTES_MAX: u64 = 1 << 20;
/// How often files of secrets are looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long such a file may not do before that is told: what is renewed has parts.
pub const TELL_AFTER: Duration = Duration::from_secs(5);
/// One that does not do is read again after this, also when it looks the same.
pub const READ_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Pause after the system gave no connection, for want of descriptors.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const _: () = assert!(URL_BYTES_MAX + HEADER_BYTES_MAX < READ_BUFFER_BYTES);
/// Rows that one answer may be asked for.
pub const LIMIT_MAX: usize = 500_000;
/// How often a name of a device, or of a channel, may be given.
pub const NAMES_MAX: usize = 64;
/// Channels that one answer is of.
pub const KEYS_MAX: usize = forebay_core::limits::READ_KEYS_MAX;
/// Streams that one request follows.
pub const STREAMS_PER_REQUEST_MAX: usize = 4;
/// Columns and lines of all answers that clients have not taken yet, KiB. One more answer
/// that would not fit is refused.
pub const ANSWERS_KIB_MAX: usize = 64 * 1024;
/// How long one question for changes waits, and so how often a stream says that it lives.
pub const HEARTBEAT: Duration = Duration::from_secs(10);
/// When a client of a stream that broke off should come again, ms.
pub(super) const RETRY_MS: u64 = 2000;

const _: () = assert!(HEARTBEAT.as_micros() <= forebay_core::limits::FOLLOW_WAIT_MAX_US as u128);
const _: () = assert!(LIMIT_MAX <= forebay_core::limits::READ_ROWS_MAX);
/// How old the names may be by which devices and channels are found.
pub const CATALOG_AGE_MAX: Duration = Duration::from_secs(1);
