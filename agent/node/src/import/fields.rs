//! Cells of recorded readings: times, values, names. A bad one is an error text
//! that says what is wrong and what would be right. Knows no format.

use forebay_core::limits::EVENT_TIME_MAX;
use forebay_core::record::QUALITIES;
use forebay_core::units::EventTime;
use forebay_core::utc;
use forebay_wire::message::Quality;

/// Reads a time as text: whole microseconds since 1970, or RFC 3339.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn time(text: &str) -> Result<EventTime, String> {
    match text.parse() {
        Ok(us) => in_range(us),
        Err(_) => utc::parse(text).ok_or_else(|| no_time(text)),
    }
}

/// Bounds a time.
///
/// # Errors
/// When it is farther from 1970 than any time of the log.
pub(crate) fn in_range(us: i64) -> Result<EventTime, String> {
    if us.unsigned_abs() > EVENT_TIME_MAX.unsigned_abs() {
        return Err(format!("has the time {us}, beyond +-{EVENT_TIME_MAX} us"));
    }
    Ok(EventTime(us))
}

pub(crate) fn no_time(text: &str) -> String {
    format!(
        "has no usable time {}; RFC 3339 such as 2026-03-01T00:00:00Z, or whole microseconds",
        cut(text)
    )
}

/// Reads a value as text; `None` for an empty one and for `null`.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn value(text: &str) -> Result<Option<f64>, String> {
    if text.is_empty() || text.eq_ignore_ascii_case("null") {
        return Ok(None);
    }
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    let number = if plain {
        // What is too large for a double must not become an infinity unsaid.
        text.parse().ok().filter(|number: &f64| number.is_finite())
    } else {
        special(text)
    };
    number
        .map(Some)
        .ok_or_else(|| format!("has a value that is no number: {}", cut(text)))
}

/// NaN and the infinities in any usual spelling.
pub(crate) fn special(text: &str) -> Option<f64> {
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

/// Reads a quality by its name; an empty text is `ok`.
///
/// # Errors
/// The names that there are.
pub(crate) fn quality(text: &str) -> Result<Quality, String> {
    if text.is_empty() {
        return Ok(Quality::Ok);
    }
    let known = QUALITIES.iter().find(|(_, name)| *name == text);
    known.map(|(quality, _)| *quality).ok_or_else(|| {
        let names: Vec<&str> = QUALITIES.iter().map(|(_, name)| *name).collect();
        format!(
            "has the unknown quality {}; known: {}",
            cut(text),
            names.join(", ")
        )
    })
}

/// What is shown of a bad value.
pub(crate) fn cut(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(40).collect();
    let shown = if chars.next().is_some() {
        head + "..."
    } else {
        head
    };
    // A control character would reach the operator's terminal.
    shown.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_to_the_last_bit() {
        for (text, want) in [
            ("1", Some(Some(1.0))),
            ("-0.5e-3", Some(Some(-0.0005))),
            ("51.846000000000004", Some(Some(51.846_000_000_000_004))),
            ("", Some(None)),
            ("NULL", Some(None)),
            ("-Infinity", Some(Some(f64::NEG_INFINITY))),
            ("1e999", None),
            ("1,5", None),
            ("0x10", None),
            ("e", None),
        ] {
            assert_eq!(value(text).ok(), want, "{text}");
        }
        assert!(value("nan").is_ok_and(|v| v.is_some_and(f64::is_nan)));
    }

    #[test]
    fn times_at_their_limits() {
        for (name, us, fits) in [
            ("limit - 1", EVENT_TIME_MAX - 1, true),
            ("limit", EVENT_TIME_MAX, true),
            ("limit + 1", EVENT_TIME_MAX + 1, false),
            ("below", -EVENT_TIME_MAX - 1, false),
            ("least", i64::MIN, false),
        ] {
            assert_eq!(time(&us.to_string()).is_ok(), fits, "{name}");
        }
        assert_eq!(time("1970-01-01T00:00:01Z"), Ok(EventTime(1_000_000)));
        assert!(time("yesterday").is_err_and(|e| e.contains("RFC 3339")));
    }

    #[test]
    fn qualities_go_by_their_names() {
        assert_eq!(quality(""), Ok(Quality::Ok));
        assert_eq!(quality("crc_error"), Ok(Quality::CrcError));
        assert!(quality("fine").is_err_and(|e| e.contains("saturated")));
    }

    #[test]
    fn what_is_shown_is_short_and_plain() {
        assert_eq!(cut(&"x".repeat(40)), "x".repeat(40));
        assert_eq!(cut(&"x".repeat(41)), format!("{}...", "x".repeat(40)));
        assert_eq!(cut("a\u{1b}[31m"), "a\u{fffd}[31m");
    }
}
