//! The pauses between two tries of a port: doubling between two bounds.
//! Knows no clock: the caller waits.

use std::time::Duration;

use super::limits::{REOPEN_PAUSE_MIN, SESSION_SETTLED};

#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    pub(super) fn new(max: Duration) -> Self {
        Self {
            next: REOPEN_PAUSE_MIN,
            max,
        }
    }

    /// How long to wait now; the one after it is twice as long.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.max);
        pause
    }

    /// A session ended that was no mere flapping.
    pub(super) fn reset(&mut self) {
        self.next = REOPEN_PAUSE_MIN;
    }
}

/// Whether a session was more than flapping. A serial device that said
/// something was there; a TCP peer may greet everybody and hang up.
pub(super) fn is_settled(lived: Duration, serial: bool, bytes: u64) -> bool {
    lived >= SESSION_SETTLED || (serial && bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::limits::SERIAL_PAUSE_MAX;

    fn pauses(backoff: &mut Backoff, n: usize) -> Vec<u128> {
        (0..n).map(|_| backoff.pause().as_millis()).collect()
    }

    #[test]
    fn doubles_up_to_its_bound() {
        let mut backoff = Backoff::new(SERIAL_PAUSE_MAX);
        assert_eq!(pauses(&mut backoff, 5), [100, 200, 400, 500, 500]);
    }

    #[test]
    fn starts_anew_after_a_reset() {
        let mut backoff = Backoff::new(SERIAL_PAUSE_MAX);
        pauses(&mut backoff, 2);
        backoff.reset();
        assert_eq!(pauses(&mut backoff, 2), [100, 200]);
    }

    #[test]
    fn settled_sessions() {
        let short = SESSION_SETTLED - Duration::from_millis(1);
        let long = SESSION_SETTLED + Duration::from_millis(1);
        for (name, lived, serial, bytes, want) in [
            ("limit-1", short, true, 0, false),
            ("limit", SESSION_SETTLED, true, 0, true),
            ("limit+1", long, true, 0, true),
            ("a device that spoke", short, true, 1, true),
            ("a peer that greets and hangs up", short, false, 1, false),
            ("a peer that stayed", SESSION_SETTLED, false, 0, true),
        ] {
            assert_eq!(is_settled(lived, serial, bytes), want, "{name}");
        }
    }
}
