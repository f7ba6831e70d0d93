//! From a row of the union of all tables back to the record, as JSON.
//!
//! Always holds: a record reads as it came, but for zero bytes in names. Bound:
//! FETCH_ROWS corrections at a time.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::payload::push_row;
use forebay_core::record::{
    ClockRecord, ClockTrust, GAPS, GapRecord, QUALITIES, ReadingRecord, Record, Series,
    TablesRecord, UNSYNCED_US,
};
use forebay_core::units::{EventTime, Offset, Span};
use forebay_wire::ids::{BootId, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;
use postgres::{Portal, Row, Transaction};

use super::encode::figure_of;
use super::limits::FETCH_ROWS;
use super::time::PgTime;

/// What a column could not hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Correction {
    time_us: Option<i64>,
    value: Option<i64>,
    uncertainty_us: Option<i64>,
}

/// The rows of `exact` of one source, in order of their offsets.
pub(super) struct Corrections {
    portal: Portal,
    held: VecDeque<(i64, Correction)>,
    ended: bool,
}

impl Corrections {
    pub(super) fn open(
        transaction: &mut Transaction<'_>,
        source: i32,
        (first, last): (i64, i64),
    ) -> Result<Self, postgres::Error> {
        let sql = "SELECT \"offset\", time_us, value, uncertainty_us FROM exact \
                   WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 ORDER BY 1";
        Ok(Self {
            portal: transaction.bind(sql, &[&source, &first, &last])?,
            held: VecDeque::new(),
            ended: false,
        })
    }

    /// The correction of this place; places are asked for in order.
    pub(super) fn at(
        &mut self,
        transaction: &mut Transaction<'_>,
        place: i64,
    ) -> Result<Option<Correction>, postgres::Error> {
        loop {
            while self.held.front().is_some_and(|(at, _)| *at < place) {
                self.held.pop_front();
            }
            match self.held.front() {
                Some((at, correction)) => return Ok((*at == place).then_some(*correction)),
                None if self.ended => return Ok(None),
                None => {
                    let rows = transaction.query_portal(&self.portal, FETCH_ROWS)?;
                    self.ended = rows.is_empty();
                    self.held.extend(rows.iter().map(|row| {
                        let correction = Correction {
                            time_us: row.get(1),
                            value: row.get(2),
                            uncertainty_us: row.get(3),
                        };
                        (row.get(0), correction)
                    }));
                }
            }
        }
    }
}

/// The record as JSON, and whether it is a reading; `None` when it cannot be read.
pub(super) fn json_of(
    row: &Row,
    series: &BTreeMap<i32, Series>,
    correction: Option<Correction>,
) -> Option<(Vec<u8>, bool)> {
    let time = || {
        let stands = row.get::<_, Option<PgTime>>(2).and_then(|time| time.0);
        let exact = correction.and_then(|correction| correction.time_us);
        exact.map(EventTime).or(stands)
    };
    let mut json = Vec::new();
    match row.get::<_, i16>(1) {
        1 => {
            let of = series.get(&row.get::<_, Option<i32>>(6)?)?;
            let reading = reading(row, of, time()?, correction)?;
            let boot = BootId(u32::try_from(row.get::<_, Option<i64>>(3)?).ok()?);
            let of = Series { boot, ..of.clone() };
            push_row(&[of], &Record::Reading(reading), &mut json);
            return Some((json, true));
        }
        2 => push_row(&[], &Record::Gap(gap(row, time()?)?), &mut json),
        3 => push_row(&[], &Record::Clock(clock(row, time()?)?), &mut json),
        4 => json.extend_from_slice(row.get::<_, Option<&str>>(9)?.as_bytes()),
        5 => {
            let first = row.get::<_, i64>(0).cast_unsigned();
            let count = row.get::<_, Option<i64>>(11)?.cast_unsigned();
            let last = first.checked_add(count.checked_sub(1)?)?;
            let reason = row.get::<_, Option<&str>>(9)?;
            json = format!(
                "{{\"missing\":\"{reason}\",\"first_offset\":{first},\"last_offset\":{last}}}"
            )
            .into_bytes();
        }
        6 => {
            let tables = TablesRecord {
                upto: Offset(row.get::<_, Option<i64>>(11)?.cast_unsigned()),
                time: time()?,
            };
            push_row(&[], &Record::Tables(tables), &mut json);
        }
        _ => return None,
    }
    Some((json, false))
}

fn reading(
    row: &Row,
    series: &Series,
    time: EventTime,
    correction: Option<Correction>,
) -> Option<ReadingRecord> {
    let exact = |of: fn(Correction) -> Option<i64>| correction.and_then(of);
    let quality = usize::try_from(row.get::<_, Option<i16>>(8)?).ok()?;
    let (quality, _) = *QUALITIES.get(quality)?;
    let uncertainty_us = match (exact(|c| c.uncertainty_us), row.get::<_, Option<i32>>(7)) {
        (Some(exact), _) => u32::try_from(exact).ok()?,
        (None, Some(us)) => u32::try_from(us).ok()?,
        (None, None) => UNSYNCED_US,
    };
    let value = match (exact(|c| c.value), row.get::<_, Option<f64>>(5)) {
        (Some(exact), _) => exact,
        (None, Some(value)) => figure_of(value, series.kind),
        (None, None) => 0,
    };
    Some(ReadingRecord {
        series: 0,
        ordinal: Ordinal(row.get::<_, Option<i64>>(4)?.cast_unsigned()),
        tick: Tick(0),
        time,
        uncertainty_us,
        value: if quality == Quality::Ok { value } else { 0 },
        quality,
    })
}

fn gap(row: &Row, time: EventTime) -> Option<GapRecord> {
    let name: &str = row.get::<_, Option<&str>>(10)?;
    let (reason, _) = GAPS.iter().find(|(_, said)| *said == name)?;
    Some(GapRecord {
        uid: device(row.get::<_, Option<&str>>(9)?)?,
        boot: BootId(u32::try_from(row.get::<_, Option<i64>>(3)?).ok()?),
        first: Ordinal(row.get::<_, Option<i64>>(4)?.cast_unsigned()),
        count: row.get::<_, Option<i64>>(11)?.cast_unsigned(),
        reason: *reason,
        time,
    })
}

fn clock(row: &Row, now: EventTime) -> Option<ClockRecord> {
    let trust = match (
        row.get::<_, Option<&str>>(9)?,
        row.get::<_, Option<i64>>(11),
    ) {
        ("untrusted", None) => ClockTrust::No,
        ("trusted", None) => ClockTrust::Yes,
        ("corrected", Some(step)) => ClockTrust::Since(Span(step)),
        _ => return None,
    };
    Some(ClockRecord { now, trust })
}

/// Sixteen hex digits.
pub(super) fn device(text: &str) -> Option<DeviceUid> {
    let bytes = u64::from_str_radix(text, 16).ok()?;
    (text.len() == 16).then_some(DeviceUid(bytes.to_be_bytes()))
}
