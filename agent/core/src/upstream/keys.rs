//! Keys and values of marks and rows in the sink. Byte tables:
//! `agent/core/docs/upstream.md`.
//!
//! Always holds: the order of the keys is gateway, log, stream, partition, epoch,
//! offset, chunk. Bound: a key has at most SINK_KEY_BYTES_MAX bytes, a mark at
//! most VALUE_BYTES_MAX.

use super::history::EpochRun;
use super::ranges::{OffsetRange, OffsetRanges};
use crate::limits::{
    NAME_BYTES_MAX, OFFSET_RANGES_MAX, STORE_KEY_BYTES_MAX, STORE_VALUE_BYTES_MAX,
};
use crate::payload::{GatewayName, MessageId, StreamName};
use crate::units::{Epoch, LogId, Offset, PartitionId};

/// Version of the mark's byte table.
const MARK_VERSION: u8 = 1;
/// Version, last epoch, number of ranges.
const MARK_HEAD_BYTES: usize = 1 + 4 + 2;
const RANGE_BYTES: usize = 8 + 8;
/// Ends a name in a key: no name has this byte in it, and it sorts first.
const NAME_END: u8 = 0;

const SOURCE_BYTES_MAX: usize = 2 * (NAME_BYTES_MAX + 1) + 16 + 2;
const SINK_KEY_BYTES_MAX: usize = SOURCE_BYTES_MAX + 4 + 8 + 2;
const _: () = assert!(SINK_KEY_BYTES_MAX <= STORE_KEY_BYTES_MAX);
const _: () = assert!(MARK_HEAD_BYTES + OFFSET_RANGES_MAX * RANGE_BYTES <= STORE_VALUE_BYTES_MAX);

/// One partition of one log of one gateway: the unit in which offsets count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    pub gateway: GatewayName,
    pub log_id: LogId,
    pub stream: StreamName,
    pub partition: PartitionId,
}

/// Where a group of rows stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    pub source: Source,
    pub epoch: Epoch,
    /// Offset of the group's first row.
    pub first: Offset,
    /// Number of this part of the group's bytes, from 0.
    pub chunk: u16,
}

impl Source {
    #[must_use]
    pub fn of(id: &MessageId) -> Self {
        Self {
            gateway: id.gateway.clone(),
            log_id: id.log_id,
            stream: id.stream.clone(),
            partition: id.partition,
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SINK_KEY_BYTES_MAX);
        out.extend_from_slice(self.gateway.as_str().as_bytes());
        out.push(NAME_END);
        out.extend_from_slice(&self.log_id.0);
        out.extend_from_slice(self.stream.as_str().as_bytes());
        out.push(NAME_END);
        out.extend_from_slice(&self.partition.0.to_be_bytes());
        out
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self {
            gateway: GatewayName::new(read_name(bytes)?).ok()?,
            log_id: LogId(read(bytes)?),
            stream: StreamName::new(read_name(bytes)?).ok()?,
            partition: PartitionId(u16::from_be_bytes(read(bytes)?)),
        })
    }
}

/// Key of the mark of the run that starts with epoch `first`.
#[must_use]
pub fn mark_key(source: &Source, first: Epoch) -> Vec<u8> {
    let mut out = source.to_bytes();
    out.extend_from_slice(&first.0.to_be_bytes());
    out
}

/// The gateway that a mark or a row is of, from its key.
#[must_use]
pub fn gateway_of_mark(mut key: &[u8]) -> Option<GatewayName> {
    GatewayName::new(read_name(&mut key)?).ok()
}

/// Value of a run's mark.
#[must_use]
pub fn mark_value(run: &EpochRun) -> Vec<u8> {
    let ranges = run.seen.as_slice();
    let count = u16::try_from(ranges.len()).expect("a run has at most OFFSET_RANGES_MAX ranges");
    let mut out = Vec::with_capacity(MARK_HEAD_BYTES + ranges.len() * RANGE_BYTES);
    out.push(MARK_VERSION);
    out.extend_from_slice(&run.last.0.to_be_bytes());
    out.extend_from_slice(&count.to_be_bytes());
    for range in ranges {
        out.extend_from_slice(&range.start().0.to_be_bytes());
        out.extend_from_slice(&range.end().0.to_be_bytes());
    }
    out
}

/// Reads a mark; `None` when it is not one of this version.
#[must_use]
pub fn parse_mark(mut key: &[u8], mut value: &[u8]) -> Option<(Source, EpochRun)> {
    let source = Source::read(&mut key)?;
    let first = Epoch(u32::from_be_bytes(read(&mut key)?));
    let [version] = read(&mut value)?;
    let last = Epoch(u32::from_be_bytes(read(&mut value)?));
    let count = u16::from_be_bytes(read(&mut value)?);
    if !key.is_empty() || version != MARK_VERSION || usize::from(count) > OFFSET_RANGES_MAX {
        return None;
    }
    let mut ranges = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let start = Offset(u64::from_be_bytes(read(&mut value)?));
        let end = Offset(u64::from_be_bytes(read(&mut value)?));
        ranges.push(OffsetRange::new(start, end)?);
    }
    let seen = OffsetRanges::from_sorted(ranges)?;
    let run = EpochRun { first, last, seen };
    value.is_empty().then_some((source, run))
}

