//! The figures that a query gives of some readings: exact, and the same ones that the
//! engine computes over the same readings. Bound: some 90 bytes. Knows no times.

use serde_json::{Value, json};

use crate::engine::rolling::Rolling;
use crate::num::moments::Moments;
use crate::units::{EventTime, Span};

/// The figures that every query of a window gives.
#[derive(Debug, Clone)]
pub struct Figures {
    moments: Moments,
    ends: Option<(f64, f64)>,
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            moments: Moments::new(false),
            ends: None,
        }
    }
}

impl From<Rolling> for FigureValues {
    fn from(of: Rolling) -> Self {
        Self {
            count: of.count,
            mean: of.mean,
            min: of.min,
            max: of.max,
            sum: of.sum,
        }
    }
}

/// The figures as numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureValues {
    /// Readings with a value.
    pub count: u64,
    pub mean: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub sum: Option<f64>,
}

impl Figures {
    /// Takes a reading; one without a value counts for nothing.
    #[inline]
    pub fn add(&mut self, value: Option<f64>) {
        let Some(value) = value else {
            return;
        };
        self.moments.add(value);
        let (min, max) = self.ends.unwrap_or((value, value));
        // In the engine's order, in which -0 is less than 0.
        self.ends = Some((
            std::cmp::min_by(min, value, f64::total_cmp),
            std::cmp::max_by(max, value, f64::total_cmp),
        ));
    }

    #[must_use]
    pub fn values(&self) -> FigureValues {
        FigureValues {
            count: self.moments.count(),
            mean: self.moments.mean(),
            min: self.ends.map(|(min, _)| min),
            max: self.ends.map(|(_, max)| max),
            sum: self.moments.sum(),
        }
    }
}

impl FigureValues {
    /// Appends count, mean, min and max to a line.
    pub fn write(&self, line: &mut Value) {
        line["count"] = json!(self.count);
        line["mean"] = json!(self.mean);
        line["min"] = json!(self.min);
        line["max"] = json!(self.max);
    }
}

/// Start of the tumbling window of `size` on the epoch grid that holds `time`;
/// the first time of all where it would lie before that.
#[must_use]
pub fn window_start(time: EventTime, size: Span) -> EventTime {
    EventTime(time.0.saturating_sub(time.0.rem_euclid(size.0)))
}

/// The half-open range of all windows of `size` that overlap `[start, end)`.
#[must_use]
pub fn whole_windows((start, end): (EventTime, EventTime), size: Span) -> (EventTime, EventTime) {
    let last = window_start(EventTime(end.0.saturating_sub(1)), size);
    (
        window_start(start, size),
        EventTime(last.0.saturating_add(size.0)),
    )
}

/// The half-open range of the rolling window that ends at `time`: `(time - size, time]`,
/// as the engine's.
#[must_use]
pub fn rolling_range(time: EventTime, size: Span) -> (EventTime, EventTime) {
    (
        EventTime(time.0.saturating_sub(size.0).saturating_add(1)),
        EventTime(time.0.saturating_add(1)),
    )
}
