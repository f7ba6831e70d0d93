//! Dead letters: records that a broker did not take, which were passed over so that
//! they hold up nothing. They stay in the log, and here it is kept which they are.
//!
//! Holds always: ranges are not empty and stand in the order in which they were
//! parked, those that touch and have the same reason as one. Bound:
//! FORWARD_PARKED_KEPT_MAX ranges, the newest; the count goes on.

use std::collections::VecDeque;

use super::ids::Refusal;
use crate::limits::FORWARD_PARKED_KEPT_MAX;
use crate::units::Offset;

/// Why a record was parked, as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Why {
    PayloadInvalid = 1,
    Unspecified = 2,
    Implementation = 3,
    TooLarge = 4,
    NotAuthorized = 5,
    TopicInvalid = 6,
}

const ALL: [(Why, &str); 6] = [
    (Why::PayloadInvalid, "payload_invalid"),
    (Why::Unspecified, "unspecified"),
    (Why::Implementation, "implementation"),
    (Why::TooLarge, "too_large"),
    (Why::NotAuthorized, "not_authorized"),
    (Why::TopicInvalid, "topic_invalid"),
];

impl Why {
    /// `None` for what is no property of a message.
    pub(super) fn of(refusal: Refusal) -> Option<Self> {
        match refusal {
            Refusal::PayloadInvalid => Some(Self::PayloadInvalid),
            Refusal::Unspecified => Some(Self::Unspecified),
            Refusal::Implementation => Some(Self::Implementation),
            Refusal::TooLarge { .. } => Some(Self::TooLarge),
            Refusal::NotAuthorized => Some(Self::NotAuthorized),
            Refusal::TopicInvalid => Some(Self::TopicInvalid),
            Refusal::Quota | Refusal::PacketIdInUse => None,
        }
    }

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        let all = ALL.iter().map(|(why, _)| *why);
        all.into_iter().find(|why| *why as u8 == byte)
    }

    /// As status and command line say it.
    pub(super) fn name(self) -> &'static str {
        let found = ALL.iter().find(|(why, _)| *why == self);
        found.map_or("", |(_, name)| name)
    }
}

/// A range that was parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeadLetter {
    pub first: Offset,
    pub end: Offset,
    pub why: Why,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Parked {
    /// Records parked so far.
    pub count: u64,
    ranges: VecDeque<DeadLetter>,
}

impl Parked {
    /// As it was kept; `None` when it holds more than the limit, or an empty range.
    pub(super) fn restore(count: u64, ranges: Vec<DeadLetter>) -> Option<Self> {
        let good = ranges.iter().all(|range| range.first < range.end);
        (good && ranges.len() <= FORWARD_PARKED_KEPT_MAX).then_some(Self {
            count,
            ranges: ranges.into(),
        })
    }

    pub(super) fn ranges(&self) -> impl ExactSizeIterator<Item = DeadLetter> + '_ {
        self.ranges.iter().copied()
    }

    /// Records that are kept here.
    pub(super) fn records(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.end.0 - range.first.0)
            .sum()
    }

    pub(super) fn park(&mut self, first: Offset, end: Offset, why: Why) {
        self.count += end.0 - first.0;
        if let Some(last) = self.ranges.back_mut()
            && (last.end, last.why) == (first, why)
        {
            last.end = end;
            return;
        }
        if self.ranges.len() >= FORWARD_PARKED_KEPT_MAX {
            self.ranges.pop_front();
        }
        self.ranges.push_back(DeadLetter { first, end, why });
    }

    /// The end of the range that holds `at`.
    pub(super) fn end_at(&self, at: Offset) -> Option<Offset> {
        let mut ranges = self.ranges.iter();
        let found = ranges.find(|range| range.first <= at && at < range.end)?;
        Some(found.end)
    }

    /// Where the next range above `at` begins.
    pub(super) fn next_from(&self, at: Offset) -> Option<Offset> {
        let above = self.ranges.iter().map(|range| range.first);
        above.filter(|first| *first > at).min()
    }

    /// `[first, end)` is parked no more; whether any of it was. What is left of a range
    /// takes the place of one where there is no more room.
    pub(super) fn release(&mut self, first: Offset, end: Offset) -> bool {
        let mut kept = VecDeque::with_capacity(self.ranges.len());
        let mut any = false;
        for range in self.ranges.drain(..) {
            if range.end <= first || end <= range.first {
                kept.push_back(range);
                continue;
            }
            any = true;
            let before = DeadLetter {
                end: first,
                ..range
            };
            let after = DeadLetter {
                first: end,
                ..range
            };
            kept.extend([before, after].into_iter().filter(|r| r.first < r.end));
        }
        let over = kept.len().saturating_sub(FORWARD_PARKED_KEPT_MAX);
        kept.drain(..over);
        self.ranges = kept;
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parked: &Parked) -> Vec<(u64, u64)> {
        parked.ranges().map(|r| (r.first.0, r.end.0)).collect()
    }

    #[test]
    fn the_newest_are_kept_and_neighbours_are_one() {
        let max = FORWARD_PARKED_KEPT_MAX as u64;
        for (ranges, kept) in [(0, 0), (max - 1, max - 1), (max, max), (max + 1, max)] {
            let mut parked = Parked::default();
            for n in 0..ranges {
                parked.park(Offset(2 * n), Offset(2 * n + 1), Why::Unspecified);
            }
            assert_eq!((parked.count, parked.ranges().len() as u64), (ranges, kept));
            let last = ranges.checked_sub(1).map(|n| 2 * n);
            assert_eq!(parked.ranges().last().map(|r| r.first.0), last);
        }
        let mut parked = Parked::default();
        parked.park(Offset(3), Offset(4), Why::TooLarge);
        parked.park(Offset(4), Offset(6), Why::TooLarge);
        parked.park(Offset(6), Offset(7), Why::Unspecified);
        assert_eq!(shown(&parked), [(3, 6), (6, 7)]);
        assert_eq!(parked.records(), 4);
    }

    #[test]
    fn what_was_taken_after_all_is_released() {
        for (name, first, end, want, any) in [
            ("before", 0, 3, vec![(3, 9)], false),
            ("front", 0, 4, vec![(4, 9)], true),
            ("middle", 5, 6, vec![(3, 5), (6, 9)], true),
            ("end", 8, 12, vec![(3, 8)], true),
            ("all", 3, 9, vec![], true),
            ("behind", 9, 12, vec![(3, 9)], false),
        ] {
            let mut parked = Parked::default();
            parked.park(Offset(3), Offset(9), Why::TooLarge);
            assert_eq!(parked.release(Offset(first), Offset(end)), any, "{name}");
            assert_eq!(shown(&parked), want, "{name}");
            assert_eq!(parked.count, 6);
        }
    }

    #[test]
    fn reasons_keep_their_bytes() {
        for (n, (why, name)) in ALL.into_iter().enumerate() {
            assert_eq!((usize::from(why as u8), why.name()), (n + 1, name));
            assert_eq!(Why::from_byte(why as u8), Some(why));
        }
        assert_eq!((Why::from_byte(0), Why::from_byte(7)), (None, None));
    }
}
