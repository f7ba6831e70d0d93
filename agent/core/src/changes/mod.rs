//! Changes of tables on their way into topic `changes`.

mod event;

pub use self::event::{
    RowText, SourceBatch, SourceConfig, SourceEvent, SourceNo, SourcePosition, SourceState,
    StaticTable,
};
