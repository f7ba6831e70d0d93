//! The gateway's clock: what it is worth, and when what it says goes into the log.
//!
//! Holds always: the engine hears of the clock only what stands in the log, and nothing
//! is written that would change nothing. Until the clock is trusted, times run on from
//! what it said at the start, so that one step, told when it is trusted, puts all of them
//! right; once trusted it stays so until the end of the run. Bound: one record per
//! partition each [`CLOCK_SPACING_US`], two where the clock was set back. Knows no engine and no operating system. The
//! rules, and why: `agent/core/docs/clock.md`.

use std::collections::BTreeMap;

use crate::commit::GroupCommit;
use crate::engine::config::{EngineConfig, IdleAfter, JoinKind, JoinSource};
use crate::limits::{
    CLOCK_EVERY_US, CLOCK_PATIENCE_US, CLOCK_POLL_US, CLOCK_SPACING_US, CLOCK_TABLES_US,
};
use crate::log::bytes::{put_varint, zigzag};
use crate::log::key::TopicPartition;
use crate::log::topic::READINGS;
use crate::meta::{Entry, checked, with_crc};
use crate::record::{ClockRecord, ClockTrust};
use crate::units::{EventTime, Mono, Now, PartitionId, Span};
use crate::utc;

/// Meta key of the largest time that the clock was recorded with.
pub const CLOCK_META_KEY: &[u8] = b"clock";
const VERSION: u8 = 1;
/// A clock that is this far from where it would be had nobody touched it was set, us: no
/// clock drifts so far between a start and its first synchronisation.
const SET_US: i64 = 2_000_000;

/// What it takes for the clock to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustRule {
    /// Nothing: it is right.
    Always,
    /// The operating system says that it is synchronised, or it is plausible.
    Auto,
    /// The operating system says so.
    Synchronised,
}

/// When the gateway's clock is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockRules {
    pub trust: TrustRule,
    /// By [`TrustRule::Auto`], a clock that says less is not plausible.
    pub not_before: EventTime,
}

impl Default for ClockRules {
    fn default() -> Self {
        Self {
            trust: TrustRule::Always,
            not_before: EventTime(i64::MIN),
        }
    }
}

/// What the log says to one partition's engine.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    /// In this run, and when.
    last: Option<(EventTime, Mono)>,
    /// That the clock is not trusted.
    untrusted: bool,
    /// Of a clock so far ahead, that it does not hold.
    revoked: Option<EventTime>,
    /// When to look again.
    again: Option<Mono>,
}

impl Told {
    fn look_again(&mut self, at: u64) {
        let at = self.again.map_or(at, |before| before.0.min(at));
        self.again = Some(Mono(at));
    }
}

/// What one partition's engine knows of the clock, as far as it has read the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    pub now: Option<EventTime>,
    /// At this time of the clock a device falls idle, or at a later one.
    pub next_idle: Option<EventTime>,
    /// Something waits until a table is known past its time: each clock says so.
    pub waits: bool,
    /// It keeps readings whose time is not known.
    pub parks: bool,
}

/// See the module.
#[derive(Debug)]
pub struct GatewayClock {
    rules: ClockRules,
    /// How old a clock may be that a reading is judged by; `None` where there is nothing
    /// that falls idle.
    every_us: Option<u64>,
    guard_us: i64,
    started: Now,
    synchronised: bool,
    trusted: bool,
    recorded: Option<EventTime>,
    told: BTreeMap<PartitionId, Told>,
    poll_at: Mono,
    /// An operator was told that it is not trusted.
    is_told: bool,
}

impl GatewayClock {
    /// The clock of a run that starts now, on a log with these entries.
    #[must_use]
    pub fn new(rules: ClockRules, engine: &EngineConfig, meta: &[Entry], now: Now) -> Self {
        let quarter = match engine.time.idle_after {
            IdleAfter::Auto => CLOCK_EVERY_US,
            IdleAfter::After(span) => CLOCK_EVERY_US.min(span.0.unsigned_abs() / 4),
        };
        let every = if waits_for_tables(engine) {
            quarter.min(CLOCK_TABLES_US)
        } else {
            quarter
        };
        let computes = !engine.windows.is_empty() || !engine.joins.is_empty();
        let entry = meta.iter().find(|(key, _)| key == CLOCK_META_KEY);
        Self {
            rules,
            every_us: computes.then_some(every),
            guard_us: engine.time.future_guard.0,
            started: now,
            synchronised: false,
            trusted: false,
            recorded: entry.and_then(|(_, value)| parse(value)),
            told: BTreeMap::new(),
            poll_at: now.mono,
            is_told: false,
        }
    }

    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// The operating system says that the clock is synchronised.
    pub fn set_synchronised(&mut self) {
        self.synchronised = true;
    }

