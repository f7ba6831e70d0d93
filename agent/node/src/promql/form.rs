//! Parameters of a request: from its query and from a form in its body, and what times
//! and durations look like in them.
//!
//! Bound: what the server lets through. Knows no query.

use forebay_core::units::EventTime;

use super::error::QueryError;
use super::limits::{SPAN_MS_MAX, TIME_MS_MAX};

/// Names and values, in the order in which they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Form(Vec<(String, String)>);

impl Form {
    /// Reads `application/x-www-form-urlencoded` texts, one after the other.
    #[must_use]
    pub fn of(texts: &[&str]) -> Self {
        let pairs = texts.iter().flat_map(|text| text.split('&'));
        let pairs = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Self(pairs.collect())
    }

    /// The first value of that name, unless it is empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let named = self.0.iter().find(|(other, _)| other == name);
        named
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// All values of that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(other, _)| other == name);
        named.map(|(_, value)| value.as_str())
    }

    /// A time, ms since 1970; `default` where it is not given.
    ///
    /// # Errors
    /// Names the parameter.
    pub fn time(&self, name: &str, default: Option<i64>) -> Result<i64, QueryError> {
        let Some(text) = self.get(name) else {
            return default.ok_or_else(|| invalid(name, "cannot parse \"\" to a valid timestamp"));
        };
        time(text)
            .ok_or_else(|| invalid(name, &format!("cannot parse {text:?} to a valid timestamp")))
    }

    /// A length of time, ms.
    ///
    /// # Errors
    /// Names the parameter.
    pub fn span(&self, name: &str) -> Result<Option<i64>, QueryError> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let span = span(text)
            .ok_or_else(|| invalid(name, &format!("cannot parse {text:?} to a valid duration")))?;
        Ok(Some(span))
    }

    /// A whole number.
    ///
    /// # Errors
    /// Names the parameter.
    pub fn count(&self, name: &str) -> Result<Option<usize>, QueryError> {
        let parse = |text: &str| {
            text.parse()
                .map_err(|_| invalid(name, &format!("{text:?} is not a whole number")))
        };
        self.get(name).map(parse).transpose()
    }
}

/// The error of a parameter.
#[must_use]
pub fn invalid(name: &str, why: &str) -> QueryError {
    QueryError::BadData(format!("invalid parameter \"{name}\": {why}"))
}

fn decoded(text: &str) -> String {
    let hex = |byte: Option<&u8>| byte.and_then(|byte| (*byte as char).to_digit(16));
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match (byte, hex(bytes.get(at)), hex(bytes.get(at + 1))) {
            (b'+', ..) => out.push(b' '),
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            _ => out.push(*byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Seconds since 1970 with a fraction, or RFC 3339; rounded to milliseconds.
fn time(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse::<f64>() {
        let millis = (seconds * 1000.0).round();
        let fits = millis.abs() <= TIME_MS_MAX as f64;
        // The whole seconds are kept apart, because times a thousand they lose digits.
        let whole = seconds.trunc();
        return fits.then(|| whole as i64 * 1000 + ((seconds - whole) * 1000.0).round() as i64);
    }
    let EventTime(micros) = forebay_core::utc::parse(text)?;
    Some(micros.div_euclid(1000))
}

/// Seconds with a fraction, or a duration as `1h30m`; above or below 0.
#[must_use]
pub fn span(text: &str) -> Option<i64> {
    let millis = match text.parse::<f64>() {
        Ok(seconds) => (seconds * 1000.0).trunc(),
        Err(_) => duration(text)? as f64,
    };
    (millis.abs() <= SPAN_MS_MAX as f64).then_some(millis as i64)
}

/// Units from the largest to the smallest, each at most once.
fn duration(text: &str) -> Option<i64> {
    const UNITS: [(&str, i64); 7] = [
        ("y", 365 * 86_400_000),
        ("w", 7 * 86_400_000),
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
        ("ms", 1),
    ];
    let (mut rest, mut total, mut units) = (text, 0i64, UNITS.iter());
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let count: i64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (_, millis) = units.find(|(name, _)| *name == &rest[..end])?;
        total = total.checked_add(count.checked_mul(*millis)?)?;
        rest = &rest[end..];
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read() {
        let form = Form::of(&[
            "query=up%7Ba%3D%22b+c%22%7D&time=",
            "match[]=a&match%5B%5D=b&x",
        ]);
        assert_eq!(form.get("query"), Some("up{a=\"b c\"}"));
        assert_eq!(form.get("time"), None, "an empty one counts as not given");
        assert_eq!(form.all("match[]").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(form.get("x"), None);
        assert_eq!(decoded("%zz%4"), "%zz%4", "what is no escape stays");
    }

    #[test]
    fn times_are_seconds_or_dates() {
        for (text, want) in [
            ("1", Some(1000)),
            ("1435781451.781", Some(1_435_781_451_781)),
            ("-1.5", Some(-1500)),
            ("1e300", None),
            ("NaN", None),
            ("2015-07-01T20:10:51.781Z", Some(1_435_781_451_781)),
            ("2015-07-01T22:10:51.781+02:00", Some(1_435_781_451_781)),
            ("yesterday", None),
        ] {
            assert_eq!(time(text), want, "{text}");
        }
    }

    #[test]
    fn spans_are_seconds_or_durations() {
        for (text, want) in [
            ("15", Some(15_000)),
            ("0.25", Some(250)),
            ("-1", Some(-1000)),
            ("1m", Some(60_000)),
            ("1h30m", Some(5_400_000)),
            ("5m1s2ms", Some(301_002)),
            ("1s1m", None),
            ("1", Some(1000)),
            ("1x", None),
            ("m", None),
            ("99999y", None),
            ("99999999999999999999s", None),
            ("inf", None),
        ] {
            assert_eq!(span(text), want, "{text}");
        }
    }
}
