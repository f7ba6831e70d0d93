//! How fast records go: a cap for those that waited, and what was reached.
//!
//! Knows no clock: time is told. Bound: a second may go at once, after a pause.

use crate::units::Mono;

const SECOND_US: u64 = 1_000_000;

/// At most so many records a second, a second's worth at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cap {
    rate: Option<u32>,
    /// When all that went out so far is paid for.
    paid_at: Mono,
}

impl Cap {
    pub(super) fn new(rate: Option<u32>) -> Self {
        Self {
            rate,
            paid_at: Mono(0),
        }
    }

    /// When the next message may go; `None`: now.
    pub(super) fn next_at(&self, now: Mono) -> Option<Mono> {
        self.rate?;
        let at = Mono(self.paid_at.0.saturating_sub(SECOND_US));
        (at > now).then_some(at)
    }

    /// So many records go out.
    pub(super) fn take(&mut self, records: u64, now: Mono) {
        if let Some(rate) = self.rate {
            let cost = records.saturating_mul(SECOND_US) / u64::from(rate.max(1));
            self.paid_at = Mono(self.paid_at.max(now).0.saturating_add(cost));
        }
    }
}

/// Seconds over which a rate is told.
const METER_SECONDS: usize = 10;

/// Records in each of the last seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meter {
    counts: [u64; METER_SECONDS],
    /// Second of the newest count.
    second: u64,
}

impl Meter {
    pub(super) fn add(&mut self, records: u64, now: Mono) {
        self.forget(now);
        self.counts[(self.second as usize) % METER_SECONDS] += records;
    }

    fn forget(&mut self, now: Mono) {
        let second = now.0 / SECOND_US;
        let passed = second.saturating_sub(self.second).min(METER_SECONDS as u64);
        for n in 0..passed {
            self.counts[((second - n) as usize) % METER_SECONDS] = 0;
        }
        self.second = self.second.max(second);
    }

    /// Records a second over the last ten.
    pub(super) fn per_s(mut self, now: Mono) -> u64 {
        self.forget(now);
        self.counts.iter().sum::<u64>() / METER_SECONDS as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_holds_over_any_stretch() {
        for rate in [1, 7, 1000, u32::MAX] {
            let mut cap = Cap::new(Some(rate));
            let (mut now, mut sent) = (Mono(5 * SECOND_US), 0_u64);
            let start = now;
            for n in 0..1000_u64 {
                if let Some(at) = cap.next_at(now) {
                    assert!(at > now);
                    now = at;
                }
                let records = 1 + n % 512;
                cap.take(records, now);
                sent += records;
                let passed = (now.0 - start.0) as f64 / SECOND_US as f64;
                // A second ahead, and the message that went last.
                assert!(
                    sent as f64 <= (passed + 1.0) * f64::from(rate) + 513.0,
                    "{rate}"
                );
            }
            let passed = (now.0 - start.0) as f64 / SECOND_US as f64;
            assert!(
                sent as f64 + 1.0 >= passed * f64::from(rate) * 0.99,
                "{rate}: no slower"
            );
        }
        assert_eq!(Cap::new(None).next_at(Mono(0)), None);
    }

    #[test]
    fn a_rate_is_of_the_last_ten_seconds() {
        let mut meter = Meter::default();
        for second in 0..20 {
            meter.add(100, Mono(second * SECOND_US));
            let want = 100 * (second + 1).min(10) / 10;
            assert_eq!(meter.per_s(Mono(second * SECOND_US + 1)), want, "{second}");
        }
        for (later, want) in [(1, 90), (5, 50), (9, 10), (10, 0), (1000, 0)] {
            let now = Mono((19 + later) * SECOND_US);
            assert_eq!(meter.per_s(now), want, "{later} s later");
        }
    }
}
