//! The QEMU board as a part of a test: builds the firmware, starts
//! `qemu-system-arm`, sets the temperature that its sensor feels, resets it,
//! pulls the plug.
//!
//! Owns one child process and its QMP connection; dropping it ends both. Waits
//! for events with a limit ([`START_LIMIT`], [`QMP_LIMIT`]) and never sleeps.
//! Bound: it keeps at most [`OUTPUT_BYTES_MAX`] of what the firmware logs. Knows
//! nothing of frames: whoever reads the serial line connects to
//! [`Qemu::serial_addr`].

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// Names a firmware image that is built already; without it, the image is built.
pub const ELF_VARIABLE: &str = "FOREBAY_QEMU_ELF";
/// The target that the board is built for.
pub const TARGET: &str = "thumbv7em-none-eabi";
/// How long QEMU may take until it answers for the first time.
pub const START_LIMIT: Duration = Duration::from_secs(30);
/// How long one QMP command may take.
pub const QMP_LIMIT: Duration = Duration::from_secs(10);
/// What is kept of the firmware's log and of QEMU's own messages.
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
    Build(String),
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
            Self::Build(text) => write!(
                f,
                "the firmware of the QEMU board did not build (is its target there? \
                 rustup target add {TARGET}):\n{text}"
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
    /// Loopback port of the serial line; 0 takes a free one. To start a board
    /// again under the same port, give that of the first.
    pub serial_port: u16,
    /// Another device uid than the firmware's own.
    pub uid: Option<[u8; 8]>,
    /// What the sensor feels from the first instruction on, in millidegrees Celsius.
    pub temperature_milli_c: i32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            serial_port: 0,
            uid: None,
            temperature_milli_c: 21_500,
        }
    }
}

/// A running board.
#[derive(Debug)]
pub struct Qemu {
    child: Child,
    qmp: BufReader<TcpStream>,
    serial: SocketAddr,
    log: Output,
    messages: Output,
    events: Receiver<Event>,
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
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let control = listener.local_addr()?;
        let serial = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut child = spawn(elf, serial, control, options.uid)?;
        let (sender, events) = mpsc::channel();
        let log = Output::default();
        let messages = Output::default();
        if let Some(stdout) = child.stdout.take() {
            keep_log(stdout, log.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            watch_end(stderr, messages.clone(), sender.clone(), control);
        }
        accept(listener, sender);
        let mut guard = KillOnDrop(Some(child));
        let stream = match events.recv_timeout(START_LIMIT) {
            Ok(Event::Connected(stream)) => stream?,
            Ok(Event::Ended) => return Err(QemuError::Ended(messages.text())),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(QemuError::Silent("no QMP connection"));
            }
        };
        stream.set_read_timeout(Some(QMP_LIMIT))?;
        let child = guard.0.take().ok_or(QemuError::Silent("no child"))?;
        let qmp = BufReader::new(stream);
        let mut qemu = Self {
            child,
            qmp,
            serial,
            log,
            messages,
            events,
        };
        qemu.read_line()?; // the greeting
        qemu.command("qmp_capabilities", json!({}))?;
        qemu.set_temperature(options.temperature_milli_c)?;
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
    ///
    /// # Errors
    /// [`QemuError::Io`].
    pub fn kill(mut self) -> Result<(), QemuError> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// How it ended, when it ended by itself: a firmware that panics exits with 1.
    ///
    /// # Errors
    /// [`QemuError::Io`].
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, QemuError> {
        Ok(self.child.try_wait()?)
    }

    /// The firmware's log so far, as defmt sends it: `defmt-print -e ELF` reads it.
    pub fn log(&self) -> Vec<u8> {
        self.log.bytes()
    }

    /// QEMU's own messages so far.
    pub fn messages(&self) -> String {
        self.messages.text()
    }

    fn command(&mut self, execute: &str, arguments: Value) -> Result<Value, QemuError> {
        let mut line = json!({ "execute": execute, "arguments": arguments }).to_string();
        line.push('\n');
        self.qmp
            .get_mut()
            .write_all(line.as_bytes())
            .map_err(|error| self.broken(error))?;
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
    fn broken(&self, error: io::Error) -> QemuError {
        if matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        ) {
            return QemuError::Silent("no answer to a QMP command");
        }
        match self.events.recv_timeout(QMP_LIMIT) {
            Ok(Event::Ended) => QemuError::Ended(self.messages.text()),
            Ok(Event::Connected(_))
            | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => error.into(),
        }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Ends a child that never became a [`Qemu`].
struct KillOnDrop(Option<Child>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            end(child);
        }
    }
}

