//! `forebay upstream`: the process at the receiving end. Messages come from the
//! broker, the core says what in them is new, the sink makes it durable, and only
//! then they are acked.
//!
//! Decides nothing about data: that is [`forebay_core::upstream`].

mod limits;

mod schedule;

mod ledger;
pub mod sink;
mod snapshot;

mod health;

mod export;
mod verify;

mod query;

mod connections;

mod session;
mod worker;

mod process;

mod command;

pub use command::{UpstreamArgs, run, show_ledger, status_text};
pub use process::UpstreamProcess;
pub use sink::{
    Committed, EmbeddedSink, Extent, ExtentKind, PostgresSeen, PostgresSink, RowFilter, Sink,
    SinkError, look_at_postgres, open, open_existing,
};
pub use snapshot::UpstreamSnapshot;
