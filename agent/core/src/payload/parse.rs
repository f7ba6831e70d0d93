//! Reading of JSON data messages.
//!
//! Always holds: what is accepted has as many records as its offsets say, or none at
//! all where it says that they are missing, a value exactly where the quality is ok, and
//! a series for each reading. Bound: MESSAGE_BYTES_MAX, BLOCK_RECORDS_MAX and
//! SERIES_PER_BLOCK_MAX, checked before memory is taken. No text is made per record.

use super::control;
use super::data::{DataBody, DataMessage, MessageId};
use super::json::{PayloadError, PayloadFault, Reader, need, set};
use super::names::{GatewayName, StreamName};
use super::parse_record::RecordParts;
use super::parse_series::parse_series;
use crate::limits::{BLOCK_RECORDS_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, ROW_BYTES_MAX};
use crate::record::{MISSING, Missing, Record, Series};
use crate::units::{Epoch, EpochNonce, LogId, Offset, PartitionId};

/// Reads a payload. Unknown keys are passed over: they come from a newer gateway that
/// says something more.
pub(super) fn parse(payload: &[u8]) -> Result<DataMessage, PayloadError> {
    let mut reader = Reader::new(payload, MESSAGE_BYTES_MAX)?;
    let mut envelope = Envelope::default();
    reader.object(|reader, key| envelope.member(reader, key))?;
    reader.end()?;
    envelope.finish(&reader)
}

pub(super) fn named<T: Copy>(
    reader: &mut Reader<'_>,
    names: &[(T, &str)],
    key: &'static str,
) -> Result<T, PayloadError> {
    let text = reader.string(NAME_BYTES_MAX)?;
    let known = names.iter().find(|(_, name)| *name == text);
    known
        .map(|(value, _)| *value)
        .ok_or_else(|| reader.value_error(key))
}

/// What a message carries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Readings,
    Rows,
    Missing,
}

const KINDS: [(Kind, &str); 3] = [
    (Kind::Readings, "readings"),
    (Kind::Rows, "rows"),
    (Kind::Missing, "missing"),
];

/// What `records` holds.
enum Records {
    Readings(Vec<Record>),
    Rows(Vec<Vec<u8>>),
}

/// Keys of the outer object as they come.
#[derive(Default)]
struct Envelope {
    version: Option<()>,
    gateway: Option<GatewayName>,
    log_id: Option<LogId>,
    epoch: Option<Epoch>,
    nonce: Option<EpochNonce>,
    stream: Option<StreamName>,
    partition: Option<PartitionId>,
    first: Option<Offset>,
    last: Option<Offset>,
    kind: Option<Kind>,
    reason: Option<Missing>,
    series: Option<(Vec<Series>, Vec<u32>)>,
    records: Option<Records>,
}

impl Envelope {
    fn member(&mut self, reader: &mut Reader<'_>, key: &str) -> Result<(), PayloadError> {
        match key {
            "v" => {
                control::version(reader, super::PAYLOAD_VERSION)?;
                set(reader, &mut self.version, "v", ())
            }
            "gateway" => {
                let name = control::gateway(reader)?;
                set(reader, &mut self.gateway, "gateway", name)
            }
            "log_id" => {
                let id = control::log_id(reader)?;
                set(reader, &mut self.log_id, "log_id", id)
            }
            "epoch" => {
                let epoch = control::epoch(reader)?;
                set(reader, &mut self.epoch, "epoch", epoch)
            }
            "nonce" => {
                let nonce = control::nonce(reader)?;
                set(reader, &mut self.nonce, "nonce", nonce)
            }
            "stream" => {
                let name = control::stream(reader)?;
                set(reader, &mut self.stream, "stream", name)
            }
            "partition" => {
                let partition = control::partition(reader)?;
                set(reader, &mut self.partition, "partition", partition)
            }
            "first_offset" => {
                let offset = Offset(reader.unsigned(u64::MAX, "first_offset")?);
                set(reader, &mut self.first, "first_offset", offset)
            }
            "last_offset" => {
                // One less than the largest, so that the end has a number too.
                let offset = Offset(reader.unsigned(u64::MAX - 1, "last_offset")?);
                set(reader, &mut self.last, "last_offset", offset)
            }
            "kind" => {
                let kind = named(reader, &KINDS, "kind")?;
                set(reader, &mut self.kind, "kind", kind)
            }
            "reason" if self.kind == Some(Kind::Missing) => {
                let reason = named(reader, &MISSING, "reason")?;
                set(reader, &mut self.reason, "reason", reason)
            }
            "series" if self.kind == Some(Kind::Readings) => {
                let series = parse_series(reader)?;
                set(reader, &mut self.series, "series", series)
            }
            "records" => self.records(reader),
            _ => reader.skip_value(),
        }
    }

