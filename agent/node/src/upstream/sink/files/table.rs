//! Tables of the files sink: which records stand in which, in which columns, and how a
//! record comes back from them.
//!
//! Always holds: what [`Line::write`] wrote, [`stored`] gives back as the row that every
//! sink gives. Bound: one record. Knows no file.

use std::io;
use std::sync::Arc;

use forebay_core::payload::{GatewayName, StreamName, push_row};
use forebay_core::record::{
    ClockRecord, ClockTrust, Figure, GAPS, GapRecord, MISSING, Missing, QUALITIES, ReadingRecord,
    Record, Series, TablesRecord, UNSYNCED_US, ValueKind, gap_name, missing_name, quality_name,
    trust_name,
};
use forebay_core::units::{Epoch, EpochNonce, EventTime, LogId, Offset, PartitionId, Span};
use forebay_core::upstream::keys::Source;
use forebay_core::utc;
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

use crate::export::{Cell, Column, Kind, Table};

/// What stands in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kept {
    Readings,
    Rows,
    Gaps,
    Clocks,
    Missing,
    Tables,
}

/// Columns of a table, behind those that say where a record stands.
macro_rules! placed {
    ($($column:expr),+ $(,)?) => {
        &[
            ("log_id", Kind::Text),
            ("stream", Kind::Text),
            ("partition", Kind::Unsigned),
            ("epoch", Kind::Unsigned),
            ("nonce", Kind::Text),
            ("offset", Kind::Unsigned),
            $($column),+
        ]
    };
}

const READINGS: &[Column] = placed![
    ("device", Kind::Text),
    ("boot", Kind::Unsigned),
    ("ordinal", Kind::Unsigned),
    ("channel", Kind::Text),
    ("time", Kind::Time),
    ("value", Kind::Double),
    ("scale", Kind::MaybeInteger),
    ("unit", Kind::Text),
    ("quality", Kind::Text),
    ("unsynced", Kind::Bool),
    ("uncertainty_us", Kind::MaybeInteger),
];
const ROWS: &[Column] = placed![("record", Kind::Member),];
const GAP_COLUMNS: &[Column] = placed![
    ("gap", Kind::Text),
    ("device", Kind::Text),
    ("boot", Kind::Unsigned),
    ("first_ordinal", Kind::Unsigned),
    ("count", Kind::Unsigned),
    ("time", Kind::Time),
];
const CLOCKS: &[Column] = placed![
    ("clock", Kind::Text),
    ("step_us", Kind::MaybeInteger),
    ("time", Kind::Time),
];
const TABLES: &[Column] = placed![("tables_upto", Kind::Unsigned), ("time", Kind::Time),];
const MISSING_COLUMNS: &[Column] = placed![("missing", Kind::Text), ("count", Kind::Unsigned),];

/// Columns of each table that say where a record stands.
pub(super) const PLACE_COLUMNS: usize = 6;

impl Kept {
    pub(super) const ALL: [Self; 6] = [
        Self::Readings,
        Self::Rows,
        Self::Gaps,
        Self::Clocks,
        Self::Missing,
        Self::Tables,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Readings => "readings",
            Self::Rows => "rows",
            Self::Gaps => "gaps",
            Self::Clocks => "clocks",
            Self::Missing => "missing",
            Self::Tables => "tables",
        }
    }

    /// Whether its folders are those of days.
    pub(super) fn is_dated(self) -> bool {
        self != Self::Missing
    }

    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Readings => READINGS,
            Self::Rows => ROWS,
            Self::Gaps => GAP_COLUMNS,
            Self::Clocks => CLOCKS,
            Self::Missing => MISSING_COLUMNS,
            Self::Tables => TABLES,
        }
    }
}

/// Where a record stands, but for its offset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) source: Source,
    pub(super) epoch: Epoch,
    pub(super) nonce: EpochNonce,
}

/// One record to be written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Line<'a> {
    Record(&'a [Series], &'a Record),
    Row(&'a [u8]),
    /// So many offsets from this one on.
    Missing(Missing, u64),
}

