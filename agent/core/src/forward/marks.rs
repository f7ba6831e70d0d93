//! The marks of one partition as they are kept over restarts. Byte table:
//! `agent/core/docs/forward.md`.
//!
//! Holds always: what [`Marks::to_bytes`] wrote, [`Marks::parse`] reads. Bound:
//! FORWARD_PARKED_KEPT_MAX parked ranges, the newest.

use std::collections::VecDeque;

use super::config::DEFAULT_DESTINATION;
use crate::limits::FORWARD_PARKED_KEPT_MAX;
use crate::log::key::TopicPartition;
use crate::units::Offset;

/// Meta keys of the destination that has no name of its own, and of the others: this,
/// their name, `/`.
const DEFAULT_META_PREFIX: &[u8] = b"forward/";
const NAMED_META_PREFIX: &[u8] = b"forward.to/";
const MARK_VERSION: u8 = 1;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marks {
    /// All below are acked by the broker, parked or unreadable.
    pub sent: Offset,
    /// All below are applied by the receiver, as far as it said.
    pub confirmed: Offset,
    /// Blocks given up because the broker refused them again and again.
    pub parked: u64,
    /// First offset and offset after the last of the newest of these.
    pub ranges: VecDeque<(Offset, Offset)>,
}

impl Marks {
    /// Nothing is sent.
    pub(super) fn none() -> Self {
        Self {
            sent: Offset(0),
            confirmed: Offset(0),
            parked: 0,
            ranges: VecDeque::new(),
        }
    }

    pub(super) fn park(&mut self, first: Offset, end: Offset) {
        self.parked += 1;
        if self.ranges.len() >= FORWARD_PARKED_KEPT_MAX {
            self.ranges.pop_front();
        }
        self.ranges.push_back((first, end));
    }

    /// With nothing past `head`.
    pub(super) fn clamped(mut self, head: Offset) -> Self {
        self.sent = self.sent.min(head);
        self.confirmed = self.confirmed.min(self.sent);
        self
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![MARK_VERSION];
        for number in [self.sent.0, self.confirmed.0, self.parked] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for (first, end) in &self.ranges {
            out.extend_from_slice(&first.0.to_le_bytes());
            out.extend_from_slice(&end.0.to_le_bytes());
        }
        out
    }

    /// `None` for anything else: it is then as if there were no marks, which
    /// costs duplicates.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (MARK_VERSION, rest) = bytes.split_first().map(|(v, rest)| (*v, rest))? else {
            return None;
        };
        let (numbers, []) = rest.as_chunks::<8>() else {
            return None;
        };
        let mut numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut marks = Self {
            sent: Offset(numbers.next()?),
            confirmed: Offset(numbers.next()?),
            parked: numbers.next()?,
            ..Self::none()
        };
        while let Some(first) = numbers.next() {
            if marks.ranges.len() >= FORWARD_PARKED_KEPT_MAX {
                return None;
            }
            marks
                .ranges
                .push_back((Offset(first), Offset(numbers.next()?)));
        }
        Some(marks)
    }
}

/// Meta key of a destination's own.
pub(super) fn meta_key(destination: &str, what: &[u8]) -> Vec<u8> {
    if destination == DEFAULT_DESTINATION {
        [DEFAULT_META_PREFIX, what].concat()
    } else {
        [NAMED_META_PREFIX, destination.as_bytes(), b"/", what].concat()
    }
}

/// Meta key of marks: topic u16 and partition u16 big-endian at its end.
pub(super) fn mark_key(destination: &str, at: TopicPartition) -> Vec<u8> {
    let mut key = meta_key(destination, b"mark/");
    key.extend_from_slice(&at.topic.0.to_be_bytes());
    key.extend_from_slice(&at.partition.0.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(parked: usize) -> Marks {
        let mut marks = Marks {
            sent: Offset(0x0102),
            confirmed: Offset(7),
            ..Marks::none()
        };
        for n in 0..parked as u64 {
            marks.park(Offset(n), Offset(n + 1));
        }
        marks
    }

    #[test]
    fn the_bytes_are_these() {
        let want = [
            [1].as_slice(),
            &[2, 1, 0, 0, 0, 0, 0, 0],
            &[7, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[0; 8],
            &[1, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(marks(1).to_bytes(), want);
    }

    #[test]
    fn parked_ranges_at_their_limit() {
        let max = FORWARD_PARKED_KEPT_MAX;
        for (parked, kept) in [(0, 0), (max - 1, max - 1), (max, max), (max + 1, max)] {
            let marks = marks(parked);
            assert_eq!((marks.parked, marks.ranges.len()), (parked as u64, kept));
            assert_eq!(marks.ranges.back().is_some(), parked > 0);
            assert_eq!(Marks::parse(&marks.to_bytes()), Some(marks));
        }
    }

    #[test]
    fn anything_else_is_none() {
        let good = marks(2).to_bytes();
        for cut in [0, 1, 8, 24, good.len() - 8, good.len() - 1] {
            assert_eq!(Marks::parse(&good[..cut]), None, "{cut}");
        }
        let mut newer = good.clone();
        newer[0] = 2;
        assert_eq!(Marks::parse(&newer), None);
        let mut long = good;
        long.extend(vec![0; 16 * FORWARD_PARKED_KEPT_MAX]);
        assert_eq!(Marks::parse(&long), None);
    }
}
