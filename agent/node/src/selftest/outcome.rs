//! What a run came to, and whether that is what was promised: figures in, a table, an
//! object of JSON and a verdict out. Pure.

use std::time::Duration;

use serde_json::{Value, json};

use super::limits::NAMED_MAX;
use crate::doctor::disk::SyncTimes;
use crate::table::columns;

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) seed: u64,
    pub(super) devices: u32,
    /// How long the devices sampled.
    pub(super) sampled: Duration,
    /// Readings that devices gave an ordinal; `None` after a power cut, which took their
    /// own count along.
    pub(super) produced: Option<u64>,
    /// Readings that they saw acked, or their gaps.
    pub(super) acked: u64,
    /// Readings still on the devices at the end.
    pub(super) waiting: u64,
    /// Readings in the gateway's log.
    pub(super) stored: u64,
    /// Readings that are declared as lost.
    pub(super) gaps: u64,
    /// Ordinals that are nowhere, of those that should be in the log by now.
    pub(super) lost: u64,
    /// Ordinals that a device saw acked and that were not in the log at some look.
    pub(super) lost_acked: u64,
    /// Ordinals that stand in the log more than once.
    pub(super) stored_twice: u64,
    /// Readings that the receiver applied, and those that it heard to be lost.
    pub(super) applied: u64,
    pub(super) applied_gaps: u64,
    /// Readings that came again and were dropped.
    pub(super) duplicates_link: u64,
    pub(super) duplicates_broker: u64,
    pub(super) late: u64,
    pub(super) quarantined: u64,
    /// Offsets that the log itself says are gone.
    pub(super) damaged: u64,
    pub(super) kills: u32,
    pub(super) restarts: u32,
    /// Faults that the cables made: bytes, stalls, unplugs.
    pub(super) faults: (u64, u64, u64),
    /// From the start of the first agent to the first ack.
    pub(super) first_ack: Duration,
    /// From each start after that to the next ack.
    pub(super) recovered: Vec<Duration>,
    pub(super) sync: Option<SyncTimes>,
    /// What went wrong beside the figures.
    pub(super) problems: Vec<String>,
    /// It was ended before its time.
    pub(super) is_cut_short: bool,
}

impl Outcome {
    /// Readings in the log that the receiver has not.
    pub(super) fn not_applied(&self) -> u64 {
        self.stored.saturating_sub(self.applied)
    }

    /// Readings that it applied more often than they are in the log.
    pub(super) fn applied_twice(&self) -> u64 {
        self.applied.saturating_sub(self.stored)
    }

