//! Values inside the engine: a double, or the pattern that says there is none.
//! Knows no windows.

/// "No value": a NaN with a pattern of its own, which no reading has, since every
/// other NaN is made the usual one at the door.
pub const NULL: f64 = f64::from_bits(0x7ff8_f0be_ba00_0001);

/// Whether this is [`NULL`], not just any NaN.
#[must_use]
#[inline]
pub fn is_null(x: f64) -> bool {
    x.to_bits() == NULL.to_bits()
}

/// A reading's value as the engine keeps it: one pattern for "none", one for NaN.
#[must_use]
#[inline]
pub fn column(value: Option<f64>) -> f64 {
    match value {
        None => NULL,
        Some(x) if x.is_nan() => f64::NAN,
        Some(x) => x,
    }
}

/// The value of a column, if there is one.
#[must_use]
pub fn option(x: f64) -> Option<f64> {
    (!is_null(x)).then_some(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_and_nan_stay_apart() {
        for (name, value, null, bits) in [
            ("none", None, true, NULL.to_bits()),
            ("a number", Some(-0.0), false, (-0.0_f64).to_bits()),
            ("the usual NaN", Some(f64::NAN), false, f64::NAN.to_bits()),
            ("negative NaN", Some(-f64::NAN), false, f64::NAN.to_bits()),
            ("our pattern", Some(NULL), false, f64::NAN.to_bits()),
        ] {
            let x = column(value);
            assert_eq!((is_null(x), x.to_bits()), (null, bits), "{name}");
        }
    }
}
