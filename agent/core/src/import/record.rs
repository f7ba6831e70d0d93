//! One reading of an import, checked: what a file may say and the log can hold.

use std::sync::Arc;

use forebay_wire::message::Quality;

use crate::limits::{CHANNEL_NAME_BYTES_MAX, EVENT_TIME_MAX, NAME_BYTES_MAX, UNIT_NAME_BYTES_MAX};
use crate::record::quality_name;
use crate::units::EventTime;

/// One reading as a file has it. Made by [`ImportRecord::new`], so its names and
/// its time are within their bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportRecord {
    /// A name from the config, sixteen hex digits, or any other name.
    pub device: Arc<str>,
    pub channel: Arc<str>,
    /// Empty where there is none.
    pub unit: Arc<str>,
    pub time: EventTime,
    /// Finite; 0 unless `quality` is ok.
    pub value: f64,
    pub quality: Quality,
}

impl ImportRecord {
    /// Checks what the log cannot take.
    ///
    /// # Errors
    /// What is wrong, to read after the place of the record: `has no device`.
    pub fn new(
        device: &str,
        channel: &str,
        unit: &str,
        time: EventTime,
        value: Option<f64>,
        quality: Quality,
    ) -> Result<Self, String> {
        if time.0.unsigned_abs() > EVENT_TIME_MAX.unsigned_abs() {
            return Err(format!(
                "has the time {}, beyond +-{EVENT_TIME_MAX} us",
                time.0
            ));
        }
        let value = match (value, quality == Quality::Ok) {
            (Some(value), true) if value.is_finite() => value,
            (Some(value), true) => {
                return Err(format!("has the value {value}: {FAULTS}"));
            }
            (None, true) => return Err(format!("has no value: {FAULTS}")),
            (None, false) => 0.0,
            (Some(_), false) => {
                let quality = quality_name(quality);
                return Err(format!("has a value and the quality {quality}: {FAULTS}"));
            }
        };
        Ok(Self {
            device: named("device", device, 1, NAME_BYTES_MAX)?,
            channel: named("channel", channel, 1, CHANNEL_NAME_BYTES_MAX)?,
            unit: named("unit", unit, 0, UNIT_NAME_BYTES_MAX)?,
            time,
            value,
            quality,
        })
    }
}

/// What a line says of a sensor that gave no number.
const FAULTS: &str = "a fault is no value and a quality such as bus_error";

/// A name within its bounds and without control characters, which could not be
/// shown and would take six bytes each in a message.
fn named(what: &str, name: &str, min: usize, max: usize) -> Result<Arc<str>, String> {
    if name.len() < min {
        return Err(format!("has no {what}"));
    }
    if name.len() > max {
        let bytes = name.len();
        return Err(format!("has a {what} of {bytes} bytes, more than {max}"));
    }
    if name.trim() != name {
        return Err(format!("has a space at an end of its {what}"));
    }
    if name.chars().any(char::is_control) {
        return Err(format!("has a control character in its {what}"));
    }
    Ok(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_log_cannot_take_is_said() {
        let long = |n: usize| "x".repeat(n);
        let new = |device: &str, channel: &str, unit: &str, time: i64| {
            ImportRecord::new(
                device,
                channel,
                unit,
                EventTime(time),
                Some(1.0),
                Quality::Ok,
            )
        };
        for (name, record, word) in [
            ("no device", new("", "c", "", 0), "no device"),
            (
                "device + 1",
                new(&long(NAME_BYTES_MAX + 1), "c", "", 0),
                "bytes",
            ),
            ("no channel", new("d", "", "", 0), "no channel"),
            (
                "channel + 1",
                new("d", &long(CHANNEL_NAME_BYTES_MAX + 1), "", 0),
                "bytes",
            ),
            (
                "unit + 1",
                new("d", "c", &long(UNIT_NAME_BYTES_MAX + 1), 0),
                "bytes",
            ),
            ("space", new("d ", "c", "", 0), "space"),
            ("control", new("d\u{1b}", "c", "", 0), "control"),
            ("time + 1", new("d", "c", "", EVENT_TIME_MAX + 1), "beyond"),
        ] {
            assert!(record.is_err_and(|why| why.contains(word)), "{name}");
        }
        for less in [0, 1] {
            let channel = long(CHANNEL_NAME_BYTES_MAX - less);
            let unit = long(UNIT_NAME_BYTES_MAX - less);
            let device = long(NAME_BYTES_MAX - less);
            let time = EVENT_TIME_MAX - less as i64;
            assert!(
                new(&device, &channel, &unit, time).is_ok(),
                "limit - {less}"
            );
        }
        for (value, quality, fits) in [
            (Some(1.0), Quality::Ok, true),
            (None, Quality::Ok, false),
            (None, Quality::Stale, true),
            (Some(1.0), Quality::Stale, false),
            (Some(f64::NAN), Quality::Ok, false),
            (Some(f64::INFINITY), Quality::Ok, false),
        ] {
            let record = ImportRecord::new("d", "c", "", EventTime(0), value, quality);
            assert_eq!(record.is_ok(), fits, "{value:?} {quality:?}");
        }
    }
}
