//! The embedded sink: rows and marks in one sled database, `<data_dir>/sink`.
//!
//! Always holds: a batch is written whole or not at all, and is on disk when
//! `commit` returns. One process at a time. Bound: one batch, one version per
//! gateway. Byte tables: `agent/core/docs/upstream.md`.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use forebay_core::payload::GatewayName;
use forebay_core::upstream::batch::{Batch, Loaded, Table, owner};
use forebay_core::upstream::embed;
use forebay_core::upstream::rows::{BadRows, Group, RowReader, StoredRow};

use super::{Committed, Extent, ExtentKind, RowFilter, Sink, SinkError};
use crate::config::SinkKind;
use crate::store::{DirLock, Entry, SledDb, Write};

const TREES: [&str; 4] = ["rows", "marks", "meta", "rejected"];
/// Keys of versions in Meta: this and the gateway.
const VERSION_PREFIX: &str = "version.";

fn tree(table: Table) -> usize {
    match table {
        Table::Rows => 0,
        Table::Marks => 1,
        Table::Meta => 2,
        Table::Rejected => 3,
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct EmbeddedSink {
    db: SledDb,
    versions: BTreeMap<GatewayName, u64>,
    _lock: DirLock,
}

impl EmbeddedSink {
    /// Opens the sink of a data directory, creating it when it is missing.
    ///
    /// # Errors
    /// When another process holds it, the system refuses, or it is damaged.
    pub fn open(data_dir: &Path) -> Result<Self, SinkError> {
        let lock = DirLock::take(data_dir).map_err(SinkError::Open)?;
        let db = SledDb::open(&sink_dir(data_dir), &TREES).map_err(SinkError::Open)?;
        let mut sink = Self {
            db,
            versions: BTreeMap::new(),
            _lock: lock,
        };
        sink.versions = sink.read_versions()?;
        Ok(sink)
    }

    /// Opens a sink that must exist.
    ///
    /// # Errors
    /// As [`EmbeddedSink::open`], or [`SinkError::Missing`].
    pub fn open_existing(data_dir: &Path) -> Result<Self, SinkError> {
        if !sink_dir(data_dir).exists() {
            return Err(SinkError::missing(data_dir));
        }
        Self::open(data_dir)
    }

    fn read_versions(&self) -> Result<BTreeMap<GatewayName, u64>, SinkError> {
        let mut out = BTreeMap::new();
        for (key, value) in self.entries(Table::Meta, |_| true)? {
            let Some(name) = key.strip_prefix(VERSION_PREFIX.as_bytes()) else {
                continue;
            };
            let name = std::str::from_utf8(name).ok();
            let name = name.and_then(|name| GatewayName::new(name).ok());
            let (Some(name), Ok(value)) = (name, value.try_into()) else {
                let key = key.escape_ascii();
                return Err(SinkError::said(format!("the entry {key} cannot be read")));
            };
            out.insert(name, u64::from_be_bytes(value));
        }
        Ok(out)
    }

    fn version(&self, gateway: &GatewayName) -> u64 {
        self.versions.get(gateway).copied().unwrap_or(0)
    }

    fn entries(
        &self,
        table: Table,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<Entry>, SinkError> {
        let mut out = Vec::new();
        self.scan(table, |key, value| {
            if wanted(key) {
                out.push((key.to_vec(), value.to_vec()));
            }
            true
        })?;
        Ok(out)
    }

    fn scan(&self, table: Table, visit: impl FnMut(&[u8], &[u8]) -> bool) -> Result<(), SinkError> {
        self.db
            .scan(tree(table), Bound::Unbounded, Bound::Unbounded, visit)
            .map_err(SinkError::Store)
    }

    /// Shows the groups of rows.
    fn groups(
        &self,
        mut visit: impl FnMut(Group) -> Result<bool, BadRows>,
    ) -> Result<(), SinkError> {
        let mut reader = RowReader::default();
        let mut done = Ok(());
        self.scan(Table::Rows, |key, value| {
            let group = reader.push_group(key, value);
            let more = group.and_then(|group| group.map_or(Ok(true), &mut visit));
            match more {
                Ok(more) => more,
                Err(error) => {
                    done = Err(SinkError::Rows(error));
                    false
                }
            }
        })?;
        done
    }
}

impl Sink for EmbeddedSink {
    fn kind(&self) -> SinkKind {
        SinkKind::Embedded
    }

    fn load(&mut self, gateway: Option<&GatewayName>) -> Result<Loaded, SinkError> {
        let of = |table| {
            let wanted = move |key: &[u8]| {
                let version = table == Table::Meta && key.starts_with(VERSION_PREFIX.as_bytes());
                !version && gateway.is_none_or(|gateway| owner(table, key) == *gateway)
            };
            self.entries(table, wanted)
        };
        let versions = self.versions.iter();
        let versions = versions.filter(|(name, _)| gateway.is_none_or(|want| *name == want));
        Ok(Loaded {
            marks: of(Table::Marks)?,
            meta: of(Table::Meta)?,
            versions: versions.map(|(name, n)| (name.clone(), *n)).collect(),
        })
    }

    fn commit(&mut self, batch: &Batch) -> Result<Committed, SinkError> {
        let changed = batch.gateways.iter();
        let changed = changed.filter(|(name, version)| self.version(name) != *version);
        let changed: Vec<_> = changed.map(|(name, _)| name.clone()).collect();
        if !changed.is_empty() {
            return Ok(Committed::Conflict(changed));
        }
        let writes = embed::writes(batch);
        let versions = batch.gateways.iter().map(|(name, version)| {
            let key = [VERSION_PREFIX, name.as_str()].concat();
            (key, (version + 1).to_be_bytes())
        });
        let versions: Vec<_> = versions.collect();
        let rows = writes.iter().map(|write| Write {
            tree: tree(write.table),
            key: &write.key,
            value: write.value.as_deref(),
            must_be_new: write.must_be_new,
        });
        let versions = versions.iter().map(|(key, value)| Write {
            tree: tree(Table::Meta),
            key: key.as_bytes(),
            value: Some(value),
            must_be_new: false,
        });
        self.db
            .write(&rows.chain(versions).collect::<Vec<_>>())
            .and_then(|()| self.db.sync())
            .map_err(SinkError::Store)?;
        for (name, version) in &batch.gateways {
            self.versions.insert(name.clone(), version + 1);
        }
        Ok(Committed::Done)
    }

    fn rows(
        &mut self,
        filter: &RowFilter,
        visit: &mut dyn FnMut(StoredRow) -> bool,
    ) -> Result<(), SinkError> {
        self.groups(|group| {
            if !filter.takes_source(group.source()) {
                return Ok(true);
            }
            let rows = group.rows()?.into_iter();
            Ok(rows.filter(|row| filter.takes(row)).all(&mut *visit))
        })
    }

    fn extents(
        &mut self,
        filter: &RowFilter,
        visit: &mut dyn FnMut(Extent) -> bool,
    ) -> Result<(), SinkError> {
        self.groups(|group| {
            if !filter.takes_source(group.source()) {
                return Ok(true);
            }
            let (offsets, missing) = group.extent()?;
            let key = group.key();
            Ok(visit(Extent {
                source: key.source.clone(),
                epoch: key.opening.epoch,
                nonce: key.opening.nonce,
                first: offsets.start(),
                count: offsets.count(),
                kind: missing.map_or(ExtentKind::Rows, |_| ExtentKind::Missing),
            }))
        })
    }

    fn rejected(&mut self, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), SinkError> {
        self.scan(Table::Rejected, |_, value| visit(value))
    }
}

fn sink_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("sink")
}
