//! Bounds of the source of changes of a PostgreSQL.

use std::time::Duration;

use super::lsn::LIFE_MAX;

/// Oldest server that is taken: the first that says how much of its write log a slot may
/// still keep.
pub(super) const SERVER_VERSION_MIN: u32 = 130_000;
/// Most columns of a row: what PostgreSQL can have.
pub(super) const COLUMNS_MAX: usize = 1_664;
/// Largest message of the server: a change with its old and its new row.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes that are asked of the socket at once.
pub(super) const READ_BYTES: usize = 256 << 10;
/// Bytes of rows after which a batch is handed on though it could have more events.
pub(super) const BATCH_BYTES: usize = 1 << 20;
/// How long a connection may take to come up, each step of it.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a read waits before what else is to be done is looked at.
pub(super) const READ_WAIT: Duration = Duration::from_millis(100);
/// Longest write: a server that takes nothing for so long is gone.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// How often the server is told what is durable here.
pub(super) const CONFIRM_EVERY: Duration = Duration::from_millis(500);
/// After so long without a byte the server is asked to answer.
pub(super) const ASK_AFTER: Duration = Duration::from_secs(10);
/// After so long without a byte it is gone.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Longest query of the catalog.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the catalog is asked whether the tables are as they were.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Ceiling of the first wait before connecting again, and the largest.
pub(super) const WAIT_FIRST: Duration = Duration::from_millis(200);
pub(super) const WAIT_MAX: Duration = Duration::from_secs(15);
/// Wait for another session that still uses the slot: often ours of a moment ago.
pub(super) const WAIT_FOR_SLOT: Duration = Duration::from_millis(250);
/// How much of what the server says is repeated.
pub(super) const SAID_CHARS_MAX: usize = 300;
/// Tables of one database.
pub const TABLES_MAX: usize = 64;
/// Most digits of a decimal that stands as a number: every double tells them apart.
pub(super) const EXACT_DIGITS_MAX: usize = 15;
/// Changes of one transaction: two places each, in 32 bits.
pub(super) const TRANSACTION_CHANGES_MAX: u32 = u32::MAX / 2;

const _: () = assert!(ASK_AFTER.as_secs() < SILENCE_MAX.as_secs());
const _: () = assert!(READ_BYTES < MESSAGE_BYTES_MAX);
const _: () = assert!(LIFE_MAX == 255);
