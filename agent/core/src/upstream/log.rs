//! What was applied of one log of a gateway: its partitions, and the openings by which
//! a disk that was restored or cloned is known.
//!
//! Always holds: two openings of one number and other nonces make a log forked, until
//! their runs are forgotten. Bound: ACK_MARKS_MAX partitions, LOG_OPENINGS_MAX openings.

use super::history::History;
use super::run::{Opening, Run};
use crate::limits::LOG_OPENINGS_MAX;
use crate::payload::StreamName;
use crate::units::{EpochNonce, PartitionId};

/// A partition of a stream.
pub type Place = (StreamName, PartitionId);

/// See the module's text.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// Sorted: half of the memory of a map, and partitions are few.
    partitions: Vec<(Place, History)>,
    /// Of all partitions, sorted; only those whose nonce is known.
    openings: Vec<Opening>,
    is_forked: bool,
}

impl Log {
    /// Puts a partition there as it was stored.
    pub fn restore(&mut self, place: Place, history: History) {
        let runs = history.runs().iter();
        let openings: Vec<_> = runs.flat_map(Run::openings).collect();
        for opening in openings {
            self.note(opening);
        }
        self.insert(place, history);
    }

    /// Remembers an opening; true when it is the first sign of another disk: another
    /// opening of its number is known.
    pub fn note(&mut self, opening: Opening) -> bool {
        if opening.nonce == EpochNonce::UNKNOWN {
            return false;
        }
        let Err(at) = self.openings.binary_search(&opening) else {
            return false;
        };
        let forks = self.openings.iter().any(|known| known.forks(opening));
        self.openings.insert(at, opening);
        if self.openings.len() > LOG_OPENINGS_MAX {
            self.openings.remove(0);
        }
        self.is_forked |= forks;
        forks
    }

    /// Disks of it went separate ways.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        self.is_forked
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.partitions.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    #[must_use]
    pub fn get(&self, place: &Place) -> Option<&History> {
        let at = self.find(place).ok()?;
        Some(&self.partitions[at].1)
    }

    pub fn get_mut(&mut self, place: &Place) -> Option<&mut History> {
        let at = self.find(place).ok()?;
        Some(&mut self.partitions[at].1)
    }

    pub fn insert(&mut self, place: Place, history: History) {
        match self.find(&place) {
            Ok(at) => self.partitions[at].1 = history,
            Err(at) => {
                let place = self.sharing(place, at);
                self.partitions.insert(at, (place, history));
            }
        }
    }

    fn find(&self, place: &Place) -> Result<usize, usize> {
        self.partitions
            .binary_search_by(|(known, _)| known.cmp(place))
    }

    pub fn partitions(&self) -> impl Iterator<Item = (&Place, &History)> {
        self.partitions
            .iter()
            .map(|(place, history)| (place, history))
    }

    /// The place, for the index `at`, with the name that other partitions of its stream
    /// have: one copy in memory.
    fn sharing(&self, (stream, partition): Place, at: usize) -> Place {
        let beside = [at.checked_sub(1), Some(at)].into_iter().flatten();
        let mut beside = beside.filter_map(|at| self.partitions.get(at));
        match beside.find(|((known, _), _)| *known == stream) {
            Some(((known, _), _)) => (known.clone(), partition),
            None => (stream, partition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Epoch;

    #[test]
    fn openings_at_their_limit_forget_the_lowest_and_forks_stay() {
        let opening = |epoch: usize, nonce| Opening {
            epoch: Epoch(u32::try_from(epoch).unwrap()),
            nonce: EpochNonce(nonce),
        };
        let mut log = Log::default();
        for epoch in 1..=LOG_OPENINGS_MAX {
            assert!(!log.note(opening(epoch, 5)), "{epoch}");
            assert!(!log.note(opening(epoch, 0)) && !log.note(opening(epoch, 5)));
        }
        assert_eq!(
            (log.openings.len(), log.is_forked()),
            (LOG_OPENINGS_MAX, false)
        );
        assert!(log.note(opening(7, 6)) && log.is_forked());
        assert!(!log.note(opening(7, 6)), "it is known by now");
        assert_eq!(log.openings.len(), LOG_OPENINGS_MAX);
        assert_eq!(log.openings[0], opening(2, 5));
        assert!(!log.note(opening(1, 6)), "the first one is forgotten");
    }
}