    /// What readings are stamped by: the clock, or while it is not trusted what it said
    /// at the start and the time since.
    #[must_use]
    pub fn stamp(&self, now: Now) -> Now {
        if self.trusted {
            return now;
        }
        let since = now.mono.0.wrapping_sub(self.started.mono.0).cast_signed();
        let utc = EventTime(self.started.utc.0.saturating_add(since));
        Now { utc, ..now }
    }

    /// Judges the clock; gives what an operator should hear of it. Partitions that have
    /// readings from before are told by how much these are wrong when it has just become
    /// trusted.
    pub fn judge(&mut self, now: Now, commit: &mut GroupCommit) -> Option<String> {
        if self.trusted {
            return None;
        }
        self.poll_at = Mono(now.mono.0.saturating_add(CLOCK_POLL_US));
        let before = self.stamp(now).utc;
        if !self.is_worth_trust(now, before) {
            let first = !std::mem::replace(&mut self.is_told, true);
            return first.then(|| self.why_not(now));
        }
        self.trusted = true;
        let step = Span(now.utc.0.saturating_sub(before.0));
        let waiting = self.told.iter().filter(|(_, told)| told.untrusted);
        let waiting: Vec<_> = waiting.map(|(partition, _)| *partition).collect();
        for partition in waiting {
            self.write(partition, ClockTrust::Since(step), now, commit);
        }
        let seconds = step.0 / 1_000_000;
        let was = self.is_told;
        was.then(|| format!("clock: trusted now; what came before is moved by {seconds} s"))
    }

