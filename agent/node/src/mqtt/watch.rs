//! When a connection is given up: the broker does not answer, or answers and acks
//! nothing.
//!
//! Always holds: who sends much over a slow link waits longer, by the time that
//! what was handed over takes at SLOWEST_LINK; a connection that is not open yet is
//! given up whatever the broker says besides. Knows no clock: times are arguments,
//! from any start.

use std::time::Duration;

use super::limits::{ANSWER_MAX, SLOWEST_LINK_BYTES_PER_S, STOP_MAX};

/// How far a connection has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// The broker has answered all that opens a connection.
    pub(super) ready: bool,
    /// Our goodbye is on its way.
    pub(super) leaving: bool,
    /// Bytes of messages handed over.
    pub(super) bytes: u64,
    /// Messages that the broker has answered.
    pub(super) answers: u64,
    /// Messages that it has not.
    pub(super) unanswered: u64,
}

/// See the module's text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    open_max: Duration,
    silence_max: Duration,
    started: Duration,
    /// When the broker last said something, and the bytes by then.
    heard: (Duration, u64),
    /// When it last answered a message or nothing was unanswered, and the bytes by then.
    answered: (Duration, u64),
    answers: u64,
    leaving: Option<Duration>,
}

impl Watch {
    /// `silence_max`: how long a broker may be silent that is asked for life meanwhile.
    pub(super) fn new(now: Duration, open_max: Duration, silence_max: Duration) -> Self {
        Self {
            open_max,
            silence_max,
            started: now,
            heard: (now, 0),
            answered: (now, 0),
            answers: 0,
            leaving: None,
        }
    }

    /// Something happened; `heard`: the broker said something.
    pub(super) fn on(&mut self, progress: Progress, heard: bool, now: Duration) {
        if heard {
            self.heard = (now, progress.bytes);
        }
        if progress.answers != self.answers || progress.unanswered == 0 {
            self.answers = progress.answers;
            self.answered = (now, progress.bytes);
        }
        if progress.leaving && self.leaving.is_none() {
            self.leaving = Some(now);
        }
    }

    /// When the connection is given up, and why.
    pub(super) fn end(&self, progress: Progress) -> (Duration, &'static str) {
        const SILENT: &str = "the broker does not answer";
        let opening = (self.started + self.open_max, SILENT);
        let slow = |bytes: u64| {
            Duration::from_millis(
                progress.bytes.saturating_sub(bytes) * 1000 / SLOWEST_LINK_BYTES_PER_S,
            )
        };
        let silent = (self.heard.0 + self.silence_max + slow(self.heard.1), SILENT);
        let mut end = if progress.ready { silent } else { opening };
        if progress.ready && progress.unanswered > 0 {
            let acked = self.answered.0 + ANSWER_MAX + slow(self.answered.1);
            end = end.min((acked, "the broker acks nothing"));
        }
        if let Some(since) = self.leaving {
            end = end.min((since + STOP_MAX, SILENT));
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn watch() -> Watch {
        Watch::new(s(100), s(20), s(50))
    }

    fn ready(bytes: u64, answers: u64, unanswered: u64) -> Progress {
        Progress {
            ready: true,
            leaving: false,
            bytes,
            answers,
            unanswered,
        }
    }

    #[test]
    fn chatter_does_not_open_a_connection() {
        let mut w = watch();
        w.on(Progress::default(), true, s(115));
        assert_eq!(w.end(Progress::default()).0, s(120));
    }

    #[test]
    fn silence_is_counted_from_the_last_word() {
        let mut w = watch();
        w.on(ready(0, 0, 0), true, s(110));
        assert_eq!(w.end(ready(0, 0, 0)).0, s(160));
        w.on(ready(0, 0, 0), false, s(120));
        assert_eq!(
            w.end(ready(0, 0, 0)).0,
            s(160),
            "what we say is no sign of life"
        );
    }

    #[test]
    fn a_slow_link_has_time_for_what_was_handed_over() {
        let mut w = watch();
        w.on(ready(1_000_000, 0, 1), true, s(110));
        let later = ready(1_000_000 + 100 * SLOWEST_LINK_BYTES_PER_S, 0, 1);
        w.on(later, false, s(111));
        let (end, why) = w.end(later);
        assert_eq!(
            (end, why),
            (s(110 + 50 + 100), "the broker does not answer")
        );
    }

    #[test]
    fn pings_do_not_stand_for_acks() {
        let mut w = watch();
        for now in (100..=200).step_by(10) {
            w.on(ready(0, 0, if now < 120 { 0 } else { 3 }), true, s(now));
        }
        assert_eq!(
            w.end(ready(0, 0, 3)),
            (s(110) + ANSWER_MAX, "the broker acks nothing")
        );
        w.on(ready(0, 1, 2), true, s(201));
        assert_eq!(w.end(ready(0, 1, 2)).0, s(251));
    }

    #[test]
    fn a_goodbye_does_not_take_long() {
        let mut w = watch();
        let leaving = Progress {
            leaving: true,
            ..ready(0, 0, 0)
        };
        w.on(leaving, false, s(130));
        w.on(leaving, true, s(131));
        assert_eq!(w.end(leaving).0, s(130) + STOP_MAX);
    }
}
