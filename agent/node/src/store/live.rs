//! The database of one generation: written once, never opened again. What a later
//! start needs of it, it finds by searching its file.
//!
//! sled keeps 16 entries per page, and writes a page that grows beyond that anew, in
//! two: three bytes for each that is appended. So places are laid out in advance, one
//! small entry before each block that will come: the pages are there already, a block
//! is written once, and the device takes less than half.
//!
//! Holds always: blocks stand in the order of writing, and the index says where. What is
//! read comes from memory that the index shares with the pages of the database; sealing
//! reads the database itself. Bound: an index entry per block.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use forebay_core::log::block::BlockHead;
use forebay_core::log::decode::decode_head;
use forebay_core::log::key::{BlockKey, StoredBlock, TopicPartition};
use forebay_core::store::StoreError;
use forebay_core::units::{EventTime, GenerationNo, Offset};

use super::names::generation_name;
use super::row_index::{KeyHash, keys_of};
use super::sled_db::{SharedBytes, SledDb, io_error};
use super::{OpenError, fault};

const TREES: [&str; 1] = ["blocks"];
const BLOCKS: usize = 0;
/// A place is laid out for so many bytes of a generation: blocks are larger when they
/// come fast, and how often a page of small ones is written does not matter.
const BYTES_PER_PLACE: u64 = 4096;
/// Most places that are laid out.
const PLACES_MAX: u64 = 16_384;
/// What a block takes of memory beside its bytes: its entry in the index here, and its place
/// in a page of the database with what that keeps of each write.
const BLOCK_MEMORY_BYTES: u64 = 400;
/// Places of one write. sled keeps every version of every page that a write touches until
/// it ends: all places at once were 13 MB.
const PLACES_PER_WRITE: usize = 32;
/// Last byte of the key of a place, and of the block that stands at it.
const PLACE: u8 = 0;
const BLOCK: u8 = 1;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) generation: GenerationNo,
    db: SledDb,
    blocks: Arc<LiveBlocks>,
    next: u64,
    /// Bytes of its blocks.
    pub(super) bytes: u64,
    pub(super) since: Instant,
}

/// Where a block stands.
#[derive(Debug, Clone)]
pub(super) struct Stands {
    place: u64,
    /// Offset after its last record.
    pub(super) end: Offset,
    /// Smallest and largest event time.
    pub(super) times: (EventTime, EventTime),
    /// The same memory as in the page of the database.
    pub(super) bytes: SharedBytes,
    /// Keys of its rows, once somebody asked for some: four bytes each.
    keys: OnceLock<Box<[KeyHash]>>,
}

impl Stands {
    /// Whether its keys are known.
    pub(super) fn has_keys(&self) -> bool {
        self.keys.get().is_some()
    }

    /// Whether the block may have a row of one of these keys.
    pub(super) fn may_have(&self, key: BlockKey, wanted: &[KeyHash]) -> bool {
        let keys = self.keys.get_or_init(|| {
            let bytes = self.bytes.to_vec();
            keys_of(&StoredBlock { key, bytes }).into()
        });
        wanted.iter().any(|one| keys.binary_search(one).is_ok())
    }
}

/// The blocks of a generation, for readers on any thread; they stay readable when the
/// database is closed.
#[derive(Debug, Default)]
pub(super) struct LiveBlocks {
    index: RwLock<BTreeMap<BlockKey, Stands>>,
}

/// Takes a block as it stands; false: no more.
pub(super) type Visit<'a> = dyn FnMut(BlockKey, &Stands) -> bool + 'a;

impl LiveBlocks {
    fn index(&self) -> RwLockReadGuard<'_, BTreeMap<BlockKey, Stands>> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows blocks of `at` from the one that holds `from`, or the first after it, on,
    /// until `visit` says no; true when it did. `visit` may not write to the store.
    pub(super) fn read(
        &self,
        at: TopicPartition,
        from: Offset,
        visit: &mut dyn FnMut(StoredBlock) -> bool,
    ) -> bool {
        self.each(at, from, &mut |key, stands| {
            visit(StoredBlock {
                key,
                bytes: stands.bytes.to_vec(),
            })
        })
    }