    /// What is not as promised, each as a sentence. Empty: passed.
    pub(super) fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        let mut must_be_none = |count: u64, what: &str| {
            if count > 0 {
                failures.push(format!("{count} {what}"));
            }
        };
        must_be_none(
            self.lost_acked,
            "readings were acked to a device and not in the log",
        );
        must_be_none(self.lost, "readings are nowhere and not declared as lost");
        must_be_none(self.stored_twice, "readings stand in the log twice");
        must_be_none(
            self.not_applied(),
            "readings in the log did not reach the receiver",
        );
        must_be_none(self.applied_twice(), "readings were applied twice");
        must_be_none(self.waiting, "readings still wait on the devices");
        must_be_none(
            self.damaged,
            "records were durable once and are not in the log",
        );
        if self.gaps != self.applied_gaps {
            failures.push(format!(
                "{} readings are declared as lost, and the receiver heard of {}",
                self.gaps, self.applied_gaps
            ));
        }
        if self.stored == 0 {
            failures.push("no reading came through at all".to_owned());
        }
        failures.extend(self.problems.iter().take(NAMED_MAX).cloned());
        let more = self.problems.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            failures.push(format!("and {more} more"));
        }
        failures
    }

    pub(super) fn has_passed(&self) -> bool {
        !self.is_cut_short && self.failures().is_empty()
    }

    fn verdict(&self) -> &'static str {
        match (self.is_cut_short, self.has_passed()) {
            (true, _) => "none",
            (false, true) => "passed",
            (false, false) => "failed",
        }
    }

    /// For a program.
    pub(super) fn to_json(&self) -> Value {
        let (bytes, stalls, unplugs) = self.faults;
        json!({
            "verdict": self.verdict(),
            "seed": self.seed,
            "devices": self.devices,
            "sampled_s": self.sampled.as_secs_f64(),
            "produced": self.produced,
            "acked": self.acked,
            "waiting": self.waiting,
            "stored": self.stored,
            "gaps": self.gaps,
            "lost": self.lost,
            "lost_acked": self.lost_acked,
            "stored_twice": self.stored_twice,
            "applied": self.applied,
            "applied_gaps": self.applied_gaps,
            "not_applied": self.not_applied(),
            "applied_twice": self.applied_twice(),
            "duplicates_link": self.duplicates_link,
            "duplicates_broker": self.duplicates_broker,
            "late": self.late,
            "quarantined": self.quarantined,
            "damaged": self.damaged,
            "kills": self.kills,
            "restarts": self.restarts,
            "faults": { "bytes": bytes, "stalls": stalls, "unplugs": unplugs },
            "first_ack_ms": millis(self.first_ack),
            "recover_ms": {
                "count": self.recovered.len(),
                "median": self.recovered_at(50).map(millis),
                "max": self.recovered_at(100).map(millis),
            },
            "fsync_us": self.sync.as_ref().map(SyncTimes::to_json),
            "failures": self.failures(),
        })
    }

    fn recovered_at(&self, percent: usize) -> Option<Duration> {
        let mut sorted = self.recovered.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        sorted.get((last * percent).div_ceil(100)).copied()
    }

    /// For a person: one table, and the verdict under it.
    pub(super) fn text(&self) -> String {
        let row = |name: &str, figure: String| vec![name.to_owned(), figure];
        let count = |name: &str, figure: u64| vec![name.to_owned(), figure.to_string()];
        let mut rows = Vec::new();
        rows.extend(
            self.produced
                .map(|produced| count("produced by the devices", produced)),
        );
        rows.extend([
            count("acked to them", self.acked),
            count("in the gateway's log", self.stored),
            count("applied by the receiver", self.applied),
            count("declared gaps", self.gaps),
            count("lost", self.lost + self.lost_acked + self.not_applied()),
            count(
                "applied or stored twice",
                self.applied_twice() + self.stored_twice,
            ),
            count(
                "sent again and dropped",
                self.duplicates_link + self.duplicates_broker,
            ),
            count("late for their window", self.late),
        ]);
        if self.kills + self.restarts > 0 {
            rows.push(count("kills of the agent", u64::from(self.kills)));
            rows.push(count("clean restarts", u64::from(self.restarts)));
        }
        let (bytes, stalls, unplugs) = self.faults;
        if bytes + stalls + unplugs > 0 {
            rows.push(count("bytes spoiled on the line", bytes));
            rows.push(count("times the line hung", stalls));
            rows.push(count("times it was unplugged", unplugs));
        }
        rows.push(row("first ack after", seconds(self.first_ack)));
        if let (Some(median), Some(max)) = (self.recovered_at(50), self.recovered_at(100)) {
            rows.push(row("recovered within, median", seconds(median)));
            rows.push(row("recovered within, at most", seconds(max)));
        }
        if let Some(sync) = &self.sync {
            rows.push(row("fsync, median", millis_text(sync.median)));
            rows.push(row("fsync, 99 %", millis_text(sync.p99)));
            rows.push(row("fsync, at most", millis_text(sync.max)));
        }
        let mut text = columns(&rows);
        for failure in self.failures().iter().filter(|_| !self.is_cut_short) {
            text.push_str(&format!("\nnot as promised: {failure}"));
        }
        text + match (self.is_cut_short, self.has_passed()) {
            (true, _) => "\nverdict: none, it was ended before its time",
            (false, true) => "\nverdict: passed",
            (false, false) => "\nverdict: FAILED",
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn millis_text(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Outcome {
        Outcome {
            produced: Some(100),
            acked: 100,
            stored: 97,
            gaps: 3,
            applied: 97,
            applied_gaps: 3,
            recovered: [30, 10, 20].map(Duration::from_millis).into(),
            ..Outcome::default()
        }
    }

    #[test]
    fn a_run_without_a_fault_passes() {
        let outcome = good();
        assert_eq!(outcome.failures(), Vec::<String>::new());
        assert_eq!(outcome.to_json()["verdict"], "passed");
        assert!(outcome.text().ends_with("verdict: passed"));
        let recovered = &outcome.to_json()["recover_ms"];
        assert_eq!(
            (recovered["median"].clone(), recovered["max"].clone()),
            (20.into(), 30.into())
        );
    }

    #[test]
    fn each_broken_promise_fails_and_is_said() {
        type Break = fn(&mut Outcome);
        let rows: [(&str, Break, &str); 10] = [
            (
                "acked and gone",
                |o| o.lost_acked = 1,
                "1 readings were acked",
            ),
            ("gone", |o| o.lost = 2, "2 readings are nowhere"),
            (
                "twice in the log",
                |o| o.stored_twice = 1,
                "stand in the log twice",
            ),
            (
                "not received",
                |o| o.applied = 96,
                "1 readings in the log did not reach",
            ),
            (
                "received twice",
                |o| o.applied = 98,
                "1 readings were applied twice",
            ),
            ("waiting", |o| o.waiting = 7, "7 readings still wait"),
            ("damage", |o| o.damaged = 4, "4 records were durable"),
            (
                "a gap that nobody heard of",
                |o| o.applied_gaps = 2,
                "heard of 2",
            ),
            (
                "nothing",
                |o| (o.stored, o.applied) = (0, 0),
                "no reading came through",
            ),
            (
                "a problem",
                |o| o.problems.push("it broke".into()),
                "it broke",
            ),
        ];
        for (name, spoil, want) in rows {
            let mut outcome = good();
            spoil(&mut outcome);
            assert!(!outcome.has_passed(), "{name}");
            let text = outcome.text();
            assert!(
                text.contains(want) && text.ends_with("FAILED"),
                "{name}: {text}"
            );
            assert_eq!(outcome.to_json()["verdict"], "failed", "{name}");
        }
    }

    #[test]
    fn a_run_that_was_ended_early_has_no_verdict() {
        let outcome = Outcome {
            is_cut_short: true,
            waiting: 5,
            ..good()
        };
        assert!(!outcome.has_passed());
        assert_eq!(outcome.to_json()["verdict"], "none");
        assert!(
            !outcome.text().contains("not as promised"),
            "{}",
            outcome.text()
        );
    }

    #[test]
    fn problems_around_their_limit() {
        for (count, more) in [
            (NAMED_MAX - 1, false),
            (NAMED_MAX, false),
            (NAMED_MAX + 1, true),
        ] {
            let outcome = Outcome {
                problems: vec!["x".to_owned(); count],
                ..good()
            };
            let failures = outcome.failures();
            assert_eq!(
                failures.last().is_some_and(|last| last == "and 1 more"),
                more,
                "{count}"
            );
        }
    }
}
