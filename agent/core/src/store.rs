//! The small trait behind which the store stands, so that another one, or an
//! in-memory twin that forgets unsynced writes, can take sled's place.
//!
//! A write is durable only after [`Store::sync`] returned; what a crash leaves of
//! unsynced batches is a prefix of whole batches, never half of one, and a meta
//! entry never without the blocks of its batch.

use std::collections::BTreeMap;
use std::fmt;

use crate::limits::{BLOCK_BYTES_MAX, META_KEY_BYTES_MAX, META_VALUE_BYTES_MAX};
pub use crate::log::key::StoredBlock;
use crate::log::key::TopicPartition;
pub use crate::log::segment::{SegmentId, SegmentInfo, SegmentRange};
use crate::units::{Epoch, LogId, Offset};

pub mod memory;

/// Meta keys that start with this belong to the store itself (log id, epoch):
/// they can be read like others but a batch may not write them.
pub const META_RESERVED_PREFIX: &[u8] = b"store.";

/// Which log this is, and which opening of it. Known once the store is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreInfo {
    /// Drawn when the log was created.
    pub log_id: LogId,
    /// Counts the openings for writing, from 1. Durable before the first append.
    pub epoch: Epoch,
    /// Drawn at this opening: two copies of one directory count the same epochs
    /// but cannot draw the same nonces.
    pub nonce: u64,
}

/// One opening of the log: two copies of a directory open the same epoch, but draw other
/// nonces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opening {
    pub epoch: Epoch,
    pub nonce: u64,
}

/// Offsets that were durable and cannot be read any more: `[first, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    pub at: TopicPartition,
    pub first: Offset,
    pub end: Offset,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TopicPartition { topic, partition } = self.at;
        write!(
            f,
            "topic {}, partition {}: offsets {} to {} are lost",
            topic.0,
            partition.0,
            self.first.0,
            self.end.0.saturating_sub(1),
        )
    }
}

impl StoreInfo {
    #[must_use]
    pub fn opening(&self) -> Opening {
        Opening {
            epoch: self.epoch,
            nonce: self.nonce,
        }
    }
}

/// What was found when a store was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOpened {
    pub info: StoreInfo,
    /// The last openings of this log, this one at the end; at most
    /// [`OPENINGS_KEPT_MAX`](crate::limits::OPENINGS_KEPT_MAX).
    pub openings: Vec<Opening>,
    /// Offset that the next record of each known partition takes: never one that
    /// was given before, also when its records are lost.
    pub heads: BTreeMap<TopicPartition, Offset>,
    /// Sealed segments, oldest first.
    pub segments: Vec<SegmentInfo>,
    /// What this opening found missing, in order.
    pub losses: Vec<Loss>,
    /// What an operator should read.
    pub notes: Vec<String>,
}

/// What a store says unasked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreEvent {
    /// A generation was sealed into these segments.
    Sealed(Vec<SegmentInfo>),
    /// These segments are gone, as was asked.
    Removed(Vec<SegmentId>),
    /// How full the disk is.
    Disk {
        /// Free for this process.
        free_bytes: u64,
        /// Taken by what is not sealed yet.
        live_bytes: u64,
    },
    /// Writing failed; it is tried again, and nothing more is durable until then.
    Trouble(StoreError),
    /// Writing works again.
    Recovered,
    /// So much this process has had written to its disk since its start, by the system's
    /// count.
    Written(u64),
    /// So many damaged files stand in quarantine and wait for an operator; said when it is
    /// another number than before, first of none.
    SetAside(u64),
    /// A damaged block was met when it was to be read.
    Lost(Loss),
    /// A sentence for the operator.
    Note(String),
}

/// One atomic write: blocks in key order per partition, and meta entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteBatch {
    pub blocks: Vec<StoredBlock>,
    /// Small facts beside the log (marks, topic table, log identity): key to value; an
    /// empty value removes its key.
    pub meta: Vec<(Vec<u8>, Vec<u8>)>,
}

