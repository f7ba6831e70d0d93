//! Opens and closes serial lines: raw, exclusive, with low latency. Blocks, so
//! it runs beside the tasks. Never calls the stream's flush: it waits in the
//! system until the peer has taken everything.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio_serial::{ClearBuffer, ErrorKind, SerialPort, SerialStream};

use super::limits::DRAIN_STEP;
use super::{Baud, OpenError, holder, sys};

/// Opens a line. Call it where blocking is allowed, inside a tokio runtime.
pub(super) fn open(path: &Path, baud: Baud) -> Result<SerialStream, OpenError> {
    let place = path.display().to_string();
    let is_pty = std::fs::canonicalize(path).is_ok_and(|real| real.starts_with("/dev/pts"));
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
    Ok(stream)
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
