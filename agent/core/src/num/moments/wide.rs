//! The wide path of exact moments: big integers, while values are inside that
//! are too far apart for the short one.

use num_bigint::{BigInt, BigUint, Sign};

use super::short::{join, parts};
use super::{BASE_MAX, BIAS, Moments, NO_BASE};
use crate::num::round::Scaled;
use crate::num::u256::U256;

/// What fits so many bits goes back to the short path: well below its limits, so
/// that it does not go back and forth.
const SHORT_SUM_BITS: u64 = 100;
const SHORT_SQUARES_BITS: u64 = 220;

/// Sums in units of `2^unit` and of the square of that.
#[derive(Debug, Clone)]
pub(super) struct Wide {
    pub(super) sum: BigInt,
    pub(super) squares: BigUint,
    pub(super) unit: i32,
}

impl Wide {
    /// The short sums of a bag.
    pub(super) fn of_short(moments: &Moments) -> Self {
        Self {
            sum: BigInt::from(join(moments.sum).cast_signed()),
            squares: big(moments.short_squares()),
            unit: if moments.base == NO_BASE {
                0
            } else {
                moments.unit()
            },
        }
    }

    /// Of any bag.
    pub(super) fn of(moments: &Moments) -> Self {
        moments
            .wide()
            .map_or_else(|| Self::of_short(moments), Self::clone)
    }

    /// Makes the unit finer where it is coarser than that.
    fn refine(&mut self, unit: i32) {
        if unit < self.unit {
            let down = self.unit.abs_diff(unit);
            self.sum <<= down;
            self.squares <<= 2 * down;
            self.unit = unit;
        }
    }

    fn step(&mut self, x: f64, add: bool, with_squares: bool) {
        let (mantissa, biased) = parts(x);
        let exp = biased.cast_signed() - BIAS;
        self.refine(exp);
        let up = exp.abs_diff(self.unit);
        let term = BigInt::from(mantissa) << up;
        if x.is_sign_negative() == add {
            self.sum -= term;
        } else {
            self.sum += term;
        }
        if with_squares {
            let square = BigUint::from(u128::from(mantissa).pow(2)) << (2 * up);
            if add {
                self.squares += square;
            } else {
                self.squares -= square;
            }
        }
    }

    /// Zeros at the end of both sums, which a coarser unit would not need; `None`
    /// when both are 0.
    pub(super) fn zeros(&self) -> Option<u64> {
        match (self.sum.trailing_zeros(), self.squares.trailing_zeros()) {
            (None, None) => None,
            (Some(sum), None) => Some(sum),
            (None, Some(squares)) => Some(squares / 2),
            (Some(sum), Some(squares)) => Some(sum.min(squares / 2)),
        }
    }

    /// The sums in a coarser unit, without so many zeros at their end.
    pub(super) fn coarser(&self, zeros: u64) -> Self {
        Self {
            sum: &self.sum >> zeros,
            squares: &self.squares >> (2 * zeros),
            unit: self.unit + i32::try_from(zeros).expect("sums have a few thousand bits"),
        }
    }

    /// Sum, squares and base of the short path, when it is enough for these.
    fn shortened(&self, sum_bits: u64, squares_bits: u64) -> Option<(i128, U256, u32)> {
        let Some(zeros) = self.zeros() else {
            return Some((0, U256::ZERO, NO_BASE));
        };
        // Not coarser than the largest base, nor finer than the smallest.
        let coarsest = BASE_MAX.cast_signed() - BIAS;
        let zeros = zeros.min(u64::from(
            coarsest.saturating_sub(self.unit).max(0).unsigned_abs(),
        ));
        let fits = self.sum.bits().saturating_sub(zeros) <= sum_bits
            && self.squares.bits().saturating_sub(2 * zeros) <= squares_bits;
        if !fits || self.unit > coarsest {
            return None;
        }
        let short = self.coarser(zeros);
        let mut limbs = [0; 4];
        for (to, from) in limbs.iter_mut().zip(short.squares.iter_u64_digits()) {
            *to = from;
        }
        let base = (short.unit + BIAS).unsigned_abs();
        let sum = i128::try_from(short.sum).ok()?;
        Some((sum, U256::from_limbs(limbs), base))
    }

    /// The sum divided by `by`, rounded once.
    pub(super) fn mean_of(&self, by: u64) -> f64 {
        let size = Scaled::big_ratio(self.sum.magnitude(), &BigUint::from(by), self.unit);
        let size = size.map_or(0.0, Scaled::to_f64);
        if self.sum.sign() == Sign::Minus {
            -size
        } else {
            size
        }
    }

    /// The exact variance of n values; `None` for 0.
    pub(super) fn variance(&self, n: u64, of_sample: bool) -> Option<Scaled> {
        let over = &self.squares * n - self.sum.magnitude() * self.sum.magnitude();
        let by = BigUint::from(n) * (n - u64::from(of_sample));
        Scaled::big_ratio(&over, &by, 2 * self.unit)
    }
}

impl Moments {
    /// One value more or less, finite and not 0, with any others inside.
    #[cold]
    pub(super) fn wide_step(&mut self, x: f64, add: bool) {
        let with_squares = self.with_squares;
        let mut wide = self.take_wide();
        wide.step(x, add, with_squares);
        self.set(wide, SHORT_SUM_BITS, SHORT_SQUARES_BITS);
    }

    /// All values of another bag, whose count is in already.
    #[cold]
    pub(super) fn wide_merge(&mut self, other: &Self) {
        let (mut mine, mut theirs) = (self.take_wide(), Wide::of(other));
        mine.refine(theirs.unit);
        theirs.refine(mine.unit);
        mine.sum += theirs.sum;
        if self.with_squares {
            mine.squares += theirs.squares;
        }
        self.set(mine, SHORT_SUM_BITS, SHORT_SQUARES_BITS);
    }

    fn take_wide(&mut self) -> Wide {
        let wide = self.rare.as_deref_mut().and_then(|rare| rare.wide.take());
        wide.unwrap_or_else(|| Wide::of_short(self))
    }

    /// Keeps these sums, on the short path when they have no more than so many bits.
    pub(super) fn set(&mut self, wide: Wide, sum_bits: u64, squares_bits: u64) {
        if let Some((sum, squares, base)) = wide.shortened(sum_bits, squares_bits) {
            self.set_short(sum, squares, base);
        } else {
            self.set_short(0, U256::ZERO, NO_BASE);
            self.rare().wide = Some(wide);
        }
    }
}

fn big(n: U256) -> BigUint {
    let half = |n: u64| (n & 0xffff_ffff) as u32;
    let digits = n
        .limbs()
        .into_iter()
        .flat_map(|limb| [half(limb), half(limb >> 32)]);
    BigUint::new(digits.collect())
}
