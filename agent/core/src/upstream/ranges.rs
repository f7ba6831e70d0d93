//! A set of offsets as ranges.
//!
//! Always holds: the ranges are sorted, not empty, and neither overlap nor touch.
//! Bound: set by who inserts ([`OffsetRanges::count_after`]).

use crate::units::Offset;

/// Offsets from `start` up to but not including `end`; never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OffsetRange {
    start: Offset,
    end: Offset,
}

impl OffsetRange {
    /// `[start, end)`; `None` when it would be empty.
    #[must_use]
    pub fn new(start: Offset, end: Offset) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }

    /// From the first to the last, both included; `None` when `last` is before
    /// `first` or is the one offset that no record can have.
    #[must_use]
    pub fn inclusive(first: Offset, last: Offset) -> Option<Self> {
        Self::new(first, Offset(last.0.checked_add(1)?))
    }

    #[must_use]
    pub fn start(self) -> Offset {
        self.start
    }

    #[must_use]
    pub fn end(self) -> Offset {
        self.end
    }

    /// Number of offsets, at least 1.
    #[must_use]
    pub fn count(self) -> u64 {
        self.end.0 - self.start.0
    }

    #[must_use]
    pub fn contains(self, offset: Offset) -> bool {
        self.start <= offset && offset < self.end
    }
}

/// See the module's text. One range, what most partitions have, takes no memory of its
/// own.
#[derive(Debug, Clone, Default)]
pub struct OffsetRanges(Held);

#[derive(Debug, Clone, Default)]
enum Held {
    #[default]
    None,
    One([OffsetRange; 1]),
    Many(Vec<OffsetRange>),
}

impl PartialEq for OffsetRanges {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for OffsetRanges {}

impl From<OffsetRange> for OffsetRanges {
    fn from(range: OffsetRange) -> Self {
        Self(Held::One([range]))
    }
}

impl OffsetRanges {
    /// Takes ranges that keep the order described above; `None` when they do not.
    #[must_use]
    pub fn from_sorted(ranges: Vec<OffsetRange>) -> Option<Self> {
        let sorted = ranges.windows(2).all(|pair| pair[0].end < pair[1].start);
        sorted.then(|| Self::held(ranges))
    }

    fn held(ranges: Vec<OffsetRange>) -> Self {
        Self(match ranges[..] {
            [] => Held::None,
            [one] => Held::One([one]),
            _ => Held::Many(ranges),
        })
    }

    #[must_use]
    pub fn as_slice(&self) -> &[OffsetRange] {
        match &self.0 {
            Held::None => &[],
            Held::One(one) => one,
            Held::Many(ranges) => ranges,
        }
    }

    /// The parts of `range` that are not in the set, in order.
    #[must_use]
    pub fn missing(&self, range: OffsetRange) -> Vec<OffsetRange> {
        let mut out = Vec::new();
        let mut at = range.start;
        for seen in &self.as_slice()[self.touching(range)] {
            out.extend(OffsetRange::new(at, seen.start));
            at = at.max(seen.end);
        }
        out.extend(OffsetRange::new(at, range.end));
        out
    }

    /// Number of ranges that the set would have with `range` in it.
    #[must_use]
    pub fn count_after(&self, range: OffsetRange) -> usize {
        self.as_slice().len() + 1 - self.touching(range).len()
    }

    /// Adds all offsets of `range`.
    pub fn insert(&mut self, range: OffsetRange) {
        let touching = self.touching(range);
        let mut merged = range;
        for seen in &self.as_slice()[touching.clone()] {
            merged.start = merged.start.min(seen.start);
            merged.end = merged.end.max(seen.end);
        }
        let mut ranges = match std::mem::take(&mut self.0) {
            Held::None => Vec::new(),
            Held::One(_) if touching.len() == 1 => {
                *self = Self::from(merged);
                return;
            }
            Held::One(one) => one.to_vec(),
            Held::Many(ranges) => ranges,
        };
        ranges.splice(touching, [merged]);
        *self = Self::held(ranges);
    }

    /// The first offset from `at` on that is not in the set.
    #[must_use]
    pub fn first_missing(&self, at: Offset) -> Offset {
        let ranges = self.as_slice();
        let after = ranges.partition_point(|seen| seen.end <= at);
        match ranges.get(after) {
            Some(seen) if seen.contains(at) => seen.end,
            Some(_) | None => at,
        }
    }

