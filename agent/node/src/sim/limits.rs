//! Every bound of the simulator.

use std::time::Duration;

/// Devices of one simulator.
pub const DEVICES_MAX: u32 = 1000;
/// Samples per second of one channel.
pub const RATE_HZ_MAX: u32 = 10_000;
/// Longest wait of the simulator's thread, and so the longest time until a
/// stop, or a gateway that opens a port, is noticed.
pub const WAIT_MAX: Duration = Duration::from_millis(50);
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

const _: () = assert!(TEMPERATURE_REFRESH.as_millis() < HOST_STALE.as_millis());
