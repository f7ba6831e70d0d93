//! A table as one JSON object per row. A row that is JSON already is written as it
//! is: its members say more than the columns beside it.

use std::io::{self, Write};

use forebay_core::json::write_number;

use super::{Cell, Column, Table};

/// See the module's text.
pub(super) struct Ndjson {
    out: Box<dyn Write + Send>,
    columns: &'static [Column],
    line: Vec<u8>,
}

impl Ndjson {
    pub(super) fn begin(columns: &'static [Column], out: Box<dyn Write + Send>) -> Self {
        Self {
            out,
            columns,
            line: Vec::new(),
        }
    }
}

impl Table for Ndjson {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        for ((name, _), cell) in self.columns.iter().zip(cells) {
            if let Cell::Json(json) = cell {
                line.clear();
                line.extend_from_slice(json);
                break;
            }
            line.push(if line.is_empty() { b'{' } else { b',' });
            write!(line, "\"{name}\":")?;
            match cell {
                Cell::Text(text) => serde_json::to_writer(&mut *line, text)?,
                Cell::Time(time) => forebay_core::utc::write_json(*time, line),
                Cell::Double(None) | Cell::MaybeInteger(None) => {
                    line.extend_from_slice(b"null");
                }
                Cell::Double(Some(value)) => write_number(*value, line),
                Cell::Unsigned(n) => write!(line, "{n}")?,
                Cell::MaybeInteger(Some(n)) => write!(line, "{n}")?,
                Cell::Bool(is) => write!(line, "{is}")?,
                Cell::Member(json) => push_on_one_line(json, line),
                Cell::Json(_) => {}
            }
        }
        if !cells.iter().any(|cell| matches!(cell, Cell::Json(_))) {
            line.push(b'}');
        }
        line.push(b'\n');
        self.out.write_all(line)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()
    }
}

/// Line breaks between members mean as much as spaces do, and inside of texts JSON has
/// none.
fn push_on_one_line(json: &[u8], line: &mut Vec<u8>) {
    line.extend(json.iter().map(|byte| match byte {
        b'\n' | b'\r' => b' ',
        other => *other,
    }));
}
