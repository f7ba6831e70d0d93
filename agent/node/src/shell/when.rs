//! Times on the command line: RFC 3339, `now`, so long ago (`-15m`, or `15m`), or
//! microseconds since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

use forebay_core::limits::EVENT_TIME_MAX;
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
    let time = micros.or_else(|| utc::parse(text)).or_else(ago);
    match time {
        Some(time) if time.0.unsigned_abs() <= EVENT_TIME_MAX.unsigned_abs() => Ok(time),
        Some(_) => Err(String::from(TOO_FAR)),
        None if is_too_far(text) => Err(String::from(TOO_FAR)),
        None => Err(String::from(
            "must be a time: 2026-03-01T00:00:00Z, now, or -15m for 15 minutes ago",
        )),
    }
}

/// Said of a time that nothing can have happened at.
const TOO_FAR: &str = "is too far away: years 1 to 9999 can be written, or up to 2^62 us from 1970";

/// Whether a text has the form of a time that is beyond all that can be.
fn is_too_far(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    let number = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let (number, rest) = digits.split_at(number);
    let is_number = !number.is_empty() && rest.is_empty();
    let is_long_ago = duration::parse(text) == Err("is too long");
    let is_year = number.len() > 4 && rest.starts_with('-') && rest.contains('T');
    is_number || is_long_ago || is_year
}

/// Refuses a range that nothing can lie in; `to` is now where it is not given.
///
/// # Errors
/// A sentence.
pub fn check_range(from: Option<EventTime>, to: Option<EventTime>) -> Result<(), String> {
    let end = to.unwrap_or_else(now);
    if from.is_none_or(|from| from < end) {
        return Ok(());
    }
    let end = match to {
        Some(_) => "--to",
        None => "now, which --to is where it is not given",
    };
    Err(format!(
        "--from is not before {end}: nothing lies between; give an earlier --from, or a later --to"
    ))
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
            ("-4611686018427387904us", Some(10 * hour - (1 << 62))),
            ("-9223372036854775807us", None),
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

    #[test]
    fn what_is_too_far_away_is_told_from_what_is_no_time() {
        for (text, far) in [
            ("99999999999999999999", true),
            ("-99999999999999999999", true),
            ("9223372036854775807", true),
            ("4611686018427387904", false),
            ("-99999999999w", true),
            ("99999999999w", true),
            ("10000-01-01T00:00:00Z", true),
            ("soon", false),
            ("", false),
            ("-", false),
            ("10000-", false),
            ("5x", false),
        ] {
            let said = parse_at(text, EventTime(0));
            let is_far = said.as_ref().is_err_and(|said| said.contains("too far"));
            assert_eq!(is_far, far, "{text}: {said:?}");
        }
    }

    #[test]
    fn a_range_needs_something_between() {
        let at = |us| Some(EventTime(us));
        let far = i64::MAX / 4;
        for (from, to, good) in [
            (None, None, true),
            (None, at(5), true),
            (at(4), at(5), true),
            (at(5), at(5), false),
            (at(6), at(5), false),
            (at(0), None, true),
            (at(far), None, false),
        ] {
            assert_eq!(check_range(from, to).is_ok(), good, "{from:?} {to:?}");
        }
    }
}
