//! The short path of exact moments: sums of 128 and 256 bits.

use super::wide::Wide;
use super::{BASE_MAX, BIAS, FRACTION, HIDDEN, Moments, NO_BASE, SHORT_UP, SPECIAL};
use crate::num::round::Scaled;
use crate::num::u256::U256;

/// A number of two words, the low one first.
#[inline]
pub(super) fn join([lo, hi]: [u64; 2]) -> u128 {
    u128::from(hi) << 64 | u128::from(lo)
}

#[inline]
pub(super) fn split(n: u128) -> [u64; 2] {
    [n as u64, (n >> 64) as u64]
}

/// Low and high half of the square of a number below 2^127.
#[inline]
pub(super) fn square(n: u128) -> [u128; 2] {
    let [lo, hi] = split(n).map(u128::from);
    let (low, middle, high) = (lo * lo, lo * hi, hi * hi);
    // Twice the middle, 64 bits up; hi is below 2^63, so nothing is lost.
    let (low, carry) = low.overflowing_add(middle << 65);
    [low, high + (middle >> 63) + u128::from(carry)]
}

/// The exponent as it stands in a double.
#[inline]
pub(super) fn biased(bits: u64) -> u32 {
    (bits >> 52) as u32 & SPECIAL
}

/// A finite double that is not 0 is `mantissa * 2^(biased - BIAS)`, where the
/// mantissa has at most 53 bits and `biased` is at least 1.
pub(super) fn parts(x: f64) -> (u64, u32) {
    let bits = x.to_bits();
    match biased(bits) {
        0 => (bits & FRACTION, 1),
        biased => (bits & FRACTION | HIDDEN, biased),
    }
}

impl Moments {
    /// Exponent of the unit of the short sums.
    pub(super) fn unit(&self) -> i32 {
        self.base.cast_signed() - BIAS
    }

    pub(super) fn short_squares(&self) -> U256 {
        U256::from_limbs(self.squares)
    }

    /// From here on the sums are short.
    pub(super) fn set_short(&mut self, sum: i128, squares: U256, base: u32) {
        self.sum = split(sum.cast_unsigned());
        self.squares = squares.limbs();
        self.base = base;
        if let Some(rare) = self.rare.as_deref_mut() {
            rare.wide = None;
            self.forget_rare();
        }
    }

    /// One value more or less, finite and not 0, that is counted already. `false`
    /// when that needs wide integers, with nothing changed but perhaps the unit.
    pub(super) fn refine_and_step(&mut self, x: f64, add: bool) -> bool {
        let (mut mantissa, mut at) = parts(x);
        if self.base == NO_BASE {
            if self.wide().is_some() || at > BASE_MAX {
                return false;
            }
            self.base = at;
        }
        if at < self.base && !self.refine(at) {
            // Maybe it is a whole number of the unit all the same.
            let zeros = mantissa.trailing_zeros();
            (mantissa, at) = (mantissa >> zeros, at + zeros);
            if at < self.base && !self.refine(at) {
                return false;
            }
        }
        let up = at - self.base;
        if up > SHORT_UP {
            return false;
        }
        let size = u128::from(mantissa) << up;
        let minus = x.is_sign_negative();
        let counted = self.finite;
        let done = if add {
            self.apply::<true>(minus, size, square(size))
        } else {
            self.apply::<false>(minus, size, square(size))
        };
        self.finite = counted;
        done
    }

    /// Makes the unit finer, if the sums then still fit.
    fn refine(&mut self, base: u32) -> bool {
        let Some((sum, squares)) = self.short_in(base) else {
            return false;
        };
        self.sum = split(sum.cast_unsigned());
        self.squares = squares.limbs();
        self.base = base;
        true
    }

    /// The short sums in a finer unit, if they fit.
    fn short_in(&self, base: u32) -> Option<(i128, U256)> {
        let down = self.base - base;
        let sum = join(self.sum).cast_signed();
        let squares = self.short_squares().checked_shl(down.saturating_mul(2))?;
        if sum == 0 {
            return Some((0, squares));
        }
        // One bit is the sign, and one is left for the next value.
        let free = sum.unsigned_abs().leading_zeros();
        (down + 2 <= free).then(|| (sum << down, squares))
    }

    /// All values of another bag, whose count is in already. `false` when that
    /// needs wide integers, with nothing changed.
    pub(super) fn short_merge(&mut self, other: &Self) -> bool {
        if other.base == NO_BASE {
            return other.wide().is_none();
        }
        if self.base == NO_BASE {
            if self.wide().is_some() {
                return false;
            }
            self.sum = other.sum;
            if self.with_squares {
                self.squares = other.squares;
            }
            self.base = other.base;
            return true;
        }
        let base = self.base.min(other.base);
        let added = || {
            let (a, b) = (self.short_in(base)?, other.short_in(base)?);
            let squares = if self.with_squares { b.1 } else { U256::ZERO };
            Some((a.0.checked_add(b.0)?, a.1.checked_add(squares)?))
        };
        let Some((sum, squares)) = added() else {
            return false;
        };
        self.sum = split(sum.cast_unsigned());
        self.squares = squares.limbs();
        self.base = base;
        true
    }

    /// `(n * squares - sum^2) / (n * (n - 1))`, or `n * n` for a whole population.
    pub(super) fn short_variance(&self, of_sample: bool) -> Option<Scaled> {
        let n = self.finite;
        let size = join(self.sum).cast_signed().unsigned_abs();
        let squares = self.short_squares();
        let by = n.checked_mul(n - u64::from(of_sample));
        let (Some(by), Some(scaled_squares)) = (by, squares.checked_mul(n)) else {
            return Wide::of_short(self).variance(n, of_sample);
        };
        let over = scaled_squares
            .checked_sub(U256::product(size, size))
            .expect("n times the squares is at least the square of the sum");
        Scaled::ratio(over, by, 2 * self.unit())
    }
}
