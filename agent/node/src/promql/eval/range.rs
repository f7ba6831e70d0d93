//! Functions over windows of samples.
//!
//! Always holds: a series gives a value at a step only when its window holds a sample,
//! and rates need two. What each computes is what Prometheus 3 computes, in its order.

use super::super::ast::{Grid, Moved, Node};
use super::super::data::{Read, Rolled, Samples, Series};
use super::super::error::QueryError;
use super::super::functions::OverTime;
use super::super::labels::Labels;
use super::super::num;
use super::sliding::{OfSum, extremes, sums, visits_of_sums};
use super::windows::{Window, Windows, valid};
use super::{Eval, merge, shape};

impl Eval<'_> {
    pub(super) fn over_time(
        &self,
        of: OverTime,
        windows: &Node,
        rest: &[Node],
        grid: Grid,
    ) -> Result<Vec<Series>, QueryError> {
        let argument = match rest.first() {
            Some(node) => self.scalar(node, grid)?,
            None => Vec::new(),
        };
        let series = if let Node::Range(number) = windows {
            let selector = self.selector(*number);
            let place = (grid, selector.moved, selector.range);
            match &self.reads[*number] {
                Read::Samples(samples) => self.over_samples(of, samples, place, &argument)?,
                Read::Rolled { size, series } => self.over_rolled(of, (*size, series), place)?,
            }
        } else if let Node::Subquery(subquery) = windows {
            let inner = self.vector(&subquery.node, subquery.grid)?;
            let place = (grid, subquery.moved, subquery.range);
            self.over_steps(of, inner, subquery.grid, place, &argument)?
        } else {
            return Err(QueryError::BadData("a range vector is expected".to_owned()));
        };
        if of == OverTime::Absent {
            let labels = if let Node::Range(number) = windows {
                shape::absent_labels(&self.selector(*number).matchers)
            } else {
                Labels::default()
            };
            return Ok(vec![absent(&series, labels, grid)]);
        }
        if of.keeps_name() {
            return Ok(series);
        }
        merge::unique(series)
    }

    fn over_samples(
        &self,
        of: OverTime,
        samples: &[Samples],
        place: (Grid, Moved, i64),
        argument: &[f64],
    ) -> Result<Vec<Series>, QueryError> {
        let mut all = Vec::with_capacity(samples.len());
        for series in samples {
            let (times, values) = valid(&series.times, &series.values);
            let windows = Windows::over((&times, &values), place);
            all.push(self.computed(of, &series.labels, &windows, argument)?);
        }
        Ok(all)
    }

    fn over_steps(
        &self,
        of: OverTime,
        inner: Vec<Series>,
        steps: Grid,
        place: (Grid, Moved, i64),
        argument: &[f64],
    ) -> Result<Vec<Series>, QueryError> {
        let mut all = Vec::with_capacity(inner.len());
        for series in inner {
            let pairs = steps.times().zip(&series.values);
            let pairs = pairs.filter_map(|(time, value)| Some((time * 1000, (*value)?)));
            let (times, values): (Vec<i64>, Vec<f64>) = pairs.unzip();
            let windows = Windows::over((&times, &values), place);
            all.push(self.computed(of, &series.labels, &windows, argument)?);
        }
        Ok(all)
    }

    fn computed(
        &self,
        of: OverTime,
        labels: &Labels,
        windows: &Windows<'_>,
        argument: &[f64],
    ) -> Result<Series, QueryError> {
        self.budget.hold(windows.bounds.len())?;
        self.budget.visit(match of {
            OverTime::Sum | OverTime::Avg => visits_of_sums(windows),
            OverTime::Min
            | OverTime::Max
            | OverTime::Count
            | OverTime::Last
            | OverTime::First
            | OverTime::Present
            | OverTime::Absent
            | OverTime::Irate
            | OverTime::Idelta
            | OverTime::Delta => windows.values.len(),
            OverTime::Stddev
            | OverTime::Stdvar
            | OverTime::Quantile
            | OverTime::Rate
            | OverTime::Increase
            | OverTime::Changes
            | OverTime::Resets
            | OverTime::Deriv
            | OverTime::PredictLinear => windows.visits(),
        })?;
        let labels = if of.keeps_name() {
            labels.clone()
        } else {
            labels.without_name()
        };
        let values = over_windows(of, windows, argument);
        Ok(Series { labels, values })
    }

    /// The same from figures of shorter windows that the windows consist of.
    fn over_rolled(
        &self,
        of: OverTime,
        (size, rolled): (i64, &[Rolled]),
        place: (Grid, Moved, i64),
    ) -> Result<Vec<Series>, QueryError> {
        let mut all = Vec::with_capacity(rolled.len());
        for series in rolled {
            self.budget.hold(place.0.count)?;
            self.budget.visit(series.ends.len())?;
            // A short window ends where it is read, so those that end in
            // `(start, end]` are those that lie in `[start, end)`.
            debug_assert!(place.2 % size == 0, "windows consist of whole ones");
            let over = |values: &[f64], make: &dyn Fn(&Windows<'_>) -> Vec<Option<f64>>| {
                make(&Windows::over((&series.ends, values), place))
            };
            let counts: Vec<f64> = series.count.iter().map(|count| *count as f64).collect();
            let values = match of {
                OverTime::Sum => over(&series.sum, &|w| sums(w, OfSum::Sum)),
                OverTime::Count => over(&counts, &|w| sums(w, OfSum::Sum)),
                OverTime::Min => over(&series.min, &|w| extremes(w, |a, b| a < b)),
                OverTime::Max => over(&series.max, &|w| extremes(w, |a, b| a > b)),
                OverTime::Avg => {
                    let sums_of = over(&series.sum, &|w| sums(w, OfSum::Sum));
                    let counts = over(&counts, &|w| sums(w, OfSum::Sum));
                    let pairs = sums_of.into_iter().zip(counts);
                    pairs.map(|(sum, count)| Some(sum? / count?)).collect()
                }
                OverTime::Stddev
                | OverTime::Stdvar
                | OverTime::Quantile
                | OverTime::Last
                | OverTime::First
                | OverTime::Present
                | OverTime::Absent
                | OverTime::Rate
                | OverTime::Increase
                | OverTime::Delta
                | OverTime::Irate
                | OverTime::Idelta
                | OverTime::Changes
                | OverTime::Resets
                | OverTime::Deriv
                | OverTime::PredictLinear => {
                    return Err(QueryError::Execution(
                        "this function has no answer from figures of windows".to_owned(),
                    ));
                }
            };
            let labels = series.labels.without_name();
            all.push(Series { labels, values });
        }
        Ok(all)
    }
}

