//! What was applied of one partition of one log, per opening of it.
//!
//! Always holds: an offset is admitted at most once per opening, and what another
//! opening of the same number wrote is never taken for known. Bounds:
//! EPOCH_RUNS_MAX runs, OFFSET_RANGES_MAX ranges in each, MERGED_OPENINGS_MAX openings
//! named of a merged one. Why ranges and not a mark with a bitmap: see
//! `agent/core/docs/upstream.md`.

use super::ranges::OffsetRange;
use super::run::{Opening, Run};
use crate::limits::{EPOCH_RUNS_MAX, OFFSET_RANGES_MAX};
use crate::units::{Epoch, EpochNonce, Offset};

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

/// What is declared for this epoch, which no opening has, counts for all.
const NO_EPOCH: Epoch = Epoch(0);

/// Runs to store and to remove, by their first opening; each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    pub stored: Vec<Opening>,
    pub removed: Vec<Opening>,
}

impl Change {
    fn store(&mut self, opening: Opening) {
        self.removed.retain(|other| *other != opening);
        if !self.stored.contains(&opening) {
            self.stored.push(opening);
        }
    }

    fn remove(&mut self, opening: Opening) {
        self.stored.retain(|other| *other != opening);
        self.removed.push(opening);
    }
}

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Sorted by their first opening.
    runs: Vec<Run>,
}

impl History {
    /// A history as it was stored, in any order; `None` when two runs have one opening
    /// or there are too many.
    #[must_use]
    pub fn from_runs(mut runs: Vec<Run>) -> Option<Self> {
        runs.sort_by_key(|run| run.opening);
        let single = runs
            .windows(2)
            .all(|pair| pair[0].opening < pair[1].opening);
        let few = runs.len() <= EPOCH_RUNS_MAX
            && runs
                .iter()
                .all(|run| run.seen.as_slice().len() <= OFFSET_RANGES_MAX);
        runs.shrink_to_fit();
        (single && few).then_some(Self { runs })
    }

    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The run that starts with this opening.
    #[must_use]
    pub fn run(&self, opening: Opening) -> Option<&Run> {
        self.runs.iter().find(|run| run.opening == opening)
    }

    /// Number of ranges held, which is what a history costs.
    #[must_use]
    pub fn range_count(&self) -> usize {
        self.runs.iter().map(|run| run.seen.as_slice().len()).sum()
    }

    /// Highest opening of which something was applied.
    #[must_use]
    pub fn opening(&self) -> Option<Opening> {
        self.runs.iter().map(Run::highest).max()
    }

    /// Whether a message would make one range more.
    #[must_use]
    pub fn adds_range(&self, opening: Opening, range: OffsetRange) -> bool {
        let run = self.place(opening).map(|at| &self.runs[at]);
        run.is_none_or(|run| run.seen.count_after(range) > run.seen.as_slice().len())
    }

    /// All offsets below were applied, in whichever opening they were written.
    /// It stays below a hole of which nobody said that it will never be filled.
    #[must_use]
    pub fn next(&self) -> Offset {
        self.reach(Offset(0), |_| true)
    }

    /// The first offset from `from` on that none of the wanted runs has.
    fn reach(&self, from: Offset, wanted: impl Fn(&Run) -> bool) -> Offset {
        let mut next = from;
        loop {
            let runs = self.runs.iter().filter(|run| wanted(run));
            let grown = runs.fold(next, |at, run| run.seen.first_missing(at));
            if grown == next {
                return next;
            }
            next = grown;
        }
    }

    /// The offset after the last one that was applied.
    #[must_use]
    pub fn end(&self) -> Offset {
        let ends = self.runs.iter().filter_map(Run::end);
        ends.max().unwrap_or(Offset(0))
    }

    /// The first hole: where it begins, and where the first of what is known behind it
    /// does; equal when there is none. Of a log that is `forked`, what one opening has
    /// is no help to another of the same number or below: its own holes are holes too.
    #[must_use]
    pub fn hole(&self, is_forked: bool) -> (Offset, Offset) {
        let next = self.next();
        let ranges = self.runs.iter().flat_map(|run| run.seen.as_slice());
        let behind = ranges.map(|range| range.start()).filter(|at| *at > next);
        if let Some(until) = behind.min() {
            return (next, until);
        }
        let own = |run| self.own_hole(run);
        let holes = self.runs.iter().filter(|_| is_forked).filter_map(own);
        holes.min().unwrap_or((next, next))
    }

    /// The first hole inside of a run that no later opening has.
    fn own_hole(&self, run: &Run) -> Option<(Offset, Offset)> {
        let ranges = run.seen.as_slice();
        let epoch = run.highest().epoch;
        let own = |other: &Run| {
            let later = other.opening.epoch > epoch || other.opening.epoch == NO_EPOCH;
            other.opening == run.opening || later
        };
        let hole = self.reach(ranges.first()?.end(), own);
        let behind = ranges.iter().find(|range| range.start() > hole)?;
        Some((hole, behind.start()))
    }

