//! Parts of JSON that payloads and stored rows have in common, and the row that a
//! record becomes.
//!
//! Always holds: equal records give equal bytes. Bound: ROW_JSON_BYTES_MAX per record.
//! Knows no message.

use forebay_wire::ids::{BootId, DeviceUid};
use forebay_wire::message::Quality;

use crate::json::{pair, write_number, write_signed, write_text, write_unsigned};
use crate::record::{
    ClockRecord, ClockTrust, Figure, GapRecord, ReadingRecord, Record, Series, TablesRecord,
    ValueKind, gap_name, quality_name, trust_name,
};
use crate::units::EventTime;
use crate::utc;

/// Digits after the point of a scaled value are written from this, from the left.
const DIGITS_MAX: usize = 20;

/// Appends a member's key with the comma before it.
pub(super) fn push_key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

pub(super) fn push_list<T>(out: &mut Vec<u8>, items: &[T], push: impl Fn(&mut Vec<u8>, &T)) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push(out, item);
    }
}

/// Appends lower-case hex digits.
fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Appends the members `device` and `boot`, without a comma before them.
pub(super) fn push_boot_of(out: &mut Vec<u8>, uid: DeviceUid, boot: BootId) {
    out.extend_from_slice(b"\"device\":\"");
    push_hex(out, &uid.0);
    out.extend_from_slice(b"\",\"boot\":");
    write_unsigned(u64::from(boot.0), out);
}

fn push_time(out: &mut Vec<u8>, time: EventTime) {
    push_key(out, "time");
    utc::write_json(time, out);
}

/// Appends a gap as it stands in payloads and rows.
pub(super) fn push_gap(out: &mut Vec<u8>, gap: &GapRecord) {
    out.extend_from_slice(b"{\"gap\":\"");
    out.extend_from_slice(gap_name(gap.reason).as_bytes());
    out.extend_from_slice(b"\",");
    push_boot_of(out, gap.uid, gap.boot);
    push_key(out, "first_ordinal");
    write_unsigned(gap.first.0, out);
    push_key(out, "count");
    write_unsigned(gap.count, out);
    push_time(out, gap.time);
    out.push(b'}');
}

/// Appends what the clock said as it stands in payloads and rows.
pub(super) fn push_clock(out: &mut Vec<u8>, clock: &ClockRecord) {
    out.extend_from_slice(b"{\"clock\":\"");
    out.extend_from_slice(trust_name(clock.trust).as_bytes());
    out.push(b'"');
    if let ClockTrust::Since(step) = clock.trust {
        push_key(out, "step_us");
        write_signed(step.0, out);
    }
    push_time(out, clock.now);
    out.push(b'}');
}

/// Appends how far tables are known as it stands in payloads and rows.
pub(super) fn push_tables(out: &mut Vec<u8>, tables: &TablesRecord) {
    out.extend_from_slice(b"{\"tables_upto\":");
    write_unsigned(tables.upto.0, out);
    push_time(out, tables.time);
    out.push(b'}');
}

/// Appends a record as the JSON object that a sink keeps or gives out: a reading with
/// all that its series says.
///
/// # Panics
/// When a reading is of none of `series`.
pub fn push_row(series: &[Series], record: &Record, out: &mut Vec<u8>) {
    match record {
        Record::Reading(reading) => {
            push_reading_row(&series[usize::from(reading.series)], reading, out);
        }
        Record::Gap(gap) => push_gap(out, gap),
        Record::Clock(clock) => push_clock(out, clock),
        Record::Tables(tables) => push_tables(out, tables),
    }
}

fn push_reading_row(series: &Series, reading: &ReadingRecord, out: &mut Vec<u8>) {
    out.push(b'{');
    push_boot_of(out, series.uid, series.boot);
    push_key(out, "ordinal");
    write_unsigned(reading.ordinal.0, out);
    push_key(out, "channel");
    write_text(&series.name, out);
    push_time(out, reading.time);
    push_key(out, "value");
    if reading.quality == Quality::Ok {
        push_figure(out, reading.value, series.kind);
    } else {
        out.extend_from_slice(b"null");
    }
    push_key(out, "unit");
    write_text(&series.unit, out);
    if reading.quality != Quality::Ok {
        push_key(out, "quality");
        write_text(quality_name(reading.quality), out);
    }
    if reading.is_unsynced() {
        push_key(out, "unsynced");
        out.extend_from_slice(b"true");
    } else {
        push_key(out, "uncertainty_us");
        write_unsigned(u64::from(reading.uncertainty_us), out);
    }
    out.push(b'}');
}

/// Appends a value: a scaled one as the decimal with exactly `scale` digits after the
/// point, a double as the shortest text that reads back as it.
pub(super) fn push_figure(out: &mut Vec<u8>, value: i64, kind: ValueKind) {
    match kind {
        ValueKind::Scaled { scale } => push_scaled(out, value, usize::from(scale)),
        ValueKind::Double => match (Figure { value, kind }).to_f64() {
            Some(value) => write_number(value, out),
            // Decoding refuses what is no number, so none gets here.
            None => out.extend_from_slice(b"null"),
        },
    }
}

fn push_scaled(out: &mut Vec<u8>, value: i64, scale: usize) {
    if value < 0 {
        out.push(b'-');
    }
    let mut digits = [b'0'; DIGITS_MAX];
    let mut rest = value.unsigned_abs();
    let mut from = DIGITS_MAX;
    while rest >= 100 {
        from -= 2;
        digits[from..from + 2].copy_from_slice(&pair(rest % 100));
        rest /= 100;
    }
    from -= 2;
    digits[from..from + 2].copy_from_slice(&pair(rest));
    if rest < 10 {
        from += 1;
    }
    let point = DIGITS_MAX.saturating_sub(scale);
    let from = from.min(point.saturating_sub(1));
    out.extend_from_slice(&digits[from..point]);
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(&digits[point..]);
    }
}
