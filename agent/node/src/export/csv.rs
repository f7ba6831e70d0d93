//! A table as CSV, RFC 4180 with `\n` at the ends of records.

use std::io::{self, Write};

use forebay_core::json::write_number;

use super::{Cell, Column, Table, time_text};
use crate::shell::csv::quoted;

/// See the module's text.
pub(super) struct Csv {
    out: Box<dyn Write + Send>,
    record: Vec<u8>,
}

impl Csv {
    pub(super) fn begin(columns: &[Column], mut out: Box<dyn Write + Send>) -> io::Result<Self> {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        writeln!(out, "{}", names.join(","))?;
        let record = Vec::new();
        Ok(Self { out, record })
    }
}

impl Table for Csv {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        let record = &mut self.record;
        record.clear();
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                record.push(b',');
            }
            match cell {
                Cell::Text(text) => quoted(text.as_bytes(), record),
                Cell::Json(json) | Cell::Member(json) => quoted(json, record),
                Cell::Time(time) => time_text(*time, record),
                Cell::Double(None) => {}
                Cell::Double(Some(value)) => write_number(*value, record),
                Cell::Unsigned(n) => write!(record, "{n}")?,
                Cell::MaybeInteger(Some(n)) => write!(record, "{n}")?,
                Cell::MaybeInteger(None) => {}
                Cell::Bool(is) => write!(record, "{is}")?,
            }
        }
        record.push(b'\n');
        self.out.write_all(record)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()
    }
}