    /// The runs that changed last, newest first, at most `most`.
    #[must_use]
    pub fn newest(&self, most: usize) -> Vec<&Run> {
        let mut runs: Vec<_> = self.runs.iter().collect();
        runs.sort_by_key(|run| std::cmp::Reverse((run.used, run.opening)));
        runs.truncate(most);
        runs
    }

    /// The run that offsets of this opening count in.
    fn place(&self, opening: Opening) -> Option<usize> {
        let (mut named, mut named_count, mut hidden) = (None, 0, None);
        for (at, run) in self.runs.iter().enumerate() {
            if run.has(opening) {
                return Some(at);
            }
            if run.has_epoch(opening.epoch) {
                named_count += 1;
                named = run.may_name(opening).then_some(at);
            } else if run.may_hide(opening.epoch) && opening.nonce == EpochNonce::UNKNOWN {
                hidden = Some(at);
            }
        }
        match named_count {
            0 => hidden,
            1 => named,
            // Whose it is nobody can tell any more: what all of them have together is
            // no reason to drop it.
            _ => None,
        }
    }

    /// Judges a message and, when it is taken, remembers it.
    pub fn admit(&mut self, opening: Opening, range: OffsetRange) -> (Verdict, Change) {
        let mut change = Change::default();
        let Some(at) = self.place(opening) else {
            return match self.grown(opening, range, &mut change) {
                Some(grown) => {
                    self.runs = grown;
                    let fresh = vec![range];
                    let duplicates = 0;
                    (Verdict::Apply { fresh, duplicates }, change)
                }
                None => (Verdict::Beyond, Change::default()),
            };
        };
        let newest = self.runs.iter().map(|run| run.used).max();
        let run = &mut self.runs[at];
        let fresh = run.seen.missing(range);
        if !fresh.is_empty() && run.seen.count_after(range) > OFFSET_RANGES_MAX {
            return (Verdict::Beyond, change);
        }
        // What only comes again counts as use as well, though it is not stored.
        if Some(run.used) != newest {
            run.used = newest.unwrap_or(0).saturating_add(1);
        }
        if !fresh.is_empty() {
            run.seen.insert(range);
            let before = run.opening;
            if run.learn(opening) && run.opening != before {
                change.remove(before);
            }
            change.store(run.opening);
            self.runs.sort_by_key(|run| run.opening);
        }
        let new: u64 = fresh.iter().map(|part| part.count()).sum();
        let duplicates = range.count() - new;
        (Verdict::Apply { fresh, duplicates }, change)
    }

    /// The runs with a new one, for which the ones unused for longest are merged when
    /// there are too many; `None` when that cannot be.
    fn grown(&self, opening: Opening, range: OffsetRange, change: &mut Change) -> Option<Vec<Run>> {
        let newest = self.runs.iter().map(|run| run.used).max();
        let run = Run {
            used: newest.map_or(0, |used| used.saturating_add(1)),
            ..Run::new(opening, range)
        };
        let at = self.runs.partition_point(|run| run.opening < opening);
        let mut runs = Vec::with_capacity(self.runs.len() + 1);
        runs.extend_from_slice(&self.runs[..at]);
        runs.push(run);
        runs.extend_from_slice(&self.runs[at..]);
        change.store(opening);
        if runs.len() > EPOCH_RUNS_MAX && !merge_unused(&mut runs, change) {
            return None;
        }
        Some(runs)
    }

    /// Judges offsets that will never come: fresh is what was applied in no opening,
    /// or, of a log that is `forked`, in none but this and those below its number.
    pub fn admit_missing(
        &mut self,
        opening: Opening,
        range: OffsetRange,
        is_forked: bool,
    ) -> (Verdict, Change) {
        let place = self.place(opening);
        let counts = |at: usize, run: &Run| {
            !is_forked || place == Some(at) || run.highest().epoch < opening.epoch
        };
        let runs = self.runs.iter().enumerate();
        let runs = runs.filter(|(at, run)| counts(*at, run));
        let fresh = runs.fold(vec![range], |parts, (_, run)| {
            let parts = parts.into_iter();
            parts.flat_map(|part| run.seen.missing(part)).collect()
        });
        let (verdict, change) = self.admit(opening, range);
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
}

/// Makes one run of the two that were unused for longest and whose ranges fit in one;
/// never of the newest, so a log that was forked and writes on keeps its own.
fn merge_unused(runs: &mut Vec<Run>, change: &mut Change) -> bool {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|at| (runs[*at].used, runs[*at].opening));
    order.pop();
    for pair in order.windows(2) {
        let merged = runs[pair[0]].merged(&runs[pair[1]]);
        if merged.seen.as_slice().len() > OFFSET_RANGES_MAX {
            continue;
        }
        change.remove(runs[pair[0]].opening);
        change.remove(runs[pair[1]].opening);
        change.store(merged.opening);
        let (low, high) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
        runs[low] = merged;
        runs.remove(high);
        return true;
    }
    false
}

#[cfg(test)]
mod tests;
