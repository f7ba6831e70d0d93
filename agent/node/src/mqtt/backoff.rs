//! How long to wait before the next connection: full jitter under a growing
//! ceiling, so that many agents do not come back in the same second.
//!
//! Always holds: 0 <= wait < ceiling <= cap. A connection that stood and broke is
//! what all clients of a broker see at once when it restarts: their next wait has
//! two thirds of the cap as its ceiling at once, and so have those after it. Knows
//! no clock and draws nothing: randomness is an argument.

use std::time::Duration;

/// Settings of the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffConfig {
    /// Ceiling of the first wait of a client that had no connection yet.
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
    ceiling: Duration,
}

impl Backoff {
    #[must_use]
    pub fn new(config: BackoffConfig) -> Self {
        Self {
            config,
            ceiling: config.first.min(config.cap),
        }
    }

    /// The wait after an attempt that came to nothing; `random` is uniform over all
    /// of `u64`.
    pub fn after_failure(&mut self, random: u64) -> Duration {
        let wait = below(self.ceiling, random);
        self.ceiling = self.ceiling.saturating_mul(2).min(self.config.cap);
        wait
    }

    /// The wait after a connection that stood.
    pub fn after_loss(&mut self, random: u64) -> Duration {
        self.ceiling = self.config.cap / 3 * 2;
        self.after_failure(random)
    }
}

/// Spreads `random` evenly over [0, ceiling).
fn below(ceiling: Duration, random: u64) -> Duration {
    let micros = u64::try_from(ceiling.as_micros()).unwrap_or(u64::MAX);
    // The high half of the product is uniform.
    let wait = (u128::from(random) * u128::from(micros)) >> 64;
    Duration::from_micros(u64::try_from(wait).unwrap_or(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(backoff: &mut Backoff, count: usize) -> Vec<u128> {
        let next = |_| backoff.after_failure(u64::MAX).as_millis();
        (0..count).map(next).collect()
    }

    #[test]
    fn the_ceiling_doubles_to_the_cap() {
        let mut b = Backoff::new(BackoffConfig::default());
        assert_eq!(
            waits(&mut b, 9),
            [499, 999, 1999, 3999, 7999, 15999, 31999, 59999, 59999]
        );
    }

    #[test]
    fn after_a_loss_it_is_high_at_once() {
        let mut b = Backoff::new(BackoffConfig::default());
        assert_eq!(b.after_loss(u64::MAX).as_millis(), 39_999);
        assert_eq!(waits(&mut b, 2), [59_999, 59_999]);
        assert_eq!(b.after_loss(0), Duration::ZERO);
    }

    #[test]
    fn a_first_wait_over_the_cap_is_the_cap() {
        let mut b = Backoff::new(BackoffConfig {
            first: Duration::from_secs(10),
            cap: Duration::from_secs(1),
        });
        assert_eq!(waits(&mut b, 2), [999, 999]);
    }

    #[test]
    fn failures_for_ever_do_not_overflow() {
        let mut b = Backoff::new(BackoffConfig {
            first: Duration::MAX,
            cap: Duration::MAX,
        });
        for _ in 0..1000 {
            assert!(b.after_failure(u64::MAX) < Duration::MAX);
        }
    }

    /// SplitMix64: the same agents in each run.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Known fault a44. The broker is gone at 0 and back after `away`: when do a
    /// thousand agents that were connected come back?
    #[test]
    fn a_thousand_agents_spread_over_half_a_minute() {
        for away_ms in [0, 200, 2_000, 10_000, 30_000, 60_000, 600_000] {
            let away = Duration::from_millis(away_ms);
            let mut back: Vec<Duration> = (0..1000u64)
                .map(|agent| {
                    let mut seed = agent;
                    let mut b = Backoff::new(BackoffConfig::default());
                    let mut now = b.after_loss(random(&mut seed));
                    while now < away {
                        now += b.after_failure(random(&mut seed));
                    }
                    now - away
                })
                .collect();
            back.sort();
            let spread = back[999] - back[0];
            assert!(
                spread >= Duration::from_secs(30),
                "away {away:?}: {spread:?}"
            );
            // No second holds more than a tenth of them.
            for second in 0..60 {
                let in_it = back.iter().filter(|w| w.as_secs() == second).count();
                assert!(
                    in_it <= 100,
                    "away {away:?}: {in_it} agents in second {second}"
                );
            }
        }
    }
}
