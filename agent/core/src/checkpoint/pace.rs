//! When the next checkpoint is due. Times are the caller's.
//!
//! Live: 5 s after the first change, or after so many readings, rows or changed bytes,
//! whichever comes first, and soon after a window fired. The larger the last one was, the
//! longer the next one waits, so that what is written of a state keeps below a rate: a state
//! of many series changes as a whole with each few readings of all. While a reader catches up, a
//! crash costs the time since the last one whatever is written in it, and so time and
//! rows alone count: else a state of many series would be written again for each few
//! readings, and writing it would be all that is done.

use crate::limits::{
    CHECKPOINT_BYTES, CHECKPOINT_BYTES_PER_S, CHECKPOINT_EVERY_US, CHECKPOINT_READINGS,
    CHECKPOINT_ROWS, CHECKPOINT_SPACING_US,
};
use crate::units::Mono;

/// What happened since the last checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    last: Mono,
    /// For how long that one pays, us.
    paid_us: u64,
    changed_at: Option<Mono>,
    fired_at: Option<Mono>,
    readings: u64,
    rows: u64,
}

impl Pace {
    /// Nothing has changed since `now`.
    #[must_use]
    pub fn new(now: Mono) -> Self {
        Self::after(0, now)
    }

    /// One of so many bytes was taken.
    #[must_use]
    pub fn after(bytes: u64, now: Mono) -> Self {
        let paid_us = bytes.saturating_mul(1_000_000) / CHECKPOINT_BYTES_PER_S;
        Self {
            last: now,
            paid_us: paid_us.min(CHECKPOINT_EVERY_US),
            changed_at: None,
            fired_at: None,
            readings: 0,
            rows: 0,
        }
    }

    /// So many readings were taken, which gave so many rows.
    pub fn on_fed(&mut self, (readings, rows): (u64, u64), fired: bool, now: Mono) {
        self.changed_at.get_or_insert(now);
        self.readings += readings;
        self.rows += rows;
        if fired {
            self.fired_at.get_or_insert(now);
        }
    }

    /// Whether anything changed.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.changed_at.is_some()
    }

    /// Readings since the last one.
    #[must_use]
    pub fn readings(&self) -> u64 {
        self.readings
    }

    /// When the last one was.
    #[must_use]
    pub fn last(&self) -> Mono {
        self.last
    }

    /// Whether to write one with the batch that is cut now: `bytes` of state have
    /// changed, and `behind` durable readings were not taken yet.
    #[must_use]
    pub fn is_due(&self, bytes: u64, behind: u64, now: Mono) -> bool {
        let Some(changed_at) = self.changed_at else {
            return false;
        };
        let long_ago = now.0 >= changed_at.0.saturating_add(CHECKPOINT_EVERY_US);
        if long_ago || self.rows >= CHECKPOINT_ROWS {
            return true;
        }
        if behind > CHECKPOINT_READINGS || now < self.paid() {
            return false;
        }
        let fired = self.fired_at.is_some_and(|_| now >= self.spaced());
        fired || self.readings >= CHECKPOINT_READINGS || bytes >= CHECKPOINT_BYTES
    }

    /// When one is due though nothing else happens; none while readers are behind, as
    /// batches come then anyway.
    #[must_use]
    pub fn deadline(&self, behind: u64) -> Option<Mono> {
        let every = Mono(self.changed_at?.0.saturating_add(CHECKPOINT_EVERY_US));
        let fired = self.fired_at.filter(|_| behind <= CHECKPOINT_READINGS);
        let fired = fired.map(|at| at.max(self.spaced()).max(self.paid()));
        Some(fired.map_or(every, |fired| fired.min(every)))
    }

    fn paid(&self) -> Mono {
        Mono(self.last.0.saturating_add(self.paid_us))
    }

    fn spaced(&self) -> Mono {
        Mono(self.last.0.saturating_add(CHECKPOINT_SPACING_US))
    }
}
