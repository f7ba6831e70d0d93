//! Where the receiver keeps what it has applied, behind one trait: rows, and the marks
//! that call them applied, become durable together.
//!
//! Always holds: after a commit that was not done nothing of its batch is there; a
//! batch that was judged on another state than the sink holds is refused. All calls
//! block. Bound: a sink holds one batch and what it needs to write it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_core::payload::GatewayName;
use forebay_core::store::StoreError;
use forebay_core::units::{Epoch, EpochNonce, Offset};
use forebay_core::upstream::apply::LoadError;
use forebay_core::upstream::batch::{Batch, Loaded};
use forebay_core::upstream::keys::Source;
use forebay_core::upstream::rows::{BadRows, StoredRow};

use crate::config::{PostgresConfig, SinkKind, UpstreamConfig};
use crate::store::OpenError;

mod embedded;
mod files;
mod filter;
mod postgres;

pub use embedded::EmbeddedSink;
pub use files::FilesSink;
pub use filter::RowFilter;
pub use postgres::{PostgresSeen, PostgresSink, look_at_postgres};

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// It is on disk.
    Done,
    /// Another worker has changed these gateways since they were loaded; nothing was
    /// written.
    Conflict(Vec<GatewayName>),
}

/// See the module's text.
pub trait Sink: Send + fmt::Debug {
    fn kind(&self) -> SinkKind;

    /// Entries of the tables Marks and Meta with the versions: of all, or of one
    /// gateway. Whose an entry is, [`owner`](forebay_core::upstream::batch::owner) says.
    ///
    /// # Errors
    /// When they cannot be read.
    fn load(&mut self, gateway: Option<&GatewayName>) -> Result<Loaded, SinkError>;

    /// Writes a batch, all or nothing, and makes it survive a power cut.
    ///
    /// # Errors
    /// When it cannot be said that it will; the sink must then be opened anew, and
    /// the messages of the batch must not be acked.
    fn commit(&mut self, batch: &Batch) -> Result<Committed, SinkError>;

    /// Shows rows in the order gateway, log, stream, partition, epoch, nonce, offset,
    /// until `visit` is false.
    ///
    /// # Errors
    /// When they cannot be read.
    fn rows(
        &mut self,
        filter: &RowFilter,
        visit: &mut dyn FnMut(StoredRow) -> bool,
    ) -> Result<(), SinkError>;

    /// Shows which offsets the rows stand for, as runs, in the same order. Only
    /// [`RowFilter::gateway`] and [`RowFilter::stream`] count. Runs may overlap only
    /// where an offset was applied twice.
    ///
    /// # Errors
    /// When they cannot be read.
    fn extents(
        &mut self,
        filter: &RowFilter,
        visit: &mut dyn FnMut(Extent) -> bool,
    ) -> Result<(), SinkError>;

    /// Shows the rejected messages that are kept, oldest first, as JSON texts.
    ///
    /// # Errors
    /// When they cannot be read.
    fn rejected(&mut self, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), SinkError>;

    /// When [`Sink::tend`] has something to do; `None` while it has not.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Does what does not belong to a commit, such as writing what waits in larger files.
    /// What was committed is safe before, meanwhile and when it fails; [`Sink::due`] says
    /// when to try again. `is_last` when nothing more comes: then it does all that waits.
    ///
    /// # Errors
    /// Why it could not. Commits still work, or say themselves that they do not.
    fn tend(&mut self, now: Instant, is_last: bool) -> Result<(), SinkError> {
        let _ = (now, is_last);
        Ok(())
    }

    /// How long a batch may wait to become larger, and from how many bytes of
    /// payloads on it waits no more.
    fn linger(&self) -> (Duration, usize) {
        (Duration::ZERO, usize::MAX)
    }
}

/// What an extent's offsets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExtentKind {
    /// A row each.
    Rows,
    /// Declared: no record of them will ever come. One row stands for all.
    Missing,
}

