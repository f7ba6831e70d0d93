//! The embedded sink: rows and marks in one sled database, `<data_dir>/sink`.
//!
//! Always holds: a batch is written whole or not at all, and is on disk when
//! `commit` returns. One process at a time. Byte tables:
//! `agent/core/docs/upstream.md`.

use std::fmt;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use forebay_core::store::StoreError;
use forebay_core::upstream::apply::{Applier, LoadError, SinkWrite, Table};
use forebay_core::upstream::rows::{BadRows, RowReader, StoredRow};

use crate::store::{DirLock, Entry, OpenError, SledDb, Write};

const TREES: [&str; 4] = ["rows", "marks", "meta", "rejected"];

fn tree(table: Table) -> usize {
    match table {
        Table::Rows => 0,
        Table::Marks => 1,
        Table::Meta => 2,
        Table::Rejected => 3,
    }
}

/// What stopped the sink.
#[derive(Debug)]
pub enum SinkError {
    Open(OpenError),
    /// Nothing was ever applied here.
    Missing(PathBuf),
    /// The marks or counters contradict each other.
    Load(PathBuf, LoadError),
    Store(StoreError),
    /// Rows that cannot be read.
    Rows(BadRows),
    /// What is exported cannot be written.
    Output(std::io::Error),
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
            Self::Load(dir, error) => write!(
                f,
                "the sink in {}: {error}. It may be of a newer version; nothing was changed",
                dir.display()
            ),
            Self::Store(error) => error.fmt(f),
            Self::Rows(error) => error.fmt(f),
            Self::Output(error) => write!(f, "cannot write the rows: {error}"),
        }
    }
}

impl std::error::Error for SinkError {}

/// Which rows are exported; `None` is all.
#[derive(Debug, Clone, Default)]
pub struct RowFilter {
    pub gateway: Option<String>,
    pub stream: Option<String>,
}

impl RowFilter {
    fn takes(&self, row: &StoredRow) -> bool {
        let is = |want: &Option<String>, is: &str| want.as_ref().is_none_or(|want| want == is);
        is(&self.gateway, row.source.gateway.as_str())
            && is(&self.stream, row.source.stream.as_str())
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct EmbeddedSink {
    db: SledDb,
    _lock: DirLock,
}

impl EmbeddedSink {
    /// Opens the sink of a data directory, creating it when it is missing, and
    /// what was applied in it.
    ///
    /// # Errors
    /// When another process holds it, the system refuses, or it is damaged.
    pub fn open(data_dir: &Path) -> Result<(Self, Applier), SinkError> {
        let lock = DirLock::take(data_dir).map_err(SinkError::Open)?;
        let dir = sink_dir(data_dir);
        let db = SledDb::open(&dir, &TREES).map_err(SinkError::Open)?;
        let sink = Self { db, _lock: lock };
        let marks = sink.entries(Table::Marks)?;
        let meta = sink.entries(Table::Meta)?;
        let applier = Applier::load(marks, meta).map_err(|error| SinkError::Load(dir, error))?;
        Ok((sink, applier))
    }

    /// Opens a sink that must exist.
    ///
    /// # Errors
    /// As [`EmbeddedSink::open`], or [`SinkError::Missing`].
    pub fn open_existing(data_dir: &Path) -> Result<(Self, Applier), SinkError> {
        if !sink_dir(data_dir).exists() {
            return Err(SinkError::Missing(data_dir.to_owned()));
        }
        Self::open(data_dir)
    }

    /// Writes a batch and makes it survive a power cut.
    ///
    /// # Errors
    /// When it cannot be said that it will; the sink must then be opened anew, and
    /// the messages of the batch must not be acked.
    pub fn commit(&mut self, batch: &[SinkWrite]) -> Result<(), StoreError> {
        let writes = batch.iter().map(|write| Write {
            tree: tree(write.table),
            key: &write.key,
            value: write.value.as_deref(),
            must_be_new: write.must_be_new,
        });
        self.db.write(&writes.collect::<Vec<_>>())?;
        self.db.sync()
    }

    /// Writes the rows that the filter takes as JSON lines, in the order gateway,
    /// log, stream, partition, epoch, offset.
    ///
    /// # Errors
    /// When rows cannot be read, or not be written to `out`.
    pub fn export(
        &self,
        filter: &RowFilter,
        out: &mut dyn std::io::Write,
    ) -> Result<(), SinkError> {
        let mut reader = RowReader::default();
        let mut done = Ok(());
        let scanned = self.scan(Table::Rows, |key, value| {
            done = reader
                .push(key, value)
                .map_err(SinkError::Rows)
                .and_then(|rows| write_rows(&rows, filter, out));
            done.is_ok()
        });
        done.and(scanned)
    }

    /// Shows the rejected messages that are kept, oldest first, as JSON texts.
    ///
    /// # Errors
    /// When they cannot be read, or not be written to `out`.
    pub fn export_rejected(&self, out: &mut dyn std::io::Write) -> Result<(), SinkError> {
        for (_, value) in self.entries(Table::Rejected)? {
            out.write_all(&value)
                .and_then(|()| out.write_all(b"\n"))
                .map_err(SinkError::Output)?;
        }
        Ok(())
    }

    fn entries(&self, table: Table) -> Result<Vec<Entry>, SinkError> {
        let mut out = Vec::new();
        self.scan(table, |key, value| {
            out.push((key.to_vec(), value.to_vec()));
            true
        })?;
        Ok(out)
    }

    fn scan(&self, table: Table, visit: impl FnMut(&[u8], &[u8]) -> bool) -> Result<(), SinkError> {
        self.db
            .scan(tree(table), Bound::Unbounded, Bound::Unbounded, visit)
            .map_err(SinkError::Store)
    }
}

fn sink_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("sink")
}

fn write_rows(
    rows: &[StoredRow],
    filter: &RowFilter,
    out: &mut dyn std::io::Write,
) -> Result<(), SinkError> {
    let mut line = Vec::new();
    for row in rows.iter().filter(|row| filter.takes(row)) {
        line.clear();
        row.push_line(&mut line);
        line.push(b'\n');
        out.write_all(&line).map_err(SinkError::Output)?;
    }
    Ok(())
}
