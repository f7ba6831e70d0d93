//! Count, sum and sum of squares of doubles, exact, with values taken back out:
//! a rolling window never drifts, and a glitch that left leaves no trace.
//!
//! The sums are integers in units of a power of two that suits the series: 128
//! and 256 bits while that is enough, else big integers, and back as soon as
//! it is enough again. Which of the two holds, and in which unit, is never seen
//! in a result nor in the bytes of the state. NaN and the infinities are only
//! counted. Bound: 72 bytes, and about 0.9 KiB more while wild values are inside.

mod short;
mod state;
mod wide;

use self::short::{biased, join, split};
use self::wide::Wide;
use super::round::{Scaled, quick_ratio};
use super::u256::U256;

/// What stands for the exponent of 0 in a double, when the mantissa is an integer.
const BIAS: i32 = 1075;
const FRACTION: u64 = (1 << 52) - 1;
const HIDDEN: u64 = 1 << 52;
const SPECIAL: u32 = 0x7ff;
/// A mantissa that is moved up by so much still fits 64 bits.
const QUICK_UP: u32 = 11;
/// And so much still fits 117 bits.
const SHORT_UP: u32 = 63;
/// Base of sums that have no unit: nothing is inside, or it is in wide integers.
/// No exponent is near it, so the one test of the hot path fails.
const NO_BASE: u32 = 1 << 20;
/// Largest base: NaN and the infinities are further above it than [`SHORT_UP`].
const BASE_MAX: u32 = SPECIAL - SHORT_UP - 1;

/// The exact moments of a bag of doubles.
#[derive(Debug, Clone)]
pub struct Moments {
    /// Low and high word of an `i128` in units of `2^(base - BIAS)`.
    sum: [u64; 2],
    /// Words, lowest first, in units of the square of that.
    squares: [u64; 4],
    /// Values that are neither NaN nor infinite.
    finite: u64,
    /// 1 to [`BASE_MAX`], or [`NO_BASE`]: then the sums here are 0.
    base: u32,
    with_squares: bool,
    rare: Option<Box<Rare>>,
}

const _: () = assert!(size_of::<Moments>() <= 72);

/// What an ordinary series never has.
#[derive(Debug, Clone, Default)]
struct Rare {
    nan: u64,
    infinite: [u64; 2],
    wide: Option<Wide>,
}

impl Moments {
    /// Of no values. Squares are only kept when asked for.
    #[must_use]
    pub fn new(with_squares: bool) -> Self {
        Self {
            sum: [0; 2],
            squares: [0; 4],
            finite: 0,
            base: NO_BASE,
            with_squares,
            rare: None,
        }
    }

    /// Puts a value in.
    #[inline]
    pub fn add(&mut self, x: f64) {
        if !self.quick_step::<true>(x) && !self.short_step::<true>(x) {
            self.step(x, true);
        }
    }

    /// Takes a value out that is inside.
    ///
    /// # Panics
    /// When nothing is inside.
    #[inline]
    pub fn sub(&mut self, x: f64) {
        if !self.quick_step::<false>(x) && !self.short_step::<false>(x) {
            self.step(x, false);
        }
    }

    /// The hot path: values within a factor of 2048 of the finest, as nearly all
    /// values of a sensor are. `false` when the value is none of them, with nothing
    /// changed. NaN, infinities, zeros and subnormals fail the one test as well.
    #[inline]
    fn quick_step<const ADD: bool>(&mut self, x: f64) -> bool {
        let bits = x.to_bits();
        let up = biased(bits).wrapping_sub(self.base);
        if up > QUICK_UP {
            return false;
        }
        let size = (bits & FRACTION | HIDDEN) << up;
        let square = u128::from(size) * u128::from(size);
        self.apply::<ADD>(bits >> 63 == 1, size.into(), [square, 0])
    }

    /// The same for values within a factor of 2^63 of the finest.
    #[inline(never)]
    fn short_step<const ADD: bool>(&mut self, x: f64) -> bool {
        let bits = x.to_bits();
        let up = biased(bits).wrapping_sub(self.base);
        if up > SHORT_UP {
            return false;
        }
        let size = u128::from(bits & FRACTION | HIDDEN) << up;
        self.apply::<ADD>(bits >> 63 == 1, size, short::square(size))
    }

