//! When one alarm begins and when it is over, so that nothing goes to and fro: a state
//! has to last, a level has two edges, and what happened once holds for a while.
//!
//! Holds always: an alarm that has just begun lasts until its own condition for the end
//! is met. Knows no code and no clock.

use crate::units::{Mono, Span};

/// One thing that is looked at each second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Watch {
    /// Since when it is as it is not judged to be yet.
    turning: Option<Mono>,
    /// Since when there is an alarm.
    raised: Option<Mono>,
    /// For what grows: how much of it was seen, what of it the alarm is about, and when it
    /// last grew.
    seen: Option<u64>,
    grown: u64,
    grown_at: Option<Mono>,
}

/// How long a state has to last to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lasting {
    pub(super) bad: Span,
    pub(super) good: Span,
}

impl Lasting {
    /// Believed at once, both ways.
    pub(super) const AT_ONCE: Self = Self {
        bad: Span(0),
        good: Span(0),
    };
}

/// Two edges: bad at `on` and above, good again below `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edges {
    pub(super) on: u64,
    pub(super) off: u64,
}

fn is_over(since: Mono, span: Span, now: Mono) -> bool {
    now.0.saturating_sub(since.0) >= span.0.unsigned_abs()
}

impl Watch {
    /// A watch of what grows, of which so much is no news.
    #[must_use]
    pub(super) fn from_count(count: u64) -> Self {
        Self {
            seen: Some(count),
            ..Self::default()
        }
    }

    /// Since when there is an alarm.
    #[must_use]
    pub(super) fn raised(&self) -> Option<Mono> {
        self.raised
    }

    /// Whether nothing is worth to be remembered.
    #[must_use]
    pub(super) fn is_idle(&self) -> bool {
        *self == Self::default()
    }

    /// Judges a state; since when there is an alarm. It begins when the state began.
    pub(super) fn state(&mut self, bad: bool, lasting: Lasting, now: Mono) -> Option<Mono> {
        if bad == self.raised.is_some() {
            self.turning = None;
            return self.raised;
        }
        let since = *self.turning.get_or_insert(now);
        let span = if bad { lasting.bad } else { lasting.good };
        if is_over(since, span, now) {
            self.turning = None;
            self.raised = bad.then_some(since);
        }
        self.raised
    }

    /// Judges a level; since when there is an alarm.
    pub(super) fn level(&mut self, level: u64, edges: Edges, now: Mono) -> Option<Mono> {
        let edge = if self.raised.is_some() {
            edges.off
        } else {
            edges.on
        };
        self.state(level >= edge, Lasting::AT_ONCE, now)
    }

    /// Judges a count that only grows: there is an alarm when it has grown by `least`
    /// until it has not grown for `hold`. Since when, and by how much in that time.
    pub(super) fn growth(
        &mut self,
        count: u64,
        (least, hold): (u64, Span),
        now: Mono,
    ) -> Option<(Mono, u64)> {
        let before = self.seen.replace(count).unwrap_or(0);
        let more = count.saturating_sub(before);
        if more > 0 {
            self.grown = self.grown.saturating_add(more);
            self.grown_at = Some(now);
            if self.grown >= least {
                self.raised.get_or_insert(now);
            }
        } else if self.grown_at.is_some_and(|at| is_over(at, hold, now)) {
            (self.grown, self.grown_at, self.raised) = (0, None, None);
        }
        self.raised.map(|since| (since, self.grown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTING: Lasting = Lasting {
        bad: Span(10),
        good: Span(5),
    };

    #[test]
    fn a_state_has_to_last_both_ways() {
        for (name, at, bad, want) in [
            ("one before", 109, true, None),
            ("as long as it takes", 110, true, Some(Mono(100))),
            ("longer", 111, true, Some(Mono(100))),
        ] {
            let mut watch = Watch::default();
            assert_eq!(watch.state(true, LASTING, Mono(100)), None, "{name}");
            assert_eq!(watch.state(bad, LASTING, Mono(at)), want, "{name}");
        }
        for (name, at, want) in [
            ("one before", 204, Some(Mono(100))),
            ("as long as it takes", 205, None),
            ("longer", 206, None),
        ] {
            let mut watch = Watch::default();
            watch.state(true, LASTING, Mono(100));
            watch.state(true, LASTING, Mono(110));
            let since = watch.state(false, LASTING, Mono(200));
            assert_eq!(since, Some(Mono(100)), "{name}");
            assert_eq!(watch.state(false, LASTING, Mono(at)), want, "{name}");
        }
    }

    #[test]
    fn what_goes_to_and_fro_changes_nothing() {
        let mut watch = Watch::default();
        for at in (0..1000).step_by(8) {
            assert_eq!(watch.state(at % 16 == 0, LASTING, Mono(at)), None, "{at}");
        }
        let mut raised = Watch::default();
        raised.state(true, LASTING, Mono(0));
        raised.state(true, LASTING, Mono(10));
        for at in (12..1000).step_by(4) {
            let since = raised.state(at % 8 == 0, LASTING, Mono(at));
            assert_eq!(since, Some(Mono(0)), "{at}");
        }
    }

    #[test]
    fn a_level_has_two_edges() {
        let edges = Edges { on: 80, off: 75 };
        let mut watch = Watch::default();
        for (at, level, want) in [
            (0, 79, None),
            (1, 80, Some(Mono(1))),
            (2, 79, Some(Mono(1))),
            (3, 76, Some(Mono(1))),
            (4, 75, Some(Mono(1))),
            (5, 74, None),
            (6, 75, None),
            (7, 79, None),
            (8, 81, Some(Mono(8))),
        ] {
            assert_eq!(watch.level(level, edges, Mono(at)), want, "{level} at {at}");
        }
    }

    #[test]
    fn what_has_grown_holds_until_it_rests() {
        let mut watch = Watch::from_count(7);
        let rule = (1, Span(10));
        assert_eq!(watch.growth(7, rule, Mono(0)), None, "no news");
        let want = [
            (1, 8, Some((Mono(1), 1))),
            (10, 8, Some((Mono(1), 1))),
            (10, 10, Some((Mono(1), 3))),
            (19, 10, Some((Mono(1), 3))),
            (20, 10, None),
            (21, 10, None),
            (22, 11, Some((Mono(22), 1))),
        ];
        for (at, count, want) in want {
            assert_eq!(watch.growth(count, rule, Mono(at)), want, "{count} at {at}");
        }
    }

    #[test]
    fn growth_at_its_least() {
        for (more, raised) in [(2, false), (3, true), (4, true)] {
            let mut watch = Watch::from_count(0);
            let grown = watch.growth(more, (3, Span(10)), Mono(5));
            assert_eq!(grown.is_some(), raised, "{more}");
        }
        let mut watch = Watch::default();
        watch.growth(2, (3, Span(10)), Mono(0));
        assert_eq!(watch.growth(2, (3, Span(10)), Mono(10)), None);
        assert_eq!(watch.growth(3, (3, Span(10)), Mono(11)), None, "forgotten");
    }
}
