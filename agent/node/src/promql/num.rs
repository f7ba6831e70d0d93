//! Sums, means and quantiles as Prometheus computes them, to the bit.
//!
//! Always holds: each follows the order of operations of Prometheus 3, because in
//! floating point another order is another result. Knows no series and no time.

/// A sum with what rounding took from it (Neumaier's form of Kahan's sum).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sum {
    pub sum: f64,
    pub lost: f64,
}

impl Sum {
    /// Adds one value.
    pub fn add(&mut self, value: f64) {
        let total = self.sum + value;
        if total.is_infinite() {
            self.lost = 0.0;
        } else if self.sum.abs() >= value.abs() {
            self.lost += (self.sum - total) + value;
        } else {
            self.lost += (value - total) + self.sum;
        }
        self.sum = total;
    }

    /// The sum.
    #[must_use]
    pub fn total(self) -> f64 {
        if self.sum.is_infinite() {
            self.sum
        } else {
            self.sum + self.lost
        }
    }
}

/// The sum of `values`.
#[must_use]
pub fn sum(values: &[f64]) -> f64 {
    let mut sum = Sum::default();
    for value in values {
        sum.add(*value);
    }
    sum.total()
}

/// The mean of `values`; NaN of none. While their sum is finite it is the sum divided by
/// their number, from there on it is carried as a mean.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    let Some((first, rest)) = values.split_first() else {
        return f64::NAN;
    };
    let mut sum = Sum {
        sum: *first,
        lost: 0.0,
    };
    for (index, value) in rest.iter().enumerate() {
        let before = sum;
        sum.add(*value);
        if sum.sum.is_infinite() {
            return mean_by_steps(before, index + 1, &rest[index..]);
        }
    }
    let count = values.len() as f64;
    sum.sum / count + sum.lost / count
}

/// Goes on where the sum of the first `seen` values is the last finite one.
fn mean_by_steps(sum: Sum, seen: usize, rest: &[f64]) -> f64 {
    let mut mean = Sum {
        sum: sum.sum / seen as f64,
        lost: sum.lost / seen as f64,
    };
    for (index, value) in rest.iter().enumerate() {
        let count = (seen + index + 1) as f64;
        let share = (count - 1.0) / count;
        mean = Sum {
            sum: share * mean.sum,
            lost: share * mean.lost,
        };
        mean.add(value / count);
    }
    mean.sum + mean.lost
}

/// The population variance of `values`; NaN of none.
#[must_use]
pub fn variance(values: &[f64]) -> f64 {
    let (mut count, mut mean, mut squares) = (0.0, Sum::default(), Sum::default());
    for value in values {
        count += 1.0;
        let delta = value - (mean.sum + mean.lost);
        mean.add(delta / count);
        squares.add(delta * (value - (mean.sum + mean.lost)));
    }
    (squares.sum + squares.lost) / count
}

/// The `quantile` of `values`, which it sorts: NaN of none, infinite outside of 0 to 1.
#[must_use]
pub fn quantile(quantile: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() || quantile.is_nan() {
        return f64::NAN;
    }
    if quantile < 0.0 {
        return f64::NEG_INFINITY;
    }
    if quantile > 1.0 {
        return f64::INFINITY;
    }
    values.sort_unstable_by(|a, b| b.is_nan().cmp(&a.is_nan()).then(a.total_cmp(b)));
    let last = (values.len() - 1) as f64;
    let rank = quantile * last;
    let lower = rank.floor().max(0.0);
    let upper = (lower + 1.0).min(last);
    let weight = rank - rank.floor();
    values[lower as usize] * (1.0 - weight) + values[upper as usize] * weight
}

/// Slope and intercept of the line through `points`, of seconds and value, by least
/// squares.
#[must_use]
pub fn line(points: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut x_sum, mut y_sum) = (Sum::default(), Sum::default());
    let (mut xy_sum, mut xx_sum) = (Sum::default(), Sum::default());
    let (mut count, mut first, mut constant) = (0.0, f64::NAN, true);
    for (x, y) in points {
        if count == 0.0 {
            first = y;
        } else if y != first {
            constant = false;
        }
        count += 1.0;
        x_sum.add(x);
        y_sum.add(y);
        xy_sum.add(x * y);
        xx_sum.add(x * x);
    }
    if constant {
        return if first.is_infinite() {
            (f64::NAN, f64::NAN)
        } else {
            (0.0, first)
        };
    }
    let plain = |sum: Sum| sum.sum + sum.lost;
    let (x, y) = (plain(x_sum), plain(y_sum));
    let covariance = plain(xy_sum) - x * y / count;
    let variance = plain(xx_sum) - x * x / count;
    let slope = covariance / variance;
    (slope, y / count - slope * x / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_what_rounding_takes() {
        for (name, values, want) in [
            ("none", vec![], 0.0),
            ("cancelling", vec![1e100, 1.0, -1e100], 1.0),
            ("tenths", vec![0.1; 10], 1.0),
            ("infinite", vec![1.0, f64::INFINITY, 2.0], f64::INFINITY),
        ] {
            assert_eq!(sum(&values), want, "{name}");
        }
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    }

    #[test]
    fn means_do_not_overflow() {
        for (name, values, want) in [
            ("one", vec![3.0], 3.0),
            ("plain", vec![1.0, 2.0, 6.0], 3.0),
            ("large", vec![1.5e308, 1.5e308, 1.5e308], 1.5e308),
            ("infinite", vec![1.0, f64::INFINITY], f64::INFINITY),
        ] {
            assert_eq!(mean(&values), want, "{name}");
        }
        assert!(mean(&[]).is_nan());
        assert!(mean(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    }

    #[test]
    fn quantiles_lie_between_two_values() {
        let mut values = [4.0, 1.0, 3.0, 2.0];
        for (name, at, want) in [
            ("lowest", 0.0, 1.0),
            ("middle", 0.5, 2.5),
            ("highest", 1.0, 4.0),
            ("below", -0.1, f64::NEG_INFINITY),
            ("above", 1.1, f64::INFINITY),
        ] {
            assert_eq!(quantile(at, &mut values), want, "{name}");
        }
        assert!(quantile(0.5, &mut []).is_nan());
        assert_eq!(
            quantile(1.0, &mut [f64::NAN, 1.0]),
            1.0,
            "NaN is the lowest"
        );
    }

    #[test]
    fn a_line_is_found() {
        let points = (0..10).map(|x| (f64::from(x), 3.0 * f64::from(x) + 2.0));
        assert_eq!(line(points), (3.0, 2.0));
        assert_eq!(line([(0.0, 5.0), (1.0, 5.0)].into_iter()), (0.0, 5.0));
    }

    #[test]
    fn the_variance_is_that_of_the_population() {
        assert_eq!(variance(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), 4.0);
        assert!(variance(&[]).is_nan());
    }
}
