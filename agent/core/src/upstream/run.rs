//! What was applied of one opening of a log in one partition, or of several that were
//! merged.
//!
//! Always holds: a merged run names its openings, so that an opening that is not among
//! them is never taken for one of them by its number alone. Bound:
//! MERGED_OPENINGS_MAX; what is forgotten beyond that is known by its number only, and
//! only to messages that do not say their nonce.

use super::ranges::{OffsetRange, OffsetRanges};
use crate::limits::MERGED_OPENINGS_MAX;
use crate::units::{Epoch, EpochNonce, Offset};

/// One opening of a log for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opening {
    pub epoch: Epoch,
    /// 0 where it is not known.
    pub nonce: EpochNonce,
}

impl Opening {
    /// Whether both are surely two: disks of one log that went separate ways.
    #[must_use]
    pub fn forks(self, other: Self) -> bool {
        let known = self.nonce != EpochNonce::UNKNOWN && other.nonce != EpochNonce::UNKNOWN;
        self.epoch == other.epoch && known && self.nonce != other.nonce
    }
}

/// See the module's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The lowest opening, mostly the only one.
    pub opening: Opening,
    /// Epochs from that of `opening` to this one whose opening is not named are in it as
    /// well.
    pub last: Epoch,
    /// Grows with each change of another run of the partition: which are newest.
    pub used: u32,
    pub seen: OffsetRanges,
    /// Other openings, sorted; at most MERGED_OPENINGS_MAX.
    pub others: Option<Box<[Opening]>>,
}

impl Run {
    #[must_use]
    pub fn new(opening: Opening, range: OffsetRange) -> Self {
        Self {
            opening,
            last: opening.epoch,
            used: 0,
            seen: OffsetRanges::from(range),
            others: None,
        }
    }

    /// All openings that it names, sorted.
    pub fn openings(&self) -> impl DoubleEndedIterator<Item = Opening> + '_ {
        let others = self.others.iter().flat_map(|others| others.iter());
        std::iter::once(self.opening).chain(others.copied())
    }

    /// The highest opening in it.
    #[must_use]
    pub fn highest(&self) -> Opening {
        let named = self.openings().next_back().unwrap_or(self.opening);
        let unnamed = Opening {
            epoch: self.last,
            nonce: EpochNonce::UNKNOWN,
        };
        if self.last > named.epoch {
            unnamed
        } else {
            named
        }
    }

    /// The offset after the last one.
    #[must_use]
    pub fn end(&self) -> Option<Offset> {
        self.seen.as_slice().last().map(|range| range.end())
    }

    /// Whether it names this very opening.
    #[must_use]
    pub fn has(&self, opening: Opening) -> bool {
        self.openings().any(|own| own == opening)
    }

    /// Whether it names an opening of this number.
    #[must_use]
    pub fn has_epoch(&self, epoch: Epoch) -> bool {
        self.openings().any(|own| own.epoch == epoch)
    }

    /// Whether an opening of its own can be this one, as far as nonces are known.
    #[must_use]
    pub fn may_name(&self, opening: Opening) -> bool {
        let unknown = EpochNonce::UNKNOWN;
        self.openings().any(|own| {
            own.epoch == opening.epoch && (own.nonce == unknown || opening.nonce == unknown)
        })
    }

    /// Whether an opening of this number can be in it without being named.
    #[must_use]
    pub fn may_hide(&self, epoch: Epoch) -> bool {
        self.opening.epoch <= epoch && epoch <= self.last
    }

    /// Takes over the nonce of an opening whose number only was known. True when
    /// something changed.
    pub fn learn(&mut self, opening: Opening) -> bool {
        if opening.nonce == EpochNonce::UNKNOWN || self.has(opening) {
            return false;
        }
        let unknown =
            |own: &Opening| own.epoch == opening.epoch && own.nonce == EpochNonce::UNKNOWN;
        if unknown(&self.opening) {
            self.opening = opening;
            return true;
        }
        let others = self.others.iter_mut().flat_map(|others| others.iter_mut());
        let mut others = others.filter(|own| unknown(own));
        match others.next() {
            Some(own) => {
                *own = opening;
                true
            }
            None => false,
        }
    }

    /// Both as one.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        let mut openings: Vec<_> = self.openings().chain(other.openings()).collect();
        openings.sort_unstable();
        openings.dedup();
        let first = openings.remove(0);
        let runs = [self, other].into_iter().filter(|run| run.has_unnamed());
        let unnamed = runs.map(|run| run.last).max();
        let mut last = unnamed.unwrap_or(first.epoch);
        let too_many = openings.len().saturating_sub(MERGED_OPENINGS_MAX);
        if let Some(forgotten) = openings.drain(..too_many).next_back() {
            last = last.max(forgotten.epoch);
        }
        let mut seen = self.seen.clone();
        for range in other.seen.as_slice() {
            seen.insert(*range);
        }
        Self {
            opening: first,
            last,
            used: self.used.max(other.used),
            seen,
            others: (!openings.is_empty()).then(|| openings.into()),
        }
    }

    fn has_unnamed(&self) -> bool {
        self.last > self.opening.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(epoch: u32, nonce: u64) -> Opening {
        Opening {
            epoch: Epoch(epoch),
            nonce: EpochNonce(nonce),
        }
    }

    fn run(epoch: u32, nonce: u64, start: u64) -> Run {
        let range = OffsetRange::new(Offset(start), Offset(start + 10)).unwrap();
        Run::new(opening(epoch, nonce), range)
    }

    #[test]
    fn merged_runs_name_their_openings_up_to_the_limit_and_forget_the_lowest() {
        let mut sum = run(0, 7, 0);
        for epoch in 1..=MERGED_OPENINGS_MAX as u32 + 2 {
            let own = opening(epoch, 100 + u64::from(epoch));
            sum = sum.merged(&run(epoch, own.nonce.0, 10 * u64::from(epoch)));
            assert!(sum.has(own) && sum.has(opening(0, 7)), "{epoch}");
            assert_eq!(sum.highest(), own);
            let forgotten = epoch.saturating_sub(MERGED_OPENINGS_MAX as u32);
            assert_eq!(sum.last, Epoch(forgotten), "{epoch}");
        }
        // Forgotten ones are known by their number only.
        assert!(!sum.has_epoch(Epoch(1)) && sum.may_hide(Epoch(1)) && sum.may_hide(Epoch(2)));
        assert!(!sum.may_hide(Epoch(3)) && sum.has_epoch(Epoch(3)));
        assert_eq!(sum.seen.as_slice().len(), 1);
    }

    #[test]
    fn a_nonce_is_learned_once() {
        let mut sum = run(1, 0, 0).merged(&run(2, 0, 10));
        for (name, learned, changes) in [
            ("not known", opening(1, 0), false),
            ("first", opening(1, 5), true),
            ("again", opening(1, 5), false),
            ("another", opening(1, 6), false),
            ("second", opening(2, 9), true),
            ("not here", opening(3, 9), false),
        ] {
            assert_eq!(sum.learn(learned), changes, "{name}");
        }
        let openings: Vec<_> = sum.openings().collect();
        assert_eq!(openings, [opening(1, 5), opening(2, 9)]);
        assert!(opening(1, 5).forks(opening(1, 6)) && !opening(1, 5).forks(opening(1, 0)));
        assert!(!opening(1, 5).forks(opening(2, 6)) && !opening(1, 5).forks(opening(1, 5)));
    }
}
