//! From applied messages to the rows of each table.
//!
//! Always holds: each fresh offset becomes one row of one table, but for offsets that
//! are missing: one row stands for a range. What a column cannot hold exactly stands
//! in `exact` too. No text is made per reading. Bound: the batch's.

use std::borrow::Cow;

use forebay_core::payload::{DataBody, DataMessage};
use forebay_core::record::{
    ClockRecord, ClockTrust, Figure, GapRecord, ReadingRecord, Record, Series, TablesRecord,
    ValueKind, gap_name, missing_name, trust_name,
};
use forebay_core::units::{EventTime, Offset};
use forebay_core::upstream::batch::Applied;
use forebay_core::upstream::ranges::OffsetRange;
use forebay_wire::ids::BootId;
use forebay_wire::message::Quality;
use serde_json::{Value, json};

use super::copy::{CopyRows, TIME_MIN};
use super::names::{Names, SeriesKey, SourceKey};

/// The copies of a batch.
#[derive(Debug)]
pub(super) struct Copies {
    samples: CopyRows,
    gaps: CopyRows,
    clocks: CopyRows,
    tables: CopyRows,
    rows: CopyRows,
    missing: CopyRows,
    exact: CopyRows,
}

/// A name that was resolved before is not known: our error.
#[derive(Debug)]
pub(super) struct Unnamed;

/// The places of a fresh part in its message.
fn places(message: &DataMessage, part: OffsetRange) -> std::ops::Range<usize> {
    let first = message.id.first.0;
    let place = |offset: Offset| {
        usize::try_from(offset.0 - first).expect("a part lies inside of its message")
    };
    place(part.start())..place(part.end())
}

/// The records of a readings message that are new, with their offsets.
pub(super) fn fresh_records(applied: &Applied) -> impl Iterator<Item = (Offset, &Record)> {
    let records: &[Record] = match &applied.message.body {
        DataBody::Readings { records, .. } => records,
        DataBody::Rows(_) | DataBody::Missing(_) => &[],
    };
    let parts = applied.fresh.iter().filter(|_| !records.is_empty());
    parts.flat_map(move |part| {
        let offsets = (part.start().0..).map(Offset);
        offsets.zip(&records[places(&applied.message, *part)])
    })
}

impl Copies {
    /// # Errors
    /// When `names` lacks one of the batch.
    pub(super) fn of(batch: &[Applied], names: &Names) -> Result<Self, Unnamed> {
        let mut copies = Self {
            samples: CopyRows::new(9),
            gaps: CopyRows::new(8),
            clocks: CopyRows::new(5),
            tables: CopyRows::new(4),
            rows: CopyRows::new(3),
            missing: CopyRows::new(4),
            exact: CopyRows::new(5),
        };
        for applied in batch {
            copies.add(applied, names)?;
        }
        Ok(copies)
    }

    fn add(&mut self, applied: &Applied, names: &Names) -> Result<(), Unnamed> {
        let message = &*applied.message;
        let source = names.source(&SourceKey::of(&message.id)).ok_or(Unnamed)?;
        match &message.body {
            DataBody::Readings { series, .. } => {
                let number = |series: &Series| {
                    let key = SeriesKey::of(&message.id.gateway, series);
                    let id = names.series(&key)?;
                    Some(Channel {
                        id,
                        boot: series.boot,
                        kind: series.kind,
                    })
                };
                let series: Option<Vec<_>> = series.iter().map(number).collect();
                let series = series.ok_or(Unnamed)?;
                for (offset, record) in fresh_records(applied) {
                    match record {
                        Record::Reading(reading) => {
                            let of = series.get(usize::from(reading.series)).ok_or(Unnamed)?;
                            self.reading((source, offset), reading, of);
                        }
                        Record::Gap(gap) => self.gap((source, offset), gap),
                        Record::Clock(clock) => self.clock((source, offset), clock),
                        Record::Tables(tables) => self.tables((source, offset), tables),
                    }
                }
            }
            DataBody::Rows(rows) => {
                for part in &applied.fresh {
                    let offsets = (part.start().0..).map(Offset);
                    for (offset, row) in offsets.zip(&rows[places(message, *part)]) {
                        let copy = self.rows.row().i32(source).u64(offset.0);
                        copy.text(&json_text(row));
                    }
                }
            }
            DataBody::Missing(reason) => {
                for part in &applied.fresh {
                    let copy = self.missing.row().i32(source).u64(part.start().0);
                    copy.u64(part.count())
                        .text(missing_name(*reason).as_bytes());
                }
            }
        }
        Ok(())
    }

