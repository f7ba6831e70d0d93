//! The marks of one partition as they are kept over restarts. Byte table:
//! `agent/core/docs/forward.md`.
//!
//! Holds always: `confirmed <= sent`, and what is acked above lies above `sent`; what
//! [`Marks::to_bytes`] wrote, [`Marks::parse`] reads. Bound: FORWARD_RANGES_MAX ranges
//! that are acked, FORWARD_PARKED_KEPT_MAX that are parked.

use super::acked::Acked;
use super::config::DEFAULT_DESTINATION;
use super::parked::{DeadLetter, Parked, Why};
use crate::limits::FORWARD_RANGES_MAX;
use crate::log::bytes::{Malformed, Reader};
use crate::log::key::TopicPartition;
use crate::meta::{checked, with_crc};
use crate::units::Offset;

/// Meta keys of the destination that has no name of its own, and of the others: this,
/// their name, `/`.
const DEFAULT_META_PREFIX: &[u8] = b"forward/";
const NAMED_META_PREFIX: &[u8] = b"forward.to/";
const MARK_VERSION: u8 = 2;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// All below are acked by the broker.
    pub sent: Offset,
    /// All below are applied by the receiver, as far as it said.
    pub confirmed: Offset,
    /// What the broker has acked above `sent`.
    pub acked: Acked,
    pub parked: Parked,
}

impl Marks {
    /// The broker has acked `[first, end)`; whether that was news.
    pub(super) fn done(&mut self, first: Offset, end: Offset) -> bool {
        if end <= self.sent || self.acked.covers(first, end) {
            return false;
        }
        if first <= self.sent {
            self.sent = end;
        } else {
            self.acked.insert(first, end);
        }
        self.sent = self.acked.pass(self.sent);
        true
    }

    /// The receiver has applied all below `next`; whether that was news.
    pub(super) fn confirm(&mut self, next: Offset) -> bool {
        let is_news = next > self.confirmed;
        if is_news {
            self.confirmed = next;
            self.sent = self.acked.pass(self.sent.max(next));
        }
        is_news
    }

    /// What lies from `to` on may be lost on the far side.
    pub(super) fn lose(&mut self, to: Offset) {
        self.sent = self.sent.min(to);
        self.confirmed = self.confirmed.min(to);
        self.acked.clear();
    }

    /// With nothing past `head`.
    pub(super) fn clamped(mut self, head: Offset) -> Self {
        self.sent = self.sent.min(head);
        self.confirmed = self.confirmed.min(self.sent);
        self.acked.clamp(head);
        self.sent = self.acked.pass(self.sent);
        self
    }

    /// Records below `head` that the broker has not acked.
    pub(super) fn unsent(&self, head: Offset) -> u64 {
        let above = head.0.saturating_sub(self.sent.0);
        above.saturating_sub(self.acked.total())
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![MARK_VERSION];
        for number in [self.sent.0, self.confirmed.0, self.parked.count] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        put_count(&mut out, self.acked.len());
        for (first, end) in self.acked.as_slice() {
            out.extend_from_slice(&first.0.to_le_bytes());
            out.extend_from_slice(&end.0.to_le_bytes());
        }
        put_count(&mut out, self.parked.ranges().len());
        for DeadLetter { first, end, why } in self.parked.ranges() {
            out.extend_from_slice(&first.0.to_le_bytes());
            out.extend_from_slice(&end.0.to_le_bytes());
            out.push(why as u8);
        }
        with_crc(out)
    }

