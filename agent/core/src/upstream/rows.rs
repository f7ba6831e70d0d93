//! Rows in the sink: a group of consecutive rows as bytes, cut into values that
//! the store takes, and put together again. Byte table:
//! `agent/core/docs/upstream.md`.
//!
//! Always holds: what [`compact_pieces`] made, [`RowReader`] reads back. Bound: a group
//! is what one message brought; the reader holds one group, GROUP_BYTES_MAX at most.

use serde_json::Value;

use super::keys::{RowKey, Source};
use super::ranges::OffsetRange;
use crate::limits::{BLOCK_RECORDS_MAX, MESSAGE_BYTES_MAX, STORE_VALUE_BYTES_MAX};
use crate::payload::{Compact, CompactBody, DataBody, DataMessage, MessageId, push_row};
use crate::record::{MISSING, Missing, missing_name};
use crate::units::{Epoch, EpochNonce, Offset};

/// Each row a JSON object; not written any more.
const GROUP_VERSION_1: u8 = 1;
/// A compact payload.
const GROUP_VERSION: u8 = 2;
/// Version and number of rows, or of bytes.
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

/// The values of a group that is this compact payload, in the order of their chunk
/// numbers.
#[must_use]
pub fn compact_pieces(payload: &[u8]) -> Vec<Vec<u8>> {
    let len = u32::try_from(payload.len()).expect("a message is far below 4 GiB");
    let mut group = Vec::with_capacity(GROUP_HEAD_BYTES + payload.len());
    group.push(GROUP_VERSION);
    group.extend_from_slice(&len.to_be_bytes());
    group.extend_from_slice(payload);
    if group.len() <= STORE_VALUE_BYTES_MAX {
        return vec![group];
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

/// A group as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// With the number of its first part.
    key: RowKey,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Json(Vec<Vec<u8>>),
    Compact(Vec<u8>),
}

/// Puts groups together from values in key order.
#[derive(Debug, Default)]
pub struct RowReader {
    begun: Option<(RowKey, Vec<u8>)>,
}

impl RowReader {
    /// Takes the next value; gives its group when it was the last.
    ///
    /// # Errors
    /// When the bytes are no rows. The reader then goes on with the next group.
    pub fn push_group(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Group>, BadRows> {
        self.take(key, value).map_err(|said| BadRows {
            key: key.to_vec(),
            said,
        })
    }

    /// Takes the next value; gives the rows of its group when it was the last.
    ///
    /// # Errors
    /// When the bytes are no rows. The reader then goes on with the next group.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<Vec<StoredRow>, BadRows> {
        let group = self.push_group(key, value)?;
        group.map_or(Ok(Vec::new()), |group| group.rows())
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Group>, &'static str> {
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
            Some(content) => Ok(Some(Group {
                key: first,
                content,
            })),
            None if value.len() == STORE_VALUE_BYTES_MAX => {
                self.begun = Some((first, bytes));
                Ok(None)
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

impl Group {
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.key.source
    }

    #[must_use]
    pub fn key(&self) -> &RowKey {
        &self.key
    }

    /// The message that it is; `None` of a group of version 1.
    ///
    /// # Errors
    /// When the bytes are no rows.
    pub fn message(&self) -> Result<Option<DataMessage>, BadRows> {
        let Content::Compact(payload) = &self.content else {
            return Ok(None);
        };
        let message = DataMessage::parse(payload).ok();
        let message = message.filter(|message| self.is_of(&message.id));
        message.map(Some).ok_or_else(|| self.bad())
    }

    /// Which offsets it stands for, and whether they are those of no row. Records are
    /// not read.
    ///
    /// # Errors
    /// When the bytes are no rows.
    pub fn extent(&self) -> Result<(OffsetRange, Option<Missing>), BadRows> {
        let first = self.key.first;
        let until = |end: u64| OffsetRange::new(first, Offset(end)).ok_or_else(|| self.bad());
        match &self.content {
            Content::Json(rows) => {
                let whole = first.0.saturating_add(rows.len() as u64);
                let declared = match &rows[..] {
                    [row] => missing_until(first, row),
                    _ => None,
                };
                match declared {
                    Some((end, reason)) => Ok((until(end.0)?, Some(reason))),
                    None => Ok((until(whole)?, None)),
                }
            }
            Content::Compact(payload) => {
                let compact = Compact::open(payload).map_err(|_| self.bad())?;
                if !self.is_of(&compact.id) {
                    return Err(self.bad());
                }
                let missing = match compact.body {
                    CompactBody::Block(_) => None,
                    CompactBody::Missing(reason) => Some(reason),
                };
                Ok((until(compact.id.last.0.saturating_add(1))?, missing))
            }
        }
    }

    /// Its rows, each with its offset.
    ///
    /// # Errors
    /// When the bytes are no rows.
    pub fn rows(&self) -> Result<Vec<StoredRow>, BadRows> {
        let texts = match &self.content {
            Content::Json(rows) => rows.clone(),
            Content::Compact(_) => match self.message()? {
                Some(message) => texts(&message),
                None => Vec::new(),
            },
        };
        let row = |(offset, json)| StoredRow {
            source: self.key.source.clone(),
            epoch: self.key.opening.epoch,
            nonce: self.key.opening.nonce,
            offset: Offset(offset),
            json,
        };
        Ok((self.key.first.0..).zip(texts).map(row).collect())
    }

    fn is_of(&self, id: &MessageId) -> bool {
        let opening = (self.key.opening.epoch, self.key.opening.nonce);
        Source::of(id) == self.key.source
            && (id.epoch, id.nonce) == opening
            && id.first == self.key.first
    }

    fn bad(&self) -> BadRows {
        BadRows {
            key: self.key.to_bytes(),
            said: "no message of what the key names",
        }
    }
}

/// What the records of a message are as rows.
fn texts(message: &DataMessage) -> Vec<Vec<u8>> {
    match &message.body {
        DataBody::Missing(reason) => {
            let (first, last) = (message.id.first, message.id.last);
            vec![missing_row(*reason, first, last).into_bytes()]
        }
        DataBody::Readings { series, records } => {
            let text = |record| {
                let mut out = Vec::new();
                push_row(series, record, &mut out);
                out
            };
            records.iter().map(text).collect()
        }
        DataBody::Rows(rows) => rows.clone(),
    }
}

/// One row stands for all offsets that will never come, at the first of them.
#[must_use]
pub fn missing_row(reason: Missing, first: Offset, last: Offset) -> String {
    format!(
        "{{\"missing\":\"{}\",\"first_offset\":{},\"last_offset\":{}}}",
        missing_name(reason),
        first.0,
        last.0
    )
}

/// Of a row that stands for offsets that will never come: the offset after them, and
/// why.
fn missing_until(offset: Offset, row: &[u8]) -> Option<(Offset, Missing)> {
    if !row.starts_with(b"{\"missing\":") {
        return None;
    }
    let json: Value = serde_json::from_slice(row).ok()?;
    let known = ["missing", "first_offset", "last_offset"];
    let is_ours = json.as_object()?.keys().eq(known) && json["first_offset"] == offset.0;
    let last = json["last_offset"].as_u64().filter(|_| is_ours)?;
    let (reason, _) = MISSING.iter().find(|(_, name)| json["missing"] == *name)?;
    Some((Offset(last.checked_add(1)?), *reason))
}

/// The content of a group; `None` when bytes are missing at the end.
fn parse_group(bytes: &[u8]) -> Result<Option<Content>, &'static str> {
    let Some(([version, count @ ..], rest)) = bytes.split_first_chunk::<GROUP_HEAD_BYTES>() else {
        return Ok(None);
    };
    let count = u32::from_be_bytes(*count) as usize;
    match *version {
        GROUP_VERSION_1 => Ok(parse_rows(count, rest)?.map(Content::Json)),
        GROUP_VERSION if count > MESSAGE_BYTES_MAX => Err("more bytes than a message has"),
        GROUP_VERSION if rest.len() > count => Err("bytes behind the last row"),
        GROUP_VERSION if rest.len() < count => Ok(None),
        GROUP_VERSION => Ok(Some(Content::Compact(rest.to_vec()))),
        _ => Err("written by a newer version"),
    }
}

/// The rows of a group of version 1; `None` when bytes are missing at the end.
fn parse_rows(count: usize, mut bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>, &'static str> {
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
             \"partition\":{},\"epoch\":{},",
            partition.0, self.epoch.0
        );
        out.extend_from_slice(head.as_bytes());
        // Two disks of one log have openings of one number: only this tells them apart.
        if self.nonce.is_known() {
            out.extend_from_slice(format!("\"nonce\":\"{}\",", self.nonce).as_bytes());
        }
        out.extend_from_slice(format!("\"offset\":{},\"record\":", self.offset.0).as_bytes());
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
    use crate::upstream::run::Opening;

    /// What version 1 wrote.
    fn pieces(rows: &[&[u8]]) -> Vec<Vec<u8>> {
        let len = |n: usize| u32::try_from(n).unwrap();
        let mut group = vec![GROUP_VERSION_1];
        group.extend_from_slice(&len(rows.len()).to_be_bytes());
        for row in rows {
            group.extend_from_slice(&len(row.len()).to_be_bytes());
            group.extend_from_slice(row);
        }
        let values = group.chunks(STORE_VALUE_BYTES_MAX);
        values.map(<[u8]>::to_vec).collect()
    }

    fn key(first: u64, chunk: u16) -> RowKey {
        RowKey {
            source: Source {
                gateway: GatewayName::new("g").unwrap(),
                log_id: LogId([1; 16]),
                stream: StreamName::new("s").unwrap(),
                partition: PartitionId(2),
            },
            opening: Opening {
                epoch: Epoch(3),
                nonce: EpochNonce(4),
            },
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
            ("version", vec![3, 0, 0, 0, 0], "written by a newer version"),
            ("size", vec![2, 0, 4, 0, 1], "more bytes than a message has"),
            (
                "too much",
                vec![2, 0, 0, 0, 0, 9],
                "bytes behind the last row",
            ),
            ("cut short", vec![2, 0, 0, 0, 1], "the group is cut short"),
            (
                "no message",
                vec![2, 0, 0, 0, 1, 9],
                "no message of what the key names",
            ),
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
            nonce: EpochNonce(0xab),
            offset: Offset(4),
            json: b"{\"a\":1,\r\n\"b\":2}".to_vec(),
        };
        let mut line = Vec::new();
        row.push_line(&mut line);
        let id = "01".repeat(16);
        let want = format!(
            "{{\"gateway\":\"g\",\"log_id\":\"{id}\",\"stream\":\"s\",\"partition\":2,\
             \"epoch\":3,\"nonce\":\"00000000000000ab\",\"offset\":4,\"record\":{{\"a\":1,  \"b\":2}}}}"
        );
        assert_eq!(String::from_utf8(line).unwrap(), want);
    }

    fn message(first: u64, last: u64, rows: &[Vec<u8>]) -> DataMessage {
        let key = key(first, 0);
        DataMessage {
            id: MessageId {
                gateway: key.source.gateway,
                log_id: key.source.log_id,
                epoch: key.opening.epoch,
                nonce: key.opening.nonce,
                stream: key.source.stream,
                partition: key.source.partition,
                first: Offset(first),
                last: Offset(last),
            },
            body: DataBody::Rows(rows.to_vec()),
        }
    }

    fn group(first: u64, payload: &[u8]) -> Group {
        let mut reader = RowReader::default();
        let pieces = compact_pieces(payload);
        let mut groups = Vec::new();
        for (chunk, piece) in (0..).zip(&pieces) {
            assert!(piece.len() <= STORE_VALUE_BYTES_MAX);
            let key = key(first, chunk).to_bytes();
            groups.extend(reader.push_group(&key, piece).unwrap());
        }
        assert!(!reader.is_open() && groups.len() == 1);
        groups.remove(0)
    }

    #[test]
    fn a_compact_message_is_its_rows_and_its_extent() {
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(STORE_VALUE_BYTES_MAX - 200));
        let rows = vec![b"{\"a\":1}".to_vec(), long.into_bytes()];
        let whole = message(7, 8, &rows);
        let payloads = whole.to_compact(Offset(7), Offset(8));
        let mut seen = Vec::new();
        let mut first = 7;
        for payload in &payloads {
            let group = group(first, payload);
            let (extent, missing) = group.extent().unwrap();
            assert_eq!((extent.start(), missing), (Offset(first), None));
            first = extent.end().0;
            seen.extend(group.rows().unwrap());
        }
        let offsets: Vec<_> = seen.iter().map(|row| row.offset.0).collect();
        assert_eq!((first, offsets), (9, vec![7, 8]));
        assert!(seen.iter().map(|row| &row.json).eq(&rows));
        // Under another key it is refused.
        let mut reader = RowReader::default();
        let piece = compact_pieces(&payloads[0]).remove(0);
        let other = reader.push_group(&key(6, 0).to_bytes(), &piece).unwrap();
        let other = other.unwrap();
        assert!(other.rows().is_err() && other.extent().is_err());
    }

    #[test]
    fn what_will_never_come_is_one_row_in_both_versions() {
        let mut declared = message(7, 90, &[]);
        declared.body = DataBody::Missing(Missing::Expired);
        let payload = declared.to_compact(Offset(7), Offset(90)).remove(0);
        let json = b"{\"missing\":\"expired\",\"first_offset\":7,\"last_offset\":90}";
        let mut reader = RowReader::default();
        let old = pieces(&[json]).remove(0);
        let old = reader.push_group(&key(7, 0).to_bytes(), &old).unwrap();
        for group in [group(7, &payload), old.unwrap()] {
            let (extent, missing) = group.extent().unwrap();
            assert_eq!((extent.count(), missing), (84, Some(Missing::Expired)));
            let rows = group.rows().unwrap();
            assert_eq!((rows.len(), &rows[0].json[..]), (1, &json[..]));
        }
        let row = pieces(&[b"{\"missing\":7}", b"{}"]).remove(0);
        let row = reader.push_group(&key(7, 0).to_bytes(), &row).unwrap();
        let (extent, missing) = row.unwrap().extent().unwrap();
        assert_eq!((extent.count(), missing), (2, None));
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
