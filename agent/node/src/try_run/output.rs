//! What goes to stdout. After a crash the recovered engine gives again what it gave
//! since the last checkpoint: that is compared byte by byte and not written twice.
//!
//! Bound: what is held since the last checkpoint; the caller bounds it by
//! [`Output::held`].

use std::io::{self, Write};

/// Bytes of a line that an error shows at most.
const SHOWN_BYTES: usize = 300;

/// The lines that go out.
pub(super) struct Output<'a> {
    out: &'a mut dyn Write,
    /// What was written since the last checkpoint, when that may be given again.
    held: Option<Vec<u8>>,
    /// How much of it was given again since the last crash.
    confirmed: usize,
}

/// Why something could not be written.
#[derive(Debug)]
pub(super) enum OutputError {
    Io(io::Error),
    /// The recovered engine says something else than the one before: a fault of ours.
    Differs {
        stands: String,
        again: String,
    },
}

impl<'a> Output<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            held: None,
            confirmed: 0,
        }
    }

    /// A checkpoint was made: what was written so far is not given again.
    pub(super) fn checkpoint(&mut self) {
        let held = self.held.get_or_insert_default();
        held.clear();
        self.confirmed = 0;
    }

    /// From here on all since the last checkpoint is given again.
    pub(super) fn crash(&mut self) {
        self.confirmed = 0;
    }

    /// Bytes that were written since the last checkpoint.
    pub(super) fn held(&self) -> usize {
        self.held.as_ref().map_or(0, Vec::len)
    }

    /// Writes whole lines, or compares them with those that stand already.
    ///
    /// # Errors
    /// Those of the writer, and a difference.
    pub(super) fn write(&mut self, lines: &[u8]) -> Result<(), OutputError> {
        let mut new = lines;
        if let Some(held) = &mut self.held {
            let stands = &held[self.confirmed..];
            let again = lines.len().min(stands.len());
            if stands[..again] != lines[..again] {
                return Err(differs(stands, lines));
            }
            self.confirmed += again;
            new = &lines[again..];
            if !new.is_empty() {
                held.extend_from_slice(new);
                self.confirmed = held.len();
            }
        }
        self.out.write_all(new).map_err(OutputError::Io)
    }

    /// All of the crashed engine's lines must have come again by now.
    ///
    /// # Errors
    /// When one did not.
    pub(super) fn recovered(&self) -> Result<(), OutputError> {
        let stands = self.held.as_deref().unwrap_or(&[]);
        match &stands[self.confirmed..] {
            [] => Ok(()),
            missing => Err(differs(missing, b"")),
        }
    }

    /// Hands everything to whoever reads.
    ///
    /// # Errors
    /// Those of the writer.
    pub(super) fn flush(&mut self) -> Result<(), OutputError> {
        self.out.flush().map_err(OutputError::Io)
    }
}

/// The first lines that are not the same.
fn differs(stands: &[u8], again: &[u8]) -> OutputError {
    let mut pairs = stands.split(|b| *b == b'\n');
    let mut others = again.split(|b| *b == b'\n');
    let shown = |line: Option<&[u8]>| {
        let line = line.unwrap_or(b"");
        String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]).into_owned()
    };
    loop {
        let (stands, again) = (pairs.next(), others.next());
        if stands != again || stands.is_none() {
            return OutputError::Differs {
                stands: shown(stands),
                again: shown(again),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(steps: impl FnOnce(&mut Output<'_>) -> Result<(), OutputError>) -> (String, String) {
        let mut bytes = Vec::new();
        let mut output = Output::new(&mut bytes);
        let done = steps(&mut output);
        let error = match done {
            Ok(()) => String::new(),
            Err(OutputError::Differs { stands, again }) => format!("{stands}|{again}"),
            Err(OutputError::Io(e)) => e.to_string(),
        };
        (String::from_utf8(bytes).expect("ASCII"), error)
    }

    #[test]
    fn what_comes_again_is_compared_and_not_written_twice() {
        let (out, error) = written(|output| {
            output.write(b"a\n")?;
            output.checkpoint();
            output.write(b"b\nc\n")?;
            output.crash();
            output.write(b"b\n")?;
            output.write(b"c\nd\n")?;
            output.recovered()?;
            output.write(b"e\n")?;
            assert_eq!(output.held(), 8);
            output.crash();
            output.write(b"b\nc\nd\ne\n")?;
            output.recovered()?;
            output.write(b"f\n")
        });
        assert_eq!((out.as_str(), error.as_str()), ("a\nb\nc\nd\ne\nf\n", ""));
    }

    #[test]
    fn a_difference_is_told() {
        let crashed = |again: &'static [u8]| {
            written(|output| {
                output.checkpoint();
                output.write(b"b\nc\n")?;
                output.crash();
                output.write(again)?;
                output.recovered()
            })
        };
        assert_eq!(crashed(b"b\nx\n"), ("b\nc\n".into(), "c|x".into()));
        assert_eq!(crashed(b"b\n"), ("b\nc\n".into(), "c|".into()));
        assert_eq!(crashed(b"b\nc\n"), ("b\nc\n".into(), String::new()));
    }
}