/// The value at each step.
pub(super) fn over_windows(
    of: OverTime,
    windows: &Windows<'_>,
    argument: &[f64],
) -> Vec<Option<f64>> {
    let each = |compute: &dyn Fn(Window<'_>) -> Option<f64>| {
        let all = windows.all();
        all.map(|window| {
            if window.len() == 0 {
                None
            } else {
                compute(window)
            }
        })
        .collect()
    };
    let range = seconds(windows.range);
    match of {
        OverTime::Sum => sums(windows, OfSum::Sum),
        OverTime::Avg => sums(windows, OfSum::Mean),
        OverTime::Min => extremes(windows, |a, b| a < b),
        OverTime::Max => extremes(windows, |a, b| a > b),
        OverTime::Count => each(&|window| Some(window.len() as f64)),
        OverTime::Last => each(&|window| window.values.last().copied()),
        OverTime::First => each(&|window| window.values.first().copied()),
        OverTime::Present | OverTime::Absent => each(&|_| Some(1.0)),
        OverTime::Stddev => each(&|window| Some(num::variance(window.values).sqrt())),
        OverTime::Stdvar => each(&|window| Some(num::variance(window.values))),
        OverTime::Quantile => {
            let all = windows.all().zip(argument);
            all.map(|(window, quantile)| {
                let mut values = window.values.to_vec();
                (window.len() > 0).then(|| num::quantile(*quantile, &mut values))
            })
            .collect()
        }
        OverTime::Rate => each(&|window| extrapolated(window, true).map(|v| v.per(range))),
        OverTime::Increase => each(&|window| extrapolated(window, true).map(Change::whole)),
        OverTime::Delta => each(&|window| extrapolated(window, false).map(Change::whole)),
        OverTime::Irate => each(&|window| instant_change(window, true)),
        OverTime::Idelta => each(&|window| instant_change(window, false)),
        OverTime::Changes => each(&|window| Some(changes(window.values))),
        OverTime::Resets => each(&|window| Some(resets(window.values))),
        OverTime::Deriv => {
            each(&|window| (window.len() > 1).then(|| num::line(points(window, window.times[0])).0))
        }
        OverTime::PredictLinear => {
            let all = windows.all().zip(argument);
            all.map(|(window, ahead)| {
                if window.len() < 2 {
                    return None;
                }
                let (slope, intercept) = num::line(points(window, window.step));
                Some(slope * ahead + intercept)
            })
            .collect()
        }
    }
}

