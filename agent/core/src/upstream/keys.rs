//! Keys and values of marks and rows in the sink. Byte tables:
//! `agent/core/docs/upstream.md`.
//!
//! Always holds: the order of the keys is gateway, log, stream, partition, epoch,
//! offset, chunk. Bound: a key has at most SINK_KEY_BYTES_MAX bytes, a mark at
//! most VALUE_BYTES_MAX.

use super::ranges::{OffsetRange, OffsetRanges};
use super::run::{Opening, Run};
use crate::limits::{
    MERGED_OPENINGS_MAX, NAME_BYTES_MAX, OFFSET_RANGES_MAX, STORE_KEY_BYTES_MAX,
    STORE_VALUE_BYTES_MAX,
};
use crate::payload::{GatewayName, MessageId, StreamName};
use crate::units::{Epoch, EpochNonce, LogId, Offset, PartitionId};

/// Version of the mark's byte table. Version 1 knew no nonces.
const MARK_VERSION: u8 = 2;
const MARK_VERSION_1: u8 = 1;
/// Version, last epoch, use, number of other openings, number of ranges.
const MARK_HEAD_BYTES: usize = 1 + 4 + 4 + 1 + 2;
const RANGE_BYTES: usize = 8 + 8;
const OPENING_BYTES: usize = 4 + 8;
/// Stands in a row's key before the nonce; no offset is that high, so rows without a
/// nonce come first.
const NONCE_FOLLOWS: [u8; 8] = [0xff; 8];
/// Ends a name in a key: no name has this byte in it, and it sorts first.
const NAME_END: u8 = 0;

const SOURCE_BYTES_MAX: usize = 2 * (NAME_BYTES_MAX + 1) + 16 + 2;
const SINK_KEY_BYTES_MAX: usize = SOURCE_BYTES_MAX + 4 + 8 + 8 + 8 + 2;
const MARK_BYTES_MAX: usize =
    MARK_HEAD_BYTES + MERGED_OPENINGS_MAX * OPENING_BYTES + OFFSET_RANGES_MAX * RANGE_BYTES;
