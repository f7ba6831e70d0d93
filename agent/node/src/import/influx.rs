//! Influx line protocol: `measurement,tag=value field=1.5 1700000000000000000`.
//! The device is a tag's value; the channel is made of the measurement, the field
//! (unless it is called `value`) and the other tags, so that no two series become
//! one. A small reader of our own: the one crate there is has had no release since
//! its project moved on, and refuses the backslashes that the database takes.
//!
//! Bound: the line. Knows no clock: a line without a time is bad.

use clap::ValueEnum;
use forebay_core::import::ImportRecord;
use forebay_core::units::EventTime;
use forebay_wire::message::Quality;

use super::fields::{self, cut};

/// What a time in the file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Precision {
    #[default]
    Ns,
    Us,
    Ms,
    S,
}

impl Precision {
    /// Microseconds; parts of one are cut towards the past. `None` when it is too
    /// large for any.
    fn micros(self, n: i64) -> Option<i64> {
        match self {
            Self::Ns => Some(n.div_euclid(1000)),
            Self::Us => Some(n),
            Self::Ms => n.checked_mul(1000),
            Self::S => n.checked_mul(1_000_000),
        }
    }
}

/// How lines become readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfluxRules {
    /// Tag whose value is the device.
    pub device_tag: String,
    pub precision: Precision,
}

impl Default for InfluxRules {
    fn default() -> Self {
        Self {
            device_tag: String::from("device"),
            precision: Precision::default(),
        }
    }
}

/// A line cut into its parts; texts are unescaped.
struct Parts<'a> {
    measurement: String,
    tags: Vec<(String, String)>,
    /// Values as they stand.
    fields: Vec<(String, &'a str)>,
    time: Option<&'a str>,
}

/// Whether a line has the parts of one.
pub(super) fn looks_like_line(text: &str) -> bool {
    parts(text).is_ok()
}

/// Reads a line; each field is one reading, or says why it is none.
pub(super) fn line(
    text: &str,
    rules: &InfluxRules,
    mut say: impl FnMut(Result<ImportRecord, String>),
) {
    if text.trim_start().starts_with('#') {
        return;
    }
    let common = parts(text).and_then(|parts| {
        let device = device(&parts, rules)?;
        let time = time(parts.time, rules.precision)?;
        Ok((parts, device, time))
    });
    let (parts, device, time) = match common {
        Ok(common) => common,
        Err(why) => return say(Err(why)),
    };
    for (field, value) in &parts.fields {
        let said = number(value).and_then(|value| {
            let channel = channel(&parts, field, rules);
            ImportRecord::new(&device, &channel, "", time, Some(value), Quality::Ok)
        });
        say(said.map_err(|why| format!("{why} (field {})", cut(field))));
    }
}

fn device(parts: &Parts<'_>, rules: &InfluxRules) -> Result<String, String> {
    let tag = parts
        .tags
        .iter()
        .find(|(name, _)| *name == rules.device_tag);
    tag.map(|(_, value)| value.clone()).ok_or_else(|| {
        let there: Vec<String> = parts.tags.iter().map(|(name, _)| cut(name)).collect();
        let there = if there.is_empty() {
            String::from("it has no tags")
        } else {
            format!("it has {}", there.join(", "))
        };
        format!(
            "has no tag {}: {there}; --device-tag names the one that holds the device",
            rules.device_tag
        )
    })
}

fn channel(parts: &Parts<'_>, field: &str, rules: &InfluxRules) -> String {
    let mut channel = parts.measurement.clone();
    if field != "value" {
        channel.push('.');
        channel.push_str(field);
    }
    let others = parts.tags.iter();
    for (name, value) in others.filter(|(name, _)| *name != rules.device_tag) {
        channel.push_str(&format!(",{name}={value}"));
    }
    channel
}

