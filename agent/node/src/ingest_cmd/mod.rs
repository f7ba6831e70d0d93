//! `forebay ingest`: recorded readings into the log of a running or stopped agent.
//! A batch is confirmed when it is durable; a bad line is named and costs no other.
//!
//! Bound: one batch and what `feed` holds. Knows neither formats nor the log.

mod args;
mod feed;
mod target;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use forebay_core::import::{ImportRecord, SessionNo};
use serde_json::{Value, json};

pub use self::args::IngestArgs;
use self::feed::Feed;
use self::target::Target;
pub(crate) use self::target::say;
use crate::agent::imports::{self, BatchText};
use crate::exit::Exit;
use crate::import::{BadLine, Next};
use crate::progress::Progress;
use crate::terminal::print_line;

/// How long records wait for others while the input says nothing.
const FLUSH_AFTER: Duration = Duration::from_millis(200);
/// Bad lines in the JSON summary; standard error has them all.
const BAD_LINES_KEPT_MAX: usize = 1000;

/// Runs the command.
#[must_use]
pub fn run(args: &IngestArgs) -> ExitCode {
    let mut import = Import::default();
    let stopped = match ingest(args, &mut import) {
        Ok(()) => None,
        Err(why) => {
            let _ = writeln!(io::stderr(), "forebay: {why}");
            if import.taken > 0 {
                let _ = writeln!(io::stderr(), "forebay: {}", import.go_on());
            }
            Some(why)
        }
    };
    let said = if args.json {
        import.json(stopped.as_deref())
    } else {
        import.text()
    };
    if stopped.is_some() {
        if args.json {
            print_line(&said);
        }
        return Exit::Usage.into();
    }
    let printed = print_line(&said);
    if import.bad > 0 {
        return Exit::Found.into();
    }
    printed
}

fn ingest(args: &IngestArgs, import: &mut Import) -> Result<(), String> {
    // The input first: a mistyped name must not open a log.
    let feed = Feed::start(args)?;
    import.name.clone_from(&feed.name);
    let target = Target::find(args, &target::say())?;
    import.running = target.is_running();
    let progress = Progress::bytes(feed.bytes).shown(!args.json);
    let done = import.take(&feed, &target, &progress);
    drop(progress);
    let closed = target.close(import.session);
    done.and(closed)
}

/// An import with what it counted.
#[derive(Debug, Default)]
struct Import {
    name: String,
    running: bool,
    session: Option<SessionNo>,
    batch: BatchText,
    /// Line of each record in the batch.
    batch_lines: Vec<u64>,
    taken: u64,
    bad: u64,
    bad_lines: Vec<BadLine>,
    /// Last line that has been read.
    line: u64,
    /// Everything up to this line is in the log, or was named as bad.
    done: u64,
}

impl Import {
    fn take(&mut self, feed: &Feed, target: &Target, progress: &Progress) -> Result<(), String> {
        loop {
            let (next, bytes) = match feed.fed.recv_timeout(FLUSH_AFTER) {
                Ok(fed) => fed,
                Err(RecvTimeoutError::Timeout) => {
                    self.flush(target, progress)?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("{}: its reader ended unasked", self.name));
                }
            };
            progress.set(bytes);
            match next {
                Ok(Next::Record(line, record)) => {
                    self.line = line;
                    self.push(line, &record, target, progress)?;
                }
                Ok(Next::Bad(bad)) => {
                    self.line = bad.line;
                    self.on_bad(bad, progress);
                }
                Ok(Next::End) => return self.flush(target, progress),
                Err(error) => {
                    // What was read before it is good.
                    self.flush(target, progress)?;
                    return Err(format!("{}:{error}", self.name));
                }
            }
        }
    }

    fn push(
        &mut self,
        line: u64,
        record: &ImportRecord,
        target: &Target,
        progress: &Progress,
    ) -> Result<(), String> {
        if !self.batch.push(record) {
            self.flush(target, progress)?;
            let fits = self.batch.push(record);
            assert!(fits, "one record fits an empty batch");
        }
        self.batch_lines.push(line);
        Ok(())
    }

    /// Hands the batch over and waits until it is durable.
    fn flush(&mut self, target: &Target, progress: &Progress) -> Result<(), String> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let request = std::mem::take(&mut self.batch).finish(self.session);
        let answer = target.ask(&request)?;
        let imported = imports::read_answer(&answer)?;
        self.session = Some(imported.session);
        self.taken += imported.taken;
        let lines = std::mem::take(&mut self.batch_lines);
        for refused in imported.refused {
            if let Some(line) = lines.get(refused.index as usize) {
                let why = refused.why.to_string();
                self.on_bad(BadLine { line: *line, why }, progress);
            }
        }
        self.done = lines.last().copied().unwrap_or(self.done);
        Ok(())
    }

    fn on_bad(&mut self, bad: BadLine, progress: &Progress) {
        self.bad += 1;
        progress.line(&format!("{}:{}: {}", self.name, bad.line, bad.why));
        if self.bad_lines.len() < BAD_LINES_KEPT_MAX {
            self.bad_lines.push(bad);
        }
    }

    fn text(&self) -> String {
        let Self {
            name, taken, bad, ..
        } = self;
        let place = if self.running {
            "of the running agent"
        } else {
            "of the agent, which is not running"
        };
        let bad = match bad {
            0 => String::from("no line was bad"),
            1 => String::from("1 line or part of one was bad, see above"),
            bad => format!("{bad} lines or parts of one were bad, see above"),
        };
        format!("{name}: {taken} readings are in the log {place}; {bad}")
    }

    /// What to do after an import that was cut short.
    fn go_on(&self) -> String {
        format!(
            "{} readings, up to line {}, are in the log; to go on: --from-line {}. \
             What came after that line was not confirmed",
            self.taken,
            self.done,
            self.done + 1,
        )
    }

    fn json(&self, stopped: Option<&str>) -> String {
        let bad_lines = self.bad_lines.iter();
        let bad_lines = bad_lines.map(|bad| json!({ "line": bad.line, "why": bad.why }));
        json!({
            "input": self.name,
            "running": self.running,
            "lines": self.line,
            "done_to_line": self.done,
            "taken": self.taken,
            "bad": self.bad,
            "bad_lines": bad_lines.collect::<Value>(),
            "bad_lines_left_out": self.bad - self.bad_lines.len() as u64,
            "error": stopped,
        })
        .to_string()
    }
}
