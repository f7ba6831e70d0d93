//! Sums, means, least and greatest over windows that follow each other, without adding
//! up each window anew.
//!
//! Always holds: what a window gives depends on its own samples only, whatever windows
//! stand beside it. A window of up to [`PLAIN_MAX`] samples is added up as Prometheus does
//! it; of a longer one the exact sum is found as the difference of two running sums in
//! twice the precision, and rounded once. Where that would not be exact enough it is
//! added up as well. Bound: 16 bytes per sample of one series.

use std::collections::VecDeque;

use super::super::num;
use super::windows::Windows;

/// Samples of a window that are added one by one.
pub(super) const PLAIN_MAX: usize = 512;
/// Twice the precision has 106 bits; the running sums lose a few of them.
const RUNNING_ERROR: f64 = 1.0 / (1u64 << 63) as f64 / (1u64 << 33) as f64;
/// What a sum may be off by, as a part of itself: far below half its last bit.
const SUM_ERROR: f64 = 1.0 / (1u64 << 60) as f64;

/// Running sums of a series: entry `i` is the sum of the first `i` values.
#[derive(Debug)]
pub(super) struct Running {
    high: Vec<f64>,
    low: Vec<f64>,
    /// How many of the first `i` values are not finite; those are added as 0.
    odd: Vec<u32>,
    /// The greatest running sum, by its amount.
    greatest: f64,
}

impl Running {
    pub(super) fn of(values: &[f64]) -> Self {
        let places = values.len() + 1;
        let mut running = Self {
            high: Vec::with_capacity(places),
            low: Vec::with_capacity(places),
            odd: Vec::with_capacity(places),
            greatest: 0.0,
        };
        let (mut high, mut low, mut odd) = (0.0, 0.0, 0);
        running.push(high, low, odd);
        for value in values {
            if value.is_finite() {
                let (sum, error) = two_sum(high, *value);
                (high, low) = two_sum(sum, error + low);
            } else {
                odd += 1;
            }
            running.push(high, low, odd);
        }
        running
    }

    fn push(&mut self, high: f64, low: f64, odd: u32) {
        self.high.push(high);
        self.low.push(low);
        self.odd.push(odd);
        self.greatest = self.greatest.max(high.abs());
    }

    /// The sum of `values[from..to]`; `None` where it is not exact enough.
    fn between(&self, from: usize, to: usize) -> Option<f64> {
        if self.odd[from] != self.odd[to] || !self.greatest.is_finite() {
            return None;
        }
        let (sum, error) = two_sum(self.high[to], -self.high[from]);
        let sum = sum + (error + (self.low[to] - self.low[from]));
        let exact = self.greatest * RUNNING_ERROR <= sum.abs() * SUM_ERROR;
        exact.then_some(sum)
    }
}

/// The rounded sum and what rounding took.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// What to make of the sum of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfSum {
    Sum,
    Mean,
}

/// Sum or mean of each window; none of a window without samples.
pub(super) fn sums(windows: &Windows<'_>, of: OfSum) -> Vec<Option<f64>> {
    let long = windows
        .bounds
        .iter()
        .any(|(from, to)| to - from > PLAIN_MAX);
    let running = long.then(|| Running::of(windows.values));
    let bounds = windows.bounds.iter();
    bounds
        .map(|&(from, to)| {
            let values = &windows.values[from..to];
            let running = running.as_ref().filter(|_| values.len() > PLAIN_MAX);
            let sum = running.and_then(|running| running.between(from, to));
            match (values.len(), sum, of) {
                (0, ..) => None,
                (_, Some(sum), OfSum::Sum) => Some(sum),
                (count, Some(sum), OfSum::Mean) => Some(sum / count as f64),
                (_, None, OfSum::Sum) => Some(num::sum(values)),
                (_, None, OfSum::Mean) => Some(num::mean(values)),
            }
        })
        .collect()
}

/// Samples that [`sums`] looks at, at most: short windows one by one, long ones at their
/// ends only.
pub(super) fn visits_of_sums(windows: &Windows<'_>) -> usize {
    let plain = windows
        .bounds
        .iter()
        .map(|(from, to)| (to - from).min(PLAIN_MAX));
    windows.values.len() + plain.sum::<usize>()
}

/// The extreme of each window: `before(a, b)` says that `a` is the more extreme. NaN
/// counts only where there is nothing else.
pub(super) fn extremes(windows: &Windows<'_>, before: fn(f64, f64) -> bool) -> Vec<Option<f64>> {
    // Places whose values are not yet beaten by a later one, the most extreme first.
    let mut open: VecDeque<usize> = VecDeque::new();
    let mut seen = 0;
    let bounds = windows.bounds.iter();
    bounds
        .map(|&(from, to)| {
            while seen < to {
                let value = windows.values[seen];
                if !value.is_nan() {
                    while open
                        .back()
                        .is_some_and(|last| before(value, windows.values[*last]))
                    {
                        open.pop_back();
                    }
                    open.push_back(seen);
                }
                seen += 1;
            }
            while open.front().is_some_and(|first| *first < from) {
                open.pop_front();
            }
            let value = open
                .front()
                .map_or(f64::NAN, |place| windows.values[*place]);
            (from < to).then_some(value)
        })
        .collect()
}
