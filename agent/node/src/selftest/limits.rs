//! Every bound of the self-test.

use std::time::Duration;

/// Devices that it makes.
pub const DEVICES: u32 = 4;
/// Samples per second of each of their channels.
pub const RATE_HZ: f64 = 100.0;
/// Readings that each of them can keep: 40 s without a gateway.
pub const RING: u32 = 8192;
/// How long devices sample unless told otherwise.
pub const DURATION: Duration = Duration::from_secs(20);
/// The same when the agent is killed again and again.
pub const DURATION_POWER_CUT: Duration = Duration::from_secs(60);
/// Shortest and longest run that may be asked for.
pub const DURATION_MIN: Duration = Duration::from_secs(2);
pub const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often something that is waited for is looked at.
pub const LOOK: Duration = Duration::from_millis(10);
/// How long an agent may take to answer and to ack the first reading.
pub const START_MAX: Duration = Duration::from_secs(60);
/// How long an agent may take to end when it is asked to.
pub const END_MAX: Duration = Duration::from_secs(15);
/// How long what is on its way may take to arrive at the end.
pub const DRAIN_MAX: Duration = Duration::from_secs(60);
/// How long an agent that is asked for its status may take.
pub const ANSWER_MAX: Duration = Duration::from_secs(5);
/// A running agent is killed so long after it acks again: anywhere from here to there.
pub const KILL_AFTER_MIN: Duration = Duration::from_millis(50);
pub const KILL_AFTER_MAX: Duration = Duration::from_millis(1500);
/// After a kill, what is still on the line reaches the devices within this time.
pub const SETTLE: Duration = Duration::from_millis(150);
/// Kills of one run: the log is read after each.
pub const KILLS_MAX: u32 = 10_000;
/// How often what devices saw acked is noted while the plug may be pulled.
pub const NOTE_EACH: Duration = Duration::from_millis(100);
/// Longest file of notes that is read: some days of them.
pub const WITNESS_BYTES_MAX: u64 = 1 << 30;
/// Free space that a run needs, beside what [`BYTES_PER_S`] makes.
pub const FREE_BYTES_MIN: u64 = 64 << 20;
/// What a second of a run writes at the most.
pub const BYTES_PER_S: u64 = 256 << 10;
/// Problems that are named; more are counted.
pub const NAMED_MAX: usize = 8;
/// How much of what the agent said is shown when it ended by itself.
pub const SAID_BYTES_MAX: usize = 4096;

const _: () = assert!(KILL_AFTER_MIN.as_millis() < KILL_AFTER_MAX.as_millis());
const _: () = assert!(
    RING as u128 * 1000 > 2 * 2 * RATE_HZ as u128 * KILL_AFTER_MAX.as_millis(),
    "a ring outlasts the time between two kills"
);
