//! Other engines on the same file: brings them, runs them, reads what they say. One
//! that cannot be had is named with the reason.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Args;

/// An engine that we are measured beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    DuckDb,
    Bytewax,
    Flink,
}

impl Peer {
    pub(crate) const ALL: [Self; 3] = [Self::DuckDb, Self::Bytewax, Self::Flink];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DuckDb => "DuckDB",
            Self::Bytewax => "Bytewax",
            Self::Flink => "Flink SQL",
        }
    }

    /// As `setup.py` calls it.
    fn package(self) -> &'static str {
        match self {
            Self::DuckDb => "duckdb",
            Self::Bytewax => "bytewax",
            Self::Flink => "flink",
        }
    }

    /// Whether a full run takes minutes.
    pub(crate) fn is_slow(self) -> bool {
        match self {
            Self::DuckDb => false,
            Self::Bytewax | Self::Flink => true,
        }
    }
}

/// What one says of its run: `name=value` lines.
#[derive(Debug)]
pub(crate) struct Said {
    text: String,
}

impl Said {
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let lines = self.text.lines().filter_map(|line| line.split_once('='));
        let mut found = lines.filter(|(said, _)| *said == name);
        found.next().map(|(_, value)| value)
    }

    /// # Errors
    /// When it does not say it.
    pub(crate) fn number(&self, name: &str) -> Result<f64, String> {
        let value = self.text(name).and_then(|value| value.parse().ok());
        value.ok_or_else(|| format!("it does not say {name}: {}", self.text))
    }
}

/// Brings one onto this machine, if it is not there.
///
/// # Errors
/// Why it cannot be had.
pub(crate) fn bring(peer: Peer, args: &Args) -> Result<(), String> {
    let mut command = Command::new("python3");
    command
        .arg(args.scripts.join("setup.py"))
        .arg(&args.peers)
        .arg(peer.package());
    run(command).map(drop)
}

/// Runs one over the file that `forebay try` reads.
///
/// # Errors
/// Why there is no result.
pub(crate) fn run_try(
    peer: Peer,
    args: &Args,
    input: &Path,
    output: &Path,
) -> Result<Said, String> {
    let script = match peer {
        Peer::DuckDb => "duckdb_try.py",
        Peer::Bytewax => "bytewax_try.py",
        Peer::Flink => {
            let home = args.peers.join("flink");
            let path = format!("{0}/lib/*:{0}/classes", home.display());
            let mut command = Command::new("java");
            command
                .args(["--add-opens=java.base/java.util=ALL-UNNAMED"])
                .args(["--add-opens=java.base/java.lang=ALL-UNNAMED"])
                .args(["-XX:+UseSerialGC", "-Xmx2g", "-cp", &path, "Try"])
                .args([absolute(input)?, absolute(output)?]);
            return run(command);
        }
    };
    run_script(args, script, &[input, output])
}

/// Runs a script of ours in the peers' interpreter.
///
/// # Errors
/// Why there is no result.
pub(crate) fn run_script(args: &Args, script: &str, given: &[&Path]) -> Result<Said, String> {
    let mut command = Command::new(args.peers.join("py/bin/python"));
    command.arg(args.scripts.join(script)).args(given);
    run(command)
}

fn absolute(path: &Path) -> Result<std::path::PathBuf, String> {
    std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn run(mut command: Command) -> Result<Said, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(Said {
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
        });
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let says = errors.lines().map(str::trim).rfind(|line| !line.is_empty());
    Err(says.unwrap_or("ended without a word").to_owned())
}
