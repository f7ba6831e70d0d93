//! What the evaluator reads, and what it gives.
//!
//! Always holds: times of a series rise strictly. Bound: what was read for the query,
//! [`QUERY_SAMPLES_MAX`](super::limits::QUERY_SAMPLES_MAX). Knows no source.

use super::labels::Labels;

/// Samples of one series.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Samples {
    pub labels: Labels,
    /// Microseconds since 1970.
    pub times: Vec<i64>,
    /// NaN where the series has no value from this time on, until the next.
    pub values: Vec<f64>,
}

/// Figures of one series over windows of time that follow each other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rolled {
    pub labels: Labels,
    /// Ends of the windows, which do not belong to them, microseconds since 1970. A
    /// window without readings is left out.
    pub ends: Vec<i64>,
    pub count: Vec<u64>,
    pub sum: Vec<f64>,
    pub min: Vec<f64>,
    pub max: Vec<f64>,
}

/// What was read for a selector.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    Samples(Vec<Samples>),
    /// Windows of `size` milliseconds, which all windows of the selector consist of.
    Rolled {
        size: i64,
        series: Vec<Rolled>,
    },
}

/// A series of an answer or of a part of it: one place per step.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub labels: Labels,
    pub values: Vec<Option<f64>>,
}

/// The answer to a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// One value per step.
    Scalar(Vec<f64>),
    Text(String),
    /// One place per step. Of one step, in the order that the query asks for; of several,
    /// in order of labels.
    Vector(Vec<Series>),
    /// The samples themselves.
    Matrix(Vec<Samples>),
}