/// Both calls fail only for a child that has ended already.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn spawn(
    elf: &Path,
    serial: SocketAddr,
    control: SocketAddr,
    uid: Option<[u8; 8]>,
) -> Result<Child, QemuError> {
    let mut semihosting = String::from("enable=on,target=native,arg=firmware");
    if let Some(uid) = uid {
        semihosting.push_str(",arg=uid=");
        uid.iter()
            .for_each(|byte| semihosting.push_str(&format!("{byte:02x}")));
    }
    let (serial_ip, serial_port) = (serial.ip(), serial.port());
    let (control_ip, control_port) = (control.ip(), control.port());
    Command::new(QEMU)
        .args([
            "-machine",
            "mps2-an386",
            "-display",
            "none",
            "-monitor",
            "none",
            "-S",
        ])
        .arg("-chardev")
        .arg(format!(
            "socket,id=line,host={serial_ip},port={serial_port},server=on,wait=off,nodelay=on"
        ))
        .args(["-serial", "chardev:line"])
        .arg("-chardev")
        .arg(format!(
            "socket,id=qmp,host={control_ip},port={control_port},server=off"
        ))
        .args(["-mon", "chardev=qmp,mode=control"])
        .arg("-device")
        .arg(format!("tmp105,id={SENSOR},bus=i2c,address=0x48"))
        .args(["-semihosting-config", &semihosting])
        .arg("-kernel")
        .arg(elf)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                QemuError::Missing
            } else {
                error.into()
            }
        })
}

#[derive(Debug)]
enum Event {
    Connected(io::Result<TcpStream>),
    Ended,
}

fn accept(listener: TcpListener, sender: Sender<Event>) {
    thread::spawn(move || {
        // Nobody listens any more when the start has failed for another reason.
        let _ = sender.send(Event::Connected(
            listener.accept().map(|(stream, _)| stream),
        ));
    });
}

/// QEMU's messages end when QEMU does. The thread in `accept` may still wait
/// then; it is sent home by a connection of our own.
fn watch_end(stderr: ChildStderr, into: Output, sender: Sender<Event>, control: SocketAddr) {
    thread::spawn(move || {
        into.fill_from(stderr);
        let _ = sender.send(Event::Ended);
        let _ = TcpStream::connect(control);
    });
}

fn keep_log(stdout: ChildStdout, into: Output) {
    thread::spawn(move || into.fill_from(stdout));
}

/// Bytes that a thread collects, up to [`OUTPUT_BYTES_MAX`].
#[derive(Debug, Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    /// Reads to the end, also past the limit: a full pipe would stop the firmware.
    fn fill_from(&self, mut source: impl Read) {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = source.read(&mut chunk) {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let room = OUTPUT_BYTES_MAX - kept.len();
            kept.extend_from_slice(&chunk[..count.min(room)]);
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).trim().to_owned()
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

/// The firmware image: the one named by [`ELF_VARIABLE`], else built now, once a process.
///
/// # Errors
/// [`QemuError::Build`] with cargo's text.
pub fn board_elf() -> Result<PathBuf, QemuError> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(elf) = std::env::var_os(ELF_VARIABLE) {
        return Ok(elf.into());
    }
    BUILT.get_or_init(build).clone().map_err(QemuError::Build)
}

fn build() -> Result<PathBuf, String> {
    let boards = Path::new(env!("CARGO_MANIFEST_DIR")).join("../firmware/boards");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--locked", "--target", TARGET])
        .args([
            "--package",
            "qemu-mps2-an386",
            "--message-format",
            "json-render-diagnostics",
        ])
        .current_dir(boards)
        // Flags for the host are not flags for the board.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    executable(&output.stdout).ok_or_else(|| "cargo named no executable".to_owned())
}

/// The image's path in cargo's messages, wherever its target folder is.
fn executable(messages: &[u8]) -> Option<PathBuf> {
    messages
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .find_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
}
