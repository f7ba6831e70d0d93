//! A child of [`super::child`]: starts it, follows what it says, kills it.

use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use super::super::rig::{LIMIT, spawn};
use super::child::{CHILD_TEST, CONFIG_VAR, END_VAR, FEED_SEED_VAR, FROM_VAR};

/// What a child is to do.
#[derive(Debug, Clone)]
pub(super) struct Job<'a> {
    pub(super) config: &'a Path,
    pub(super) seed: u64,
    /// Readings to take; none: to compute all windows and to stop.
    pub(super) from: u64,
    pub(super) end: u64,
    /// A fault point, with the pass that kills.
    pub(super) fault: Option<String>,
}

/// How far a child came.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) opening: bool,
    pub(super) started: bool,
    pub(super) settled: bool,
    pub(super) batches: u64,
    /// Readings below this one are durable, if it said so.
    pub(super) took: Option<u64>,
    pub(super) stopped: bool,
    pub(super) verified: bool,
}

#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    lines: Receiver<String>,
    errors: std::path::PathBuf,
    pub(super) said: Said,
    /// Other lines of its standard output: few.
    shown: Vec<String>,
}

impl Running {
    pub(super) fn start(job: &Job<'_>) -> Self {
        let errors = job.config.with_extension("errors");
        let vars = [
            (CONFIG_VAR, job.config.as_os_str().into()),
            (FEED_SEED_VAR, job.seed.to_string().into()),
            (FROM_VAR, job.from.to_string().into()),
            (END_VAR, job.end.to_string().into()),
        ];
        let (child, lines) = spawn(CHILD_TEST, vars, job.fault.as_deref(), &errors);
        Self {
            child,
            lines,
            errors,
            said: Said::default(),
            shown: Vec::new(),
        }
    }

    /// Takes lines until `enough` or the end of the child.
    ///
    /// # Errors
    /// When it hangs.
    pub(super) fn follow(&mut self, enough: impl Fn(&Said) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + LIMIT;
        while !enough(&self.said) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.take(&line),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("the child hangs; it said:\n{}", self.errors()));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, line: &str) {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        match what {
            "opening" => self.said.opening = true,
            "started" => self.said.started = true,
            "settled" => self.said.settled = true,
            "took" => {
                self.said.batches += 1;
                self.said.took = Some(rest.parse().unwrap());
            }
            "stopped" => self.said.stopped = true,
            "verified" => self.said.verified = true,
            // What it ran printed, beside the test harness's own lines.
            _ => self.shown.push(line.to_owned()),
        }
    }

    pub(super) fn kill(&mut self) {
        // It may have ended by itself, by a fault point.
        let _ = self.child.kill();
    }

    /// Waits for its end; whether it ended by itself, as asked.
    ///
    /// # Errors
    /// When it failed or hangs.
    pub(super) fn end(mut self) -> Result<(Said, bool), String> {
        self.follow(|_| false)?;
        let status = self.child.wait().unwrap();
        match status.code() {
            None => Ok((self.said, false)),
            Some(0) => Ok((self.said, true)),
            Some(code) => Err(format!(
                "the child ended with {code}, {:?}; it said:\n{}\n{}",
                self.said,
                self.shown.join("\n"),
                self.errors()
            )),
        }
    }

    fn errors(&self) -> String {
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
