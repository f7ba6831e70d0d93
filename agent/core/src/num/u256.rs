//! An unsigned integer of 256 bits: what sums of squares need, and no more.

/// `hi * 2^128 + lo`
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct U256 {
    hi: u128,
    lo: u128,
}

impl U256 {
    pub(super) const ZERO: Self = Self { hi: 0, lo: 0 };

    pub(super) const fn from_u128(lo: u128) -> Self {
        Self { hi: 0, lo }
    }

    /// Little-endian limbs of 64 bits.
    pub(super) fn limbs(self) -> [u64; 4] {
        [
            low(self.lo),
            low(self.lo >> 64),
            low(self.hi),
            low(self.hi >> 64),
        ]
    }

    pub(super) fn from_limbs(limbs: [u64; 4]) -> Self {
        let [a, b, c, d] = limbs.map(u128::from);
        Self {
            lo: a | b << 64,
            hi: c | d << 64,
        }
    }

    pub(super) fn is_zero(self) -> bool {
        self.hi == 0 && self.lo == 0
    }

    /// Length in bits, 0 for 0.
    pub(super) fn bits(self) -> u32 {
        if self.hi == 0 {
            128 - self.lo.leading_zeros()
        } else {
            256 - self.hi.leading_zeros()
        }
    }

    pub(super) const fn from_halves([lo, hi]: [u128; 2]) -> Self {
        Self { hi, lo }
    }

    /// The sum without what overflows, and whether something does.
    #[inline]
    pub(super) fn overflowing_add(self, other: Self) -> (Self, bool) {
        let (lo, carry) = self.lo.overflowing_add(other.lo);
        let (hi, first) = self.hi.overflowing_add(other.hi);
        let (hi, second) = hi.overflowing_add(carry.into());
        (Self { hi, lo }, first | second)
    }

    /// The difference without what is borrowed, and whether something is.
    #[inline]
    pub(super) fn overflowing_sub(self, other: Self) -> (Self, bool) {
        let (lo, borrow) = self.lo.overflowing_sub(other.lo);
        let (hi, first) = self.hi.overflowing_sub(other.hi);
        let (hi, second) = hi.overflowing_sub(borrow.into());
        (Self { hi, lo }, first | second)
    }

    pub(super) fn checked_add(self, other: Self) -> Option<Self> {
        let (sum, overflow) = self.overflowing_add(other);
        (!overflow).then_some(sum)
    }

    pub(super) fn checked_sub(self, other: Self) -> Option<Self> {
        let (rest, borrow) = self.overflowing_sub(other);
        (!borrow).then_some(rest)
    }

    /// `None` when bits would be lost.
    pub(super) fn checked_shl(self, by: u32) -> Option<Self> {
        if self.is_zero() {
            return Some(self);
        }
        if by >= 256 || self.bits() + by > 256 {
            return None;
        }
        Some(match by {
            0 => self,
            1..128 => Self {
                hi: self.hi << by | self.lo >> (128 - by),
                lo: self.lo << by,
            },
            _ => Self {
                hi: self.lo << (by - 128),
                lo: 0,
            },
        })
    }

    /// Without the `by` lowest bits.
    pub(super) fn shr(self, by: u32) -> Self {
        match by {
            0 => self,
            1..128 => Self {
                hi: self.hi >> by,
                lo: self.hi << (128 - by) | self.lo >> by,
            },
            _ => Self {
                hi: 0,
                lo: self.hi.checked_shr(by - 128).unwrap_or(0),
            },
        }
    }

    /// Zeros below the lowest bit that is set; 256 for 0.
    pub(super) fn trailing_zeros(self) -> u32 {
        if self.lo == 0 {
            128 + self.hi.trailing_zeros()
        } else {
            self.lo.trailing_zeros()
        }
    }

    /// The full product of two 128-bit numbers.
    pub(super) fn product(a: u128, b: u128) -> Self {
        let (a1, a0, b1, b0) = (a >> 64, u128::from(low(a)), b >> 64, u128::from(low(b)));
        let middle = a0 * b1;
        let (middle, carry) = middle.overflowing_add(a1 * b0);
        let (lo, low_carry) = (a0 * b0).overflowing_add(middle << 64);
        let hi = a1 * b1 + (middle >> 64) + (u128::from(carry) << 64) + u128::from(low_carry);
        Self { hi, lo }
    }

    pub(super) fn checked_mul(self, by: u64) -> Option<Self> {
        let low_part = Self::product(self.lo, by.into());
        let hi = self.hi.checked_mul(by.into())?.checked_add(low_part.hi)?;
        Some(Self {
            hi,
            lo: low_part.lo,
        })
    }

    /// Quotient and whether there was a remainder.
    pub(super) fn div(self, by: u64) -> (Self, bool) {
        let mut limbs = self.limbs();
        let mut rest: u128 = 0;
        for limb in limbs.iter_mut().rev() {
            let part = rest << 64 | u128::from(*limb);
            // Below 2^64, since rest < by.
            *limb = low(part / u128::from(by));
            rest = part % u128::from(by);
        }
        (Self::from_limbs(limbs), rest != 0)
    }

    pub(super) fn halves(self) -> (u128, u128) {
        (self.hi, self.lo)
    }
}

/// The low 64 bits.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the low half is what it is for"
)]
const fn low(n: u128) -> u64 {
    n as u64
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use proptest::prelude::*;

    use super::*;

    fn big(n: U256) -> BigUint {
        (BigUint::from(n.hi) << 128) + BigUint::from(n.lo)
    }

    proptest! {
        #[test]
        fn agrees_with_big_integers(a: [u64; 4], b: [u64; 4], x: u128, y: u128, m: u64, by in 0_u32..300, cut in 0_u32..256) {
            let (a, b) = (U256::from_limbs(a), U256::from_limbs(b));
            let limit = BigUint::from(1_u8) << 256;
            let fits = |n: BigUint| (n < limit).then_some(n);
            prop_assert_eq!(a.checked_add(b).map(big), fits(big(a) + big(b)));
            prop_assert_eq!(a.checked_sub(b).map(big), (a >= b).then(|| big(a) - big(b)));
            prop_assert_eq!(big(U256::product(x, y)), BigUint::from(x) * BigUint::from(y));
            prop_assert_eq!(a.checked_mul(m).map(big), fits(big(a) * BigUint::from(m)));
            let (small, _) = (U256::from_limbs(a.limbs().map(|l| l >> (cut % 64))), 0);
            prop_assert_eq!(small.checked_shl(by).map(big), fits(big(small) << by));
            prop_assert_eq!(big(a.shr(by)), big(a) >> by);
            prop_assert_eq!(big(small).trailing_zeros().unwrap_or(256), u64::from(small.trailing_zeros()));
            prop_assert_eq!(u64::from(a.bits()), big(a).bits());
            if m > 0 {
                let (q, rest) = a.div(m);
                prop_assert_eq!(big(q), big(a) / BigUint::from(m));
                prop_assert_eq!(rest, big(a) % BigUint::from(m) != BigUint::ZERO);
            }
        }
    }
}
