//! From the readings of a window to its figures. Knows no time: first and last
//! are decided by whoever holds the readings in order.

use std::cmp::Ordering;

use crate::engine::config::Aggregate;
use crate::engine::row::{Cell, Cells};
use crate::limits::EXACT_RANKS_MAX;
use crate::num::moments::Moments;
use crate::num::sketch::Sketch;
use crate::units::EventTime;

/// What has to be kept for the aggregates of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wants {
    pub(super) squares: bool,
    pub(super) low: bool,
    pub(super) high: bool,
    pub(super) ranks: bool,
}

impl Wants {
    pub(super) fn of(aggregates: &[Aggregate]) -> Self {
        let any = |test: fn(&Aggregate) -> bool| aggregates.iter().any(test);
        Self {
            squares: any(|a| {
                matches!(
                    a,
                    Aggregate::Variance
                        | Aggregate::Stddev
                        | Aggregate::VariancePop
                        | Aggregate::StddevPop
                )
            }),
            low: any(|a| *a == Aggregate::Min),
            high: any(|a| *a == Aggregate::Max),
            ranks: any(|a| matches!(a, Aggregate::Percentile(_))),
        }
    }
}

/// What a window knows at the moment of writing.
pub(super) struct View<'a> {
    pub(super) moments: &'a Moments,
    /// Smallest and largest, NaN left out.
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    pub(super) first: Option<f64>,
    pub(super) last: Option<f64>,
    /// The k-th smallest from 1, NaN left out.
    pub(super) rank: &'a mut dyn FnMut(u64) -> Option<f64>,
}

impl View<'_> {
    /// The figures in config order.
    pub(super) fn cells(mut self, aggregates: &[Aggregate]) -> Cells {
        let mut cells = Cells::new();
        for aggregate in aggregates {
            cells.push(self.cell(*aggregate));
        }
        cells
    }

    fn cell(&mut self, aggregate: Aggregate) -> Cell {
        let moments = self.moments;
        let number = match aggregate {
            Aggregate::Count => return Cell::Count(moments.count()),
            Aggregate::Sum => moments.sum(),
            Aggregate::Mean => moments.mean(),
            Aggregate::Min => self.or_nan(self.low),
            Aggregate::Max => self.or_nan(self.high),
            Aggregate::First => self.first,
            Aggregate::Last => self.last,
            Aggregate::Variance => moments.variance(true),
            Aggregate::Stddev => moments.stddev(true),
            Aggregate::VariancePop => moments.variance(false),
            Aggregate::StddevPop => moments.stddev(false),
            Aggregate::Percentile(p) => self.percentile(p),
        };
        number.into()
    }

    /// NaN counts only where there is nothing else.
    fn or_nan(&self, number: Option<f64>) -> Option<f64> {
        number.or_else(|| (self.moments.nan_count() > 0).then_some(f64::NAN))
    }

    fn percentile(&mut self, p: u8) -> Option<f64> {
        let n = self.moments.count() - self.moments.nan_count();
        if n == 0 {
            return self.or_nan(None);
        }
        // In wide integers: n times 99 may not fit.
        let k = (u128::from(n) * u128::from(p)).div_ceil(100);
        (self.rank)(u64::try_from(k).expect("p is below 100"))
    }
}

/// Keeps the smaller (or larger) of two, -0.0 below 0.0.
pub(super) fn keep(kept: &mut Option<f64>, x: f64, wanted: Ordering) {
    if !x.is_nan() && kept.is_none_or(|k| x.total_cmp(&k) == wanted) {
        *kept = Some(x);
    }
}

/// The figures of a window that only grows.
#[derive(Debug, Clone)]
pub(super) struct Growing {
    moments: Moments,
    low: Option<f64>,
    high: Option<f64>,
    first: Option<(EventTime, f64)>,
    last: Option<(EventTime, f64)>,
    ranks: Option<Box<Ranks>>,
}

/// Values for percentiles: themselves up to [`EXACT_RANKS_MAX`], then a sketch.
#[derive(Debug, Clone)]
enum Ranks {
    Exact(Vec<f64>),
    Sketch(Sketch),
}

impl Growing {
    pub(super) fn new(wants: Wants) -> Self {
        Self {
            moments: Moments::new(wants.squares),
            low: None,
            high: None,
            first: None,
            last: None,
            ranks: wants.ranks.then(|| Box::new(Ranks::Exact(Vec::new()))),
        }
    }

    /// Puts a reading in. Of equal times the one that came later is the later.
    pub(super) fn add(&mut self, time: EventTime, x: f64) {
        self.moments.add(x);
        keep(&mut self.low, x, Ordering::Less);
        keep(&mut self.high, x, Ordering::Greater);
        if self.first.is_none_or(|(t, _)| time < t) {
            self.first = Some((time, x));
        }
        if self.last.is_none_or(|(t, _)| time >= t) {
            self.last = Some((time, x));
        }
        if let Some(ranks) = self.ranks.as_deref_mut().filter(|_| !x.is_nan()) {
            ranks.add(x);
        }
    }