fn time(text: Option<&str>, precision: Precision) -> Result<EventTime, String> {
    let Some(text) = text else {
        return Err("has no time; there is no clock here that could give one".into());
    };
    let n: i64 = text
        .parse()
        .map_err(|_| format!("has a time that is no whole number: {}", cut(text)))?;
    match precision.micros(n) {
        Some(us) => fields::in_range(us),
        None => Err(format!("has the time {n}, too far from 1970")),
    }
}

/// A field's value as a number: a float, an integer with `i` or `u`, a boolean.
fn number(text: &str) -> Result<f64, String> {
    if text.starts_with('"') {
        return Err(format!("has a text for a value: {}", cut(text)));
    }
    match text {
        "t" | "T" | "true" | "True" | "TRUE" => return Ok(1.0),
        "f" | "F" | "false" | "False" | "FALSE" => return Ok(0.0),
        _ => {}
    }
    let whole = match text.strip_suffix('i') {
        Some(digits) => Some(digits.parse::<i64>().ok().and_then(exact_signed)),
        None => text
            .strip_suffix('u')
            .map(|digits| digits.parse::<u64>().ok().and_then(exact_unsigned)),
    };
    match whole {
        Some(Some(value)) => Ok(value),
        Some(None) => Err(format!(
            "has an integer that no double holds exactly: {}",
            cut(text)
        )),
        None => match fields::value(text)? {
            Some(value) if value.is_finite() => Ok(value),
            Some(_) | None => Err(format!("has a value that is no number: {}", cut(text))),
        },
    }
}

fn exact_signed(n: i64) -> Option<f64> {
    let value = n as f64;
    (value as i128 == i128::from(n)).then_some(value)
}

fn exact_unsigned(n: u64) -> Option<f64> {
    let value = n as f64;
    (value as u128 == u128::from(n)).then_some(value)
}

/// Cuts a line into its parts.
fn parts(text: &str) -> Result<Parts<'_>, String> {
    let (series, rest) = section(text.trim(), false)?;
    let (fields, rest) = section(rest.trim_start(), true)?;
    let mut pieces = split(series, b',', false).into_iter();
    let measurement = pieces.next().map(unescape).unwrap_or_default();
    if measurement.is_empty() {
        return Err("has no measurement".into());
    }
    let mut tags = Vec::new();
    for piece in pieces {
        let (name, value) = pair(piece, "tag")?;
        if value.is_empty() {
            return Err(format!("has an empty tag {}", cut(&name)));
        }
        tags.push((name, unescape(value)));
    }
    tags.sort();
    let fields: Result<Vec<_>, _> = split(fields, b',', true)
        .into_iter()
        .map(|piece| pair(piece, "field"))
        .collect();
    let fields = fields?;
    if let Some((name, _)) = fields.iter().find(|(_, value)| value.is_empty()) {
        return Err(format!("has a field without a value: {}", cut(name)));
    }
    let time = rest.trim();
    Ok(Parts {
        measurement,
        tags,
        fields,
        time: (!time.is_empty()).then_some(time),
    })
}

/// The text up to the first space that is neither escaped nor, with `quotes`, in a
/// string; and what follows.
fn section(text: &str, quotes: bool) -> Result<(&str, &str), String> {
    let (at, open) = find(text, b' ', quotes);
    if open {
        return Err("has a string that does not close".into());
    }
    match at {
        0 => Err("is no line protocol: measurement, fields and time are expected".into()),
        at => Ok(text.split_at(at)),
    }
}

/// Place of the first `wanted` that counts, or the end; whether a string is open.
fn find(text: &str, wanted: u8, quotes: bool) -> (usize, bool) {
    let (mut escaped, mut open) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' if quotes => open = !open,
            _ if byte == wanted && !open => return (at, false),
            _ => {}
        }
    }
    (text.len(), open)
}

fn split(mut text: &str, at: u8, quotes: bool) -> Vec<&str> {
    let mut pieces = Vec::new();
    loop {
        let (end, _) = find(text, at, quotes);
        pieces.push(&text[..end]);
        match text.get(end + 1..) {
            Some(rest) if end < text.len() => text = rest,
            Some(_) | None => return pieces,
        }
    }
}

