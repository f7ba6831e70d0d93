//! One line of input to what it says. A bad line is an error text that names
//! what is wrong and what would be right; it never ends the run.

use forebay_core::limits::EVENT_TIME_MAX;
use forebay_core::units::EventTime;
use forebay_core::utc;
use serde_json::{Map, Value};

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line {
    Reading(Reading),
    /// Nothing with a smaller time is still expected, of one device or of all.
    Watermark {
        device: Option<String>,
        time: EventTime,
    },
    /// The gateway's clock.
    Clock(EventTime),
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
        return Err("is a change of a table; tables are not supported yet".into());
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
        Some(name @ ("restart" | "crash")) => {
            Err(format!("asks for a {name}, which is not supported yet"))
        }
        Some(_) | None => Err(format!(
            "has an unknown control {control}; known: watermark, clock"
        )),
    }
}

fn text_field(fields: &Map<String, Value>, name: &str) -> Result<String, String> {
    match fields.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(other) => Err(format!(
            "has a {name} that is no text: {}",
            cut(&other.to_string())
        )),
        None => Err(format!("has no {name}")),
    }
}

fn time_field(fields: &Map<String, Value>) -> Result<EventTime, String> {
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

fn in_range(us: i64) -> Result<EventTime, String> {
    if us.unsigned_abs() > EVENT_TIME_MAX.unsigned_abs() {
        return Err(format!("has the time {us}, beyond +-{EVENT_TIME_MAX} us"));
    }
    Ok(EventTime(us))
}

fn no_time(text: &str) -> String {
    format!(
        "has no usable time {}; RFC 3339 such as 2026-03-01T00:00:00Z, or whole microseconds",
        cut(text)
    )
}

fn value_of(value: &Value) -> Result<Option<f64>, String> {
    let number = match value {
        Value::Null => return Ok(None),
        Value::Number(n) => n.as_f64(),
        Value::String(text) => special(text),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.map(Some).ok_or_else(|| {
        format!(
            "has a value that is no number: {}; also null, \"NaN\", \"Infinity\", \"-Infinity\"",
            cut(&value.to_string())
        )
    })
}

/// NaN and the infinities in any usual spelling.
fn special(text: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let (minus, name) = match lower.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, lower.strip_prefix('+').unwrap_or(&lower)),
    };
    match name {
        "nan" => Some(f64::NAN),
        "inf" | "infinity" if minus => Some(f64::NEG_INFINITY),
        "inf" | "infinity" => Some(f64::INFINITY),
        _ => None,
    }
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

/// The columns of a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    columns: Vec<Option<Column>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Device,
    Channel,
    Time,
    Value,
    Boot,
    Seq,
}

const COLUMNS: [(&str, Column); 6] = [
    ("device", Column::Device),
    ("channel", Column::Channel),
    ("time", Column::Time),
    ("value", Column::Value),
    ("boot", Column::Boot),
    ("seq", Column::Seq),
];

/// Reads the first line of a CSV file; columns of other names are skipped.
pub(super) fn csv_header(text: &str) -> Result<Header, String> {
    let columns: Vec<Option<Column>> = cells(text)?
        .iter()
        .map(|cell| {
            COLUMNS
                .iter()
                .find(|(name, _)| *name == cell.trim())
                .map(|(_, c)| *c)
        })
        .collect();
    for (name, column) in &COLUMNS {
        let count = columns.iter().filter(|c| **c == Some(*column)).count();
        let optional = matches!(column, Column::Boot | Column::Seq);
        if count > 1 || (count == 0 && !optional) {
            return Err(format!(
                "is no CSV header: {count} columns {name}; expected device,channel,time,value"
            ));
        }
    }
    Ok(Header { columns })
}

/// Reads a line of a CSV file.
pub(super) fn csv(header: &Header, text: &str) -> Result<Line, String> {
    let cells = cells(text)?;
    if cells.len() != header.columns.len() {
        let (got, want) = (cells.len(), header.columns.len());
        return Err(format!("has {got} columns where the header has {want}"));
    }
    let cell = |column| {
        let at = header.columns.iter().position(|c| *c == Some(column));
        at.map_or("", |at| cells[at].trim())
    };
    let named = |column, name| match cell(column) {
        "" => Err(format!("has no {name}")),
        text => Ok(text.to_owned()),
    };
    let id = match (cell(Column::Boot), cell(Column::Seq)) {
        ("", "") => None,
        ("", _) => return Err("has a seq but no boot".into()),
        (_, "") => return Err("has a boot but no seq".into()),
        (boot, seq) => Some((
            boot.parse()
                .map_or_else(|_| Boot::Text(boot.into()), Boot::Number),
            seq.parse()
                .map_err(|_| format!("has a seq that is no number from 0: {}", cut(seq)))?,
        )),
    };
    Ok(Line::Reading(Reading {
        device: named(Column::Device, "device")?,
        channel: named(Column::Channel, "channel")?,
        time: csv_time(cell(Column::Time))?,
        value: csv_value(cell(Column::Value))?,
        id,
    }))
}

fn csv_time(text: &str) -> Result<EventTime, String> {
    match text.parse() {
        Ok(us) => in_range(us),
        Err(_) => utc::parse(text).ok_or_else(|| no_time(text)),
    }
}

