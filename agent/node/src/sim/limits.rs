//! Every bound of the simulator.

use std::time::Duration;

/// Devices of one simulator.
pub const DEVICES_MAX: u32 = 1000;
/// Samples per second of one channel.
pub const RATE_HZ_MAX: u32 = 10_000;
/// Longest wait of the simulator's thread, and so the longest time until a
/// stop, or a gateway that opens a port, is noticed.
pub const WAIT_MAX: Duration = Duration::from_millis(50);
/// A sample is taken at most this long after its slot, us; later ones are missed.
pub const LATE_US_MAX: u64 = 2 * WAIT_MAX.as_micros() as u64;
/// Devices that were told to show where they are and that nobody looked at; more are
/// not kept.
pub const SHOWS_MAX: usize = 64;
/// Bytes read from one device's line before the next device has its turn.
pub const READ_BYTES_MAX: usize = 4096;
/// Bytes that wait for a line that takes no more; the device's transmitter
/// counts as busy until they are gone.
pub const PENDING_BYTES_MAX: usize = 1024;
/// Lines that a device may send in one turn.
pub const LINES_PER_TURN_MAX: usize = 16;
/// Between two looks at load and memory of this computer.
pub const HOST_REFRESH: Duration = Duration::from_millis(250);
/// Between two looks at its temperature: some chips take milliseconds to ask.
pub const TEMPERATURE_REFRESH: Duration = Duration::from_secs(1);
/// A figure of this computer that is older than this is stale.
pub const HOST_STALE: Duration = Duration::from_secs(5);
/// Longest piece of noise on a line.
pub const NOISE_BYTES_MAX: usize = 16;
/// Sizes of a device's ring that there are, readings.
pub const RINGS: [u32; 5] = [64, 256, 1024, 2730, 8192];
/// Shortest fault that lasts.
pub const SPELL_MIN: Duration = Duration::from_millis(1);
/// Longest time between two faults that last, and between two resets.
pub const SPELL_EACH_MAX: Duration = Duration::from_secs(24 * 3600);
/// Shortest time between two resets: a boot must have the time to say Hello.
pub const RESET_EACH_MIN: Duration = Duration::from_millis(100);
/// How far a device's clock may be off, parts per million: a bad RC oscillator's.
pub const CLOCK_PPM_MAX: u32 = 50_000;
/// A device's clock swings once in this time.
pub const WANDER_PERIOD: Duration = Duration::from_secs(600);

const _: () = assert!(TEMPERATURE_REFRESH.as_millis() < HOST_STALE.as_millis());
