//! Reading of one record in a JSON data message: a reading, a gap, the clock, or
//! how far tables are known.
//!
//! Always holds: a value is a number of its series' kind. Bound: none of its own; no
//! text is made.

use forebay_wire::ids::{BootId, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

use super::control;
use super::json::{PayloadError, Reader, need, set};
use super::parse::named;
use crate::limits::NAME_BYTES_MAX;
use crate::record::{
    ClockRecord, ClockTrust, Figure, GAPS, GapReason, GapRecord, QUALITIES, ReadingRecord, Record,
    SCALED_VALUE_MAX, Series, TablesRecord, UNSYNCED_US, ValueKind,
};
use crate::units::{EventTime, Offset, Span};
use crate::utc;

/// What a record says of the clock, where `step_us` may say more.
const CLOCKS: [(ClockTrust, &str); 3] = [
    (ClockTrust::No, "untrusted"),
    (ClockTrust::Yes, "trusted"),
    (ClockTrust::Since(Span(0)), "corrected"),
];

/// Keys of a record as they come. A value is kept as its text until the series is known.
#[derive(Default)]
pub(super) struct RecordParts<'a> {
    series: Option<u16>,
    ordinal: Option<Ordinal>,
    time: Option<EventTime>,
    value: Option<Option<&'a str>>,
    quality: Option<Quality>,
    uncertainty_us: Option<u32>,
    unsynced: Option<bool>,
    gap: Option<GapReason>,
    device: Option<DeviceUid>,
    boot: Option<BootId>,
    first: Option<Ordinal>,
    count: Option<u64>,
    clock: Option<ClockTrust>,
    step: Option<Span>,
    upto: Option<Offset>,
}

impl<'a> RecordParts<'a> {
    pub(super) fn member(
        &mut self,
        reader: &mut Reader<'a>,
        key: &str,
    ) -> Result<(), PayloadError> {
        match key {
            "s" => {
                let series = reader.narrow("s")?;
                set(reader, &mut self.series, "s", series)
            }
            "n" => {
                let ordinal = Ordinal(reader.unsigned(u64::MAX, "n")?);
                set(reader, &mut self.ordinal, "n", ordinal)
            }
            "t" => {
                let time = reader.signed("t").map(EventTime)?;
                set(reader, &mut self.time, "t", time)
            }
            "v" => {
                let value = if reader.null()? {
                    None
                } else {
                    Some(reader.number()?)
                };
                set(reader, &mut self.value, "v", value)
            }
            "q" => {
                let quality = named(reader, &QUALITIES, "q")?;
                set(reader, &mut self.quality, "q", quality)
            }
            "u" => {
                let us = reader.narrow("u")?;
                if us == UNSYNCED_US {
                    return Err(reader.value_error("u"));
                }
                set(reader, &mut self.uncertainty_us, "u", us)
            }
            "unsynced" => {
                let unsynced = reader.boolean()?;
                set(reader, &mut self.unsynced, "unsynced", unsynced)
            }
            _ => self.rare_member(reader, key),
        }
    }

    /// Keys of gaps, clocks and tables.
    fn rare_member(&mut self, reader: &mut Reader<'a>, key: &str) -> Result<(), PayloadError> {
        match key {
            "gap" => {
                let reason = named(reader, &GAPS, "gap")?;
                set(reader, &mut self.gap, "gap", reason)
            }
            "device" => {
                let uid = control::hex(reader, "device").map(DeviceUid)?;
                set(reader, &mut self.device, "device", uid)
            }
            "boot" => {
                let boot = BootId(reader.narrow("boot")?);
                set(reader, &mut self.boot, "boot", boot)
            }
            "first_ordinal" => {
                let ordinal = Ordinal(reader.unsigned(u64::MAX, "first_ordinal")?);
                set(reader, &mut self.first, "first_ordinal", ordinal)
            }
            "count" => {
                let count = reader.unsigned(u64::MAX, "count")?;
                set(reader, &mut self.count, "count", count)
            }
            "clock" => {
                let trust = named(reader, &CLOCKS, "clock")?;
                set(reader, &mut self.clock, "clock", trust)
            }
            "step_us" => {
                let step = reader.signed("step_us").map(Span)?;
                set(reader, &mut self.step, "step_us", step)
            }
            "tables_upto" => {
                let upto = Offset(reader.unsigned(u64::MAX, "tables_upto")?);
                set(reader, &mut self.upto, "tables_upto", upto)
            }
            "time" => {
                let time = read_time(reader)?;
                set(reader, &mut self.time, "time", time)
            }
            _ => reader.skip_value(),
        }
    }

