//! `forebay upstream export`: rows of the sink as a file for other programs. A file takes
//! its name only when it is whole.
//!
//! Bound: one row, and in Parquet one row group. NDJSON is each row as it was applied, with
//! its identity; a table of CSV or Parquet holds either readings or the rows of one stream.

use std::io::{self, Write};
use std::path::Path;

use forebay_core::units::EventTime;
use forebay_core::upstream::rows::StoredRow;
use forebay_core::utc;
use serde_json::Value;

use super::sink::{self, RowFilter, Sink, SinkError};
use crate::export::{Cell, Column, Format, Kind, Output, Table, begin};
use crate::progress::Progress;

/// The stream whose rows are readings.
const READINGS: &str = "readings";

const READING_COLUMNS: &[Column] = &[
    ("device", Kind::Text),
    ("channel", Kind::Text),
    ("time", Kind::Time),
    ("value", Kind::Double),
    ("unit", Kind::Text),
    ("quality", Kind::Text),
    ("unsynced", Kind::Bool),
    ("uncertainty_us", Kind::MaybeInteger),
    ("boot", Kind::Unsigned),
    ("ordinal", Kind::Unsigned),
    ("gateway", Kind::Text),
    ("log_id", Kind::Text),
    ("stream", Kind::Text),
    ("partition", Kind::Unsigned),
    ("epoch", Kind::Unsigned),
    ("nonce", Kind::Text),
    ("offset", Kind::Unsigned),
];
const ROW_COLUMNS: &[Column] = &[
    ("gateway", Kind::Text),
    ("log_id", Kind::Text),
    ("stream", Kind::Text),
    ("partition", Kind::Unsigned),
    ("epoch", Kind::Unsigned),
    ("nonce", Kind::Text),
    ("offset", Kind::Unsigned),
    ("record", Kind::Member),
];

/// What is exported, and how.
#[derive(Debug)]
pub(super) struct Export<'a> {
    pub(super) filter: RowFilter,
    pub(super) format: Format,
    /// `-` is standard output.
    pub(super) output: &'a Path,
    pub(super) progress: Progress,
}

/// What was written.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) rows: u64,
    /// Rows of the stream that are no readings, such as gaps; only of tables.
    pub(super) left_out: u64,
}

/// Writes what the sink holds; `None` when whoever reads has seen enough.
///
/// # Errors
/// A sentence: what cannot be read or written.
pub(super) fn export(sink: &mut dyn Sink, export: &Export<'_>) -> Result<Option<Written>, String> {
    let output = Output::new(export.output);
    let cannot =
        |error: io::Error| format!("{}: cannot be written: {error}", export.output.display());
    let out = output.open().map_err(cannot)?;
    let written = match export.format {
        Format::Ndjson => lines(sink, export, out),
        Format::Csv | Format::Parquet => table(sink, export, out),
    };
    let written = match written {
        Ok(written) => written,
        Err(error) => {
            output.give_up();
            if let SinkError::Output(error) = &error
                && error.kind() == io::ErrorKind::BrokenPipe
            {
                return Ok(None);
            }
            return Err(error.to_string());
        }
    };
    output.finish().map_err(cannot)?;
    Ok(Some(written))
}

fn lines(
    sink: &mut dyn Sink,
    export: &Export<'_>,
    mut out: Box<dyn Write + Send>,
) -> Result<Written, SinkError> {
    let mut counted = Counted {
        out: &mut out,
        lines: 0,
        progress: &export.progress,
    };
    sink::export(sink, &export.filter, &mut counted)?;
    let rows = counted.lines;
    out.flush().map_err(SinkError::Output)?;
    Ok(Written { rows, left_out: 0 })
}

/// Counts what is written by its line ends.
struct Counted<'a> {
    out: &'a mut dyn Write,
    lines: u64,
    progress: &'a Progress,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.lines += bytes[..written]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count() as u64;
        self.progress.set(self.lines);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn table(
    sink: &mut dyn Sink,
    export: &Export<'_>,
    out: Box<dyn Write + Send>,
) -> Result<Written, SinkError> {
    let mut filter = export.filter.clone();
    let stream = filter.stream.clone();
    let stream = stream.map_or_else(|| super::query::stream(READINGS), Ok);
    let stream = stream.map_err(SinkError::said)?;
    let are_readings = stream.as_str() == READINGS;
    filter.stream = Some(stream);
    let columns = match are_readings {
        true => READING_COLUMNS,
        false => ROW_COLUMNS,
    };
    let mut table = begin(export.format, columns, out).map_err(SinkError::Output)?;
    let mut written = Written::default();
    let mut done = Ok(());
    sink.rows(&filter, &mut |row| {
        let was = match are_readings {
            true => write_reading(table.as_mut(), &row),
            false => write_row(table.as_mut(), &row).map(Some),
        };
        match was {
            Ok(Some(())) => written.rows += 1,
            Ok(None) => written.left_out += 1,
            Err(error) => done = Err(SinkError::Output(error)),
        }
        export.progress.set(written.rows);
        done.is_ok()
    })?;
    done?;
    table.finish().map_err(SinkError::Output)?;
    Ok(written)
}

fn write_row(table: &mut dyn Table, row: &StoredRow) -> io::Result<()> {
    table.row(&[
        Cell::Text(row.source.gateway.as_str()),
        Cell::Text(&row.source.log_id.to_string()),
        Cell::Text(row.source.stream.as_str()),
        Cell::Unsigned(row.source.partition.0.into()),
        Cell::Unsigned(row.epoch.0.into()),
        Cell::Text(&row.nonce.to_string()),
        Cell::Unsigned(row.offset.0),
        Cell::Member(&row.json),
    ])
}

/// `None` when the row is no reading.
fn write_reading(table: &mut dyn Table, row: &StoredRow) -> io::Result<Option<()>> {
    let Ok(record) = serde_json::from_slice::<Value>(&row.json) else {
        return Ok(None);
    };
    let text = |key: &str| record[key].as_str();
    let number = |key: &str| record[key].as_u64();
    let parts = (
        text("device"),
        text("channel"),
        number("boot"),
        number("ordinal"),
    );
    let (Some(device), Some(channel), Some(boot), Some(ordinal)) = parts else {
        return Ok(None);
    };
    let time = match text("time") {
        Some(text) => utc::parse(text),
        None => record["time"].as_i64().map(EventTime),
    };
    let Some(time) = time else {
        return Ok(None);
    };
    table.row(&[
        Cell::Text(device),
        Cell::Text(channel),
        Cell::Time(time),
        Cell::Double(record["value"].as_f64()),
        Cell::Text(text("unit").unwrap_or_default()),
        Cell::Text(text("quality").unwrap_or("ok")),
        Cell::Bool(record["unsynced"] == true),
        Cell::MaybeInteger(record["uncertainty_us"].as_i64()),
        Cell::Unsigned(boot),
        Cell::Unsigned(ordinal),
        Cell::Text(row.source.gateway.as_str()),
        Cell::Text(&row.source.log_id.to_string()),
        Cell::Text(row.source.stream.as_str()),
        Cell::Unsigned(row.source.partition.0.into()),
        Cell::Unsigned(row.epoch.0.into()),
        Cell::Text(&row.nonce.to_string()),
        Cell::Unsigned(row.offset.0),
    ])?;
    Ok(Some(()))
}
