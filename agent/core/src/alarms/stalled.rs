//! Whether records of a device still come. What is expected of it is what the operator
//! says, else the shortest period of its channels, or how long it sleeps where it sleeps
//! again and again, else what its own pauses were.
//!
//! Holds always: a device that resumes is believed only after two records in a row that
//! are no further apart than half of what it may be silent. Bound: [`PAUSES_KEPT`] pauses
//! and [`SLEEPS_KEPT`] sleeps per device. Knows no link and no log.

use std::collections::VecDeque;

use crate::units::{EventTime, Mono, Span};

/// Pauses between records from which a period is learned, and how many there must be.
const PAUSES_KEPT: usize = 16;
const PAUSES_MIN: usize = 4;
/// Sleeps in a row that make a device one that sleeps; so many are kept.
const SLEEPS_KEPT: usize = 3;
/// The longest of them is at most so many times as long as the shortest.
const SLEEPS_ALIKE: u64 = 2;
/// Records that it brings while it is awake.
const AWAKE_RECORDS_MIN: u64 = 2;
/// Records in a row after which a device is back.
const BACK_AFTER: u32 = 2;

/// What is known of a device that was ever connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    pub name: String,
    /// Records taken of it, of all its boots: grows when one comes.
    pub taken: u64,
    /// The newest of its readings.
    pub last: Option<EventTime>,
    /// Shortest period of a channel that sends every sample.
    pub period: Option<Span>,
    /// It sends changes only: that it says its health is enough, heard then.
    pub alive_at: Option<Mono>,
    /// On a port now.
    pub connected: bool,
    /// Its last word of itself.
    pub health_at: Option<Mono>,
    /// Lost before the gateway had them, and records of it that this log lost.
    pub gaps: u64,
    /// The sums of its ledger close, or it does not say.
    pub closes: bool,
    /// Times that it went to another port while the one before was open.
    pub moves: u64,
}

/// What is known of a device's period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The operator says it: nothing else counts.
    Said(Span),
    /// The device says it of its channels; it may sleep between.
    Announced(Span),
    Unknown,
}

/// What there is to say of a device that is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Silence {
    /// Of its last record; of the start where none came since.
    pub(super) since: Mono,
    pub(super) came: bool,
    /// What was expected of it.
    pub(super) expected: Span,
    /// That is as the device announces it, and may be wrong of one that sleeps.
    pub(super) is_announced: bool,
}

/// The records of one device.
#[derive(Debug, Clone)]
pub(super) struct Pulse {
    taken: u64,
    /// When one came last, at the start of the run at first.
    at: Mono,
    came: bool,
    pauses: VecDeque<u64>,
    /// Its last pauses that were longer than it announces, between which it was never awake
    /// for longer than it slept.
    sleeps: VecDeque<u64>,
    /// When the last of them was over, and how many records had been taken before.
    woke: Mono,
    woke_taken: u64,
    stalled: Option<Silence>,
    /// Records in a row since it is stalled.
    back: u32,
}

impl Pulse {
    /// A device that had `taken` records when it was first looked at.
    #[must_use]
    pub(super) fn new(taken: u64, now: Mono) -> Self {
        Self {
            taken,
            at: now,
            came: false,
            pauses: VecDeque::new(),
            sleeps: VecDeque::new(),
            woke: now,
            woke_taken: taken,
            stalled: None,
            back: 0,
        }
    }

    /// What its own pauses say: three of four are no longer.
    fn learned(&self) -> Option<Span> {
        if self.pauses.len() < PAUSES_MIN {
            return None;
        }
        let mut sorted: Vec<u64> = self.pauses.iter().copied().collect();
        sorted.sort_unstable();
        let upper = sorted.get(sorted.len() * 3 / 4).or(sorted.last())?;
        Some(Span(i64::try_from(*upper).unwrap_or(i64::MAX)))
    }