/// Offsets that were applied together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    pub source: Source,
    pub epoch: Epoch,
    pub nonce: EpochNonce,
    pub first: Offset,
    /// At least 1.
    pub count: u64,
    pub kind: ExtentKind,
}

/// Opens the sink that is configured, creating it when it is missing.
///
/// # Errors
/// When another process holds it, the system refuses, or it is damaged.
pub fn open(config: &UpstreamConfig) -> Result<Box<dyn Sink>, SinkError> {
    match config.sink {
        SinkKind::Embedded => Ok(Box::new(EmbeddedSink::open(&config.data_dir)?)),
        SinkKind::Postgres => Ok(Box::new(PostgresSink::open(postgres_of(config)?)?)),
        SinkKind::Files => Ok(Box::new(FilesSink::open(&config.files)?)),
    }
}

fn postgres_of(config: &UpstreamConfig) -> Result<&PostgresConfig, SinkError> {
    let section = config.postgres.as_ref();
    section.ok_or_else(|| SinkError::said("sink = \"postgres\" needs a [postgres]"))
}

/// Opens a sink that must exist.
///
/// # Errors
/// As [`open`], or [`SinkError::Missing`].
pub fn open_existing(config: &UpstreamConfig) -> Result<Box<dyn Sink>, SinkError> {
    match config.sink {
        SinkKind::Embedded => Ok(Box::new(EmbeddedSink::open_existing(&config.data_dir)?)),
        SinkKind::Postgres => Ok(Box::new(PostgresSink::open_existing(postgres_of(config)?)?)),
        SinkKind::Files => Ok(Box::new(FilesSink::open_existing(&config.files)?)),
    }
}

/// Writes the rows that the filter takes as JSON lines.
///
/// # Errors
/// When rows cannot be read, or not be written to `out`.
pub fn export(
    sink: &mut dyn Sink,
    filter: &RowFilter,
    out: &mut dyn std::io::Write,
) -> Result<(), SinkError> {
    let mut line = Vec::new();
    let mut done = Ok(());
    sink.rows(filter, &mut |row| {
        line.clear();
        row.push_line(&mut line);
        line.push(b'\n');
        done = out.write_all(&line).map_err(SinkError::Output);
        done.is_ok()
    })?;
    done
}

/// Writes the rejected messages that are kept as JSON lines, oldest first.
///
/// # Errors
/// When they cannot be read, or not be written to `out`.
pub fn export_rejected(sink: &mut dyn Sink, out: &mut dyn std::io::Write) -> Result<(), SinkError> {
    let mut done = Ok(());
    sink.rejected(&mut |text| {
        let written = out.write_all(text).and_then(|()| out.write_all(b"\n"));
        done = written.map_err(SinkError::Output);
        done.is_ok()
    })?;
    done
}

/// What stopped the sink.
#[derive(Debug)]
pub enum SinkError {
    Open(OpenError),
    /// Nothing was ever applied here.
    Missing(PathBuf),
    /// The marks or counters contradict each other.
    Load(LoadError),
    Store(StoreError),
    /// Rows that cannot be read.
    Rows(BadRows),
    /// What is exported cannot be written.
    Output(std::io::Error),
    /// A sentence: what is wrong, and what to do.
    Said(String),
}

impl SinkError {
    #[must_use]
    pub fn said(text: impl Into<String>) -> Self {
        Self::Said(text.into())
    }

    fn missing(dir: &Path) -> Self {
        Self::Missing(dir.to_owned())
    }
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Missing(dir) => write!(
                f,
                "nothing was applied in {} yet: is this the data_dir of [upstream]?",
                dir.display()
            ),
            Self::Load(error) => write!(
                f,
                "the sink: {error}. It may be of a newer version; nothing was changed"
            ),
            Self::Store(error) => error.fmt(f),
            Self::Rows(error) => error.fmt(f),
            Self::Output(error) => write!(f, "cannot write the rows: {error}"),
            Self::Said(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for SinkError {}
