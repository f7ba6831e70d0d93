//! Times on the command line: RFC 3339, `now`, so long ago (`-15m`, or `15m`), or
//! microseconds since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

use forebay_core::units::EventTime;
use forebay_core::utc;

use crate::config::duration;

/// What this computer's clock says.
#[must_use]
pub fn now() -> EventTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since.map_or(0, |since| since.as_micros());
    EventTime(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// Reads a time of the command line.
///
/// # Errors
/// What is expected instead.
pub fn parse(text: &str) -> Result<EventTime, String> {
    parse_at(text, now())
}

/// As [`parse`], at this time.
///
/// # Errors
/// As [`parse`].
pub fn parse_at(text: &str, now: EventTime) -> Result<EventTime, String> {
    if text == "now" {
        return Ok(now);
    }
    let micros = text.parse().ok().map(EventTime);
    let ago = || {
        let ago = duration::parse(text).ok()?;
        let back = ago.0.checked_abs()?;
        Some(EventTime(now.0.saturating_sub(back)))
    };
    micros
        .or_else(|| utc::parse(text))
        .or_else(ago)
        .ok_or_else(|| {
            String::from("must be a time: 2026-03-01T00:00:00Z, now, or -15m for 15 minutes ago")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_or_ago() {
        let hour = 3_600_000_000;
        let now = EventTime(10 * hour);
        for (text, want) in [
            ("1970-01-01T00:00:01Z", Some(1_000_000)),
            ("1970-01-01T01:00:01+01:00", Some(1_000_000)),
            ("5", Some(5)),
            ("-5", Some(-5)),
            ("now", Some(10 * hour)),
            ("-1h", Some(9 * hour)),
            ("1h", Some(9 * hour)),
            ("-15m", Some(10 * hour - 900_000_000)),
            ("0s", Some(10 * hour)),
            ("-9223372036854775807us", Some(10 * hour - i64::MAX)),
            ("-9223372036854775808us", None),
            ("+1h", None),
            ("-1mo", None),
            ("yesterday", None),
            ("Now", None),
            ("-", None),
            ("", None),
        ] {
            let got = parse_at(text, now).ok().map(|time| time.0);
            assert_eq!(got, want, "{text}");
        }
    }
}