    /// The same with each block where it stands.
    pub(super) fn each(&self, at: TopicPartition, from: Offset, visit: &mut Visit<'_>) -> bool {
        let index = self.index();
        let key = |base, chunk| BlockKey { at, base, chunk };
        let before = index.range(key(Offset(0), 0)..=key(from, u16::MAX));
        let holding = before.last().filter(|(_, stands)| stands.end > from);
        let first = holding.map_or(from, |(key, _)| key.base);
        let mut rest = index.range(key(first, 0)..=key(Offset(u64::MAX), u16::MAX));
        rest.any(|(key, stands)| !visit(*key, stands))
    }
}

impl Live {
    /// Creates the generation, with so many places laid out: see [`places_for`].
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn create(
        log_dir: &Path,
        generation: GenerationNo,
        places: u64,
    ) -> Result<Self, OpenError> {
        let dir = log_dir.join(generation_name(generation));
        let mut db = SledDb::create_new(&dir, &TREES)?;
        let places: Vec<_> = (0..places).map(|place| key_of(place, PLACE)).collect();
        let mut batches = places.chunks(PLACES_PER_WRITE);
        let laid = batches
            .try_for_each(|keys| db.insert_all(BLOCKS, keys.iter().map(|key| (&key[..], &[][..]))));
        laid.and_then(|()| db.sync())
            .map_err(|error| OpenError::System {
                path: dir,
                doing: error.doing,
                said: error.said,
                no_space: error.no_space,
            })?;
        fault::point("generation.created");
        Ok(Self {
            generation,
            db,
            blocks: Arc::default(),
            next: 0,
            bytes: 0,
            since: Instant::now(),
        })
    }

    /// Number of blocks in it.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.index().len()
    }

    /// Its blocks, for readers beside the storage thread.
    pub(super) fn shared(&self) -> Arc<LiveBlocks> {
        self.blocks.clone()
    }

    /// About what it takes of memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes + BLOCK_MEMORY_BYTES * self.blocks() as u64
    }

    pub(super) fn has_failed(&self) -> bool {
        self.db.has_failed()
    }

    /// Writes blocks, all or none; durable after [`Live::sync`].
    ///
    /// # Errors
    /// When sled fails.
    pub(super) fn insert(&mut self, blocks: &[StoredBlock]) -> Result<(), StoreError> {
        let keys: Vec<_> = (self.next..)
            .map(|place| key_of(place, BLOCK))
            .take(blocks.len())
            .collect();
        let shared: Vec<SharedBytes> = blocks
            .iter()
            .map(|block| block.bytes.as_slice().into())
            .collect();
        let entries = keys.iter().map(|key| key.as_slice()).zip(&shared);
        self.db.insert_shared(BLOCKS, entries)?;
        let index = self.blocks.index.write();
        let mut index = index.unwrap_or_else(PoisonError::into_inner);
        for ((place, block), bytes) in (self.next..).zip(blocks).zip(shared) {
            let head = decode_head(block.key, &block.bytes);
            let all = (EventTime(i64::MIN), EventTime(i64::MAX));
            let stands = Stands {
                place,
                end: head.as_ref().map_or(block.key.base, BlockHead::end),
                times: head.map_or(all, |head| (head.time_min, head.time_max)),
                bytes,
                keys: OnceLock::new(),
            };
            index.insert(block.key, stands);
            self.bytes += block.bytes.len() as u64;
        }
        drop(index);
        self.next += blocks.len() as u64;
        Ok(())
    }

    /// Makes every write so far survive a power cut.
    ///
    /// # Errors
    /// When that cannot be said.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        self.db.sync()
    }

    /// Appends to `out` blocks of `at` from the one that holds `from`, or the first
    /// after it, on, while they fit; true when there are more.
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
        let mut sum: usize = out.iter().map(|block| block.bytes.len()).sum();
        Ok(self.blocks.read(at, from, &mut |block| {
            let fits = out.is_empty() || sum + block.bytes.len() <= bytes_max;
            if fits {
                sum += block.bytes.len();
                out.push(block);
            }
            fits
        }))
    }

    /// Shows all blocks in key order until `visit` fails.
    ///
    /// # Errors
    /// What `visit` says, or that they cannot be read.
    pub(super) fn for_each(
        &self,
        mut visit: impl FnMut(StoredBlock) -> std::io::Result<()>,
    ) -> Result<(), StoreError> {
        for (key, stands) in &*self.blocks.index() {
            let block = self.get(*key, stands)?;
            visit(block).map_err(|error| io_error("seal", &error))?;
        }
        Ok(())
    }

    fn get(&self, key: BlockKey, stands: &Stands) -> Result<StoredBlock, StoreError> {
        let bytes = self.db.get(BLOCKS, &key_of(stands.place, BLOCK))?;
        let bytes = bytes.ok_or_else(|| StoreError {
            doing: "read",
            said: format!("the block at {key:?} is not where it was written"),
            no_space: false,
        })?;
        Ok(StoredBlock { key, bytes })
    }
}

