//! The compact payload: the identity, then a block of the log as it is stored. Byte
//! table: `agent/core/docs/payload.md`.
//!
//! Always holds: what is accepted has an intact block that holds all offsets of the
//! identity, of its epoch and partition. Bound: an envelope of ENVELOPE_BYTES_MAX and a
//! block of BLOCK_BYTES_MAX. Knows no topic.

use super::data::{DataBody, DataMessage, MessageId};
use super::json::{self, PayloadError, PayloadFault};
use super::names::{GatewayName, StreamName};
use crate::limits::{
    BLOCK_BYTES_MAX, CHANNEL_NAME_BYTES_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, UNIT_NAME_BYTES_MAX,
};
use crate::log::block::{Block, BlockError, Body, Row};
use crate::log::builder::{Full, ReadingsBuilder, RowsBuilder};
use crate::log::bytes::{Malformed, Reader, put_text};
use crate::log::decode::{decode, decode_head, self_key};
use crate::log::key::{StoredBlock, TopicPartition};
use crate::record::{Missing, Record, Series};
use crate::units::{Epoch, EpochNonce, EventTime, LogId, Offset, PartitionId, TopicId};

const MAGIC: &[u8; 3] = b"FBC";
const VERSION: u8 = 1;
/// Magic, version, kind, log id, epoch, nonce, partition, first and last offset, and
/// two names with their lengths.
const ENVELOPE_BYTES_MAX: usize = 3 + 1 + 1 + 16 + 4 + 8 + 2 + 8 + 8 + 2 * (1 + NAME_BYTES_MAX);
const _: () = assert!(ENVELOPE_BYTES_MAX + BLOCK_BYTES_MAX <= MESSAGE_BYTES_MAX);

/// Kind of a message that carries a block.
const KIND_BLOCK: u8 = 0;

/// Byte of a reason: append only.
fn kind_of(reason: Missing) -> u8 {
    match reason {
        Missing::Trimmed => 1,
        Missing::Lost => 2,
        Missing::Expired => 3,
        Missing::Refused => 4,
    }
}

fn reason_of(kind: u8) -> Option<Missing> {
    let reasons = crate::record::MISSING.iter();
    let mut reasons = reasons.map(|(reason, _)| *reason);
    reasons.find(|reason| kind_of(*reason) == kind)
}

/// A compact payload whose block is not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compact<'a> {
    pub id: MessageId,
    pub body: CompactBody<'a>,
}

/// What a compact payload carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactBody<'a> {
    /// Bytes of a block that should hold the offsets of the identity, and may hold more
    /// on both sides.
    Block(&'a [u8]),
    Missing(Missing),
}

/// Whether a payload says that it is compact.
#[must_use]
pub fn is_compact(payload: &[u8]) -> bool {
    payload.starts_with(MAGIC)
}

/// The payload of a part of a block, or of all of it.
pub(super) fn render(id: &MessageId, stored: &StoredBlock) -> Result<Vec<u8>, BlockError> {
    let head = decode_head(stored.key, &stored.bytes)?;
    assert!(
        head.base <= id.first && id.first <= id.last && id.last < head.end(),
        "offsets that the block does not hold"
    );
    let mut out = Vec::with_capacity(ENVELOPE_BYTES_MAX + stored.bytes.len());
    push_envelope(&mut out, id, KIND_BLOCK);
    let is_whole = id.first == head.base && id.last.0 + 1 == head.end().0;
    if !is_whole {
        let block = decode(stored.key, &stored.bytes)?;
        let part = build_part(&block, id);
        if let Some(part) = part.filter(|part| part.len() < stored.bytes.len()) {
            out.extend_from_slice(&part);
            return Ok(out);
        }
    }
    out.extend_from_slice(&stored.bytes);
    Ok(out)
}

/// The payload of a part of a block that is read; `None` when it does not fit one.
pub(super) fn render_block(id: &MessageId, block: &Block) -> Option<Vec<u8>> {
    let part = build_part(block, id)?;
    let mut out = Vec::with_capacity(ENVELOPE_BYTES_MAX + part.len());
    push_envelope(&mut out, id, KIND_BLOCK);
    out.extend_from_slice(&part);
    Some(out)
}

pub(super) fn render_missing(id: &MessageId, reason: Missing) -> Vec<u8> {
    let mut out = Vec::with_capacity(ENVELOPE_BYTES_MAX);
    push_envelope(&mut out, id, kind_of(reason));
    out
}

fn push_envelope(out: &mut Vec<u8>, id: &MessageId, kind: u8) {
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[VERSION, kind]);
    out.extend_from_slice(&id.log_id.0);
    out.extend_from_slice(&id.epoch.0.to_le_bytes());
    out.extend_from_slice(&id.nonce.0.to_le_bytes());
    out.extend_from_slice(&id.partition.0.to_le_bytes());
    out.extend_from_slice(&id.first.0.to_le_bytes());
    out.extend_from_slice(&id.last.0.to_le_bytes());
    put_text(out, id.gateway.as_str());
    put_text(out, id.stream.as_str());
}

