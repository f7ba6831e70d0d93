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

/// What becomes of few readings; all others are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Exceptions {
    pub(super) readings: u64,
    pub(super) late_all: u64,
    pub(super) late_partial: u64,
    pub(super) future: u64,
    pub(super) duplicate: u64,
}

impl Exceptions {
    pub(super) fn counters(&self) -> Counters {
        let set_aside = self.late_all + self.future + self.duplicate;
        Counters {
            readings: self.readings,
            accepted: self.readings - set_aside,
            late_all: self.late_all,
            late_partial: self.late_partial,
            future: self.future,
            duplicate: self.duplicate,
        }
    }
}

/// How much of a reading one operator took; the bits of all operators together are
/// its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Taken {
    /// It is in none of its windows, and late for none.
    Nothing = 0,
    All = 1,
    Some = 2,
    None = 4,
}

/// What became of one reading, by the operators that take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    LatePartial,
    LateAll,
}

impl Verdict {
    /// Without any operator it is accepted.
    pub(super) fn of(votes: u8) -> Self {
        const NONE: u8 = Taken::None as u8;
        const ALL: u8 = Taken::All as u8;
        match votes {
            0 | ALL => Self::Accepted,
            NONE => Self::LateAll,
            _ => Self::LatePartial,
        }
    }
}
