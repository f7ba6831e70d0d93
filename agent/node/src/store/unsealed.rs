//! Generations that are not sealed yet: the database that takes the writes, and
//! those that wait to be rewritten as segments.
//!
//! A generation whose database is not to be trusted, or cannot be opened for lack
//! of space, is read by position from the files that were searched: all that was
//! synced stands there as it was written.

use std::fs::File;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_core::log::decode::decode_head;
use forebay_core::log::key::{BlockKey, StoredBlock, TopicPartition};
use forebay_core::store::StoreError;
use forebay_core::units::{GenerationNo, Offset};

use super::BLOCKS;
use super::raw::{RawBlock, read_block};
use super::sled_db::{SledDb, io_error};

/// Where the blocks of a generation are read.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Sled(Arc<SledDb>),
    Raw(Arc<RawSource>),
}

/// Blocks at known places of files, in key order.
#[derive(Debug)]
pub(super) struct RawSource {
    pub(super) files: Vec<File>,
    pub(super) blocks: Vec<RawBlock>,
}

/// One generation that waits to be sealed.
#[derive(Debug, Clone)]
pub(super) struct Unsealed {
    pub(super) generation: GenerationNo,
    pub(super) dir: PathBuf,
    pub(super) source: Source,
    /// Its directory is evidence: it goes to quarantine once it is sealed.
    pub(super) damaged: bool,
    /// Bytes of its blocks.
    pub(super) bytes: u64,
}

impl Source {
    /// Appends blocks of `at` as [`super::catalog::Catalog::read`] does.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn read(
        &self,
        at: TopicPartition,
        from: Offset,
        bytes_max: usize,
        out: &mut Vec<StoredBlock>,
    ) -> Result<bool, StoreError> {
        match self {
            Self::Sled(db) => read_sled(db, at, from, bytes_max, out),
            Self::Raw(raw) => raw.read(at, from, bytes_max, out),
        }
    }

    /// Shows all blocks in key order until `visit` fails.
    ///
    /// # Errors
    /// What `visit` says, or that they cannot be read.
    pub(super) fn for_each(
        &self,
        mut visit: impl FnMut(StoredBlock) -> std::io::Result<()>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Sled(db) => {
                let mut stopped = Ok(());
                db.scan(BLOCKS, Bound::Unbounded, Bound::Unbounded, |key, bytes| {
                    if let Some(key) = BlockKey::from_bytes(key) {
                        let bytes = bytes.to_vec();
                        stopped = visit(StoredBlock { key, bytes });
                    }
                    stopped.is_ok()
                })?;
                stopped.map_err(|error| io_error("seal", &error))
            }
            Self::Raw(raw) => {
                let mut blocks = raw.blocks.iter();
                let done = blocks.try_for_each(|block| visit(read_block(&raw.files, block)?));
                done.map_err(|error| io_error("seal", &error))
            }
        }
    }
}

impl RawSource {
    fn read(
        &self,
        at: TopicPartition,
        from: Offset,
        bytes_max: usize,
        out: &mut Vec<StoredBlock>,
    ) -> Result<bool, StoreError> {
        let first = self
            .blocks
            .partition_point(|b| b.key.at < at || (b.key.at == at && b.head.end() <= from));
        let mut sum: usize = out.iter().map(|block| block.bytes.len()).sum();
        for block in self.blocks[first..].iter().take_while(|b| b.key.at == at) {
            if !out.is_empty() && sum + usize::from(block.length) > bytes_max {
                return Ok(true);
            }
            sum += usize::from(block.length);
            let read = read_block(&self.files, block);
            out.push(read.map_err(|error| io_error("read", &error))?);
        }
        Ok(false)
    }
}

/// Reads from the database that takes the writes, or one that did.
pub(super) fn read_sled(
    db: &SledDb,
    at: TopicPartition,
    from: Offset,
    bytes_max: usize,
    out: &mut Vec<StoredBlock>,
) -> Result<bool, StoreError> {
    let key = |base, chunk| BlockKey { at, base, chunk }.to_bytes();
    let before = db.last(
        BLOCKS,
        Bound::Included(&key(Offset(0), 0)),
        Bound::Included(&key(from, u16::MAX)),
    )?;
    let holding = before.and_then(|(key, bytes)| {
        let key = BlockKey::from_bytes(&key)?;
        let head = decode_head(key, &bytes).ok()?;
        (head.end() > from).then_some(key.base)
    });
    let mut sum: usize = out.iter().map(|block| block.bytes.len()).sum();
    let mut more = false;
    db.scan(
        BLOCKS,
        Bound::Included(&key(holding.unwrap_or(from), 0)),
        Bound::Included(&key(Offset(u64::MAX), u16::MAX)),
        |key, bytes| {
            let fits = out.is_empty() || sum + bytes.len() <= bytes_max;
            more = !fits;
            if let Some(key) = BlockKey::from_bytes(key).filter(|_| fits) {
                sum += bytes.len();
                let bytes = bytes.to_vec();
                out.push(StoredBlock { key, bytes });
            }
            fits
        },
    )?;
    Ok(more)
}
