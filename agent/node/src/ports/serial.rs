//! Opens and closes serial lines: raw, exclusive, with low latency. Blocks, so
//! it runs beside the tasks. Never calls the stream's flush: it waits in the
//! system until the peer has taken everything.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio_serial::{ClearBuffer, ErrorKind, SerialPort, SerialStream};

use super::limits::{DRAIN_STEP, RATE_OFF_PERCENT_MAX};
use super::status::Facts;
use super::usb::sysfs;
use super::{Baud, OpenError, holder, latency, sys};

const PTYS: &str = "/dev/pts";

/// Name of USB CDC devices, before their number.
const CDC: &str = "ttyACM";

/// Names of the UARTs' devices, before their number. Others send bytes as they
/// come (a pty, USB CDC), or are not known to be paced by a rate.
const UARTS: [&str; 12] = [
    "ttyUSB", "ttyS", "ttyAMA", "ttyO", "ttymxc", "ttySC", "ttySAC", "ttyTHS", "ttyHS", "ttyMSM",
    "ttyPS", "ttySTM",
];

/// What to open.
pub(super) struct Site {
    pub(super) path: PathBuf,
    /// The system's name of the tty, where it is known; else the links lead to it.
    pub(super) tty: Option<String>,
    pub(super) baud: Baud,
    /// Where the system says what is behind a tty.
    pub(super) sys: PathBuf,
    /// Who had it a moment ago. Looking for that takes milliseconds.
    pub(super) holder: Option<String>,
}

/// An open line.
pub(super) struct Opened {
    pub(super) stream: SerialStream,
    pub(super) facts: Facts,
    /// The rate at which bytes pass on the wire, where there is one.
    pub(super) wire_baud: Option<Baud>,
    /// The board is on USB itself: at every rate the same bytes come.
    pub(super) any_rate: bool,
    /// Something that the operator may want to change.
    pub(super) advice: Option<String>,
}

/// Whether a tty of this name is a UART.
fn is_uart(tty: &str) -> bool {
    let numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    let mut uarts = UARTS.iter();
    uarts.any(|uart| tty.strip_prefix(uart).is_some_and(numbered))
}

/// Opens a line. Call it where blocking is allowed, inside a tokio runtime.
pub(super) fn open(site: &Site) -> Result<Opened, OpenError> {
    let (path, baud) = (site.path.as_path(), site.baud);
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let stream = open_exclusive(site, &real)?;
    // A driver that cannot do a rate takes the nearest that it has, without a word.
    if let Ok(got) = stream.baud_rate()
        && is_off(baud, got)
    {
        return Err(OpenError::Rate {
            place: path.display().to_string(),
            baud,
            got: Some(got),
        });
    }
    // Many drivers have no such setting, and need none.
    let _ = sys::set_low_latency(&stream);
    let tty = site.tty.clone().or_else(|| tty_name(&real));
    let latency_ms = tty
        .as_deref()
        .and_then(|tty| latency::lowered(&site.sys, tty));
    Ok(Opened {
        stream,
        advice: tty
            .as_deref()
            .and_then(|tty| latency::advice(tty, latency_ms)),
        any_rate: tty.as_deref().is_some_and(|tty| tty.starts_with(CDC)),
        wire_baud: tty.as_deref().is_some_and(is_uart).then_some(baud),
        facts: Facts {
            usb: tty
                .as_deref()
                .and_then(|tty| sysfs::identify(&site.sys, tty)),
            tty: Some(real.display().to_string()),
            baud: Some(baud),
            latency_ms,
        },
    })
}

/// Whether a line at `got` garbles what is sent at `asked`.
fn is_off(asked: Baud, got: u32) -> bool {
    let off = u64::from(asked.0.abs_diff(got));
    off * 100 > u64::from(asked.0) * RATE_OFF_PERCENT_MAX
}

/// The system's name of a tty; none for a pty.
fn tty_name(real: &Path) -> Option<String> {
    let name = real.file_name()?.to_str()?;
    (real.parent()? != Path::new(PTYS)).then(|| name.to_owned())
}

fn open_exclusive(site: &Site, real: &Path) -> Result<SerialStream, OpenError> {
    let (path, baud) = (site.path.as_path(), site.baud);
    let place = path.display().to_string();
    let is_pty = real.starts_with(PTYS);
    // The exclusive flag of a pty outlives us if we are killed, for as long as
    // its master is open, and then locks us out too: the file lock does there.
    let builder = tokio_serial::new(place.as_str(), baud.0).exclusive(!is_pty);
    let stream = SerialStream::open(&builder).map_err(|error| open_error(site, &error))?;
    match sys::lock_exclusive(&stream) {
        Ok(true) => {}
        Ok(false) => {
            drop(stream);
            return Err(busy(site));
        }
        Err(error) => {
            return Err(OpenError::Io {
                place,
                why: error.to_string(),
            });
        }
    }
    if !is_pty && let Some(holder) = holder::find_other(path) {
        // It opened the port before us and without a lock: each of us would
        // get some of the bytes.
        return Err(OpenError::Busy {
            place,
            holder: Some(holder),
        });
    }
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

fn busy(site: &Site) -> OpenError {
    OpenError::Busy {
        place: site.path.display().to_string(),
        holder: site.holder.clone().or_else(|| holder::find(&site.path)),
    }
}

fn open_error(site: &Site, error: &tokio_serial::Error) -> OpenError {
    let place = site.path.display().to_string();
    match error.kind() {
        // The crate's name for EBUSY and for a lock that somebody holds.
        ErrorKind::NoDevice => busy(site),
        ErrorKind::InvalidInput => OpenError::Rate {
            place,
            baud: site.baud,
            got: None,
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
        for (name, tty, want) in [
            ("usb uart", "ttyUSB0", true),
            ("pc uart", "ttyS12", true),
            ("raspberry pi", "ttyAMA0", true),
            ("imx", "ttymxc3", true),
            ("usb cdc", "ttyACM0", false),
            ("usb gadget", "ttyGS0", false),
            ("no number", "ttyS", false),
            ("console", "tty1", false),
            ("not a number", "ttyUSBx", false),
        ] {
            assert_eq!(is_uart(tty), want, "{name}");
        }
    }

    #[test]
    fn rates_of_a_driver_around_what_a_uart_stands() {
        for (name, got, off) in [
            ("as asked", 100_000, false),
            ("limit-1", 102_999, false),
            ("limit", 103_000, false),
            ("limit+1", 103_001, true),
            ("slower limit", 97_000, false),
            ("slower limit+1", 96_999, true),
            ("none", 0, true),
        ] {
            assert_eq!(is_off(Baud(100_000), got), off, "{name}");
        }
    }

    #[test]
    fn a_pty_has_no_name_in_sysfs() {
        for (path, want) in [
            ("/dev/ttyUSB0", Some("ttyUSB0")),
            ("/dev/pts/3", None),
            ("/", None),
        ] {
            assert_eq!(tty_name(Path::new(path)).as_deref(), want, "{path}");
        }
    }
}
