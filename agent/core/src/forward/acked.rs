//! What a broker has acked of a partition above its mark.
//!
//! Holds always: the ranges are sorted, not empty, and neither overlap nor touch; the
//! first begins above the mark that [`Acked::pass`] was told last. Bound: whoever
//! begins a new range asks [`Acked::len`] first, see FORWARD_RANGES_MAX.

use crate::units::Offset;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Acked(Vec<(Offset, Offset)>);

impl Acked {
    /// Takes ranges as they were kept; `None` when they are not as described above.
    pub(super) fn from_sorted(ranges: Vec<(Offset, Offset)>) -> Option<Self> {
        let whole = ranges.iter().all(|(first, end)| first < end);
        let sorted = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
        (whole && sorted).then_some(Self(ranges))
    }

    pub(super) fn as_slice(&self) -> &[(Offset, Offset)] {
        &self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Number of offsets.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|(first, end)| end.0 - first.0).sum()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds `[first, end)`.
    pub(super) fn insert(&mut self, first: Offset, end: Offset) {
        if first >= end {
            return;
        }
        let from = self.0.partition_point(|range| range.1 < first);
        let to = self.0.partition_point(|range| range.0 <= end);
        let touching = &self.0[from..to];
        let first = touching.first().map_or(first, |range| range.0.min(first));
        let end = touching.last().map_or(end, |range| range.1.max(end));
        self.0.splice(from..to, [(first, end)]);
    }

    /// All below `mark` is acked: where the mark stands with what lies above it.
    pub(super) fn pass(&mut self, mark: Offset) -> Offset {
        let passed = self.0.partition_point(|range| range.0 <= mark);
        let ends = self.0.drain(..passed).map(|range| range.1);
        ends.fold(mark, Offset::max)
    }

    /// Leaves out what lies at or above `head`.
    pub(super) fn clamp(&mut self, head: Offset) {
        self.0.retain(|range| range.0 < head);
        if let Some(last) = self.0.last_mut() {
            last.1 = last.1.min(head);
        }
    }

    /// The first offset from `at` on that is not acked.
    pub(super) fn skip(&self, at: Offset) -> Offset {
        let index = self.0.partition_point(|range| range.1 <= at);
        match self.0.get(index) {
            Some((first, end)) if *first <= at => *end,
            Some(_) | None => at,
        }
    }

    /// Where the next range above `at` begins.
    pub(super) fn next_from(&self, at: Offset) -> Option<Offset> {
        let mut above = self.0.iter().map(|range| range.0);
        above.find(|first| *first > at)
    }

    /// Whether all of `[first, end)` is in one range.
    pub(super) fn covers(&self, first: Offset, end: Offset) -> bool {
        self.skip(first) >= end && first < end
    }

    /// Offset after the last that is acked.
    pub(super) fn top(&self) -> Option<Offset> {
        self.0.last().map(|range| range.1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(
            ops in proptest::collection::vec((0..60u64, 0..9u64, any::<bool>()), 0..40),
        ) {
            let (mut acked, mut set) = (Acked::default(), BTreeSet::new());
            let mut mark = 0;
            for (first, count, insert) in ops {
                if insert {
                    let first = first.max(mark + 1);
                    acked.insert(Offset(first), Offset(first + count));
                    set.extend(first..first + count);
                } else {
                    let passed = acked.pass(Offset(mark + count)).0;
                    mark += count;
                    while set.contains(&mark) {
                        mark += 1;
                    }
                    prop_assert_eq!(passed, mark);
                    set.retain(|n| *n >= mark);
                }
                prop_assert_eq!(acked.total(), set.len() as u64);
                let again = Acked::from_sorted(acked.as_slice().to_vec());
                prop_assert_eq!(again.as_ref(), Some(&acked));
                for at in 0..70 {
                    let mut want = at;
                    while set.contains(&want) { want += 1; }
                    prop_assert_eq!(acked.skip(Offset(at)), Offset(want));
                }
                prop_assert_eq!(acked.top().map(|o| o.0), set.last().map(|n| n + 1));
            }
        }
    }

    #[test]
    fn what_is_past_the_head_is_left_out() {
        for (head, want) in [
            (5, vec![]),
            (6, vec![(5, 6)]),
            (9, vec![(5, 8)]),
            (11, vec![(5, 8), (10, 11)]),
        ] {
            let mut acked = Acked::default();
            acked.insert(Offset(5), Offset(8));
            acked.insert(Offset(10), Offset(12));
            acked.clamp(Offset(head));
            let ranges: Vec<_> = acked.as_slice().iter().map(|(a, b)| (a.0, b.0)).collect();
            assert_eq!(ranges, want, "{head}");
        }
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        for bad in [
            vec![(3, 3)],
            vec![(4, 3)],
            vec![(1, 3), (3, 4)],
            vec![(5, 6), (1, 2)],
        ] {
            let ranges = bad.iter().map(|(a, b)| (Offset(*a), Offset(*b))).collect();
            assert_eq!(Acked::from_sorted(ranges), None, "{bad:?}");
        }
    }
}
