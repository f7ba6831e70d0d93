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

    /// A session of this length ended.
    pub(super) fn session_ended(&mut self, lived: Duration) {
        if lived >= SESSION_SETTLED {
            self.next = REOPEN_PAUSE_MIN;
        }
    }
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
    fn only_a_settled_session_starts_anew() {
        let short = SESSION_SETTLED - Duration::from_millis(1);
        let long = SESSION_SETTLED + Duration::from_millis(1);
        for (name, lived, want) in [
            ("limit-1", short, 400),
            ("limit", SESSION_SETTLED, 100),
            ("limit+1", long, 100),
        ] {
            let mut backoff = Backoff::new(SERIAL_PAUSE_MAX);
            pauses(&mut backoff, 2);
            backoff.session_ended(lived);
            assert_eq!(backoff.pause().as_millis(), want, "{name}");
        }
    }
}