/// The records of `id` as a block of their own; `None` when they do not fit one, which
/// the block that they come from does in a packed form.
fn build_part(block: &Block, id: &MessageId) -> Option<Vec<u8>> {
    let index = |offset: Offset| (offset.0 - block.base.0) as usize;
    let range = index(id.first)..=index(id.last);
    match &block.body {
        Body::Readings { series, records } => {
            let mut builder = ReadingsBuilder::new();
            let mut records = records[range].iter();
            let pushed = records.try_for_each(|record| push_record(&mut builder, series, record));
            pushed.ok()?;
            Some(builder.seal(block.at, id.first, id.epoch))
        }
        Body::Rows(rows) => {
            let mut builder = RowsBuilder::default();
            let pushed = rows[range].iter().try_for_each(|row| builder.push(row));
            pushed.ok()?;
            Some(builder.seal(block.at, id.first, id.epoch))
        }
    }
}

fn push_record(
    builder: &mut ReadingsBuilder,
    series: &[Series],
    record: &Record,
) -> Result<(), Full> {
    match record {
        Record::Reading(reading) => {
            builder.push_reading(&series[usize::from(reading.series)], reading)
        }
        Record::Gap(gap) => builder.push_gap(gap),
        Record::Clock(clock) => builder.push_clock(clock),
        Record::Tables(tables) => builder.push_tables(tables),
    }
}

impl DataMessage {
    /// The records `first..=last` of the message as compact payloads, each with the
    /// identity of its part: mostly one, more where they do not fit one block.
    ///
    /// # Panics
    /// When the message does not hold these offsets.
    #[must_use]
    pub fn to_compact(&self, first: Offset, last: Offset) -> Vec<Vec<u8>> {
        let id = &self.id;
        assert!(
            id.first <= first && first <= last && last <= id.last,
            "offsets that the message does not hold"
        );
        let range = (first.0 - id.first.0) as usize..=(last.0 - id.first.0) as usize;
        let parts = Parts {
            id,
            next: first,
            out: Vec::new(),
        };
        match &self.body {
            DataBody::Missing(reason) => {
                let id = MessageId {
                    first,
                    last,
                    ..id.clone()
                };
                vec![render_missing(&id, *reason)]
            }
            DataBody::Readings { series, records } => {
                let mut builder = ReadingsBuilder::new();
                parts.of(
                    &records[range],
                    &mut builder,
                    |builder, record| push_record(builder, series, record),
                    ReadingsBuilder::len,
                    ReadingsBuilder::seal,
                )
            }
            DataBody::Rows(rows) => {
                let mut builder = RowsBuilder::default();
                let push = |builder: &mut RowsBuilder, line: &Vec<u8>| {
                    builder.push(&Row {
                        time: EventTime(0),
                        line: line.clone(),
                    })
                };
                let rows = &rows[range];
                parts.of(
                    rows,
                    &mut builder,
                    push,
                    RowsBuilder::len,
                    RowsBuilder::seal,
                )
            }
        }
    }
}

/// Payloads of a message that is cut where a block is full.
struct Parts<'a> {
    id: &'a MessageId,
    next: Offset,
    out: Vec<Vec<u8>>,
}

impl Parts<'_> {
    fn of<B, T>(
        mut self,
        items: &[T],
        builder: &mut B,
        push: impl Fn(&mut B, &T) -> Result<(), Full>,
        len: impl Fn(&B) -> usize,
        seal: impl Fn(&mut B, TopicPartition, Offset, Epoch) -> Vec<u8>,
    ) -> Vec<Vec<u8>> {
        let at = TopicPartition {
            topic: TopicId(0),
            partition: self.id.partition,
        };
        for item in items {
            if push(builder, item).is_err() {
                let count = len(builder);
                let block = seal(builder, at, self.next, self.id.epoch);
                self.add(count, &block);
                push(builder, item).expect("a record that was accepted fits an empty block");
            }
        }
        let count = len(builder);
        let block = seal(builder, at, self.next, self.id.epoch);
        self.add(count, &block);
        self.out
    }

    fn add(&mut self, count: usize, block: &[u8]) {
        let end = Offset(self.next.0 + count as u64);
        let id = MessageId {
            first: self.next,
            last: Offset(end.0 - 1),
            ..self.id.clone()
        };
        let mut payload = Vec::with_capacity(ENVELOPE_BYTES_MAX + block.len());
        push_envelope(&mut payload, &id, KIND_BLOCK);
        payload.extend_from_slice(block);
        self.out.push(payload);
        self.next = end;
    }
}

fn fail<T>(position: usize, fault: PayloadFault) -> Result<T, PayloadError> {
    Err(PayloadError { position, fault })
}

