//! Count, sum and sum of squares of doubles, exact, with values taken back out:
//! a rolling window never drifts, and a glitch that left leaves no trace.
//!
//! The sums are integers in units of a power of two that suits the series: 128
//! and 256 bits while that is enough, else big integers, and back as soon as
//! it is enough again. Which of the two holds is never seen in a result.
//! NaN and the infinities are only counted. Bound: about 100 bytes, or about
//! 0.8 KiB while wild values are inside.

use num_bigint::{BigInt, BigUint, Sign};

mod short;

use self::short::{Parts, add_short, big, parts, short_step, short_variance};
use super::round::Scaled;
use super::u256::U256;

/// Longest sum and sum of squares on the short path; one more value cannot overflow.
const SUM_BITS_MAX: u32 = 126;
const SQUARES_BITS_MAX: u32 = 254;

/// The exact moments of a bag of doubles.
#[derive(Debug, Clone)]
pub struct Moments {
    sums: Sums,
    /// Sums are in units of `2^unit`, squares of `2^(2 unit)`.
    unit: i32,
    with_squares: bool,
    finite: u64,
    nan: u64,
    infinite: [u64; 2],
}

#[derive(Debug, Clone)]
enum Sums {
    Short { sum: i128, squares: U256 },
    Wide(Box<Wide>),
}

#[derive(Debug, Clone)]
struct Wide {
    sum: BigInt,
    squares: BigUint,
}

const NOTHING: Sums = Sums::Short {
    sum: 0,
    squares: U256::ZERO,
};

impl Moments {
    /// Of no values. Squares are only kept when asked for.
    #[must_use]
    pub fn new(with_squares: bool) -> Self {
        Self {
            sums: NOTHING,
            unit: 0,
            with_squares,
            finite: 0,
            nan: 0,
            infinite: [0; 2],
        }
    }

    /// Puts a value in.
    pub fn add(&mut self, x: f64) {
        if x.is_nan() {
            self.nan += 1;
        } else if x.is_infinite() {
            self.infinite[usize::from(x < 0.0)] += 1;
        } else {
            self.finite += 1;
            if let Some(parts) = parts(x) {
                self.apply(parts, true);
            }
        }
    }

    /// Takes a value out that is inside.
    pub fn sub(&mut self, x: f64) {
        assert!(
            self.count() > 0,
            "a value was taken out that was never put in"
        );
        if x.is_nan() {
            self.nan -= 1;
        } else if x.is_infinite() {
            self.infinite[usize::from(x < 0.0)] -= 1;
        } else {
            self.finite -= 1;
            if self.finite == 0 {
                // Nothing left: the next value chooses its own unit.
                self.sums = NOTHING;
            } else if let Some(parts) = parts(x) {
                self.apply(parts, false);
            }
        }
    }

    fn apply(&mut self, value: Parts, add: bool) {
        let Sums::Short { sum, squares } = &mut self.sums else {
            return self.apply_wide(value, add);
        };
        if *sum == 0 && squares.is_zero() {
            self.unit = value.exp;
        }
        if value.exp < self.unit {
            let down = self.unit.abs_diff(value.exp);
            let fits = 128 - sum.unsigned_abs().leading_zeros() + down <= SUM_BITS_MAX;
            let finer = squares.checked_shl(down.saturating_mul(2));
            match finer.filter(|s| fits && s.bits() <= SQUARES_BITS_MAX) {
                Some(finer) => {
                    // A sum of 0 may be shifted by more than its length.
                    *sum = if *sum == 0 { 0 } else { *sum << down };
                    *squares = finer;
                    self.unit = value.exp;
                }
                None => return self.widen_and_apply(value, add),
            }
        }
        let up = value.exp.abs_diff(self.unit);
        let Some(next) = short_step(*sum, *squares, value, up, add, self.with_squares) else {
            return self.widen_and_apply(value, add);
        };
        (*sum, *squares) = next;
    }

