//! The small trait behind which the store stands, so that another one, or an
//! in-memory twin that forgets unsynced writes, can take sled's place.
//!
//! Blocks are opaque bytes here. A write is durable only after [`Store::sync`]
//! returned; what a crash leaves of unsynced batches is a prefix of whole
//! batches, never half of one.

use std::fmt;

use crate::log::key::{BlockKey, TopicPartition};
use crate::units::Offset;

/// A stored block with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlock {
    pub key: BlockKey,
    pub bytes: Vec<u8>,
}

/// One atomic write: blocks in key order per partition, and meta entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteBatch {
    pub blocks: Vec<StoredBlock>,
    /// Small facts beside the log (marks, topic table, log identity): key to value.
    pub meta: Vec<(Vec<u8>, Vec<u8>)>,
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
    /// Writes a batch; it is visible to reads at once and durable after [`Store::sync`].
    ///
    /// # Errors
    /// When the store cannot take it; nothing of the batch is then promised.
    fn append(&mut self, batch: &WriteBatch) -> Result<(), StoreError>;

    /// Makes every batch so far survive a power cut.
    ///
    /// # Errors
    /// When that cannot be said; none of the unsynced batches may be acked.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Whole blocks of one partition in order, starting with the one that holds
    /// `from` (or the first after it), up to about `bytes_max` but at least one.
    /// Empty at the end.
    ///
    /// # Errors
    /// When the store cannot read.
    fn read(
        &self,
        at: TopicPartition,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<StoredBlock>, StoreError>;

    /// The last block of each partition that has any, in key order.
    ///
    /// # Errors
    /// When the store cannot read.
    fn tails(&self) -> Result<Vec<StoredBlock>, StoreError>;

    /// A meta entry.
    ///
    /// # Errors
    /// When the store cannot read.
    fn meta(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// All meta entries whose key starts with `prefix`, in key order.
    ///
    /// # Errors
    /// When the store cannot read.
    #[allow(clippy::type_complexity)]
    fn meta_with_prefix(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError>;
}
