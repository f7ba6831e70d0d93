//! The steps of a run: each is printed with its name when it starts and its
//! time when it ends, and the first that fails ends the run.

use std::fmt;
use std::time::{Duration, Instant};

/// Why a run ended: the step, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) step: String,
    pub(crate) why: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.why)
    }
}

/// Times of the steps so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    done: Vec<(String, Duration)>,
}

impl Report {
    /// Runs one step. `Err` of `work` is the reason, in words for the user.
    ///
    /// # Errors
    /// The reason of `work`, with the name of the step.
    pub(crate) fn step<T>(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, Failed> {
        println!("==> {name}");
        let start = Instant::now();
        let result = work();
        let took = start.elapsed();
        self.done.push((name.to_owned(), took));
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        println!("    {name}: {word} in {}", seconds(took));
        result.map_err(|why| Failed {
            step: name.to_owned(),
            why,
        })
    }

    /// The table of all steps with their times.
    pub(crate) fn say_times(&self) {
        println!();
        for (name, took) in &self.done {
            println!("{:>9}  {name}", seconds(*took));
        }
        let total = self.done.iter().map(|(_, took)| *took).sum();
        println!("{:>9}  together", seconds(total));
    }

    /// What failed, on stderr, after everything that the step printed itself.
    pub(crate) fn say_failed(&self, failed: &Failed) {
        eprintln!("\nfailed step: {failed}");
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_is_named_with_its_reason() {
        let mut report = Report::default();
        assert!(report.step("first", || Ok(1)).is_ok());
        let failed = report
            .step::<()>("second", || Err("disk is full".to_owned()))
            .unwrap_err();
        assert_eq!(failed.to_string(), "second: disk is full");
        assert_eq!(report.done.len(), 2);
    }
}
