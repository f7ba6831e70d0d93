//! The clock of a simulated device: it runs fast or slow, and wanders. A function
//! of the time alone, so that a run can be repeated and a test knows the truth.
//!
//! Invariant: never runs backwards. The rate stays within the given bound: half of
//! it is constant, of a sign by the seed, half swings once in [`WANDER_PERIOD`].

use std::f64::consts::TAU;

use forebay_wire::ids::Tick;

use super::dice::{fraction, hash};
use super::limits::{CLOCK_PPM_MAX, WANDER_PERIOD};

/// Microseconds of this computer since the simulator started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Elapsed(pub(super) u64);

/// How far a device's clock may be off in either direction, parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockPpm(u32);

impl ClockPpm {
    /// # Errors
    /// Over [`CLOCK_PPM_MAX`]; ends a sentence about it.
    pub fn new(ppm: u32) -> Result<Self, String> {
        if ppm > CLOCK_PPM_MAX {
            return Err(format!("must be from 0 to {CLOCK_PPM_MAX}"));
        }
        Ok(Self(ppm))
    }
}

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceClock {
    constant: f64,
    swing: f64,
    phase: f64,
    period_us: f64,
}

impl DeviceClock {
    pub(super) fn new(ppm: ClockPpm, seed: u64) -> Self {
        let half = f64::from(ppm.0) / 2e6;
        let sign = if hash(seed, 0) & 1 == 0 { 1.0 } else { -1.0 };
        Self {
            constant: sign * half,
            swing: half,
            phase: fraction(hash(seed, 1)) * TAU,
            period_us: WANDER_PERIOD.as_micros() as f64,
        }
    }

    fn angle(&self, at: Elapsed) -> f64 {
        self.phase + at.0 as f64 * TAU / self.period_us
    }

    /// Ticks per microsecond, less one.
    fn off(&self, at: Elapsed) -> f64 {
        self.constant + self.swing * self.angle(at).sin()
    }

    /// What the device's counter shows; its ticks are microseconds.
    pub(super) fn tick(&self, at: Elapsed) -> Tick {
        // The integral of `off`, in closed form: no error adds up.
        let wandered =
            self.swing * self.period_us / TAU * (self.phase.cos() - self.angle(at).cos());
        let ahead = self.constant * at.0 as f64 + wandered;
        Tick(at.0.saturating_add_signed(ahead.floor() as i64))
    }

    /// About when the counter shows `due`; right to the microsecond when it is near.
    pub(super) fn when(&self, due: Tick, now: Elapsed) -> Elapsed {
        let ticks = due.0.saturating_sub(self.tick(now).0);
        Elapsed(now.0 + (ticks as f64 / (1.0 + self.off(now))).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_US: u64 = 3_600_000_000;

    fn clock(ppm: u32, seed: u64) -> DeviceClock {
        DeviceClock::new(ClockPpm::new(ppm).unwrap(), seed)
    }

    #[test]
    fn a_good_clock_is_this_computers() {
        for at in [0, 1, 999_999, HOUR_US] {
            assert_eq!(clock(0, 5).tick(Elapsed(at)), Tick(at));
        }
    }

    #[test]
    fn it_wanders_within_its_bound_and_never_back() {
        for seed in 0..10 {
            let clock = clock(40, seed);
            let (mut low, mut high) = (f64::MAX, f64::MIN);
            for second in 0..3_600 {
                let [from, to] = [second, second + 1].map(|s| clock.tick(Elapsed(s * 1_000_000)).0);
                let ppm = to as f64 - from as f64 - 1e6;
                (low, high) = (low.min(ppm), high.max(ppm));
            }
            assert!(low >= -41.0 && high <= 41.0, "seed {seed}: {low} to {high}");
            assert!(
                high - low >= 38.0,
                "seed {seed}: {low} to {high} hardly moves"
            );
        }
    }

    #[test]
    fn limits_of_the_bound() {
        for (name, ppm, want) in [
            ("limit-1", CLOCK_PPM_MAX - 1, true),
            ("limit", CLOCK_PPM_MAX, true),
            ("limit+1", CLOCK_PPM_MAX + 1, false),
        ] {
            assert_eq!(ClockPpm::new(ppm).is_ok(), want, "{name}");
        }
    }

    #[test]
    fn a_deadline_is_met_and_hardly_missed() {
        for seed in 0..10 {
            let clock = clock(CLOCK_PPM_MAX, seed);
            for start in [0, 123_456_789, HOUR_US] {
                let now = Elapsed(start);
                let due = Tick(clock.tick(now).0 + 50_000);
                let at = clock.when(due, now);
                let shown = clock.tick(at).0.abs_diff(due.0);
                assert!(shown <= 2, "seed {seed} at {start}: off by {shown} us");
            }
        }
    }
}
