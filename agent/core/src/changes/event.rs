//! What sources of changes say, and what they are told: the border between the node, which
//! knows databases, brokers and files, and the stage that writes topic `changes`.
//!
//! Always holds: positions of one source grow as texts, but where a snapshot begins. Bound:
//! [`SOURCE_BATCH_EVENTS_MAX`](crate::limits::SOURCE_BATCH_EVENTS_MAX) events of a batch.
//! Knows no source.

use std::sync::Arc;

use crate::units::EventTime;

/// A source of changes: its place in [`GatewayConfig::sources`](crate::effect::GatewayConfig::sources).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceNo(pub u16);

/// A place in a source: what comes later is larger as text. Empty: none; what has none is
/// never known to have come before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SourcePosition(pub Arc<str>);

impl SourcePosition {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

/// A row: the text of a JSON object.
pub type RowText = Arc<str>;

/// A source and the tables that it alone feeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceConfig {
    /// Unique among sources; what is kept of it goes by it.
    pub name: String,
    /// Names of tables of the engine's config.
    pub tables: Vec<Arc<str>>,
}

/// A table whose rows stand in the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticTable {
    /// Name of a table of the engine's config.
    pub table: Arc<str>,
    pub rows: Vec<RowText>,
}

/// What a source has read, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBatch {
    /// At most [`SOURCE_BATCH_EVENTS_MAX`](crate::limits::SOURCE_BATCH_EVENTS_MAX).
    pub events: Vec<SourceEvent>,
    /// After the last event: what the source goes on from when all of it is durable.
    pub position: SourcePosition,
}

/// One thing that happened to a table, or that a source knows of it.
///
/// What is at or below the position of what was taken last is left out and counted. After
/// a truncate all rows are gone, one delete each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceEvent {
    /// A row is so from then on.
    Upsert {
        table: Arc<str>,
        /// `None`: as its key columns say.
        key: Option<Arc<str>>,
        time: EventTime,
        /// The row before, where the source says it: only its key counts, and it stands in
        /// a change where no row is held.
        before: Option<RowText>,
        after: RowText,
        position: SourcePosition,
        /// What the source calls it, where it says so; whether a row is held decides.
        /// `None`: the source may have said it before, and nothing happens where the same
        /// row is held.
        is_insert: Option<bool>,
        /// Columns that did not change and are not in `after`: as they were in the row that
        /// is held.
        unchanged: Vec<Arc<str>>,
    },
    /// The row of a key is gone.
    Delete {
        table: Arc<str>,
        key: Arc<str>,
        time: EventTime,
        /// As in an upsert.
        before: Option<RowText>,
        position: SourcePosition,
    },
    /// All rows of a table are gone.
    Truncate {
        table: Arc<str>,
        time: EventTime,
        position: SourcePosition,
    },
    /// All rows of a table follow. The source's positions may begin anew here: this one is
    /// taken whatever came before.
    SnapshotBegin {
        table: Arc<str>,
        position: SourcePosition,
    },
    /// A row of the table whose snapshot is under way: nothing happens where the same row
    /// is held.
    SnapshotRow {
        table: Arc<str>,
        row: RowText,
        time: EventTime,
    },
    /// Rows that are held and did not come since are deleted.
    SnapshotEnd {
        table: Arc<str>,
        time: EventTime,
        position: SourcePosition,
    },
    /// All tables of the source are known up to `time`.
    Heartbeat {
        time: EventTime,
        position: SourcePosition,
    },
}

/// How a source is doing, for its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceState {
    Connected,
    Snapshotting {
        table: Arc<str>,
        rows: u64,
    },
    Streaming,
    /// It goes on by itself: what it waits for.
    Waiting(String),
    /// It does not go on by itself: what is to be done.
    Failed(String),
}
