//! The bytes of one input, that can be read again from a place before: a file goes
//! back, a stream keeps what was read since that place.
//!
//! Bound: what a stream keeps is what [`Source::keep_from`] leaves; the caller bounds
//! it by [`Source::kept`].

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Where bytes come from.
pub(super) enum Source {
    File(File),
    Stream(Stream),
}

/// An input that gives each byte once.
pub(super) struct Stream {
    from: Box<dyn Read>,
    /// Whether bytes are to be kept.
    keeps: bool,
    /// What was read since `kept_from`.
    kept: Vec<u8>,
    kept_from: u64,
    /// Place of the next byte to give, in `kept` or at its end.
    at: u64,
}

impl Source {
    pub(super) fn file(file: File) -> Self {
        Self::File(file)
    }

    pub(super) fn stream(from: Box<dyn Read>) -> Self {
        Self::Stream(Stream {
            from,
            keeps: false,
            kept: Vec::new(),
            kept_from: 0,
            at: 0,
        })
    }

    /// Whether its next bytes may be long in coming.
    pub(super) fn may_wait(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Reads some bytes; 0 at the end.
    pub(super) fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Self::File(file) => file.read(to),
                Self::Stream(stream) => stream.read(to),
            };
            match read {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// From now on bytes from this place on can be read again. The place is not
    /// before an earlier one, and in what was read last where this is the first time.
    pub(super) fn keep_from(&mut self, place: u64, held: &[u8]) {
        let Self::Stream(stream) = self else { return };
        if stream.keeps {
            let gone = usize::try_from(place - stream.kept_from).unwrap_or(usize::MAX);
            stream.kept.drain(..gone.min(stream.kept.len()));
        } else {
            stream.keeps = true;
            stream.kept.clear();
            stream.kept.extend_from_slice(held);
        }
        stream.kept_from = place;
    }

    /// Bytes kept in memory.
    pub(super) fn kept(&self) -> usize {
        match self {
            Self::File(_) => 0,
            Self::Stream(stream) => stream.kept.len(),
        }
    }

    /// Reads on from a place that [`Source::keep_from`] names, or from one after it.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn go_to(&mut self, place: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.seek(SeekFrom::Start(place)).map(|_| ()),
            Self::Stream(stream) => {
                assert!(
                    place >= stream.kept_from,
                    "the place is one that was asked for"
                );
                stream.at = place;
                Ok(())
            }
        }
    }
}

impl Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let skipped = usize::try_from(self.at.saturating_sub(self.kept_from)).unwrap_or(usize::MAX);
        let again = self.kept.get(skipped..).unwrap_or(&[]);
        let read = if self.keeps && !again.is_empty() {
            let len = again.len().min(to.len());
            to[..len].copy_from_slice(&again[..len]);
            len
        } else {
            let len = self.from.read(to)?;
            if self.keeps {
                self.kept.extend_from_slice(&to[..len]);
            }
            len
        };
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(source: &mut Source, len: usize) -> String {
        let mut bytes = vec![0; len];
        let len = source.read(&mut bytes).expect("memory can be read");
        String::from_utf8(bytes[..len].to_vec()).expect("ASCII")
    }

    #[test]
    fn a_stream_is_read_again_from_where_it_keeps() {
        let mut stream = Source::stream(Box::new(Cursor::new("abcdefghij")));
        assert_eq!(read(&mut stream, 4), "abcd");
        assert_eq!(stream.kept(), 0, "nothing is kept unasked");
        stream.keep_from(2, b"cd");
        assert_eq!(read(&mut stream, 3), "efg");
        stream.go_to(2).expect("kept");
        assert_eq!(read(&mut stream, 4), "cdef");
        assert_eq!(read(&mut stream, 9), "g");
        assert_eq!(read(&mut stream, 9), "hij");
        stream.keep_from(9, b"j");
        assert_eq!(stream.kept(), 1);
        stream.go_to(9).expect("kept");
        assert_eq!(read(&mut stream, 9), "j");
        assert_eq!(read(&mut stream, 9), "");
    }
}