impl<'a> Compact<'a> {
    /// Reads the envelope and checks that the block holds what it says, with the
    /// block's CRC; its records are not read.
    ///
    /// # Errors
    /// With the byte where it stopped.
    pub fn open(payload: &'a [u8]) -> Result<Self, PayloadError> {
        if !is_compact(payload) {
            return fail(0, PayloadFault::Expected("a compact payload"));
        }
        match payload.get(MAGIC.len()) {
            Some(&VERSION) => {}
            Some(&found) => {
                let found = u64::from(found);
                return fail(MAGIC.len(), PayloadFault::Version { found });
            }
            None => return fail(MAGIC.len(), PayloadFault::Expected("a version")),
        }
        let mut reader = Reader::new(payload);
        let (id, kind) = read_envelope(&mut reader).map_err(|Malformed { position }| {
            let fault = PayloadFault::Expected("the identity of a message");
            PayloadError { position, fault }
        })?;
        let at = payload.len() - reader.remaining();
        let rest = &payload[at..];
        if id.first > id.last || id.last.0 == u64::MAX {
            return fail(at, PayloadFault::Value("last_offset"));
        }
        let body = if kind == KIND_BLOCK {
            check_block(&id, at, rest)?;
            CompactBody::Block(rest)
        } else {
            let Some(reason) = reason_of(kind) else {
                return fail(MAGIC.len() + 1, PayloadFault::Value("kind"));
            };
            if !rest.is_empty() {
                return fail(at, PayloadFault::Expected("the end"));
            }
            CompactBody::Missing(reason)
        };
        Ok(Self { id, body })
    }
}

fn check_block(id: &MessageId, at: usize, bytes: &[u8]) -> Result<(), PayloadError> {
    let Some((key, _)) = self_key(bytes) else {
        return fail(at, PayloadFault::Expected("a block"));
    };
    let head = decode_head(key, bytes).map_err(|error| block_error(at, error))?;
    let agrees = head.epoch == id.epoch
        && key.at.partition == id.partition
        && head.base <= id.first
        && id.last < head.end();
    if agrees {
        Ok(())
    } else {
        fail(
            at,
            PayloadFault::Expected("a block of what the envelope names"),
        )
    }
}

fn block_error(at: usize, error: BlockError) -> PayloadError {
    PayloadError {
        position: at,
        fault: PayloadFault::Block(error.fault),
    }
}

fn read_envelope(reader: &mut Reader<'_>) -> Result<(MessageId, u8), Malformed> {
    reader.take(MAGIC.len() + 1)?;
    let kind = reader.byte()?;
    let log_id = LogId(reader.array()?);
    let epoch = Epoch(u32::from_le_bytes(reader.array()?));
    let nonce = EpochNonce(u64::from_le_bytes(reader.array()?));
    let partition = PartitionId(u16::from_le_bytes(reader.array()?));
    let first = Offset(u64::from_le_bytes(reader.array()?));
    let last = Offset(u64::from_le_bytes(reader.array()?));
    let gateway = GatewayName::new(reader.text()?).map_err(|_| reader.malformed())?;
    let stream = StreamName::new(reader.text()?).map_err(|_| reader.malformed())?;
    let id = MessageId {
        gateway,
        log_id,
        epoch,
        nonce,
        stream,
        partition,
        first,
        last,
    };
    Ok((id, kind))
}

/// Reads a compact payload with its records.
pub(super) fn parse(payload: &[u8]) -> Result<DataMessage, PayloadError> {
    let Compact { id, body } = Compact::open(payload)?;
    let bytes = match body {
        CompactBody::Missing(reason) => {
            let body = DataBody::Missing(reason);
            return Ok(DataMessage { id, body });
        }
        CompactBody::Block(bytes) => bytes,
    };
    let at = payload.len() - bytes.len();
    let Some((key, _)) = self_key(bytes) else {
        return fail(at, PayloadFault::Expected("a block"));
    };
    let block = decode(key, bytes).map_err(|error| block_error(at, error))?;
    let index = |offset: Offset| (offset.0 - block.base.0) as usize;
    let (first, end) = (index(id.first), index(id.last) + 1);
    let body = match block.body {
        Body::Readings {
            series,
            mut records,
        } => {
            if !series.iter().all(is_named) {
                return fail(at, PayloadFault::Value("channel"));
            }
            cut(&mut records, first, end);
            DataBody::Readings { series, records }
        }
        Body::Rows(mut rows) => {
            cut(&mut rows, first, end);
            let rows: Vec<_> = rows.into_iter().map(|row| row.line).collect();
            if !rows.iter().all(|row| is_object(row)) {
                return fail(at, PayloadFault::Value("records"));
            }
            DataBody::Rows(rows)
        }
    };
    Ok(DataMessage { id, body })
}

/// Names as long as those that any other format may have.
fn is_named(series: &Series) -> bool {
    series.name.len() <= CHANNEL_NAME_BYTES_MAX && series.unit.len() <= UNIT_NAME_BYTES_MAX
}

/// A sink takes JSON objects only, and the block knows nothing of it.
fn is_object(row: &[u8]) -> bool {
    let read = || {
        let mut reader = json::Reader::new(row, MESSAGE_BYTES_MAX)?;
        reader.raw_object()?;
        reader.end()
    };
    read().is_ok()
}

fn cut<T>(items: &mut Vec<T>, first: usize, end: usize) {
    items.truncate(end);
    items.drain(..first);
}
