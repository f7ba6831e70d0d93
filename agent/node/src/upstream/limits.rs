//! Every bound of the receiving process.

use std::time::Duration;

use crate::mqtt::limits::RECEIVE_MAX;

/// Messages that the broker may send unacked on each connection: with the size of a
/// message this bounds the memory of the process. More where a batch may wait.
pub(super) const UNACKED_MAX: u16 = 256;
pub(super) const UNACKED_LINGER_MAX: u16 = RECEIVE_MAX;
/// Events that may wait for the worker.
pub(super) const EVENTS_MAX: usize = 256;
/// Events of one connection that may wait to be read.
pub(super) const CONNECTION_EVENTS_MAX: usize = 32;
/// Messages from which on a batch that waits to become larger is written when no more
/// come: so few a broker may send before it wants an ack.
pub(super) const STALLED_MESSAGES: usize = 16;
/// When no more come: this long.
pub(super) const STALLED_AFTER: Duration = Duration::from_millis(25);
/// Questions of the local socket that may wait.
pub(super) const QUESTIONS_MAX: usize = 32;
/// Messages of one transaction are gathered up to this size and one message more.
pub(super) const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Times that one batch is judged anew before the sink is opened again.
pub(super) const CONFLICTS_MAX: u32 = 256;
/// Logs with more than one history that a status names.
pub(super) const FORKED_SHOWN_MAX: usize = 16;
/// A gateway is told its marks at most once in this time, and always the last ones.
pub(super) const ACK_INTERVAL: Duration = Duration::from_millis(100);
/// What is wrong with single messages is said at most once in this time.
pub(super) const SAY_INTERVAL: Duration = Duration::from_secs(10);
/// Pause before another try when the broker's client takes no more.
pub(super) const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// First and longest pause before the sink is opened again after a failure.
pub(super) const REOPEN_PAUSE: Duration = Duration::from_secs(1);
pub(super) const REOPEN_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long the broker keeps messages for an upstream that is away: a week.
pub(super) const SESSION_EXPIRY_S: u32 = 7 * 24 * 3600;