impl Line<'_> {
    pub(super) fn kept(&self) -> Kept {
        match self {
            Self::Record(_, Record::Reading(_)) => Kept::Readings,
            Self::Record(_, Record::Gap(_)) => Kept::Gaps,
            Self::Record(_, Record::Clock(_)) => Kept::Clocks,
            Self::Record(_, Record::Tables(_)) => Kept::Tables,
            Self::Row(_) => Kept::Rows,
            Self::Missing(..) => Kept::Missing,
        }
    }

    /// What its day goes by.
    pub(super) fn time(&self) -> Option<EventTime> {
        match self {
            Self::Record(_, record) => Some(record.time()),
            Self::Row(json) => row_time(json),
            Self::Missing(..) => None,
        }
    }

    /// Writes it into the table that [`Line::kept`] names.
    pub(super) fn write(
        &self,
        run: &RunText,
        offset: Offset,
        to: &mut dyn Table,
    ) -> io::Result<()> {
        let place = run.cells(offset);
        let [a, b, c, d, e, f] = place;
        match self {
            Self::Record(series, Record::Reading(reading)) => {
                write_reading(place, &series[usize::from(reading.series)], reading, to)
            }
            Self::Record(_, Record::Gap(gap)) => to.row(&[
                a,
                b,
                c,
                d,
                e,
                f,
                Cell::Text(gap_name(gap.reason)),
                Cell::Text(&gap.uid.to_string()),
                Cell::Unsigned(gap.boot.0.into()),
                Cell::Unsigned(gap.first.0),
                Cell::Unsigned(gap.count),
                Cell::Time(gap.time),
            ]),
            Self::Record(_, Record::Clock(clock)) => {
                let step = match clock.trust {
                    ClockTrust::Since(step) => Some(step.0),
                    ClockTrust::Yes | ClockTrust::No => None,
                };
                to.row(&[
                    a,
                    b,
                    c,
                    d,
                    e,
                    f,
                    Cell::Text(trust_name(clock.trust)),
                    Cell::MaybeInteger(step),
                    Cell::Time(clock.now),
                ])
            }
            Self::Record(_, Record::Tables(tables)) => to.row(&[
                a,
                b,
                c,
                d,
                e,
                f,
                Cell::Unsigned(tables.upto.0),
                Cell::Time(tables.time),
            ]),
            Self::Row(json) => to.row(&[a, b, c, d, e, f, Cell::Member(json)]),
            Self::Missing(reason, count) => to.row(&[
                a,
                b,
                c,
                d,
                e,
                f,
                Cell::Text(missing_name(*reason)),
                Cell::Unsigned(*count),
            ]),
        }
    }
}

fn write_reading(
    [a, b, c, d, e, f]: [Cell<'_>; PLACE_COLUMNS],
    series: &Series,
    reading: &ReadingRecord,
    to: &mut dyn Table,
) -> io::Result<()> {
    let is_ok = reading.quality == Quality::Ok;
    let figure = Figure {
        value: reading.value,
        kind: series.kind,
    };
    let scale = match series.kind {
        ValueKind::Scaled { scale } => Some(i64::from(scale)),
        ValueKind::Double => None,
    };
    let unsynced = reading.is_unsynced();
    let uncertainty = (!unsynced).then_some(i64::from(reading.uncertainty_us));
    to.row(&[
        a,
        b,
        c,
        d,
        e,
        f,
        Cell::Text(&series.uid.to_string()),
        Cell::Unsigned(series.boot.0.into()),
        Cell::Unsigned(reading.ordinal.0),
        Cell::Text(&series.name),
        Cell::Time(reading.time),
        Cell::Double(figure.to_f64().filter(|_| is_ok)),
        Cell::MaybeInteger(scale),
        Cell::Text(&series.unit),
        Cell::Text(quality_name(reading.quality)),
        Cell::Bool(unsynced),
        Cell::MaybeInteger(uncertainty),
    ])
}

/// The time of an engine's row: the end of its window, or of its reading.
fn row_time(json: &[u8]) -> Option<EventTime> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "another crate's enum")]
    let time = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => utc::parse(text),
        serde_json::Value::Number(micros) => micros.as_i64().map(EventTime),
        _ => None,
    };
    let row: serde_json::Value = serde_json::from_slice(json).ok()?;
    time(&row["end"]).or_else(|| time(&row["time"]))
}

/// A run as the texts of its columns.
#[derive(Debug)]
pub(super) struct RunText {
    log_id: String,
    stream: StreamName,
    partition: PartitionId,
    epoch: Epoch,
    nonce: String,
}

