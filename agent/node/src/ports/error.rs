//! Why a port does not open, and why it closed, in the operator's words.

use std::fmt;
use std::io;

use super::Baud;

/// Why a port cannot be opened. The operator acts; the port keeps trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// There is no such path.
    Missing {
        place: String,
    },
    /// No board that the port asks for is plugged in.
    NoBoard {
        place: String,
        /// Some of the boards that are.
        seen: Vec<String>,
    },
    /// The board is plugged in, and its device file is not there.
    NoNode {
        place: String,
        node: String,
    },
    /// Another process has it.
    Busy {
        place: String,
        holder: Option<String>,
    },
    /// This user may not open it.
    Denied {
        place: String,
    },
    /// It is there and is no serial port, or refuses the settings.
    NotSerial {
        place: String,
        why: String,
    },
    /// Its driver does not run at that rate.
    Rate {
        place: String,
        baud: Baud,
        /// What it made of it, if it took it.
        got: Option<u32>,
    },
    /// The TCP peer refused, did not answer, or has no address.
    Connect {
        place: String,
        why: String,
    },
    Io {
        place: String,
        why: String,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { place } => {
                write!(
                    f,
                    "{place} is not there: is the device plugged in? (`ls /dev/serial/by-id`)"
                )
            }
            Self::NoBoard { place, seen } if seen.is_empty() => write!(
                f,
                "{place} is not there: is the board plugged in? No serial port on USB is (`lsusb`)"
            ),
            Self::NoBoard { place, seen } => write!(
                f,
                "{place} is not there: is the board plugged in? Serial ports on USB: {}",
                seen.join(", ")
            ),
            Self::NoNode { place, node } => write!(
                f,
                "{place} is plugged in, but {node} is not there: it was just pulled, or this container was not given its devices"
            ),
            Self::Busy {
                place,
                holder: Some(holder),
            } => {
                write!(
                    f,
                    "{place} is busy: {holder} has it open; stop that, the port is then taken"
                )
            }
            Self::Busy {
                place,
                holder: None,
            } => {
                write!(
                    f,
                    "{place} is busy: another process has it open (`fuser -v {place}` names it)"
                )
            }
            Self::Denied { place } => write!(
                f,
                "{place} may not be opened by this user: add it to the group of the port (`ls -lL {place}`, often dialout)"
            ),
            Self::NotSerial { place, why } => {
                write!(f, "{place} does not work as a serial port: {why}")
            }
            Self::Rate { place, baud, got } => {
                write!(f, "{place} does not run at {} baud", baud.0)?;
                if let Some(got) = got {
                    write!(f, " (its driver made {got} of it)")?;
                }
                write!(f, ": name a rate that it has in `baud`")
            }
            Self::Connect { place, why } => write!(f, "cannot connect to {place}: {why}"),
            Self::Io { place, why } => write!(f, "cannot open {place}: {why}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// Why a port that was open is not any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// Unplugged, or the peer closed.
    Gone,
    ReadFailed(String),
    WriteFailed(String),
    /// The peer took no byte for [`super::limits::WRITE_TIMEOUT`].
    WriteTimedOut,
    /// Bytes came in at this rate and no frame; the next rate is tried.
    WrongRate {
        baud: u32,
        bytes: usize,
    },
    /// [`super::PortHandle::reopen`] was called.
    Asked,
    /// The process stops.
    Stopped,
}

impl CloseReason {
    /// What an IO error while reading means: some drivers report a pulled plug
    /// as an error, not as the end.
    pub(super) fn of_read(error: &io::Error) -> Self {
        if is_gone(error) {
            Self::Gone
        } else {
            Self::ReadFailed(error.to_string())
        }
    }

    pub(super) fn of_write(error: &io::Error) -> Self {
        if is_gone(error) {
            Self::Gone
        } else {
            Self::WriteFailed(error.to_string())
        }
    }
}

/// What to say about bytes without a frame.
pub(super) fn no_frames(baud: u32, bytes: usize) -> String {
    format!(
        "{bytes} bytes and no frame at {baud} baud: the device uses another rate, or is no Forebay device"
    )
}

/// The same for a board that takes any rate.
pub(super) fn no_frames_at_all(bytes: usize) -> String {
    format!("{bytes} bytes and no frame: this is no Forebay device")
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::ENXIO | libc::ENODEV)
    ) || matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::WriteZero
    )
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => write!(f, "the device is gone (unplugged, or the peer closed)"),
            Self::ReadFailed(why) => write!(f, "reading failed: {why}"),
            Self::WriteFailed(why) => write!(f, "writing failed: {why}"),
            Self::WriteTimedOut => write!(
                f,
                "the peer took no byte for {} s",
                super::limits::WRITE_TIMEOUT.as_secs()
            ),
            Self::WrongRate { baud, bytes } => write!(f, "{}", no_frames(*baud, *bytes)),
            Self::Asked => write!(f, "opened anew because nothing that makes sense came in"),
            Self::Stopped => write!(f, "the agent stops"),
        }
    }
}
