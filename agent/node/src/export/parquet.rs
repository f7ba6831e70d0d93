//! A table as Parquet: texts as UTF-8 with dictionaries, times as microseconds UTC,
//! values as doubles that may be missing. Bound: one row group of
//! [`GROUP_ROWS_MAX`] rows is held.

use std::io::{self, Write};
use std::sync::Arc;

use ::parquet::basic::Compression;
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;

use super::{Cell, Column, Kind, Table};

/// Rows of one row group.
pub(super) const GROUP_ROWS_MAX: usize = 16 * 1024;

/// The cells of one column that were not written yet.
enum Held {
    Bytes(Vec<ByteArray>),
    Integers(Vec<i64>),
    /// Values, and for each row whether it has one.
    Doubles(Vec<f64>, Vec<i16>),
    /// As doubles.
    MaybeIntegers(Vec<i64>, Vec<i16>),
    Bools(Vec<bool>),
}

/// See the module's text.
pub(super) struct Parquet {
    writer: SerializedFileWriter<Box<dyn Write + Send>>,
    held: Vec<Held>,
    rows: usize,
}

impl Parquet {
    pub(super) fn begin(columns: &[Column], out: Box<dyn Write + Send>) -> io::Result<Self> {
        let schema = parse_message_type(&schema(columns)).map_err(told)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("forebay ", env!("CARGO_PKG_VERSION")).into())
            .build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        let held = columns.iter().map(|(_, kind)| match kind {
            Kind::Text | Kind::Json | Kind::Member => Held::Bytes(Vec::new()),
            Kind::Time | Kind::Unsigned => Held::Integers(Vec::new()),
            Kind::Double => Held::Doubles(Vec::new(), Vec::new()),
            Kind::MaybeInteger => Held::MaybeIntegers(Vec::new(), Vec::new()),
            Kind::Bool => Held::Bools(Vec::new()),
        });
        Ok(Self {
            writer: writer.map_err(told)?,
            held: held.collect(),
            rows: 0,
        })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let mut group = self.writer.next_row_group()?;
        for held in &mut self.held {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            match held {
                Held::Bytes(cells) => {
                    let typed = column.typed::<ByteArrayType>();
                    typed.write_batch(cells, None, None)?;
                    cells.clear();
                }
                Held::Integers(cells) => {
                    let typed = column.typed::<Int64Type>();
                    typed.write_batch(cells, None, None)?;
                    cells.clear();
                }
                Held::Doubles(cells, there) => {
                    let typed = column.typed::<DoubleType>();
                    typed.write_batch(cells, Some(there), None)?;
                    cells.clear();
                    there.clear();
                }
                Held::MaybeIntegers(cells, there) => {
                    let typed = column.typed::<Int64Type>();
                    typed.write_batch(cells, Some(there), None)?;
                    cells.clear();
                    there.clear();
                }
                Held::Bools(cells) => {
                    column.typed::<BoolType>().write_batch(cells, None, None)?;
                    cells.clear();
                }
            }
            column.close()?;
        }
        group.close()?;
        Ok(())
    }
}

fn schema(columns: &[Column]) -> String {
    let fields = columns.iter().map(|(name, kind)| match kind {
        Kind::Text => format!("required binary {name} (STRING);"),
        Kind::Json | Kind::Member => format!("required binary {name} (JSON);"),
        Kind::Time => format!("required int64 {name} (TIMESTAMP(MICROS,true));"),
        Kind::Double => format!("optional double {name};"),
        Kind::Unsigned => format!("required int64 {name} (INTEGER(64,false));"),
        Kind::MaybeInteger => format!("optional int64 {name};"),
        Kind::Bool => format!("required boolean {name};"),
    });
    let fields: Vec<String> = fields.collect();
    format!("message forebay {{ {} }}", fields.join(" "))
}

#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "another crate's enum, which may grow"
)]
fn told(error: ParquetError) -> io::Error {
    match error {
        // The output's own error says more: a full disk, a closed pipe.
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        error => io::Error::other(error),
    }
}

impl Table for Parquet {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        for (held, cell) in self.held.iter_mut().zip(cells) {
            match (held, cell) {
                (Held::Bytes(held), Cell::Text(text)) => held.push((*text).into()),
                (Held::Bytes(held), Cell::Json(json) | Cell::Member(json)) => {
                    held.push(json.to_vec().into());
                }
                (Held::Integers(held), Cell::Time(time)) => held.push(time.0),
                (Held::Integers(held), Cell::Unsigned(n)) => held.push(n.cast_signed()),
                (Held::Doubles(held, there), Cell::Double(value)) => {
                    held.extend(*value);
                    there.push(value.is_some().into());
                }
                (Held::MaybeIntegers(held, there), Cell::MaybeInteger(n)) => {
                    held.extend(*n);
                    there.push(n.is_some().into());
                }
                (Held::Bools(held), Cell::Bool(is)) => held.push(*is),
                (
                    Held::Bytes(_)
                    | Held::Integers(_)
                    | Held::Doubles(..)
                    | Held::MaybeIntegers(..)
                    | Held::Bools(_),
                    _,
                ) => unreachable!("a cell is of its column's kind"),
            }
        }
        self.rows += 1;
        if self.rows == GROUP_ROWS_MAX {
            self.write_group().map_err(told)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.write_group().map_err(told)?;
        self.writer.finish().map_err(told)?;
        self.writer.inner_mut().flush()
    }
}
