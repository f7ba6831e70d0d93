//! Generations that wait to be rewritten as segments. One of an earlier opening, or
//! whose database failed, is read by position from the files that were searched: all
//! that was synced stands there as it was written.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_core::log::key::{StoredBlock, TopicPartition};
use forebay_core::store::StoreError;
use forebay_core::units::{GenerationNo, Offset};

use super::live::Live;
use super::raw::{RawBlock, read_block};
use super::sled_db::io_error;

/// Where the blocks of a generation are read.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Live(Arc<Live>),
    Raw(Arc<RawSource>),
}

/// Blocks at known places of files, in key order.
#[derive(Debug)]
pub(super) struct RawSource {
    /// Shared by all generations that were searched together.
    pub(super) files: Arc<Vec<File>>,
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
    /// Whether small blocks are to be merged into full ones.
    pub(super) merge: bool,
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
            Self::Live(live) => live.read(at, from, bytes_max, out),
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
            Self::Live(live) => live.for_each(visit),
            Self::Raw(raw) => {
                let mut blocks = raw.blocks.iter();
                let done = blocks.try_for_each(|block| visit(read_block(&raw.files, block)?));
                done.map_err(|error| io_error("seal", &error))
            }
        }
    }
}

impl RawSource {
    /// Shows blocks of `at` as [`super::live::LiveBlocks::read`] does.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn each(
        &self,
        at: TopicPartition,
        from: Offset,
        visit: &mut dyn FnMut(StoredBlock) -> bool,
    ) -> Result<bool, StoreError> {
        let first = self
            .blocks
            .partition_point(|b| b.key.at < at || (b.key.at == at && b.head.end() <= from));
        for block in self.blocks[first..].iter().take_while(|b| b.key.at == at) {
            let read = read_block(&self.files, block);
            if !visit(read.map_err(|error| io_error("read", &error))?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

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
