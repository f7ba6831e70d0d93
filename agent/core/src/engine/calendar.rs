//! Days, weeks and months of a time zone, as instants. The rules of the zones
//! are built into the program: no file and no setting of the system is read, so
//! that equal logs give equal rows on every machine.
//!
//! A day starts at the first instant of its local date and ends where the next
//! one starts: 23, 24 or 25 hours, and a date that a zone skipped has no day.
//! A week starts on Monday, a month on its first day. Defined for every `i64` of
//! microseconds: where the calendar of years ends, it goes on as the 400 years
//! before (after) it, which is what its rules say. Never panics.

use std::fmt;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan};

/// A named time zone.
#[derive(Clone)]
pub struct Zone {
    zone: TimeZone,
    name: String,
}

/// A piece of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalendarUnit {
    Day,
    /// From Monday.
    Week,
    Month,
}

/// 400 years of the calendar have a whole number of weeks.
const CYCLE_DAYS: i64 = 146_097;
const DAY_US: i64 = 86_400_000_000;
const CYCLE_US: i64 = CYCLE_DAYS * DAY_US;
/// Instants outside are taken as those a number of cycles nearer. All rules of
/// zones are written for years in between; outside they only repeat.
const FIRST_US: i64 = -20 * CYCLE_US;
const END_US: i64 = 19 * CYCLE_US;

impl Zone {
    /// The zone of that name, in any case of letters, as the tz database has it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let zone = TimeZoneDatabase::bundled().get(name).ok()?;
        let name = zone.iana_name()?.to_owned();
        Some(Self { zone, name })
    }

    /// Universal time, where all days have 24 hours.
    #[must_use]
    pub fn utc() -> Self {
        Self {
            zone: TimeZone::UTC,
            name: "UTC".into(),
        }
    }

    /// As the tz database writes it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All names that [`Zone::named`] knows, sorted.
    #[must_use]
    pub fn names() -> Vec<String> {
        let database = TimeZoneDatabase::bundled();
        let mut names: Vec<String> = database.available().map(|n| n.to_string()).collect();
        names.sort_unstable();
        names
    }

    /// The start and end of the piece of the calendar that holds an instant, us
    /// UTC: `start <= at < end`, but the first and last pieces of `i64` are cut.
    #[must_use]
    pub fn bounds(&self, unit: CalendarUnit, at: i64) -> (i64, i64) {
        let cycles = if at < FIRST_US {
            (at - FIRST_US).div_euclid(CYCLE_US)
        } else if at >= END_US {
            (at - END_US) / CYCLE_US + 1
        } else {
            0
        };
        let shift = cycles * CYCLE_US;
        let (start, end) = self.near(unit, at - shift);
        (start.saturating_add(shift), end.saturating_add(shift))
    }

    /// The same for instants whose neighbours have a date.
    fn near(&self, unit: CalendarUnit, at: i64) -> (i64, i64) {
        let now = Timestamp::from_microsecond(at).expect("inside 40 cycles of 1970");
        let mut date = unit.first_of(self.zone.to_datetime(now).date());
        let mut start = self.first_instant(date);
        // Where clocks went back over midnight, the date before comes again and
        // its day is over already.
        loop {
            let next = unit.next(date);
            let end = self.first_instant(next);
            if at < end {
                return (start, end);
            }
            (date, start) = (next, end);
        }
    }

    /// The first instant whose local date is that one or a later one.
    fn first_instant(&self, date: Date) -> i64 {
        let midnight = date.at(0, 0, 0, 0);
        let utc = |offset: jiff::tz::Offset| {
            let at = offset.to_timestamp(midnight);
            at.expect("inside the calendar").as_microsecond()
        };
        match self.zone.to_ambiguous_timestamp(midnight).offset() {
            AmbiguousOffset::Unambiguous { offset } => utc(offset),
            AmbiguousOffset::Fold { before, .. } => utc(before),
            AmbiguousOffset::Gap { before, after } => {
                self.end_of_gap(midnight, utc(after), utc(before))
            }
        }
    }

    /// Midnight does not exist: the instant at which clocks went over it, between
    /// one before that and one not before it.
    fn end_of_gap(&self, midnight: DateTime, mut before: i64, mut not_before: i64) -> i64 {
        while not_before - before > 1 {
            let middle = before + (not_before - before) / 2;
            let at = Timestamp::from_microsecond(middle).expect("between two timestamps");
            if self.zone.to_datetime(at) < midnight {
                before = middle;
            } else {
                not_before = middle;
            }
        }
        not_before
    }
}

