//! Which partitions by time there should be.
//!
//! Always holds: partitions do not overlap, whatever sizes were used before; each lies
//! inside of one period, a day or a month of UTC. Bound: PERIODS_BACK_MAX periods
//! before now and PERIODS_AHEAD_MAX after; other times belong to the default partition.
//! Knows no server.

use forebay_core::units::EventTime;
use forebay_core::utc;

use super::limits::{PERIODS_AHEAD_MAX, PERIODS_BACK_MAX};
use crate::config::PartitionSize;

const DAY_US: i64 = 86_400_000_000;

/// Times from `start` up to but not including `end`, microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Period {
    pub start: EventTime,
    pub end: EventTime,
}

impl Period {
    pub(super) fn contains(&self, time: EventTime) -> bool {
        self.start <= time && time < self.end
    }

    /// Name of its table: whatever their sizes, partitions begin at different days.
    pub(super) fn table(&self) -> String {
        let start = date_text(self.start);
        format!("samples_{}", start[..10].replace('-', ""))
    }

    /// Its bounds as SQL, which mean the same in every time zone.
    pub(super) fn bounds(&self) -> String {
        let (start, end) = (date_text(self.start), date_text(self.end));
        format!("FROM ('{start}') TO ('{end}')")
    }

    /// A condition on `time` that holds inside of it.
    pub(super) fn range(&self) -> String {
        let (start, end) = (date_text(self.start), date_text(self.end));
        format!("\"time\" >= '{start}' AND \"time\" < '{end}'")
    }
}

/// A time of the years 1 to 9999 as RFC 3339.
fn date_text(time: EventTime) -> String {
    let mut text = Vec::new();
    utc::write_json(time, &mut text);
    String::from_utf8_lossy(&text).trim_matches('"').to_owned()
}

/// Months since the year 0; `None` outside the years 1 to 9999.
fn month(time: EventTime) -> Option<i64> {
    let text = date_text(time);
    let (year, rest) = text.split_once('-')?;
    let (month, _) = rest.split_once('-')?;
    Some(year.parse::<i64>().ok()? * 12 + month.parse::<i64>().ok()? - 1)
}

fn month_start(month: i64) -> Option<EventTime> {
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    utc::parse(&format!("{year:04}-{month:02}-01T00:00:00Z"))
}

/// Number of the period that holds `time`, and the period.
fn period(size: PartitionSize, time: EventTime) -> Option<(i64, Period)> {
    let (number, start, end) = match size {
        PartitionSize::Day => {
            // Only days that have a text may become names.
            month(time)?;
            let day = time.0.div_euclid(DAY_US);
            let start = |day: i64| EventTime(day * DAY_US);
            (day, start(day), start(day + 1))
        }
        PartitionSize::Month => {
            let month = month(time)?;
            (month, month_start(month)?, month_start(month + 1)?)
        }
    };
    Some((number, Period { start, end }))
}

/// The partition that a reading of this time should be in: `None` is the default one.
/// `have` are those that there are.
pub(super) fn wanted(
    size: PartitionSize,
    time: EventTime,
    now: EventTime,
    have: &[Period],
) -> Option<Period> {
    if let Some(there) = have.iter().find(|there| there.contains(time)) {
        return Some(*there);
    }
    let (number, mut wanted) = period(size, time)?;
    let (today, _) = period(size, now)?;
    if !(-PERIODS_BACK_MAX..=PERIODS_AHEAD_MAX).contains(&(number - today)) {
        return None;
    }
    // Partitions of the other size may take a part of it.
    for other in have {
        if other.end <= time {
            wanted.start = wanted.start.max(other.end);
        } else {
            wanted.end = wanted.end.min(other.start);
        }
    }
    Some(wanted)
}

