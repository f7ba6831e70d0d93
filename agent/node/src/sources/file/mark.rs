//! How far a file was read, as a text that grows: it goes to the log with the changes,
//! and a start goes on behind it.
//!
//! | part | what |
//! |---|---|
//! | ten digits | number of the file: a path may have named several, one after the other |
//! | twenty digits | bytes of it that were read, to the end of a line |
//! | number | lines of it that were read |
//! | hex | its inode |
//! | number, hex | length and CRC-32C of its first bytes |
//! | text | which events of the database were seen |
//!
//! with slashes between them. An event has the first two, a full stop and its number
//! in the line, and behind a space what the database calls its place.

use forebay_core::effect::SourcePosition;

use super::super::debezium::position::Repeats;
use super::super::limits::HEAD_BYTES_MAX;

/// A file known again by its inode and its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Identity {
    pub(super) inode: u64,
    pub(super) head_len: usize,
    pub(super) head_crc: u32,
}

impl Identity {
    /// Of a file of which `read` bytes were read and that begins with `head`.
    pub(super) fn of(inode: u64, head: &[u8], read: u64) -> Self {
        let read = usize::try_from(read).unwrap_or(usize::MAX);
        let head = &head[..head.len().min(read).min(HEAD_BYTES_MAX)];
        Self {
            inode,
            head_len: head.len(),
            head_crc: crc32c::crc32c(head),
        }
    }

    /// Whether a file that begins with `head` begins as this one did.
    pub(super) fn begins(&self, head: &[u8]) -> bool {
        let begin = head.get(..self.head_len);
        begin.is_some_and(|begin| crc32c::crc32c(begin) == self.head_crc)
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Mark {
    pub(super) file: u32,
    pub(super) offset: u64,
    pub(super) lines: u64,
    pub(super) identity: Identity,
    pub(super) repeats: Repeats,
}

impl Mark {
    /// Where a batch ends.
    pub(super) fn position(&self) -> SourcePosition {
        let Self {
            file,
            offset,
            lines,
            identity,
            repeats,
        } = self;
        let Identity {
            inode,
            head_len,
            head_crc,
        } = identity;
        let seen = repeats.write();
        let text =
            format!("{file:010}/{offset:020}/{lines}/{inode:x}/{head_len}/{head_crc:08x}/{seen}");
        SourcePosition(text.into())
    }

    /// What [`Mark::position`] wrote; `None` for anything else.
    pub(super) fn read(position: &SourcePosition) -> Option<Self> {
        let mut parts = position.0.splitn(7, '/');
        Some(Self {
            file: parts.next()?.parse().ok()?,
            offset: parts.next()?.parse().ok()?,
            lines: parts.next()?.parse().ok()?,
            identity: Identity {
                inode: u64::from_str_radix(parts.next()?, 16).ok()?,
                head_len: parts.next()?.parse().ok()?,
                head_crc: u32::from_str_radix(parts.next()?, 16).ok()?,
            },
            repeats: Repeats::read(parts.next()?),
        })
    }
}

/// Where the events of a line stand that ends at `end`, without their number.
pub(super) fn place(file: u32, end: u64) -> String {
    format!("{file:010}/{end:020}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_read_back_and_grow() {
        let head = vec![7; HEAD_BYTES_MAX + 9];
        let mark = |file, offset: u64| Mark {
            file,
            offset,
            lines: offset / 3,
            identity: Identity::of(0xabc, &head, offset),
            repeats: Repeats::default(),
        };
        let marks = [mark(0, 9), mark(0, 10), mark(0, u64::MAX), mark(1, 0)];
        let texts: Vec<_> = marks.iter().map(Mark::position).collect();
        assert!(texts.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (mark, text) in marks.iter().zip(&texts) {
            assert_eq!(Mark::read(text).as_ref(), Some(mark));
            // What stands in the line that the mark ends behind is not new.
            let last = format!("{}.1 lsn 0/1", place(mark.file, mark.offset));
            assert!(*last < *text.0, "{last} {text:?}");
        }
        assert!(*place(0, 10) > *texts[0].0);
        assert_eq!(marks[2].identity.head_len, HEAD_BYTES_MAX);
        assert_eq!(Mark::read(&SourcePosition("7".into())), None);
    }

    #[test]
    fn a_file_is_known_by_what_was_read_of_it() {
        let identity = Identity::of(1, b"abcdef", 4);
        for (name, head, want) in [
            ("as it was", &b"abcd"[..], true),
            ("grown", b"abcdefgh", true),
            ("shorter", b"abc", false),
            ("another", b"abxdef", false),
        ] {
            assert_eq!(identity.begins(head), want, "{name}");
        }
        assert!(Identity::of(1, b"abc", 0).begins(b""));
    }
}
