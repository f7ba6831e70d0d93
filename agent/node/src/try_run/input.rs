//! Lines out of a file or stdin: NDJSON, or CSV where the first line is its
//! header. Bound: a line has at most [`LINE_BYTES_MAX`]; a longer one is bad and
//! is skipped without being held.

use std::io::{self, BufRead};

use super::line::{self, Header, Line};

/// Longest line of input.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;

/// A source of lines.
pub(super) struct Input {
    /// As errors name it.
    pub(super) name: String,
    reader: Box<dyn BufRead>,
    number: u64,
    format: Format,
    buffer: Vec<u8>,
}

enum Format {
    /// Decided by the first line that is not empty.
    Unknown,
    Json,
    Csv(Header),
}

/// What the next line brought.
pub(super) enum Next {
    Line(Line),
    /// What is wrong with it, with its place.
    Bad(String),
    End,
}

impl Input {
    pub(super) fn new(name: String, reader: Box<dyn BufRead>) -> Self {
        Self {
            name,
            reader,
            number: 0,
            format: Format::Unknown,
            buffer: Vec::new(),
        }
    }

    /// The next line that says something.
    pub(super) fn next(&mut self) -> io::Result<Next> {
        loop {
            self.buffer.clear();
            let whole = read_line(&mut self.reader, &mut self.buffer)?;
            if whole.is_none() && self.buffer.is_empty() {
                return Ok(Next::End);
            }
            self.number += 1;
            let said = match (whole, std::str::from_utf8(&self.buffer)) {
                (Some(false), _) => Err(format!("is longer than {LINE_BYTES_MAX} bytes")),
                (_, Err(_)) => Err("is not UTF-8".into()),
                (_, Ok(text)) => {
                    let text = if self.number == 1 {
                        text.trim_start_matches('\u{feff}')
                    } else {
                        text
                    };
                    said(&mut self.format, text.trim())
                }
            };
            match said {
                Ok(None) => {}
                Ok(Some(line)) => return Ok(Next::Line(line)),
                Err(what) => {
                    return Ok(Next::Bad(format!("{}:{}: {what}", self.name, self.number)));
                }
            }
        }
    }

    /// How the place of an error is shown.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.name, self.number)
    }
}

/// What a text says; `None` for an empty one and for a header.
fn said(format: &mut Format, text: &str) -> Result<Option<Line>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    match format {
        Format::Unknown if text.starts_with('{') => {
            *format = Format::Json;
            line::json(text).map(Some)
        }
        Format::Unknown => {
            // A broken first line of NDJSON must not make a CSV of the rest.
            *format = Format::Json;
            *format = Format::Csv(line::csv_header(text)?);
            Ok(None)
        }
        Format::Json => line::json(text).map(Some),
        Format::Csv(header) => line::csv(header, text).map(Some),
    }
}

/// Appends a line without its end. `Some(true)`: whole; `Some(false)`: too long,
/// skipped; `None`: the input ended without a newline.
fn read_line(reader: &mut dyn BufRead, to: &mut Vec<u8>) -> io::Result<Option<bool>> {
    let mut fits = true;
    loop {
        let chunk = match reader.fill_buf() {
            Ok(chunk) => chunk,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if chunk.is_empty() {
            return Ok(if fits { None } else { Some(false) });
        }
        let end = chunk.iter().position(|b| *b == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        if to.len() + part.len() > LINE_BYTES_MAX {
            fits = false;
            to.clear();
        } else if fits {
            to.extend_from_slice(part);
        }
        let used = end.map_or(chunk.len(), |at| at + 1);
        reader.consume(used);
        if end.is_some() {
            return Ok(Some(fits));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn outcomes(text: &str) -> Vec<String> {
        let mut input = Input::new("in".into(), Box::new(Cursor::new(text.to_owned())));
        let mut seen = Vec::new();
        loop {
            match input.next().expect("memory can be read") {
                Next::Line(_) => seen.push("ok".into()),
                Next::Bad(what) => seen.push(what),
                Next::End => return seen,
            }
        }
    }

    #[test]
    fn both_formats_with_their_line_numbers() {
        let good = r#"{"device":"d","channel":"c","time":1,"value":1}"#;
        let json = outcomes(&format!("\u{feff}{good}\n\n{{}}\n{good}"));
        assert_eq!(json, ["ok", "in:3: has no device", "ok"]);
        let csv = outcomes("device,channel,time,value\r\nd,c,1,1\r\nd,c,1\r\n");
        assert_eq!(csv, ["ok", "in:3: has 3 columns where the header has 4"]);
        assert_eq!(outcomes(""), Vec::<String>::new());
        assert_eq!(outcomes(&format!("garbage\n{good}\n")).len(), 2);
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_whole() {
        for (name, len, fits) in [
            ("limit - 1", LINE_BYTES_MAX - 1, true),
            ("limit", LINE_BYTES_MAX, true),
            ("limit + 1", LINE_BYTES_MAX + 1, false),
        ] {
            let good = r#"{"device":"d","channel":"c","time":1,"value":1}"#;
            let long = format!("{good}{}", " ".repeat(len - good.len()));
            for end in ["\n", ""] {
                let seen = outcomes(&format!("{good}\n{long}{end}"));
                let want = if fits {
                    "ok"
                } else {
                    "in:2: is longer than 65536 bytes"
                };
                assert_eq!(seen, ["ok", want], "{name}");
            }
        }
    }
}