    fn reading(&mut self, place: (i32, Offset), reading: &ReadingRecord, of: &Channel) {
        let (source, offset) = place;
        let ok = reading.quality == Quality::Ok;
        let figure = Figure {
            value: reading.value,
            kind: of.kind,
        };
        let value = figure.to_f64().filter(|_| ok);
        let uncertainty = (!reading.is_unsynced()).then_some(reading.uncertainty_us);
        self.samples
            .row()
            .time(reading.time)
            .u64(offset.0)
            .i64(i64::from(of.boot.0))
            .u64(reading.ordinal.0)
            .some_f64(value)
            .i32(source)
            .i32(of.id)
            .some_i32(uncertainty.map(|us| i32::try_from(us).unwrap_or(i32::MAX)))
            .i16(i16::from(reading.quality as u8));
        let again = value.map(|value| figure_of(value, of.kind));
        let exact = Exact {
            time_us: too_early(reading.time),
            value: (ok && again != Some(reading.value)).then_some(reading.value),
            uncertainty_us: uncertainty
                .filter(|us| i32::try_from(*us).is_err())
                .map(i64::from),
        };
        self.exact(place, exact);
    }

    fn gap(&mut self, place: (i32, Offset), gap: &GapRecord) {
        let (source, offset) = place;
        self.gaps
            .row()
            .i32(source)
            .u64(offset.0)
            .time(gap.time)
            .text(gap.uid.to_string().as_bytes())
            .i64(i64::from(gap.boot.0))
            .u64(gap.first.0)
            .u64(gap.count)
            .text(gap_name(gap.reason).as_bytes());
        self.exact(place, Exact::time(gap.time));
    }

    fn clock(&mut self, place: (i32, Offset), clock: &ClockRecord) {
        let (source, offset) = place;
        let step = match clock.trust {
            ClockTrust::No | ClockTrust::Yes => None,
            ClockTrust::Since(step) => Some(step.0),
        };
        self.clocks
            .row()
            .i32(source)
            .u64(offset.0)
            .time(clock.now)
            .text(trust_name(clock.trust).as_bytes())
            .some_i64(step);
        self.exact(place, Exact::time(clock.now));
    }

    fn tables(&mut self, place: (i32, Offset), tables: &TablesRecord) {
        let (source, offset) = place;
        self.tables
            .row()
            .i32(source)
            .u64(offset.0)
            .time(tables.time)
            .u64(tables.upto.0);
        self.exact(place, Exact::time(tables.time));
    }

    fn exact(&mut self, (source, offset): (i32, Offset), exact: Exact) {
        if exact == Exact::default() {
            return;
        }
        self.exact
            .row()
            .i32(source)
            .u64(offset.0)
            .some_i64(exact.time_us)
            .some_i64(exact.value)
            .some_i64(exact.uncertainty_us);
    }

