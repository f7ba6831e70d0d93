//! Boot ids over resets: what a record that a reset left in memory means.
//!
//! Pure; the board keeps the [`Record`] in memory that start-up code does not
//! clear. Always holds: a warm reset takes the next id; memory in which not each
//! bit of the record is as it was written is a cold start.

const MAGIC: u32 = 0x666f_7265;

/// Why the firmware runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Power came on: memory holds anything.
    Cold,
    /// A reset from outside, such as the button.
    Warm,
    /// A reset that the firmware asked for.
    Software,
}

/// Four words that survive a reset. Every bit pattern is one, intact or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    magic: u32,
    boot: u32,
    software: u32,
    check: u32,
}

impl Record {
    /// The record of this boot; `software` announces a reset by the firmware.
    pub const fn new(boot: u32, software: bool) -> Self {
        let software = software as u32;
        Self {
            magic: MAGIC,
            boot,
            software,
            check: check(boot, software),
        }
    }

    /// The id in it, when the record is intact.
    pub fn boot(&self) -> Option<u32> {
        let intact = self.magic == MAGIC && self.check == check(self.boot, self.software);
        intact.then_some(self.boot)
    }

    /// The id of the boot that finds this record, and why it happened. A cold
    /// start takes the number that `random` brings.
    pub fn next(&self, random: impl FnOnce() -> u32) -> (u32, Cause) {
        match (self.boot(), self.software) {
            (Some(boot), 0) => (boot.wrapping_add(1), Cause::Warm),
            (Some(boot), _) => (boot.wrapping_add(1), Cause::Software),
            (None, _) => (random(), Cause::Cold),
        }
    }

    /// All of the record mixed into one word: for a cold start without any source
    /// of randomness, what the memory held is the last resort.
    pub fn mixed(&self) -> u32 {
        [self.magic, self.boot, self.software, self.check]
            .iter()
            .fold(1, |mix: u32, word| (mix ^ word).wrapping_mul(0x0100_0193))
    }
}

const fn check(boot: u32, software: u32) -> u32 {
    !(boot.rotate_left(7) ^ software.wrapping_mul(0x9e37_79b9) ^ MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: u32 = 77;

    #[test]
    fn resets_count_on_and_cold_starts_draw() {
        let zeros = Record {
            magic: 0,
            boot: 0,
            software: 0,
            check: 0,
        };
        for (name, found, want) in [
            ("first power-on", zeros, (RANDOM, Cause::Cold)),
            ("reset button", Record::new(5, false), (6, Cause::Warm)),
            ("own reset", Record::new(5, true), (6, Cause::Software)),
            ("last id", Record::new(u32::MAX, false), (0, Cause::Warm)),
        ] {
            assert_eq!(found.next(|| RANDOM), want, "{name}");
        }
    }

    #[test]
    fn one_wrong_bit_is_a_cold_start() {
        for software in [false, true] {
            let good = Record::new(0x1234_5678, software);
            for bit in 0..128 {
                let mut bad = good;
                let mask = 1 << (bit % 32);
                match bit / 32 {
                    0 => bad.magic ^= mask,
                    1 => bad.boot ^= mask,
                    2 => bad.software ^= mask,
                    3 => bad.check ^= mask,
                    _ => unreachable!("a record has four words"),
                }
                assert_eq!(bad.next(|| RANDOM), (RANDOM, Cause::Cold), "bit {bit}");
            }
        }
    }

    #[test]
    fn what_memory_held_makes_a_difference() {
        let one = Record::new(1, false).mixed();
        let two = Record::new(2, false).mixed();
        assert_ne!(one, two);
    }
}
