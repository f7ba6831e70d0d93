//! Makes partitions of `samples` before rows for them come.
//!
//! Always holds: a partition that cannot be made now is no reason not to write: its
//! rows go to the default partition, and move out of it when a later batch makes it,
//! with readings of its time or without.
//! Bounds: those of `periods`, of which a batch makes PARTITIONS_PER_BATCH_MAX. What is
//! still to be made is forgotten with the process: the next reading of its time asks again.

use std::collections::BTreeSet;
use std::time::Duration;

use forebay_core::record::Record;
use forebay_core::units::EventTime;
use forebay_core::upstream::batch::Applied;
use postgres::{Client, Transaction};

use super::encode::fresh_records;
use super::layout::DEFAULT_TABLE;
use super::limits::{ATTACH_PAUSE, ATTACH_TIMEOUT, PARTITIONS_PER_BATCH_MAX};
use super::periods::{Period, next, wanted};
use crate::config::PartitionSize;

/// The partitions that there are, as last seen.
#[derive(Debug)]
pub(super) struct Partitions {
    size: PartitionSize,
    have: Vec<Period>,
    /// Those that readings have asked for.
    missing: BTreeSet<Period>,
    /// When the last try had to wait for too long.
    gave_up: Option<EventTime>,
}

impl Partitions {
    pub(super) fn load(client: &mut Client, size: PartitionSize) -> Result<Self, postgres::Error> {
        let mut transaction = client.transaction()?;
        let have = periods(&mut transaction)?;
        transaction.commit()?;
        Ok(Self {
            size,
            have,
            missing: BTreeSet::new(),
            gave_up: None,
        })
    }

    /// Makes those that the readings of a batch need, and the next one; the newest first.
    ///
    /// # Errors
    /// When one cannot be made for another reason than that others hold locks.
    pub(super) fn make_for(
        &mut self,
        client: &mut Client,
        applied: &[Applied],
        now: EventTime,
    ) -> Result<(), postgres::Error> {
        self.missing = self.missing(applied, now);
        if self.missing.is_empty() || self.pauses(now) {
            return Ok(());
        }
        self.gave_up = None;
        let newest = self.missing.iter().rev().take(PARTITIONS_PER_BATCH_MAX);
        for period in newest.copied().collect::<Vec<_>>() {
            match self.make(client, period) {
                Ok(have) => self.have = have,
                Err(error) if is_busy(&error) => {
                    self.gave_up = Some(now);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            self.missing.remove(&period);
        }
        Ok(())
    }

    /// A clock that was set back ends it.
    fn pauses(&self, now: EventTime) -> bool {
        self.gave_up.is_some_and(|from| {
            let since = u64::try_from(now.0.saturating_sub(from.0));
            since.is_ok_and(|since| Duration::from_micros(since) < ATTACH_PAUSE)
        })
    }

    fn missing(&self, applied: &[Applied], now: EventTime) -> BTreeSet<Period> {
        let mut missing = BTreeSet::new();
        let mut note = |time: EventTime, last: &mut Option<Period>| {
            if last.is_some_and(|last| last.contains(time)) {
                return;
            }
            *last = wanted(self.size, time, now, &self.have);
            missing.extend(last.filter(|period| !self.have.contains(period)));
        };
        let mut last = None;
        for earlier in &self.missing {
            note(earlier.start, &mut last);
        }
        for applied in applied {
            for (_, record) in fresh_records(applied) {
                if let Record::Reading(reading) = record {
                    note(reading.time, &mut last);
                }
            }
        }
        if let Some(time) = next(self.size, now) {
            note(time, &mut last);
        }
        missing
    }

    /// Makes one; gives all that there are then.
    fn make(&self, client: &mut Client, period: Period) -> Result<Vec<Period>, postgres::Error> {
        let mut transaction = client.transaction()?;
        transaction.batch_execute(&format!(
            "SET LOCAL lock_timeout TO {}; \
             SELECT pg_advisory_xact_lock('samples'::regclass::oid::int8)",
            ATTACH_TIMEOUT.as_millis()
        ))?;
        let mut have = periods(&mut transaction)?;
        // Another worker may have made it, or one that overlaps it.
        let free = |other: &Period| other.end <= period.start || period.end <= other.start;
        if have.iter().all(free) {
            attach(&mut transaction, period)?;
            have.push(period);
        }
        transaction.commit()?;
        Ok(have)
    }
}

/// Attaching needs a lock that readers and writers of the table do not mind; only the
/// default partition is locked whole, and shortly.
fn attach(transaction: &mut Transaction<'_>, period: Period) -> Result<(), postgres::Error> {
    let (table, bounds, range) = (period.table(), period.bounds(), period.range());
    transaction.batch_execute(&format!(
        "CREATE TABLE {table} (LIKE samples INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE);
         LOCK TABLE {DEFAULT_TABLE} IN ACCESS EXCLUSIVE MODE;
         WITH moved AS (DELETE FROM {DEFAULT_TABLE} WHERE {range} RETURNING *)
         INSERT INTO {table} SELECT * FROM moved;
         ALTER TABLE samples ATTACH PARTITION {table} FOR VALUES {bounds}"
    ))
}

/// The partitions with bounds, sorted.
fn periods(transaction: &mut Transaction<'_>) -> Result<Vec<Period>, postgres::Error> {
    // The catalog has bounds as text only: that text is SQL, and the server reads it.
    let sql = "SELECT pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i \
               JOIN pg_class c ON c.oid = i.inhrelid \
               WHERE i.inhparent = to_regclass('samples')";
    let mut found = Vec::new();
    for row in transaction.query(sql, &[])? {
        let text: String = row.get(0);
        let mut quoted = text.split('\'').skip(1).step_by(2);
        if let (Some(start), Some(end)) = (quoted.next(), quoted.next()) {
            found.extend(instant(start).zip(instant(end)));
        }
    }
    let mut periods: Vec<_> = found
        .into_iter()
        .map(|(start, end)| Period { start, end })
        .collect();
    periods.sort_unstable();
    Ok(periods)
}

/// Reads `2026-11-30 00:00:00+00`: the session's time zone is UTC.
fn instant(text: &str) -> Option<EventTime> {
    let (date, time) = text.split_once(' ')?;
    let time = time.strip_suffix("+00")?;
    forebay_core::utc::parse(&format!("{date}T{time}Z"))
}

/// Another session holds a lock for longer than is waited.
fn is_busy(error: &postgres::Error) -> bool {
    use postgres::error::SqlState;
    error.code().is_some_and(|code| {
        *code == SqlState::LOCK_NOT_AVAILABLE || *code == SqlState::T_R_DEADLOCK_DETECTED
    })
}
