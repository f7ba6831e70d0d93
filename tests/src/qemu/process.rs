//! The child process: its command line, its two output streams, its end.
//!
//! Dropping a [`Process`] kills it. Its pipes are read to their ends by threads,
//! because a full one would stop the firmware; [`OUTPUT_BYTES_MAX`] is kept.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::{OUTPUT_BYTES_MAX, Options, QEMU, QemuError, SENSOR};

/// A running QEMU.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: Child,
    pub(super) messages: Output,
    pub(super) events: Receiver<Event>,
}

impl Process {
    /// Starts QEMU halted. It connects to `control`, which becomes an event.
    pub(super) fn start(
        elf: &Path,
        serial: SocketAddr,
        control: TcpListener,
        options: &Options,
    ) -> Result<Self, QemuError> {
        let addr = control.local_addr()?;
        let mut child = spawn(elf, serial, addr, options)?;
        let (sender, events) = mpsc::channel();
        let messages = Output::default();
        if let Some(stderr) = child.stderr.take() {
            watch_end(stderr, messages.clone(), sender.clone(), addr);
        }
        accept(control, sender);
        Ok(Self {
            child,
            messages,
            events,
        })
    }

    /// Why it has ended, to be asked once its messages have.
    pub(super) fn last_words(&mut self) -> String {
        let status = self.child.wait();
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let said = self.messages.text();
        if said.is_empty() {
            format!("{status}; 1 is a firmware that panicked")
        } else {
            format!("{status}; {said}")
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls fail only for a child that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the threads find out.
#[derive(Debug)]
pub(super) enum Event {
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

/// Halted, so that it can be set up before the first instruction.
fn spawn(
    elf: &Path,
    serial: SocketAddr,
    control: SocketAddr,
    options: &Options,
) -> Result<Child, QemuError> {
    let mut semihosting = String::from("enable=on,target=native,arg=firmware");
    if let Some(uid) = options.uid {
        semihosting.push_str(",arg=uid=");
        uid.iter()
            .for_each(|byte| semihosting.push_str(&format!("{byte:02x}")));
    }
    let line = format!("socket,id=line,host={},port={}", serial.ip(), serial.port());
    let qmp = format!(
        "socket,id=qmp,host={},port={}",
        control.ip(),
        control.port()
    );
    let mut command = Command::new(QEMU);
    command
        .args(["-machine", options.machine.name(), "-S"])
        .args(["-display", "none", "-monitor", "none"])
        // Without nodelay, Nagle and delayed acks add 40 ms to each answer.
        .args(["-chardev", &format!("{line},server=on,wait=off,nodelay=on")])
        .args(["-serial", "chardev:line"])
        .args(["-chardev", &format!("{qmp},server=off")])
        .args(["-mon", "chardev=qmp,mode=control"])
        .args(["-semihosting-config", &semihosting]);
    if options.sensor {
        command.args([
            "-device",
            &format!("tmp105,id={SENSOR},bus=i2c,address=0x48"),
        ]);
    }
    command
        .arg("-kernel")
        .arg(elf)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
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

/// Bytes that a thread collects, up to [`OUTPUT_BYTES_MAX`].
#[derive(Debug, Clone, Default)]
pub(super) struct Output(Arc<Mutex<Vec<u8>>>);

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

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).trim().to_owned()
    }
}
