//! A block: up to [`BLOCK_RECORDS_MAX`](crate::limits::BLOCK_RECORDS_MAX) consecutive records of one partition in
//! at most [`BLOCK_BYTES_MAX`](crate::limits::BLOCK_BYTES_MAX) bytes. What it holds always: offsets without a
//! gap, one write epoch, and everything needed to read it (each block names its
//! own series). Byte table: `agent/core/docs/format.md`.

use std::fmt;

use super::key::{BlockKey, TopicPartition};
pub use crate::record::{Figure, GapRecord, ReadingRecord, Record, Row, Series, ValueKind};
use crate::units::{Epoch, EventTime, Offset};

/// First bytes of every block.
pub const BLOCK_MAGIC: [u8; 2] = *b"FB";
/// Version of the byte table. Version 1 was never released.
pub const BLOCK_VERSION: u8 = 2;
/// Bytes before the payload.
pub const BLOCK_HEAD_BYTES: usize = 2 + 1 + 1 + 4 + 2 + 2 + 2 + 4 + 8 + 2 + 8 + 8 + 4;
/// Codec byte of a readings payload: columns, each in its own encoding.
pub const CODEC_READINGS: u8 = 1;
/// Codec byte of a rows payload: time deltas and raw lines.
pub const CODEC_ROWS: u8 = 2;

/// What a block holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Readings {
        series: Vec<Series>,
        records: Vec<Record>,
    },
    Rows(Vec<Row>),
}

impl Body {
    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Readings { records, .. } => records.len(),
            Self::Rows(rows) => rows.len(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A block as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub at: TopicPartition,
    pub base: Offset,
    pub epoch: Epoch,
    pub body: Body,
}

impl Block {
    #[must_use]
    pub fn key(&self) -> BlockKey {
        BlockKey {
            at: self.at,
            base: self.base,
            chunk: 0,
        }
    }

    /// Offset after the last record: the base of the next block.
    #[must_use]
    pub fn end(&self) -> Offset {
        Offset(self.base.0 + self.body.len() as u64)
    }

    /// The block without its records below `from`; whole when that would leave none.
    #[must_use]
    pub fn starting_at(mut self, from: Offset) -> Self {
        if from >= self.end() {
            return self;
        }
        let skipped = from.0.saturating_sub(self.base.0);
        // It is less than the number of records.
        let count = skipped as usize;
        match &mut self.body {
            Body::Readings { records, .. } => drop(records.drain(..count)),
            Body::Rows(rows) => drop(rows.drain(..count)),
        }
        self.base.0 += skipped;
        self
    }
}

/// What a block's first bytes say, read without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHead {
    pub epoch: Epoch,
    pub base: Offset,
    pub count: u16,
    /// Smallest and largest event time inside.
    pub time_min: EventTime,
    pub time_max: EventTime,
    /// Records of the partition just before this block that were not durable yet
    /// when its batch was cut: all before these were. `None`: nobody said.
    pub unsynced: Option<u32>,
}

impl BlockHead {
    /// All offsets of the partition below this were durable when the block was
    /// written: what proves that a hole is a loss and not a write that was cut.
    #[must_use]
    pub fn durable_below(&self) -> Offset {
        let unsynced = self.unsynced.map_or(u64::MAX, u64::from);
        Offset(self.base.0.saturating_sub(unsynced))
    }

    /// Offset after the last record.
    #[must_use]
    pub fn end(&self) -> Offset {
        Offset(self.base.0 + u64::from(self.count))
    }
}

/// A block that cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockError {
    pub key: BlockKey,
    pub fault: BlockFault,
}

/// What is wrong with a block's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockFault {
    /// Not a block at all, or cut inside its head.
    NoBlock,
    /// Written by another version.
    Version {
        found: u8,
    },
    Crc {
        stored: u32,
        actual: u32,
    },
    /// An intact block of another place: the bytes say where they belong.
    OtherPlace {
        found: BlockKey,
    },
    /// The CRC holds but the content breaks the table: a fault of the writer.
    Malformed {
        position: usize,
    },
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockKey { at, base, .. } = self.key;
        write!(
            f,
            "topic {} partition {} offset {}: ",
            at.topic.0, at.partition.0, base.0
        )?;
        self.fault.fmt(f)
    }
}

impl fmt::Display for BlockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBlock => write!(f, "no block stands here"),
            Self::Version { found } => write!(
                f,
                "block version {found}, this program reads version {BLOCK_VERSION}"
            ),
            Self::Crc { stored, actual } => {
                write!(f, "CRC is {actual:08x}, stored {stored:08x}")
            }
            Self::OtherPlace { found } => write!(
                f,
                "the block of topic {} partition {} offset {} stands here",
                found.at.topic.0, found.at.partition.0, found.base.0
            ),
            Self::Malformed { position } => write!(f, "malformed at byte {position}"),
        }
    }
}

impl std::error::Error for BlockError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{PartitionId, TopicId};

    #[test]
    fn the_front_of_a_block_is_left_out() {
        let row = |n| Row {
            time: EventTime(n),
            line: n.to_string().into_bytes(),
        };
        let block = Block {
            at: TopicPartition {
                topic: TopicId(16),
                partition: PartitionId(0),
            },
            base: Offset(10),
            epoch: Epoch(1),
            body: Body::Rows((10..15).map(row).collect()),
        };
        for (from, base) in [(0, 10), (10, 10), (11, 11), (14, 14), (15, 10), (99, 10)] {
            let rest = block.clone().starting_at(Offset(from));
            assert_eq!(
                (rest.base, rest.end()),
                (Offset(base), Offset(15)),
                "{from}"
            );
            let Body::Rows(rows) = rest.body else {
                panic!("rows");
            };
            assert_eq!(rows[0].time, EventTime(base as i64), "{from}");
        }
    }
}
