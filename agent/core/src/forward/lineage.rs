//! Which openings of the log are this gateway's own.
//!
//! A disk that was restored from a backup, or copied, opens the same epochs again, with
//! other nonces. What a receiver has of an opening that is not our own says nothing
//! about our records.
//!
//! Bound: OPENINGS_KEPT_MAX openings.

use crate::limits::OPENINGS_KEPT_MAX;
use crate::store::{Opening, StoreInfo};
use crate::units::{Epoch, LogId};

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Lineage {
    pub log_id: LogId,
    current: Opening,
    /// Oldest first, the current one at the end.
    openings: Vec<Opening>,
}

impl Lineage {
    pub(super) fn new(info: &StoreInfo, openings: &[Opening]) -> Self {
        let current = info.opening();
        let mut own = openings.to_vec();
        own.retain(|opening| opening.epoch < current.epoch);
        own.sort_unstable();
        own.push(current);
        own.drain(..own.len().saturating_sub(OPENINGS_KEPT_MAX));
        Self {
            log_id: info.log_id,
            current,
            openings: own,
        }
    }

    pub(super) fn current(&self) -> Opening {
        self.current
    }

    /// The nonce of an opening; 0 where it is not known any more.
    pub(super) fn nonce(&self, epoch: Epoch) -> u64 {
        let found = self.openings.iter().find(|opening| opening.epoch == epoch);
        found.map_or(0, |opening| opening.nonce)
    }

    /// Whether what a receiver has of this opening is ours. Of those before the known
    /// ones we do not say the nonce ourselves, so nobody else's is ours.
    pub(super) fn is_own(&self, epoch: Epoch, nonce: u64) -> bool {
        let known = self.openings.iter().any(|opening| opening.epoch == epoch);
        let before = self
            .openings
            .first()
            .is_some_and(|first| epoch < first.epoch);
        if known {
            nonce == self.nonce(epoch)
        } else {
            before && nonce == 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_is_known_by_its_nonce() {
        let info = StoreInfo {
            log_id: LogId([1; 16]),
            epoch: Epoch(9),
            nonce: 90,
        };
        let opening = |epoch, nonce| Opening {
            epoch: Epoch(epoch),
            nonce,
        };
        let lineage = Lineage::new(&info, &[opening(6, 60), opening(8, 80), opening(9, 91)]);
        for (name, epoch, nonce, own) in [
            ("this one", 9, 90, true),
            ("its clone", 9, 91, false),
            ("an earlier one", 8, 80, true),
            ("a clone of that", 8, 81, false),
            ("nobody said", 8, 0, false),
            ("one that left no trace", 7, 70, false),
            ("before all that is known", 5, 0, true),
            ("of another before that", 5, 50, false),
            ("one that is still to come", 10, 0, false),
        ] {
            assert_eq!(lineage.is_own(Epoch(epoch), nonce), own, "{name}");
        }
        assert_eq!(lineage.nonce(Epoch(8)), 80);
        assert_eq!(lineage.nonce(Epoch(7)), 0);
    }

    #[test]
    fn the_newest_openings_are_kept() {
        let most = OPENINGS_KEPT_MAX as u32;
        for (before, kept) in [(most - 2, most - 1), (most - 1, most), (most, most)] {
            let openings: Vec<_> = (1..=before)
                .map(|epoch| Opening {
                    epoch: Epoch(epoch),
                    nonce: 5,
                })
                .collect();
            let info = StoreInfo {
                log_id: LogId([1; 16]),
                epoch: Epoch(before + 1),
                nonce: 7,
            };
            let lineage = Lineage::new(&info, &openings);
            assert_eq!(lineage.openings.len() as u32, kept);
            assert_eq!(lineage.nonce(Epoch(before + 1)), 7);
        }
    }
}
