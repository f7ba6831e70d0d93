//! Rows in the sink: a group of consecutive rows as bytes, cut into values that
//! the store takes, and put together again. Byte table:
//! `agent/core/docs/upstream.md`.
//!
//! Always holds: what [`pieces`] made, [`RowReader`] reads back. Bound: a group is
//! what one message brought; the reader holds one group, GROUP_BYTES_MAX at most.

use serde_json::Value;

use super::keys::{RowKey, Source};
use crate::limits::{BLOCK_RECORDS_MAX, MESSAGE_BYTES_MAX, STORE_VALUE_BYTES_MAX};
use crate::units::{Epoch, EpochNonce, Offset};

const GROUP_VERSION: u8 = 1;
/// Version and number of rows.
const GROUP_HEAD_BYTES: usize = 1 + 4;
const ROW_HEAD_BYTES: usize = 4;
/// Largest group: the rows of one message with their lengths.
pub const GROUP_BYTES_MAX: usize =
    GROUP_HEAD_BYTES + BLOCK_RECORDS_MAX * ROW_HEAD_BYTES + MESSAGE_BYTES_MAX;
const _: () = assert!(GROUP_BYTES_MAX / STORE_VALUE_BYTES_MAX < u16::MAX as usize);

/// One row as applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRow {
    pub source: Source,
    pub epoch: Epoch,
    /// 0 where it is not known.
    pub nonce: EpochNonce,
    pub offset: Offset,
    /// A JSON object.
    pub json: Vec<u8>,
}

/// The values of a group, in the order of their chunk numbers.
#[must_use]
pub fn pieces(rows: &[&[u8]]) -> Vec<Vec<u8>> {
    let len = |n: usize| u32::try_from(n).expect("a message is far below 4 GiB");
    let mut group = vec![GROUP_VERSION];
    group.extend_from_slice(&len(rows.len()).to_be_bytes());
    for row in rows {
        group.extend_from_slice(&len(row.len()).to_be_bytes());
        group.extend_from_slice(row);
    }
    let values = group.chunks(STORE_VALUE_BYTES_MAX);
    values.map(<[u8]>::to_vec).collect()
}

/// Stored bytes that are no rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRows {
    pub key: Vec<u8>,
    pub said: &'static str,
}

impl std::fmt::Display for BadRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rows at key {:02x?}: {}", self.key, self.said)
    }
}

impl std::error::Error for BadRows {}

/// Puts groups together from values in key order.
#[derive(Debug, Default)]
pub struct RowReader {
    begun: Option<(RowKey, Vec<u8>)>,
}

impl RowReader {
    /// Takes the next value; gives the rows of its group when it was the last.
    ///
    /// # Errors
    /// When the bytes are no rows. The reader then goes on with the next group.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<Vec<StoredRow>, BadRows> {
        self.take(key, value).map_err(|said| BadRows {
            key: key.to_vec(),
            said,
        })
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<Vec<StoredRow>, &'static str> {
        let parsed = RowKey::from_bytes(key).ok_or("no key of rows")?;
        let (first, mut bytes) = match self.begun.take() {
            None => (parsed.clone(), Vec::new()),
            Some((first, bytes)) => {
                let group = RowKey {
                    chunk: first.chunk,
                    ..parsed.clone()
                };
                if group != first {
                    return Err("the group before it has no end");
                }
                (first, bytes)
            }
        };
        if usize::from(parsed.chunk) != bytes.len() / STORE_VALUE_BYTES_MAX {
            return Err("a part of the group is missing");
        }
        bytes.extend_from_slice(value);
        if bytes.len() > GROUP_BYTES_MAX {
            return Err("the group is too large");
        }
        match parse_group(&bytes)? {
            Some(rows) => Ok(stored(&first, rows)),
            None if value.len() == STORE_VALUE_BYTES_MAX => {
                self.begun = Some((first, bytes));
                Ok(Vec::new())
            }
            None => Err("the group is cut short"),
        }
    }

    /// Whether a group has begun whose end did not come.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.begun.is_some()
    }
}