impl RunText {
    pub(super) fn of(run: &Run) -> Self {
        Self {
            log_id: run.source.log_id.to_string(),
            stream: run.source.stream.clone(),
            partition: run.source.partition,
            epoch: run.epoch,
            nonce: run.nonce.to_string(),
        }
    }

    fn cells(&self, offset: Offset) -> [Cell<'_>; PLACE_COLUMNS] {
        [
            Cell::Text(&self.log_id),
            Cell::Text(self.stream.as_str()),
            Cell::Unsigned(self.partition.0.into()),
            Cell::Unsigned(self.epoch.0.into()),
            Cell::Text(&self.nonce),
            Cell::Unsigned(offset.0),
        ]
    }
}

/// A cell as it was read from a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    Null,
    Text(String),
    Unsigned(u64),
    Integer(i64),
    Double(f64),
    Bool(bool),
}

impl Raw {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Unsigned(_) | Self::Integer(_) | Self::Double(_) | Self::Bool(_) => {
                None
            }
        }
    }

    fn unsigned(&self) -> Option<u64> {
        match self {
            Self::Unsigned(n) => Some(*n),
            Self::Integer(n) => u64::try_from(*n).ok(),
            Self::Null | Self::Text(_) | Self::Double(_) | Self::Bool(_) => None,
        }
    }

    fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(n) => Some(*n),
            Self::Unsigned(n) => i64::try_from(*n).ok(),
            Self::Null | Self::Text(_) | Self::Double(_) | Self::Bool(_) => None,
        }
    }

    fn time(&self) -> Option<EventTime> {
        match self {
            Self::Text(text) => utc::parse(text),
            Self::Integer(_) | Self::Unsigned(_) => self.integer().map(EventTime),
            Self::Null | Self::Double(_) | Self::Bool(_) => None,
        }
    }

    fn double(&self) -> Option<f64> {
        match self {
            Self::Double(value) => Some(*value),
            // A whole number in JSON.
            Self::Integer(n) => Some(*n as f64),
            Self::Unsigned(n) => Some(*n as f64),
            Self::Null | Self::Text(_) | Self::Bool(_) => None,
        }
    }

    fn small<T: TryFrom<u64>>(&self) -> Option<T> {
        T::try_from(self.unsigned()?).ok()
    }
}

/// Where a row stands: its run and its offset.
pub(super) fn place(gateway: &GatewayName, cells: &[Raw]) -> Option<(Run, Offset)> {
    let [log_id, stream, partition, epoch, nonce, offset, ..] = cells else {
        return None;
    };
    let source = Source {
        gateway: gateway.clone(),
        log_id: LogId(hex(log_id.text()?)?),
        stream: StreamName::new(stream.text()?).ok()?,
        partition: PartitionId(partition.small()?),
    };
    let run = Run {
        source,
        epoch: Epoch(epoch.small()?),
        nonce: EpochNonce(u64::from_be_bytes(hex(nonce.text()?)?)),
    };
    Some((run, Offset(offset.unsigned()?)))
}

/// How many offsets a row stands for.
pub(super) fn count(kept: Kept, cells: &[Raw]) -> Option<u64> {
    match kept {
        Kept::Missing => cells.get(PLACE_COLUMNS + 1)?.unsigned(),
        Kept::Readings | Kept::Rows | Kept::Gaps | Kept::Clocks | Kept::Tables => Some(1),
    }
}