    /// How long it sleeps, where it does so again and again.
    fn sleep(&self) -> Option<Span> {
        let longest = *self.sleeps.iter().max()?;
        let is_known = self.sleeps.len() == SLEEPS_KEPT;
        is_known.then(|| Span(i64::try_from(longest).unwrap_or(i64::MAX)))
    }

    /// What is expected of it, and whether it is as it announces it.
    fn expected(&self, wanted: Wanted) -> (Option<Span>, bool) {
        match wanted {
            Wanted::Said(span) => (Some(span), false),
            Wanted::Announced(span) => match self.sleep() {
                Some(sleep) => (Some(sleep.max(span)), false),
                None => (Some(span), true),
            },
            Wanted::Unknown => (self.learned(), false),
        }
    }

    /// Looks at it; gives its silence while it is too long. `wanted` is what is known of
    /// its period, `limit` how long it may be silent with a period.
    pub(super) fn look(
        &mut self,
        (taken, alive_at): (u64, Option<Mono>),
        wanted: Wanted,
        limit: impl Fn(Span) -> u64,
        now: Mono,
    ) -> Option<Silence> {
        let heard = alive_at.is_some_and(|at| at > self.at);
        if taken != self.taken || heard {
            if let Wanted::Announced(span) = wanted {
                self.on_awake(limit(span), now);
            }
            let expected = self.expected(wanted).0;
            self.on_record(taken, expected.map(&limit), now);
        }
        let (expected, is_announced) = self.expected(wanted);
        let Some(expected) = expected else {
            self.stalled = None;
            return None;
        };
        let silent = now.0.saturating_sub(self.at.0);
        if silent >= limit(expected) {
            let silence = Silence {
                since: self.at,
                came: self.came,
                expected,
                is_announced,
            };
            self.stalled.get_or_insert(silence);
            self.back = 0;
        }
        self.stalled
    }

    /// A record has come of one that may sleep: what it was silent for is a sleep where it
    /// is longer than `limit`. One that brings a single record now and then trickles.
    fn on_awake(&mut self, limit: u64, now: Mono) {
        let longest = self.sleeps.iter().max().copied().unwrap_or(0);
        let pause = now.0.saturating_sub(self.at.0);
        if !self.came || pause < limit {
            if now.0.saturating_sub(self.woke.0) > longest {
                self.sleeps.clear();
            }
            return;
        }
        let awake = self.at.0.saturating_sub(self.woke.0);
        let shortest = self.sleeps.iter().min().copied().unwrap_or(pause);
        let alike = pause.max(longest) <= shortest.min(pause).saturating_mul(SLEEPS_ALIKE);
        let brought = self.taken.saturating_sub(self.woke_taken);
        if !alike || awake > pause || brought < AWAKE_RECORDS_MIN {
            self.sleeps.clear();
        }
        if self.sleeps.len() == SLEEPS_KEPT {
            self.sleeps.pop_front();
        }
        self.sleeps.push_back(pause);
        (self.woke, self.woke_taken) = (now, self.taken);
    }

