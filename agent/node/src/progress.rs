//! Progress of a long command on standard error: a bar on a terminal, nothing
//! elsewhere. Lines for the operator go around it.

use std::io::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a sign of life moves.
const TICK: Duration = Duration::from_millis(200);

/// A command's progress, in bytes or records.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Starts a bar; without a total there is a count alone.
    #[must_use]
    pub fn bytes(total: Option<u64>) -> Self {
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}",
            ),
            None => (
                ProgressBar::no_length(),
                "{spinner} {bytes} {bytes_per_sec} {msg}",
            ),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Starts a bar that counts records.
    #[must_use]
    pub fn records(total: u64) -> Self {
        let bar = ProgressBar::new(total);
        let template = "{bar:30} {human_pos}/{human_len} readings {per_sec} {eta} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Starts a bar that counts steps of a known number; `what` they are of.
    #[must_use]
    pub fn steps(total: u64, what: &str) -> Self {
        let bar = ProgressBar::new(total);
        let template = format!("{{bar:30}} {{human_pos}}/{{human_len}} {what} {{eta}} {{msg}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Starts a count without an end; `what` is counted.
    #[must_use]
    pub fn count(what: &str) -> Self {
        let bar = ProgressBar::no_length();
        let template = format!("{{spinner}} {{human_pos}} {what} {{elapsed}} {{msg}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// A sign that something goes on of which nobody knows how far it is.
    #[must_use]
    pub fn waiting(what: &str) -> Self {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Shows nothing where `shown` is false: a program reads the command's output.
    #[must_use]
    pub fn shown(self, shown: bool) -> Self {
        if !shown {
            self.0.set_draw_target(ProgressDrawTarget::hidden());
        }
        self
    }

    /// How far it is.
    pub fn set(&self, bytes: u64) {
        self.0.set_position(bytes);
    }

    /// A word beside the bar.
    pub fn say(&self, what: String) {
        self.0.set_message(what);
    }

    /// Writes a line to standard error, above the bar.
    pub fn line(&self, text: &str) {
        self.0.suspend(|| {
            // When even this cannot be written, the exit code remains.
            let _ = writeln!(std::io::stderr(), "{text}");
        });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
