//! Reads numbers and texts off the bytes of a server's message, each with its place.
//!
//! Always holds: nothing is read behind the end, and every error names the place where
//! what was wanted begins. Knows no message.

use std::fmt;

/// What is wrong with a message, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// Byte of the message, from 0.
    pub at: usize,
    pub what: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

/// A place within a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(all: &'a [u8]) -> Self {
        Self { all, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// An error at the place where the next value would begin.
    pub(super) fn bad(&self, what: &'static str) -> Malformed {
        Malformed { at: self.at, what }
    }

    pub(super) fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(len);
        let found = end.and_then(|end| self.all.get(self.at..end));
        let found = found.ok_or(Malformed { at: self.at, what })?;
        self.at += len;
        Ok(found)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let bytes = self.take(N, what)?;
        Ok(bytes
            .try_into()
            .expect("take gives as many as it was asked"))
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        self.array::<1>(what).map(|[b]| b)
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_be_bytes)
    }

    pub(super) fn i64(&mut self, what: &'static str) -> Result<i64, Malformed> {
        self.array(what).map(i64::from_be_bytes)
    }

    /// A text that ends with a zero byte.
    pub(super) fn text(&mut self, what: &'static str) -> Result<&'a str, Malformed> {
        let rest = &self.all[self.at..];
        let end = memchr::memchr(0, rest).ok_or(self.bad(what))?;
        let text = std::str::from_utf8(&rest[..end]).map_err(|_| self.bad(what))?;
        self.at += end + 1;
        Ok(text)
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.all[self.at..];
        self.at = self.all.len();
        rest
    }

    /// The message ends here.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.at < self.all.len() {
            return Err(self.bad("bytes behind the end of the message"));
        }
        Ok(())
    }
}
