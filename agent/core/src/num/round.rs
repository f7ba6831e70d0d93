//! From exact integers to the nearest double, rounded once, ties to even.

use num_bigint::BigUint;

use super::u256::U256;

/// A number larger than 0, known to at least 64 bits: `q * 2^exp`, and a little
/// more when `sticky`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scaled {
    q: u128,
    exp: i32,
    sticky: bool,
}

/// Bits of a double's mantissa with the hidden one.
const MANTISSA_BITS: i32 = 53;
/// Exponent of the smallest normal double.
const EXP_MIN: i32 = -1022;
const EXP_MAX: i32 = 1023;

impl Scaled {
    /// `n / by * 2^exp`; `None` for 0.
    pub(super) fn ratio(n: U256, by: u64, exp: i32) -> Option<Self> {
        if n.is_zero() {
            return None;
        }
        let up = 256 - n.bits();
        let n = n.checked_shl(up).expect("shifted to exactly 256 bits");
        let (q, rest) = n.div(by);
        // q has at least 192 bits: the upper 128 are kept.
        let drop = q.bits() - 128;
        let (hi, lo) = q.halves();
        let (kept, lost) = if drop == 128 {
            (hi, lo)
        } else {
            (hi << (128 - drop) | lo >> drop, lo << (128 - drop))
        };
        Some(Self {
            q: kept,
            exp: exp - signed(up) + signed(drop),
            sticky: rest || lost != 0,
        })
    }

    /// The same for numbers of any length.
    pub(super) fn big_ratio(n: &BigUint, by: &BigUint, exp: i32) -> Option<Self> {
        if n.bits() == 0 {
            return None;
        }
        let up = (by.bits() + 130).saturating_sub(n.bits());
        let n = n << up;
        let q = &n / by;
        let mut sticky = &q * by != n;
        let drop = q.bits() - 128;
        sticky |= q.trailing_zeros().is_some_and(|zeros| zeros < drop);
        let digits = (q >> drop).to_u64_digits();
        let digit = |at: usize| u128::from(digits.get(at).copied().unwrap_or(0));
        let small = |n: u64| i32::try_from(n).expect("sums have a few thousand bits");
        Some(Self {
            q: digit(0) | digit(1) << 64,
            exp: exp - small(up) + small(drop),
            sticky,
        })
    }

    /// The square root, again to at least 63 bits.
    pub(super) fn sqrt(self) -> Self {
        let Self {
            mut q,
            mut exp,
            mut sticky,
        } = self;
        // As many bits as there are: the root has half of them.
        let up = q.leading_zeros();
        q <<= up;
        exp -= signed(up);
        if exp % 2 != 0 {
            sticky |= q & 1 == 1;
            q >>= 1;
            exp += 1;
        }
        let root = q.isqrt();
        Self {
            q: root,
            exp: exp / 2,
            sticky: sticky || root * root != q,
        }
    }

    /// The nearest double: infinity beyond the largest, 0 below half the smallest.
    pub(super) fn to_f64(self) -> f64 {
        let bits = 128 - signed(self.q.leading_zeros());
        let top = bits - 1 + self.exp;
        if top > EXP_MAX {
            return f64::INFINITY;
        }
        let kept = MANTISSA_BITS - (EXP_MIN - top).max(0);
        if kept < 0 {
            return 0.0;
        }
        let drop = bits - kept;
        let mantissa = if drop <= 0 {
            // Exact: all bits fit, moved up to where they belong.
            self.q << -drop
        } else {
            let whole = self.q.checked_shr(drop.unsigned_abs()).unwrap_or(0);
            let half = 1_u128 << (drop - 1);
            let lost = self.q - whole.checked_shl(drop.unsigned_abs()).unwrap_or(0);
            let up = lost > half || (lost == half && (self.sticky || whole & 1 == 1));
            whole + u128::from(up)
        };
        // Adding the mantissa with its hidden bit carries into the exponent where
        // rounding made it one bit longer, up to infinity.
        let biased = u64::try_from((top - EXP_MIN).max(0)).expect("not negative");
        let mantissa = u64::try_from(mantissa).expect("at most 54 bits");
        f64::from_bits((biased << 52) + mantissa)
    }
}

