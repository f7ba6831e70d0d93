//! What a pipeline is asked to do, as checked types: an operator is built from
//! these and never sees text. Knows no file and no TOML.
//!
//! Bound: at most [`crate::limits::WINDOWS_MAX`] windows, each with at most
//! [`crate::limits::AGGREGATES_MAX`] aggregates; [`crate::limits::TABLES_MAX`] tables and
//! [`crate::limits::JOINS_MAX`] joins.

use std::fmt;

use crate::engine::filter::Filter;
use crate::units::Span;

pub use crate::engine::calendar::{CalendarUnit, Zone};

/// The pipeline of one agent, or of one `forebay try`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EngineConfig {
    pub time: TimeRules,
    /// In the order of their output: that of the config, but what a window reads
    /// stands before it.
    pub windows: Vec<WindowSpec>,
    pub tables: Vec<TableSpec>,
    /// In the order of their output, behind all windows.
    pub joins: Vec<JoinSpec>,
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
    /// What is in the key beside, from tables; at most
    /// [`crate::limits::KEY_COLUMNS_MAX`].
    pub key_columns: Vec<KeyColumn>,
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
            key_columns: Vec::new(),
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
    /// Neither: all readings together, or by columns of tables alone.
    pub const NONE: Self = Self {
        device: false,
        channel: false,
    };
}

/// A column of a table in the key of a window: what the row of the reading's device (or
/// channel, where the table's key is so named) says at the reading's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// Place in [`EngineConfig::tables`].
    pub table: u16,
    pub column: String,
}

/// How long versions of rows are kept, where the config does not say: 7 days.
pub const HISTORY_DEFAULT: Span = Span(7 * 86_400_000_000);

/// A table: its rows come as changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSpec {
    /// Unique among tables.
    pub name: String,
    /// Key columns; never empty.
    pub key: Vec<String>,
    /// Its rows stand in the config: they are all there, and nothing is waited for.
    pub is_static: bool,
    /// How far behind the largest time seen a change may be.
    pub out_of_order: Span,
    /// Versions that ended longer ago than this may go.
    pub history: Span,
}

impl TableSpec {
    /// A table with all else at its default.
    #[must_use]
    pub fn new(name: &str, key: &[&str]) -> Self {
        Self {
            name: name.into(),
            key: key.iter().map(ToString::to_string).collect(),
            is_static: false,
            out_of_order: TimeRules::default().out_of_order,
            history: HISTORY_DEFAULT,
        }
    }
}

/// One join.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinSpec {
    /// Name of the output stream, unique among windows and joins.
    pub name: String,
    pub kind: JoinKind,
    pub left: JoinInput,
    /// Of a lookup and of a table join a table.
    pub right: JoinInput,
    /// What has to be equal on both sides; of a lookup, in the order of the table's key.
    pub on: Vec<JoinColumn>,
    pub join_type: JoinType,
}

impl JoinSpec {
    /// An inner join by device over all readings, of no table yet.
    #[must_use]
    pub fn new(name: &str, kind: JoinKind, left: JoinSource, right: JoinSource) -> Self {
        Self {
            name: name.into(),
            kind,
            left: left.into(),
            right: right.into(),
            on: vec![JoinColumn::Device],
            join_type: JoinType::Inner,
        }
    }

    /// Whether one reading, row or change can meet what came of another device.
    #[must_use]
    pub fn crosses_devices(&self) -> bool {
        match self.kind {
            JoinKind::Interval { .. } => !self.on.contains(&JoinColumn::Device),
            JoinKind::Lookup { .. } => false,
            JoinKind::Table => true,
        }
    }
}

/// How two sides find each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// `left + lower <= right <= left + upper`.
    Interval { lower: Span, upper: Span },
    /// The row of a table as of the reading's time. `wait`: how long of the gateway's
    /// clock a reading waits for the table at most; `None`: as long as it takes.
    Lookup { wait: Option<Span> },
    /// The rows of two tables as they are.
    Table,
}

/// What becomes of what finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinType {
    Inner,
    Left,
    /// Not of lookups.
    Full,
}

/// One side of a join.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinInput {
    pub from: JoinSource,
    /// The figure of a row of a window that is its value.
    pub value: Aggregate,
    /// Readings and rows of windows that are taken; `None` takes all.
    pub filter: Option<Filter>,
}

impl From<JoinSource> for JoinInput {
    fn from(from: JoinSource) -> Self {
        Self {
            from,
            value: Aggregate::Mean,
            filter: None,
        }
    }
}

/// What one side of a join reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinSource {
    Readings,
    /// The rows of the window at this place in [`EngineConfig::windows`].
    Window(u16),
    /// The table at this place in [`EngineConfig::tables`].
    Table(u16),
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinColumn {
    Device,
    Channel,
    /// Of a row of a table.
    Column(String),
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
    /// Never: it is there for questions. Of sliding windows only, and nothing reads it.
    Never,
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