/// Places for a generation that will take so many bytes of blocks.
pub(super) fn places_for(generation_bytes: u64) -> u64 {
    (generation_bytes / BYTES_PER_PLACE).min(PLACES_MAX)
}

/// `place u64 BE | kind u8`.
fn key_of(place: u64, kind: u8) -> [u8; 9] {
    let mut key = [kind; 9];
    key[..8].copy_from_slice(&place.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use forebay_core::units::{PartitionId, TopicId};

    use super::super::raw;
    use super::super::samples::rows_block;
    use super::*;

    fn at(partition: u16) -> TopicPartition {
        TopicPartition {
            topic: TopicId(16),
            partition: PartitionId(partition),
        }
    }

    #[test]
    fn blocks_are_read_in_key_order_and_found_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut live = Live::create(dir.path(), GenerationNo(1), 16).unwrap();
        // More than places, and not in key order.
        let blocks: Vec<_> = (0..50)
            .flat_map(|n| {
                [
                    rows_block(at(1), n * 2, 2, 1, 30),
                    rows_block(at(0), n, 1, 1, 30),
                ]
            })
            .collect();
        for batch in blocks.chunks(7) {
            live.insert(batch).unwrap();
        }
        live.sync().unwrap();
        let mut sorted = blocks.clone();
        sorted.sort_by_key(|block| block.key);
        let mut shown = Vec::new();
        live.for_each(|block| {
            shown.push(block);
            Ok(())
        })
        .unwrap();
        assert_eq!(shown, sorted);
        let mut found = Vec::new();
        raw::search(&dir.path().join("g-00000001/db"), |block| {
            found.push(block.key)
        })
        .unwrap();
        found.sort_unstable();
        found.dedup();
        let keys: Vec<_> = sorted.iter().map(|block| block.key).collect();
        assert_eq!(found, keys);
    }

    #[test]
    fn a_read_starts_with_the_block_that_holds_the_offset() {
        let dir = tempfile::tempdir().unwrap();
        let mut live = Live::create(dir.path(), GenerationNo(1), 1).unwrap();
        live.insert(&[
            rows_block(at(0), 5, 3, 1, 30),
            rows_block(at(0), 8, 2, 1, 30),
            rows_block(at(0), 20, 1, 1, 30),
        ])
        .unwrap();
        for (name, from, bytes_max, bases, more) in [
            ("before all", 0, 9999, vec![5, 8, 20], false),
            ("inside", 7, 9999, vec![5, 8, 20], false),
            ("an edge", 8, 9999, vec![8, 20], false),
            ("in a hole", 12, 9999, vec![20], false),
            ("after all", 21, 9999, vec![], false),
            ("the first in any case", 0, 0, vec![5], true),
        ] {
            let mut out = Vec::new();
            let got = live.read(at(0), Offset(from), bytes_max, &mut out).unwrap();
            let read: Vec<_> = out.iter().map(|block| block.key.base.0).collect();
            assert_eq!((read, got), (bases, more), "{name}");
        }
    }
}
