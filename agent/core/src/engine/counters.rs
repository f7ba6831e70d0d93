//! One verdict per reading, counted: accepted + late_all + future + duplicate =
//! ingested.

/// What became of the readings of one device, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// All readings given, whatever became of them.
    pub readings: u64,
    pub accepted: u64,
    /// Refused by every window of every operator that takes it.
    pub late_all: u64,
    /// Refused by some; part of accepted.
    pub late_partial: u64,
    /// Set aside because its time is too far ahead.
    pub future: u64,
    /// Its identity was seen before.
    pub duplicate: u64,
}

impl Counters {
    /// The counters with their names, in the order in which they are shown.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("readings", self.readings),
            ("accepted", self.accepted),
            ("late_all", self.late_all),
            ("late_partial", self.late_partial),
            ("future", self.future),
            ("duplicate", self.duplicate),
        ]
    }

    /// Whether every reading has its verdict.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.accepted + self.late_all + self.future + self.duplicate == self.readings
    }
}

/// What became of one reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    LatePartial,
    LateAll,
    Future,
    Duplicate,
}

impl Counters {
    pub(super) fn count(&mut self, verdict: Verdict) {
        self.readings += 1;
        match verdict {
            Verdict::Accepted => self.accepted += 1,
            Verdict::LatePartial => {
                self.accepted += 1;
                self.late_partial += 1;
            }
            Verdict::LateAll => self.late_all += 1,
            Verdict::Future => self.future += 1,
            Verdict::Duplicate => self.duplicate += 1,
        }
    }
}

/// How much of a reading one operator took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    All,
    Some,
    None,
}

/// The verdict over all operators that take the reading; without any it is accepted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Votes {
    whole: bool,
    partly: bool,
    refused: bool,
}

impl Votes {
    pub(super) fn vote(&mut self, taken: Taken) {
        match taken {
            Taken::All => self.whole = true,
            Taken::Some => self.partly = true,
            Taken::None => self.refused = true,
        }
    }

    pub(super) fn verdict(self) -> Verdict {
        match (self.whole, self.partly, self.refused) {
            (false, false, true) => Verdict::LateAll,
            (_, true, _) | (true, _, true) => Verdict::LatePartial,
            (_, false, false) => Verdict::Accepted,
        }
    }
}