    #[cold]
    fn widen_and_apply(&mut self, value: Parts, add: bool) {
        if let Sums::Short { sum, squares } = self.sums {
            self.sums = Sums::Wide(Box::new(Wide {
                sum: BigInt::from(sum),
                squares: big(squares),
            }));
        }
        self.apply_wide(value, add);
    }

    #[cold]
    fn apply_wide(&mut self, value: Parts, add: bool) {
        let Sums::Wide(wide) = &mut self.sums else {
            return;
        };
        if value.exp < self.unit {
            let down = self.unit.abs_diff(value.exp);
            wide.sum <<= down;
            wide.squares <<= 2 * down;
            self.unit = value.exp;
        }
        let up = value.exp.abs_diff(self.unit);
        let term = BigInt::from(value.mantissa) << up;
        if value.minus == add {
            wide.sum -= term;
        } else {
            wide.sum += term;
        }
        if self.with_squares {
            let square = BigUint::from(u128::from(value.mantissa).pow(2)) << (2 * up);
            if add {
                wide.squares += square;
            } else {
                wide.squares -= square;
            }
        }
        self.shorten();
    }

    /// Puts all values of another bag in, which keeps squares if this one does.
    pub fn merge(&mut self, other: &Self) {
        assert!(
            other.with_squares || !self.with_squares,
            "squares were not kept"
        );
        let was_empty = self.finite == 0;
        self.finite += other.finite;
        self.nan += other.nan;
        self.infinite[0] += other.infinite[0];
        self.infinite[1] += other.infinite[1];
        if other.finite == 0 {
            return;
        }
        if was_empty {
            (self.sums, self.unit) = (other.sums.clone(), other.unit);
            return;
        }
        let unit = self.unit.min(other.unit);
        if let Some((sum, squares)) = self
            .short_in(unit)
            .zip(other.short_in(unit))
            .and_then(add_short)
        {
            self.sums = Sums::Short { sum, squares };
            self.unit = unit;
            return;
        }
        let (mut wide, theirs) = (self.wide_in(unit), other.wide_in(unit));
        wide.sum += theirs.sum;
        wide.squares += theirs.squares;
        self.sums = Sums::Wide(Box::new(wide));
        self.unit = unit;
        self.shorten();
    }

    /// The short sums in a finer unit, if they fit.
    fn short_in(&self, unit: i32) -> Option<(i128, U256)> {
        let Sums::Short { sum, squares } = self.sums else {
            return None;
        };
        let down = self.unit.abs_diff(unit);
        let squares = squares.checked_shl(down.saturating_mul(2))?;
        if sum == 0 {
            return Some((0, squares));
        }
        let bits = 128 - sum.unsigned_abs().leading_zeros();
        (bits + down <= SUM_BITS_MAX).then(|| (sum << down, squares))
    }

    /// The sums in a finer unit, whatever their length.
    fn wide_in(&self, unit: i32) -> Wide {
        let down = self.unit.abs_diff(unit);
        let (sum, squares) = match &self.sums {
            Sums::Short { sum, squares } => (BigInt::from(*sum), big(*squares)),
            Sums::Wide(wide) => (wide.sum.clone(), wide.squares.clone()),
        };
        Wide {
            sum: sum << down,
            squares: squares << (2 * down),
        }
    }

    /// Back to the short path when what is left fits it.
    fn shorten(&mut self) {
        let Sums::Wide(wide) = &self.sums else {
            return;
        };
        let sum_zeros = wide.sum.trailing_zeros().unwrap_or(u64::MAX);
        let square_zeros = wide.squares.trailing_zeros().unwrap_or(u64::MAX);
        let zeros = sum_zeros.min(square_zeros / 2);
        if zeros == u64::MAX / 2 || zeros == u64::MAX {
            self.sums = NOTHING;
            return;
        }
        // Well below the limits, so that it does not go back and forth.
        let (sum_bits, square_bits) = (wide.sum.bits(), wide.squares.bits());
        if sum_bits.saturating_sub(zeros) > 100 || square_bits.saturating_sub(2 * zeros) > 220 {
            return;
        }
        let sum = &wide.sum >> zeros;
        let mut limbs = [0; 4];
        for (to, from) in limbs
            .iter_mut()
            .zip((&wide.squares >> (2 * zeros)).iter_u64_digits())
        {
            *to = from;
        }
        self.unit += i32::try_from(zeros).expect("sums have a few thousand bits");
        self.sums = Sums::Short {
            sum: i128::try_from(sum).expect("at most 100 bits"),
            squares: U256::from_limbs(limbs),
        };
    }