fn stored(first: &RowKey, rows: Vec<Vec<u8>>) -> Vec<StoredRow> {
    let rows = (first.first.0..).zip(rows);
    let row = |(offset, json)| StoredRow {
        source: first.source.clone(),
        epoch: first.epoch,
        nonce: EpochNonce(0),
        offset: Offset(offset),
        json,
    };
    rows.map(row).collect()
}

/// The rows of a group; `None` when bytes are missing at the end.
fn parse_group(mut bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>, &'static str> {
    let Some(([version, count @ ..], rest)) = bytes.split_first_chunk::<GROUP_HEAD_BYTES>() else {
        return Ok(None);
    };
    bytes = rest;
    if *version != GROUP_VERSION {
        return Err("written by a newer version");
    }
    let count = u32::from_be_bytes(*count) as usize;
    if count > BLOCK_RECORDS_MAX {
        return Err("more rows than a message has");
    }
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let Some((len, rest)) = bytes.split_first_chunk::<ROW_HEAD_BYTES>() else {
            return Ok(None);
        };
        let Some((row, rest)) = rest.split_at_checked(u32::from_be_bytes(*len) as usize) else {
            return Ok(None);
        };
        rows.push(row.to_vec());
        bytes = rest;
    }
    if !bytes.is_empty() {
        return Err("bytes behind the last row");
    }
    Ok(Some(rows))
}

impl StoredRow {
    /// Of a row that stands for offsets that will never come: the offset after them.
    #[must_use]
    pub fn missing_until(&self) -> Option<Offset> {
        if !self.json.starts_with(b"{\"missing\":") {
            return None;
        }
        let json: Value = serde_json::from_slice(&self.json).ok()?;
        let known = ["missing", "first_offset", "last_offset"];
        let members = json.as_object()?;
        let is_ours = members.keys().eq(known) && json["first_offset"] == self.offset.0;
        let last = json["last_offset"].as_u64().filter(|_| is_ours)?;
        last.checked_add(1).map(Offset)
    }

