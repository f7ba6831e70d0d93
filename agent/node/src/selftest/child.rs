//! The agent as a process of its own: started, asked, ended, or killed as a power cut
//! ends it.
//!
//! Always holds: the process ends with this handle, and with us.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use forebay_core::query::Query;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::limits::{ANSWER_MAX, END_MAX, LOOK, SAID_BYTES_MAX};
use crate::agent::questions;
use crate::local;

/// This very program.
const PROGRAM: &str = "/proc/self/exe";

/// See the module's text.
#[derive(Debug)]
pub(super) struct AgentChild {
    child: Child,
    socket: PathBuf,
    said: PathBuf,
}

impl AgentChild {
    /// Starts an agent of `config`, which serves `socket`. What it says goes to the end
    /// of `said`.
    ///
    /// # Errors
    /// A sentence: why it does not start.
    pub(super) fn start(config: &Path, socket: &Path, said: &Path) -> Result<Self, String> {
        let log = File::options().create(true).append(true).open(said);
        let log = log.map_err(|error| format!("{}: {error}", said.display()))?;
        let child = Command::new(PROGRAM)
            .args(["selftest", "--agent"])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C is for us: it would end the agent in the middle of a figure.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("the agent does not start: {error}"))?;
        Ok(Self {
            child,
            socket: socket.to_owned(),
            said: said.to_owned(),
        })
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// A sentence: it does not answer (yet).
    pub(super) fn status(&self) -> Result<Value, String> {
        let request = questions::write(&Query::Summary).to_string();
        Ok(local::ask_line(&self.socket, &request, ANSWER_MAX)?)
    }

    /// Why it has ended by itself, if it has.
    pub(super) fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(self.last_words(status)),
            Err(error) => Some(format!("the agent cannot be watched: {error}")),
        }
    }

    fn last_words(&self, status: ExitStatus) -> String {
        let mut said = Vec::new();
        // Without its words the way it ended has to do.
        if let Ok(mut file) = File::open(&self.said) {
            let size = file.metadata().map_or(0, |found| found.len());
            let from = size.saturating_sub(SAID_BYTES_MAX as u64);
            let _ = file.seek(SeekFrom::Start(from));
            let _ = file.take(SAID_BYTES_MAX as u64).read_to_end(&mut said);
        }
        let said = String::from_utf8_lossy(&said);
        format!("the agent ended by itself ({status}): {}", said.trim())
    }

    /// Ends it as a power cut does: it can save nothing.
    pub(super) fn kill(mut self) {
        self.end_at_once();
    }

    fn end_at_once(&mut self) {
        // Both fail only when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// A sentence: it does not end, or not well.
    pub(super) fn end(mut self) -> Result<(), String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended in this moment, which the wait finds.
            let _ = kill_process(pid, Signal::TERM);
        }
        let asked = Instant::now();
        while asked.elapsed() < END_MAX {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(self.last_words(status)),
                Ok(None) => thread::sleep(LOOK),
                Err(error) => return Err(format!("the agent cannot be watched: {error}")),
            }
        }
        Err(format!(
            "the agent did not end within {} s of being asked to",
            END_MAX.as_secs()
        ))
    }
}

impl Drop for AgentChild {
    fn drop(&mut self) {
        self.end_at_once();
    }
}
