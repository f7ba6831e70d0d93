//! Starts the child, reads what it says, keeps the ledger.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::child::{BATCHES_VAR, CHILD_SEED_VAR, CHILD_TEST, DIR_VAR, LEDGER_VAR};
use super::ledger::{Ledger, Run};

/// For anything that a child does; a machine under load may need most of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How long a start may take (the figure).
pub(crate) const START_MS_MAX: u64 = 10_000;

/// What a round came to.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) opening: bool,
    pub(crate) opened_ms: Option<u64>,
    pub(crate) verified: bool,
    pub(crate) acks: u64,
    pub(crate) stopped: bool,
    /// What it found wrong with the log.
    pub(crate) wrong: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) losses: Vec<Run>,
    /// Some of the losses had been acked.
    pub(crate) acked_is_lost: bool,
    pub(crate) troubles: u64,
    pub(crate) recovered: u64,
}

/// Why a round failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The log is not what it must be.
    Wrong(String),
    /// The child ended with an error: a disk that is off or full explains it.
    Other(String),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wrong(text) => write!(f, "the log is wrong: {text}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// A child of one round.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    errors: PathBuf,
    /// Verified runs, until all of them are there.
    found: Vec<Run>,
    pub(crate) round: Round,
}

/// A directory for the parts that cut no power: in memory where there is such a
/// place, as syncs cost most of their time and prove nothing there.
pub(crate) fn home() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.unwrap()
}

/// Starts one test of this program as a process of its own, which a fault point may
/// kill; the lines that it says. What goes wrong stands in the file `errors`.
pub(crate) fn spawn(
    test: &str,
    vars: impl IntoIterator<Item = (&'static str, OsString)>,
    fault: Option<&str>,
    errors: &Path,
) -> (Child, Receiver<String>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .envs(vars)
        .envs(fault.map(|fault| ("FOREBAY_FAULT", fault)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(errors).unwrap());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    (child, lines)
}

/// Starts a child on the log in `dir`; `home` takes its files.
pub(crate) fn start(
    dir: &Path,
    home: &Path,
    ledger: &Ledger,
    seed: u64,
    batches: u64,
    fault: Option<&str>,
) -> Running {
    let ledger_file = home.join("ledger");
    std::fs::write(&ledger_file, ledger.text()).unwrap();
    let errors = home.join("errors");
    let vars = [
        (DIR_VAR, dir.as_os_str().into()),
        (LEDGER_VAR, ledger_file.into_os_string()),
        (CHILD_SEED_VAR, seed.to_string().into()),
        (BATCHES_VAR, batches.to_string().into()),
    ];
    let (child, lines) = spawn(CHILD_TEST, vars, fault, &errors);
    Running {
        child,
        lines,
        errors,
        found: Vec::new(),
        round: Round::default(),
    }
}

impl Running {
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Whether a fault point has ended it, after it said its last.
    pub(crate) fn was_killed(&mut self) -> bool {
        let is_over = matches!(
            self.lines.try_recv(),
            Err(std::sync::mpsc::TryRecvError::Disconnected)
        );
        is_over
            && self
                .child
                .wait()
                .is_ok_and(|status| status.code().is_none())
    }

    pub(crate) fn kill(&mut self) {
        // It may have ended by itself, by a fault point.
        let _ = self.child.kill();
    }

    /// Takes lines until `enough`, the end of the child, or the limit: false then.
    pub(crate) fn follow(
        &mut self,
        ledger: &mut Ledger,
        mut enough: impl FnMut(&Round) -> bool,
    ) -> bool {
        let deadline = Instant::now() + LIMIT;
        while !enough(&self.round) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.take(&line, ledger),
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
        true
    }

    fn take(&mut self, line: &str, ledger: &mut Ledger) {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        match what {
            "opening" => self.round.opening = true,
            "opened" => {
                let (epoch, ms) = rest.split_once(' ').unwrap();
                let epoch: u32 = epoch.parse().unwrap();
                assert!(epoch > ledger.epoch, "epoch {epoch} after {}", ledger.epoch);
                ledger.epoch = epoch;
                self.round.opened_ms = Some(ms.parse().unwrap());
            }
            "loss" => {
                let run = Run::parse(rest);
                let is_of = |acked: &Run| {
                    acked.at == run.at && acked.first < run.end && run.first < acked.end
                };
                self.round.acked_is_lost |= ledger.runs().any(is_of);
                self.round.losses.push(run);
                ledger.lost.push(run);
            }
            "note" => self.round.notes.push(rest.to_owned()),
            "run" => self.found.push(Run::parse(rest)),
            "verified" => {
                self.round.verified = true;
                ledger.replace(&self.found);
            }
            "ack" => {
                let (tick, runs) = rest.split_once(' ').unwrap();
                ledger.tick = tick.parse().unwrap();
                let runs = runs.split(", ").filter(|text| !text.is_empty());
                runs.for_each(|text| ledger.add(Run::parse(text)));
                self.round.acks += 1;
            }
            "removing" => {
                let runs = rest.split(", ").filter(|text| !text.is_empty());
                ledger.removed.extend(runs.map(Run::parse));
            }
            "trouble" => self.round.troubles += 1,
            "recovered" => self.round.recovered += 1,
            "stopped" => self.round.stopped = true,
            "wrong" => self.round.wrong = Some(rest.to_owned()),
            // The test harness's own lines.
            _ => {}
        }
    }

    /// Waits for the end of a child that was killed or that ends by itself, and takes
    /// all that it still said.
    pub(crate) fn end(mut self, ledger: &mut Ledger) -> Result<(Round, Option<i32>), Failed> {
        if !self.follow(ledger, |_| false) {
            self.kill();
            let _ = self.child.wait();
            return Err(Failed::Other(format!(
                "the child hangs; it said:\n{}",
                self.said()
            )));
        }
        let status = self.child.wait().unwrap();
        if let Some(wrong) = self.round.wrong.take() {
            return Err(Failed::Wrong(wrong));
        }
        let said = self.said();
        match status.code() {
            None | Some(0) => Ok((std::mem::take(&mut self.round), status.code())),
            Some(code) => Err(Failed::Other(format!(
                "the child ended with {code}; it said:\n{said}"
            ))),
        }
    }

    pub(crate) fn said(&self) -> String {
        let text = std::fs::read(&self.errors).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
