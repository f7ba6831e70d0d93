//! Every bound of the device ports, with the relations between them asserted.

use std::time::Duration;

/// Most bytes that one read hands on; the event channel's length times this
/// bounds what waits between the ports and the link.
pub const READ_BYTES_MAX: usize = 4096;
/// Frames that wait for a port's writer. Full: the new one is dropped and
/// counted, because the link sends again what was not answered.
pub const WRITE_QUEUE_FRAMES_MAX: usize = 64;
/// A peer that takes no byte for this long is closed and opened anew.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// What is still queued at a clean stop gets this long to leave.
pub const STOP_DRAIN: Duration = Duration::from_millis(200);
/// How often a closing line is asked whether it has sent everything.
pub const DRAIN_STEP: Duration = Duration::from_millis(5);
/// First pause after a port failed.
pub const REOPEN_PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause of a serial port: a replugged device goes on within a second.
pub const SERIAL_PAUSE_MAX: Duration = Duration::from_millis(500);
/// Longest pause of a TCP port.
pub const TCP_PAUSE_MAX: Duration = Duration::from_secs(1);
/// A session that lived at least this long starts the pauses anew; a port that
/// opens and dies at once keeps slowing down.
pub const SESSION_SETTLED: Duration = Duration::from_secs(1);
/// A TCP peer that does not answer for this long counts as absent.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A TCP peer that was cut off without a word is given up after this long.
pub const TCP_PEER_TIMEOUT: Duration = Duration::from_secs(10);
/// Probes sent in that time to a peer that is silent.
pub const TCP_PROBES: u32 = 4;
/// Lines that one port may say in a burst, and the time that earns it another.
pub const NOTICE_BURST: u32 = 6;
pub const NOTICE_EARN: Duration = Duration::from_secs(10);
/// Rates that one serial port may be tried at.
pub const BAUDS_MAX: usize = 8;
/// A rate that is off by more garbles: half a bit in ten, shared by both ends.
pub const RATE_OFF_PERCENT_MAX: u64 = 3;
/// A serial line on which bytes come in for this long, and no frame, runs at
/// another rate than its device; a device says Hello each second.
pub const GARBLED_AFTER: Duration = Duration::from_millis(1900);
/// Fewer bytes are noise on a line without a device. Few all the same: a Hello that
/// is heard at a tenth of its rate is five bytes.
pub const GARBLED_BYTES_MIN: usize = 4;
/// Events of one port that may wait for the link. A port that floods waits for the
/// link with the rest in the system's buffers, and leaves the channel to others.
pub const PORT_EVENTS_MAX: usize = 8;
/// Ports of one gateway.
pub const PORTS_MAX: usize = 1024;
/// Boards that one `[[device_port]]` with `all = true` opens.
pub const USB_ALL_PORTS_MAX: usize = 64;
/// How often boards are looked for while a port waits for one.
pub const SCAN_PERIOD: Duration = Duration::from_millis(250);
/// Ttys of the system that are looked at; a PC has a hundred.
pub const TTYS_MAX: usize = 1024;
/// Folders of sysfs from a tty up to its USB device: four or five.
pub const LEVELS_MAX: usize = 8;
/// Bytes that are read of a file in sysfs.
pub const ATTRIBUTE_BYTES_MAX: u64 = 256;
/// A USB string has at most 126 characters of two bytes.
pub const USB_SERIAL_BYTES_MAX: usize = 252;
/// Boards that a message names.
pub const SEEN_SHOWN_MAX: usize = 4;
/// Tries that a port may be forbidden before it says so: udev gives a device file to
/// its group some time after the system has made it.
pub const DENIED_QUIET_TRIES: u32 = 3;
/// Above this a USB adapter that holds bytes back spoils the clock of its device.
pub const LATENCY_GOOD_MS: u32 = 2;
/// Tries of a busy port, two a second, before its holder is looked for again.
pub const HOLDER_KNOWN_TRIES: u32 = 20;
/// Processes looked at for the one that holds a busy port.
pub const HOLDER_PROCESSES_MAX: usize = 4096;

const _: () = assert!(TCP_PEER_TIMEOUT.as_secs() > TCP_PROBES as u64);
// A device says Hello each second, so the first byte may take that long.
const _: () = assert!(1000 + GARBLED_AFTER.as_millis() < 3000);
const _: () = assert!(SCAN_PERIOD.as_millis() + REOPEN_PAUSE_MIN.as_millis() < 500);
const _: () = assert!(USB_ALL_PORTS_MAX <= PORTS_MAX);
const _: () = assert!(USB_SERIAL_BYTES_MAX as u64 <= ATTRIBUTE_BYTES_MAX);
const _: () = assert!(SERIAL_PAUSE_MAX.as_millis() < 1000);
const _: () = assert!(REOPEN_PAUSE_MIN.as_millis() <= SERIAL_PAUSE_MAX.as_millis());
const _: () = assert!(SERIAL_PAUSE_MAX.as_millis() <= TCP_PAUSE_MAX.as_millis());
