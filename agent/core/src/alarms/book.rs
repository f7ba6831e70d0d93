//! The alarms that there are: what began and what is over, told once each.
//!
//! Holds always: an alarm is known by its code and its subject. Bound:
//! [`ALARMS_PER_CODE_MAX`] per code; what is beyond is counted, and makes the health what
//! it is all the same. Knows no rule.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::code::{Code, Severity};
use crate::limits::{ALARM_NOTES_MAX, ALARMS_PER_CODE_MAX};
use crate::record::Row;
use crate::units::{EventTime, Mono, Now};
use crate::utc::time_value;

/// An alarm that there is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub code: Code,
    pub subject: String,
    pub severity: Severity,
    /// Since when it is so.
    pub since: Mono,
    /// What is wrong, where, and what to do.
    pub text: String,
}

impl Found {
    fn key(&self) -> Key {
        (self.code, self.subject.clone())
    }
}

type Key = (Code, String);

/// What is to be told.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// For the topic `control`.
    pub rows: Vec<Row>,
    /// For the operator.
    pub notes: Vec<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Book {
    active: BTreeMap<Key, Found>,
    left_out: usize,
    health: Option<Severity>,
    /// When they were judged last.
    at: Option<Now>,
}

/// What the clock said at `mono`, seen from now: it follows a clock that is set.
fn utc_of(mono: Mono, now: Now) -> EventTime {
    let ago = now.mono.0.saturating_sub(mono.0);
    let ago = i64::try_from(ago).unwrap_or(i64::MAX);
    EventTime(now.utc.0.saturating_sub(ago))
}

impl Book {
    /// Takes all alarms that there are now; says what has changed.
    pub(super) fn take(&mut self, found: Vec<Found>, now: Now) -> Told {
        self.health = found.iter().map(|found| found.severity).max();
        self.at = Some(now);
        let all = found.len();
        let mut found: BTreeMap<Key, Found> = found.into_iter().map(|f| (f.key(), f)).collect();
        let mut told = Told::default();
        let over = self
            .active
            .extract_if(.., |key, _| !found.contains_key(key));
        let over: Vec<Found> = over.map(|(_, alarm)| alarm).collect();
        // One alarm for all takes the place of those of each, and the other way round.
        let is_merged = |code: Code| found.keys().any(|(other, _)| *other == code);
        for alarm in &over {
            told.rows.push(row(alarm, "cleared", now));
            if !alarm.code.facts().is_told && !is_merged(alarm.code) {
                told.notes.push(over_note(alarm, now.mono));
            }
        }
        for (key, alarm) in &mut self.active {
            if let Some(news) = found.remove(key) {
                *alarm = news;
            }
        }
        let mut counts: BTreeMap<Code, usize> = BTreeMap::new();
        for (code, _) in self.active.keys() {
            *counts.entry(*code).or_default() += 1;
        }
        for (key, alarm) in found {
            let count = counts.entry(alarm.code).or_default();
            if *count >= ALARMS_PER_CODE_MAX {
                continue;
            }
            *count += 1;
            told.rows.push(row(&alarm, "raised", now));
            if !alarm.code.facts().is_told {
                told.notes.push(note(&alarm));
            }
            self.active.insert(key, alarm);
        }
        self.left_out = all.saturating_sub(self.active.len());
        shorten(&mut told.notes);
        told
    }

    /// All that are kept, the worst first.
    pub(super) fn active(&self) -> impl Iterator<Item = &Found> {
        let worst = [Severity::Failed, Severity::Degraded].into_iter();
        worst.flat_map(|severity| {
            let all = self.active.values();
            all.filter(move |alarm| alarm.severity == severity)
        })
    }

    /// How many there are beyond those.
    #[must_use]
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    /// `ok`, `degraded` or `failed`: what the worst alarm is.
    #[must_use]
    pub(super) fn health(&self) -> &'static str {
        self.health.map_or("ok", Severity::name)
    }

    /// All of them as JSON; members in `agent/node/docs/alarms.md`.
    #[must_use]
    pub(super) fn status(&self, now: Mono) -> Value {
        let Some(at) = self.at else {
            return json!([]);
        };
        let alarms = self.active().map(|alarm| {
            json!({
                "code": alarm.code.name(),
                "severity": alarm.severity.name(),
                "subject": alarm.subject,
                "since": time_value(utc_of(alarm.since, at)),
                "age_us": now.0.saturating_sub(alarm.since.0),
                "text": alarm.text,
                "runbook": alarm.code.runbook(),
            })
        });
        alarms.collect()
    }
}

fn row(alarm: &Found, state: &str, now: Now) -> Row {
    let line = json!({
        "kind": "alarm",
        "state": state,
        "code": alarm.code.name(),
        "severity": alarm.severity.name(),
        "subject": alarm.subject,
        "since": time_value(utc_of(alarm.since, now)),
        "at": time_value(now.utc),
        "text": alarm.text,
    });
    Row {
        time: now.utc,
        line: line.to_string().into_bytes(),
    }
}

fn note(alarm: &Found) -> String {
    format!("alarm {}, {}: {}", alarm.code, alarm.subject, alarm.text)
}

