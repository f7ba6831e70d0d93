//! Reading of data messages.
//!
//! Always holds: what is accepted has as many records as its offsets say, or none at
//! all where it says that they are missing, and a value exactly where the quality is ok. Bound: MESSAGE_BYTES_MAX and
//! BLOCK_RECORDS_MAX, checked before memory is taken.

use forebay_wire::ids::{BootId, DeviceUid, Ordinal};
use forebay_wire::limits::SCALE_MAX;
use forebay_wire::message::Quality;

use super::control;
use super::data::{DataBody, DataGap, DataMessage, DataReading, DataRecord, Figure, MessageId};
use super::json::{PayloadError, PayloadFault, Reader, need, set};
use super::names::{GatewayName, StreamName};
use crate::limits::{
    BLOCK_RECORDS_MAX, CHANNEL_NAME_BYTES_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX,
    UNIT_NAME_BYTES_MAX,
};
use crate::record::{
    ClockRecord, ClockTrust, GAPS, GapReason, MISSING, Missing, QUALITIES, SCALED_VALUE_MAX,
    ValueKind,
};
use crate::units::{Epoch, EventTime, LogId, Offset, PartitionId, Span};
use crate::utc;

impl DataMessage {
    /// Reads a payload. Unknown keys are passed over: they come from a newer
    /// gateway that says something more.
    ///
    /// # Errors
    /// With the byte where it stopped, when it is no data message, too large,
    /// of a newer version, or when offsets and records do not agree.
    pub fn parse(payload: &[u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader::new(payload, MESSAGE_BYTES_MAX)?;
        let mut envelope = Envelope::default();
        reader.object(|reader, key| envelope.member(reader, key))?;
        reader.end()?;
        envelope.finish(&reader)
    }
}

fn named<T: Copy>(
    reader: &mut Reader<'_>,
    names: &[(T, &str)],
    key: &'static str,
) -> Result<T, PayloadError> {
    let text = reader.text(NAME_BYTES_MAX)?;
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

/// Keys of the outer object as they come.
#[derive(Default)]
struct Envelope {
    version: Option<()>,
    gateway: Option<GatewayName>,
    log_id: Option<LogId>,
    epoch: Option<Epoch>,
    stream: Option<StreamName>,
    partition: Option<PartitionId>,
    first: Option<Offset>,
    last: Option<Offset>,
    kind: Option<Kind>,
    reason: Option<Missing>,
    body: Option<DataBody>,
}

impl Envelope {
    fn member(&mut self, reader: &mut Reader<'_>, key: &str) -> Result<(), PayloadError> {
        match key {
            "v" => {
                control::version(reader)?;
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
            "records" => {
                let body = match need(reader, self.kind, "kind")? {
                    Kind::Readings => parse_readings(reader)?,
                    Kind::Rows => parse_rows(reader)?,
                    Kind::Missing => return Err(reader.value_error("records")),
                };
                set(reader, &mut self.body, "records", body)
            }
            _ => reader.skip_value(),
        }
    }

    fn finish(self, reader: &Reader<'_>) -> Result<DataMessage, PayloadError> {
        need(reader, self.version, "v")?;
        let first = need(reader, self.first, "first_offset")?;
        let last = need(reader, self.last, "last_offset")?;
        let body = match need(reader, self.kind, "kind")? {
            Kind::Readings | Kind::Rows => need(reader, self.body, "records")?,
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
            stream: need(reader, self.stream, "stream")?,
            partition: need(reader, self.partition, "partition")?,
            first,
            last,
        };
        Ok(DataMessage { id, body })
    }
}

fn check_count(reader: &Reader<'_>, count: usize) -> Result<(), PayloadError> {
    if count < BLOCK_RECORDS_MAX {
        return Ok(());
    }
    Err(reader.error(PayloadFault::TooLarge {
        bytes: count + 1,
        bytes_max: BLOCK_RECORDS_MAX,
    }))
}

fn parse_rows(reader: &mut Reader<'_>) -> Result<DataBody, PayloadError> {
    let mut rows = Vec::new();
    reader.array(|reader| {
        check_count(reader, rows.len())?;
        rows.push(reader.raw_object()?.to_vec());
        Ok(())
    })?;
    Ok(DataBody::Rows(rows))
}

fn parse_readings(reader: &mut Reader<'_>) -> Result<DataBody, PayloadError> {
    let mut records = Vec::new();
    reader.array(|reader| {
        check_count(reader, records.len())?;
        let mut parts = RecordParts::default();
        reader.object(|reader, key| parts.member(reader, key))?;
        records.push(parts.finish(reader)?);
        Ok(())
    })?;
    Ok(DataBody::Readings(records))
}

/// What a record says of the clock, where `step_us` may say more.
const CLOCKS: [(ClockTrust, &str); 3] = [
    (ClockTrust::No, "untrusted"),
    (ClockTrust::Yes, "trusted"),
    (ClockTrust::Since(Span(0)), "corrected"),
];

/// Keys of a reading, a gap or a clock as they come.
#[derive(Default)]
struct RecordParts {
    clock: Option<ClockTrust>,
    step: Option<Span>,
    gap: Option<GapReason>,
    device: Option<DeviceUid>,
    boot: Option<BootId>,
    ordinal: Option<Ordinal>,
    first: Option<Ordinal>,
    count: Option<u64>,
    channel: Option<String>,
    time: Option<EventTime>,
    value: Option<Option<Figure>>,
    unit: Option<String>,
    quality: Option<Quality>,
    unsynced: Option<bool>,
}

impl RecordParts {
    fn member(&mut self, reader: &mut Reader<'_>, key: &str) -> Result<(), PayloadError> {
        match key {
            "clock" => {
                let trust = named(reader, &CLOCKS, "clock")?;
                set(reader, &mut self.clock, "clock", trust)
            }
            "step_us" => {
                let step = reader.number()?.parse().map(Span);
                let step = step.map_err(|_| reader.value_error("step_us"))?;
                set(reader, &mut self.step, "step_us", step)
            }
            "unsynced" => {
                let unsynced = reader.boolean()?;
                set(reader, &mut self.unsynced, "unsynced", unsynced)
            }
            "gap" => {
                let reason = named(reader, &GAPS, "gap")?;
                set(reader, &mut self.gap, "gap", reason)
            }
            "device" => {
                let uid = control::hex(reader, "device").map(DeviceUid)?;
                set(reader, &mut self.device, "device", uid)
            }
            "boot" => {
                let boot = reader.unsigned(u64::from(u32::MAX), "boot")?;
                let boot = u32::try_from(boot).map_err(|_| reader.value_error("boot"))?;
                set(reader, &mut self.boot, "boot", BootId(boot))
            }
            "ordinal" => {
                let ordinal = Ordinal(reader.unsigned(u64::MAX, "ordinal")?);
                set(reader, &mut self.ordinal, "ordinal", ordinal)
            }
            "first_ordinal" => {
                let ordinal = Ordinal(reader.unsigned(u64::MAX, "first_ordinal")?);
                set(reader, &mut self.first, "first_ordinal", ordinal)
            }
            "count" => {
                let count = reader.unsigned(u64::MAX, "count")?;
                set(reader, &mut self.count, "count", count)
            }
            "channel" => {
                let text = reader.text(CHANNEL_NAME_BYTES_MAX)?;
                set(reader, &mut self.channel, "channel", text)
            }
            "time" => {
                let time = read_time(reader)?;
                set(reader, &mut self.time, "time", time)
            }
            "value" => {
                let value = read_value(reader)?;
                set(reader, &mut self.value, "value", value)
            }
            "unit" => {
                let text = reader.text(UNIT_NAME_BYTES_MAX)?;
                set(reader, &mut self.unit, "unit", text)
            }
            "quality" => {
                let quality = named(reader, &QUALITIES, "quality")?;
                set(reader, &mut self.quality, "quality", quality)
            }
            _ => reader.skip_value(),
        }
    }

    fn finish(self, reader: &Reader<'_>) -> Result<DataRecord, PayloadError> {
        if let Some(trust) = self.clock {
            let trust = match trust {
                ClockTrust::No | ClockTrust::Yes => trust,
                ClockTrust::Since(_) => ClockTrust::Since(need(reader, self.step, "step_us")?),
            };
            let now = need(reader, self.time, "time")?;
            return Ok(DataRecord::Clock(ClockRecord { now, trust }));
        }
        let device = need(reader, self.device, "device")?;
        let boot = need(reader, self.boot, "boot")?;
        let time = need(reader, self.time, "time")?;
        if let Some(reason) = self.gap {
            let first = need(reader, self.first, "first_ordinal")?;
            let count = need(reader, self.count, "count")?;
            return Ok(DataRecord::Gap(DataGap {
                reason,
                device,
                boot,
                first,
                count,
                time,
            }));
        }
        let value = need(reader, self.value, "value")?;
        let quality = self.quality.unwrap_or_default();
        if value.is_some() != (quality == Quality::Ok) {
            return Err(reader.value_error("value"));
        }
        Ok(DataRecord::Reading(DataReading {
            device,
            boot,
            ordinal: need(reader, self.ordinal, "ordinal")?,
            channel: need(reader, self.channel, "channel")?,
            time,
            value,
            unit: need(reader, self.unit, "unit")?,
            quality,
            unsynced: self.unsynced.unwrap_or(false),
        }))
    }
}

fn read_time(reader: &mut Reader<'_>) -> Result<EventTime, PayloadError> {
    if reader.at_text() {
        let text = reader.text(NAME_BYTES_MAX)?;
        return utc::parse(&text).ok_or_else(|| reader.value_error("time"));
    }
    let micros = reader.number()?.parse();
    micros
        .map(EventTime)
        .map_err(|_| reader.value_error("time"))
}

fn read_value(reader: &mut Reader<'_>) -> Result<Option<Figure>, PayloadError> {
    if reader.null()? {
        return Ok(None);
    }
    let figure = parse_figure(reader.number()?);
    figure.map(Some).ok_or_else(|| reader.value_error("value"))
}

/// What the text says, in the kind that is written as this text again. A double
/// with few decimals reads as a scaled value: the same number, the same text.
fn parse_figure(text: &str) -> Option<Figure> {
    parse_scaled(text).or_else(|| Figure::double(text.parse().ok()?))
}

fn parse_scaled(text: &str) -> Option<Figure> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let scale = u8::try_from(decimals.len())
        .ok()
        .filter(|&scale| scale <= SCALE_MAX)?;
    let value: i64 = format!("{whole}{decimals}").parse().ok()?;
    // An integer has no minus zero, a double has.
    if value == 0 && text.starts_with('-') {
        return None;
    }
    let kind = ValueKind::Scaled { scale };
    (value.unsigned_abs() <= SCALED_VALUE_MAX).then_some(Figure { value, kind })
}