    fn on_record(&mut self, taken: u64, limit: Option<u64>, now: Mono) {
        let pause = now.0.saturating_sub(self.at.0);
        if self.came {
            if self.pauses.len() == PAUSES_KEPT {
                self.pauses.pop_front();
            }
            self.pauses.push_back(pause);
        }
        (self.taken, self.at, self.came) = (taken, now, true);
        if self.stalled.is_some() {
            let close = limit.is_none_or(|limit| pause < limit / 2);
            self.back = if close { self.back + 1 } else { 1 };
            if self.back >= BACK_AFTER {
                (self.stalled, self.back) = (None, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    fn limit(period: Span) -> u64 {
        (period.0.unsigned_abs() * 10).max(10 * S)
    }

    fn at(seconds: u64) -> Mono {
        Mono(seconds * S)
    }

    #[test]
    fn a_device_is_stalled_at_its_limit_and_not_before() {
        for (name, period, seconds, stalled) in [
            ("a fast one, before", 10_000, 9, false),
            ("a fast one, at the least", 10_000, 10, true),
            ("a fast one, after", 10_000, 11, true),
            ("a slow one, before", 60_000_000, 599, false),
            ("a slow one, at ten periods", 60_000_000, 600, true),
            ("a slow one, after", 60_000_000, 601, true),
        ] {
            let mut pulse = Pulse::new(5, at(0));
            let period = Wanted::Announced(Span(period));
            assert_eq!(pulse.look((6, None), period, limit, at(0)), None, "{name}");
            let silence = pulse.look((6, None), period, limit, at(seconds));
            assert_eq!(silence.is_some(), stalled, "{name}");
        }
    }

    #[test]
    fn one_that_does_not_come_back_after_a_start_is_missed() {
        let mut pulse = Pulse::new(5, at(100));
        let period = Wanted::Announced(Span(1_000_000));
        assert_eq!(pulse.look((5, None), period, limit, at(109)), None);
        let silence = pulse.look((5, None), period, limit, at(110));
        let silence = silence.expect("it is silent");
        assert_eq!((silence.since, silence.came), (at(100), false));
    }

    #[test]
    fn it_is_back_after_two_records_in_a_row() {
        let period = Wanted::Announced(Span(1_000_000));
        for (name, apart, back) in [
            ("close together", 4, true),
            ("half the limit apart", 5, false),
            ("now and then", 11, false),
        ] {
            let mut pulse = Pulse::new(0, at(0));
            pulse.look((0, None), period, limit, at(10));
            let first = pulse.look((1, None), period, limit, at(20));
            assert!(first.is_some(), "{name}: one record is not enough");
            let second = pulse.look((2, None), period, limit, at(20 + apart));
            assert_eq!(second.is_none(), back, "{name}");
        }
    }

    #[test]
    fn one_that_trickles_is_one_alarm() {
        let period = Wanted::Announced(Span(1_000_000));
        let mut pulse = Pulse::new(0, at(0));
        let mut changes = 0;
        let mut was = false;
        for second in 1..600 {
            let is = pulse.look((second / 11, None), period, limit, at(second));
            changes += u32::from(is.is_some() != was);
            was = is.is_some();
        }
        assert_eq!((changes, was), (1, true));
    }

    #[test]
    fn a_period_that_nobody_said_is_learned_from_three_of_four_pauses() {
        let mut pulse = Pulse::new(0, at(0));
        let look = |pulse: &mut Pulse, taken, seconds| {
            pulse
                .look((taken, None), Wanted::Unknown, limit, at(seconds))
                .is_some()
        };
        for second in 1..2000 {
            // Three together, then a pause of 30 s.
            let taken = second / 30 * 3 + (second % 30).min(2);
            assert!(!look(&mut pulse, taken, second), "at {second}");
        }
        let taken = pulse.taken;
        let last = pulse.at.0 / S;
        let expected = pulse.learned().expect("learned").0.unsigned_abs() / S;
        assert_eq!(expected, 28);
        assert!(!look(&mut pulse, taken, last + 279));
        assert!(look(&mut pulse, taken, last + 280));
    }

    #[test]
    fn nothing_is_expected_of_a_device_before_anything_is_known() {
        for (records, knows) in [
            (PAUSES_MIN as u64, false),
            (PAUSES_MIN as u64 + 1, true),
            (PAUSES_MIN as u64 + 2, true),
        ] {
            let mut pulse = Pulse::new(0, at(0));
            for record in 1..=records {
                pulse.look((record, None), Wanted::Unknown, limit, at(record));
            }
            let silence = pulse.look((records, None), Wanted::Unknown, limit, at(10_000));
            assert_eq!(silence.is_some(), knows, "{records}");
        }
    }

    #[test]
    fn pauses_at_their_limit_and_one_outage_teaches_nothing() {
        let mut pulse = Pulse::new(0, at(0));
        for second in 1..=40 {
            pulse.look((second, None), Wanted::Unknown, limit, at(second));
        }
        assert_eq!(pulse.pauses.len(), PAUSES_KEPT);
        pulse.look((41, None), Wanted::Unknown, limit, at(5000));
        assert_eq!(pulse.learned(), Some(Span(1_000_000)));
    }

    /// Sleeps of `sleep` seconds, `awake` seconds of a record each; how often there was an
    /// alarm in each round.
    fn sleeper(rounds: &[(u64, u64)], wanted: Wanted) -> Vec<bool> {
        let mut pulse = Pulse::new(0, at(0));
        let (mut second, mut taken) = (0, 0);
        let mut told = Vec::new();
        for (sleep, awake) in rounds {
            let mut was = false;
            for tick in 0..sleep + awake {
                second += 1;
                taken += u64::from(tick >= sleep - 1);
                let silent = pulse.look((taken, None), wanted, limit, at(second));
                was |= silent.is_some();
            }
            told.push(was);
        }
        told
    }

    #[test]
    fn one_that_sleeps_again_and_again_is_known_after_three_times() {
        let announced = Wanted::Announced(Span(1_000_000));
        let minute = Wanted::Said(Span(60_000_000));
        let calm = |n| vec![(900, 10); n];
        for (name, rounds, wanted, want) in [
            // The first is no sleep: nothing had come before it.
            (
                "alike",
                calm(6),
                announced,
                vec![true, true, true, true, false, false],
            ),
            (
                "the operator says otherwise",
                calm(5),
                minute,
                vec![true; 5],
            ),
            (
                "twice as long, at the edge",
                vec![(450, 9), (450, 9), (450, 9), (900, 9), (450, 9)],
                announced,
                vec![true, true, true, true, false],
            ),
            (
                "more than twice as long",
                vec![(450, 9), (450, 9), (450, 9), (901, 9), (450, 9)],
                announced,
                vec![true, true, true, true, true],
            ),
            (
                "longer awake than asleep: it fails",
                vec![(30, 40); 6],
                announced,
                vec![true; 6],
            ),
            (
                "it sleeps no more, and then is gone",
                [calm(5), vec![(1, 950), (30, 3)]].concat(),
                announced,
                vec![true, true, true, true, false, false, true],
            ),
        ] {
            assert_eq!(sleeper(&rounds, wanted), want, "{name}");
        }
    }

    #[test]
    fn one_that_brings_less_than_it_says_does_not_sleep() {
        for (records, sleeps) in [(1, false), (2, true), (3, true)] {
            let mut pulse = Pulse::new(0, at(0));
            let wanted = Wanted::Announced(Span(1_000_000));
            for round in 1..=5 {
                pulse.look((round * records, None), wanted, limit, at(round * 60));
            }
            let silence = pulse.look((5 * records, None), wanted, limit, at(359));
            assert_eq!(silence.is_none(), sleeps, "{records}");
        }
    }

    #[test]
    fn one_that_sleeps_and_does_not_wake_is_missed_after_ten_sleeps() {
        for (seconds, stalled) in [(8_999, false), (9_000, true), (9_001, true)] {
            let mut pulse = Pulse::new(0, at(0));
            let wanted = Wanted::Announced(Span(1_000_000));
            for round in 1..=5 {
                pulse.look((round * 2, None), wanted, limit, at(round * 900));
            }
            let silence = pulse.look((10, None), wanted, limit, at(4_500 + seconds));
            assert_eq!(silence.is_some(), stalled, "{seconds}");
            assert!(silence.is_none_or(|silence| !silence.is_announced));
        }
    }

    #[test]
    fn one_that_sends_changes_only_is_there_while_it_says_so() {
        let mut pulse = Pulse::new(0, at(0));
        let period = Wanted::Announced(Span(10_000_000));
        for second in 1..1000 {
            let alive = at(second / 10 * 10);
            let silence = pulse.look((0, Some(alive)), period, limit, at(second));
            assert_eq!(silence, None, "at {second}");
        }
        let silence = pulse.look((0, Some(at(990))), period, limit, at(1091));
        assert!(silence.is_some());
    }
}
