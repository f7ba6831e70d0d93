//! What was applied of one partition of one log, per write epoch.
//!
//! Always holds: an offset is admitted at most once per epoch; a run's epochs do
//! not overlap another's. Bounds: EPOCH_RUNS_MAX runs, OFFSET_RANGES_MAX ranges in
//! each. Why ranges and not a mark with a bitmap: see `agent/core/docs/upstream.md`.

use super::ranges::{OffsetRange, OffsetRanges};
use crate::limits::{EPOCH_RUNS_MAX, OFFSET_RANGES_MAX};
use crate::units::{Epoch, Offset};

/// What was applied of the epochs `first` to `last`, mostly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochRun {
    pub first: Epoch,
    pub last: Epoch,
    pub seen: OffsetRanges,
}

/// What to do with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Apply the offsets in `fresh`; `duplicates` others were applied before.
    /// `fresh` is empty when all were.
    Apply {
        fresh: Vec<OffsetRange>,
        duplicates: u64,
    },
    /// Not taken: too many holes are open to remember one more.
    Beyond,
    /// Not taken: as many partitions as may be known are known.
    Full,
}

/// Runs to store and to remove, by their first epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    pub stored: Vec<Epoch>,
    pub removed: Vec<Epoch>,
}

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Sorted by epoch.
    runs: Vec<EpochRun>,
}

impl History {
    /// A history as it was stored; `None` when runs overlap or are too many.
    #[must_use]
    pub fn from_runs(runs: Vec<EpochRun>) -> Option<Self> {
        let ordered = runs.iter().all(|run| run.first <= run.last)
            && runs.windows(2).all(|pair| pair[0].last < pair[1].first);
        let few = runs.len() <= EPOCH_RUNS_MAX
            && runs
                .iter()
                .all(|run| run.seen.as_slice().len() <= OFFSET_RANGES_MAX);
        (ordered && few).then_some(Self { runs })
    }

    #[must_use]
    pub fn runs(&self) -> &[EpochRun] {
        &self.runs
    }

    /// The run that starts with this epoch.
    #[must_use]
    pub fn run(&self, first: Epoch) -> Option<&EpochRun> {
        self.runs.iter().find(|run| run.first == first)
    }

    /// Number of ranges held, which is what a history costs.
    #[must_use]
    pub fn range_count(&self) -> usize {
        self.runs.iter().map(|run| run.seen.as_slice().len()).sum()
    }

