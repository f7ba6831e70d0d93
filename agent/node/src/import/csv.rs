//! CSV records, RFC 4180: the `csv` crate's own state machine says where a record
//! and its cells end. A quote that does not close would swallow the rest of the
//! file: then its first line is bad and the lines after it are read anew.
//!
//! Bound: a record has at most [`LINE_BYTES_MAX`] bytes and [`CSV_COLUMNS_MAX`] cells.

use csv_core::{ReadRecordResult, Reader};
use forebay_core::import::ImportRecord;

use super::InputError;
use super::fields;
use super::limits::{CSV_COLUMNS_MAX, LINE_BYTES_MAX};
use super::lines::{Kind, Lines};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Device,
    Channel,
    Time,
    Value,
    Unit,
    Quality,
}

const COLUMNS: [(&str, Column, bool); 6] = [
    ("device", Column::Device, true),
    ("channel", Column::Channel, true),
    ("time", Column::Time, true),
    ("value", Column::Value, true),
    ("unit", Column::Unit, false),
    ("quality", Column::Quality, false),
];

/// Which cell holds what.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Header {
    cells: usize,
    /// In order of [`COLUMNS`].
    places: [Option<usize>; COLUMNS.len()],
}

/// A CSV file being read.
pub(super) struct Csv {
    machine: Reader,
    header: Option<Header>,
    cells: Vec<u8>,
    ends: Vec<usize>,
    /// Lines of the record after its first, each with its end.
    after: Vec<u8>,
}

const UNCLOSED: &str = "has a quote that does not close";

/// How a record ended.
enum Ended {
    Whole,
    Unclosed,
    TooManyCells,
}

impl Csv {
    pub(super) fn new() -> Self {
        Self {
            machine: Reader::new(),
            header: None,
            cells: vec![0; LINE_BYTES_MAX + 2],
            ends: vec![0; CSV_COLUMNS_MAX],
            after: Vec::new(),
        }
    }

    /// Reads the record that starts with the line in `first`, which is used up.
    /// `None` for the header.
    ///
    /// # Errors
    /// When the input fails or the header is none.
    pub(super) fn record(
        &mut self,
        first: &mut Vec<u8>,
        lines: &mut Lines,
    ) -> Result<Option<Result<ImportRecord, String>>, InputError> {
        let line = lines.number();
        let cells = self.cells(first, lines)?;
        let more_lines = lines.number() > line;
        let Some(header) = &self.header else {
            let header = cells.and_then(|count| header(&self.cell_texts(count)?));
            self.header = Some(header.map_err(|why| InputError::Header(line, why))?);
            return Ok(None);
        };
        let said = cells.and_then(|count| reading(header, &self.cell_texts(count)?));
        if said.is_err() && more_lines {
            // A stray quote joined lines that are none of its business.
            lines.give_back(&self.after, false);
        }
        Ok(Some(said))
    }

    /// Splits the record into cells and gives their number. Takes as many lines as
    /// its quotes ask for.
    fn cells(
        &mut self,
        line: &mut Vec<u8>,
        lines: &mut Lines,
    ) -> Result<Result<usize, String>, InputError> {
        self.machine.reset();
        self.after.clear();
        let (mut written, mut ended) = (0, 0);
        let (mut bytes, mut quotes) = (0, 0);
        loop {
            bytes += line.len() + 1;
            quotes += line.iter().filter(|byte| **byte == b'"').count();
            line.push(b'\n');
            match self.feed(line, &mut written, &mut ended) {
                // The machine takes a quote amid a cell for itself; RFC 4180 has none.
                Ended::Whole if quotes % 2 == 1 => return Ok(Err(UNCLOSED.into())),
                Ended::Whole => return Ok(Ok(ended)),
                Ended::TooManyCells => {
                    return Ok(Err(format!("has more than {CSV_COLUMNS_MAX} columns")));
                }
                Ended::Unclosed => {}
            }
            let next = lines.next(line)?;
            let fits = bytes + line.len() < LINE_BYTES_MAX;
            if next == Some(Kind::Whole) {
                self.after.extend_from_slice(line);
                self.after.push(b'\n');
            }
            if next != Some(Kind::Whole) || !fits {
                lines.give_back(&self.after, next == Some(Kind::TooLong));
                self.after.clear();
                return Ok(Err(UNCLOSED.into()));
            }
        }
    }

    fn feed(&mut self, mut line: &[u8], written: &mut usize, ended: &mut usize) -> Ended {
        loop {
            let (result, read, out, ends) = self.machine.read_record(
                line,
                &mut self.cells[*written..],
                &mut self.ends[*ended..],
            );
            line = &line[read..];
            *written += out;
            *ended += ends;
            match result {
                ReadRecordResult::Record | ReadRecordResult::End => return Ended::Whole,
                ReadRecordResult::InputEmpty if line.is_empty() => return Ended::Unclosed,
                ReadRecordResult::InputEmpty => {}
                // The cells of a record have no more bytes than its lines.
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Ended::TooManyCells;
                }
            }
        }
    }

    fn cell_texts(&self, count: usize) -> Result<Vec<&str>, String> {
        let ends = &self.ends[..count];
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let cells = starts.zip(ends).map(|(start, end)| {
            std::str::from_utf8(&self.cells[start..*end]).map_err(|_| "is not UTF-8".to_owned())
        });
        cells.collect()
    }
}

fn header(cells: &[&str]) -> Result<Header, String> {
    let mut places = [None; COLUMNS.len()];
    for ((name, _, needed), place) in COLUMNS.iter().zip(&mut places) {
        let named = |cell: &str| cell.trim().eq_ignore_ascii_case(name);
        let count = cells.iter().filter(|cell| named(cell)).count();
        if count > 1 || (count == 0 && *needed) {
            return Err(format!(
                "is no CSV header: {count} columns {name}; expected device,channel,time,value \
                 and, if there is one, unit and quality"
            ));
        }
        *place = cells.iter().position(|cell| named(cell));
    }
    Ok(Header {
        cells: cells.len(),
        places,
    })
}

fn reading(header: &Header, cells: &[&str]) -> Result<ImportRecord, String> {
    if cells.len() != header.cells {
        return Err(format!(
            "has {} columns where the header has {}",
            cells.len(),
            header.cells
        ));
    }
    let cell = |wanted: Column| {
        let mut columns = COLUMNS.iter().zip(header.places);
        let place = columns.find_map(|((_, column, _), place)| place.filter(|_| *column == wanted));
        place.map_or("", |place| cells[place].trim())
    };
    let needed = |column, name: &str| match cell(column) {
        "" => Err(format!("has no {name}")),
        text => Ok(text),
    };
    ImportRecord::new(
        needed(Column::Device, "device")?,
        needed(Column::Channel, "channel")?,
        cell(Column::Unit),
        fields::time(needed(Column::Time, "time")?)?,
        fields::value(cell(Column::Value))?,
        fields::quality(cell(Column::Quality))?,
    )
}

/// Whether a first line names the columns.
pub(super) fn looks_like_header(line: &str) -> bool {
    let cells: Vec<&str> = line.split(',').map(|cell| cell.trim_matches('"')).collect();
    header(&cells).is_ok()
}
