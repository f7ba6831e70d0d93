//! Event times as text: RFC 3339 in UTC, microseconds only where they are not
//! 0. Reads any offset. Years 1 to 9999; other times are written as integers.
//! Knows no zone and no clock.

use crate::json;
use crate::units::EventTime;

const SECOND_US: i64 = 1_000_000;
const MICROS: u64 = SECOND_US.unsigned_abs();
const DAY_SECONDS: i64 = 86_400;
/// 0001-01-01T00:00:00Z
const FIRST_WITH_TEXT: i64 = -62_135_596_800 * SECOND_US;
/// 10000-01-01T00:00:00Z, the first without one.
const END_OF_TEXT: i64 = 253_402_300_800 * SECOND_US;

/// Appends the time as a JSON value: a text, or an integer outside the years 1
/// to 9999.
pub fn write_json(time: EventTime, out: &mut Vec<u8>) {
    let us = time.0;
    if !(FIRST_WITH_TEXT..END_OF_TEXT).contains(&us) {
        json::write_signed(us, out);
        return;
    }
    // From the first moment with a text on nothing is negative.
    let since = us.abs_diff(FIRST_WITH_TEXT);
    let (seconds, fraction) = (since / MICROS, since % MICROS);
    let (days, in_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let mut text = *b"\"0000-00-00T00:00:00.000000Z\"";
    let mut put = |at: usize, n: u64| text[at..at + 2].copy_from_slice(&json::pair(n));
    put(1, year / 100);
    put(3, year);
    put(6, month);
    put(9, day);
    put(12, in_day / 3600);
    put(15, in_day / 60 % 60);
    put(18, in_day % 60);
    if fraction == 0 {
        text[20..22].copy_from_slice(b"Z\"");
        out.extend_from_slice(&text[..22]);
        return;
    }
    put(21, fraction / 10_000);
    put(23, fraction / 100);
    put(25, fraction);
    out.extend_from_slice(&text);
}

/// The same as a value of JSON.
#[must_use]
pub fn time_value(time: EventTime) -> serde_json::Value {
    let mut text = Vec::new();
    write_json(time, &mut text);
    match std::str::from_utf8(&text)
        .ok()
        .and_then(|text| text.strip_prefix('"'))
    {
        Some(text) => text.trim_end_matches('"').into(),
        None => time.0.into(),
    }
}

/// Year, month and day of a day counted from 0001-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years that start in March, in eras of 400 years: the leap day comes last.
    let day = days + 306;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year + era * 400 + u64::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

/// Days from 1970-01-01; the other way round of [`civil`], but for where it counts from.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Reads RFC 3339 with `Z` or an offset. More than six decimals are cut. `None`
/// when it is not such a time.
#[must_use]
pub fn parse(text: &str) -> Option<EventTime> {
    let mut rest = text.as_bytes();
    let year = number(&mut rest, 4)?;
    let month = after(&mut rest, b"-").and_then(|()| number(&mut rest, 2))?;
    let day = after(&mut rest, b"-").and_then(|()| number(&mut rest, 2))?;
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    let hour = after(&mut rest, b"Tt ").and_then(|()| number(&mut rest, 2))?;
    let minute = after(&mut rest, b":").and_then(|()| number(&mut rest, 2))?;
    let second = after(&mut rest, b":").and_then(|()| number(&mut rest, 2))?;
    // A leap second is the first of the next minute, as POSIX counts.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let fraction = fraction(&mut rest)?;
    let offset = offset(&mut rest)?;
    let seconds = days_of(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    rest.is_empty()
        .then(|| EventTime((seconds - offset) * SECOND_US + fraction))
}

/// Reads many times one after the other: what is not the form
/// `2026-03-01T00:00:00Z`, with any decimals, takes the way of [`parse`]. Gives what
/// [`parse`] gives.
#[derive(Debug, Clone)]
pub struct TimeReader {
    /// Date, hour and minute that were read last: mostly those of the next time too.
    minute: [u8; MINUTE_BYTES],
    /// Where that minute starts, us.
    start: i64,
}

/// `2026-03-01T00:00:`
const MINUTE_BYTES: usize = 17;

impl Default for TimeReader {
    fn default() -> Self {
        Self {
            minute: *b"1970-01-01T00:00:",
            start: 0,
        }
    }
}

impl TimeReader {
    /// Reads RFC 3339 as [`parse`] does.
    pub fn read(&mut self, text: &[u8]) -> Option<EventTime> {
        match self.read_plain(text) {
            Some(time) => Some(time),
            None => parse(std::str::from_utf8(text).ok()?),
        }
    }

    fn read_plain(&mut self, text: &[u8]) -> Option<EventTime> {
        let (minute, rest) = text.split_first_chunk()?;
        if *minute != self.minute {
            self.move_to_minute(minute)?;
        }
        let (seconds, rest) = rest.split_first_chunk::<2>()?;
        let second = two_digits(*seconds)?;
        if second > 59 {
            return None;
        }
        let time = self.start + second * SECOND_US;
        if rest == b"Z" {
            return Some(EventTime(time));
        }
        let decimals = rest.strip_prefix(b".")?.strip_suffix(b"Z")?;
        let mut fraction = 0;
        for byte in decimals.first_chunk::<6>().map_or(decimals, |six| six) {
            fraction = fraction * 10 + digit(*byte)?;
        }
        if !(1..=6).contains(&decimals.len()) {
            return None;
        }
        Some(EventTime(time + fraction * SCALES[6 - decimals.len()]))
    }

    #[cold]
    fn move_to_minute(&mut self, minute: &[u8; MINUTE_BYTES]) -> Option<()> {
        let mut whole = *b"0000-00-00T00:00:00Z";
        whole[..MINUTE_BYTES].copy_from_slice(minute);
        self.start = parse(std::str::from_utf8(&whole).ok()?)?.0;
        self.minute = *minute;
        Some(())
    }
}

/// What one digit more is worth, from none missing of six decimals to all.
const SCALES: [i64; 6] = [1, 10, 100, 1000, 10_000, 100_000];

fn digit(byte: u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
}

fn two_digits(text: [u8; 2]) -> Option<i64> {
    Some(digit(text[0])? * 10 + digit(text[1])?)
}

fn number(rest: &mut &[u8], len: usize) -> Option<i64> {
    let (head, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    head.iter().try_fold(0, |n, b| {
        b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0'))
    })
}

fn after(rest: &mut &[u8], one_of: &[u8]) -> Option<()> {
    let (head, tail) = rest.split_first()?;
    *rest = tail;
    one_of.contains(head).then_some(())
}

/// Microseconds of `.123456789`, 0 when there is none.
fn fraction(rest: &mut &[u8]) -> Option<i64> {
    let Some((b'.', tail)) = rest.split_first() else {
        return Some(0);
    };
    let len = tail.iter().take_while(|b| b.is_ascii_digit()).count();
    let (decimals, after) = tail.split_at(len);
    *rest = after;
    let at = |place: usize| decimals.get(place).map_or(0, |b| i64::from(b - b'0'));
    (len > 0).then(|| (0..6).fold(0, |n, place| n * 10 + at(place)))
}

/// Seconds east of UTC.
fn offset(rest: &mut &[u8]) -> Option<i64> {
    let (head, tail) = rest.split_first()?;
    *rest = tail;
    let sign = match head {
        b'Z' | b'z' => return Some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hour = number(rest, 2)?;
    let minute = after(rest, b":").and_then(|()| number(rest, 2))?;
    (hour <= 23 && minute <= 59).then_some(sign * (hour * 3600 + minute * 60))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(us: i64) -> String {
        let mut out = Vec::new();
        write_json(EventTime(us), &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn times_are_written() {
        for (us, want) in [
            (0, "\"1970-01-01T00:00:00Z\""),
            (-1, "\"1969-12-31T23:59:59.999999Z\""),
            (1_500_000, "\"1970-01-01T00:00:01.500000Z\""),
            (951_782_400_000_000, "\"2000-02-29T00:00:00Z\""),
            (FIRST_WITH_TEXT, "\"0001-01-01T00:00:00Z\""),
            (FIRST_WITH_TEXT - 1, "-62135596800000001"),
            (END_OF_TEXT - 1, "\"9999-12-31T23:59:59.999999Z\""),
            (END_OF_TEXT, "253402300800000000"),
            (i64::MIN, "-9223372036854775808"),
            (i64::MAX, "9223372036854775807"),
        ] {
            assert_eq!(text(us), want);
        }
    }

    #[test]
    fn times_are_read() {
        for (given, want) in [
            ("1970-01-01T00:00:01Z", Some(1_000_000)),
            ("1970-01-01t00:00:01.5z", Some(1_500_000)),
            ("1970-01-01 00:00:00.0000019Z", Some(1)),
            ("1969-12-31T23:59:59.9999999Z", Some(-1)),
            ("1970-01-01T01:00:00+01:00", Some(0)),
            ("1969-12-31T18:30:00-05:30", Some(0)),
            ("2000-02-29T00:00:00Z", Some(951_782_400_000_000)),
            ("2016-12-31T23:59:60Z", Some(1_483_228_800_000_000)),
            ("0001-01-01T00:00:00Z", Some(FIRST_WITH_TEXT)),
            ("1900-02-29T00:00:00Z", None),
            ("1970-13-01T00:00:00Z", None),
            ("1970-00-01T00:00:00Z", None),
            ("1970-01-32T00:00:00Z", None),
            ("1970-01-01T24:00:00Z", None),
            ("1970-01-01T00:00:61Z", None),
            ("1970-01-01T00:00:00", None),
            ("1970-01-01T00:00:00.Z", None),
            ("1970-01-01T00:00:00+0100", None),
            ("1970-01-01T00:00:00Zx", None),
            ("1970-01-01", None),
            ("+970-01-01T00:00:00Z", None),
            ("", None),
        ] {
            assert_eq!(parse(given).map(|t| t.0), want, "{given}");
            let mut reader = TimeReader::default();
            for again in ["first", "again"] {
                let read = reader.read(given.as_bytes()).map(|t| t.0);
                assert_eq!(read, want, "{given}, {again}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(us in FIRST_WITH_TEXT..END_OF_TEXT) {
            let json = text(us);
            prop_assert_eq!(parse(json.trim_matches('"')), Some(EventTime(us)));
        }

        #[test]
        fn any_text_is_read_or_refused(given in ".*") {
            prop_assert_eq!(TimeReader::default().read(given.as_bytes()), parse(&given));
        }

        #[test]
        fn many_times_are_read_as_one_by_one(
            base in 1_000_000_000_i64..2_000_000_000,
            steps in prop::collection::vec((0_i64..90_000_000, 0_usize..27, "[0-9:.TtZz +-]{0,2}", any::<bool>()), 1..20),
        ) {
            let mut reader = TimeReader::default();
            let mut us = base * SECOND_US;
            for (step, at, other, broken) in steps {
                us += if step % 3 == 0 { step } else { step / SECOND_US * SECOND_US };
                let json = text(us);
                let mut given = json.trim_matches('"').to_owned();
                if broken {
                    let at = at.min(given.len());
                    given.replace_range(at..(at + other.len()).min(given.len()), &other);
                }
                prop_assert_eq!(reader.read(given.as_bytes()), parse(&given), "{}", given);
            }
        }
    }
}
