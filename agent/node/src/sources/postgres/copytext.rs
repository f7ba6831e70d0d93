//! Rows of `COPY ... TO STDOUT` in its text format: a line per row, tabs between values.
//!
//! Always holds: whatever the bytes are, the answer is the values or an error with its
//! place. Memory is in proportion to the line. Knows no table.

use super::bytes::Malformed;
use super::pgoutput::Value;

/// Values of one row; used again for the next.
#[derive(Debug, Default)]
pub(super) struct Line {
    text: String,
    /// Ends within `text`; `None` is null.
    values: Vec<Option<std::ops::Range<usize>>>,
}

impl Line {
    /// Reads a line, without its end.
    ///
    /// # Errors
    /// A backslash with nothing behind it, or bytes that are not UTF-8.
    pub(super) fn read(&mut self, line: &[u8]) -> Result<(), Malformed> {
        self.text.clear();
        self.values.clear();
        let line = std::str::from_utf8(line).map_err(|error| Malformed {
            at: error.valid_up_to(),
            what: "a row that is not UTF-8",
        })?;
        let mut at = 0;
        for value in line.split('\t') {
            if value == "\\N" {
                self.values.push(None);
            } else {
                let start = self.text.len();
                unescape(value, at, &mut self.text)?;
                self.values.push(Some(start..self.text.len()));
            }
            at += value.len() + 1;
        }
        Ok(())
    }

    pub(super) fn values(&self) -> impl ExactSizeIterator<Item = Value<'_>> {
        self.values.iter().map(|range| match range {
            None => Value::Null,
            Some(range) => Value::Text(&self.text[range.clone()]),
        })
    }
}

fn unescape(value: &str, at: usize, out: &mut String) -> Result<(), Malformed> {
    let mut rest = value;
    while let Some(escape) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..escape]);
        let mut behind = rest[escape + 1..].chars();
        let Some(letter) = behind.next() else {
            let at = at + value.len() - 1;
            let what = "a backslash with nothing behind it";
            return Err(Malformed { at, what });
        };
        out.push(match letter {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            // Numbers of bytes are read by COPY and not written by it.
            other => other,
        });
        rest = behind.as_str();
    }
    out.push_str(rest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(line: &[u8]) -> Result<Vec<Option<String>>, Malformed> {
        let mut row = Line::default();
        row.read(line)?;
        let owned = |value| match value {
            Value::Text(text) => Some(text.to_owned()),
            Value::Null | Value::Unchanged => None,
        };
        Ok(row.values().map(owned).collect())
    }

    #[test]
    fn lines_are_read_as_copy_writes_them() {
        let some = |text: &str| Some(text.to_owned());
        for (name, line, want) in [
            ("one", "a", vec![some("a")]),
            ("empty text", "", vec![some("")]),
            ("null", "\\N\tb", vec![None, some("b")]),
            ("no null", "\\\\N", vec![some("\\N")]),
            (
                "escapes",
                "a\\tb\\nc\\rd\\\\e\\bf\\fg\\v",
                vec![some("a\tb\nc\rd\\e\u{8}f\u{c}g\u{b}")],
            ),
            ("letters", "é\\té", vec![some("é\té")]),
        ] {
            assert_eq!(read(line.as_bytes()), Ok(want), "{name}");
        }
        assert_eq!(read(b"ab\tc\\").map_err(|error| error.at), Err(4));
        assert_eq!(read(b"ab\xff").map_err(|error| error.at), Err(2));
    }

    proptest! {
        #[test]
        fn any_bytes_are_values_or_an_error(line: Vec<u8>) {
            let _ = read(&line);
        }

        #[test]
        fn what_copy_escapes_comes_back(text: String) {
            let mut line = String::new();
            for c in text.chars() {
                match c {
                    '\u{8}' => line += "\\b",
                    '\u{c}' => line += "\\f",
                    '\n' => line += "\\n",
                    '\r' => line += "\\r",
                    '\t' => line += "\\t",
                    '\u{b}' => line += "\\v",
                    '\\' => line += "\\\\",
                    c => line.push(c),
                }
            }
            prop_assert_eq!(read(line.as_bytes()), Ok(vec![Some(text)]));
        }
    }
}