    /// Indices of the ranges that overlap `range` or touch it.
    fn touching(&self, range: OffsetRange) -> std::ops::Range<usize> {
        let ranges = self.as_slice();
        let from = ranges.partition_point(|seen| seen.end < range.start);
        let to = ranges.partition_point(|seen| seen.start <= range.end);
        from..to
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    pub(crate) fn range(start: u64, end: u64) -> OffsetRange {
        OffsetRange::new(Offset(start), Offset(end)).unwrap()
    }

    fn set(pairs: &[(u64, u64)]) -> OffsetRanges {
        OffsetRanges::from_sorted(pairs.iter().map(|&(a, b)| range(a, b)).collect()).unwrap()
    }

    #[test]
    fn edges_of_missing_and_insert() {
        let seen = set(&[(10, 20), (30, 40)]);
        for (name, add, missing, after) in [
            (
                "before",
                (0, 5),
                vec![(0, 5)],
                vec![(0, 5), (10, 20), (30, 40)],
            ),
            (
                "touches from below",
                (5, 10),
                vec![(5, 10)],
                vec![(5, 20), (30, 40)],
            ),
            (
                "one short of touching",
                (5, 9),
                vec![(5, 9)],
                vec![(5, 9), (10, 20), (30, 40)],
            ),
            ("inside", (12, 15), vec![], vec![(10, 20), (30, 40)]),
            ("equal", (10, 20), vec![], vec![(10, 20), (30, 40)]),
            (
                "touches from above",
                (20, 21),
                vec![(20, 21)],
                vec![(10, 21), (30, 40)],
            ),
            ("fills the hole", (20, 30), vec![(20, 30)], vec![(10, 40)]),
            (
                "over all",
                (0, 50),
                vec![(0, 10), (20, 30), (40, 50)],
                vec![(0, 50)],
            ),
            ("across the hole", (15, 35), vec![(20, 30)], vec![(10, 40)]),
            (
                "behind",
                (41, 42),
                vec![(41, 42)],
                vec![(10, 20), (30, 40), (41, 42)],
            ),
        ] {
            let add = range(add.0, add.1);
            let missing: Vec<_> = missing.into_iter().map(|(a, b)| range(a, b)).collect();
            assert_eq!(seen.missing(add), missing, "{name}");
            assert_eq!(seen.count_after(add), after.len(), "{name}");
            let mut grown = seen.clone();
            grown.insert(add);
            assert_eq!(grown, set(&after), "{name}");
        }
    }

    #[test]
    fn ranges_that_cannot_be() {
        assert_eq!(OffsetRange::new(Offset(1), Offset(1)), None);
        assert_eq!(OffsetRange::inclusive(Offset(2), Offset(1)), None);
        assert_eq!(OffsetRange::inclusive(Offset(0), Offset(u64::MAX)), None);
        let last = OffsetRange::inclusive(Offset(5), Offset(u64::MAX - 1)).unwrap();
        assert_eq!(last.end(), Offset(u64::MAX));
        for bad in [[(0, 2), (2, 3)], [(0, 5), (3, 8)], [(5, 6), (1, 2)]] {
            let bad = bad.map(|(a, b)| range(a, b)).to_vec();
            assert_eq!(OffsetRanges::from_sorted(bad), None);
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_offsets(adds in prop::collection::vec((0..60u64, 1..12u64), 0..30)) {
            let mut seen = OffsetRanges::default();
            let mut model = BTreeSet::new();
            for (start, count) in adds {
                let add = range(start, start + count);
                let missing = seen.missing(add).into_iter();
                let missing: Vec<_> = missing.flat_map(|r| r.start.0..r.end.0).collect();
                let want: Vec<_> = (start..start + count).filter(|o| !model.contains(o)).collect();
                prop_assert_eq!(missing, want);
                let count_after = seen.count_after(add);
                seen.insert(add);
                model.extend(start..start + count);
                prop_assert_eq!(seen.as_slice().len(), count_after);
                let sorted = OffsetRanges::from_sorted(seen.as_slice().to_vec());
                prop_assert_eq!(sorted, Some(seen.clone()));
                for at in 0..75 {
                    let want = (at..).find(|o| !model.contains(o)).unwrap();
                    prop_assert_eq!(seen.first_missing(Offset(at)), Offset(want));
                }
            }
            let all = seen.as_slice().iter().flat_map(|r| r.start.0..r.end.0);
            prop_assert!(all.eq(model));
        }
    }
}