    /// `None` for anything else: it is then as if there were no marks, which
    /// costs duplicates.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = checked(MARK_VERSION, bytes)?;
        let marks = Self::read(&mut reader).ok()??;
        reader.is_at_end().then_some(marks)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let (sent, confirmed) = (offset(reader)?, offset(reader)?);
        let count = u64::from_le_bytes(reader.array()?);
        let ranges = usize::from(u16::from_le_bytes(reader.array()?));
        if ranges > FORWARD_RANGES_MAX {
            return Ok(None);
        }
        let acked: Result<Vec<_>, Malformed> = (0..ranges)
            .map(|_| Ok((offset(reader)?, offset(reader)?)))
            .collect();
        let letters = u16::from_le_bytes(reader.array()?);
        let mut parked = Vec::new();
        for _ in 0..letters {
            let (first, end) = (offset(reader)?, offset(reader)?);
            let Some(why) = Why::from_byte(reader.byte()?) else {
                return Ok(None);
            };
            parked.push(DeadLetter { first, end, why });
        }
        let acked = Acked::from_sorted(acked?);
        let Some((mut acked, parked)) = acked.zip(Parked::restore(count, parked)) else {
            return Ok(None);
        };
        let sent = acked.pass(sent);
        Ok((confirmed <= sent).then_some(Self {
            sent,
            confirmed,
            acked,
            parked,
        }))
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    let count = u16::try_from(count).expect("the limits of both lists fit");
    out.extend_from_slice(&count.to_le_bytes());
}

fn offset(reader: &mut Reader<'_>) -> Result<Offset, Malformed> {
    Ok(Offset(u64::from_le_bytes(reader.array()?)))
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

    fn marks() -> Marks {
        let mut marks = Marks {
            sent: Offset(0x0102),
            confirmed: Offset(7),
            ..Marks::default()
        };
        marks.done(Offset(0x0110), Offset(0x0120));
        marks.parked.park(Offset(3), Offset(4), Why::TooLarge);
        marks
    }

    #[test]
    fn the_bytes_are_these() {
        let want = [
            [2].as_slice(),
            &[2, 1, 0, 0, 0, 0, 0, 0],
            &[7, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0],
            &[0x10, 1, 0, 0, 0, 0, 0, 0],
            &[0x20, 1, 0, 0, 0, 0, 0, 0],
            &[1, 0],
            &[3, 0, 0, 0, 0, 0, 0, 0],
            &[4, 0, 0, 0, 0, 0, 0, 0],
            &[4],
        ]
        .concat();
        assert_eq!(marks().to_bytes(), with_crc(want));
        assert_eq!(Marks::parse(&marks().to_bytes()), Some(marks()));
    }

    #[test]
    fn ranges_at_their_limit() {
        let max = FORWARD_RANGES_MAX as u64;
        for (ranges, reads) in [(max - 1, true), (max, true), (max + 1, false)] {
            let mut marks = Marks::default();
            for n in 1..=ranges {
                marks.done(Offset(2 * n), Offset(2 * n + 1));
            }
            assert_eq!(Marks::parse(&marks.to_bytes()), reads.then_some(marks));
        }
    }

    #[test]
    fn anything_else_is_none() {
        let good = marks().to_bytes();
        for cut in 0..good.len() {
            assert_eq!(Marks::parse(&good[..cut]), None, "{cut}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(Marks::parse(&bad), None, "byte {at}");
        }
        let past = Marks {
            confirmed: Offset(9),
            ..Marks::default()
        };
        assert_eq!(Marks::parse(&past.to_bytes()), None, "confirmed past sent");
    }

    #[test]
    fn destinations_have_their_own_keys() {
        assert_eq!(meta_key("default", b"session"), b"forward/session");
        assert_eq!(meta_key("cloud", b"session"), b"forward.to/cloud/session");
    }

    #[test]
    fn the_mark_moves_over_what_is_acked_without_a_hole() {
        let mut marks = Marks::default();
        assert!(marks.done(Offset(10), Offset(12)));
        assert_eq!((marks.sent, marks.unsent(Offset(20))), (Offset(0), 18));
        assert!(!marks.done(Offset(10), Offset(12)));
        assert!(marks.done(Offset(0), Offset(10)));
        assert_eq!((marks.sent, marks.unsent(Offset(20))), (Offset(12), 8));
        assert!(marks.done(Offset(15), Offset(16)));
        assert!(marks.confirm(Offset(15)));
        assert_eq!((marks.sent, marks.confirmed), (Offset(16), Offset(15)));
        marks.lose(Offset(4));
        assert_eq!((marks.sent, marks.confirmed), (Offset(4), Offset(4)));
    }
}
