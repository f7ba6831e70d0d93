//! Tables out of the log as files: CSV, NDJSON and Parquet. A table is a list of
//! columns and rows of cells; each format writes any such table. What is written of
//! readings is read back by [`crate::import`].
//!
//! Bound: one row, and in Parquet one row group. Does not know the log; where a
//! table goes, [`Output`] knows alone.

mod csv;
mod ndjson;
mod output;
mod parquet;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use clap::ValueEnum;
use forebay_core::record::quality_name;
use forebay_core::units::{EventTime, Offset, PartitionId};
use forebay_wire::ids::{BootId, DeviceUid, Ordinal};
use forebay_wire::message::Quality;

pub(crate) use output::Output;

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A header, then a record per row (RFC 4180)
    Csv,
    /// One JSON object per row
    Ndjson,
    /// Apache Parquet, compressed with Snappy
    Parquet,
}

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Time,
    /// May be missing.
    Double,
    Unsigned,
    /// May be missing.
    MaybeInteger,
    Bool,
    /// JSON that is the whole row where rows are JSON.
    Json,
    /// JSON that is one member of the row where rows are JSON.
    Member,
}

/// Name and kind of a column.
pub(crate) type Column = (&'static str, Kind);

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell<'a> {
    Text(&'a str),
    Time(EventTime),
    Double(Option<f64>),
    Unsigned(u64),
    MaybeInteger(Option<i64>),
    Bool(bool),
    Json(&'a [u8]),
    Member(&'a [u8]),
}

/// Columns of a table of readings; the first six are what an import reads.
pub(crate) const READING_COLUMNS: &[Column] = &[
    ("device", Kind::Text),
    ("channel", Kind::Text),
    ("time", Kind::Time),
    ("value", Kind::Double),
    ("unit", Kind::Text),
    ("quality", Kind::Text),
    ("uid", Kind::Text),
    ("boot", Kind::Unsigned),
    ("ordinal", Kind::Unsigned),
    ("uncertainty_us", Kind::Unsigned),
    ("partition", Kind::Unsigned),
    ("offset", Kind::Unsigned),
];

/// Columns of a table of result rows.
pub(crate) const LINE_COLUMNS: &[Column] = &[
    ("partition", Kind::Unsigned),
    ("offset", Kind::Unsigned),
    ("time", Kind::Time),
    ("row", Kind::Json),
];

/// A reading as a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub device: &'a str,
    pub channel: &'a str,
    pub unit: &'a str,
    pub time: EventTime,
    /// `None` when the quality is not ok.
    pub value: Option<f64>,
    pub quality: Quality,
    pub uid: DeviceUid,
    pub boot: BootId,
    pub ordinal: Ordinal,
    pub uncertainty_us: u32,
    pub partition: PartitionId,
    pub offset: Offset,
}

impl Reading<'_> {
    /// Writes it, in the order of [`READING_COLUMNS`].
    ///
    /// # Errors
    /// What the output said.
    pub(crate) fn write(&self, to: &mut dyn Table) -> io::Result<()> {
        to.row(&[
            Cell::Text(self.device),
            Cell::Text(self.channel),
            Cell::Time(self.time),
            Cell::Double(self.value),
            Cell::Text(self.unit),
            Cell::Text(quality_name(self.quality)),
            Cell::Text(&self.uid.to_string()),
            Cell::Unsigned(self.boot.0.into()),
            Cell::Unsigned(self.ordinal.0),
            Cell::Unsigned(self.uncertainty_us.into()),
            Cell::Unsigned(self.partition.0.into()),
            Cell::Unsigned(self.offset.0),
        ])
    }
}

/// A table being written.
pub(crate) trait Table {
    /// Adds a row: a cell per column, each of its column's kind.
    ///
    /// # Errors
    /// What the output said.
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()>;

    /// Writes what is still held.
    ///
    /// # Errors
    /// What the output said.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Begins a table.
///
/// # Errors
/// What the output said.
pub(crate) fn begin(
    format: Format,
    columns: &'static [Column],
    out: Box<dyn Write + Send>,
) -> io::Result<Box<dyn Table>> {
    Ok(match format {
        Format::Csv => Box::new(csv::Csv::begin(columns, out)?),
        Format::Ndjson => Box::new(ndjson::Ndjson::begin(columns, out)),
        Format::Parquet => Box::new(parquet::Parquet::begin(columns, out)?),
    })
}

/// A time as text: RFC 3339, or whole microseconds outside the years that it has.
fn time_text(time: EventTime, out: &mut Vec<u8>) {
    let mut json = Vec::new();
    forebay_core::utc::write_json(time, &mut json);
    let quoted = json
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    out.extend_from_slice(quoted.unwrap_or(&json));
}