    /// Puts all of another window in.
    pub(super) fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        if let Some(low) = other.low {
            keep(&mut self.low, low, Ordering::Less);
        }
        if let Some(high) = other.high {
            keep(&mut self.high, high, Ordering::Greater);
        }
        if let Some(first) = other.first.filter(|o| self.first.is_none_or(|f| o.0 < f.0)) {
            self.first = Some(first);
        }
        if let Some(last) = other.last.filter(|o| self.last.is_none_or(|l| o.0 >= l.0)) {
            self.last = Some(last);
        }
        if let (Some(mine), Some(theirs)) = (self.ranks.as_deref_mut(), other.ranks.as_deref()) {
            mine.merge(theirs);
        }
    }

    pub(super) fn cells(&mut self, aggregates: &[Aggregate]) -> Cells {
        let ranks = &mut self.ranks;
        View {
            moments: &self.moments,
            low: self.low,
            high: self.high,
            first: self.first.map(|(_, x)| x),
            last: self.last.map(|(_, x)| x),
            rank: &mut |k| ranks.as_deref_mut().and_then(|r| r.at(k)),
        }
        .cells(aggregates)
    }
}

impl Ranks {
    fn add(&mut self, x: f64) {
        match self {
            Self::Exact(values) if values.len() < EXACT_RANKS_MAX => values.push(x),
            Self::Exact(values) => {
                let mut sketch = Sketch::default();
                values.iter().for_each(|x| sketch.add(*x));
                sketch.add(x);
                *self = Self::Sketch(sketch);
            }
            Self::Sketch(sketch) => sketch.add(x),
        }
    }

    fn merge(&mut self, other: &Self) {
        match other {
            Self::Exact(values) => values.iter().for_each(|x| self.add(*x)),
            Self::Sketch(theirs) => {
                if let Self::Exact(values) = self {
                    let mut sketch = Sketch::default();
                    values.iter().for_each(|x| sketch.add(*x));
                    *self = Self::Sketch(sketch);
                }
                if let Self::Sketch(mine) = self {
                    mine.merge(theirs);
                }
            }
        }
    }

    fn at(&mut self, k: u64) -> Option<f64> {
        match self {
            Self::Exact(values) => nth(values, k),
            Self::Sketch(sketch) => sketch.at_rank(k),
        }
    }
}

/// The k-th smallest from 1; reorders the values.
pub(super) fn nth(values: &mut [f64], k: u64) -> Option<f64> {
    let at = usize::try_from(k).ok()?.checked_sub(1)?;
    if at >= values.len() {
        return None;
    }
    Some(*values.select_nth_unstable_by(at, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentile(values: impl Iterator<Item = f64>, p: u8) -> Cell {
        let aggregates = [Aggregate::Percentile(p)];
        let mut growing = Growing::new(Wants::of(&aggregates));
        values.for_each(|x| growing.add(EventTime(0), x));
        growing.cells(&aggregates).as_slice()[0]
    }

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let ten = || (1..=10).map(f64::from);
        for (p, want) in [
            (1, 1.0),
            (10, 1.0),
            (11, 2.0),
            (50, 5.0),
            (90, 9.0),
            (91, 10.0),
            (99, 10.0),
        ] {
            assert_eq!(percentile(ten(), p), Cell::Number(want), "p{p}");
        }
    }

    #[test]
    fn ranks_are_exact_up_to_the_limit() {
        for (name, n, exact) in [
            ("limit - 1", EXACT_RANKS_MAX - 1, true),
            ("limit", EXACT_RANKS_MAX, true),
            ("limit + 1", EXACT_RANKS_MAX + 1, false),
        ] {
            let values = (0..n).map(|i| 1000.0 + i as f64);
            let want = 1000.0 + (n as f64 * 0.99).ceil() - 1.0;
            let Cell::Number(got) = percentile(values, 99) else {
                panic!("{name}: no number");
            };
            assert_eq!(got == want, exact, "{name}: {got} for {want}");
            assert!((got - want).abs() / want < 0.01, "{name}");
        }
    }

    #[test]
    fn nan_counts_only_where_there_is_nothing_else() {
        let nan = || std::iter::once(f64::NAN);
        assert!(matches!(percentile(nan(), 50), Cell::Number(x) if x.is_nan()));
        assert_eq!(percentile(nan().chain([3.0]), 50), Cell::Number(3.0));
        assert_eq!(percentile(std::iter::empty(), 50), Cell::Null);
    }
}