    /// One value more or less of this size in units, unless something overflows.
    #[inline]
    fn apply<const ADD: bool>(&mut self, minus: bool, size: u128, square: [u128; 2]) -> bool {
        let term = size.cast_signed();
        let term = if minus == ADD { -term } else { term };
        let (sum, overflow) = join(self.sum).cast_signed().overflowing_add(term);
        let count = if ADD {
            self.finite.checked_add(1)
        } else {
            self.finite.checked_sub(1)
        };
        let Some(count) = count.filter(|_| !overflow) else {
            return false;
        };
        if self.with_squares {
            let [a, b, c, d] = self.squares;
            let squares = U256::from_halves([join([a, b]), join([c, d])]);
            let square = U256::from_halves(square);
            let (squares, overflow) = if ADD {
                squares.overflowing_add(square)
            } else {
                squares.overflowing_sub(square)
            };
            if overflow {
                return false;
            }
            let (hi, lo) = squares.halves();
            let ([a, b], [c, d]) = (split(lo), split(hi));
            self.squares = [a, b, c, d];
        }
        self.finite = count;
        self.sum = split(sum.cast_unsigned());
        true
    }

    /// Any value.
    #[inline(never)]
    fn step(&mut self, x: f64, add: bool) {
        let counter = if x.is_nan() {
            &mut self.rare().nan
        } else if x.is_infinite() {
            &mut self.rare().infinite[usize::from(x < 0.0)]
        } else {
            &mut self.finite
        };
        *counter = if add {
            counter.checked_add(1)
        } else {
            counter.checked_sub(1)
        }
        .expect("only values that are inside are taken out, and fewer than 2^64 are put in");
        if !x.is_finite() {
            return self.forget_rare();
        }
        if self.finite == 0 {
            // Nothing left: the next value chooses its own unit.
            return self.set_short(0, U256::ZERO, NO_BASE);
        }
        if x != 0.0 && !self.refine_and_step(x, add) {
            self.wide_step(x, add);
        }
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Back to 72 bytes when nothing rare is inside any more.
    fn forget_rare(&mut self) {
        let empty = |r: &Rare| r.nan == 0 && r.infinite == [0; 2] && r.wide.is_none();
        if self.rare.as_deref().is_some_and(empty) {
            self.rare = None;
        }
    }

    fn wide(&self) -> Option<&Wide> {
        self.rare.as_deref()?.wide.as_ref()
    }

    /// Puts all values of another bag in, which keeps squares if this one does.
    ///
    /// # Panics
    /// When this one keeps squares and the other does not.
    pub fn merge(&mut self, other: &Self) {
        assert!(
            other.with_squares || !self.with_squares,
            "squares were not kept"
        );
        if let Some(rare) = other.rare.as_deref() {
            let mine = self.rare();
            mine.nan += rare.nan;
            mine.infinite[0] += rare.infinite[0];
            mine.infinite[1] += rare.infinite[1];
            self.forget_rare();
        }
        self.finite += other.finite;
        if !self.short_merge(other) {
            self.wide_merge(other);
        }
    }

    /// How many values are inside, NaN and infinities too.
    #[must_use]
    #[inline]
    pub fn count(&self) -> u64 {
        let rare = |r: &Rare| r.nan + r.infinite[0] + r.infinite[1];
        self.finite + self.rare.as_deref().map_or(0, rare)
    }

    /// How many NaN are inside.
    #[must_use]
    #[inline]
    pub fn nan_count(&self) -> u64 {
        self.rare.as_deref().map_or(0, |r| r.nan)
    }

    /// How many `+Inf` and `-Inf` are inside.
    #[must_use]
    pub fn infinite_counts(&self) -> (u64, u64) {
        let [plus, minus] = self.rare.as_deref().map_or([0; 2], |r| r.infinite);
        (plus, minus)
    }

    /// What NaN and infinities make of a sum or mean.
    fn special(&self) -> Option<f64> {
        let rare = self.rare.as_deref()?;
        match (rare.nan, rare.infinite) {
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
        if self.rare.is_some() {
            if let Some(special) = self.special() {
                return Some(special);
            }
            if let Some(wide) = self.wide() {
                return Some(wide.mean_of(by));
            }
        }
        if self.finite == 0 {
            return None;
        }
        let sum = join(self.sum).cast_signed();
        let size = sum.unsigned_abs();
        if size == 0 {
            return Some(0.0);
        }
        let size = quick_ratio(size, by, self.unit()).unwrap_or_else(|| {
            let exact = Scaled::ratio(U256::from_u128(size), by, self.unit());
            exact.map_or(0.0, Scaled::to_f64)
        });
        Some(if sum < 0 { -size } else { size })
    }

    /// The variance, rounded once: of a sample (n - 1), or of the whole
    /// population (n). `None` for fewer than two values, or none.
    ///
    /// # Panics
    /// When squares were not kept.
    #[must_use]
    pub fn variance(&self, of_sample: bool) -> Option<f64> {
        self.spread(of_sample, |scaled| scaled)
    }

    /// The square root of the exact variance, rounded once.
    ///
    /// # Panics
    /// When squares were not kept.
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
        let scaled = match self.wide() {
            Some(wide) => wide.variance(self.finite, of_sample),
            None => self.short_variance(of_sample),
        };
        Some(scaled.map_or(0.0, |s| then(s).to_f64()))
    }
}

#[cfg(test)]
mod tests;
