//! Fields of a body, one after another: what every body but Data is made of. Each
//! number has one encoding only. By hand, and not by a serializer: a third of the
//! code on a chip.
//! Bound: the caller's buffer. Knows no message.

use crate::varint;

/// Writes fields; one that does not fit spoils the whole.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    /// Bytes written; `None` once something did not fit.
    used: Option<usize>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Writer { out, used: Some(0) }
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.raw(&[byte]);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.used = self.used.and_then(|used| {
            let end = used + bytes.len();
            self.out.get_mut(used..end)?.copy_from_slice(bytes);
            Some(end)
        });
    }

    pub(crate) fn varint(&mut self, value: u64) {
        self.used = self.used.and_then(|used| {
            let room = self.out.get_mut(used..)?;
            Some(used + varint::write_u64(room, value)?)
        });
    }

    /// A length, then so many bytes.
    pub(crate) fn counted(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.raw(bytes);
    }

    /// Bytes written, if all fit.
    pub(crate) fn finish(self) -> Option<usize> {
        self.used
    }
}

/// Takes fields off the front. `None`: cut short, or outside the range of its type.
/// What every body uses is kept out of line: a chip has no flash to repeat it.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Bytes that were not taken.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    #[inline(never)]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    pub(crate) fn raw(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.raw(N)?.try_into().ok()
    }

    /// One byte, 0 or 1.
    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// A length, then so many bytes of UTF-8, at most `most`.
    pub(crate) fn text(&mut self, most: usize) -> Option<&'a str> {
        core::str::from_utf8(self.counted(most)?).ok()
    }

    /// All that is left.
    pub(crate) fn all(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        varint::take_u64(&mut self.rest)
    }

    #[inline(never)]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.u64()?.try_into().ok()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.u64()?.try_into().ok()
    }

    /// A length, then so many bytes, at most `most`.
    #[inline(never)]
    pub(crate) fn counted(&mut self, most: usize) -> Option<&'a [u8]> {
        let bytes = usize::try_from(self.u64()?).ok()?;
        if bytes > most {
            return None;
        }
        self.raw(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_read_back_and_need_their_room() {
        let fill = |out: &mut [u8]| {
            let mut writer = Writer::new(out);
            writer.byte(7);
            writer.varint(300);
            writer.counted(&[1, 2, 3]);
            writer.raw(&[9, 9]);
            writer.finish()
        };
        let mut out = [0; 10];
        for (room, want) in [(8, None), (9, Some(9)), (10, Some(9))] {
            assert_eq!(fill(&mut out[..room]), want, "{room} bytes");
        }
        let mut reader = Reader::new(&out[..9]);
        assert_eq!(reader.byte(), Some(7));
        assert_eq!(reader.u16(), Some(300));
        assert_eq!(reader.counted(3), Some(&[1, 2, 3][..]));
        assert_eq!((reader.left(), reader.all()), (2, &[9, 9][..]));
        assert_eq!(
            (reader.byte(), reader.u64(), reader.raw(1)),
            (None, None, None)
        );
    }

    #[test]
    fn lengths_and_types_have_limits() {
        for (name, most, want) in [("under", 2, None), ("at", 3, Some(3)), ("over", 4, Some(3))] {
            let taken = Reader::new(&[3, 1, 2, 3]).counted(most);
            assert_eq!(taken.map(<[u8]>::len), want, "{name} the limit");
        }
        assert_eq!(Reader::new(&[3, 1, 2]).counted(9), None, "cut short");
        assert_eq!(Reader::new(&[0xFF, 0xFF, 0x03]).u16(), Some(u16::MAX));
        assert_eq!(Reader::new(&[0x80, 0x80, 0x04]).u16(), None, "over 16 bits");
        assert_eq!(Reader::new(&[2, 0xC3, 0xB8]).text(2), Some("\u{f8}"));
        assert_eq!(Reader::new(&[2, 0xC3, 0x28]).text(2), None, "not UTF-8");
        let bools = [0, 1, 2].map(|byte| Reader::new(&[byte]).bool());
        assert_eq!(bools, [Some(false), Some(true), None]);
        let largest = [0xFF, 0xFF, 0xFF, 0xFF, 0x0F];
        assert_eq!(Reader::new(&largest).u32(), Some(u32::MAX));
        assert_eq!(
            Reader::new(&[0x80, 0x80, 0x80, 0x80, 0x10]).u32(),
            None,
            "over 32 bits"
        );
    }
}
