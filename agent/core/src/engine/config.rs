//! What a pipeline is asked to do, as checked types: an operator is built from
//! these and never sees text. Knows no file and no TOML.
//!
//! Bound: at most [`crate::limits::WINDOWS_MAX`] windows, each with at most
//! [`crate::limits::AGGREGATES_MAX`] aggregates.

use std::fmt;

use crate::units::Span;

/// The pipeline of one agent, or of one `forebay try`.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    pub time: TimeRules,
    /// In config order, which is the order of their output.
    pub windows: Vec<WindowSpec>,
}

/// The rules of event time that all operators share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeRules {
    /// How far behind the largest time seen a reading may be and still count as in order.
    pub out_of_order: Span,
    /// How long after its close a window still takes late readings as revisions.
    pub allowed_lateness: Span,
    pub idle_after: IdleAfter,
    /// A time further ahead of the gateway's clock than this is quarantined.
    pub future_guard: Span,
}

impl Default for TimeRules {
    fn default() -> Self {
        Self {
            out_of_order: Span(5_000_000),
            allowed_lateness: Span(0),
            idle_after: IdleAfter::Auto,
            future_guard: Span(300_000_000),
        }
    }
}

/// When a silent device stops holding others back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleAfter {
    /// The larger of one minute and three times the device's usual interval.
    Auto,
    After(Span),
}

/// One window operator.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowSpec {
    /// Name of the output stream, unique among windows.
    pub name: String,
    pub kind: WindowKind,
    /// Channels taken; `None` takes all.
    pub channels: Option<Vec<String>>,
    /// Devices taken; `None` takes all.
    pub devices: Option<Vec<String>>,
    pub key: KeySpec,
    /// In the order in which they are written; never empty.
    pub aggregates: Vec<Aggregate>,
    pub emit: Emit,
    /// One more line when a window that was out became final.
    pub finalize: bool,
}

/// The shape of a window. Sizes are longer than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowKind {
    /// `[start, start + size)`, starts at `offset` plus a multiple of `size`.
    Tumbling { size: Span, offset: Span },
    /// `[start, start + size)` at every `offset` plus a multiple of `hop`; at most
    /// [`crate::limits::HOPS_PER_WINDOW_MAX`] over one reading.
    Hopping { size: Span, hop: Span, offset: Span },
    /// One window per reading, that ends at it.
    Sliding { size: Span, bounds: Bounds },
}

/// Which ends of a rolling window belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// `(t - size, t]`: 1 Hz over 60 s holds 60 readings.
    HalfOpen,
    /// `[t - size, t]`, the RANGE of SQL.
    Closed,
}

/// What separates the windows of one operator. All keys hold the device, so a
/// window never has to wait for another device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySpec {
    DeviceChannel,
    /// All channels of a device in one window.
    Device,
}

/// When a window is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emit {
    /// When it closes, then a revision per late reading.
    OnClose,
    /// At every accepted reading.
    EveryUpdate,
    /// Once, when nothing can change it any more.
    FinalOnly,
}

/// A figure over the readings of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aggregate {
    Count,
    Sum,
    Mean,
    Min,
    Max,
    First,
    Last,
    /// Of a sample (n - 1).
    Variance,
    Stddev,
    /// Of a whole population (n).
    VariancePop,
    StddevPop,
    /// Nearest rank, 1 to 99.
    Percentile(u8),
}

/// All aggregates that have a fixed name; percentiles are `p01` to `p99`.
pub const AGGREGATE_NAMES: [(&str, Aggregate); 11] = [
    ("count", Aggregate::Count),
    ("sum", Aggregate::Sum),
    ("mean", Aggregate::Mean),
    ("min", Aggregate::Min),
    ("max", Aggregate::Max),
    ("first", Aggregate::First),
    ("last", Aggregate::Last),
    ("variance", Aggregate::Variance),
    ("stddev", Aggregate::Stddev),
    ("variance_pop", Aggregate::VariancePop),
    ("stddev_pop", Aggregate::StddevPop),
];

impl Aggregate {
    /// The aggregate of that name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if let Some((_, found)) = AGGREGATE_NAMES.iter().find(|(n, _)| *n == name) {
            return Some(*found);
        }
        let digits = name.strip_prefix('p')?;
        if digits.len() != 2 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok().filter(|p| *p > 0).map(Self::Percentile)
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Percentile(p) = self {
            return write!(f, "p{p:02}");
        }
        let name = AGGREGATE_NAMES.iter().find(|(_, a)| a == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for (name, aggregate) in AGGREGATE_NAMES {
            assert_eq!(Aggregate::from_name(name), Some(aggregate));
            assert_eq!(aggregate.to_string(), name);
        }
        for (name, want) in [
            ("p01", Some(Aggregate::Percentile(1))),
            ("p99", Some(Aggregate::Percentile(99))),
            ("p00", None),
            ("p5", None),
            ("p100", None),
            ("p+5", None),
            ("averige", None),
            ("", None),
        ] {
            assert_eq!(Aggregate::from_name(name), want, "{name}");
        }
        assert_eq!(Aggregate::Percentile(5).to_string(), "p05");
    }
}