    fn why_not(&self, now: Now) -> String {
        let text = |time: EventTime| {
            let mut out = Vec::new();
            utc::write_json(time, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        let why = match (self.rules.trust, self.recorded) {
            (TrustRule::Synchronised, _) => {
                String::from("the operating system does not say that it is synchronised")
            }
            (TrustRule::Always | TrustRule::Auto, Some(recorded)) if recorded > now.utc => {
                format!("the log knows of {}", text(recorded))
            }
            (TrustRule::Always | TrustRule::Auto, _) => {
                format!("that is before {}", text(self.rules.not_before))
            }
        };
        format!(
            "clock: it says {} and is not trusted ({why}): readings are kept, and their windows \
             wait until it is set or synchronised",
            text(now.utc)
        )
    }

    fn is_worth_trust(&self, now: Now, untouched: EventTime) -> bool {
        match self.rules.trust {
            TrustRule::Always => return true,
            TrustRule::Synchronised => return self.synchronised,
            TrustRule::Auto if self.synchronised => return true,
            TrustRule::Auto => {}
        }
        let was_set = now.utc.0.abs_diff(untouched.0) >= SET_US.unsigned_abs();
        let waited = now.mono.0.saturating_sub(self.started.mono.0) >= CLOCK_PATIENCE_US;
        let is_behind = self
            .recorded
            .is_some_and(|recorded| recorded.0 > now.utc.0.saturating_add(self.guard_us));
        now.utc >= self.rules.not_before && (!is_behind || was_set || waited)
    }

    /// Is called before a reading of this time is appended: writes the clock that it is
    /// to be judged by, where what stands there is too old.
    pub fn before_reading(
        &mut self,
        partition: PartitionId,
        time: EventTime,
        now: Now,
        commit: &mut GroupCommit,
    ) {
        let told = self.told.entry(partition).or_default();
        if !self.trusted {
            if !told.untrusted {
                self.write(partition, ClockTrust::No, now, commit);
            }
            return;
        }
        let Some((last, at)) = told.last else {
            return self.write(partition, ClockTrust::Yes, now, commit);
        };
        let age = now.mono.0.saturating_sub(at.0);
        let old = self.every_us.is_some_and(|every| age >= every);
        let ahead = time.0 > last.0.saturating_add(self.guard_us);
        if now.utc > last && age >= CLOCK_SPACING_US && (old || ahead) {
            self.write(partition, ClockTrust::Yes, now, commit);
        }
    }

    /// Forgets when to look again: what follows says it anew.
    pub fn rest(&mut self) {
        self.told.values_mut().for_each(|told| told.again = None);
    }

    /// Writes the clock where an engine that has heard so much waits for it.
    pub fn on_heard(
        &mut self,
        partition: PartitionId,
        heard: Heard,
        now: Now,
        commit: &mut GroupCommit,
    ) {
        if !self.trusted {
            return;
        }
        let told = self.told.entry(partition).or_default();
        let last = told.last;
        // So far ahead it cannot be put right by waiting, and nothing would fall idle.
        let limit = now.utc.0.saturating_add(self.guard_us);
        if let Some(wrong) = heard.now.filter(|heard| heard.0 > limit) {
            if told.revoked != Some(wrong) {
                told.revoked = Some(wrong);
                self.recorded = None;
                self.write(partition, ClockTrust::No, now, commit);
                self.write(partition, ClockTrust::Yes, now, commit);
            }
            return;
        }
        if heard.parks && last.is_none() {
            return self.write(partition, ClockTrust::Yes, now, commit);
        }
        // It says when it is over that something waits, whatever came since.
        let tables = last.filter(|_| heard.waits).map(|(last, at)| {
            let behind = last.0.saturating_sub(now.utc.0).max(-1).saturating_add(1);
            let spaced = at.0.saturating_add(CLOCK_TABLES_US);
            spaced.max(now.mono.0.saturating_add(behind.unsigned_abs()))
        });
        match tables {
            Some(at) if at > now.mono.0 => told.look_again(at),
            None if !heard.waits => {}
            Some(_) | None => return self.write(partition, ClockTrust::Yes, now, commit),
        }
        let Some(due) = heard.next_idle else {
            return;
        };
        // Else it is on its way already.
        if last.is_some_and(|(last, _)| last >= due) {
            return;
        }
        let wait = due.0.saturating_sub(now.utc.0).max(0).unsigned_abs();
        let spaced = last.map_or(0, |(_, at)| at.0.saturating_add(CLOCK_SPACING_US));
        let again = now.mono.0.saturating_add(wait).max(spaced);
        if again > now.mono.0 {
            told.look_again(again);
            return;
        }
        self.write(partition, ClockTrust::Yes, now, commit);
    }

    fn write(
        &mut self,
        partition: PartitionId,
        trust: ClockTrust,
        now: Now,
        commit: &mut GroupCommit,
    ) {
        let utc = self.stamp(now).utc;
        let at = TopicPartition {
            topic: READINGS,
            partition,
        };
        commit.clock(at, &ClockRecord { now: utc, trust }, now.mono);
        let told = self.told.entry(partition).or_default();
        told.untrusted = trust == ClockTrust::No;
        if told.untrusted {
            return;
        }
        told.last = Some((utc, now.mono));
        if self.recorded.is_none_or(|recorded| utc > recorded) {
            self.recorded = Some(utc);
            commit.meta(CLOCK_META_KEY.to_vec(), bytes(utc), now.mono);
        }
    }

    /// When [`GatewayClock::judge`] or [`GatewayClock::on_heard`] wants to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let poll = (!self.trusted).then_some(self.poll_at);
        let again = self.told.values().filter_map(|told| told.again);
        again.chain(poll).min()
    }

    /// The largest time recorded, as far as it is known.
    #[must_use]
    pub fn recorded(&self) -> Option<EventTime> {
        self.recorded
    }
}

/// Whether some lookup, or some key of a window, waits until a table is known.
fn waits_for_tables(engine: &EngineConfig) -> bool {
    let tables = engine.tables.iter();
    let comes: Vec<bool> = tables.map(|table| !table.is_static).collect();
    let does = |table: &u16| comes.get(usize::from(*table)).copied().unwrap_or(false);
    let mut columns = engine.windows.iter().flat_map(|window| &window.key_columns);
    let by_key = columns.any(|column| does(&column.table));
    by_key
        || engine
            .joins
            .iter()
            .any(|join| match (join.kind, join.right.from) {
                (JoinKind::Lookup { .. }, JoinSource::Table(table)) => does(&table),
                (JoinKind::Lookup { .. }, JoinSource::Readings | JoinSource::Window(_))
                | (JoinKind::Interval { .. } | JoinKind::Table, _) => false,
            })
}

fn bytes(time: EventTime) -> Vec<u8> {
    let mut value = vec![VERSION];
    put_varint(&mut value, zigzag(time.0));
    with_crc(value)
}

fn parse(value: &[u8]) -> Option<EventTime> {
    let mut reader = checked(VERSION, value)?;
    let time = EventTime(reader.zigzag().ok()?);
    reader.is_at_end().then_some(time)
}

#[cfg(test)]
mod tests;
