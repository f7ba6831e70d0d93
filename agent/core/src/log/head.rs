//! The head of a block: what it is, where it belongs, and a CRC over all of it.
//! A block describes itself, so that it can be found and named without a key
//! beside it. Byte table: `agent/core/docs/format.md`.

use super::block::{
    BLOCK_HEAD_BYTES, BLOCK_MAGIC, BLOCK_VERSION, BlockError, BlockFault, BlockHead,
};
use super::bytes::{Malformed, Reader};
use super::key::{BlockKey, TopicPartition};
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_RECORDS_MAX};
use crate::units::{Epoch, EventTime, Offset, PartitionId, TopicId};

const _: () = assert!(
    BLOCK_BYTES_MAX <= u16::MAX as usize,
    "a length takes two bytes"
);

/// Stands in a head that does not say what was durable before the block.
const UNSYNCED_UNSAID: u32 = u32::MAX;
const UNSYNCED_AT: usize = BLOCK_HEAD_BYTES - 4;

/// What the fixed part says, before anything of it is believed.
struct Raw {
    crc: u32,
    length: usize,
    at: TopicPartition,
    head: BlockHead,
}

fn read_raw(bytes: &[u8]) -> Result<Raw, Malformed> {
    let mut reader = Reader::new(bytes);
    reader.take(4)?;
    let crc = u32::from_le_bytes(reader.array()?);
    let length = usize::from(u16::from_le_bytes(reader.array()?));
    let topic = TopicId(u16::from_le_bytes(reader.array()?));
    let partition = PartitionId(u16::from_le_bytes(reader.array()?));
    let head = BlockHead {
        epoch: Epoch(u32::from_le_bytes(reader.array()?)),
        base: Offset(u64::from_le_bytes(reader.array()?)),
        count: u16::from_le_bytes(reader.array()?),
        time_min: EventTime(i64::from_le_bytes(reader.array()?)),
        time_max: EventTime(i64::from_le_bytes(reader.array()?)),
        unsynced: Some(u32::from_le_bytes(reader.array()?)).filter(|n| *n != UNSYNCED_UNSAID),
    };
    let at = TopicPartition { topic, partition };
    Ok(Raw {
        crc,
        length,
        at,
        head,
    })
}

/// CRC-32C over everything but the CRC field itself.
#[must_use]
pub(super) fn block_crc(block: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&block[..4]), &block[8..])
}

/// Where the block belongs whose head `bytes` start with, and its length in
/// bytes, which may be more than are at hand. Checks magic, version and the
/// bounds of the length only: what it says is a claim until [`decode_head`].
#[must_use]
pub fn self_key(bytes: &[u8]) -> Option<(BlockKey, usize)> {
    if bytes.get(..2)? != BLOCK_MAGIC || *bytes.get(2)? != BLOCK_VERSION {
        return None;
    }
    let raw = read_raw(bytes).ok()?;
    let key = BlockKey {
        at: raw.at,
        base: raw.head.base,
        chunk: 0,
    };
    (BLOCK_HEAD_BYTES..=BLOCK_BYTES_MAX)
        .contains(&raw.length)
        .then_some((key, raw.length))
}

/// Reads a block's head after checking all of its bytes.
///
/// # Errors
/// When the bytes are not one whole block, are of another version, fail their
/// CRC or belong to another key.
pub fn decode_head(key: BlockKey, bytes: &[u8]) -> Result<BlockHead, BlockError> {
    let fail = |fault| Err(BlockError { key, fault });
    if bytes.len() < BLOCK_HEAD_BYTES || bytes[..2] != BLOCK_MAGIC {
        return fail(BlockFault::NoBlock);
    }
    if bytes[2] != BLOCK_VERSION {
        return fail(BlockFault::Version { found: bytes[2] });
    }
    let Ok(raw) = read_raw(bytes) else {
        return fail(BlockFault::NoBlock);
    };
    let (stored, actual) = (raw.crc, block_crc(bytes));
    if stored != actual {
        return fail(BlockFault::Crc { stored, actual });
    }
    if raw.length != bytes.len() || raw.length > BLOCK_BYTES_MAX {
        return fail(BlockFault::Malformed { position: 8 });
    }
    let found = BlockKey {
        at: raw.at,
        base: raw.head.base,
        chunk: 0,
    };
    if found != key {
        return fail(BlockFault::OtherPlace { found });
    }
    let count = usize::from(raw.head.count);
    if !(1..=BLOCK_RECORDS_MAX).contains(&count)
        || raw.head.base.0.checked_add(count as u64).is_none()
    {
        return fail(BlockFault::Malformed { position: 26 });
    }
    Ok(raw.head)
}

/// What a builder says of its block.
#[derive(Debug)]
pub(super) struct Stamp {
    pub(super) at: TopicPartition,
    pub(super) base: Offset,
    pub(super) epoch: Epoch,
    pub(super) codec: u8,
    pub(super) count: u16,
    /// Smallest and largest.
    pub(super) times: (EventTime, EventTime),
}

/// Writes the head into the space before a payload.
///
/// # Panics
/// When the block is longer than [`BLOCK_BYTES_MAX`]: builders know their size.
pub(super) fn finish_block(block: &mut [u8], stamp: &Stamp) {
    let length = block.len();
    assert!(length <= BLOCK_BYTES_MAX, "a builder let a block grow");
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        block[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&BLOCK_MAGIC);
    put(&[BLOCK_VERSION, stamp.codec]);
    put(&[0; 4]);
    put(&(length as u16).to_le_bytes());
    put(&stamp.at.topic.0.to_le_bytes());
    put(&stamp.at.partition.0.to_le_bytes());
    put(&stamp.epoch.0.to_le_bytes());
    put(&stamp.base.0.to_le_bytes());
    put(&stamp.count.to_le_bytes());
    put(&stamp.times.0.0.to_le_bytes());
    put(&stamp.times.1.0.to_le_bytes());
    put(&UNSYNCED_UNSAID.to_le_bytes());
    write_crc(block);
}

/// Writes into a block's head how many records before it are not durable yet, as
/// its batch is cut ([`BlockHead::unsynced`]).
///
/// # Panics
/// When the bytes are shorter than a head: they are a builder's.
pub(crate) fn stamp_unsynced(block: &mut [u8], unsynced: u32) {
    block[UNSYNCED_AT..BLOCK_HEAD_BYTES].copy_from_slice(&unsynced.to_le_bytes());
    write_crc(block);
}

fn write_crc(block: &mut [u8]) {
    let crc = block_crc(block);
    block[4..8].copy_from_slice(&crc.to_le_bytes());
}