/// The period after the one of `now`, to be made before it begins.
pub(super) fn next(size: PartitionSize, now: EventTime) -> Option<EventTime> {
    period(size, now).map(|(_, period)| period.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> EventTime {
        utc::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    fn span(start: &str, end: &str) -> Period {
        let at = |day: &str| at(&format!("{day}T00:00:00Z"));
        Period {
            start: at(start),
            end: at(end),
        }
    }

    #[test]
    fn periods_by_size_and_distance() {
        use PartitionSize::{Day, Month};
        let now = at("2026-11-30T12:00:00Z");
        let far = |days: i64| EventTime(now.0 + days * DAY_US);
        let day = |time: EventTime| period(Day, time).unwrap().1;
        for (name, size, time, want) in [
            ("today", Day, now, Some(span("2026-11-30", "2026-12-01"))),
            ("its first", Day, at("2026-11-30T00:00:00Z"), Some(day(now))),
            (
                "its last",
                Day,
                at("2026-11-30T23:59:59.999999Z"),
                Some(day(now)),
            ),
            ("one before", Day, far(-399), Some(day(far(-399)))),
            ("most before", Day, far(-400), Some(day(far(-400)))),
            ("too far before", Day, far(-401), None),
            ("one ahead", Day, far(1), Some(day(far(1)))),
            ("most ahead", Day, far(2), Some(day(far(2)))),
            ("too far ahead", Day, far(3), None),
            (
                "this month",
                Month,
                now,
                Some(span("2026-11-01", "2026-12-01")),
            ),
            (
                "over the year",
                Month,
                far(1),
                Some(span("2026-12-01", "2027-01-01")),
            ),
            (
                "most months before",
                Month,
                at("1993-07-01T00:00:00Z"),
                Some(span("1993-07-01", "1993-08-01")),
            ),
            ("too many before", Month, at("1993-06-30T23:59:59Z"), None),
            (
                "most months ahead",
                Month,
                at("2027-01-31T23:59:59Z"),
                Some(span("2027-01-01", "2027-02-01")),
            ),
            ("too many ahead", Month, at("2027-02-01T00:00:00Z"), None),
            ("year 9999", Day, at("9999-12-31T00:00:00Z"), None),
            ("our last", Month, EventTime(i64::MAX), None),
            ("our first", Day, EventTime(i64::MIN), None),
        ] {
            assert_eq!(wanted(size, time, now, &[]), want, "{name}");
        }
        assert_eq!(next(Day, now), Some(at("2026-12-01T00:00:00Z")));
        assert_eq!(next(Month, now), Some(at("2026-12-01T00:00:00Z")));
        assert_eq!(
            wanted(Day, EventTime(0), EventTime(i64::MAX), &[]),
            None,
            "a clock that cannot be"
        );
    }

    #[test]
    fn sizes_may_change() {
        let now = at("2026-11-30T12:00:00Z");
        let (tenth, twelfth) = (
            span("2026-11-10", "2026-11-11"),
            span("2026-11-12", "2026-11-13"),
        );
        let month = span("2026-10-01", "2026-11-01");
        let have = [month, tenth, twelfth];
        for (name, size, time, want) in [
            ("there already", PartitionSize::Month, "2026-11-10", tenth),
            (
                "between two days",
                PartitionSize::Month,
                "2026-11-11",
                span("2026-11-11", "2026-11-12"),
            ),
            (
                "before them",
                PartitionSize::Month,
                "2026-11-02",
                span("2026-11-01", "2026-11-10"),
            ),
            (
                "behind them",
                PartitionSize::Month,
                "2026-11-13",
                span("2026-11-13", "2026-12-01"),
            ),
            ("a day of a month", PartitionSize::Day, "2026-10-05", month),
        ] {
            let time = at(&format!("{time}T10:00:00Z"));
            assert_eq!(wanted(size, time, now, &have), Some(want), "{name}");
        }
    }

    #[test]
    fn names_and_bounds() {
        let period = span("2026-11-30", "2026-12-01");
        assert_eq!(period.table(), "samples_20261130");
        assert_eq!(
            period.range(),
            "\"time\" >= '2026-11-30T00:00:00Z' AND \"time\" < '2026-12-01T00:00:00Z'"
        );
        assert_eq!(
            period.bounds(),
            "FROM ('2026-11-30T00:00:00Z') TO ('2026-12-01T00:00:00Z')"
        );
    }
}