fn pair<'a>(piece: &'a str, what: &str) -> Result<(String, &'a str), String> {
    let (at, _) = find(piece, b'=', false);
    let name = unescape(&piece[..at]);
    match piece.get(at + 1..) {
        Some(value) if !name.is_empty() => Ok((name, value)),
        Some(_) | None => Err(format!(
            "has a {what} that is no name=value: {}",
            cut(piece)
        )),
    }
}

/// Takes the backslash off before a comma, an equals sign, a space and itself; any
/// other one stands for itself.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next) if c == '\\' && ",= \\".contains(*next) => {
                plain.push(*next);
                chars.next();
            }
            Some(_) | None => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<(String, String, i64, f64), String>> {
        let mut said = Vec::new();
        line(text, &InfluxRules::default(), |record| {
            said.push(record.map(|r| {
                let (device, channel) = (r.device.to_string(), r.channel.to_string());
                (device, channel, r.time.0, r.value)
            }));
        });
        said
    }

    #[test]
    fn lines_become_readings() {
        for (text, want) in [
            ("temp,device=m1 value=21.5 1000", ("m1", "temp", 21.5)),
            ("temp,device=m1 value=3i 1000", ("m1", "temp", 3.0)),
            ("temp,device=m1 value=t 1000", ("m1", "temp", 1.0)),
            (
                "cpu,device=a usage_idle=9e1 1000",
                ("a", "cpu.usage_idle", 90.0),
            ),
            (
                "cpu,cpu=cpu0,device=a idle=1u 1000",
                ("a", "cpu.idle,cpu=cpu0", 1.0),
            ),
            (r"a\ b\,c,device=x\=y value=1 1000", ("x=y", "a b,c", 1.0)),
            (r"p,device=C:\dir value=1 1000", (r"C:\dir", "p", 1.0)),
            ("  temp,device=m1   value=1   1999  ", ("m1", "temp", 1.0)),
        ] {
            let (device, channel, value) = want;
            let want = vec![Ok((device.to_owned(), channel.to_owned(), 1, value))];
            assert_eq!(read(text), want, "{text}");
        }
    }

    #[test]
    fn a_field_that_is_no_number_costs_no_other() {
        let said = read(r#"m,device=d a=1,b="x, y=2 \" z",c=2 1000"#);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].is_ok() && said[2].is_ok());
        assert!(said[1].as_ref().is_err_and(|why| why.contains("(field b)")));
    }

    #[test]
    fn bad_lines_say_why() {
        for (text, word) in [
            ("", "no line protocol"),
            ("temp", "no line protocol"),
            ("temp,device=m1 value=1", "no time"),
            ("temp value=1 1", "no tags"),
            ("temp,host=a value=1 1", "it has host"),
            ("temp,device= value=1 1", "empty tag"),
            ("temp,device value=1 1", "name=value"),
            ("temp,device=m1 value= 1", "without a value"),
            ("temp,device=m1 value=\"x 1", "does not close"),
            ("temp,device=m1 value=1 1.5", "no whole number"),
            ("temp,device=m1 value=NaN 1", "no number"),
            ("temp,device=m1 value=9007199254740993i 1", "exactly"),
            (",device=m1 value=1 1", "no measurement"),
        ] {
            let said = read(text);
            let why = said[0].as_ref().expect_err(text);
            assert!(why.contains(word), "{text}: {why}");
        }
        assert_eq!(read("# a comment"), vec![]);
    }

    #[test]
    fn times_count_what_the_precision_says() {
        for (precision, n, want) in [
            (Precision::Ns, -1, Some(-1)),
            (Precision::Ns, 1_999, Some(1)),
            (Precision::Us, 7, Some(7)),
            (Precision::Ms, 7, Some(7_000)),
            (Precision::S, 7, Some(7_000_000)),
            (Precision::S, i64::MAX, None),
        ] {
            assert_eq!(precision.micros(n), want, "{precision:?} {n}");
        }
    }
}