    /// How many values are inside, NaN and infinities too.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.finite + self.nan + self.infinite[0] + self.infinite[1]
    }

    /// How many NaN are inside.
    #[must_use]
    pub fn nan_count(&self) -> u64 {
        self.nan
    }

    /// How many `+Inf` and `-Inf` are inside.
    #[must_use]
    pub fn infinite_counts(&self) -> (u64, u64) {
        (self.infinite[0], self.infinite[1])
    }

    /// What NaN and infinities make of a sum or mean.
    fn special(&self) -> Option<f64> {
        match (self.nan, self.infinite) {
            (0, [0, 0]) => None,
            (0, [_, 0]) => Some(f64::INFINITY),
            (0, [0, _]) => Some(f64::NEG_INFINITY),
            _ => Some(f64::NAN),
        }
    }

    /// The sum, rounded once; infinite beyond the largest double. `None` of no values.
    #[must_use]
    pub fn sum(&self) -> Option<f64> {
        self.mean_of(1)
    }

    /// The mean, rounded once. `None` of no values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.mean_of(self.finite)
    }

    fn mean_of(&self, by: u64) -> Option<f64> {
        if self.count() == 0 {
            return None;
        }
        if let Some(special) = self.special() {
            return Some(special);
        }
        let (minus, scaled) = match &self.sums {
            Sums::Short { sum, .. } => {
                let size = sum.unsigned_abs();
                let scaled = if by == 1 {
                    Scaled::whole(size, self.unit)
                } else {
                    Scaled::ratio(U256::from_u128(size), by, self.unit)
                };
                (*sum < 0, scaled)
            }
            Sums::Wide(wide) => (
                wide.sum.sign() == Sign::Minus,
                Scaled::big_ratio(wide.sum.magnitude(), &BigUint::from(by), self.unit),
            ),
        };
        let size = scaled.map_or(0.0, Scaled::to_f64);
        Some(if minus { -size } else { size })
    }

    /// The variance, rounded once: of a sample (n - 1), or of the whole
    /// population (n). `None` for fewer than two values, or none.
    #[must_use]
    pub fn variance(&self, of_sample: bool) -> Option<f64> {
        self.spread(of_sample, |scaled| scaled)
    }

    /// The square root of the exact variance, rounded once.
    #[must_use]
    pub fn stddev(&self, of_sample: bool) -> Option<f64> {
        self.spread(of_sample, Scaled::sqrt)
    }

    fn spread(&self, of_sample: bool, then: impl Fn(Scaled) -> Scaled) -> Option<f64> {
        assert!(self.with_squares, "squares were not kept");
        if self.count() < 1 + u64::from(of_sample) {
            return None;
        }
        if self.special().is_some() {
            return Some(f64::NAN);
        }
        let n = self.finite;
        let exact = match &self.sums {
            Sums::Short { sum, squares } => short_variance(*sum, *squares, n, of_sample, self.unit),
            Sums::Wide(wide) => Err((wide.sum.magnitude().clone(), wide.squares.clone())),
        };
        let scaled = match exact {
            Ok(scaled) => scaled,
            Err((sum, squares)) => {
                let over = squares * n - &sum * &sum;
                let by = BigUint::from(n) * (n - u64::from(of_sample));
                Scaled::big_ratio(&over, &by, 2 * self.unit)
            }
        };
        Some(scaled.map_or(0.0, |s| then(s).to_f64()))
    }
}

#[cfg(test)]
mod tests;
