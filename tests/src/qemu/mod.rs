//! The QEMU board as a part of a test: builds the firmware, starts
//! `qemu-system-arm`, sets the temperature that its sensor feels, resets it,
//! pulls the plug.
//!
//! Owns one child process and its QMP connection; dropping it ends both. Waits
//! for events with a limit ([`START_LIMIT`], [`QMP_LIMIT`]) and never sleeps.
//! Bound: it keeps at most [`OUTPUT_BYTES_MAX`] of QEMU's messages. Knows
//! nothing of frames: whoever reads the serial line connects to
//! [`Qemu::serial_addr`].

mod build;
mod process;

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde_json::{Value, json};

pub use build::{Machine, board_elf};
use process::{Event, Process};

/// How long QEMU may take until it answers for the first time.
pub const START_LIMIT: Duration = Duration::from_secs(30);
/// How long one QMP command may take.
pub const QMP_LIMIT: Duration = Duration::from_secs(10);
/// What is kept of QEMU's own messages.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Other programs take free ports too: how often another one is tried.
const PORT_TRIES: u32 = 8;

const QEMU: &str = "qemu-system-arm";
const SENSOR: &str = "temp";

/// Why there is no running board.
#[derive(Debug)]
pub enum QemuError {
    /// `qemu-system-arm` is not installed.
    Missing,
    /// The firmware could not be built; the text is cargo's.
    Build {
        target: &'static str,
        text: String,
    },
    /// QEMU ended by itself; the text is its own.
    Ended(String),
    /// QEMU is silent.
    Silent(&'static str),
    /// A QMP command was refused.
    Refused {
        command: String,
        answer: String,
    },
    Io(io::Error),
}

impl fmt::Display for QemuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => {
                write!(
                    f,
                    "{QEMU} is missing; install it with: apt-get install {QEMU}"
                )
            }
            Self::Build { target, text } => write!(
                f,
                "the firmware of the QEMU board did not build (is its target there? \
                 rustup target add {target}):\n{text}"
            ),
            Self::Ended(text) => write!(f, "{QEMU} ended by itself: {text}"),
            Self::Silent(what) => write!(f, "{QEMU} did not answer in time: {what}"),
            Self::Refused { command, answer } => write!(f, "QMP refused {command}: {answer}"),
            Self::Io(error) => write!(f, "{QEMU}: {error}"),
        }
    }
}

impl std::error::Error for QemuError {}

impl From<io::Error> for QemuError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which board; the image must be its.
    pub machine: Machine,
    /// Loopback port of the serial line; 0 takes a free one. To start a board
    /// again under the same port, give that of the first.
    pub serial_port: u16,
    /// Another device uid than the firmware's own.
    pub uid: Option<[u8; 8]>,
    /// What the sensor feels from the first instruction on, in millidegrees Celsius.
    pub temperature_milli_c: i32,
    /// False: no sensor answers on the bus.
    pub sensor: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            machine: Machine::default(),
            serial_port: 0,
            uid: None,
            temperature_milli_c: 21_500,
            sensor: true,
        }
    }
}

/// A running board.
#[derive(Debug)]
pub struct Qemu {
    process: Process,
    qmp: BufReader<TcpStream>,
    serial: SocketAddr,
}

impl Qemu {
    /// Starts `elf` and returns when the firmware runs and the serial line listens.
    ///
    /// # Errors
    /// Any [`QemuError`].
    pub fn start(elf: &Path, options: &Options) -> Result<Self, QemuError> {
        let mut tries = if options.serial_port == 0 {
            PORT_TRIES
        } else {
            1
        };
        loop {
            tries -= 1;
            let port = if options.serial_port == 0 {
                free_port()?
            } else {
                options.serial_port
            };
            match Self::start_on(elf, port, options) {
                Err(QemuError::Ended(text)) if tries > 0 && text.contains("in use") => {}
                outcome => return outcome,
            }
        }
    }

