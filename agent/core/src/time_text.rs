//! Event times as text: RFC 3339 in UTC, with six decimals when the
//! microseconds are not zero. Outside the years 1 to 9999, where RFC 3339 has
//! no form, a time is written as an integer of microseconds.
//!
//! Always holds: reading back what was written gives the same time.

use std::fmt::Write;

use crate::units::EventTime;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// 0001-01-01T00:00:00Z.
const FIRST: EventTime = EventTime(-62_135_596_800 * MICROS_PER_SECOND);
/// 9999-12-31T23:59:59.999999Z.
const LAST: EventTime = EventTime(253_402_300_800 * MICROS_PER_SECOND - 1);

/// Longest text of a time.
pub const TIME_TEXT_BYTES_MAX: usize = 27;

/// True when RFC 3339 has a form for this time.
#[must_use]
pub fn has_text(time: EventTime) -> bool {
    (FIRST..=LAST).contains(&time)
}

/// Appends a time that [`has_text`], such as `2026-03-01T00:00:00.250000Z`.
/// Others are appended as an integer.
pub fn push_time(out: &mut String, time: EventTime) {
    if !has_text(time) {
        push(out, format_args!("{}", time.0));
        return;
    }
    let micros = time.0.rem_euclid(MICROS_PER_SECOND);
    let seconds = time.0.div_euclid(MICROS_PER_SECOND);
    let (year, month, day) = civil(seconds.div_euclid(SECONDS_PER_DAY));
    let second = seconds.rem_euclid(SECONDS_PER_DAY);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    push(
        out,
        format_args!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}"),
    );
    if micros != 0 {
        push(out, format_args!(".{micros:06}"));
    }
    out.push('Z');
}

/// A time as JSON: text where it has one, else an integer of microseconds.
#[must_use]
pub fn time_value(time: EventTime) -> serde_json::Value {
    if !has_text(time) {
        return time.0.into();
    }
    let mut text = String::with_capacity(TIME_TEXT_BYTES_MAX);
    push_time(&mut text, time);
    text.into()
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("writing to a String cannot fail");
}

/// Reads exactly the form that [`push_time`] writes for times with a text.
/// `None` for everything else.
#[must_use]
pub fn parse_time(text: &str) -> Option<EventTime> {
    let bytes = text.as_bytes();
    let (seconds_text, micros) = match bytes.len() {
        20 => (bytes, 0),
        27 if bytes[19] == b'.' => (bytes, digits(&bytes[20..26]).filter(|&m| m != 0)?),
        _ => return None,
    };
    let marks = [
        (4, b'-'),
        (7, b'-'),
        (10, b'T'),
        (13, b':'),
        (16, b':'),
        (bytes.len() - 1, b'Z'),
    ];
    if marks.iter().any(|&(at, mark)| bytes[at] != mark) {
        return None;
    }
    let field = |from: usize, to: usize| digits(&seconds_text[from..to]);
    let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
    let (h, m, s) = (field(11, 13)?, field(14, 16)?, field(17, 19)?);
    if year < 1 || !(1..=12).contains(&month) || h > 23 || m > 59 || s > 59 {
        return None;
    }
    let days = days_of(year, month, day);
    // A day that the month does not have comes back as another one.
    if civil(days) != (year, month, day) {
        return None;
    }
    let seconds = days * SECONDS_PER_DAY + h * 3600 + m * 60 + s;
    Some(EventTime(seconds * MICROS_PER_SECOND + micros))
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0i64, |sum, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

/// Year, month and day of a day counted from 1970-01-01. Counts from March, so
/// that the leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The reverse of [`civil`].
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_index = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_index + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(micros: i64) -> String {
        let mut out = String::new();
        push_time(&mut out, EventTime(micros));
        out
    }

    #[test]
    fn edges_by_name() {
        for (name, micros, want) in [
            ("epoch", 0, "1970-01-01T00:00:00Z"),
            ("one microsecond before", -1, "1969-12-31T23:59:59.999999Z"),
            (
                "micros keep their zeros",
                500_000,
                "1970-01-01T00:00:00.500000Z",
            ),
            ("leap day", 951_782_400_000_000, "2000-02-29T00:00:00Z"),
            (
                "no leap day in 2100",
                4_107_542_400_000_000,
                "2100-03-01T00:00:00Z",
            ),
            ("first", FIRST.0, "0001-01-01T00:00:00Z"),
            ("before the first", FIRST.0 - 1, "-62135596800000001"),
            ("last", LAST.0, "9999-12-31T23:59:59.999999Z"),
            ("after the last", LAST.0 + 1, "253402300800000000"),
            ("smallest", i64::MIN, "-9223372036854775808"),
            ("largest", i64::MAX, "9223372036854775807"),
        ] {
            assert_eq!(text(micros), want, "{name}");
            assert!(text(micros).len() <= TIME_TEXT_BYTES_MAX, "{name}");
        }
    }

    #[test]
    fn only_the_written_form_is_read() {
        for (name, bad) in [
            ("empty", ""),
            ("offset", "2026-03-01T00:00:00+00:00"),
            ("no zone", "2026-03-01T00:00:00"),
            ("three decimals", "2026-03-01T00:00:00.250Z"),
            ("zero decimals", "2026-03-01T00:00:00.000000Z"),
            ("month 13", "2026-13-01T00:00:00Z"),
            ("month 0", "2026-00-01T00:00:00Z"),
            ("30 February", "2026-02-30T00:00:00Z"),
            ("29 February", "2026-02-29T00:00:00Z"),
            ("hour 24", "2026-03-01T24:00:00Z"),
            ("second 60", "2026-03-01T00:00:60Z"),
            ("year 0", "0000-03-01T00:00:00Z"),
            ("sign", "+026-03-01T00:00:00Z"),
            ("letters", "2026-03-0aT00:00:00Z"),
            ("multibyte", "2026-03-01T00:00:0\u{e9}"),
        ] {
            assert_eq!(parse_time(bad), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back(micros in FIRST.0..=LAST.0) {
            prop_assert_eq!(parse_time(&text(micros)), Some(EventTime(micros)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9TZ:.-]{18,28}|.{0,30}") {
            if let Some(time) = parse_time(&text) {
                let mut back = String::new();
                push_time(&mut back, time);
                prop_assert_eq!(back, text);
            }
        }
    }
}
