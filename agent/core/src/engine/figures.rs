//! From the readings of a window to its figures. Knows no time: first and last
//! are decided by whoever holds the readings in order.

use crate::engine::config::Aggregate;
use crate::engine::state;
use crate::engine::value::NULL;
use crate::limits::EXACT_RANKS_MAX;
use crate::log::bytes::{Malformed, Reader, put_zigzag};
use crate::num::moments::Moments;
use crate::num::order::{at_place, place};
use crate::num::sketch::Sketch;

/// What has to be kept for the aggregates of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wants {
    pub(super) squares: bool,
    pub(super) low: bool,
    pub(super) high: bool,
    /// The first and the last.
    pub(super) ends: bool,
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
            ends: any(|a| matches!(a, Aggregate::First | Aggregate::Last)),
            ranks: any(|a| matches!(a, Aggregate::Percentile(_))),
        }
    }
}

/// The cell of a figure: its bits, or those of [`NULL`].
pub(super) fn cell(figure: Option<f64>) -> u64 {
    figure.unwrap_or(NULL).to_bits()
}

/// The figures of a window that only grows: see [`Wants`] for what it keeps.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    moments: Moments,
    /// Places of the smallest and the largest, NaN left out; crossed while there
    /// is none.
    low: i64,
    high: i64,
    more: Option<Box<More>>,
}

const _: () = assert!(size_of::<Figures>() <= 96);

/// What few windows ask for.
#[derive(Debug, Clone, Default)]
struct More {
    ends: Option<Ends>,
    ranks: Option<Ranks>,
}

/// First and last reading by time; of equal times the order of arrival decides.
#[derive(Debug, Clone, Copy)]
struct Ends {
    first: (i64, f64),
    last: (i64, f64),
}

impl Figures {
    /// Of no readings.
    pub(super) fn new(wants: Wants) -> Self {
        let more = wants.ends || wants.ranks;
        Self {
            moments: Moments::new(wants.squares),
            low: i64::MAX,
            high: i64::MIN,
            more: more.then(|| {
                Box::new(More {
                    ends: None,
                    ranks: wants.ranks.then(|| Ranks::Exact(Vec::new())),
                })
            }),
        }
    }

    /// Puts a reading in, never [`NULL`]. Of equal times the one that came later is the later.
    #[inline]
    pub(super) fn add(&mut self, time: i64, x: f64) {
        self.moments.add(x);
        if !x.is_nan() {
            let place = place(x);
            self.low = self.low.min(place);
            self.high = self.high.max(place);
        }
        if let Some(more) = self.more.as_deref_mut() {
            more.add(time, x);
        }
    }

    /// Puts all of another window in, whose readings came later.
    pub(super) fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        if let (Some(mine), Some(theirs)) = (self.more.as_deref_mut(), other.more.as_deref()) {
            mine.merge(theirs);
        }
    }

    /// Appends a cell per figure, in config order: the bits of a double, those of
    /// [`NULL`], or the count itself.
    pub(super) fn write(&mut self, aggregates: &[Aggregate], cells: &mut Vec<u64>) {
        for aggregate in aggregates {
            cells.push(self.cell(*aggregate));
        }
    }

    fn cell(&mut self, aggregate: Aggregate) -> u64 {
        let moments = &self.moments;
        cell(match aggregate {
            Aggregate::Count => return moments.count(),
            Aggregate::Sum => moments.sum(),
            Aggregate::Mean => moments.mean(),
            Aggregate::Min => self.extreme(self.low),
            Aggregate::Max => self.extreme(self.high),
            Aggregate::First => self.ends().map(|ends| ends.first.1),
            Aggregate::Last => self.ends().map(|ends| ends.last.1),
            Aggregate::Variance => moments.variance(true),
            Aggregate::Stddev => moments.stddev(true),
            Aggregate::VariancePop => moments.variance(false),
            Aggregate::StddevPop => moments.stddev(false),
            Aggregate::Percentile(p) => self.percentile(p),
        })
    }

    /// Appends what is inside.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.moments.encode(out);
        put_zigzag(out, self.low);
        put_zigzag(out, self.high);
        if let Some(more) = &self.more {
            more.encode(out);
        }
    }

    /// Reads what [`Figures::encode`] wrote for the same wants.
    pub(super) fn decode(from: &mut Reader<'_>, wants: Wants) -> Result<Self, Malformed> {
        let moments = Moments::decode(wants.squares, from)?;
        let (low, high) = (from.zigzag()?, from.zigzag()?);
        let mut figures = Self {
            moments,
            low,
            high,
            ..Self::new(wants)
        };
        if let Some(more) = &mut figures.more {
            **more = More::decode(from, wants)?;
        }
        Ok(figures)
    }

    fn ends(&self) -> Option<Ends> {
        self.more.as_deref().and_then(|more| more.ends)
    }

    /// NaN counts only where there is nothing else.
    fn extreme(&self, place: i64) -> Option<f64> {
        let some = self.low <= self.high;
        some.then(|| at_place(place))
            .or_else(|| (self.moments.nan_count() > 0).then_some(f64::NAN))
    }

    fn percentile(&mut self, p: u8) -> Option<f64> {
        let n = self.moments.count() - self.moments.nan_count();
        if n == 0 {
            return self.extreme(0);
        }
        let ranks = self.more.as_deref_mut()?.ranks.as_mut()?;
        ranks.at(nearest_rank(n, p))
    }
}