fn over_note(alarm: &Found, now: Mono) -> String {
    let seconds = now.0.saturating_sub(alarm.since.0) / 1_000_000;
    format!(
        "alarm {}, {}: over, after {seconds} s",
        alarm.code, alarm.subject
    )
}

/// A second in which much happens is some sentences and a number.
fn shorten(notes: &mut Vec<String>) {
    let more = notes.len().saturating_sub(ALARM_NOTES_MAX);
    if more > 0 {
        notes.truncate(ALARM_NOTES_MAX);
        notes.push(format!(
            "{more} more alarms have begun or are over: see `forebay alarms`"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(seconds: u64) -> Now {
        Now {
            mono: Mono(seconds * 1_000_000),
            utc: EventTime((1_000 + seconds as i64) * 1_000_000),
        }
    }

    fn found(code: Code, subject: &str, since: u64) -> Found {
        Found {
            code,
            subject: subject.to_owned(),
            severity: code.facts().severity,
            since: now(since).mono,
            text: String::from("it is wrong"),
        }
    }

    #[test]
    fn an_alarm_is_told_once_and_when_it_is_over() {
        let mut book = Book::default();
        let alarm = found(Code::PortLost, "p1", 2);
        let told = book.take(vec![alarm.clone()], now(5));
        assert_eq!(told.notes, ["alarm port-lost, p1: it is wrong"]);
        let line = std::str::from_utf8(&told.rows[0].line).expect("JSON");
        assert_eq!(
            line,
            "{\"kind\":\"alarm\",\"state\":\"raised\",\"code\":\"port-lost\",\
             \"severity\":\"degraded\",\"subject\":\"p1\",\"since\":\"1970-01-01T00:16:42Z\",\
             \"at\":\"1970-01-01T00:16:45Z\",\"text\":\"it is wrong\"}"
        );
        assert_eq!(book.take(vec![alarm], now(6)), Told::default());
        assert_eq!(book.health(), "degraded");
        let status = book.status(now(7).mono);
        assert_eq!(status[0]["code"], "port-lost");
        assert_eq!(status[0]["age_us"], 5_000_000);
        assert_eq!(status[0]["runbook"], "alarms.md#port-lost");
        let over = book.take(Vec::new(), now(9));
        assert_eq!(over.notes, ["alarm port-lost, p1: over, after 7 s"]);
        assert_eq!(over.rows.len(), 1);
        assert_eq!((book.health(), book.status(now(9).mono)), ("ok", json!([])));
    }

    #[test]
    fn one_for_all_takes_the_place_of_each_without_a_word_of_their_end() {
        let mut book = Book::default();
        let each = ["a", "b"].map(|name| found(Code::IngestStalled, name, 1));
        book.take(each.to_vec(), now(2));
        let told = book.take(vec![found(Code::IngestStalled, "all devices", 1)], now(3));
        assert_eq!(told.notes.len(), 1, "{told:?}");
        assert_eq!(told.rows.len(), 3, "{told:?}");
        assert_eq!(book.active().count(), 1);
    }

    #[test]
    fn alarms_of_a_code_at_their_limit() {
        for count in [
            ALARMS_PER_CODE_MAX - 1,
            ALARMS_PER_CODE_MAX,
            ALARMS_PER_CODE_MAX + 1,
        ] {
            let mut book = Book::default();
            let all = (0..count).map(|n| found(Code::DeviceGaps, &format!("d{n:04}"), 1));
            let mut all: Vec<_> = all.collect();
            all.push(found(Code::LogFull, "readings", 1));
            let told = book.take(all.clone(), now(2));
            let kept = count.min(ALARMS_PER_CODE_MAX);
            assert_eq!(book.active().count(), kept + 1, "{count}");
            assert_eq!(book.left_out(), count - kept, "{count}");
            assert_eq!(told.rows.len(), kept + 1, "{count}");
            assert_eq!(told.notes.len(), ALARM_NOTES_MAX + 1, "{count}");
            assert_eq!(book.health(), "failed");
            let worst = book.active().next().map(|alarm| alarm.code);
            assert_eq!(worst, Some(Code::LogFull));
            // One goes: what was left out takes its place.
            all.remove(0);
            book.take(all, now(3));
            assert_eq!(book.active().count(), (count - 1).min(kept) + 1, "{count}");
        }
    }

    #[test]
    fn notes_of_one_second_at_their_limit() {
        for count in [ALARM_NOTES_MAX - 1, ALARM_NOTES_MAX, ALARM_NOTES_MAX + 1] {
            let mut book = Book::default();
            let all = (0..count).map(|n| found(Code::DeviceGaps, &format!("d{n:04}"), 1));
            let told = book.take(all.collect(), now(2));
            let want = count.min(ALARM_NOTES_MAX) + usize::from(count > ALARM_NOTES_MAX);
            assert_eq!(told.notes.len(), want, "{count}");
        }
    }

    #[test]
    fn since_follows_a_clock_that_is_set() {
        let mut book = Book::default();
        book.take(vec![found(Code::PortLost, "p1", 2)], now(5));
        let set = Now {
            mono: now(6).mono,
            utc: EventTime(100_000_000_000),
        };
        book.take(vec![found(Code::PortLost, "p1", 2)], set);
        let since = &book.status(set.mono)[0]["since"];
        assert_eq!(*since, time_value(EventTime(99_996_000_000)));
    }
}
