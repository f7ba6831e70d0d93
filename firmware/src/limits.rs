//! Every bound of the device half, with the relations between them asserted.

use forebay_wire::limits::{DATA_RECORDS_MAX, WINDOW_FRAMES_MAX};

/// A Hello is repeated this often until the gateway answers, us.
pub const HELLO_PERIOD_US: u64 = 1_000_000;
/// After this long without sending, a lone delimiter goes before the next frame, us.
pub const IDLE_DELIMITER_US: u64 = 50_000;
/// A Data frame is sent early once this many readings wait.
pub const FRAME_TARGET: u64 = 16;
/// Shortest time until unacked frames are sent again, us.
pub const RESEND_MIN_US: u64 = 100_000;
/// Longest time until unacked frames are sent again, us.
pub const RESEND_MAX_US: u64 = 2_000_000;
/// Resend time before the first round trip was measured: at 9,600 baud a full
/// window alone takes 2 s, and a shorter time would only fill the line, us.
pub const RESEND_UNMEASURED_US: u64 = 1_000_000;
/// After going back, repeated Acks count as losses again this long after all was
/// acked, or one round trip if that is longer, us.
pub const REPEATS_MIN_US: u64 = 20_000;
/// Without any Ack for this long, the session starts again with a Hello, us.
pub const SILENCE_MAX_US: u64 = 3_000_000;
/// Healths behind which a channel that has changed is said once more.
pub const ANNOUNCE_REPEATS: u8 = 3;
/// Shortest time between two Hellos when the gateway asks for one, us.
pub const HELLO_ASKED_US: u64 = 100_000;
/// So long after a frame of its own came back, a device takes lone delimiters for
/// its own too; longer than the time between two Hellos, us.
pub const ECHO_US: u64 = 2_000_000;
/// Clock probes that wait for their answer; more are dropped and counted.
pub const PROBES_MAX: usize = 4;
/// Spans of lost ordinals kept in front of the ring before they merge: in overload
/// each frame on the way may make one, and so may each reason.
pub const FRONT_GAPS_MAX: usize = 12;
/// Boots whose account is kept: this one and earlier ones that are not settled.
pub const ACCOUNTS_MAX: usize = 8;
/// Pause between two declarations of what earlier boots lost, us.
pub const SETTLE_PERIOD_US: u64 = 250_000;
/// Longest time between two Healths of an open session, us.
pub const HEALTH_PERIOD_US: u64 = 10_000_000;
/// Time between two Healths while something is being lost, us: with one of them
/// damaged on the line, the gateway still knows of a loss within a period.
pub const HEALTH_LOSS_US: u64 = 4_000_000;
/// Results of commands that are kept, for commands that come again.
pub const CMD_RESULTS_KEPT: usize = 8;
/// Samples in a row that a threshold holds back; the next is produced anyway.
pub const SUPPRESSED_MAX: u8 = 63;
/// Bytes of the log frames that wait for an idle line.
pub const LOG_RING_BYTES: usize = 512;
/// Tries of a sensor on a bus before its reading becomes a quality code.
pub const BUS_TRIES_MAX: u8 = 3;
/// Bytes of a ring element.
pub const ELEMENT_BYTES: usize = 12;

const _: () = assert!(HELLO_PERIOD_US < ECHO_US);
const _: () = assert!(FRAME_TARGET as usize <= DATA_RECORDS_MAX);
const _: () = assert!(RESEND_MIN_US < RESEND_UNMEASURED_US && RESEND_UNMEASURED_US < RESEND_MAX_US);
const _: () = assert!(
    RESEND_MAX_US < SILENCE_MAX_US,
    "a resend must come before giving up"
);
const _: () = assert!(
    2 * HEALTH_LOSS_US < HEALTH_PERIOD_US,
    "two Healths must tell of a loss within a period"
);
const _: () = assert!(FRONT_GAPS_MAX > WINDOW_FRAMES_MAX as usize);