const _: () = assert!(SINK_KEY_BYTES_MAX <= STORE_KEY_BYTES_MAX);
const _: () = assert!(MARK_BYTES_MAX <= STORE_VALUE_BYTES_MAX);
const _: () = assert!(MERGED_OPENINGS_MAX <= u8::MAX as usize);

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
    pub opening: Opening,
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

    /// Not above any source of this gateway.
    #[must_use]
    pub fn first_of(gateway: &GatewayName) -> Self {
        Self {
            gateway: gateway.clone(),
            log_id: LogId([0; 16]),
            // Among the bytes of names this is the lowest.
            stream: StreamName::new("-").expect("a name"),
            partition: PartitionId(0),
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

/// Key of the mark of the run whose lowest opening this is.
#[must_use]
pub fn mark_key(source: &Source, opening: Opening) -> Vec<u8> {
    let mut out = source.to_bytes();
    out.extend_from_slice(&opening.epoch.0.to_be_bytes());
    if opening.nonce != EpochNonce::UNKNOWN {
        out.extend_from_slice(&opening.nonce.0.to_be_bytes());
    }
    out
}

/// The gateway that a mark or a row is of, from its key.
#[must_use]
pub fn gateway_of_mark(mut key: &[u8]) -> Option<GatewayName> {
    GatewayName::new(read_name(&mut key)?).ok()
}

/// Value of a run's mark.
#[must_use]
pub fn mark_value(run: &Run) -> Vec<u8> {
    let ranges = run.seen.as_slice();
    let count = u16::try_from(ranges.len()).expect("a run has at most OFFSET_RANGES_MAX ranges");
    let others = run.others.as_deref().unwrap_or_default();
    let others_count =
        u8::try_from(others.len()).expect("a run names at most MERGED_OPENINGS_MAX others");
    let mut out = Vec::with_capacity(
        MARK_HEAD_BYTES + others.len() * OPENING_BYTES + ranges.len() * RANGE_BYTES,
    );
    out.push(MARK_VERSION);
    out.extend_from_slice(&run.last.0.to_be_bytes());
    out.extend_from_slice(&run.used.to_be_bytes());
    out.push(others_count);
    out.extend_from_slice(&count.to_be_bytes());
    for other in others {
        out.extend_from_slice(&other.epoch.0.to_be_bytes());
        out.extend_from_slice(&other.nonce.0.to_be_bytes());
    }
    for range in ranges {
        out.extend_from_slice(&range.start().0.to_be_bytes());
        out.extend_from_slice(&range.end().0.to_be_bytes());
    }
    out
}

/// Reads a mark; `None` when it is not one of this version or an older one.
#[must_use]
pub fn parse_mark(mut key: &[u8], mut value: &[u8]) -> Option<(Source, Run)> {
    let source = Source::read(&mut key)?;
    let opening = Opening {
        epoch: Epoch(u32::from_be_bytes(read(&mut key)?)),
        nonce: match key.is_empty() {
            true => EpochNonce::UNKNOWN,
            false => read_nonce(&mut key)?,
        },
    };
    let [version] = read(&mut value)?;
    let last = Epoch(u32::from_be_bytes(read(&mut value)?));
    let (used, others_count) = match version {
        MARK_VERSION_1 => (0, 0),
        MARK_VERSION => {
            let used = u32::from_be_bytes(read(&mut value)?);
            let [others] = read(&mut value)?;
            (used, usize::from(others))
        }
        _ => return None,
    };
    let count = u16::from_be_bytes(read(&mut value)?);
    let few = usize::from(count) <= OFFSET_RANGES_MAX && others_count <= MERGED_OPENINGS_MAX;
    if !key.is_empty() || !few || last < opening.epoch {
        return None;
    }
    let others = read_openings(&mut value, others_count)?;
    let mut ranges = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let start = Offset(u64::from_be_bytes(read(&mut value)?));
        let end = Offset(u64::from_be_bytes(read(&mut value)?));
        ranges.push(OffsetRange::new(start, end)?);
    }
    let run = Run {
        opening,
        last,
        used,
        seen: OffsetRanges::from_sorted(ranges)?,
        others: (!others.is_empty()).then(|| others.into()),
    };
    value.is_empty().then_some((source, run))
}

fn read_openings(value: &mut &[u8], count: usize) -> Option<Vec<Opening>> {
    let mut out: Vec<Opening> = Vec::with_capacity(count);
    for _ in 0..count {
        let opening = Opening {
            epoch: Epoch(u32::from_be_bytes(read(value)?)),
            nonce: EpochNonce(u64::from_be_bytes(read(value)?)),
        };
        if out.last().is_some_and(|before| *before >= opening) {
            return None;
        }
        out.push(opening);
    }
    Some(out)
}

/// A nonce that stands in a key: not 0, which is left out there.
fn read_nonce(bytes: &mut &[u8]) -> Option<EpochNonce> {
    let nonce = EpochNonce(u64::from_be_bytes(read(bytes)?));
    (nonce != EpochNonce::UNKNOWN).then_some(nonce)
}

impl RowKey {
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.source.to_bytes();
        out.extend_from_slice(&self.opening.epoch.0.to_be_bytes());
        if self.opening.nonce != EpochNonce::UNKNOWN {
            out.extend_from_slice(&NONCE_FOLLOWS);
            out.extend_from_slice(&self.opening.nonce.0.to_be_bytes());
        }
        out.extend_from_slice(&self.first.0.to_be_bytes());
        out.extend_from_slice(&self.chunk.to_be_bytes());
        out
    }

    /// Reads a key; `None` when it is not one.
    #[must_use]
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let source = Source::read(&mut bytes)?;
        let epoch = Epoch(u32::from_be_bytes(read(&mut bytes)?));
        let mut nonce = EpochNonce::UNKNOWN;
        if bytes.starts_with(&NONCE_FOLLOWS) {
            bytes = &bytes[NONCE_FOLLOWS.len()..];
            nonce = read_nonce(&mut bytes)?;
        }
        let key = Self {
            source,
            opening: Opening { epoch, nonce },
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

    fn opening(epoch: u32, nonce: u64) -> Opening {
        Opening {
            epoch: Epoch(epoch),
            nonce: EpochNonce(nonce),
        }
    }

    fn run(opening: Opening, last: u32, ranges: &[(u64, u64)]) -> Run {
        let ranges = ranges
            .iter()
            .map(|&(a, b)| OffsetRange::new(Offset(a), Offset(b)).unwrap());
        Run {
            opening,
            last: Epoch(last),
            used: 0,
            seen: OffsetRanges::from_sorted(ranges.collect()).unwrap(),
            others: None,
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The byte tables.
    #[test]
    fn golden_bytes() {
        let source = source("g1", "readings", 3);
        let id = "ab".repeat(16);
        let head = format!("673100{id}72656164696e677300000300000005");
        assert_eq!(hex(&mark_key(&source, opening(5, 0))), head);
        let key = mark_key(&source, opening(5, 0x0102));
        assert_eq!(hex(&key), format!("{head}0000000000000102"));
        let mut merged = run(opening(5, 0x0102), 6, &[(0, 10), (12, 300)]);
        (merged.used, merged.others) = (7, Some([opening(8, 9)].into()));
        let value = mark_value(&merged);
        let want = "02000000060000000701000200000008000000000000000900000000000000000000\
                    00000000000a000000000000000c000000000000012c";
        assert_eq!(hex(&value), want);
        assert_eq!(parse_mark(&key, &value), Some((source.clone(), merged)));
        let mut row = RowKey {
            source,
            opening: opening(5, 0),
            first: Offset(258),
            chunk: 1,
        };
        let place = "00000000000001020001";
        assert_eq!(hex(&row.to_bytes()), format!("{head}{place}"));
        row.opening.nonce = EpochNonce(0x0304);
        let want = format!("{head}ffffffffffffffff0000000000000304{place}");
        assert_eq!(hex(&row.to_bytes()), want);
    }

    /// What version 1 stored, of the epochs 5 and 6.
    #[test]
    fn marks_of_version_1_are_read() {
        let source = source("g1", "readings", 3);
        let value = "0100000006000200000000000000000000000000000\
                     00a000000000000000c000000000000012c";
        let digits = value.as_bytes().chunks(2);
        let digits = digits.map(|two| std::str::from_utf8(two).unwrap());
        let value: Vec<u8> = digits
            .map(|two| u8::from_str_radix(two, 16).unwrap())
            .collect();
        let want = run(opening(5, 0), 6, &[(0, 10), (12, 300)]);
        let key = mark_key(&source, opening(5, 0));
        assert_eq!(parse_mark(&key, &value), Some((source, want)));
    }

    #[test]
    fn marks_read_back_and_others_are_none() {
        let source = source("g", "s", 0);
        let key = mark_key(&source, opening(1, 3));
        let mut own = run(opening(1, 3), 1, &[(0, 5), (7, 9)]);
        own.others = Some([opening(2, 0), opening(2, 5)].into());
        let value = mark_value(&own);
        assert_eq!(parse_mark(&key, &value), Some((source, own)));
        for cut in 0..key.len() {
            // Without its nonce it is the key of another run.
            if cut + 8 == key.len() {
                continue;
            }
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
        assert_eq!(changed(0, 3), None, "another version");
        assert_eq!(changed(4, 0), None, "a last epoch before the first");
        assert_eq!(changed(9, 0xff), None, "too many openings");
        assert_eq!(changed(10, 0xff), None, "too many ranges");
        assert_eq!(changed(15, 3), None, "openings in no order");
        assert_eq!(changed(51, 0), None, "an empty range");
        assert_eq!(changed(59, 5), None, "ranges that touch");
    }

    proptest! {
        #[test]
        fn keys_order_as_what_they_name(
            a in ("[a-c._-]{1,3}", "[a-c]{1,3}", 0..3u16, (0..3u32, 0..3u64), 0..3u64, 0..2u16),
            b in ("[a-c._-]{1,3}", "[a-c]{1,3}", 0..3u16, (0..3u32, 0..3u64), 0..3u64, 0..2u16),
        ) {
            let key = |(gateway, stream, partition, (epoch, nonce), first, chunk): (String, String, _, _, _, _)| RowKey {
                source: source(&gateway, &stream, partition),
                opening: opening(epoch, nonce),
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
