//! The program as it is shipped, on a config and a log of its own, and the questions that
//! it is asked: over its local socket, and over HTTP.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::http;
use super::limits::PATIENCE;
use crate::delivery::process::{Process, wait_for};
use crate::delivery::rig::free_port;

/// As by default.
pub(super) const LINGER: &str = "20ms";

/// A running agent; killed when dropped.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) process: Process,
    dir: PathBuf,
    port: u16,
}

/// Writes the config of an agent with its log in `<dir>/data`; gives its file.
pub(super) fn write_config(
    dir: &Path,
    port: u16,
    linger: &str,
    more: &str,
) -> Result<PathBuf, String> {
    let file = dir.join("agent.toml");
    let text = format!(
        "[agent]\ngateway = \"bench\"\ndata_dir = \"data\"\nclock = \"always\"\nlinger = \"{linger}\"\n\n\
         [api]\nlisten = \"127.0.0.1:{port}\"\nrequests_per_second = 10000\n\n{more}"
    );
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

impl Agent {
    /// Starts it, with more of its config.
    pub(super) fn start(forebay: &Path, dir: &Path, more: &str) -> Result<Self, String> {
        Self::start_with(forebay, dir, LINGER, more)
    }

    /// As [`Agent::start`], where a block waits so long for more readings.
    pub(super) fn start_with(
        forebay: &Path,
        dir: &Path,
        linger: &str,
        more: &str,
    ) -> Result<Self, String> {
        std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let port = free_port()?;
        let config = write_config(dir, port, linger, more)?;
        let mut command = Command::new(forebay);
        command.arg("run").arg("--config").arg(&config);
        let agent = Self {
            process: Process::start("agent", command, dir)?,
            dir: dir.to_path_buf(),
            port,
        };
        wait_for("the agent answers", || agent.status().ok())?;
        Ok(agent)
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("data/forebay.sock")
    }

    /// A connection to its local socket.
    pub(super) fn local(&self) -> Result<Local, String> {
        Local::open(&self.socket())
    }

    /// A connection to its HTTP server.
    pub(super) fn http(&self) -> Result<http::Client, String> {
        http::Client::open(self.port)
    }

    pub(super) fn status(&self) -> Result<Value, String> {
        self.local()?.ask(&json!({ "query": "status" }))
    }

    /// Waits until all that stands in the log went through the engine and is durable.
    pub(super) fn wait_until_read(&self) -> Result<(), String> {
        let started = std::time::Instant::now();
        loop {
            let status = self.status()?;
            let number = |name: &str| status[name].as_u64();
            if status["recovered"] == true && number("readings_behind") == Some(0) {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(format!(
                    "{} readings are still behind",
                    status["readings_behind"]
                ));
            }
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
    }
}

/// One connection to the local socket, a JSON line each way.
#[derive(Debug)]
pub(super) struct Local {
    stream: BufReader<UnixStream>,
    line: String,
}

impl Local {
    fn open(socket: &Path) -> Result<Self, String> {
        let stream = UnixStream::connect(socket);
        let stream = stream.map_err(|error| format!("{}: {error}", socket.display()))?;
        let patience = stream.set_read_timeout(Some(PATIENCE));
        patience.map_err(|error| error.to_string())?;
        Ok(Self {
            stream: BufReader::new(stream),
            line: String::new(),
        })
    }

    /// Asks and waits; gives the line as it came.
    pub(super) fn ask_line(&mut self, request: &str) -> Result<&str, String> {
        let told = |error: std::io::Error| error.to_string();
        let stream = self.stream.get_mut();
        stream.write_all(request.as_bytes()).map_err(told)?;
        stream.write_all(b"\n").map_err(told)?;
        self.line.clear();
        self.stream.read_line(&mut self.line).map_err(told)?;
        match self.line.starts_with("{\"ok\"") {
            true => Ok(&self.line),
            false => Err(format!("{request}: {}", self.line.trim_end())),
        }
    }

    pub(super) fn ask(&mut self, request: &Value) -> Result<Value, String> {
        let line = self.ask_line(&request.to_string())?;
        let mut answer: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        Ok(answer["ok"].take())
    }
}