    fn start_on(elf: &Path, port: u16, options: &Options) -> Result<Self, QemuError> {
        // QEMU connects to us: so this port cannot be taken by another program.
        let control = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let serial = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut process = Process::start(elf, serial, control, options)?;
        let stream = match process.events.recv_timeout(START_LIMIT) {
            Ok(Event::Connected(stream)) => stream?,
            Ok(Event::Ended) => return Err(QemuError::Ended(process.last_words())),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(QemuError::Silent("no QMP connection"));
            }
        };
        stream.set_read_timeout(Some(QMP_LIMIT))?;
        let qmp = BufReader::new(stream);
        let mut qemu = Self {
            process,
            qmp,
            serial,
        };
        qemu.read_line()?; // the greeting
        qemu.command("qmp_capabilities", json!({}))?;
        if options.sensor {
            qemu.set_temperature(options.temperature_milli_c)?;
        }
        // It was started halted, so that the first reading is the one asked for.
        qemu.command("cont", json!({}))?;
        Ok(qemu)
    }

    /// Where the serial line listens. One connection at a time; without one,
    /// what the firmware sends is lost, as on a cable that is not plugged in.
    pub fn serial_addr(&self) -> SocketAddr {
        self.serial
    }

    /// What the sensor feels from now on: -128,000 to 127,999 millidegrees
    /// Celsius, kept over resets. The sensor itself rounds down to its resolution.
    ///
    /// # Errors
    /// Any [`QemuError`].
    pub fn set_temperature(&mut self, milli_c: i32) -> Result<(), QemuError> {
        let arguments = json!({ "path": SENSOR, "property": "temperature", "value": milli_c });
        self.command("qom-set", arguments).map(drop)
    }

    /// Presses the reset button: a warm start, memory stays as it is.
    ///
    /// # Errors
    /// Any [`QemuError`].
    pub fn system_reset(&mut self) -> Result<(), QemuError> {
        self.command("system_reset", json!({})).map(drop)
    }

    /// Holds the whole board, clocks too, until [`Qemu::resume`].
    ///
    /// # Errors
    /// Any [`QemuError`].
    pub fn pause(&mut self) -> Result<(), QemuError> {
        self.command("stop", json!({})).map(drop)
    }

    /// Ends [`Qemu::pause`].
    ///
    /// # Errors
    /// Any [`QemuError`].
    pub fn resume(&mut self) -> Result<(), QemuError> {
        self.command("cont", json!({})).map(drop)
    }

    /// Pulls the plug: nothing is flushed, memory is lost.
    pub fn kill(self) {
        drop(self);
    }

    /// How it ended, when it ended by itself: a firmware that panics exits with 1.
    ///
    /// # Errors
    /// [`QemuError::Io`].
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, QemuError> {
        Ok(self.process.child.try_wait()?)
    }

    /// QEMU's own messages so far, and where a firmware has panicked.
    pub fn messages(&self) -> String {
        self.process.messages.text()
    }

    fn command(&mut self, execute: &str, arguments: Value) -> Result<Value, QemuError> {
        let mut line = json!({ "execute": execute, "arguments": arguments }).to_string();
        line.push('\n');
        if let Err(error) = self.qmp.get_mut().write_all(line.as_bytes()) {
            return Err(self.broken(error));
        }
        loop {
            let answer = self.read_line()?;
            if let Some(value) = answer.get("return") {
                return Ok(value.clone());
            }
            if let Some(error) = answer.get("error") {
                let (command, answer) = (execute.into(), error.to_string());
                return Err(QemuError::Refused { command, answer });
            }
            // Anything else is an event, such as RESET.
        }
    }

    fn read_line(&mut self) -> Result<Value, QemuError> {
        let mut line = String::new();
        match self.qmp.read_line(&mut line) {
            Ok(0) => Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => serde_json::from_str(&line).map_err(|error| QemuError::Io(error.into())),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// A lost connection is explained by what QEMU says last.
    fn broken(&mut self, error: io::Error) -> QemuError {
        if matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        ) {
            return QemuError::Silent("no answer to a QMP command");
        }
        match self.process.events.recv_timeout(QMP_LIMIT) {
            Ok(Event::Ended) => QemuError::Ended(self.process.last_words()),
            Ok(Event::Connected(_))
            | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => error.into(),
        }
    }
}

/// A loopback port that nobody listens on right now.
///
/// # Errors
/// When the system has none left.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}
