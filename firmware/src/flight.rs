//! Frames on the way: the window, the round trip and when to send again.
//! Bound: [`WINDOW_FRAMES_MAX`] frames. Knows ordinals and times, no bytes.

use forebay_wire::ids::{Ordinal, Tick};
use forebay_wire::limits::WINDOW_FRAMES_MAX;
use heapless::Deque;

use crate::limits::{RESEND_MAX_US, RESEND_MIN_US, RESEND_UNMEASURED_US};

#[derive(Debug, Clone, Copy)]
struct Sent {
    /// Ordinal after the frame's last.
    end: Ordinal,
    at: Tick,
    /// Sent for the first time: only then its ack measures the round trip, else
    /// nobody knows which copy is acked.
    fresh: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Flight {
    frames: Deque<Sent, { WINDOW_FRAMES_MAX as usize }>,
    /// Since when the oldest frame has been waiting without progress.
    since: Tick,
    /// Smoothed, us; 0 before the first measurement.
    round_trip_us: u64,
    /// Timeouts in a row.
    backoff: u32,
}

impl Flight {
    pub(crate) const fn new() -> Self {
        Flight {
            frames: Deque::new(),
            since: Tick(0),
            round_trip_us: 0,
            backoff: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn round_trip_us(&self) -> u64 {
        self.round_trip_us
    }

    /// A frame up to `end` leaves now. The caller kept to the window.
    pub(crate) fn sent(&mut self, end: Ordinal, now: Tick, fresh: bool) {
        if self.frames.is_empty() {
            self.since = now;
        }
        let pushed = self.frames.push_back(Sent {
            end,
            at: now,
            fresh,
        });
        debug_assert!(
            pushed.is_ok(),
            "the window is never larger than WINDOW_FRAMES_MAX"
        );
    }

    /// Everything below `next` is acked.
    pub(crate) fn acked(&mut self, next: Ordinal, now: Tick) {
        while let Some(frame) = self.frames.pop_front_if(|frame| frame.end <= next) {
            if frame.fresh {
                self.measure(now.0.saturating_sub(frame.at.0));
            }
        }
        self.since = now;
        self.backoff = 0;
    }

    fn measure(&mut self, sample_us: u64) {
        // Never 0, which means unmeasured.
        let sample_us = sample_us.max(1);
        self.round_trip_us = match self.round_trip_us {
            0 => sample_us,
            smoothed => (smoothed * 7 + sample_us) / 8,
        }
        .max(1);
    }

    /// All frames count as not sent.
    pub(crate) fn clear(&mut self) {
        self.frames.clear();
    }

    /// The oldest frame was waited for in vain: next time twice as long.
    pub(crate) fn timed_out(&mut self) {
        self.backoff = (self.backoff + 1).min(RESEND_MAX_US.ilog2());
    }

    /// A new session: no timeouts yet.
    pub(crate) fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// When to send again; `None` with nothing on the way.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        let wait_us = match self.round_trip_us {
            0 => RESEND_UNMEASURED_US,
            measured => RESEND_MIN_US.max(measured.saturating_mul(4)),
        };
        let wait_us = wait_us.saturating_mul(1 << self.backoff).min(RESEND_MAX_US);
        (!self.frames.is_empty()).then_some(Tick(self.since.0 + wait_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_us(flight: &mut Flight) -> u64 {
        flight.sent(Ordinal(1), Tick(1_000), false);
        let deadline = flight.deadline().unwrap();
        flight.clear();
        deadline.0 - 1_000
    }

    #[test]
    fn resend_times() {
        let mut flight = Flight::new();
        assert_eq!(flight.deadline(), None);
        assert_eq!(wait_us(&mut flight), RESEND_UNMEASURED_US);
        flight.sent(Ordinal(1), Tick(0), true);
        flight.acked(Ordinal(1), Tick(1_000));
        assert_eq!(flight.round_trip_us(), 1_000);
        assert_eq!(wait_us(&mut flight), RESEND_MIN_US, "never shorter");
        flight.round_trip_us = 26_000;
        assert_eq!(wait_us(&mut flight), 104_000, "four round trips");
        for want in [
            208_000,
            416_000,
            832_000,
            1_664_000,
            RESEND_MAX_US,
            RESEND_MAX_US,
        ] {
            flight.timed_out();
            assert_eq!(wait_us(&mut flight), want);
        }
        for _ in 0..100 {
            flight.timed_out();
        }
        assert_eq!(wait_us(&mut flight), RESEND_MAX_US);
        flight.acked(Ordinal(1), Tick(0));
        assert_eq!(
            wait_us(&mut flight),
            104_000,
            "progress forgets the timeouts"
        );
    }

    #[test]
    fn a_frame_sent_twice_measures_nothing() {
        let mut flight = Flight::new();
        flight.sent(Ordinal(1), Tick(0), false);
        flight.acked(Ordinal(1), Tick(77_000));
        assert_eq!(flight.round_trip_us(), 0);
    }
}
