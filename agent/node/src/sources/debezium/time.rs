//! Times as events give them: the finest that is there, cut to microseconds.

use std::borrow::Cow;

use forebay_core::limits::EVENT_TIME_MAX;
use forebay_core::units::EventTime;
use forebay_core::utc;

use super::super::json::{self, Object};

fn within(us: i64) -> Option<EventTime> {
    let fits = us.unsigned_abs() <= EVENT_TIME_MAX.unsigned_abs();
    fits.then_some(EventTime(us))
}

/// Milliseconds; 0 is what Debezium writes where it does not know.
pub(super) fn of_millis(ms: Option<i64>) -> Option<EventTime> {
    let ms = ms.filter(|ms| *ms != 0)?;
    within(ms.checked_mul(1000)?)
}

/// The time of an object with `<prefix>ts_ns`, `<prefix>ts_us` or `<prefix>ts_ms`.
pub(super) fn of_members(object: &Object<'_>, prefix: &str) -> Option<EventTime> {
    let member = |name: &str| object.int(&format!("{prefix}{name}")).filter(|n| *n != 0);
    let ns = member("ts_ns").map(|ns| ns.div_euclid(1000));
    let us = ns.or_else(|| member("ts_us"));
    us.and_then(within).or_else(|| of_millis(member("ts_ms")))
}

/// A time of our own lines: RFC 3339, or whole microseconds.
///
/// # Errors
/// A sentence without a subject.
pub(super) fn of_line(raw: &str) -> Result<EventTime, String> {
    let time = match json::text(raw) {
        Some(text) => utc::parse(&text),
        None => raw.parse().ok().and_then(within),
    };
    time.ok_or_else(|| {
        let text = json::text(raw).unwrap_or(Cow::Borrowed(raw));
        format!(
            "has a time \"{}\" that is none, such as \"2026-03-01T00:00:00Z\" or microseconds since 1970",
            super::shown(&text)
        )
    })
}
