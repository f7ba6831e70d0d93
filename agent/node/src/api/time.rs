//! Times as requests give them: RFC 3339, `now`, `-15m`, or microseconds since 1970.
//! Knows no clock: now is an argument.

use forebay_core::limits::EVENT_TIME_MAX;
use forebay_core::units::{EventTime, Span};
use forebay_core::utc;

use crate::config::duration;

/// What is expected, behind "must be".
pub(super) const FORMS: &str = "a time such as 2026-03-01T12:00:00Z, now, -15m (before now), or \
                                microseconds since 1970";

/// Reads a time; `None` when it is none of the forms.
pub(super) fn parse(text: &str, now: EventTime) -> Option<EventTime> {
    let time = if text == "now" {
        now
    } else if let Ok(micros) = text.parse::<i64>() {
        EventTime(micros)
    } else if text.starts_with('-') {
        let ago = duration::parse(text).ok()?;
        EventTime(now.0.checked_add(ago.0)?)
    } else {
        utc::parse(&with_plus(text))?
    };
    (time.0.unsigned_abs() <= EVENT_TIME_MAX.unsigned_abs()).then_some(time)
}

/// A `+` of an offset that was not escaped comes as a space.
fn with_plus(text: &str) -> String {
    match text.rsplit_once(' ') {
        Some((before, offset)) if before.len() > 10 && offset.len() == 5 => {
            format!("{before}+{offset}")
        }
        Some(_) | None => text.to_owned(),
    }
}

/// Reads a length of time from 1 us on.
pub(super) fn span(text: &str) -> Result<Span, &'static str> {
    let span = duration::parse(text)?;
    if span.0 <= 0 {
        return Err("must be longer than nothing");
    }
    if span.0 > SPAN_US_MAX {
        return Err("must be at most 3660d");
    }
    Ok(span)
}

/// Longest window that can be asked for: ten years, us.
pub(super) const SPAN_US_MAX: i64 = 10 * 366 * 86_400 * 1_000_000;

/// A length of time as the config writes it.
pub(super) fn span_text(span: Span) -> String {
    for (unit, us) in [
        ("h", 3_600_000_000),
        ("m", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1_000),
    ] {
        // A minute stays 60s and an hour 60m: what people ask for most is shown as asked.
        if span.0 % us == 0 && (span.0 / us > 1 || us <= 1_000_000) {
            return format!("{}{unit}", span.0 / us);
        }
    }
    format!("{}us", span.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: EventTime = EventTime(1_000_000_000_000_000);

    #[test]
    fn each_form_of_a_time() {
        let minutes = |n: i64| Some(EventTime(NOW.0 - n * 60_000_000));
        for (text, want) in [
            ("now", Some(NOW)),
            ("-15m", minutes(15)),
            ("-1d", minutes(1440)),
            ("-0s", Some(NOW)),
            ("0", Some(EventTime(0))),
            ("1700000000000000", Some(EventTime(1_700_000_000_000_000))),
            ("-5", Some(EventTime(-5))),
            ("1970-01-01T00:00:01Z", Some(EventTime(1_000_000))),
            ("1970-01-01T01:00:00+01:00", Some(EventTime(0))),
            ("1970-01-01T01:00:00 01:00", Some(EventTime(0))),
            ("1970-01-01 00:00:00Z", Some(EventTime(0))),
            ("15m", None),
            ("yesterday", None),
            ("", None),
            ("-", None),
            ("-15", Some(EventTime(-15))),
            ("-15x", None),
            ("1970-13-01T00:00:00Z", None),
            ("4611686018427387904", Some(EventTime(EVENT_TIME_MAX))),
            ("4611686018427387905", None),
            ("-9223372036854775808", None),
            ("-9223372036854775807us", None),
        ] {
            assert_eq!(parse(text, NOW), want, "{text}");
        }
    }

    #[test]
    fn a_length_is_taken_within_its_limits() {
        for (text, good) in [
            ("0s", false),
            ("1us", true),
            ("-5s", false),
            ("3660d", true),
            ("87840h", true),
            ("87841h", false),
            ("60", false),
        ] {
            assert_eq!(span(text).is_ok(), good, "{text}");
        }
        for (us, want) in [
            (1, "1us"),
            (1_000, "1ms"),
            (1_500_000, "1500ms"),
            (60_000_000, "60s"),
            (120_000_000, "2m"),
            (3_600_000_000, "60m"),
            (86_400_000_000, "24h"),
        ] {
            assert_eq!(span_text(Span(us)), want);
            assert_eq!(span(want), Ok(Span(us)));
        }
    }
}
