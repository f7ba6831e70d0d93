//! Recorded readings as text to import records: NDJSON, CSV (RFC 4180) and Influx
//! line protocol. Always: a line that does not read is named with its number and
//! the reason, and costs no other line. Bound: one line, see [`limits`]. Knows
//! neither files nor the log.

mod csv;
pub(crate) mod fields;
mod influx;
pub mod limits;
pub(crate) mod lines;
mod ndjson;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::io;

use clap::ValueEnum;
use forebay_core::import::ImportRecord;

pub use self::influx::{InfluxRules, Precision};
use self::limits::LINE_BYTES_MAX;
use self::lines::{Kind, Lines};

/// How recorded readings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object per line
    Ndjson,
    /// A header line, then one reading per record
    Csv,
    /// Influx line protocol
    Influx,
}

/// A line that brought nothing, or not all it could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// From 1.
    pub line: u64,
    /// Reads after the line's number: `has no time`.
    pub why: String,
}

/// What comes next in the input.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// A reading and the number of its line.
    Record(u64, ImportRecord),
    Bad(BadLine),
    End,
}

/// Why an input cannot be read on.
#[derive(Debug)]
pub enum InputError {
    Io(io::Error),
    /// The line, and what is wrong with it: nothing after it would make sense.
    Header(u64, String),
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, " cannot be read: {error}"),
            Self::Header(line, why) => write!(f, "{line}: {why}"),
        }
    }
}

impl std::error::Error for InputError {}

impl From<io::Error> for InputError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The reader of one format.
enum Reader {
    Unknown,
    Ndjson,
    Csv(csv::Csv),
    Influx,
}

/// A source of import records.
pub struct Records {
    lines: Lines,
    reader: Reader,
    rules: InfluxRules,
    buffer: Vec<u8>,
    /// What the last line brought beside what was given.
    more: VecDeque<Next>,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, bytes) = (self.line(), self.bytes());
        write!(f, "Records at line {line}, byte {bytes}")
    }
}

impl Records {
    /// Reads `from`; without a format, its first line tells which it is.
    #[must_use]
    pub fn new(
        from: Box<dyn io::BufRead + Send>,
        format: Option<Format>,
        rules: InfluxRules,
    ) -> Self {
        Self {
            lines: Lines::new(from),
            reader: match format {
                None => Reader::Unknown,
                Some(Format::Ndjson) => Reader::Ndjson,
                Some(Format::Csv) => Reader::Csv(csv::Csv::new()),
                Some(Format::Influx) => Reader::Influx,
            },
            rules,
            buffer: Vec::new(),
            more: VecDeque::new(),
        }
    }

    /// Bytes taken from the input so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lines.bytes()
    }

    /// Number of the last line that was read.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.lines.number()
    }

    /// The next reading or bad line.
    ///
    /// # Errors
    /// When the input fails, or its first line says nothing about the rest.
    pub fn read_next(&mut self) -> Result<Next, InputError> {
        loop {
            if let Some(next) = self.more.pop_front() {
                return Ok(next);
            }
            match self.lines.next(&mut self.buffer)? {
                None => return Ok(Next::End),
                Some(Kind::TooLong) => {
                    return Ok(self.bad(format!("is longer than {LINE_BYTES_MAX} bytes")));
                }
                Some(Kind::Whole) => {}
            }
            if self.buffer.last() == Some(&b'\r') {
                self.buffer.pop();
            }
            if self.buffer.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            self.on_line()?;
        }
    }

    fn bad(&self, why: String) -> Next {
        Next::Bad(BadLine {
            line: self.lines.number(),
            why,
        })
    }

    fn on_line(&mut self) -> Result<(), InputError> {
        if matches!(self.reader, Reader::Unknown) {
            self.reader = self.guess()?;
        }
        let line = self.lines.number();
        if let Reader::Csv(csv) = &mut self.reader {
            let said = csv.record(&mut self.buffer, &mut self.lines)?;
            self.more.extend(said.map(|said| next_of(line, said)));
            return Ok(());
        }
        let Ok(text) = std::str::from_utf8(&self.buffer) else {
            self.more.push_back(self.bad(String::from("is not UTF-8")));
            return Ok(());
        };
        match self.reader {
            Reader::Influx => influx::line(text, &self.rules, |said| {
                self.more.push_back(next_of(line, said));
            }),
            Reader::Ndjson | Reader::Csv(_) | Reader::Unknown => {
                self.more.push_back(next_of(line, ndjson::line(text)));
            }
        }
        Ok(())
    }

    /// What the first line with anything in it shows.
    fn guess(&self) -> Result<Reader, InputError> {
        let line = self.lines.number();
        let unclear = || {
            let why = "is neither a JSON object, nor a CSV header with the columns \
                       device,channel,time,value, nor Influx line protocol: give --format";
            InputError::Header(line, why.into())
        };
        let text = std::str::from_utf8(&self.buffer).map_err(|_| unclear())?;
        let text = text.trim_start();
        if text.starts_with('{') {
            Ok(Reader::Ndjson)
        } else if csv::looks_like_header(text) {
            Ok(Reader::Csv(csv::Csv::new()))
        } else if text.starts_with('#') || influx::looks_like_line(text) {
            Ok(Reader::Influx)
        } else {
            Err(unclear())
        }
    }
}

fn next_of(line: u64, said: Result<ImportRecord, String>) -> Next {
    match said {
        Ok(record) => Next::Record(line, record),
        Err(why) => Next::Bad(BadLine { line, why }),
    }
}
