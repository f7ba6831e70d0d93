//! Numbered lines out of a byte stream. Always: each line is given once, whole or
//! as too long, and the number is its place in the input. Bound: a line has at most
//! [`LINE_BYTES_MAX`] bytes in memory; of a longer one nothing is held.

use std::io::{self, BufRead};

use super::limits::LINE_BYTES_MAX;

/// A source of lines.
pub(crate) struct Lines {
    reader: Box<dyn BufRead + Send>,
    /// Lines given so far.
    number: u64,
    /// Bytes taken from the reader.
    bytes: u64,
    /// What is read before the reader: lines that were given back.
    again: Vec<u8>,
    again_at: usize,
    /// A line that is too long comes right after those that were given back.
    long_after: bool,
}

/// What kind of line came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It stands in the buffer, without its end.
    Whole,
    /// It was skipped.
    TooLong,
}

impl Lines {
    pub(crate) fn new(reader: Box<dyn BufRead + Send>) -> Self {
        Self {
            reader,
            number: 0,
            bytes: 0,
            again: Vec::new(),
            again_at: 0,
            long_after: false,
        }
    }

    /// Number of the last line, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes taken from the input so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts the next line into `to`, which is cleared first. `None` at the end.
    ///
    /// # Errors
    /// What the reader said.
    pub(crate) fn next(&mut self, to: &mut Vec<u8>) -> io::Result<Option<Kind>> {
        to.clear();
        let kind = if self.again_at < self.again.len() {
            self.next_again(to);
            Some(Kind::Whole)
        } else if std::mem::take(&mut self.long_after) {
            Some(Kind::TooLong)
        } else {
            self.next_read(to)?
        };
        self.number += u64::from(kind.is_some());
        if self.number == 1 && kind == Some(Kind::Whole) {
            strip_mark(to);
        }
        Ok(kind)
    }

    /// Gives lines back, each with its `\n`: they come again, with their numbers.
    /// With `too_long` a line that was too long came after them, and comes again.
    pub(crate) fn give_back(&mut self, lines: &[u8], too_long: bool) {
        let count = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.number -= count + u64::from(too_long);
        self.again.drain(..self.again_at);
        self.again.splice(..0, lines.iter().copied());
        self.again_at = 0;
        self.long_after |= too_long;
    }

    fn next_again(&mut self, to: &mut Vec<u8>) {
        let rest = &self.again[self.again_at..];
        let end = rest.iter().position(|byte| *byte == b'\n');
        to.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
        self.again_at += end.map_or(rest.len(), |end| end + 1);
    }

    fn next_read(&mut self, to: &mut Vec<u8>) -> io::Result<Option<Kind>> {
        let mut kind = Kind::Whole;
        let mut began = false;
        loop {
            let chunk = match self.reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if chunk.is_empty() {
                return Ok(began.then_some(kind));
            }
            began = true;
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            if to.len() + part.len() > LINE_BYTES_MAX {
                kind = Kind::TooLong;
                to.clear();
            } else if kind == Kind::Whole {
                to.extend_from_slice(part);
            }
            let used = end.map_or(chunk.len(), |at| at + 1);
            self.bytes += used as u64;
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(kind));
            }
        }
    }
}

/// Takes the byte order mark off, which some editors write.
fn strip_mark(line: &mut Vec<u8>) {
    if line.starts_with("\u{feff}".as_bytes()) {
        line.drain(.."\u{feff}".len());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    fn all(text: &[u8], buffer: usize) -> Vec<(u64, Option<String>)> {
        let reader = BufReader::with_capacity(buffer, Cursor::new(text.to_vec()));
        let mut lines = Lines::new(Box::new(reader));
        let (mut seen, mut line) = (Vec::new(), Vec::new());
        while let Some(kind) = lines.next(&mut line).expect("memory reads") {
            let text = String::from_utf8_lossy(&line).into_owned();
            seen.push((lines.number(), (kind == Kind::Whole).then_some(text)));
        }
        assert_eq!(lines.bytes(), text.len() as u64);
        seen
    }

    #[test]
    fn lines_are_given_with_their_numbers() {
        for (name, text, want) in [
            ("nothing", "", &[][..]),
            ("one without an end", "a", &["a"][..]),
            ("one with its end", "a\n", &["a"]),
            ("an empty one between", "a\n\nb", &["a", "", "b"]),
            ("a mark first", "\u{feff}a\n\u{feff}b", &["a", "\u{feff}b"]),
            ("an end alone", "\n", &[""]),
        ] {
            for buffer in [1, 2, 64] {
                let seen: Vec<String> = all(text.as_bytes(), buffer)
                    .into_iter()
                    .filter_map(|(_, line)| line)
                    .collect();
                assert_eq!(seen, want, "{name}");
            }
        }
    }

    #[test]
    fn a_line_at_its_limit_and_one_over_it() {
        for (name, len, fits) in [
            ("limit - 1", LINE_BYTES_MAX - 1, true),
            ("limit", LINE_BYTES_MAX, true),
            ("limit + 1", LINE_BYTES_MAX + 1, false),
        ] {
            for end in ["\n", ""] {
                let text = format!("a\n{}{end}", "x".repeat(len));
                let seen = all(text.as_bytes(), 1000);
                assert_eq!(seen.len(), 2, "{name}");
                assert_eq!(seen[1].1.is_some(), fits, "{name}");
            }
        }
    }

    #[test]
    fn lines_that_were_given_back_come_again() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let reader = Cursor::new(format!("1\n2\n3\n{long}\n5").into_bytes());
        let mut lines = Lines::new(Box::new(reader));
        let mut line = Vec::new();
        for _ in 0..4 {
            lines.next(&mut line).expect("memory reads");
        }
        lines.give_back(b"2\n3\n", true);
        assert_eq!(lines.number(), 1);
        lines.next(&mut line).expect("memory reads");
        assert_eq!((lines.number(), line.as_slice()), (2, &b"2"[..]));
        lines.give_back(b"2\n", false);
        let mut seen = Vec::new();
        while let Some(kind) = lines.next(&mut line).expect("memory reads") {
            let text = String::from_utf8_lossy(&line).into_owned();
            seen.push((lines.number(), (kind == Kind::Whole).then_some(text)));
        }
        let whole = |n, text: &str| (n, Some(text.to_owned()));
        assert_eq!(
            seen,
            [whole(2, "2"), whole(3, "3"), (4, None), whole(5, "5")]
        );
    }
}
