//! A bad cable, byte by byte: flips bits, drops, adds and doubles bytes, echoes, picks up
//! noise, each with its own seeded chance per byte. Knows nothing of frames and of
//! time, so that a seed does the same to the same bytes however they are cut.
//!
//! Bound: a byte becomes at most [`NOISE_BYTES_MAX`] + 3 bytes, and one echo.

use super::dice::Dice;
use super::limits::NOISE_BYTES_MAX;

/// What modem managers and a line without a driver put on a wire: most pieces are
/// of these, the others random.
const NOISES: [&[u8]; 4] = [b"AT\r", b"\0", b"AT+GCAP\r", b"\x7e\x00\x78\xf0\x7e"];

/// Chance of each fault per byte, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FaultRates {
    /// One bit of the byte is flipped.
    pub flip: f64,
    /// The byte is lost.
    pub drop: f64,
    /// A random byte comes before it.
    pub insert: f64,
    /// The byte comes twice.
    pub double: f64,
    /// The byte also goes back to who sent it.
    pub echo: f64,
    /// A piece of noise comes before it, such as `AT\r` or a lone zero.
    pub noise: f64,
}

impl FaultRates {
    /// Flips, drops and inserts with the same chance, `rate` in all.
    #[must_use]
    pub fn even(rate: f64) -> Self {
        let each = rate / 3.0;
        Self {
            flip: each,
            drop: each,
            insert: each,
            ..Self::default()
        }
    }

    fn none(&self) -> bool {
        let all = [
            self.flip,
            self.drop,
            self.insert,
            self.double,
            self.echo,
            self.noise,
        ];
        all.iter().all(|chance| *chance <= 0.0)
    }
}

/// How often each fault was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultCounts {
    pub flips: u64,
    pub drops: u64,
    pub inserts: u64,
    pub doubles: u64,
    pub echoes: u64,
    pub noises: u64,
}

impl FaultCounts {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.flips + self.drops + self.inserts + self.doubles + self.echoes + self.noises
    }
}

/// One direction of a line.
#[derive(Debug)]
pub struct ByteFaults {
    rates: FaultRates,
    dice: Dice,
    done: FaultCounts,
}

impl ByteFaults {
    #[must_use]
    pub fn new(rates: FaultRates, seed: u64) -> Self {
        Self {
            rates,
            dice: Dice::new(seed),
            done: FaultCounts::default(),
        }
    }

    /// From the next byte on.
    pub fn set_rates(&mut self, rates: FaultRates) {
        self.rates = rates;
    }

    /// Faults made so far.
    #[must_use]
    pub fn done(&self) -> FaultCounts {
        self.done
    }

