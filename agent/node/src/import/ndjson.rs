//! One NDJSON line to a reading: members device, channel, time and value, and if
//! they are there unit and quality. Others are passed over, so that what
//! `forebay log export` writes reads back.

use forebay_core::import::ImportRecord;
use forebay_core::units::EventTime;
use serde_json::{Map, Value};

use super::fields::{self, cut};

/// Reads a line.
///
/// # Errors
/// What is wrong with it.
pub(super) fn line(text: &str) -> Result<ImportRecord, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| format!("is not JSON: {e}"))?;
    let Value::Object(fields) = value else {
        return Err("is not a JSON object".into());
    };
    for other in ["control", "table", "gap"] {
        if fields.contains_key(other) {
            return Err(format!("is no reading but a {other}"));
        }
    }
    ImportRecord::new(
        need(&fields, "device")?,
        need(&fields, "channel")?,
        text_of(&fields, "unit")?.unwrap_or_default(),
        time(&fields)?,
        figure(fields.get("value"))?,
        fields::quality(text_of(&fields, "quality")?.unwrap_or_default())?,
    )
}

fn need<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    text_of(fields, name)?.ok_or_else(|| format!("has no {name}"))
}

fn text_of<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!(
            "has a {name} that is no text: {}",
            cut(&other.to_string())
        )),
    }
}

fn time(fields: &Map<String, Value>) -> Result<EventTime, String> {
    let Some(time) = fields.get("time") else {
        return Err("has no time".into());
    };
    let whole = |n: &serde_json::Number| n.as_i64();
    match time {
        Value::String(text) => fields::time(text),
        Value::Number(n) => match whole(n) {
            Some(us) => fields::in_range(us),
            None => Err(fields::no_time(&n.to_string())),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(fields::no_time(&time.to_string()))
        }
    }
}

fn figure(value: Option<&Value>) -> Result<Option<f64>, String> {
    let Some(value) = value else {
        return Ok(None);
    };
    let number = match value {
        Value::Null => return Ok(None),
        Value::Number(n) => n.as_f64(),
        Value::String(text) => fields::special(text),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number
        .map(Some)
        .ok_or_else(|| format!("has a value that is no number: {}", cut(&value.to_string())))
}

#[cfg(test)]
mod tests {
    use forebay_wire::message::Quality;

    use super::*;

    #[test]
    fn lines_read_or_say_why_not() {
        for (name, text, word) in [
            ("no object", "[1]", "object"),
            ("no JSON", "{", "not JSON"),
            (
                "no device",
                r#"{"channel":"c","time":1,"value":1}"#,
                "no device",
            ),
            (
                "a device that is a number",
                r#"{"device":1,"channel":"c","time":1,"value":1}"#,
                "no text",
            ),
            (
                "no time",
                r#"{"device":"d","channel":"c","value":1}"#,
                "no time",
            ),
            (
                "half a microsecond",
                r#"{"device":"d","channel":"c","time":1.5,"value":1}"#,
                "whole microseconds",
            ),
            (
                "too large",
                r#"{"device":"d","channel":"c","time":1,"value":1e999}"#,
                "not JSON",
            ),
            (
                "a value as text",
                r#"{"device":"d","channel":"c","time":1,"value":"21.5"}"#,
                "no number",
            ),
            (
                "no value and no quality",
                r#"{"device":"d","channel":"c","time":1}"#,
                "no value",
            ),
            ("a mark of time", r#"{"control":"watermark"}"#, "control"),
        ] {
            let error = line(text).expect_err(name);
            assert!(error.contains(word), "{name}: {error}");
        }
    }

    #[test]
    fn members_are_taken_and_others_passed_over() {
        let text = r#"{"device":"d","channel":"c","unit":"degC","time":"1970-01-01T00:00:00.000002Z","value":-0.5,"boot":7}"#;
        let record = line(text).expect("good");
        assert_eq!((&*record.device, &*record.channel), ("d", "c"));
        assert_eq!((&*record.unit, record.value), ("degC", -0.5));
        assert_eq!((record.time, record.quality), (EventTime(2), Quality::Ok));
        let fault = r#"{"device":"d","channel":"c","time":1,"value":null,"quality":"stale"}"#;
        assert!(line(fault).is_ok_and(|record| record.quality == Quality::Stale));
    }
}
