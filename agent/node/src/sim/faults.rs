//! A bad cable: flips bits, drops and adds bytes, each with its own seeded
//! chance per byte. Knows nothing of frames and of time.

use super::dice::Dice;

/// Chance of each fault per byte, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FaultRates {
    /// One bit of the byte is flipped.
    pub flip: f64,
    /// The byte is lost.
    pub drop: f64,
    /// A random byte comes before it.
    pub insert: f64,
}

impl FaultRates {
    /// The same chance for each kind of fault, `rate` in all.
    #[must_use]
    pub fn even(rate: f64) -> Self {
        let each = rate / 3.0;
        Self {
            flip: each,
            drop: each,
            insert: each,
        }
    }

    fn none(&self) -> bool {
        self.flip <= 0.0 && self.drop <= 0.0 && self.insert <= 0.0
    }
}

/// One direction of a line.
#[derive(Debug)]
pub(super) struct Faults {
    rates: FaultRates,
    dice: Dice,
    done: u64,
}

impl Faults {
    pub(super) fn new(rates: FaultRates, seed: u64) -> Self {
        Self {
            rates,
            dice: Dice::new(seed),
            done: 0,
        }
    }

    /// Faults made so far.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Passes bytes on to the end of `out`.
    pub(super) fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.rates.none() {
            out.extend_from_slice(bytes);
            return;
        }
        for byte in bytes {
            if self.strikes(self.rates.insert) {
                out.push(self.dice.next() as u8);
            }
            if self.strikes(self.rates.drop) {
                continue;
            }
            let flip = if self.strikes(self.rates.flip) {
                1 << (self.dice.next() % 8)
            } else {
                0
            };
            out.push(byte ^ flip);
        }
    }

    fn strikes(&mut self, chance: f64) -> bool {
        let strikes = self.dice.fraction() < chance;
        self.done += u64::from(strikes);
        strikes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(rates: FaultRates, seed: u64, chunk: usize) -> (Vec<u8>, u64) {
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let mut faults = Faults::new(rates, seed);
        let mut out = Vec::new();
        for part in bytes.chunks(chunk) {
            faults.pass(part, &mut out);
        }
        (out, faults.done())
    }

    #[test]
    fn no_rates_change_nothing() {
        let (out, done) = pass(FaultRates::default(), 7, 1000);
        assert_eq!(done, 0);
        assert!(out.iter().zip(0..=255_u8).all(|(got, want)| *got == want));
    }

    #[test]
    fn each_kind_does_what_it_says_about_as_often_as_asked() {
        let rows = [
            (
                "flip",
                FaultRates {
                    flip: 0.01,
                    ..FaultRates::default()
                },
                0,
            ),
            (
                "drop",
                FaultRates {
                    drop: 0.01,
                    ..FaultRates::default()
                },
                -1,
            ),
            (
                "insert",
                FaultRates {
                    insert: 0.01,
                    ..FaultRates::default()
                },
                1,
            ),
        ];
        for (name, rates, length_change) in rows {
            let (out, done) = pass(rates, 7, 1000);
            assert!((800..1200).contains(&done), "{name}: {done}");
            assert_eq!(
                out.len() as i64,
                100_000 + length_change * done as i64,
                "{name}"
            );
        }
    }

    #[test]
    fn a_seed_gives_the_same_bytes_however_they_are_cut() {
        let rates = FaultRates::even(0.05);
        let want = pass(rates, 42, 100_000);
        assert_eq!(pass(rates, 42, 1), want);
        assert_eq!(pass(rates, 42, 333), want);
        assert_ne!(pass(rates, 43, 333), want);
    }
}