/// `n / by * 2^exp` rounded once, for `n` larger than 0, where that is cheap: doubles
/// come within a few ulps of the result, and the remainder, an integer, says
/// which of these is the nearest. `None` near the ends of the doubles and
/// where the mantissa is at a power of two.
#[inline]
pub(super) fn quick_ratio(n: u128, by: u64, exp: i32) -> Option<f64> {
    let bits = 128 - n.leading_zeros();
    if bits > 125 || by >> 53 != 0 {
        return None;
    }
    let drop = bits.saturating_sub(64);
    // At most 2^64 * (1 + 2^-52) / 1 and at least 1 / 2^53: a normal double.
    let near = (n >> drop) as u64 as f64 / by as f64;
    let mut mantissa = near.to_bits() & ((1 << 52) - 1) | 1 << 52;
    // The result is about mantissa * 2^at, in units of 2^exp.
    let at = (near.to_bits() >> 52) as i32 - 1075 + signed(drop);
    let biased = at + exp + 1075;
    if !(1..=2045).contains(&biased) {
        return None;
    }
    // In units in which both are integers, at most 2^126: one ulp is `step`.
    let product = u128::from(mantissa) * u128::from(by);
    let (rest, step) = if at < 0 {
        ((n << -at).wrapping_sub(product), u128::from(by))
    } else {
        (n.wrapping_sub(product << at), u128::from(by) << at)
    };
    let (mut rest, step) = (rest.cast_signed(), step.cast_signed());
    while 2 * rest > step {
        mantissa += 1;
        rest -= step;
    }
    while 2 * rest < -step {
        mantissa -= 1;
        rest += step;
    }
    if 2 * rest.abs() == step {
        // Halfway: to the even one.
        if rest > 0 {
            mantissa += mantissa & 1;
        } else {
            mantissa -= mantissa & 1;
        }
    }
    // Below a power of two the doubles lie twice as close.
    let inside = mantissa > 1 << 52 || (mantissa == 1 << 52 && rest >= 0);
    // Added, not put together: the next power of two is one more in the exponent.
    let bits = (u64::from(biased.unsigned_abs()) << 52) + mantissa.wrapping_sub(1 << 52);
    (inside && mantissa <= 1 << 53).then(|| f64::from_bits(bits))
}

fn signed(bits: u32) -> i32 {
    i32::try_from(bits).expect("at most 256")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn edges_of_the_doubles() {
        for (name, n, exp, want) in [
            ("one", 1, 0, 1.0),
            ("largest", (1 << 53) - 1, 971, f64::MAX),
            ("half an ulp over", (1 << 54) - 1, 970, f64::INFINITY),
            ("just below that", (1 << 55) - 3, 969, f64::MAX),
            ("beyond", 1, 1024, f64::INFINITY),
            ("smallest normal", 1, -1022, f64::MIN_POSITIVE),
            ("smallest", 1, -1074, 5e-324),
            ("half of it, tie to even", 1, -1075, 0.0),
            ("more than half", 3, -1076, 5e-324),
            ("less than half", 1, -1076, 0.0),
            ("one and a half", 3, -1075, 1e-323),
            (
                "subnormal to normal",
                (1 << 53) - 1,
                -1075,
                f64::MIN_POSITIVE,
            ),
            (
                "tie to even down",
                (1 << 53) + 1,
                0,
                9_007_199_254_740_992.0,
            ),
            ("tie to even up", (1 << 53) + 3, 0, 9_007_199_254_740_996.0),
            ("all bits", u128::MAX, 0, 3.402_823_669_209_385e38),
        ] {
            let scaled = Scaled::ratio(U256::from_u128(n), 1, exp).expect("not 0");
            assert_eq!(scaled.to_f64().to_bits(), f64::to_bits(want), "{name}");
        }
    }

    proptest! {
        #[test]
        fn the_quick_way_is_the_long_way(n: u128, drop in 0_u32..128, by: u64, by_drop in 0_u32..64, exp in -1100_i32..900, near in -2_i64..3) {
            let (n, by) = ((n >> drop).max(1), (by >> by_drop).max(1));
            let long = |n, by| Scaled::ratio(U256::from_u128(n), by, exp).map(Scaled::to_f64);
            if let Some(quick) = quick_ratio(n, by, exp) {
                prop_assert_eq!(Some(quick), long(n, by));
            }
            // Next to a double, and halfway to the next one.
            let mantissa = (n as u64 >> 11 | 1 << 52).saturating_add_signed(near);
            for twice in [2 * u128::from(mantissa), 2 * u128::from(mantissa) + 1] {
                let by = by >> 16 | 1;
                if let Some(quick) = quick_ratio(twice * u128::from(by), by, exp) {
                    prop_assert_eq!(Some(quick), long(twice * u128::from(by), by));
                }
            }
        }
    }

    #[test]
    fn the_quick_way_is_taken() {
        for (name, n, by, exp) in [
            ("one", 1, 1, 0),
            ("a third", 1, 3, 0),
            ("flat at a power of two", 60 << 52, 60, -48),
            (
                "an hour of hundredths",
                7_643_211_234_567_890_123,
                3600,
                -52,
            ),
            ("all a sum holds", (1 << 125) - 1, 1_000_000, -60),
        ] {
            assert!(quick_ratio(n, by, exp).is_some(), "{name}");
        }
    }

    #[test]
    fn roots_of_squares_are_exact() {
        for n in [1_u64, 2, 3, 10, 12_345, u64::from(u32::MAX)] {
            let square = Scaled::ratio(U256::from_u128((n * n).into()), 1, -10).expect("not 0");
            assert_eq!(square.sqrt().to_f64(), n as f64 / 32.0, "{n}");
        }
    }
}