/// The JSON object of a row, as every sink gives it.
pub(super) fn stored(kept: Kept, offset: Offset, cells: &[Raw]) -> Option<Vec<u8>> {
    let rest = cells.get(PLACE_COLUMNS..)?;
    let mut out = Vec::new();
    match (kept, rest) {
        (Kept::Readings, rest) => {
            let (series, reading) = reading(rest)?;
            push_row(&[series], &Record::Reading(reading), &mut out);
        }
        (Kept::Rows, [record]) => out.extend_from_slice(record.text()?.as_bytes()),
        (Kept::Gaps, [gap, device, boot, first, count, time]) => {
            let name = gap.text()?;
            let gap = GapRecord {
                uid: DeviceUid(hex(device.text()?)?),
                boot: BootId(boot.small()?),
                first: Ordinal(first.unsigned()?),
                count: count.unsigned()?,
                reason: GAPS.iter().find(|(_, known)| *known == name)?.0,
                time: time.time()?,
            };
            push_row(&[], &Record::Gap(gap), &mut out);
        }
        (Kept::Clocks, [clock, step, time]) => {
            let trust = match clock.text()? {
                "trusted" => ClockTrust::Yes,
                "untrusted" => ClockTrust::No,
                "corrected" => ClockTrust::Since(Span(step.integer()?)),
                _ => return None,
            };
            let now = time.time()?;
            push_row(&[], &Record::Clock(ClockRecord { now, trust }), &mut out);
        }
        (Kept::Tables, [upto, time]) => {
            let tables = TablesRecord {
                upto: Offset(upto.unsigned()?),
                time: time.time()?,
            };
            push_row(&[], &Record::Tables(tables), &mut out);
        }
        (Kept::Missing, [reason, count]) => {
            let name = reason.text()?;
            let (reason, _) = MISSING.iter().find(|(_, known)| *known == name)?;
            let last = offset.0.checked_add(count.unsigned()?.checked_sub(1)?)?;
            push_missing(*reason, offset, Offset(last), &mut out);
        }
        (Kept::Rows | Kept::Gaps | Kept::Clocks | Kept::Missing | Kept::Tables, _) => {
            return None;
        }
    }
    Some(out)
}

/// As every sink gives it.
pub(super) fn push_missing(reason: Missing, first: Offset, last: Offset, out: &mut Vec<u8>) {
    let text = format!(
        "{{\"missing\":\"{}\",\"first_offset\":{},\"last_offset\":{}}}",
        missing_name(reason),
        first.0,
        last.0
    );
    out.extend_from_slice(text.as_bytes());
}

fn reading(cells: &[Raw]) -> Option<(Series, ReadingRecord)> {
    let [
        device,
        boot,
        ordinal,
        channel,
        time,
        value,
        scale,
        unit,
        quality,
        unsynced,
        uncertainty,
    ] = cells
    else {
        return None;
    };
    let kind = match scale.unsigned() {
        Some(scale) => ValueKind::Scaled {
            scale: u8::try_from(scale).ok()?,
        },
        None => ValueKind::Double,
    };
    let series = Series {
        uid: DeviceUid(hex(device.text()?)?),
        boot: BootId(boot.small()?),
        channel: ChannelNo(0),
        kind,
        name: Arc::from(channel.text()?),
        unit: Arc::from(unit.text()?),
    };
    let name = quality.text()?;
    let quality = QUALITIES.iter().find(|(_, known)| *known == name)?.0;
    let reading = ReadingRecord {
        series: 0,
        ordinal: Ordinal(ordinal.unsigned()?),
        tick: Tick(0),
        time: time.time()?,
        uncertainty_us: match unsynced {
            Raw::Bool(true) => UNSYNCED_US,
            Raw::Bool(false)
            | Raw::Null
            | Raw::Text(_)
            | Raw::Unsigned(_)
            | Raw::Integer(_)
            | Raw::Double(_) => uncertainty.small()?,
        },
        value: match quality {
            Quality::Ok => raw_value(value.double()?, kind)?,
            Quality::Stale
            | Quality::Saturated
            | Quality::BusError
            | Quality::CrcError
            | Quality::Implausible
            | Quality::WarmingUp => 0,
        },
        quality,
    };
    Some((series, reading))
}

/// The value of which [`Figure::to_f64`] gives this double; `None` when there is none.
fn raw_value(value: f64, kind: ValueKind) -> Option<i64> {
    let ValueKind::Scaled { scale } = kind else {
        return Figure::double(value).map(|figure| figure.value);
    };
    let about = (value * 10_f64.powi(scale.into())).round();
    // A product is off by less than one in what it rounds to.
    let near = [about, about - 1.0, about + 1.0];
    let mut near = near.into_iter().map(|near| near as i64);
    near.find(|near| {
        let figure = Figure { value: *near, kind };
        figure.to_f64() == Some(value)
    })
}

/// Bytes from two hex digits each.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.chunks(2)) {
        let both = 16 * digit(pair[0])? + digit(pair[1])?;
        *byte = u8::try_from(both).ok()?;
    }
    Some(out)
}
