//! Doubles as integers in the same order, for comparisons without NaN.

/// Place of a double among all that are no NaN: -0.0 is below 0.0.
#[must_use]
#[inline]
pub fn place(x: f64) -> i64 {
    flip(x.to_bits().cast_signed())
}

/// The double at a place.
#[must_use]
#[inline]
pub fn at_place(place: i64) -> f64 {
    f64::from_bits(flip(place).cast_unsigned())
}

/// The bits of a negative number the other way round, all but the sign.
fn flip(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// Smallest and largest of some doubles, as places; crossed while there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub low: i64,
    pub high: i64,
}

impl Extent {
    pub const NONE: Self = Self {
        low: i64::MAX,
        high: i64::MIN,
    };

    /// Puts a double in that is no NaN.
    #[inline]
    pub fn add(&mut self, x: f64) {
        let place = place(x);
        self.low = self.low.min(place);
        self.high = self.high.max(place);
    }

    #[must_use]
    #[inline]
    pub fn joined(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }

    /// Smallest and largest, if there are any.
    #[must_use]
    pub fn ends(self) -> Option<(f64, f64)> {
        (self.low <= self.high).then(|| (at_place(self.low), at_place(self.high)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_are_in_the_total_order(a: f64, b: f64) {
            prop_assert_eq!(place(a).cmp(&place(b)), a.total_cmp(&b));
            prop_assert_eq!(at_place(place(a)).to_bits(), a.to_bits());
        }
    }
}
