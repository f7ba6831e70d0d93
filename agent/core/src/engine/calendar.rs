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
