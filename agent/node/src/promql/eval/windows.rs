//! The windows that a function looks through, one per step, and what is in them.
//!
//! Always holds: a window is open at its start and closed at its end, and its samples
//! are those of `times[from..to]`. Windows follow each other in time, so each series is
//! walked once.

use std::borrow::Cow;

use super::super::ast::{Grid, Moved};

/// One window with its samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window<'a> {
    /// Microseconds; this moment does not belong to it.
    pub(super) start: i64,
    pub(super) end: i64,
    /// The time of the step, microseconds.
    pub(super) step: i64,
    pub(super) times: &'a [i64],
    pub(super) values: &'a [f64],
}

impl Window<'_> {
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }
}

/// All windows over one series.
#[derive(Debug)]
pub(super) struct Windows<'a> {
    pub(super) times: &'a [i64],
    pub(super) values: &'a [f64],
    /// Where the samples of each window stand.
    pub(super) bounds: Vec<(usize, usize)>,
    grid: Grid,
    moved: Moved,
    /// Length of a window, ms.
    pub(super) range: i64,
}

impl<'a> Windows<'a> {
    pub(super) fn over(
        (times, values): (&'a [i64], &'a [f64]),
        (grid, moved, range): (Grid, Moved, i64),
    ) -> Self {
        let (mut from, mut to) = (0, 0);
        let bounds = grid.times().map(|time| {
            let end = moved.from(time) * 1000;
            let start = end - range * 1000;
            while times.get(from).is_some_and(|time| *time <= start) {
                from += 1;
            }
            while times.get(to).is_some_and(|time| *time <= end) {
                to += 1;
            }
            (from, to)
        });
        Self {
            times,
            values,
            bounds: bounds.collect(),
            grid,
            moved,
            range,
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Window<'a>> {
        let (times, values) = (self.times, self.values);
        self.bounds
            .iter()
            .enumerate()
            .map(move |(index, &(from, to))| {
                let step = self.grid.time(index);
                let end = self.moved.from(step) * 1000;
                Window {
                    start: end - self.range * 1000,
                    end,
                    step: step * 1000,
                    times: &times[from..to],
                    values: &values[from..to],
                }
            })
    }

    /// Samples in all windows together.
    pub(super) fn visits(&self) -> usize {
        self.bounds.iter().map(|(from, to)| to - from).sum()
    }
}

/// The samples that have a value: one without says only that the series is stale.
pub(super) fn valid<'a>(times: &'a [i64], values: &'a [f64]) -> (Cow<'a, [i64]>, Cow<'a, [f64]>) {
    if !values.iter().any(|value| value.is_nan()) {
        return (Cow::Borrowed(times), Cow::Borrowed(values));
    }
    let pairs = times
        .iter()
        .zip(values)
        .filter(|(_, value)| !value.is_nan());
    let (times, values): (Vec<i64>, Vec<f64>) = pairs.unzip();
    (Cow::Owned(times), Cow::Owned(values))
}
