//! Lines out of a source, in blocks: a line is a slice of the block and is not
//! copied. Knows no format.
//!
//! Bound: a block has [`BLOCK_BYTES`]; a line has at most [`LINE_BYTES_MAX`], a longer
//! one is skipped without being held.

use std::io;
use std::ops::Range;

use memchr::memchr;

use super::source::Source;

/// Longest line of input, without its end.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;
/// Bytes that are read at once.
const BLOCK_BYTES: usize = 256 * 1024;
const _: () = assert!(BLOCK_BYTES > 2 * LINE_BYTES_MAX);

/// The lines of one source.
pub(super) struct Lines {
    source: Source,
    block: Vec<u8>,
    /// What of the block is still to be given.
    from: usize,
    to: usize,
    /// Before it there is no line end, from `from` on.
    searched: usize,
    /// Place of the block's first byte in the source.
    block_at: u64,
    /// Lines given.
    number: u64,
    /// Where the line given last stands in the block.
    last: Range<usize>,
    last_too_long: bool,
    /// The line that comes is too long: its bytes are dropped up to its end.
    too_long: bool,
    ended: bool,
}

/// Between two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// Bytes before it.
    pub(super) bytes: u64,
    /// Lines before it.
    pub(super) lines: u64,
    /// Not quite between two lines: in one that is too long, of which all before it is
    /// dropped.
    pub(super) in_long: bool,
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    Line(&'a [u8]),
    TooLong,
}