    /// Appends the row with its identity as one JSON line, without the newline.
    pub fn push_line(&self, out: &mut Vec<u8>) {
        let Source {
            gateway,
            log_id,
            stream,
            partition,
        } = &self.source;
        let head = format!(
            "{{\"gateway\":\"{gateway}\",\"log_id\":\"{log_id}\",\"stream\":\"{stream}\",\
             \"partition\":{},\"epoch\":{},\"offset\":{},\"record\":",
            partition.0, self.epoch.0, self.offset.0
        );
        out.extend_from_slice(head.as_bytes());
        // A row may have line breaks between its members: they mean as much as
        // spaces do, and inside of texts JSON has none.
        out.extend(self.json.iter().map(|byte| match byte {
            b'\n' | b'\r' => b' ',
            other => *other,
        }));
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::payload::{GatewayName, StreamName};
    use crate::units::{LogId, PartitionId};

    fn key(first: u64, chunk: u16) -> RowKey {
        RowKey {
            source: Source {
                gateway: GatewayName::new("g").unwrap(),
                log_id: LogId([1; 16]),
                stream: StreamName::new("s").unwrap(),
                partition: PartitionId(2),
            },
            epoch: Epoch(3),
            first: Offset(first),
            chunk,
        }
    }

    fn read(reader: &mut RowReader, first: u64, rows: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let rows: Vec<_> = rows.iter().map(Vec::as_slice).collect();
        let mut out = Vec::new();
        for (chunk, piece) in (0..).zip(pieces(&rows)) {
            assert!(piece.len() <= STORE_VALUE_BYTES_MAX);
            out.extend(reader.push(&key(first, chunk).to_bytes(), &piece).unwrap());
        }
        assert!(!reader.is_open());
        let offsets: Vec<_> = out.iter().map(|row| row.offset.0).collect();
        assert!(offsets.into_iter().eq(first..first + rows.len() as u64));
        out.into_iter().map(|row| row.json).collect()
    }

    #[test]
    fn groups_around_the_size_of_a_value_read_back() {
        let head = GROUP_HEAD_BYTES + ROW_HEAD_BYTES;
        for bytes in [
            0,
            STORE_VALUE_BYTES_MAX - head - 1,
            STORE_VALUE_BYTES_MAX - head,
            STORE_VALUE_BYTES_MAX - head + 1,
            2 * STORE_VALUE_BYTES_MAX - head,
            MESSAGE_BYTES_MAX,
        ] {
            let rows = [vec![b'x'; bytes]];
            assert_eq!(read(&mut RowReader::default(), 5, &rows), rows, "{bytes}");
        }
    }

    #[test]
    fn what_is_no_group_is_refused_and_the_next_is_read() {
        let row: &[u8] = &[b'x'; STORE_VALUE_BYTES_MAX];
        let two = pieces(&[row]);
        let one = pieces(&[b"{}"]);
        let push = |reader: &mut RowReader, key: RowKey, value: &[u8]| {
            reader.push(&key.to_bytes(), value).map_err(|bad| bad.said)
        };
        for (name, first, second, said) in [
            (
                "no end",
                key(0, 0),
                key(9, 0),
                "the group before it has no end",
            ),
            (
                "a part twice",
                key(0, 0),
                key(0, 0),
                "a part of the group is missing",
            ),
            (
                "a part missing",
                key(0, 0),
                key(0, 2),
                "a part of the group is missing",
            ),
        ] {
            let mut reader = RowReader::default();
            assert_eq!(push(&mut reader, first, &two[0]), Ok(vec![]), "{name}");
            assert_eq!(push(&mut reader, second, &two[1]), Err(said), "{name}");
            assert_eq!(read(&mut reader, 7, &[b"{}".to_vec()]), [b"{}"], "{name}");
        }
        for (name, value, said) in [
            ("empty", vec![], "the group is cut short"),
            (
                "cut",
                one[0][..one[0].len() - 1].to_vec(),
                "the group is cut short",
            ),
            (
                "more",
                [&one[0][..], b"x"].concat(),
                "bytes behind the last row",
            ),
            ("version", vec![2, 0, 0, 0, 0], "written by a newer version"),
            ("count", vec![1, 0, 0, 2, 1], "more rows than a message has"),
        ] {
            let mut reader = RowReader::default();
            assert_eq!(push(&mut reader, key(0, 0), &value), Err(said), "{name}");
        }
        assert!(RowReader::default().push(b"no key", &one[0]).is_err());
    }

    #[test]
    fn a_line_has_the_identity_and_no_line_break() {
        let row = StoredRow {
            source: key(0, 0).source,
            epoch: Epoch(3),
            nonce: EpochNonce(0),
            offset: Offset(4),
            json: b"{\"a\":1,\r\n\"b\":2}".to_vec(),
        };
        let mut line = Vec::new();
        row.push_line(&mut line);
        let id = "01".repeat(16);
        let want = format!(
            "{{\"gateway\":\"g\",\"log_id\":\"{id}\",\"stream\":\"s\",\"partition\":2,\
             \"epoch\":3,\"offset\":4,\"record\":{{\"a\":1,  \"b\":2}}}}"
        );
        assert_eq!(String::from_utf8(line).unwrap(), want);
    }

    proptest! {
        #[test]
        fn any_rows_read_back(rows in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..12), first in 0..1u64 << 60) {
            prop_assert_eq!(read(&mut RowReader::default(), first, &rows), rows);
        }

        #[test]
        fn bytes_never_panic(value in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = RowReader::default().push(&key(0, 0).to_bytes(), &value);
        }
    }
}
