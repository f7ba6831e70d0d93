//! Agent, Mosquitto and receiver as they are shipped, each in a folder of its own, and
//! what they say of themselves.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_node::local;
use serde_json::{Value, json};

use super::process::{Process, wait_for};

/// Mosquitto keeps all that waits for a receiver: the default of 1,000 messages drops
/// what comes faster than a receiver takes it, without a word.
const QUEUE: &str = "max_queued_messages 0\n";

/// A payload format of the forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Payload {
    Json,
    Compact,
}

impl Payload {
    pub(super) const ALL: [Self; 2] = [Self::Compact, Self::Json];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Compact => "compact",
        }
    }
}

/// A port that nobody takes right now.
pub(crate) fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    Ok(address.port())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn fresh_dir(dir: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", dir.display()));
        }
        Ok(()) | Err(_) => {}
    }
    std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))
}

/// Starts Mosquitto; it listens when this returns. `within` runs it elsewhere: in
/// another network namespace.
pub(super) fn mosquitto(
    dir: &Path,
    address: &str,
    port: u16,
    within: &[&str],
) -> Result<Process, String> {
    let config = dir.join("mosquitto.conf");
    // As root it would else become a user who cannot write here.
    let text = format!(
        "user root\nlistener {port} {address}\nallow_anonymous true\npersistence true\n\
         persistence_location {}/\nlog_dest stderr\n{QUEUE}",
        dir.display()
    );
    write(&config, &text)?;
    let program = match Path::new("/usr/sbin/mosquitto") {
        path if path.exists() => path,
        _ => Path::new("mosquitto"),
    };
    let mut command = wrapped(within, program);
    command.arg("-c").arg(&config);
    let process = Process::start("mosquitto", command, dir).map_err(|error| {
        format!("{error}. It comes with `cargo xtask setup` or apt-get install mosquitto")
    })?;
    let log = dir.join("mosquitto.log");
    wait_for("mosquitto listens", || {
        let text = std::fs::read_to_string(&log).ok()?;
        text.contains(" running").then_some(())
    })?;
    Ok(process)
}

fn wrapped(within: &[&str], program: &Path) -> Command {
    match within.split_first() {
        None => Command::new(program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

/// A running agent or receiver with its socket.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) process: Process,
    socket: PathBuf,
    question: Value,
}

impl Asked {
    /// What it says of itself; nothing while it starts.
    pub(super) fn status(&self) -> Option<Value> {
        local::ask(&self.socket, &self.question).ok()
    }

    /// A number of it, by the keys on the way there.
    pub(super) fn number(&self, path: &[&str]) -> Option<u64> {
        let status = self.status()?;
        let found = path.iter().try_fold(&status, |value, key| value.get(key));
        found?.as_u64()
    }
}

/// How the agent forwards.
#[derive(Debug, Clone)]
pub(super) struct Forwarding {
    pub(super) address: String,
    pub(super) port: u16,
    pub(super) payload: Payload,
    /// More lines of `[forward]`.
    pub(super) extra: String,
}

/// Starts an agent on the log in `<dir>/data`.
pub(super) fn agent(
    forebay: &Path,
    dir: &Path,
    forwarding: &Forwarding,
    within: &[&str],
) -> Result<Asked, String> {
    let Forwarding {
        address,
        port,
        payload,
        extra,
    } = forwarding;
    let config = dir.join("agent.toml");
    let text = format!(
        "[agent]\ngateway = \"bench\"\ndata_dir = \"data\"\nclock = \"always\"\n\n\
         [forward]\nbroker = \"{address}:{port}\"\nformat = \"{}\"\nbackoff_max = \"1s\"\n{extra}",
        payload.name()
    );
    write(&config, &text)?;
    let mut command = wrapped(within, forebay);
    command.arg("run").arg("--config").arg(&config);
    Ok(Asked {
        process: Process::start("agent", command, dir)?,
        socket: dir.join("data/forebay.sock"),
        question: json!({ "query": "status" }),
    })
}

/// Starts a receiver that listens to the broker, on an empty sink.
pub(super) fn receiver(
    forebay: &Path,
    dir: &Path,
    port: u16,
    extra: &str,
) -> Result<Asked, String> {
    let config = dir.join("upstream.toml");
    let text = format!(
        "[upstream]\ndata_dir = \"upstream\"\nbroker = \"127.0.0.1:{port}\"\nbackoff_max = \"1s\"\n{extra}"
    );
    write(&config, &text)?;
    let mut command = Command::new(forebay);
    command.arg("upstream").arg("--config").arg(&config);
    let asked = Asked {
        process: Process::start("receiver", command, dir)?,
        socket: dir.join("upstream/upstream.sock"),
        question: json!({ "status": {} }),
    };
    wait_for("the receiver is connected", || {
        let status = asked.status()?;
        (status.get("connected")?.as_bool()?).then_some(())
    })?;
    Ok(asked)
}
