//! One line of input to what it says. A bad line is an error text that names
//! what is wrong and what would be right; it never ends the run.

use forebay_core::units::EventTime;
use forebay_core::utc;
use serde_json::{Map, Value};

use super::change::{self, ChangeLine};
use crate::import::fields::{self, cut, in_range, no_time};

mod csv;

pub(super) use self::csv::{Column, Header, csv, csv_header};

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line {
    Reading(Reading),
    /// A row of a table changed.
    Change(ChangeLine),
    /// Nothing with a smaller time is still expected, of one device or of all.
    Watermark {
        device: Option<String>,
        time: EventTime,
    },
    /// The gateway's clock.
    Clock(EventTime),
    /// Checkpoint, forget all, recover.
    Restart,
    /// Forget all without a checkpoint, recover.
    Crash,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reading {
    pub(super) device: String,
    pub(super) channel: String,
    pub(super) time: EventTime,
    pub(super) value: Option<f64>,
    pub(super) id: Option<(Boot, u64)>,
}

/// A boot goes by a number or a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Boot {
    Number(u64),
    Text(String),
}

/// Reads one NDJSON line.
pub(super) fn json(text: &str) -> Result<Line, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| format!("is not JSON: {e}"))?;
    let Value::Object(fields) = value else {
        return Err("is not a JSON object".into());
    };
    if let Some(control) = fields.get("control") {
        return self::control(control, &fields);
    }
    if fields.contains_key("table") {
        return change::parse(text, &fields).map(Line::Change);
    }
    let id = match (fields.get("boot"), fields.get("seq")) {
        (None, None) => None,
        (Some(boot), Some(seq)) => Some((boot_of(boot)?, seq_of(seq)?)),
        (Some(_), None) => return Err("has a boot but no seq".into()),
        (None, Some(_)) => return Err("has a seq but no boot".into()),
    };
    Ok(Line::Reading(Reading {
        device: text_field(&fields, "device")?,
        channel: text_field(&fields, "channel")?,
        time: time_field(&fields)?,
        value: value_of(
            fields
                .get("value")
                .ok_or("has no value; a fault is \"value\":null")?,
        )?,
        id,
    }))
}

fn control(control: &Value, fields: &Map<String, Value>) -> Result<Line, String> {
    match control.as_str() {
        Some("watermark") => Ok(Line::Watermark {
            device: match fields.get("device") {
                None | Some(Value::Null) => None,
                Some(_) => Some(text_field(fields, "device")?),
            },
            time: time_field(fields)?,
        }),
        Some("clock") => Ok(Line::Clock(time_field(fields)?)),
        Some("restart") => Ok(Line::Restart),
        Some("crash") => Ok(Line::Crash),
        Some(_) | None => Err(format!(
            "has an unknown control {}; known: watermark, clock, restart, crash",
            cut(&control.to_string())
        )),
    }
}

pub(super) fn text_field(fields: &Map<String, Value>, name: &str) -> Result<String, String> {
    match fields.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(other) => Err(format!(
            "has a {name} that is no text: {}",
            cut(&other.to_string())
        )),
        None => Err(format!("has no {name}")),
    }
}

pub(super) fn time_field(fields: &Map<String, Value>) -> Result<EventTime, String> {
    match fields.get("time") {
        Some(Value::String(text)) => utc::parse(text).ok_or_else(|| no_time(text)),
        Some(Value::Number(n)) => match n.as_i64() {
            Some(us) => in_range(us),
            None => Err(no_time(&n.to_string())),
        },
        Some(other) => Err(no_time(&other.to_string())),
        None => Err("has no time".into()),
    }
}

fn value_of(value: &Value) -> Result<Option<f64>, String> {
    let number = match value {
        Value::Null => return Ok(None),
        Value::Number(n) => n.as_f64(),
        Value::String(text) => fields::special(text),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.map(Some).ok_or_else(|| {
        format!(
            "has a value that is no number: {}; also null, \"NaN\", \"Infinity\", \"-Infinity\"",
            cut(&value.to_string())
        )
    })
}

fn boot_of(value: &Value) -> Result<Boot, String> {
    let text = || value.as_str().map(|text| Boot::Text(text.to_owned()));
    let boot = value.as_u64().map(Boot::Number).or_else(text);
    boot.ok_or_else(|| {
        let shown = cut(&value.to_string());
        format!("has a boot that is no number from 0 and no text: {shown}")
    })
}

fn seq_of(value: &Value) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| {
        format!(
            "has a seq that is no number from 0: {}",
            cut(&value.to_string())
        )
    })
}

#[cfg(test)]
mod tests;