/// The k of the k-th smallest of n that percentile p asks for.
pub(super) fn nearest_rank(n: u64, p: u8) -> u64 {
    // In wide integers: n times 99 may not fit.
    let k = (u128::from(n) * u128::from(p)).div_ceil(100);
    u64::try_from(k).expect("p is below 100")
}

impl More {
    fn encode(&self, out: &mut Vec<u8>) {
        state::put_bool(out, self.ends.is_some());
        if let Some(ends) = self.ends {
            for (time, x) in [ends.first, ends.last] {
                put_zigzag(out, time);
                state::put_f64(out, x);
            }
        }
        match &self.ranks {
            None => {}
            Some(Ranks::Exact(values)) => {
                state::put_bool(out, false);
                state::put_len(out, values.len());
                values.iter().for_each(|x| state::put_f64(out, *x));
            }
            Some(Ranks::Sketch(sketch)) => {
                state::put_bool(out, true);
                sketch.encode(out);
            }
        }
    }

    fn decode(from: &mut Reader<'_>, wants: Wants) -> Result<Self, Malformed> {
        let mut more = Self::default();
        if state::bool(from)? {
            more.ends = Some(Ends {
                first: (from.zigzag()?, state::f64(from)?),
                last: (from.zigzag()?, state::f64(from)?),
            });
        }
        if wants.ranks {
            more.ranks = Some(if state::bool(from)? {
                Ranks::Sketch(Sketch::decode(from)?)
            } else {
                let count = state::len(from)?;
                if count > EXACT_RANKS_MAX {
                    return Err(from.malformed());
                }
                let values: Result<_, _> = (0..count).map(|_| state::f64(from)).collect();
                Ranks::Exact(values?)
            });
        }
        Ok(more)
    }

    fn add(&mut self, time: i64, x: f64) {
        let ends = self.ends.get_or_insert(Ends {
            first: (time, x),
            last: (time, x),
        });
        if time < ends.first.0 {
            ends.first = (time, x);
        }
        if time >= ends.last.0 {
            ends.last = (time, x);
        }
        if let Some(ranks) = self.ranks.as_mut().filter(|_| !x.is_nan()) {
            ranks.add(x);
        }
    }

    fn merge(&mut self, other: &Self) {
        if let Some(theirs) = other.ends {
            let ends = self.ends.get_or_insert(theirs);
            if theirs.first.0 < ends.first.0 {
                ends.first = theirs.first;
            }
            if theirs.last.0 >= ends.last.0 {
                ends.last = theirs.last;
            }
        }
        if let (Some(mine), Some(theirs)) = (&mut self.ranks, &other.ranks) {
            mine.merge(theirs);
        }
    }
}

/// Values for percentiles: themselves up to [`EXACT_RANKS_MAX`], then a sketch.
#[derive(Debug, Clone)]
enum Ranks {
    Exact(Vec<f64>),
    Sketch(Sketch),
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

    fn figure(readings: impl IntoIterator<Item = (i64, f64)>, aggregate: Aggregate) -> f64 {
        let mut figures = Figures::new(Wants::of(&[aggregate]));
        for (time, x) in readings {
            figures.add(time, x);
        }
        let mut cells = Vec::new();
        figures.write(&[aggregate], &mut cells);
        f64::from_bits(cells[0])
    }

    fn percentile(values: impl Iterator<Item = f64>, p: u8) -> f64 {
        figure(values.map(|x| (0, x)), Aggregate::Percentile(p))
    }

    #[test]
    fn extremes_and_ends() {
        let nan = f64::NAN;
        for (name, readings, want) in [
            ("none", vec![], [NULL; 4]),
            ("one", vec![(0, 2.5)], [2.5; 4]),
            ("zeros", vec![(0, 0.0), (0, -0.0)], [-0.0, 0.0, 0.0, -0.0]),
            ("NaN alone", vec![(3, nan)], [nan; 4]),
            (
                "NaN first",
                vec![(3, nan), (4, -1.0)],
                [-1.0, -1.0, nan, -1.0],
            ),
            (
                "infinities",
                vec![(9, f64::INFINITY), (8, f64::NEG_INFINITY)],
                [
                    f64::NEG_INFINITY,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    f64::INFINITY,
                ],
            ),
            (
                "a tie",
                vec![(1, 1.0), (1, 2.0), (1, 3.0)],
                [1.0, 3.0, 1.0, 3.0],
            ),
        ] {
            let asked = [
                Aggregate::Min,
                Aggregate::Max,
                Aggregate::First,
                Aggregate::Last,
            ];
            for (aggregate, want) in asked.into_iter().zip(want) {
                let got = figure(readings.iter().copied(), aggregate);
                assert_eq!(got.to_bits(), want.to_bits(), "{name}: {aggregate}");
            }
        }
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
            assert_eq!(percentile(ten(), p), want, "p{p}");
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
            let got = percentile(values, 99);
            assert_eq!(got == want, exact, "{name}: {got} for {want}");
            assert!((got - want).abs() / want < 0.01, "{name}");
        }
    }

    #[test]
    fn nan_counts_only_where_there_is_nothing_else() {
        let nan = || std::iter::once(f64::NAN);
        assert_eq!(percentile(nan(), 50).to_bits(), f64::NAN.to_bits());
        assert_eq!(percentile(nan().chain([3.0]), 50), 3.0);
        assert_eq!(percentile(std::iter::empty(), 50).to_bits(), NULL.to_bits());
    }
}
