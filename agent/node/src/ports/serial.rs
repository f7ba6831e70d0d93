//! Opens and closes serial lines: raw, exclusive, with low latency. Blocks, so
//! it runs beside the tasks. Never calls the stream's flush: it waits in the
//! system until the peer has taken everything.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio_serial::{ClearBuffer, ErrorKind, SerialPort, SerialStream};

use super::limits::DRAIN_STEP;
use super::{Baud, OpenError, holder, sys};

/// Names of the UARTs' devices, before their number. Others send bytes as they
/// come (a pty, USB CDC), or are not known to be paced by a rate.
const UARTS: [&str; 12] = [
    "ttyUSB", "ttyS", "ttyAMA", "ttyO", "ttymxc", "ttySC", "ttySAC", "ttyTHS", "ttyHS", "ttyMSM",
    "ttyPS", "ttySTM",
];

/// An open line.
pub(super) struct Opened {
    pub(super) stream: SerialStream,
    /// The rate at which bytes pass on the wire, where there is one.
    pub(super) wire_baud: Option<Baud>,
}

/// Whether the device of this path, followed through links, is a UART.
fn is_uart(real: &Path) -> bool {
    let name = real.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        let numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
        UARTS
            .iter()
            .any(|uart| name.strip_prefix(uart).is_some_and(numbered))
    })
}

/// Opens a line. Call it where blocking is allowed, inside a tokio runtime.
pub(super) fn open(path: &Path, baud: Baud) -> Result<Opened, OpenError> {
    let place = path.display().to_string();
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let is_pty = real.starts_with("/dev/pts");
    // The exclusive flag of a pty outlives us if we are killed, for as long as
    // its master is open, and then locks us out too: the file lock does there.
    let builder = tokio_serial::new(place.as_str(), baud.0).exclusive(!is_pty);
    let stream = SerialStream::open(&builder).map_err(|error| open_error(path, &error))?;
    match sys::lock_exclusive(&stream) {
        Ok(true) => {}
        Ok(false) => return Err(busy(path)),
        Err(error) => {
            return Err(OpenError::Io {
                place,
                why: error.to_string(),
            });
        }
    }
    if !is_pty && let Some(holder) = holder::find(path) {
        // It opened the port before us and without a lock: each of us would
        // get some of the bytes.
        return Err(OpenError::Busy {
            place,
            holder: Some(holder),
        });
    }
    // Many drivers have no such setting, and need none.
    let _ = sys::set_low_latency(&stream);
    Ok(Opened {
        stream,
        wire_baud: is_uart(&real).then_some(baud),
    })
}

/// Closes a line without waiting for a peer that takes nothing, which the
/// system would do for up to 30 s. What is still on its way gets `drain`.
pub(super) fn close(stream: SerialStream, drain: Duration) {
    let until = Instant::now() + drain;
    let left = loop {
        // An error means that the line is gone, and nothing can leave.
        let left = stream.bytes_to_write().unwrap_or(0);
        if left == 0 || Instant::now() >= until {
            break left;
        }
        std::thread::sleep(DRAIN_STEP);
    };
    // A pty says 0, and would throw away what its peer has yet to read.
    if left > 0 || drain.is_zero() {
        let _ = stream.clear(ClearBuffer::Output);
    }
    drop(stream);
}

fn busy(path: &Path) -> OpenError {
    OpenError::Busy {
        place: path.display().to_string(),
        holder: holder::find(path),
    }
}

fn open_error(path: &Path, error: &tokio_serial::Error) -> OpenError {
    let place = path.display().to_string();
    match error.kind() {
        // The crate's name for EBUSY and for a lock that somebody holds.
        ErrorKind::NoDevice => busy(path),
        ErrorKind::InvalidInput => OpenError::NotSerial {
            place,
            why: error.to_string(),
        },
        ErrorKind::Io(io::ErrorKind::NotFound) => OpenError::Missing { place },
        ErrorKind::Io(io::ErrorKind::PermissionDenied) => OpenError::Denied { place },
        // EIO and ENXIO of a plug that is just being pulled, ENOTTY of a file.
        ErrorKind::Unknown => OpenError::NotSerial {
            place,
            why: error.to_string(),
        },
        ErrorKind::Io(kind) => OpenError::Io {
            place,
            why: kind.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_uarts_have_a_rate_on_the_wire() {
        for (name, path, want) in [
            ("usb uart", "/dev/ttyUSB0", true),
            ("pc uart", "/dev/ttyS12", true),
            ("raspberry pi", "/dev/ttyAMA0", true),
            ("imx", "/dev/ttymxc3", true),
            ("usb cdc", "/dev/ttyACM0", false),
            ("usb gadget", "/dev/ttyGS0", false),
            ("pty", "/dev/pts/3", false),
            ("no number", "/dev/ttyS", false),
            ("console", "/dev/tty1", false),
            (
                "a link's name is not looked at",
                "/dev/serial/by-id/ttyUSBx",
                false,
            ),
        ] {
            assert_eq!(is_uart(Path::new(path)), want, "{name}");
        }
    }
}
