//! One input: NDJSON, or CSV where the first line is its header. Readings go from
//! the bytes into the batch; all else comes out as an event with its place.
//!
//! Bound: that of [`Lines`], and what [`Quick`] remembers of the engine's series.

use std::io;

use forebay_core::engine::{Batch, SeriesId};

use super::line::{self, Header, Line, Reading};
use super::lines::{Found, LINE_BYTES_MAX, Lines, Place};
use super::quick::{Plain, Quick};
use super::source::Source;

/// A source of lines.
pub(super) struct Input {
    /// As errors name it.
    pub(super) name: String,
    lines: Lines,
    format: Format,
    quick: Quick,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Format {
    /// Decided by the first line that is not empty.
    Unknown,
    Json,
    Csv(Header),
}

/// Between two lines of an input, with what its lines are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) place: Place,
    pub(super) format: Format,
}

/// Why [`Input::take`] comes back.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    /// The batch is full.
    Full,
    /// A reading that took the long way.
    Reading(Reading),
    /// A line that is no reading.
    Control(Line),
    /// What is wrong with a line, with its place.
    Bad(String),
    /// The format is known now: NDJSON, which may steer.
    Json,
    /// All that was read is given; [`Input::fill`] reads more.
    Dry,
}

impl Mark {
    /// Before the first line.
    pub(super) fn start() -> Self {
        Self {
            place: Place::default(),
            format: Format::Unknown,
        }
    }
}

impl Input {
    pub(super) fn new(name: String, source: Source) -> Self {
        Self {
            name,
            lines: Lines::new(source),
            format: Format::Unknown,
            quick: Quick::default(),
        }
    }

    /// Takes readings into the batch until it is full or something else comes.
    pub(super) fn take(&mut self, batch: &mut Batch, full: usize) -> Event {
        while batch.len() < full {
            match self.next() {
                Next::Plain(plain) => {
                    batch.push(plain.series, plain.time, plain.value, plain.id);
                }
                Next::Nothing => {}
                Next::Event(event) => return event,
            }
        }
        Event::Full
    }

    /// The next line.
    #[inline]
    fn next(&mut self) -> Next {
        let Some(found) = self.lines.next() else {
            return Next::Event(Event::Dry);
        };
        let plain = match (&found, &self.format) {
            (Found::Line(line), Format::Csv(header)) => self.quick.csv(header, line),
            (Found::Line(line), Format::Json) => self.quick.json(line),
            (Found::TooLong, _) | (_, Format::Unknown) => None,
        };
        match plain {
            Some(plain) => Next::Plain(plain),
            None => self.long_way(),
        }
    }

    /// The line given last, by the whole parser.
    #[cold]
    fn long_way(&mut self) -> Next {
        match said(&self.lines, &mut self.format) {
            Ok(Said::Nothing) => Next::Nothing,
            Ok(Said::Line(Line::Reading(reading))) => Next::Event(Event::Reading(reading)),
            Ok(Said::Line(line)) => Next::Event(Event::Control(line)),
            Ok(Said::Json) => {
                self.lines.again();
                Next::Event(Event::Json)
            }
            Err(what) => Next::Event(Event::Bad(format!("{}: {what}", self.place()))),
        }
    }

    /// Lines of this series may go the short way from now on.
    pub(super) fn learn(&mut self, reading: &Reading, series: SeriesId) {
        self.quick.learn(&reading.device, &reading.channel, series);
    }

    /// Reads more; false at the end.
    ///
    /// # Errors
    /// Those of the source.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        self.lines.fill()
    }

    /// Whether reading more may take long.
    pub(super) fn may_wait(&self) -> bool {
        self.lines.may_wait()
    }

    /// Whether its lines may be control lines.
    pub(super) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// How the place of an error is shown.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.name, self.lines.number())
    }

    /// The number of the line that was read last, from 1.
    pub(super) fn line(&self) -> u64 {
        self.lines.number()
    }

    /// Where it stands; from now on [`Input::go_to`] may come back.
    pub(super) fn mark(&mut self) -> Mark {
        self.lines.keep_from_here();
        Mark {
            place: self.lines.place(),
            format: self.format.clone(),
        }
    }

    /// Bytes that are kept in memory for [`Input::go_to`].
    pub(super) fn kept(&self) -> usize {
        self.lines.kept()
    }

    /// Forgets what is in memory and reads on from a mark.
    ///
    /// # Errors
    /// Those of the source.
    pub(super) fn go_to(&mut self, mark: Mark) -> io::Result<()> {
        self.lines.go_to(mark.place)?;
        self.format = mark.format;
        self.quick = Quick::default();
        Ok(())
    }
}

/// What the next line brought.
enum Next {
    Plain(Plain),
    Nothing,
    Event(Event),
}

/// What a line says.
enum Said {
    Nothing,
    Line(Line),
    /// That all lines are NDJSON.
    Json,
}

fn said(lines: &Lines, format: &mut Format) -> Result<Said, String> {
    let Found::Line(line) = lines.last() else {
        return Err(format!("is longer than {LINE_BYTES_MAX} bytes"));
    };
    let text = std::str::from_utf8(line).map_err(|_| "is not UTF-8".to_owned())?;
    let text = if lines.number() == 1 {
        text.trim_start_matches('\u{feff}')
    } else {
        text
    };
    let text = text.trim();
    if text.is_empty() {
        return Ok(Said::Nothing);
    }
    match format {
        Format::Unknown if text.starts_with('{') => {
            *format = Format::Json;
            Ok(Said::Json)
        }
        Format::Unknown => {
            // A broken first line of NDJSON must not make a CSV of the rest.
            *format = Format::Json;
            *format = Format::Csv(line::csv_header(text)?);
            Ok(Said::Nothing)
        }
        Format::Json => line::json(text).map(Said::Line),
        Format::Csv(header) => line::csv(header, text).map(Said::Line),
    }
}

#[cfg(test)]
mod tests;