/// Milliseconds as seconds.
fn seconds(millis: i64) -> f64 {
    (millis / 1000) as f64 + (millis % 1000) as f64 / 1e3
}

fn points(window: Window<'_>, origin: i64) -> impl Iterator<Item = (f64, f64)> {
    let pairs = window.times.iter().zip(window.values);
    pairs.map(move |(time, value)| ((time - origin) as f64 / 1e6, *value))
}

/// A change within a window, and what to multiply it by so that it stands for all of it.
#[derive(Debug, Clone, Copy)]
struct Change {
    change: f64,
    factor: f64,
}

impl Change {
    fn whole(self) -> f64 {
        self.change * self.factor
    }

    fn per(self, seconds: f64) -> f64 {
        self.change * (self.factor / seconds)
    }
}

/// The change from the first to the last sample, extended to the ends of the window as
/// far as samples are likely to have been there. A counter that falls was set to 0.
fn extrapolated(window: Window<'_>, counter: bool) -> Option<Change> {
    let (first, last) = (0, window.len().checked_sub(1)?);
    if last == first {
        return None;
    }
    let mut change = window.values[last] - window.values[first];
    if counter {
        for pair in window.values.windows(2) {
            if pair[1] < pair[0] {
                change += pair[0];
            }
        }
    }
    let mut to_start = (window.times[first] - window.start) as f64 / 1e6;
    let mut to_end = (window.end - window.times[last]) as f64 / 1e6;
    let sampled = (window.times[last] - window.times[first]) as f64 / 1e6;
    let average = sampled / last as f64;
    let threshold = average * 1.1;
    if to_start >= threshold {
        to_start = average / 2.0;
    }
    if counter {
        // A counter is never below 0, so it began no earlier than where its line meets 0.
        let mut to_zero = to_start;
        if change > 0.0 && window.values[first] >= 0.0 {
            to_zero = sampled * (window.values[first] / change);
        }
        if to_zero < to_start {
            to_start = to_zero;
        }
    }
    if to_end >= threshold {
        to_end = average / 2.0;
    }
    let factor = (sampled + to_start + to_end) / sampled;
    Some(Change { change, factor })
}

/// The change between the last two samples; of a counter per second.
fn instant_change(window: Window<'_>, counter: bool) -> Option<f64> {
    let last = window.len().checked_sub(1)?;
    let before = last.checked_sub(1)?;
    let (new, old) = (window.values[last], window.values[before]);
    let change = if counter && new < old { new } else { new - old };
    let apart = (window.times[last] - window.times[before]) as f64 / 1e6;
    Some(if counter { change / apart } else { change })
}

fn changes(values: &[f64]) -> f64 {
    let pairs = values.windows(2);
    pairs
        .filter(|pair| pair[0] != pair[1] && !(pair[0].is_nan() && pair[1].is_nan()))
        .count() as f64
}

fn resets(values: &[f64]) -> f64 {
    values.windows(2).filter(|pair| pair[1] < pair[0]).count() as f64
}

/// 1 at the steps at which no series has a value.
fn absent(series: &[Series], labels: Labels, grid: Grid) -> Series {
    let values = (0..grid.count).map(|step| {
        let there = series.iter().any(|one| one.values[step].is_some());
        (!there).then_some(1.0)
    });
    Series {
        labels,
        values: values.collect(),
    }
}