impl WriteBatch {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.meta.is_empty()
    }

    /// Asserts the bounds that every store relies on.
    ///
    /// # Panics
    /// See [`Store::append`].
    pub fn check(&self) {
        for block in &self.blocks {
            assert!(
                block.bytes.len() <= BLOCK_BYTES_MAX,
                "a block of {} bytes at {:?}: the store takes {BLOCK_BYTES_MAX}",
                block.bytes.len(),
                block.key,
            );
        }
        for (key, value) in &self.meta {
            assert!(
                key.len() <= META_KEY_BYTES_MAX && value.len() <= META_VALUE_BYTES_MAX,
                "a meta entry of {} and {} bytes: the store takes {META_KEY_BYTES_MAX} and {META_VALUE_BYTES_MAX}",
                key.len(),
                value.len(),
            );
            assert!(
                !key.starts_with(META_RESERVED_PREFIX),
                "a meta key of the store's own written from outside",
            );
        }
    }
}

/// Why the store did not do as asked. After one the store is not written to
/// again until it was opened anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    /// What was being done, such as `append` or `fdatasync`.
    pub doing: &'static str,
    /// What the store or the system said.
    pub said: String,
    /// The disk is full: freeing space helps.
    pub no_space: bool,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store: {} failed: {}", self.doing, self.said)
    }
}

impl std::error::Error for StoreError {}

/// A log store. One thread owns it.
pub trait Store: Send {
    /// Writes a batch; its blocks are visible to reads at once, its meta entries at the
    /// latest with [`Store::sync`], after which all of it is durable.
    ///
    /// # Errors
    /// When the store cannot take it; nothing of the batch is then promised, and
    /// every later `append` and `sync` fails too until [`Store::recover`].
    ///
    /// # Panics
    /// When a block is longer than `BLOCK_BYTES_MAX`, a meta key longer than
    /// `META_KEY_BYTES_MAX`, a meta value longer than `META_VALUE_BYTES_MAX`, or a
    /// meta key is a reserved one: these are the caller's bugs ([`WriteBatch::check`]).
    fn append(&mut self, batch: &WriteBatch) -> Result<(), StoreError>;

    /// Makes every batch so far survive a power cut.
    ///
    /// # Errors
    /// When that cannot be said; none of the unsynced batches may be acked, and
    /// every later `append` and `sync` fails too until [`Store::recover`].
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Makes the store writable again after an error: what was synced is there, and
    /// what was not is to be appended again. To be called again until it works.
    ///
    /// # Errors
    /// When it does not work yet.
    fn recover(&mut self) -> Result<(), StoreError>;

    /// Whole blocks of one partition in key order, from the one that holds `from` on,
    /// or from the first after it: a range that was trimmed or lost shows as a base
    /// above `from`. More blocks follow while their sum stays within `bytes_max`; the
    /// first one comes in any case. Empty when nothing stands there. What is not
    /// durable yet is shown too: the reader compares with its durable head.
    ///
    /// # Errors
    /// When the store cannot read.
    fn read(
        &self,
        at: TopicPartition,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<StoredBlock>, StoreError>;

    /// Removes whole segments for good; those that are not there are passed over.
    ///
    /// # Errors
    /// When the store cannot; some may be gone by then.
    fn remove(&mut self, segments: &[SegmentId]) -> Result<(), StoreError>;

    /// The next thing that the store has to say.
    fn poll_event(&mut self) -> Option<StoreEvent>;

    /// A meta entry; never an empty one.
    ///
    /// # Errors
    /// When the store cannot read.
    fn meta(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// All meta entries whose key starts with `prefix`, in key order.
    ///
    /// # Errors
    /// When the store cannot read.
    #[allow(clippy::type_complexity, reason = "pairs of a key and its value")]
    fn meta_with_prefix(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError>;
}