impl CalendarUnit {
    fn first_of(self, date: Date) -> Date {
        match self {
            Self::Day => date,
            Self::Week => {
                let since = i64::from(date.weekday().to_monday_zero_offset());
                date.saturating_sub(since.days())
            }
            Self::Month => date.first_of_month(),
        }
    }

    fn next(self, date: Date) -> Date {
        match self {
            Self::Day => date.saturating_add(1.day()),
            Self::Week => date.saturating_add(1.week()),
            Self::Month => date.saturating_add(1.month()),
        }
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::utc;

    fn us(text: &str) -> i64 {
        utc::parse(text).expect("a time").0
    }

    #[test]
    fn pieces_of_the_calendar_by_name() {
        use CalendarUnit::{Day, Month, Week};
        for (name, zone, unit, at, start, end) in [
            (
                "23 hours",
                "Europe/Paris",
                Day,
                "2026-03-29T12:00:00Z",
                "2026-03-28T23:00:00Z",
                "2026-03-29T22:00:00Z",
            ),
            (
                "25 hours, the first instant",
                "America/New_York",
                Day,
                "2026-11-01T04:00:00Z",
                "2026-11-01T04:00:00Z",
                "2026-11-02T05:00:00Z",
            ),
            (
                "25 hours, the last",
                "America/New_York",
                Day,
                "2026-11-02T04:59:59.999999Z",
                "2026-11-01T04:00:00Z",
                "2026-11-02T05:00:00Z",
            ),
            (
                "midnight does not exist",
                "America/Sao_Paulo",
                Day,
                "2018-11-04T12:00:00Z",
                "2018-11-04T03:00:00Z",
                "2018-11-05T02:00:00Z",
            ),
            (
                "clocks skip over midnight",
                "America/Toronto",
                Day,
                "1919-03-31T12:00:00Z",
                "1919-03-31T04:30:00Z",
                "1919-04-01T04:00:00Z",
            ),
            (
                "clocks go back over midnight",
                "America/St_Johns",
                Day,
                "2005-10-30T02:45:00Z",
                "2005-10-30T02:30:00Z",
                "2005-10-31T03:30:00Z",
            ),
            (
                "the date before comes again",
                "America/St_Johns",
                Day,
                "2005-10-30T02:31:00Z",
                "2005-10-30T02:30:00Z",
                "2005-10-31T03:30:00Z",
            ),
            (
                "a date that was skipped",
                "Pacific/Apia",
                Day,
                "2011-12-30T09:59:59Z",
                "2011-12-29T10:00:00Z",
                "2011-12-30T10:00:00Z",
            ),
            (
                "the date after it",
                "Pacific/Apia",
                Day,
                "2011-12-30T10:00:00Z",
                "2011-12-30T10:00:00Z",
                "2011-12-31T10:00:00Z",
            ),
            (
                "a week from Monday",
                "Europe/Paris",
                Week,
                "2026-03-29T21:59:59Z",
                "2026-03-22T23:00:00Z",
                "2026-03-29T22:00:00Z",
            ),
            (
                "a month",
                "Europe/Paris",
                Month,
                "2026-03-31T21:59:59Z",
                "2026-02-28T23:00:00Z",
                "2026-03-31T22:00:00Z",
            ),
            (
                "a month of UTC",
                "UTC",
                Month,
                "2028-02-29T23:59:59Z",
                "2028-02-01T00:00:00Z",
                "2028-03-01T00:00:00Z",
            ),
            (
                "a half-hour zone",
                "Asia/Kolkata",
                Day,
                "2026-01-01T18:29:59Z",
                "2025-12-31T18:30:00Z",
                "2026-01-01T18:30:00Z",
            ),
            (
                "the year 9000",
                "Europe/Paris",
                Day,
                "9000-06-15T12:34:56Z",
                "9000-06-14T22:00:00Z",
                "9000-06-15T22:00:00Z",
            ),
        ] {
            let zone = Zone::named(zone).expect(zone);
            assert_eq!(zone.bounds(unit, us(at)), (us(start), us(end)), "{name}");
        }
    }

    #[test]
    fn zones_are_found_in_any_case_and_written_in_one() {
        for (name, want) in [
            ("Europe/Paris", Some("Europe/Paris")),
            ("europe/paris", Some("Europe/Paris")),
            ("UTC", Some("UTC")),
            ("Europe/Pari", None),
            ("../etc/passwd", None),
            ("", None),
        ] {
            let zone = Zone::named(name);
            assert_eq!(zone.as_ref().map(Zone::name), want, "{name}");
        }
        let names = Zone::names();
        assert!(names.len() > 400 && names.iter().all(|name| Zone::named(name).is_some()));
    }

    fn unit() -> impl Strategy<Value = CalendarUnit> {
        prop_oneof![
            Just(CalendarUnit::Day),
            Just(CalendarUnit::Week),
            Just(CalendarUnit::Month)
        ]
    }

    proptest! {
        #[test]
        fn pieces_follow_each_other_without_a_hole(
            zone in prop::sample::select(Zone::names()),
            unit in unit(),
            at in prop_oneof![
                any::<i64>(),
                // Where clocks changed: the years 1850 to 2100.
                -3_786_912_000_000_000_i64..4_102_444_800_000_000,
                (-40_i64..40, -DAY_US..DAY_US).prop_map(|(n, d)| n * CYCLE_US + d),
            ],
        ) {
            let zone = Zone::named(&zone).expect("one of the names");
            let (start, end) = zone.bounds(unit, at);
            prop_assert!(start <= at && at < end);
            let months = if unit == CalendarUnit::Month { 31 } else { 7 };
            prop_assert!(end - start <= (months + 1) * DAY_US);
            if start > i64::MIN && end < i64::MAX {
                prop_assert_eq!(zone.bounds(unit, start), (start, end));
                prop_assert_eq!(zone.bounds(unit, end - 1), (start, end));
                prop_assert_eq!(zone.bounds(unit, start - 1).1, start);
                prop_assert_eq!(zone.bounds(unit, end).0, end);
            }
        }

        #[test]
        fn a_piece_starts_at_the_first_instant_of_a_date(
            zone in prop::sample::select(Zone::names()),
            at in -3_786_912_000_000_000_i64..4_102_444_800_000_000,
        ) {
            let zone = Zone::named(&zone).expect("one of the names");
            let (start, _) = zone.bounds(CalendarUnit::Day, at);
            let date = |us: i64| zone.zone.to_datetime(Timestamp::from_microsecond(us).expect("near")).date();
            // Also of the hours before, in which a date could have come already.
            for before in [1, 1_800_000_000, 3_600_000_000, 7_200_000_000] {
                prop_assert!(date(start - before) < date(start));
            }
        }

        #[test]
        fn utc_days_are_fixed(at: i64) {
            let (start, end) = Zone::utc().bounds(CalendarUnit::Day, at);
            let want = at.saturating_sub(at.rem_euclid(DAY_US));
            prop_assert_eq!((start, end), (want, want.saturating_add(DAY_US)));
        }
    }

    #[test]
    fn the_ends_of_time_have_a_piece() {
        for zone in [Zone::utc(), Zone::named("Europe/Paris").expect("there")] {
            for at in [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX] {
                let (start, end) = zone.bounds(CalendarUnit::Month, at);
                assert!(start <= at && end >= at, "{at}");
            }
        }
    }
}
