//! What a port says to the operator: that it opened, and once why it does not.
//! Knows no clock and no output. Bound: a burst, then one line per earn time.

use forebay_core::units::Mono;

use super::limits::{NOTICE_BURST, NOTICE_EARN};

#[derive(Debug)]
pub(super) struct Notices {
    last_failure: Option<String>,
    tokens: u32,
    earned_at: Mono,
    left_out: u64,
}

impl Notices {
    pub(super) fn new(now: Mono) -> Self {
        Self {
            last_failure: None,
            tokens: NOTICE_BURST,
            earned_at: now,
            left_out: 0,
        }
    }

    /// The line to print for a failure; none if the port said so already.
    pub(super) fn failed(&mut self, now: Mono, why: &str) -> Option<String> {
        if self.last_failure.as_deref() == Some(why) {
            return None;
        }
        self.last_failure = Some(why.to_owned());
        self.say(now, why)
    }

    pub(super) fn opened(&mut self, now: Mono, what: &str) -> Option<String> {
        self.last_failure = None;
        self.say(now, what)
    }

    fn say(&mut self, now: Mono, text: &str) -> Option<String> {
        self.earn(now);
        if self.tokens == 0 {
            self.left_out += 1;
            return None;
        }
        self.tokens -= 1;
        let left_out = std::mem::take(&mut self.left_out);
        Some(match left_out {
            0 => text.to_owned(),
            n => format!("{text} ({n} lines left out before this one)"),
        })
    }

    fn earn(&mut self, now: Mono) {
        let earn_us = NOTICE_EARN.as_micros() as u64;
        let earned = now.0.saturating_sub(self.earned_at.0) / earn_us;
        if earned == 0 {
            return;
        }
        self.earned_at = Mono(self.earned_at.0 + earned * earn_us);
        let earned = u32::try_from(earned).unwrap_or(u32::MAX);
        self.tokens = self.tokens.saturating_add(earned).min(NOTICE_BURST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_port_says_so_once() {
        let mut notices = Notices::new(Mono(0));
        assert!(notices.failed(Mono(1), "no such port").is_some());
        for at in 2..10_000 {
            assert_eq!(notices.failed(Mono(at * 1_000_000), "no such port"), None);
        }
        assert_eq!(notices.failed(Mono(0), "busy").as_deref(), Some("busy"));
        assert_eq!(notices.opened(Mono(0), "open").as_deref(), Some("open"));
        assert!(
            notices.failed(Mono(0), "busy").is_some(),
            "after it was open it is news again"
        );
    }

    #[test]
    fn a_flapping_port_is_rate_limited_and_counts_what_it_left_out() {
        let mut notices = Notices::new(Mono(0));
        let said = (0..50)
            .filter(|_| notices.opened(Mono(0), "open").is_some())
            .count();
        assert_eq!(said, NOTICE_BURST as usize);
        let earn_us = NOTICE_EARN.as_micros() as u64;
        for (name, at, want) in [
            ("limit-1", earn_us - 1, None),
            (
                "limit",
                earn_us,
                Some("open (45 lines left out before this one)"),
            ),
            ("limit+1", earn_us + 1, None),
        ] {
            assert_eq!(notices.opened(Mono(at), "open").as_deref(), want, "{name}");
        }
    }
}