    /// Passes bytes on to the end of `out`, and their echo to the end of `back`.
    pub fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>, back: &mut Vec<u8>) {
        if self.rates.none() {
            out.extend_from_slice(bytes);
            return;
        }
        let FaultRates {
            flip,
            drop,
            insert,
            double,
            echo,
            noise,
        } = self.rates;
        for byte in bytes {
            if self.strikes(noise, |done| &mut done.noises) {
                self.make_noise(out);
            }
            if self.strikes(insert, |done| &mut done.inserts) {
                out.push(self.dice.next() as u8);
            }
            if self.strikes(echo, |done| &mut done.echoes) {
                back.push(*byte);
            }
            if self.strikes(drop, |done| &mut done.drops) {
                continue;
            }
            let flip = if self.strikes(flip, |done| &mut done.flips) {
                1 << (self.dice.next() % 8)
            } else {
                0
            };
            out.push(byte ^ flip);
            if self.strikes(double, |done| &mut done.doubles) {
                out.push(byte ^ flip);
            }
        }
    }

    fn make_noise(&mut self, out: &mut Vec<u8>) {
        let drawn = self.dice.next();
        if let Some(noise) = NOISES.get((drawn % 6) as usize) {
            out.extend_from_slice(noise);
            return;
        }
        let length = 1 + (drawn >> 8) as usize % NOISE_BYTES_MAX;
        for _ in 0..length {
            out.push(self.dice.next() as u8);
        }
    }

    fn strikes(&mut self, chance: f64, count: impl FnOnce(&mut FaultCounts) -> &mut u64) -> bool {
        // No draw for a fault that cannot be: half of the work of most cables.
        let strikes = chance > 0.0 && self.dice.fraction() < chance;
        *count(&mut self.done) += u64::from(strikes);
        strikes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Passed {
        out: Vec<u8>,
        back: Vec<u8>,
        done: FaultCounts,
    }

    fn pass(rates: FaultRates, seed: u64, chunk: usize) -> Passed {
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let mut faults = ByteFaults::new(rates, seed);
        let (mut out, mut back) = (Vec::new(), Vec::new());
        for part in bytes.chunks(chunk) {
            faults.pass(part, &mut out, &mut back);
        }
        let done = faults.done();
        Passed { out, back, done }
    }

    fn none() -> FaultRates {
        FaultRates::default()
    }

    #[test]
    fn no_rates_change_nothing() {
        let Passed { out, back, done } = pass(none(), 7, 1000);
        assert_eq!((done.total(), back.len()), (0, 0));
        assert!(out.iter().zip(0..=255_u8).all(|(got, want)| *got == want));
    }

    type Row = (&'static str, FaultRates, fn(&FaultCounts) -> u64, i64, u64);

    #[test]
    fn each_kind_does_what_it_says_about_as_often_as_asked() {
        #[rustfmt::skip]
        let rows: [Row; 5] = [
            ("flip", FaultRates { flip: 0.01, ..none() }, |done| done.flips, 0, 0),
            ("drop", FaultRates { drop: 0.01, ..none() }, |done| done.drops, -1, 0),
            ("insert", FaultRates { insert: 0.01, ..none() }, |done| done.inserts, 1, 0),
            ("double", FaultRates { double: 0.01, ..none() }, |done| done.doubles, 1, 0),
            ("echo", FaultRates { echo: 0.01, ..none() }, |done| done.echoes, 0, 1),
        ];
        for (name, rates, count, longer, echoes) in rows {
            let passed = pass(rates, 7, 1000);
            let done = count(&passed.done);
            assert!((800..1200).contains(&done), "{name}: {done}");
            assert_eq!(passed.done.total(), done, "{name}: nothing else");
            let length = 100_000 + longer * done as i64;
            assert_eq!(passed.out.len() as i64, length, "{name}");
            assert_eq!(passed.back.len() as u64, echoes * done, "{name}");
        }
    }

    #[test]
    fn an_echo_of_everything_is_what_was_sent() {
        let passed = pass(
            FaultRates {
                echo: 1.0,
                ..none()
            },
            7,
            333,
        );
        assert_eq!(passed.back, passed.out);
        assert_eq!(passed.done.echoes, 100_000);
    }

    #[test]
    fn noise_has_all_known_pieces_and_a_longest() {
        let bytes = [0xee; 10_000];
        let mut faults = ByteFaults::new(
            FaultRates {
                noise: 1.0,
                ..none()
            },
            3,
        );
        let mut out = Vec::new();
        let mut longest = 0;
        for byte in bytes {
            let before = out.len();
            faults.pass(&[byte], &mut out, &mut Vec::new());
            longest = longest.max(out.len() - before - 1);
        }
        assert_eq!(longest, NOISE_BYTES_MAX);
        for noise in NOISES {
            let found = out.windows(noise.len()).any(|window| window == noise);
            assert!(found, "{noise:?}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_bytes_however_they_are_cut() {
        let rates = FaultRates {
            echo: 0.02,
            noise: 0.01,
            ..FaultRates::even(0.05)
        };
        let want = pass(rates, 42, 100_000);
        for chunk in [1, 333] {
            let got = pass(rates, 42, chunk);
            assert!(got.out == want.out && got.back == want.back, "{chunk}");
            assert_eq!(got.done, want.done, "{chunk}");
        }
        assert_ne!(pass(rates, 43, 333).out, want.out);
    }
}
