//! The account of one boot of one device: which ordinals were taken, which are durable,
//! and what is known of the boot beside them.

use forebay_wire::ids::Ordinal;
use forebay_wire::message::ResetCause;

use super::Counts;
use crate::record::GapReason;
use crate::units::EventTime;

/// The account of one boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// First ordinal that was not taken yet.
    pub taken: u64,
    /// First ordinal that is not durable yet: what an ack may say.
    pub durable: u64,
    pub counts: Counts,
    /// Place among the boots of the device, in the order in which they were heard of.
    pub nth: u64,
    /// Ordinals that the device says to have given out; see [`Account::produced`].
    pub said: u64,
    /// Of its Hello; `None` when none was heard, as of an import.
    pub reset_cause: Option<ResetCause>,
    /// Smallest and largest time of its readings, as far as the gateway's clock was
    /// trusted.
    pub times: Option<(EventTime, EventTime)>,
}

/// What a run of ordinals from the link is to the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// The first `skip` were taken before; the rest is new and in order.
    Fresh { skip: u64 },
    /// All of it was taken before.
    Known,
    /// Something before it is missing: go-back-N sends it again.
    Ahead { missing_from: Ordinal },
}

impl Account {
    /// Judges `count` ordinals from `first` on.
    #[must_use]
    pub fn judge(&self, first: Ordinal, count: u64) -> Run {
        let end = first.0.saturating_add(count);
        if first.0 > self.taken {
            Run::Ahead {
                missing_from: Ordinal(self.taken),
            }
        } else if end <= self.taken {
            Run::Known
        } else {
            Run::Fresh {
                skip: self.taken - first.0,
            }
        }
    }

    /// Ordinals that the device is known to have given out.
    #[must_use]
    pub fn produced(&self) -> u64 {
        self.said.max(self.taken)
    }

    /// Ordinals that the device gave out and that are not here yet.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.produced() - self.taken
    }

    /// Counts as lost what was taken and is nothing else.
    pub(super) fn close(&mut self) {
        let rest = self.taken.saturating_sub(self.counts.ordinals());
        self.counts.lost += rest;
    }

    /// Counts `count` new readings.
    pub fn take_readings(&mut self, count: u64) {
        self.taken += count;
        self.counts.readings += count;
    }

    /// A reading of this boot happened then, by a trusted clock.
    pub fn note_time(&mut self, time: EventTime) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
    }

    /// Closes a boot with a gap of `count` ordinals up to `end`. What lies between
    /// was acked by a log that lost it, or by the one before this.
    pub fn take_last_gap(&mut self, reason: GapReason, end: Ordinal, count: u64) {
        let first = end.0.saturating_sub(count);
        self.counts.lost += first.saturating_sub(self.taken);
        self.taken = end.0;
        let sum = &mut self.counts.gaps[reason as usize];
        *sum = sum.saturating_add(count);
    }

    /// Counts a new gap of `count` ordinals.
    pub fn take_gap(&mut self, reason: GapReason, count: u64) {
        self.taken = self.taken.saturating_add(count);
        let sum = &mut self.counts.gaps[reason as usize];
        *sum = sum.saturating_add(count);
    }
}