    /// The copies that have rows, with the statement that takes them.
    pub(super) fn into_tables(self) -> impl Iterator<Item = (&'static str, CopyRows)> {
        let tables = [
            (
                "COPY samples (\"time\", \"offset\", boot, ordinal, value, source_id, series_id, \
                 uncertainty_us, quality) FROM STDIN (FORMAT binary)",
                self.samples,
            ),
            (
                "COPY gaps (source_id, \"offset\", \"time\", device, boot, first_ordinal, count, \
                 reason) FROM STDIN (FORMAT binary)",
                self.gaps,
            ),
            (
                "COPY clocks (source_id, \"offset\", \"time\", trust, step_us) \
                 FROM STDIN (FORMAT binary)",
                self.clocks,
            ),
            (
                "COPY table_marks (source_id, \"offset\", \"time\", changes_upto) \
                 FROM STDIN (FORMAT binary)",
                self.tables,
            ),
            (
                "COPY rows (source_id, \"offset\", \"row\") FROM STDIN (FORMAT binary)",
                self.rows,
            ),
            (
                "COPY missing (source_id, \"offset\", count, reason) FROM STDIN (FORMAT binary)",
                self.missing,
            ),
            (
                "COPY exact (source_id, \"offset\", time_us, value, uncertainty_us) \
                 FROM STDIN (FORMAT binary)",
                self.exact,
            ),
        ];
        tables.into_iter().filter(|(_, rows)| rows.rows() > 0)
    }
}

/// A series as the rows of one message name it.
struct Channel {
    id: i32,
    boot: BootId,
    kind: ValueKind,
}

/// What columns cannot hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Exact {
    time_us: Option<i64>,
    value: Option<i64>,
    uncertainty_us: Option<i64>,
}

impl Exact {
    fn time(time: EventTime) -> Self {
        Self {
            time_us: too_early(time),
            ..Self::default()
        }
    }
}

/// A time that PostgreSQL does not have.
fn too_early(time: EventTime) -> Option<i64> {
    (time < TIME_MIN).then_some(time.0)
}

/// The value that a column's double was made of, where that can be told: always below
/// 2^51, mostly below 2^53.
pub(super) fn figure_of(value: f64, kind: ValueKind) -> i64 {
    match kind {
        ValueKind::Double => value.to_bits().cast_signed(),
        // Far inside of an i64: SCALED_VALUE_MAX.
        ValueKind::Scaled { scale } => (value * 10_f64.powi(i32::from(scale))).round() as i64,
    }
}

/// A row as the type `json` takes it: JSON without zero bytes. Anything else is kept
/// as a text in an object, as one bad row must not stop all others.
fn json_text(row: &[u8]) -> Cow<'_, [u8]> {
    let good = !row.contains(&0) && serde_json::from_slice::<Value>(row).is_ok();
    if good {
        return Cow::Borrowed(row);
    }
    let text = String::from_utf8_lossy(row).replace('\0', "\u{fffd}");
    Cow::Owned(json!({ "unreadable": text }).to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use forebay_core::record::SCALED_VALUE_MAX;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_that_postgresql_would_refuse() {
        for (name, row, want) in [
            ("good", &br#"{"a": 1}"#[..], r#"{"a": 1}"#),
            ("escaped zero", br#"{"a":"\u0000"}"#, r#"{"a":"\u0000"}"#),
            ("zero byte", b"{\0}", "{\"unreadable\":\"{\u{fffd}}\"}"),
            ("no JSON", b"{", r#"{"unreadable":"{"}"#),
            (
                "no UTF-8",
                b"\"\xff\"",
                "{\"unreadable\":\"\\\"\u{fffd}\\\"\"}",
            ),
        ] {
            let text = String::from_utf8(json_text(row).into_owned()).unwrap();
            assert_eq!(text, want, "{name}");
        }
    }

    proptest! {
        #[test]
        fn values_come_back_from_doubles(
            value in -(1_i64 << 51)..(1_i64 << 51),
            scale in 0..10_u8,
        ) {
            let kind = ValueKind::Scaled { scale };
            let double = Figure { value, kind }.to_f64().unwrap();
            prop_assert_eq!(figure_of(double, kind), value);
        }

        #[test]
        fn large_values_are_told_apart_or_noted(
            value in (1_i64 << 51)..=(SCALED_VALUE_MAX as i64),
            scale in 0..10_u8,
        ) {
            // What does not come back is what `exact` is for: only that it is close.
            let kind = ValueKind::Scaled { scale };
            let double = Figure { value, kind }.to_f64().unwrap();
            prop_assert!((figure_of(double, kind) - value).abs() <= 2);
        }
    }
}
