//! What the tables hold, in the order of the log: for export, query and verify.
//!
//! Always holds: all is read as of one moment, and nothing is changed. Bound: FETCH_ROWS
//! rows at a time, and the names of one gateway's series; runs of offsets come one per
//! hole.

use std::collections::BTreeMap;

use forebay_core::payload::{GatewayName, StreamName};
use forebay_core::record::{Series, ValueKind};
use forebay_core::units::{Epoch, EpochNonce, EventTime, LogId, Offset, PartitionId};
use forebay_core::upstream::keys::Source;
use forebay_core::upstream::rows::StoredRow;
use forebay_wire::ids::{BootId, ChannelNo};
use postgres::types::ToSql;
use postgres::{Client, IsolationLevel, Row, Transaction};

use super::super::{Extent, ExtentKind, RowFilter, SinkError};
use super::copy::TIME_MIN;
use super::fault::Place;
use super::limits::{FETCH_ROWS, READ_TIMEOUT};
use super::names::{SCALE_DOUBLE, SourceKey};
use super::stored::{Corrections, device, json_of};
use super::time::PgTime;

/// Why reading ended.
#[derive(Debug)]
pub(super) enum ReadError {
    Server(postgres::Error),
    /// What is there is not what this program writes.
    Bad(String),
}

impl From<postgres::Error> for ReadError {
    fn from(error: postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl ReadError {
    pub(super) fn said(self, place: &Place, doing: &str) -> SinkError {
        match self {
            Self::Server(error) => place.fault(doing, &error),
            Self::Bad(what) => place.said(format!("{doing}: {what}. Was it written by hand?")),
        }
    }
}

/// Offsets stand as numbers with a sign: those from 2^63 on are negative, and the last.
const HALVES: [(i64, i64); 2] = [(0, i64::MAX), (i64::MIN, -1)];

/// All records of one source between two offsets, as the union of the tables. A reading
/// is left out when its series, device or time is not asked for.
const RECORDS: &str = "\
    SELECT \"offset\" AS place, 1::int2 AS kind, \"time\", boot, ordinal, value, series_id, \
        uncertainty_us, quality, NULL::text AS a, NULL::text AS b, NULL::int8 AS n \
    FROM samples WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 \
        AND ($4::int4[] IS NULL OR series_id = ANY($4)) \
        AND ($5::timestamptz IS NULL OR \"time\" >= $5) \
        AND ($6::timestamptz IS NULL OR \"time\" < $6) \
    UNION ALL SELECT \"offset\", 2::int2, \"time\", boot, first_ordinal, NULL, NULL, NULL, NULL, \
        device, reason, count \
    FROM gaps WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 \
    UNION ALL SELECT \"offset\", 3::int2, \"time\", NULL, NULL, NULL, NULL, NULL, NULL, trust, NULL, \
        step_us \
    FROM clocks WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 \
    UNION ALL SELECT \"offset\", 4::int2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \"row\"::text, \
        NULL, NULL \
    FROM rows WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 \
    UNION ALL SELECT \"offset\", 5::int2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, reason, NULL, count \
    FROM missing WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 \
    UNION ALL SELECT \"offset\", 6::int2, \"time\", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        changes_upto \
    FROM table_marks WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 \
    ORDER BY place";

/// Runs of consecutive offsets. An offset that is there twice is in two runs.
const RUNS: &str = "\
    SELECT min(place), count(*) FROM ( \
        SELECT place, place - $2 - row_number() OVER (ORDER BY place) AS run FROM ( \
            SELECT \"offset\" AS place FROM samples \
                WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 \
            UNION ALL SELECT \"offset\" FROM gaps \
                WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 \
            UNION ALL SELECT \"offset\" FROM clocks \
                WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 \
            UNION ALL SELECT \"offset\" FROM table_marks \
                WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 \
            UNION ALL SELECT \"offset\" FROM rows \
                WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 \
        ) AS places \
    ) AS runs GROUP BY run ORDER BY 1";

const MISSING: &str = "SELECT \"offset\", count FROM missing \
    WHERE source_id = $1 AND \"offset\" BETWEEN $2 AND $3 ORDER BY 1";

fn snapshot(client: &mut Client) -> Result<Transaction<'_>, postgres::Error> {
    let mut transaction = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()?;
    let limit = READ_TIMEOUT.as_millis();
    transaction.batch_execute(&format!(
        "SET LOCAL statement_timeout TO {limit}; \
         SET LOCAL idle_in_transaction_session_timeout TO {limit}"
    ))?;
    Ok(transaction)
}

/// Shows rows as [`Sink::rows`](super::super::Sink::rows) says.
pub(super) fn rows(
    client: &mut Client,
    filter: &RowFilter,
    visit: &mut dyn FnMut(StoredRow) -> bool,
) -> Result<(), ReadError> {
    let mut transaction = snapshot(client)?;
    let mut of: Option<(GatewayName, BTreeMap<i32, Series>)> = None;
    for (id, source) in sources(&mut transaction, filter)? {
        let gateway = &source.source.gateway;
        let series = match of.take() {
            Some((name, series)) if name == *gateway => series,
            Some(_) | None => series(&mut transaction, gateway)?,
        };
        let reader = Reader {
            id,
            source: &source,
            series: &series,
            filter,
        };
        let goes_on = reader.read(&mut transaction, visit)?;
        of = Some((gateway.clone(), series));
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// Reads one source.
struct Reader<'a> {
    id: i32,
    source: &'a SourceKey,
    series: &'a BTreeMap<i32, Series>,
    filter: &'a RowFilter,
}

impl Reader<'_> {
    /// Gives whether `visit` wants more.
    fn read(
        &self,
        transaction: &mut Transaction<'_>,
        visit: &mut dyn FnMut(StoredRow) -> bool,
    ) -> Result<bool, ReadError> {
        let wanted = self.wanted_series();
        let from = self.filter.from.map(|time| PgTime(Some(time)));
        // Before PostgreSQL's first time there is one value for all.
        let to = self
            .filter
            .to
            .map(|time| PgTime(Some(time.max(EventTime(TIME_MIN.0 + 1)))));
        for (first, last) in HALVES {
            let parameters: [&(dyn ToSql + Sync); 6] =
                [&self.id, &first, &last, &wanted, &from, &to];
            let portal = transaction.bind(RECORDS, &parameters)?;
            let mut corrections = Corrections::open(transaction, self.id, (first, last))?;
            loop {
                let rows = transaction.query_portal(&portal, FETCH_ROWS)?;
                if rows.is_empty() {
                    break;
                }
                for row in &rows {
                    if !self.show(transaction, row, &mut corrections, visit)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    fn show(
        &self,
        transaction: &mut Transaction<'_>,
        row: &Row,
        corrections: &mut Corrections,
        visit: &mut dyn FnMut(StoredRow) -> bool,
    ) -> Result<bool, ReadError> {
        let place: i64 = row.get(0);
        let correction = corrections.at(transaction, place)?;
        let (json, is_reading) = json_of(row, self.series, correction).ok_or_else(|| {
            ReadError::Bad(format!(
                "the record at offset {} of source {} cannot be read",
                place.cast_unsigned(),
                self.id
            ))
        })?;
        let stored = StoredRow {
            source: self.source.source.clone(),
            epoch: self.source.epoch,
            nonce: self.source.nonce,
            offset: Offset(place.cast_unsigned()),
            json,
        };
        // The server has judged readings but for those before its first time.
        let sure = is_reading && correction.is_none();
        Ok(!(sure || self.filter.takes(&stored)) || visit(stored))
    }

    /// The numbers of the series that are asked for; `None` is all.
    fn wanted_series(&self) -> Option<Vec<i32>> {
        let RowFilter {
            device, channel, ..
        } = self.filter;
        if device.is_none() && channel.is_none() {
            return None;
        }
        let wanted = self.series.iter().filter(|(_, series)| {
            device.is_none_or(|device| device == series.uid)
                && channel.as_ref().is_none_or(|name| **name == *series.name)
        });
        Some(wanted.map(|(id, _)| *id).collect())
    }
}

/// Shows runs of offsets as [`Sink::extents`](super::super::Sink::extents) says.
pub(super) fn extents(
    client: &mut Client,
    filter: &RowFilter,
    visit: &mut dyn FnMut(Extent) -> bool,
) -> Result<(), ReadError> {
    let mut transaction = snapshot(client)?;
    for (id, key) in sources(&mut transaction, filter)? {
        let mut found = Vec::new();
        for (first, last) in HALVES {
            let mut runs = Vec::new();
            for (sql, kind) in [(RUNS, ExtentKind::Rows), (MISSING, ExtentKind::Missing)] {
                for row in transaction.query(sql, &[&id, &first, &last])? {
                    let (first, count): (i64, i64) = (row.get(0), row.get(1));
                    runs.push((first.cast_unsigned(), count.cast_unsigned(), kind));
                }
            }
            runs.sort_unstable();
            found.extend(runs);
        }
        for (first, count, kind) in found {
            let extent = Extent {
                source: key.source.clone(),
                epoch: key.epoch,
                nonce: key.nonce,
                first: Offset(first),
                count,
                kind,
            };
            if !visit(extent) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The sources that are asked for, in order.
fn sources(
    transaction: &mut Transaction<'_>,
    filter: &RowFilter,
) -> Result<Vec<(i32, SourceKey)>, ReadError> {
    let sql = "SELECT source_id, gateway, log_id, stream, partition, epoch, nonce FROM sources \
               WHERE ($1::text IS NULL OR gateway = $1) AND ($2::text IS NULL OR stream = $2) \
               ORDER BY gateway, log_id, stream, partition, epoch, nonce";
    let gateway = filter.gateway.as_ref().map(GatewayName::as_str);
    let stream = filter.stream.as_ref().map(StreamName::as_str);
    let rows = transaction.query(sql, &[&gateway, &stream])?;
    let source = |row: &Row| {
        let id: i32 = row.get(0);
        let key = source_key(row);
        key.map(|key| (id, key))
            .ok_or_else(|| ReadError::Bad(format!("source {id} cannot be read")))
    };
    rows.iter().map(source).collect()
}

fn source_key(row: &Row) -> Option<SourceKey> {
    Some(SourceKey {
        source: Source {
            gateway: GatewayName::new(row.get::<_, &str>(1)).ok()?,
            log_id: LogId(u128::from_str_radix(row.get(2), 16).ok()?.to_be_bytes()),
            stream: StreamName::new(row.get::<_, &str>(3)).ok()?,
            partition: PartitionId(u16::try_from(row.get::<_, i32>(4)).ok()?),
        },
        epoch: Epoch(u32::try_from(row.get::<_, i64>(5)).ok()?),
        nonce: EpochNonce(u64::from_str_radix(row.get(6), 16).ok()?),
    })
}

/// The series of a gateway by their numbers. Their boot is of no meaning: rows have it.
fn series(
    transaction: &mut Transaction<'_>,
    gateway: &GatewayName,
) -> Result<BTreeMap<i32, Series>, ReadError> {
    let sql = "SELECT series_id, device, channel, unit, channel_no, scale FROM series \
               WHERE gateway = $1";
    let rows = transaction.query(sql, &[&gateway.as_str()])?;
    let series = |row: &Row| {
        let id: i32 = row.get(0);
        let one = one_series(row);
        one.map(|one| (id, one))
            .ok_or_else(|| ReadError::Bad(format!("series {id} cannot be read")))
    };
    rows.iter().map(series).collect()
}

fn one_series(row: &Row) -> Option<Series> {
    let scale: i16 = row.get(5);
    Some(Series {
        uid: device(row.get(1))?,
        boot: BootId(0),
        channel: ChannelNo(u8::try_from(row.get::<_, i16>(4)).ok()?),
        kind: match scale {
            SCALE_DOUBLE => ValueKind::Double,
            scale => ValueKind::Scaled {
                scale: u8::try_from(scale).ok()?,
            },
        },
        name: row.get::<_, &str>(2).into(),
        unit: row.get::<_, &str>(3).into(),
    })
}
