//! The short path of exact moments: sums of 128 and 256 bits, and how a double
//! becomes a term of them.

use num_bigint::BigUint;

use super::{SQUARES_BITS_MAX, SUM_BITS_MAX};
use crate::num::round::Scaled;
use crate::num::u256::U256;

/// A finite double that is not 0: `mantissa * 2^exp`, mantissa odd.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) mantissa: u64,
    pub(super) exp: i32,
    pub(super) minus: bool,
}

pub(super) fn parts(x: f64) -> Option<Parts> {
    let bits = x.to_bits();
    let biased = i32::try_from(bits >> 52 & 0x7ff).expect("11 bits");
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exp) = if biased == 0 {
        (fraction, -1074)
    } else {
        (fraction | 1 << 52, biased - 1075)
    };
    if mantissa == 0 {
        return None;
    }
    let zeros = mantissa.trailing_zeros();
    Some(Parts {
        mantissa: mantissa >> zeros,
        exp: exp + i32::try_from(zeros).expect("at most 52"),
        minus: x.is_sign_negative(),
    })
}

/// Both sums with one value more or less, unless one gets too long.
pub(super) fn short_step(
    sum: i128,
    squares: U256,
    value: Parts,
    up: u32,
    add: bool,
    with_squares: bool,
) -> Option<(i128, U256)> {
    let length = 64 - value.mantissa.leading_zeros();
    if up >= SUM_BITS_MAX || length + up > SUM_BITS_MAX {
        return None;
    }
    let term = i128::from(value.mantissa) << up;
    let next = if value.minus == add {
        sum - term
    } else {
        sum + term
    };
    if 128 - next.unsigned_abs().leading_zeros() > SUM_BITS_MAX {
        return None;
    }
    if !with_squares {
        return Some((next, squares));
    }
    let square = U256::from_u128(u128::from(value.mantissa).pow(2)).checked_shl(2 * up)?;
    let squares = if add {
        squares.checked_add(square)?
    } else {
        squares.checked_sub(square).expect("the square is inside")
    };
    (squares.bits() <= SQUARES_BITS_MAX).then_some((next, squares))
}

/// `(n * squares - sum^2) / (n * (n - 1))` in 256 bits, or what a longer
/// calculation needs.
pub(super) fn short_variance(
    sum: i128,
    squares: U256,
    n: u64,
    of_sample: bool,
    unit: i32,
) -> Result<Option<Scaled>, (BigUint, BigUint)> {
    let size = sum.unsigned_abs();
    let by = n.checked_mul(n - u64::from(of_sample));
    match (by, squares.checked_mul(n)) {
        (Some(by), Some(scaled_squares)) => {
            let over = scaled_squares
                .checked_sub(U256::product(size, size))
                .expect("n times the squares is at least the square of the sum");
            Ok(Scaled::ratio(over, by, 2 * unit))
        }
        _ => Err((BigUint::from(size), big(squares))),
    }
}

pub(super) fn add_short(both: ((i128, U256), (i128, U256))) -> Option<(i128, U256)> {
    let ((a, a_squares), (b, b_squares)) = both;
    let sum = a.checked_add(b)?;
    let squares = a_squares.checked_add(b_squares)?;
    let fits = 128 - sum.unsigned_abs().leading_zeros() <= SUM_BITS_MAX
        && squares.bits() <= SQUARES_BITS_MAX;
    fits.then_some((sum, squares))
}

pub(super) fn big(n: U256) -> BigUint {
    let half = |n: u64| u32::try_from(n & 0xffff_ffff).expect("32 bits");
    let digits = n
        .limbs()
        .into_iter()
        .flat_map(|limb| [half(limb), half(limb >> 32)]);
    BigUint::new(digits.collect())
}
