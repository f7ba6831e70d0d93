//! The JSON payload of one block: what it says, and how it is written.
//!
//! Always holds: `render` of equal blocks gives equal bytes, and `parse` of
//! what `render` gave says the same as the block. Bound: MESSAGE_BYTES_MAX, as
//! asserted in limits.rs. Knows no topic.

use forebay_wire::ids::{BootId, DeviceUid, Ordinal};
use forebay_wire::message::Quality;

use super::PAYLOAD_VERSION;
use super::json::{push_args, push_text};
use super::names::{GatewayName, StreamName};
use crate::log::block::{Block, Body, GapRecord, ReadingRecord, Record, Series, ValueKind};
pub use crate::record::Figure;
use crate::record::{
    ClockRecord, ClockTrust, GapReason, Missing, gap_name, missing_name, quality_name, trust_name,
};
use crate::units::{Epoch, EventTime, LogId, Offset, PartitionId};
use crate::utc;

/// Identity of what is sent. Never less: a wiped disk, a restored backup or a
/// lost tail would make new data look like old.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    pub gateway: GatewayName,
    pub log_id: LogId,
    /// Opening of the log in which the block was written.
    pub epoch: Epoch,
    pub stream: StreamName,
    pub partition: PartitionId,
    /// Offset of the first record.
    pub first: Offset,
    /// Offset of the last record, itself included.
    pub last: Offset,
}

/// One reading as the upstream sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataReading {
    pub device: DeviceUid,
    pub boot: BootId,
    pub ordinal: Ordinal,
    pub channel: String,
    pub time: EventTime,
    /// `None` when `quality` is not ok.
    pub value: Option<Figure>,
    pub unit: String,
    pub quality: Quality,
    /// Its time comes from a clock that was not trusted.
    pub unsynced: bool,
}

/// Readings that will never come, as the upstream sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataGap {
    pub reason: GapReason,
    pub device: DeviceUid,
    pub boot: BootId,
    pub first: Ordinal,
    pub count: u64,
    pub time: EventTime,
}

/// A record of a readings stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataRecord {
    Reading(DataReading),
    Gap(DataGap),
    Clock(ClockRecord),
}

/// What the message carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataBody {
    Readings(Vec<DataRecord>),
    /// JSON objects as the gateway's engine wrote them.
    Rows(Vec<Vec<u8>>),
    /// Nothing: no record of these offsets will ever come.
    Missing(Missing),
}

impl DataBody {
    /// Records that it has; `None` when it says that there are none.
    #[must_use]
    pub fn records(&self) -> Option<usize> {
        match self {
            Self::Readings(records) => Some(records.len()),
            Self::Rows(rows) => Some(rows.len()),
            Self::Missing(_) => None,
        }
    }
}

/// A data message as read by the upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataMessage {
    pub id: MessageId,
    pub body: DataBody,
}

impl MessageId {
    /// Identity of `block`, which holds at least one record.
    #[must_use]
    pub fn of(gateway: &GatewayName, log_id: LogId, stream: &StreamName, block: &Block) -> Self {
        assert!(!block.body.is_empty(), "a block without records");
        Self {
            gateway: gateway.clone(),
            log_id,
            epoch: block.epoch,
            stream: stream.clone(),
            partition: block.at.partition,
            first: block.base,
            last: Offset(block.end().0 - 1),
        }
    }

    /// The identity as MQTT user properties, for those that route without
    /// reading payloads. `replayed` marks what is sent again or late.
    #[must_use]
    pub fn user_properties(&self, replayed: bool) -> Vec<(String, String)> {
        let pair = |key: &str, value: String| (key.to_owned(), value);
        vec![
            pair("v", PAYLOAD_VERSION.to_string()),
            pair("gateway", self.gateway.to_string()),
            pair("log_id", self.log_id.to_string()),
            pair("epoch", self.epoch.0.to_string()),
            pair("first_offset", self.first.0.to_string()),
            pair("last_offset", self.last.0.to_string()),
            pair("replayed", replayed.to_string()),
        ]
    }
}

impl DataMessage {
    /// The payload of `block`, whose identity is `id`.
    #[must_use]
    pub fn render(id: &MessageId, block: &Block) -> Vec<u8> {
        let mut out = String::with_capacity(256 + 200 * block.body.len());
        push_envelope(&mut out, id);
        match &block.body {
            Body::Readings { series, records } => {
                out.push_str(",\"kind\":\"readings\",\"records\":[");
                push_list(&mut out, records, |out, record| match record {
                    Record::Reading(reading) => {
                        ReadingText::of_log(reading, &series[usize::from(reading.series)])
                            .push(out);
                    }
                    Record::Gap(gap) => push_gap(out, gap),
                    Record::Clock(clock) => push_clock(out, clock),
                });
            }
            Body::Rows(rows) => {
                out.push_str(",\"kind\":\"rows\",\"records\":[");
                // Rows are the engine's own text: UTF-8, or nobody could read them.
                push_list(&mut out, rows, |out, row| {
                    out.push_str(&String::from_utf8_lossy(&row.line));
                });
            }
        }
        out.push_str("]}");
        out.into_bytes()
    }

    /// The payload that says that the offsets of `id` will never come.
    #[must_use]
    pub fn render_missing(id: &MessageId, reason: Missing) -> Vec<u8> {
        let mut out = String::new();
        push_envelope(&mut out, id);
        let reason = missing_name(reason);
        push_args(
            &mut out,
            format_args!(",\"kind\":\"missing\",\"reason\":\"{reason}\"}}"),
        );
        out.into_bytes()
    }
}

