//! The JSON payload: the identity, a table of series, and one short object per record.
//!
//! Always holds: `parse` of what is written here says the same, but for ticks. Bound:
//! ENVELOPE_JSON_BYTES_MAX, SERIES_JSON_BYTES_MAX and RECORD_JSON_BYTES_MAX. No text is
//! made per reading. Knows no topic.

use forebay_wire::message::Quality;

use super::PAYLOAD_VERSION;
use super::data::MessageId;
use super::text::{
    push_boot_of, push_clock, push_figure, push_gap, push_key, push_list, push_tables,
};
use crate::json::{write_signed, write_text, write_unsigned};
use crate::log::block::{Block, Body};
use crate::record::{
    Missing, ReadingRecord, Record, Series, ValueKind, missing_name, quality_name,
};
use crate::units::Offset;

/// Bytes that a reading of usual figures takes.
const READING_BYTES_USUAL: usize = 64;

/// The payload of the records `id.first..=id.last` of `block`.
///
/// # Panics
/// When the block does not hold these offsets.
pub(super) fn render(id: &MessageId, block: &Block) -> Vec<u8> {
    assert!(
        block.base <= id.first && id.first <= id.last && id.last < block.end(),
        "offsets that the block does not hold"
    );
    let index = |offset: Offset| (offset.0 - block.base.0) as usize;
    let range = index(id.first)..=index(id.last);
    let mut out = Vec::with_capacity(1024 + READING_BYTES_USUAL * block.body.len());
    push_envelope(&mut out, id);
    match &block.body {
        Body::Readings { series, records } => {
            push_readings(&mut out, series, &records[range]);
        }
        Body::Rows(rows) => {
            out.extend_from_slice(b",\"kind\":\"rows\",\"records\":[");
            push_list(&mut out, &rows[range], |out, row| {
                out.extend_from_slice(&row.line);
            });
        }
    }
    out.extend_from_slice(b"]}");
    out
}

/// The payload that says that the offsets of `id` will never come.
pub(super) fn render_missing(id: &MessageId, reason: Missing) -> Vec<u8> {
    let mut out = Vec::new();
    push_envelope(&mut out, id);
    out.extend_from_slice(b",\"kind\":\"missing\",\"reason\":\"");
    out.extend_from_slice(missing_name(reason).as_bytes());
    out.extend_from_slice(b"\"}");
    out
}

/// The members before the kind, with the brace that opens the object.
fn push_envelope(out: &mut Vec<u8>, id: &MessageId) {
    out.extend_from_slice(b"{\"v\":");
    write_unsigned(PAYLOAD_VERSION, out);
    push_key(out, "gateway");
    write_text(id.gateway.as_str(), out);
    push_key(out, "log_id");
    write_text(&id.log_id.to_string(), out);
    push_key(out, "epoch");
    write_unsigned(u64::from(id.epoch.0), out);
    if id.nonce.is_known() {
        push_key(out, "nonce");
        write_text(&id.nonce.to_string(), out);
    }
    push_key(out, "stream");
    write_text(id.stream.as_str(), out);
    push_key(out, "partition");
    write_unsigned(u64::from(id.partition.0), out);
    push_key(out, "first_offset");
    write_unsigned(id.first.0, out);
    push_key(out, "last_offset");
    write_unsigned(id.last.0, out);
}

fn push_readings(out: &mut Vec<u8>, series: &[Series], records: &[Record]) {
    let mut said = first_uncertainties(series.len(), records);
    out.extend_from_slice(b",\"kind\":\"readings\",\"series\":[");
    for (i, (series, said)) in series.iter().zip(&said).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push_series(out, series, *said);
    }
    out.extend_from_slice(b"],\"records\":[");
    for (i, record) in records.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match record {
            Record::Reading(reading) => {
                let index = usize::from(reading.series);
                push_reading(out, reading, (series[index].kind, &mut said[index]));
            }
            Record::Gap(gap) => push_gap(out, gap),
            Record::Clock(clock) => push_clock(out, clock),
            Record::Tables(tables) => push_tables(out, tables),
        }
    }
}

/// The uncertainty of the first reading of each series; 0 of one without a reading whose
/// time is known.
fn first_uncertainties(series: usize, records: &[Record]) -> Vec<u32> {
    let mut out = vec![0; series];
    for record in records.iter().rev() {
        if let Record::Reading(reading) = record
            && !reading.is_unsynced()
        {
            out[usize::from(reading.series)] = reading.uncertainty_us;
        }
    }
    out
}

fn push_series(out: &mut Vec<u8>, series: &Series, uncertainty_us: u32) {
    out.push(b'{');
    push_boot_of(out, series.uid, series.boot);
    push_key(out, "number");
    write_unsigned(u64::from(series.channel.0), out);
    push_key(out, "channel");
    write_text(&series.name, out);
    push_key(out, "unit");
    write_text(&series.unit, out);
    match series.kind {
        ValueKind::Scaled { scale } => {
            push_key(out, "scale");
            write_unsigned(u64::from(scale), out);
        }
        ValueKind::Double => {
            push_key(out, "scale");
            out.extend_from_slice(b"null");
        }
    }
    push_key(out, "uncertainty_us");
    write_unsigned(u64::from(uncertainty_us), out);
    out.push(b'}');
}

/// `said` is what stands for the series before this reading: an uncertainty changes with
/// each probe of a clock, so it would be the longest part of most readings.
fn push_reading(out: &mut Vec<u8>, reading: &ReadingRecord, (kind, said): (ValueKind, &mut u32)) {
    out.extend_from_slice(b"{\"s\":");
    write_unsigned(u64::from(reading.series), out);
    out.extend_from_slice(b",\"n\":");
    write_unsigned(reading.ordinal.0, out);
    out.extend_from_slice(b",\"t\":");
    write_signed(reading.time.0, out);
    out.extend_from_slice(b",\"v\":");
    if reading.quality == Quality::Ok {
        push_figure(out, reading.value, kind);
    } else {
        out.extend_from_slice(b"null,\"q\":\"");
        out.extend_from_slice(quality_name(reading.quality).as_bytes());
        out.push(b'"');
    }
    if reading.is_unsynced() {
        out.extend_from_slice(b",\"unsynced\":true");
    } else if reading.uncertainty_us != *said {
        *said = reading.uncertainty_us;
        out.extend_from_slice(b",\"u\":");
        write_unsigned(u64::from(*said), out);
    }
    out.push(b'}');
}
