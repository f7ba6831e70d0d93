//! The one source of chance of a run: the same seed draws the same moments. Knows no
//! clock.

use std::time::Duration;

/// SplitMix64.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Anywhere from `least` to `most`.
    pub(super) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let room = u64::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u64::MAX);
        let drawn = match room {
            u64::MAX => self.next(),
            room => self.next() % (room + 1),
        };
        least + Duration::from_micros(drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_lie_in_their_range_and_repeat_with_the_seed() {
        let (least, most) = (Duration::from_millis(5), Duration::from_millis(7));
        let draw = |seed| -> Vec<Duration> {
            let mut dice = Dice::new(seed);
            (0..100).map(|_| dice.between(least, most)).collect()
        };
        assert!(draw(1).iter().all(|at| (least..=most).contains(at)));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(Dice::new(1).between(most, most), most);
        assert_eq!(Dice::new(1).between(most, least), most, "an empty range");
    }
}
