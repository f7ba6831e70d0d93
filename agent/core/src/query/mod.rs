//! Questions of operators, answered from the durable log. A plan says which blocks may
//! hold what is asked for, a scan walks them, and a fold makes columns, windows or rows of
//! what they hold; a job is all of these and the words around them. Figures are exact and
//! the same ones that the engine computes over the same readings.
//!
//! Bound: each fold has its own; [`QUERIES_MAX`](crate::limits::QUERIES_MAX) jobs on the
//! loop. Knows no socket.

pub mod tables;

mod reply;

mod figures;
mod names;

mod catalog;
mod plan;

mod scan;

mod columns;
mod windows;

mod line;
mod packed;
mod rollup;
mod rows;

mod job;

pub use self::catalog::{Catalog, CatalogEntry, CatalogWindow};
pub use self::columns::{Columns, ColumnsFold, ColumnsGot, ColumnsWant, Detail, GapShown, TooMuch};
pub use self::figures::{FigureValues, Figures, rolling_range, whole_windows, window_start};
pub use self::job::{Job, RollupSaid};
pub use self::line::row_key;
pub use self::names::{Names, parse_uid};
pub use self::packed::{NotPacked, Packer};
pub(crate) use self::plan::{Known, check_range, rollup_range};
pub use self::plan::{
    Plan, PlanChannel, PlanError, PlanRead, PlanRequest, PlanRows, PlanWindow, Planned,
    RollingFigures,
};
pub use self::reply::{Reply, Written};
pub use self::rollup::{RollupColumns, RollupFold, RollupSource, rollup_of};
pub use self::rows::{RowsFold, RowsGot};
pub use self::scan::{Asks, Fold, RowFold, RowsScan, Scan, Way};
pub use self::windows::{WholeFold, WindowsFold, WindowsGot, WindowsWant};

use crate::follow::FollowRequest;
use crate::units::{EventTime, Span};

/// Names a question of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u64);

/// One question.
#[derive(Debug, Clone, PartialEq)]
pub enum Query {
    /// How the agent is doing.
    Status,
    /// The same without its devices: as short however many there are.
    Summary,
    /// Records that no broker takes.
    DeadLetters,
    /// Sends these once more: of one destination, or of all.
    RetryDeadLetters { destination: Option<String> },
    /// The tables: where they come from and how many rows they have.
    Tables,
    /// Rows of a table, those that hold now or that held `at` a time.
    Table {
        table: String,
        key: Option<String>,
        at: Option<EventTime>,
    },
    /// What became of a row.
    TableHistory { table: String, key: String },
    /// Of the readings of one channel.
    Channel(ChannelName, ChannelQuery),
    /// Rows of a stream from a place on, or a wait for them.
    Follow(FollowRequest),
    /// All derived streams, with their states.
    Views,
    /// Builds a window's rows anew beside those that stand, and goes over to them.
    RebuildView {
        name: String,
        /// Rows before this event time are left out.
        from: Option<EventTime>,
    },
    /// Lets the rows of a stream go that nothing writes any more.
    DropView { stream: String },
}

/// A question of the readings of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelQuery {
    /// The window that ends at the newest reading.
    Rolling { size: Span },
    /// Tumbling windows of `size` that overlap the range.
    Rollup { size: Span, range: TimeRange },
    /// The readings themselves, the newest
    /// [`QUERY_LINES_MAX`](crate::limits::QUERY_LINES_MAX) of the range.
    Readings { range: TimeRange },
}

/// A channel as an operator names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelName {
    /// Given name or uid.
    pub device: String,
    pub channel: String,
}

/// `[from, to)`; open ends reach as far as the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeRange {
    pub from: Option<EventTime>,
    pub to: Option<EventTime>,
}

impl TimeRange {
    /// Both ends.
    #[must_use]
    pub fn ends(self) -> (EventTime, EventTime) {
        (
            self.from.unwrap_or(EventTime(i64::MIN)),
            self.to.unwrap_or(EventTime(i64::MAX)),
        )
    }
}

/// The answer: a JSON object, or a sentence that says what to ask instead.
pub type Answer = Result<Reply, String>;

#[cfg(test)]
mod tests;