impl RowKey {
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.source.to_bytes();
        out.extend_from_slice(&self.epoch.0.to_be_bytes());
        out.extend_from_slice(&self.first.0.to_be_bytes());
        out.extend_from_slice(&self.chunk.to_be_bytes());
        out
    }

    /// Reads a key; `None` when it is not one.
    #[must_use]
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let key = Self {
            source: Source::read(&mut bytes)?,
            epoch: Epoch(u32::from_be_bytes(read(&mut bytes)?)),
            first: Offset(u64::from_be_bytes(read(&mut bytes)?)),
            chunk: u16::from_be_bytes(read(&mut bytes)?),
        };
        bytes.is_empty().then_some(key)
    }
}

fn read<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}

fn read_name<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let end = bytes.iter().position(|byte| *byte == NAME_END)?;
    let (name, rest) = bytes.split_at(end);
    *bytes = &rest[1..];
    std::str::from_utf8(name).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn source(gateway: &str, stream: &str, partition: u16) -> Source {
        Source {
            gateway: GatewayName::new(gateway).unwrap(),
            log_id: LogId([0xab; 16]),
            stream: StreamName::new(stream).unwrap(),
            partition: PartitionId(partition),
        }
    }

    fn run(first: u32, last: u32, ranges: &[(u64, u64)]) -> EpochRun {
        let ranges = ranges
            .iter()
            .map(|&(a, b)| OffsetRange::new(Offset(a), Offset(b)).unwrap());
        EpochRun {
            first: Epoch(first),
            last: Epoch(last),
            seen: OffsetRanges::from_sorted(ranges.collect()).unwrap(),
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The byte tables, as stored by version 1.
    #[test]
    fn golden_bytes() {
        let source = source("g1", "readings", 3);
        let id = "ab".repeat(16);
        let key = mark_key(&source, Epoch(5));
        assert_eq!(
            hex(&key),
            format!("673100{id}72656164696e677300000300000005")
        );
        let value = mark_value(&run(5, 6, &[(0, 10), (12, 300)]));
        let want = "0100000006000200000000000000000000000000000\
                    00a000000000000000c000000000000012c";
        assert_eq!(hex(&value), want);
        let row = RowKey {
            source,
            epoch: Epoch(5),
            first: Offset(258),
            chunk: 1,
        };
        let want = format!("673100{id}72656164696e67730000030000000500000000000001020001");
        assert_eq!(hex(&row.to_bytes()), want);
    }

    #[test]
    fn marks_read_back_and_others_are_none() {
        let source = source("g", "s", 0);
        let key = mark_key(&source, Epoch(1));
        let value = mark_value(&run(1, 2, &[(0, 5), (7, 9)]));
        let parsed = parse_mark(&key, &value);
        assert_eq!(parsed, Some((source, run(1, 2, &[(0, 5), (7, 9)]))));
        for cut in 0..key.len() {
            assert_eq!(parse_mark(&key[..cut], &value), None, "key of {cut}");
        }
        for cut in 0..value.len() {
            assert_eq!(parse_mark(&key, &value[..cut]), None, "value of {cut}");
        }
        let changed = |at: usize, byte: u8| {
            let mut value = value.clone();
            value[at] = byte;
            parse_mark(&key, &value)
        };
        assert_eq!(changed(0, 2), None, "another version");
        assert_eq!(changed(5, 0xff), None, "too many ranges");
        assert_eq!(changed(22, 0), None, "an empty range");
        assert_eq!(changed(30, 5), None, "ranges that touch");
    }

    proptest! {
        #[test]
        fn keys_order_as_what_they_name(
            a in ("[a-c._-]{1,3}", "[a-c]{1,3}", 0..3u16, 0..3u32, 0..3u64, 0..2u16),
            b in ("[a-c._-]{1,3}", "[a-c]{1,3}", 0..3u16, 0..3u32, 0..3u64, 0..2u16),
        ) {
            let key = |(gateway, stream, partition, epoch, first, chunk): (String, String, _, _, _, _)| RowKey {
                source: source(&gateway, &stream, partition),
                epoch: Epoch(epoch),
                first: Offset(first),
                chunk,
            };
            let (a, b) = (key(a), key(b));
            prop_assert_eq!(a.to_bytes().cmp(&b.to_bytes()), a.cmp(&b));
            prop_assert_eq!(RowKey::from_bytes(&a.to_bytes()), Some(a));
        }

        #[test]
        fn bytes_never_panic(key in prop::collection::vec(any::<u8>(), 0..80), value in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_mark(&key, &value);
            let _ = RowKey::from_bytes(&key);
        }
    }
}
