//! What a source has read and could not use, for `forebay status`. Counts since the
//! start of the process; what became changes, the core counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::limits::TOLD_MAX;

/// See the module.
#[derive(Debug, Default)]
pub struct Figures {
    /// Lines, messages or records that were read.
    read: AtomicU64,
    malformed: AtomicU64,
    /// Of other tables, or about no row.
    passed: AtomicU64,
    /// Known already by their place in the database's own log, or sent again.
    repeated: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Figures {
    pub fn count_read(&self) {
        self.read.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_passed(&self) {
        self.passed.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_repeated(&self) {
        self.repeated.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_malformed(&self, error: &str) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
        let last = self.last_error.lock();
        *last.unwrap_or_else(PoisonError::into_inner) = Some(error.to_owned());
    }

    #[must_use]
    pub fn to_json(&self) -> Value {
        let last = self.last_error.lock();
        let last = last.unwrap_or_else(PoisonError::into_inner);
        json!({
            "read": self.read.load(Ordering::Relaxed),
            "malformed": self.malformed.load(Ordering::Relaxed),
            "passed_over": self.passed.load(Ordering::Relaxed),
            "sent_again": self.repeated.load(Ordering::Relaxed),
            "last_error": *last,
        })
    }
}

/// Keeps a source full of errors from filling the operator's screen: each is told, up
/// to [`TOLD_MAX`] a minute; how many were not follows with the next.
#[derive(Debug, Default)]
pub(super) struct Teller {
    since: Option<Instant>,
    told: u32,
    silent: u64,
}

const MINUTE: Duration = Duration::from_secs(60);

impl Teller {
    /// The sentence to be told of an error, if it is one to be told.
    pub(super) fn tell(&mut self, error: &str, now: Instant) -> Option<String> {
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) >= MINUTE {
            self.since = Some(now);
            self.told = 0;
        }
        if self.told == TOLD_MAX {
            self.silent += 1;
            return None;
        }
        self.told += 1;
        Some(match std::mem::take(&mut self.silent) {
            0 => error.to_owned(),
            silent => format!("{error}; {silent} more before it were not told"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_up_to_their_limit() {
        let start = Instant::now();
        let mut teller = Teller::default();
        for n in 1..=TOLD_MAX + 1 {
            let told = teller.tell("bad", start);
            assert_eq!(told.is_some(), n <= TOLD_MAX, "{n}");
        }
        let almost = start + MINUTE.saturating_sub(Duration::from_nanos(1));
        assert_eq!(teller.tell("bad", almost), None);
        let next = teller.tell("bad", start + MINUTE).unwrap();
        assert_eq!(next, "bad; 2 more before it were not told");
    }

    #[test]
    fn figures_are_shown() {
        let figures = Figures::default();
        figures.count_read();
        figures.count_malformed("line 1: bad");
        let shown = figures.to_json();
        assert_eq!(
            (&shown["read"], &shown["malformed"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(shown["last_error"], "line 1: bad");
    }
}
