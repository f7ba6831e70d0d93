//! A Mosquitto of our own for a test: own config, port and directory, on
//! loopback, stopped with its handle.
//!
//! Always holds: `start` returns when it listens, `stop` when it is gone and
//! its disk is written. Waits at most [`START_MAX`]; knows nothing of MQTT.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use tempfile::TempDir;

use crate::namespace::Namespace;
use crate::process::{END_LIMIT, send};
use crate::wait;

/// Longest time from start to listening.
pub const START_MAX: Duration = Duration::from_secs(20);
/// Lines of Mosquitto's log that are kept for the message of a failure.
const LOG_LINES_MAX: usize = 1000;
/// Tries to find a port that nobody takes meanwhile.
const PORT_TRIES: usize = 5;

/// A Mosquitto process with its directory.
#[derive(Debug)]
pub struct Mosquitto {
    dir: TempDir,
    port: u16,
    websocket_port: u16,
    extra: String,
    /// What starts it: the program, and the words before its own.
    command: (OsString, Vec<OsString>),
    address: String,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    log: Receiver<String>,
}

impl Mosquitto {
    /// Starts with persistence on and Mosquitto's own defaults else.
    ///
    /// # Panics
    /// When it cannot be started; says how to install it.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts with more lines of `mosquitto.conf`, such as
    /// `max_inflight_messages 5`. A line `websocket` opens a listener of websockets; the
    /// lines behind it are about that one. (Version 2.0.11 does not start with no other.)
    ///
    /// # Panics
    /// When it cannot be started; says how to install it.
    #[must_use]
    pub fn start_with(extra: &str) -> Self {
        Self::start_as(&Command::new(program()), "127.0.0.1", extra)
    }

    /// As [`Mosquitto::start_with`], within a namespace and at its address.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_within(namespace: &Namespace, extra: &str) -> Self {
        let command = namespace.command(program());
        Self::start_as(&command, namespace.address(), extra)
    }

    fn start_as(command: &Command, address: &str, extra: &str) -> Self {
        let words = command.get_args().map(ToOwned::to_owned).collect();
        let command = (command.get_program().to_owned(), words);
        let mut failures = String::new();
        for _ in 0..PORT_TRIES {
            let mut broker = Self {
                dir: TempDir::new().expect("a temporary directory"),
                port: free_port(),
                websocket_port: free_port(),
                extra: extra.to_owned(),
                command: command.clone(),
                address: address.to_owned(),
                running: None,
            };
            match broker.spawn() {
                Ok(()) => return broker,
                Err(failure) => failures.push_str(&failure),
            }
        }
        panic!("mosquitto does not start:\n{failures}");
    }

    /// The address it listens at: 127.0.0.1, or that of its namespace.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The port at its address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of websockets on 127.0.0.1, if it was started with one.
    #[must_use]
    pub fn websocket_port(&self) -> u16 {
        self.websocket_port
    }

    /// Its directory: a test may put files there that its config names.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts it again on the same port with what is on its disk.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self) {
        self.stop();
        self.spawn().expect("it started before");
    }

    /// Ends it in order: it writes its disk.
    pub fn stop(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        let pid = running.child.id().to_string();
        // Asked again and again: it forgets a signal that comes while it starts.
        wait::until("mosquitto ends", END_LIMIT, || {
            send("TERM", &pid);
            running.child.try_wait().ok().flatten().ok_or("it runs")
        });
    }

    /// Ends it at once: what it had not written is lost.
    pub fn kill(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        let _ = running.child.kill();
        let _ = running.child.wait();
    }

    /// Kills it and empties its disk.
    ///
    /// # Panics
    /// When the disk cannot be emptied.
    pub fn lose_disk(&mut self) {
        self.kill();
        match std::fs::remove_file(self.dir.path().join("mosquitto.db")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{error}"),
            Ok(()) | Err(_) => {}
        }
    }

    fn spawn(&mut self) -> Result<(), String> {
        let config = self.dir.path().join("mosquitto.conf");
        std::fs::write(&config, self.config()).expect("a temporary file can be written");
        let (program, words) = &self.command;
        let mut child = Command::new(program)
            .args(words)
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "{}: {error}. This test needs it: apt-get install mosquitto",
                    program.display()
                )
            });
        let stderr = child.stderr.take().expect("stderr is piped");
        let (lines, log) = sync_channel(LOG_LINES_MAX);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // A full log loses its newest lines and blocks nobody.
                let _ = lines.try_send(line);
            }
        });
        let running = Running { child, log };
        wait_for_start(&running.log)?;
        self.running = Some(running);
        Ok(())
    }

    fn config(&self) -> String {
        let (port, address) = (self.port, &self.address);
        let websocket = format!(
            "listener {} {address}\nprotocol websockets\n",
            self.websocket_port
        );
        let extra = self.extra.replace("websocket\n", &websocket);
        let dir = self.dir.path().display();
        // As root it would else become a user who cannot write here.
        format!(
            "user root\nlistener {port} {address}\nallow_anonymous true\npersistence true\n\
             persistence_location {dir}/\nautosave_interval 1\nlog_dest stderr\nlog_type all\n\
             {extra}\n"
        )
    }
}

fn program() -> &'static str {
    match Path::new("/usr/sbin/mosquitto").exists() {
        true => "/usr/sbin/mosquitto",
        false => "mosquitto",
    }
}

fn wait_for_start(log: &Receiver<String>) -> Result<(), String> {
    let mut said = String::new();
    loop {
        match log.recv_timeout(START_MAX) {
            Ok(line) if line.ends_with(" running") => return Ok(()),
            Ok(line) => {
                said.push_str(&line);
                said.push('\n');
            }
            Err(RecvTimeoutError::Timeout) => return Err(format!("{said}(silence)\n")),
            Err(RecvTimeoutError::Disconnected) => return Err(format!("{said}(ended)\n")),
        }
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener
        .local_addr()
        .expect("a bound socket has an address")
        .port()
}
