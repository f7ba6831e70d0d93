//! What a pipeline is asked to do, as checked types: an operator is built from
//! these and never sees text. Knows no file and no TOML.
//!
//! Bound: at most [`crate::limits::WINDOWS_MAX`] windows, each with at most
//! [`crate::limits::AGGREGATES_MAX`] aggregates.

use std::fmt;

use crate::units::Span;

pub use crate::engine::calendar::{CalendarUnit, Zone};

/// The pipeline of one agent, or of one `forebay try`.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    pub time: TimeRules,
    /// In the order of their output: that of the config, but what a window reads
    /// stands before it.
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
    pub from: Source,
    /// The figure of a row of another window that is taken as a reading's value.
    pub value: Aggregate,
    /// Not that figure but the exact state of the rows of another window is taken.
    pub merge: bool,
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

impl WindowSpec {
    /// A window over readings with all else at its default.
    #[must_use]
    pub fn new(name: &str, kind: WindowKind) -> Self {
        Self {
            name: name.into(),
            kind,
            from: Source::Readings,
            value: Aggregate::Mean,
            merge: false,
            channels: None,
            devices: None,
            key: KeySpec::DEVICE_CHANNEL,
            aggregates: vec![
                Aggregate::Count,
                Aggregate::Mean,
                Aggregate::Min,
                Aggregate::Max,
            ],
            emit: Emit::OnClose,
            finalize: false,
        }
    }
}

/// What a window reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Readings,
    /// The rows of the window at this place in [`EngineConfig::windows`], which is
    /// before its reader's.
    Window(u16),
}

/// The shape of a window. Sizes are longer than 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowKind {
    /// One after the other without a hole.
    Tumbling(Grid),
    /// `[start, start + size)` at every `offset` plus a multiple of `hop`; at most
    /// [`crate::limits::HOPS_PER_WINDOW_MAX`] over one reading.
    Hopping { size: Span, hop: Span, offset: Span },
    /// One window per reading, that ends at it.
    Sliding { size: Span, bounds: Bounds },
    /// One window per reading: it and those before it, `n` in all, 1 to
    /// [`crate::limits::ROWS_PER_WINDOW_MAX`].
    Rows { n: u32 },
    /// `[first, last + gap)`: a pause of `gap` ends it.
    Session { gap: Span },
}

/// Where tumbling windows start and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grid {
    /// `[start, start + size)`, starts at `offset` plus a multiple of `size`.
    Fixed { size: Span, offset: Span },
    /// The days, weeks or months of a time zone.
    Calendar { unit: CalendarUnit, zone: Zone },
}

/// Which ends of a rolling window belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// `(t - size, t]`: 1 Hz over 60 s holds 60 readings.
    HalfOpen,
    /// `[t - size, t]`, the RANGE of SQL.
    Closed,
}

/// What separates the windows of one operator: each combination of the columns
/// that are in the key has its own. Where the device is in it, a window waits
/// for its own device only, else for all that are not idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySpec {
    pub device: bool,
    pub channel: bool,
}

impl KeySpec {
    pub const DEVICE_CHANNEL: Self = Self {
        device: true,
        channel: true,
    };
    /// All channels of a device in one window.
    pub const DEVICE: Self = Self {
        device: true,
        channel: false,
    };
    /// A channel over all devices.
    pub const CHANNEL: Self = Self {
        device: false,
        channel: true,
    };
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