impl Lines {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source,
            block: Vec::new(),
            from: 0,
            to: 0,
            searched: 0,
            block_at: 0,
            number: 0,
            last: 0..0,
            last_too_long: false,
            too_long: false,
            ended: false,
        }
    }

    /// The next line of what was read; `None` when [`Lines::fill`] must read more.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Found<'_>> {
        let start = self.from;
        let end = match memchr(b'\n', &self.block[self.searched..self.to]) {
            Some(at) => {
                let end = self.searched + at;
                self.from = end + 1;
                end
            }
            // The last line may have no end.
            None if self.ended && (start < self.to || self.too_long) => {
                self.from = self.to;
                self.to
            }
            None => {
                self.searched = self.to;
                return None;
            }
        };
        self.number += 1;
        self.searched = self.from;
        self.last = start..end;
        self.last_too_long = std::mem::take(&mut self.too_long) || end - start > LINE_BYTES_MAX;
        Some(self.last())
    }

    /// The line given last.
    #[inline]
    pub(super) fn last(&self) -> Found<'_> {
        if self.last_too_long {
            Found::TooLong
        } else {
            Found::Line(&self.block[self.last.clone()])
        }
    }

    /// Gives the last line again. It was not too long.
    pub(super) fn again(&mut self) {
        self.from = self.last.start;
        self.searched = self.from;
        self.number -= 1;
    }

    /// Reads more; false at the end.
    ///
    /// # Errors
    /// Those of the source.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.too_long || self.to - self.from > LINE_BYTES_MAX {
            self.too_long = true;
            self.from = self.to;
        }
        self.block.resize(BLOCK_BYTES, 0);
        // A slow stream must not cost a move per byte.
        if self.from == self.to || self.to == BLOCK_BYTES {
            self.block.copy_within(self.from..self.to, 0);
            self.block_at += self.from as u64;
            self.to -= self.from;
            self.searched = self.to;
            self.from = 0;
        }
        let read = self.source.read(&mut self.block[self.to..])?;
        self.to += read;
        self.ended = read == 0;
        let more = !self.ended || self.to > self.from || self.too_long;
        if !more {
            // `from` and `to` are equal, and may be asked for later.
            self.block_at += self.from as u64;
            (self.from, self.to, self.searched) = (0, 0, 0);
            self.block = Vec::new();
        }
        Ok(more)
    }

    /// The number of the line given last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether reading more may take long.
    pub(super) fn may_wait(&self) -> bool {
        self.source.may_wait()
    }

    /// Before the next line.
    pub(super) fn place(&self) -> Place {
        Place {
            bytes: self.block_at + self.from as u64,
            lines: self.number,
            in_long: self.too_long,
        }
    }

    /// From now on [`Lines::go_to`] may go to this place, which is where it stands now.
    pub(super) fn keep_from_here(&mut self) {
        let held = &self.block[self.from..self.to];
        self.source
            .keep_from(self.block_at + self.from as u64, held);
    }

    /// Bytes that are kept in memory for [`Lines::go_to`].
    pub(super) fn kept(&self) -> usize {
        self.source.kept()
    }

    /// Reads on from there.
    ///
    /// # Errors
    /// Those of the source.
    pub(super) fn go_to(&mut self, place: Place) -> io::Result<()> {
        self.source.go_to(place.bytes)?;
        (self.from, self.to, self.searched, self.last) = (0, 0, 0, 0..0);
        self.block_at = place.bytes;
        self.number = place.lines;
        self.too_long = place.in_long;
        self.ended = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use super::*;

    /// Gives a few bytes at a time.
    struct Drops(Cursor<Vec<u8>>, usize);

    impl Read for Drops {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let len = to.len().min(self.1);
            self.0.read(&mut to[..len])
        }
    }

    fn lines(text: &str, at_once: usize) -> Lines {
        let drops = Drops(Cursor::new(text.into()), at_once);
        Lines::new(Source::stream(Box::new(drops)))
    }

    fn all(lines: &mut Lines) -> Vec<Option<String>> {
        let mut seen = Vec::new();
        loop {
            match lines.next() {
                Some(Found::Line(line)) => {
                    seen.push(Some(String::from_utf8(line.to_vec()).expect("ASCII")));
                    continue;
                }
                Some(Found::TooLong) => {
                    seen.push(None);
                    continue;
                }
                None => {}
            }
            if !lines.fill().expect("memory can be read") {
                return seen;
            }
        }
    }

    #[test]
    fn lines_are_equal_for_all_sizes_of_reads() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        for (name, text, want) in [
            ("nothing", String::new(), vec![]),
            ("no end", "a\nb".into(), vec![Some("a"), Some("b")]),
            (
                "an end",
                "a\n\nb\n".into(),
                vec![Some("a"), Some(""), Some("b")],
            ),
            (
                "at the limit",
                format!("a\n{}\nb", &long[1..]),
                vec![Some("a"), Some(&long[1..]), Some("b")],
            ),
            (
                "over the limit",
                format!("a\n{long}\nb"),
                vec![Some("a"), None, Some("b")],
            ),
            (
                "far over the limit, without an end",
                format!("a\n{}", long.repeat(9)),
                vec![Some("a"), None],
            ),
        ] {
            for at_once in [1, 7, 65_536, 1 << 20] {
                let seen = all(&mut lines(&text, at_once));
                let seen: Vec<Option<&str>> = seen.iter().map(Option::as_deref).collect();
                assert!(seen == want, "{name}, {at_once} at once");
            }
        }
    }

    #[test]
    fn a_place_is_found_again() {
        for at_once in [1, 4, 100] {
            let mut lines = lines("one\ntwo\nthree\nfour\n", at_once);
            while lines.next().is_none() {
                assert!(lines.fill().expect("memory can be read"));
            }
            lines.keep_from_here();
            let place = lines.place();
            assert_eq!(
                place,
                Place {
                    bytes: 4,
                    lines: 1,
                    in_long: false
                }
            );
            let first = all(&mut lines);
            assert_eq!(first.len(), 3);
            lines.go_to(place).expect("kept");
            assert_eq!(all(&mut lines), first);
            assert_eq!(lines.number(), 4);
        }
    }

    #[test]
    fn a_line_is_given_again() {
        let mut lines = lines("a\nb\n", 100);
        assert!(lines.fill().expect("memory can be read"));
        assert_eq!(lines.next(), Some(Found::Line(b"a")));
        lines.again();
        assert_eq!(lines.next(), Some(Found::Line(b"a")));
        assert_eq!(lines.next(), Some(Found::Line(b"b")));
        assert_eq!(lines.number(), 2);
    }
}
