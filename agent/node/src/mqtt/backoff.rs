//! How long to wait before the next connection: full jitter under a growing
//! ceiling, so that many agents do not come back in the same second.
//!
//! Always holds: 0 <= wait < ceiling <= cap. Knows no clock and draws nothing:
//! randomness is an argument.

use std::time::Duration;

/// Settings of the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffConfig {
    /// Ceiling of the first wait.
    pub first: Duration,
    /// Ceiling that doubling stops at.
    pub cap: Duration,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            cap: Duration::from_secs(60),
        }
    }
}

/// The failures in a row, and the waits that follow from them.
#[derive(Debug, Clone)]
pub struct Backoff {
    config: BackoffConfig,
    failures: u32,
}

impl Backoff {
    #[must_use]
    pub fn new(config: BackoffConfig) -> Self {
        Self {
            config,
            failures: 0,
        }
    }

    /// The connection did its work: start again from the first ceiling.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The wait after one more failure; `random` is uniform over all of `u64`.
    pub fn after_failure(&mut self, random: u64) -> Duration {
        let ceiling = self.ceiling();
        self.failures = self.failures.saturating_add(1);
        let micros = u64::try_from(ceiling.as_micros()).unwrap_or(u64::MAX);
        // The high half of the product spreads `random` evenly over [0, micros).
        let wait = (u128::from(random) * u128::from(micros)) >> 64;
        Duration::from_micros(u64::try_from(wait).unwrap_or(micros))
    }

    fn ceiling(&self) -> Duration {
        let doubled = 2u32.saturating_pow(self.failures);
        self.config
            .first
            .saturating_mul(doubled)
            .min(self.config.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff() -> Backoff {
        Backoff::new(BackoffConfig {
            first: Duration::from_millis(500),
            cap: Duration::from_secs(60),
        })
    }

    #[test]
    fn the_ceiling_doubles_to_the_cap_and_starts_again() {
        let mut b = backoff();
        let waits: Vec<u128> = (0..9)
            .map(|_| b.after_failure(u64::MAX).as_millis())
            .collect();
        assert_eq!(
            waits,
            [499, 999, 1999, 3999, 7999, 15999, 31999, 59999, 59999]
        );
        b.succeeded();
        assert_eq!(b.after_failure(u64::MAX).as_millis(), 499);
    }

    #[test]
    fn failures_for_ever_do_not_overflow() {
        let mut b = backoff();
        b.failures = u32::MAX;
        assert_eq!(b.after_failure(u64::MAX).as_secs(), 59);
        assert_eq!(b.failures, u32::MAX);
    }

    #[test]
    fn a_thousand_agents_spread_over_half_a_minute() {
        // Seven failures in: a broker that was away for about a minute.
        let step = u64::MAX / 1000;
        let mut waits: Vec<Duration> = (0..1000)
            .map(|i| {
                let mut b = backoff();
                b.failures = 7;
                b.after_failure(i * step)
            })
            .collect();
        waits.sort();
        assert!(waits[999] - waits[0] >= Duration::from_secs(30));
        // No second holds more than a tenth of them.
        for second in 0..60 {
            let in_it = waits.iter().filter(|w| w.as_secs() == second).count();
            assert!(in_it <= 100, "{in_it} agents in second {second}");
        }
    }
}
