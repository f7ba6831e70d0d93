//! Temporary mirror of core's border.
use forebay_core::units::EventTime;
use std::sync::Arc;
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePosition(pub Arc<str>);
pub type Row = Arc<str>;
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBatch {
    pub events: Vec<SourceEvent>,
    pub position: SourcePosition,
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceEvent {
    Upsert {
        table: Arc<str>,
        key: Option<Arc<str>>,
        time: EventTime,
        before: Option<Row>,
        after: Row,
        position: SourcePosition,
        is_insert: Option<bool>,
        unchanged: Vec<Arc<str>>,
    },
    Delete {
        table: Arc<str>,
        key: Arc<str>,
        time: EventTime,
        before: Option<Row>,
        position: SourcePosition,
    },
    Truncate {
        table: Arc<str>,
        time: EventTime,
        position: SourcePosition,
    },
    SnapshotBegin {
        table: Arc<str>,
        position: SourcePosition,
    },
    SnapshotRow {
        table: Arc<str>,
        row: Row,
        time: EventTime,
    },
    SnapshotEnd {
        table: Arc<str>,
        time: EventTime,
        position: SourcePosition,
    },
    Heartbeat {
        time: EventTime,
        position: SourcePosition,
    },
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceState {
    Connected,
    Snapshotting { table: Arc<str>, rows: u64 },
    Streaming,
    Waiting(String),
    Failed(String),
}
pub const SOURCE_BATCH_EVENTS_MAX: usize = 4096;
pub fn position_of(event: &SourceEvent) -> Option<&SourcePosition> {
    match event {
        SourceEvent::Upsert { position, .. }
        | SourceEvent::Delete { position, .. }
        | SourceEvent::Truncate { position, .. }
        | SourceEvent::SnapshotBegin { position, .. }
        | SourceEvent::SnapshotEnd { position, .. }
        | SourceEvent::Heartbeat { position, .. } => Some(position),
        SourceEvent::SnapshotRow { .. } => None,
    }
}
