//! Ordinals that are gone from the front of the ring and not acked: overwritten
//! readings, lost ones whose marker was overwritten, and what the gateway forgot.
//!
//! Bound: [`FRONT_GAPS_MAX`] spans; then neighbours merge under one reason. Knows
//! how many ordinals each span has, not which.

use forebay_wire::ids::Tick;
use forebay_wire::message::GapReason;
use heapless::Deque;

use crate::limits::FRONT_GAPS_MAX;

/// Consecutive ordinals that are gone for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) reason: GapReason,
    pub(crate) count: u64,
    pub(crate) first_tick: Tick,
    pub(crate) last_tick: Tick,
    /// Sent as Data, then overwritten before its ack, and not said to be lost yet:
    /// an ack still means that the readings came.
    pub(crate) sent: bool,
}

/// The spans, oldest first.
#[derive(Debug)]
pub(crate) struct FrontGaps {
    spans: Deque<Span, FRONT_GAPS_MAX>,
}

/// `count` ordinals now stand under `to` instead of `from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) from: GapReason,
    pub(crate) to: GapReason,
    pub(crate) count: u64,
}

impl FrontGaps {
    pub(crate) const fn new() -> Self {
        FrontGaps {
            spans: Deque::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Ordinals in all spans.
    pub(crate) fn count(&self) -> u64 {
        self.spans.iter().map(|span| span.count).sum()
    }

    pub(crate) fn first(&self) -> Option<Span> {
        self.spans.front().copied()
    }

    /// The span that holds the ordinal `offset` from the first, and how many of its
    /// ordinals stand before that one.
    pub(crate) fn at(&self, offset: u64) -> Option<(&Span, u64)> {
        let (index, within) = self.find(offset)?;
        Some((self.spans.get(index)?, within))
    }

    /// As [`FrontGaps::at`], to change it.
    pub(crate) fn at_mut(&mut self, offset: u64) -> Option<(&mut Span, u64)> {
        let (index, within) = self.find(offset)?;
        Some((self.spans.get_mut(index)?, within))
    }

    fn find(&self, mut offset: u64) -> Option<(usize, u64)> {
        for (index, span) in self.spans.iter().enumerate() {
            if offset < span.count {
                return Some((index, offset));
            }
            offset -= span.count;
        }
        None
    }

    /// Adds a span behind the others. With no room left the last one takes it in,
    /// and its reason with it.
    #[must_use]
    pub(crate) fn push(&mut self, span: Span) -> Option<Moved> {
        let full = self.spans.is_full();
        if let Some(last) = self.spans.back_mut() {
            let same = last.reason == span.reason && last.sent == span.sent;
            if same || full {
                return last.take_in(span);
            }
        }
        let pushed = self.spans.push_back(span);
        assert!(pushed.is_ok(), "a full list was merged above");
        None
    }

    /// As [`FrontGaps::push`], before the others.
    #[must_use]
    pub(crate) fn push_first(&mut self, span: Span) -> Option<Moved> {
        if let Err(span) = self.spans.push_front(span) {
            return self.spans.front_mut().and_then(|first| first.take_in(span));
        }
        None
    }

    /// Takes up to `most` ordinals off the first span; how many, and its reason
    /// and whether they had been sent.
    pub(crate) fn take(&mut self, most: u64) -> Option<Span> {
        let first = self.spans.front_mut()?;
        let taken = Span {
            count: first.count.min(most),
            ..*first
        };
        first.count -= taken.count;
        if first.count == 0 {
            self.spans.pop_front();
        }
        Some(taken)
    }
}

impl Span {
    fn take_in(&mut self, other: Span) -> Option<Moved> {
        self.count += other.count;
        self.first_tick = self.first_tick.min(other.first_tick);
        self.last_tick = self.last_tick.max(other.last_tick);
        self.sent &= other.sent;
        let moved = Moved {
            from: other.reason,
            to: self.reason,
            count: other.count,
        };
        (moved.from != moved.to).then_some(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(reason: GapReason, count: u64, tick: u64, sent: bool) -> Span {
        Span {
            reason,
            count,
            first_tick: Tick(tick),
            last_tick: Tick(tick),
            sent,
        }
    }

    #[test]
    fn neighbours_of_a_kind_are_one_span() {
        let mut gaps = FrontGaps::new();
        for tick in 0..1_000 {
            assert_eq!(gaps.push(span(GapReason::RingFull, 1, tick, true)), None);
        }
        let taken = gaps.take(2_000);
        let want = Span {
            last_tick: Tick(999),
            ..span(GapReason::RingFull, 1_000, 0, true)
        };
        assert_eq!(taken, Some(want));
        assert!(gaps.is_empty());
    }

    #[test]
    fn spans_around_the_limit() {
        for (name, spans, moves) in [
            ("one under", FRONT_GAPS_MAX - 1, false),
            ("at the limit", FRONT_GAPS_MAX, false),
            ("one over", FRONT_GAPS_MAX + 1, true),
        ] {
            let mut gaps = FrontGaps::new();
            let mut moved = None;
            for n in 0..spans {
                let reason = if n % 2 == 0 {
                    GapReason::RingFull
                } else {
                    GapReason::IsrFull
                };
                moved = gaps.push(span(reason, 3, 0, false));
            }
            assert_eq!(moved.is_some(), moves, "{name}");
            assert_eq!(gaps.count(), 3 * spans as u64, "{name}: none is lost");
            let first = gaps.push_first(span(GapReason::PowerLoss, 7, 0, false));
            let over = spans >= FRONT_GAPS_MAX;
            let want = Moved {
                from: GapReason::PowerLoss,
                to: GapReason::RingFull,
                count: 7,
            };
            assert_eq!(first, over.then_some(want), "{name}");
        }
    }

    #[test]
    fn finds_the_span_of_an_offset() {
        let mut gaps = FrontGaps::new();
        assert_eq!(gaps.push(span(GapReason::RingFull, 2, 0, false)), None);
        assert_eq!(gaps.push(span(GapReason::IsrFull, 3, 0, false)), None);
        let found = [0, 1, 2, 4, 5]
            .map(|offset| gaps.at(offset).map(|(span, within)| (span.reason, within)));
        let (ring, isr) = (GapReason::RingFull, GapReason::IsrFull);
        assert_eq!(
            found,
            [
                Some((ring, 0)),
                Some((ring, 1)),
                Some((isr, 0)),
                Some((isr, 2)),
                None
            ]
        );
    }
}