    /// Highest epoch of which something was applied.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.runs.last().map(|run| run.last)
    }

    /// Whether a message would make one range more.
    #[must_use]
    pub fn adds_range(&self, epoch: Epoch, range: OffsetRange) -> bool {
        let at = self.runs.partition_point(|run| run.last < epoch);
        let run = self.runs.get(at).filter(|run| run.first <= epoch);
        run.is_none_or(|run| run.seen.count_after(range) > run.seen.as_slice().len())
    }

    /// All offsets below were applied, in whichever epoch they were written.
    /// It stays below a hole of which nobody said that it will never be filled.
    #[must_use]
    pub fn next(&self) -> Offset {
        let mut next = Offset(0);
        loop {
            let grown = self
                .runs
                .iter()
                .fold(next, |at, run| run.seen.first_missing(at));
            if grown == next {
                return next;
            }
            next = grown;
        }
    }

    /// The offset after the last one that was applied.
    #[must_use]
    pub fn end(&self) -> Offset {
        let ends = self
            .runs
            .iter()
            .filter_map(|run| run.seen.as_slice().last());
        ends.map(|range| range.end()).max().unwrap_or(Offset(0))
    }

    /// Judges a message and, when it is taken, remembers it.
    pub fn admit(&mut self, epoch: Epoch, range: OffsetRange) -> (Verdict, Change) {
        let beyond = (Verdict::Beyond, Change::default());
        let at = self.runs.partition_point(|run| run.last < epoch);
        if let Some(run) = self.runs.get_mut(at).filter(|run| run.first <= epoch) {
            let fresh = run.seen.missing(range);
            if !fresh.is_empty() && run.seen.count_after(range) > OFFSET_RANGES_MAX {
                return beyond;
            }
            let mut change = Change::default();
            if !fresh.is_empty() {
                run.seen.insert(range);
                change.stored.push(run.first);
            }
            let new: u64 = fresh.iter().map(|part| part.count()).sum();
            let duplicates = range.count() - new;
            return (Verdict::Apply { fresh, duplicates }, change);
        }
        let mut seen = OffsetRanges::default();
        seen.insert(range);
        let run = EpochRun {
            first: epoch,
            last: epoch,
            seen,
        };
        let mut grown = self.clone();
        grown.runs.insert(at, run);
        let mut change = Change::default();
        if grown.runs.len() > EPOCH_RUNS_MAX && !grown.merge_oldest(&mut change) {
            return beyond;
        }
        // The merge may have taken the new run in.
        if !change.removed.contains(&epoch) && !change.stored.contains(&epoch) {
            change.stored.push(epoch);
        }
        *self = grown;
        let fresh = vec![range];
        let duplicates = 0;
        (Verdict::Apply { fresh, duplicates }, change)
    }

    /// Judges offsets that will never come: fresh is what was applied in no epoch.
    pub fn admit_missing(&mut self, epoch: Epoch, range: OffsetRange) -> (Verdict, Change) {
        let fresh = self.runs.iter().fold(vec![range], |parts, run| {
            let parts = parts.into_iter();
            parts.flat_map(|part| run.seen.missing(part)).collect()
        });
        let (verdict, change) = self.admit(epoch, range);
        let verdict = match verdict {
            Verdict::Apply { .. } => {
                let new: u64 = fresh.iter().map(|part: &OffsetRange| part.count()).sum();
                let duplicates = range.count() - new;
                Verdict::Apply { fresh, duplicates }
            }
            Verdict::Beyond | Verdict::Full => verdict,
        };
        (verdict, change)
    }

    /// Makes one run of the two oldest neighbours whose ranges fit in one.
    fn merge_oldest(&mut self, change: &mut Change) -> bool {
        for at in 1..self.runs.len() {
            let mut merged = self.runs[at - 1].clone();
            for range in self.runs[at].seen.as_slice() {
                merged.seen.insert(*range);
            }
            if merged.seen.as_slice().len() <= OFFSET_RANGES_MAX {
                merged.last = self.runs[at].last;
                change.removed.push(self.runs[at].first);
                change.stored.push(merged.first);
                self.runs[at - 1] = merged;
                self.runs.remove(at);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> OffsetRange {
        OffsetRange::new(Offset(start), Offset(end)).unwrap()
    }

    fn fresh(verdict: &Verdict) -> Vec<(u64, u64)> {
        match verdict {
            Verdict::Apply { fresh, .. } => {
                fresh.iter().map(|r| (r.start().0, r.end().0)).collect()
            }
            Verdict::Beyond | Verdict::Full => panic!("{verdict:?}"),
        }
    }

    #[test]
    fn what_is_missing_is_fresh_only_where_nothing_was_applied() {
        let mut history = History::default();
        history.admit(Epoch(1), range(10, 20));
        history.admit(Epoch(3), range(20, 25));
        history.admit(Epoch(3), range(40, 50));
        for (name, epoch, (start, end), want, next) in [
            ("a hole at the start", 3, (0, 10), vec![(0, 10)], 25),
            (
                "over what older epochs applied",
                3,
                (5, 30),
                vec![(25, 30)],
                30,
            ),
            ("again", 3, (5, 30), vec![], 30),
            ("again, by a later opening", 4, (0, 45), vec![(30, 40)], 50),
            ("past the end", 4, (50, 60), vec![(50, 60)], 60),
        ] {
            let (verdict, _) = history.admit_missing(Epoch(epoch), range(start, end));
            assert_eq!(fresh(&verdict), want, "{name}");
            assert_eq!(history.next(), Offset(next), "{name}");
        }
        // A first delivery of an older epoch still counts.
        let (verdict, _) = history.admit(Epoch(1), range(5, 8));
        assert_eq!(fresh(&verdict), [(5, 8)]);
    }

    #[test]
    fn what_is_fresh_and_how_far_it_is_whole() {
        let mut history = History::default();
        for (name, epoch, (start, end), want, next) in [
            ("first", 1, (0, 10), vec![(0, 10)], 10),
            ("again", 1, (0, 10), vec![], 10),
            ("overlap", 1, (5, 15), vec![(10, 15)], 15),
            ("behind a hole", 1, (20, 30), vec![(20, 30)], 15),
            ("late first delivery", 1, (15, 20), vec![(15, 20)], 30),
            ("new epoch goes on", 2, (30, 40), vec![(30, 40)], 40),
            (
                "new epoch, a hole before it",
                3,
                (50, 60),
                vec![(50, 60)],
                40,
            ),
            (
                "the hole was the old epoch's",
                2,
                (40, 50),
                vec![(40, 50)],
                60,
            ),
            (
                "below the first seen of its epoch",
                3,
                (45, 50),
                vec![(45, 50)],
                60,
            ),
            (
                "an offset written again after a lost tail",
                4,
                (55, 70),
                vec![(55, 70)],
                70,
            ),
            ("old epoch again", 1, (20, 30), vec![], 70),
            ("an epoch between", 0, (0, 5), vec![(0, 5)], 70),
        ] {
            let (verdict, change) = history.admit(Epoch(epoch), range(start, end));
            assert_eq!(fresh(&verdict), want, "{name}");
            assert_eq!(history.next(), Offset(next), "{name}");
            assert_eq!(change.stored.is_empty(), want.is_empty(), "{name}");
        }
        assert_eq!(history.epoch(), Some(Epoch(4)));
    }

    #[test]
    fn holes_at_the_limit() {
        let mut history = History::default();
        for n in 0..OFFSET_RANGES_MAX as u64 {
            let (verdict, _) = history.admit(Epoch(1), range(2 * n + 1, 2 * n + 2));
            assert_eq!(fresh(&verdict).len(), 1, "range {n}");
        }
        let before = history.clone();
        let far = 2 * OFFSET_RANGES_MAX as u64 + 1;
        let (verdict, change) = history.admit(Epoch(1), range(far, far + 1));
        assert_eq!(verdict, Verdict::Beyond);
        assert_eq!((&history, change), (&before, Change::default()));
        // What is known stays a duplicate, what fills a hole is taken, and then
        // there is room.
        assert_eq!(fresh(&history.admit(Epoch(1), range(1, 2)).0), []);
        assert_eq!(fresh(&history.admit(Epoch(1), range(0, 1)).0), [(0, 1)]);
        assert_eq!(fresh(&history.admit(Epoch(1), range(2, 3)).0), [(2, 3)]);
        let (verdict, _) = history.admit(Epoch(1), range(far, far + 1));
        assert_eq!(fresh(&verdict), [(far, far + 1)]);
    }

    #[test]
    fn epochs_at_the_limit_merge_the_oldest() {
        let mut history = History::default();
        let part = |n: u32| range(u64::from(n) * 10, u64::from(n) * 10 + 10);
        let max = EPOCH_RUNS_MAX as u32;
        for n in 0..max {
            let (_, change) = history.admit(Epoch(n), part(n));
            assert_eq!((change.stored, change.removed), (vec![Epoch(n)], vec![]));
        }
        assert_eq!(history.runs().len(), EPOCH_RUNS_MAX);
        let (_, change) = history.admit(Epoch(max), part(max));
        assert_eq!(change.stored, [Epoch(0), Epoch(max)]);
        assert_eq!(change.removed, [Epoch(1)]);
        assert_eq!(history.runs().len(), EPOCH_RUNS_MAX);
        for n in 0..=max {
            let (verdict, _) = history.admit(Epoch(n), part(n));
            assert_eq!(fresh(&verdict), [], "epoch {n} again");
        }
        assert_eq!(history.next(), Offset(u64::from(max) * 10 + 10));
        let again = History::from_runs(history.runs().to_vec());
        assert_eq!(again, Some(history));
    }

    #[test]
    fn a_merge_may_take_the_new_run_in() {
        let mut history = History::default();
        for n in 1..=EPOCH_RUNS_MAX as u32 {
            history.admit(Epoch(n), range(10, 20));
        }
        let (verdict, change) = history.admit(Epoch(0), range(0, 10));
        assert_eq!(fresh(&verdict), [(0, 10)]);
        assert_eq!(change.stored, [Epoch(0)]);
        assert_eq!(change.removed, [Epoch(1)]);
    }
}