/// The members before the kind, with the brace that opens the object.
fn push_envelope(out: &mut String, id: &MessageId) {
    push_args(
        out,
        format_args!("{{\"v\":{PAYLOAD_VERSION},\"gateway\":\"{}\"", id.gateway),
    );
    push_args(
        out,
        format_args!(",\"log_id\":\"{}\",\"epoch\":{}", id.log_id, id.epoch.0),
    );
    push_args(out, format_args!(",\"stream\":\"{}\"", id.stream));
    push_args(out, format_args!(",\"partition\":{}", id.partition.0));
    push_args(out, format_args!(",\"first_offset\":{}", id.first.0));
    push_args(out, format_args!(",\"last_offset\":{}", id.last.0));
}

fn push_list<T>(out: &mut String, items: &[T], push: impl Fn(&mut String, &T)) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        push(out, item);
    }
}

/// What a reading says, wherever it comes from.
struct ReadingText<'a> {
    device: DeviceUid,
    boot: BootId,
    ordinal: Ordinal,
    channel: &'a str,
    time: EventTime,
    value: Option<Figure>,
    unit: &'a str,
    quality: Quality,
    unsynced: bool,
}

impl<'a> ReadingText<'a> {
    fn of_log(reading: &ReadingRecord, series: &'a Series) -> Self {
        let figure = Figure {
            value: reading.value,
            kind: series.kind,
        };
        Self {
            device: series.uid,
            boot: series.boot,
            ordinal: reading.ordinal,
            channel: &series.name,
            time: reading.time,
            value: (reading.quality == Quality::Ok).then_some(figure),
            unit: &series.unit,
            quality: reading.quality,
            unsynced: reading.is_unsynced(),
        }
    }

    fn of_data(reading: &'a DataReading) -> Self {
        Self {
            device: reading.device,
            boot: reading.boot,
            ordinal: reading.ordinal,
            channel: &reading.channel,
            time: reading.time,
            value: reading.value,
            unit: &reading.unit,
            quality: reading.quality,
            unsynced: reading.unsynced,
        }
    }

    fn push(&self, out: &mut String) {
        push_args(
            out,
            format_args!("{{\"device\":\"{}\",\"boot\":{}", self.device, self.boot.0),
        );
        push_args(
            out,
            format_args!(",\"ordinal\":{},\"channel\":", self.ordinal.0),
        );
        push_text(out, self.channel);
        push_time_member(out, self.time);
        out.push_str(",\"value\":");
        match self.value {
            Some(figure) => push_figure(out, figure),
            None => out.push_str("null"),
        }
        out.push_str(",\"unit\":");
        push_text(out, self.unit);
        if self.quality != Quality::Ok {
            push_args(
                out,
                format_args!(",\"quality\":\"{}\"", quality_name(self.quality)),
            );
        }
        if self.unsynced {
            out.push_str(",\"unsynced\":true");
        }
        out.push('}');
    }
}

impl DataRecord {
    /// Appends the record as it stands in a payload, byte for byte.
    pub fn push_json(&self, out: &mut String) {
        match self {
            Self::Reading(reading) => ReadingText::of_data(reading).push(out),
            Self::Gap(gap) => push_gap(
                out,
                &GapRecord {
                    uid: gap.device,
                    boot: gap.boot,
                    first: gap.first,
                    count: gap.count,
                    reason: gap.reason,
                    time: gap.time,
                },
            ),
            Self::Clock(clock) => push_clock(out, clock),
        }
    }
}

fn push_gap(out: &mut String, gap: &GapRecord) {
    push_args(out, format_args!("{{\"gap\":\"{}\"", gap_name(gap.reason)));
    push_args(
        out,
        format_args!(",\"device\":\"{}\",\"boot\":{}", gap.uid, gap.boot.0),
    );
    push_args(
        out,
        format_args!(",\"first_ordinal\":{},\"count\":{}", gap.first.0, gap.count),
    );
    push_time_member(out, gap.time);
    out.push('}');
}

fn push_clock(out: &mut String, clock: &ClockRecord) {
    push_args(
        out,
        format_args!("{{\"clock\":\"{}\"", trust_name(clock.trust)),
    );
    if let ClockTrust::Since(step) = clock.trust {
        push_args(out, format_args!(",\"step_us\":{}", step.0));
    }
    push_time_member(out, clock.now);
    out.push('}');
}

fn push_time_member(out: &mut String, time: EventTime) {
    let mut text = Vec::new();
    utc::write_json(time, &mut text);
    out.push_str(",\"time\":");
    out.push_str(std::str::from_utf8(&text).expect("digits and marks are ASCII"));
}

/// A scaled value as the decimal with exactly `scale` digits after the point, so
/// that the scale reads back; a double as the shortest text that reads back as it.
fn push_figure(out: &mut String, figure: Figure) {
    match figure.kind {
        ValueKind::Scaled { scale } => push_scaled(out, figure.value, usize::from(scale)),
        ValueKind::Double => match figure.to_f64() {
            Some(value) => push_args(out, format_args!("{value:?}")),
            // Decoding refuses what is no number, so none gets here.
            None => out.push_str("null"),
        },
    }
}

fn push_scaled(out: &mut String, value: i64, scale: usize) {
    let sign = if value < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, decimals) = digits.split_at(digits.len() - scale);
    push_args(out, format_args!("{sign}{whole}"));
    if scale > 0 {
        push_args(out, format_args!(".{decimals}"));
    }
}