    fn records(&mut self, reader: &mut Reader<'_>) -> Result<(), PayloadError> {
        let records = match need(reader, self.kind, "kind")? {
            Kind::Readings => {
                let (series, said) = self
                    .series
                    .as_mut()
                    .ok_or_else(|| reader.error(PayloadFault::Missing("series")))?;
                Records::Readings(parse_readings(reader, series, said)?)
            }
            Kind::Rows => Records::Rows(parse_rows(reader)?),
            Kind::Missing => return Err(reader.value_error("records")),
        };
        set(reader, &mut self.records, "records", records)
    }

    fn finish(self, reader: &Reader<'_>) -> Result<DataMessage, PayloadError> {
        need(reader, self.version, "v")?;
        let first = need(reader, self.first, "first_offset")?;
        let last = need(reader, self.last, "last_offset")?;
        let body = match need(reader, self.kind, "kind")? {
            Kind::Readings | Kind::Rows => match need(reader, self.records, "records")? {
                Records::Rows(rows) => DataBody::Rows(rows),
                Records::Readings(records) => DataBody::Readings {
                    series: need(reader, self.series, "series")?.0,
                    records,
                },
            },
            Kind::Missing => DataBody::Missing(need(reader, self.reason, "reason")?),
        };
        let span = last.0.checked_sub(first.0);
        let agrees = match body.records() {
            Some(count) => count > 0 && span == Some(count as u64 - 1),
            None => span.is_some(),
        };
        if !agrees {
            return Err(reader.value_error("last_offset"));
        }
        let id = MessageId {
            gateway: need(reader, self.gateway, "gateway")?,
            log_id: need(reader, self.log_id, "log_id")?,
            epoch: need(reader, self.epoch, "epoch")?,
            nonce: self.nonce.unwrap_or_default(),
            stream: need(reader, self.stream, "stream")?,
            partition: need(reader, self.partition, "partition")?,
            first,
            last,
        };
        Ok(DataMessage { id, body })
    }
}

fn check_count(reader: &Reader<'_>, count: usize) -> Result<(), PayloadError> {
    at_most(reader, count, BLOCK_RECORDS_MAX)
}

/// Whether one more than `count` is allowed.
pub(super) fn at_most(
    reader: &Reader<'_>,
    count: usize,
    count_max: usize,
) -> Result<(), PayloadError> {
    if count < count_max {
        return Ok(());
    }
    Err(reader.error(PayloadFault::TooLarge {
        bytes: count + 1,
        bytes_max: count_max,
    }))
}

fn parse_rows(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, PayloadError> {
    let mut rows = Vec::new();
    reader.array(|reader| {
        check_count(reader, rows.len())?;
        let row = reader.raw_object()?;
        at_most(reader, row.len().saturating_sub(1), ROW_BYTES_MAX)?;
        rows.push(row.to_vec());
        Ok(())
    })?;
    Ok(rows)
}

fn parse_readings(
    reader: &mut Reader<'_>,
    series: &[Series],
    said: &mut [u32],
) -> Result<Vec<Record>, PayloadError> {
    let mut records = Vec::new();
    reader.array(|reader| {
        check_count(reader, records.len())?;
        let mut parts = RecordParts::default();
        reader.object(|reader, key| parts.member(reader, key))?;
        records.push(parts.finish(reader, series, said)?);
        Ok(())
    })?;
    Ok(records)
}
