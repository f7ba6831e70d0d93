//! Where a block stands in the store. The order of the key bytes is the order
//! of the log.

use crate::units::{Offset, PartitionId, TopicId};

/// One partition of one topic: the unit of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: TopicId,
    pub partition: PartitionId,
}

/// Key of one block: `topic u16 | partition u16 | base offset u64 | chunk u16`, big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockKey {
    pub at: TopicPartition,
    /// Offset of the block's first record.
    pub base: Offset,
    /// Part number of a record that is larger than a block; 0 for all others.
    pub chunk: u16,
}

/// Length of a key.
pub const BLOCK_KEY_BYTES: usize = 2 + 2 + 8 + 2;

impl BlockKey {
    #[must_use]
    pub fn to_bytes(self) -> [u8; BLOCK_KEY_BYTES] {
        let mut out = [0; BLOCK_KEY_BYTES];
        out[..2].copy_from_slice(&self.at.topic.0.to_be_bytes());
        out[2..4].copy_from_slice(&self.at.partition.0.to_be_bytes());
        out[4..12].copy_from_slice(&self.base.0.to_be_bytes());
        out[12..].copy_from_slice(&self.chunk.to_be_bytes());
        out
    }

    /// Reads a key; `None` when the length is another.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BLOCK_KEY_BYTES] = bytes.try_into().ok()?;
        let u16_at = |i: usize| u16::from_be_bytes([bytes[i], bytes[i + 1]]);
        let mut base = [0; 8];
        base.copy_from_slice(&bytes[4..12]);
        Some(Self {
            at: TopicPartition {
                topic: TopicId(u16_at(0)),
                partition: PartitionId(u16_at(2)),
            },
            base: Offset(u64::from_be_bytes(base)),
            chunk: u16_at(12),
        })
    }
}

/// A stored block with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlock {
    pub key: BlockKey,
    pub bytes: Vec<u8>,
}