fn csv_value(text: &str) -> Result<Option<f64>, String> {
    if text.is_empty() || text.eq_ignore_ascii_case("null") {
        return Ok(None);
    }
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    let number = if plain {
        text.parse().ok()
    } else {
        special(text)
    };
    number
        .map(Some)
        .ok_or_else(|| format!("has a value that is no number: {}", cut(text)))
}

/// Splits a line at its commas; cells may stand in double quotes.
fn cells(text: &str) -> Result<Vec<String>, String> {
    let mut cells = Vec::new();
    let mut rest = text;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_cell(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(cells),
            None => return Err("has text after a closing quote".into()),
        }
    }
}

fn quoted_cell(mut rest: &str) -> Result<(String, &str), String> {
    let mut cell = String::new();
    loop {
        let Some(end) = rest.find('"') else {
            return Err("has a quote that does not close".into());
        };
        cell.push_str(&rest[..end]);
        match rest[end + 1..].strip_prefix('"') {
            Some(more) => {
                cell.push('"');
                rest = more;
            }
            None => return Ok((cell, &rest[end + 1..])),
        }
    }
}

/// What is shown of a bad value.
fn cut(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(40).collect();
    if chars.next().is_some() {
        head + "..."
    } else {
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(time: i64, value: Option<f64>) -> Line {
        Line::Reading(Reading {
            device: "d".into(),
            channel: "c".into(),
            time: EventTime(time),
            value,
            id: None,
        })
    }

    #[test]
    fn good_json_lines() {
        let base = r#"{"device":"d","channel":"c","time":5,"value":"#;
        for (value, want) in [
            ("1", Some(1.0)),
            ("-0.0", Some(-0.0)),
            ("0.1", Some(0.1)),
            ("123.45599999999934", Some(123.455_999_999_999_34)),
            ("5e-324", Some(5e-324)),
            ("1.7976931348623157e308", Some(f64::MAX)),
            ("null", None),
            ("\"-inf\"", Some(f64::NEG_INFINITY)),
            ("\"Infinity\"", Some(f64::INFINITY)),
        ] {
            assert_eq!(
                json(&format!("{base}{value}}}")),
                Ok(reading(5, want)),
                "{value}"
            );
        }
        let clock = json(r#"{"control":"clock","time":"1970-01-01T00:00:01Z"}"#);
        assert_eq!(clock, Ok(Line::Clock(EventTime(1_000_000))));
        let all = json(r#"{"control":"watermark","time":7}"#);
        assert_eq!(
            all,
            Ok(Line::Watermark {
                device: None,
                time: EventTime(7)
            })
        );
    }

    #[test]
    fn bad_json_lines_say_why() {
        for (text, want) in [
            ("{", "is not JSON"),
            ("[]", "is not a JSON object"),
            (r#"{"channel":"c","time":1,"value":1}"#, "has no device"),
            (
                r#"{"device":1,"channel":"c","time":1,"value":1}"#,
                "device that is no text",
            ),
            (r#"{"device":"d","channel":"c","value":1}"#, "has no time"),
            (
                r#"{"device":"d","channel":"c","time":1.5,"value":1}"#,
                "no usable time 1.5",
            ),
            (
                r#"{"device":"d","channel":"c","time":"yesterday","value":1}"#,
                "no usable time yesterday",
            ),
            (
                r#"{"device":"d","channel":"c","time":9223372036854775807,"value":1}"#,
                "beyond",
            ),
            (r#"{"device":"d","channel":"c","time":1}"#, "has no value"),
            (
                r#"{"device":"d","channel":"c","time":1,"value":true}"#,
                "no number: true",
            ),
            (
                r#"{"device":"d","channel":"c","time":1,"value":"hot"}"#,
                "no number",
            ),
            (
                r#"{"device":"d","channel":"c","time":1,"value":1,"seq":1}"#,
                "seq but no boot",
            ),
            (
                r#"{"control":"restart"}"#,
                "restart, which is not supported yet",
            ),
            (r#"{"control":"reboot"}"#, "unknown control \"reboot\""),
            (r#"{"table":"t"}"#, "tables are not supported yet"),
        ] {
            let error = json(text).expect_err(text);
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn csv_lines() {
        let header = csv_header("value,time,extra,device,channel").expect("a header");
        for (text, want) in [
            ("1.5,5,x,d,c", Some(Some(1.5))),
            (",5,,d,c", Some(None)),
            ("NaN,5,x,d,c", None),
            ("+Inf,5,x,d,c", Some(Some(f64::INFINITY))),
            ("\"1\",\"5\",\"a,\"\"b\",d,c", Some(Some(1.0))),
        ] {
            let line = csv(&header, text).expect(text);
            if let Some(value) = want {
                assert_eq!(line, reading(5, value), "{text}");
            }
        }
        for (text, want) in [
            ("1,5,x,d", "has 4 columns where the header has 5"),
            ("1,5,x,,c", "has no device"),
            ("x,5,x,d,c", "no number: x"),
            ("nanometre,5,x,d,c", "no number"),
            ("1,noon,x,d,c", "no usable time noon"),
            ("\"1,5,x,d,c", "quote that does not close"),
            ("\"1\"2,5,x,d,c", "after a closing quote"),
        ] {
            let error = csv(&header, text).expect_err(text);
            assert!(error.contains(want), "{text}: {error}");
        }
        for bad in ["device,channel,time", "device,channel,time,value,value", ""] {
            csv_header(bad).expect_err(bad);
        }
    }
}
