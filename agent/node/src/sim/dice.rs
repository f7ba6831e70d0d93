//! Seeded randomness: the same seed gives the same numbers on every machine.
//! SplitMix64 by Steele, Lea and Flood; good enough for noise and faults.

/// A stream of numbers.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

/// One number for a seed and a place, without a stream.
pub(super) fn hash(seed: u64, at: u64) -> u64 {
    Dice(seed ^ at.wrapping_mul(0xd6e8_feb8_6659_fd93)).next()
}

/// A number as a fraction, 0 up to but not including 1.
pub(super) fn fraction(number: u64) -> f64 {
    (number >> 11) as f64 / (1_u64 << 53) as f64
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn fraction(&mut self) -> f64 {
        fraction(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_published_numbers() {
        let mut dice = Dice::new(1_234_567);
        let got: Vec<u64> = (0..3).map(|_| dice.next()).collect();
        let want = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn fractions_stay_below_one() {
        assert_eq!(fraction(0), 0.0);
        assert!(fraction(u64::MAX) < 1.0);
    }
}