    /// The record; `said` has the uncertainty that was said last, by series.
    pub(super) fn finish(
        self,
        reader: &Reader<'_>,
        series: &[Series],
        said: &mut [u32],
    ) -> Result<Record, PayloadError> {
        if let Some(index) = self.series {
            return self.reading(reader, index, (series, said));
        }
        let time = need(reader, self.time, "time")?;
        if let Some(trust) = self.clock {
            let trust = match trust {
                ClockTrust::No | ClockTrust::Yes => trust,
                ClockTrust::Since(_) => ClockTrust::Since(need(reader, self.step, "step_us")?),
            };
            return Ok(Record::Clock(ClockRecord { now: time, trust }));
        }
        if let Some(upto) = self.upto {
            return Ok(Record::Tables(TablesRecord { upto, time }));
        }
        Ok(Record::Gap(GapRecord {
            // The key that a reading has is the one that is missed first.
            reason: need(reader, self.gap, "s")?,
            uid: need(reader, self.device, "device")?,
            boot: need(reader, self.boot, "boot")?,
            first: need(reader, self.first, "first_ordinal")?,
            count: need(reader, self.count, "count")?,
            time,
        }))
    }

    fn reading(
        self,
        reader: &Reader<'_>,
        index: u16,
        (series, said): (&[Series], &mut [u32]),
    ) -> Result<Record, PayloadError> {
        let at = usize::from(index);
        let (Some(series), Some(said)) = (series.get(at), said.get_mut(at)) else {
            return Err(reader.value_error("s"));
        };
        let quality = self.quality.unwrap_or_default();
        let value = match (need(reader, self.value, "v")?, quality == Quality::Ok) {
            (Some(text), true) => {
                parse_value(text, series.kind).ok_or_else(|| reader.value_error("v"))?
            }
            (None, false) => 0,
            (Some(_), false) | (None, true) => return Err(reader.value_error("v")),
        };
        let uncertainty_us = if self.unsynced.unwrap_or(false) {
            UNSYNCED_US
        } else {
            *said = self.uncertainty_us.unwrap_or(*said);
            *said
        };
        Ok(Record::Reading(ReadingRecord {
            series: index,
            ordinal: need(reader, self.ordinal, "n")?,
            tick: Tick(0),
            time: need(reader, self.time, "t")?,
            uncertainty_us,
            value,
            quality,
        }))
    }
}

fn read_time(reader: &mut Reader<'_>) -> Result<EventTime, PayloadError> {
    if reader.at_text() {
        let text = reader.string(NAME_BYTES_MAX)?;
        return utc::parse(&text).ok_or_else(|| reader.value_error("time"));
    }
    reader.signed("time").map(EventTime)
}

/// The value that a number's text says; `None` when the kind has none for it.
fn parse_value(text: &str, kind: ValueKind) -> Option<i64> {
    match kind {
        ValueKind::Scaled { scale } => parse_scaled(text, scale),
        ValueKind::Double => {
            let number: f64 = text.parse().ok()?;
            Figure::double(number).map(|figure| figure.value)
        }
    }
}

/// A decimal of at most `scale` digits after the point, without an exponent.
fn parse_scaled(text: &str, scale: u8) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut value: u64 = 0;
    // Digits after the point that are still to come, once it has been passed.
    let mut decimals: Option<u8> = None;
    for byte in digits.bytes() {
        match byte {
            b'0'..=b'9' => {
                if let Some(left) = decimals.as_mut() {
                    *left = left.checked_sub(1)?;
                }
                value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
            }
            b'.' => decimals = Some(scale),
            _ => return None,
        }
    }
    let left = u32::from(decimals.unwrap_or(scale));
    let value = value.checked_mul(10_u64.checked_pow(left)?)?;
    if value > SCALED_VALUE_MAX {
        return None;
    }
    let value = value as i64;
    Some(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_a_scale() {
        for (name, text, scale, want) in [
            ("as written", "21.500", 3, Some(21_500)),
            ("fewer digits", "21.5", 3, Some(21_500)),
            ("none", "21", 3, Some(21_000)),
            ("no scale", "21", 0, Some(21)),
            ("one digit more", "21.5001", 3, None),
            ("a digit without a scale", "21.0", 0, None),
            ("negative", "-0.005", 3, Some(-5)),
            ("minus zero", "-0.000", 3, Some(0)),
            ("an exponent", "2e1", 0, None),
            (
                "below the largest",
                "9007199254740991",
                0,
                Some((1 << 53) - 1),
            ),
            ("the largest", "9007199.254740992", 9, Some(1 << 53)),
            ("one more", "9007199.254740993", 9, None),
            ("far more", "99999999999999999999999", 0, None),
            ("more by its scale", "18446744073709551615", 9, None),
        ] {
            assert_eq!(parse_scaled(text, scale), want, "{name}");
        }
    }
}
