//! Reading and writing of the integers that block payloads are made of.
//! Reads are bounded by the bytes at hand and never panic.

/// Longest LEB128 form of a u64.
const VARINT_BYTES_MAX: usize = 10;

/// Appends `value` as LEB128: seven bits a byte, low bits first.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    if value < 0x80 {
        return out.push(value as u8);
    }
    let mut bytes = [0; VARINT_BYTES_MAX];
    let mut last = 0;
    while value >= 0x80 {
        bytes[last] = value as u8 | 0x80;
        value >>= 7;
        last += 1;
    }
    bytes[last] = value as u8;
    // All of them at once and the rest off again: room is asked for once, not per byte.
    let len = out.len() + last + 1;
    out.extend_from_slice(&bytes);
    out.truncate(len);
}

/// Length of the LEB128 form of `value`: one byte for each seven bits begun.
#[must_use]
#[inline]
pub fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// A signed value as an unsigned one, so that small magnitudes stay small.
#[must_use]
#[inline]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The signed value of which [`zigzag`] gives `word`.
#[must_use]
#[inline]
pub fn unzigzag(word: u64) -> i64 {
    (word >> 1) as i64 ^ -((word & 1) as i64)
}

/// Appends a signed value in zigzag form.
pub fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

/// Appends a short text: one length byte, then its UTF-8.
///
/// # Panics
/// When the text is over 255 bytes: callers hold texts that are bounded below that.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    let len = u8::try_from(text.len()).expect("names and units are bounded below 256 bytes");
    out.push(len);
    out.extend_from_slice(text.as_bytes());
}

/// Bytes ended early, or held a form that no writer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// Position in the bytes that were read.
    pub position: usize,
}

/// A bounded reader over bytes from the disk or the wire.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.position == self.bytes.len()
    }

    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    #[must_use]
    pub fn malformed(&self) -> Malformed {
        Malformed {
            position: self.position,
        }
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        if count > self.remaining() {
            return Err(self.malformed());
        }
        let taken = &self.bytes[self.position..self.position + count];
        self.position += count;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// One byte.
    ///
    /// # Errors
    /// At the end.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// A LEB128 value.
    ///
    /// # Errors
    /// When it does not end, does not fit 64 bits, or is longer than its value needs.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        match self.bytes.get(self.position) {
            Some(byte) if *byte < 0x80 => {
                self.position += 1;
                Ok(u64::from(*byte))
            }
            Some(_) | None => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for index in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if index == VARINT_BYTES_MAX - 1 && bits > 1 {
                return Err(self.malformed());
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                // A longer form than needed: no writer writes it.
                if byte == 0 {
                    return Err(self.malformed());
                }
                return Ok(value);
            }
        }
        Err(self.malformed())
    }

    /// A zigzag value.
    ///
    /// # Errors
    /// As [`Reader::varint`].
    pub fn zigzag(&mut self) -> Result<i64, Malformed> {
        self.varint().map(unzigzag)
    }

    /// A text with its length byte.
    ///
    /// # Errors
    /// When it is cut or no UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let len = usize::from(self.byte()?);
        let at = self.malformed();
        std::str::from_utf8(self.take(len)?).map_err(|_| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges_of_varints() {
        for (value, bytes) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (16_383, 2),
            (16_384, 3),
            (u64::MAX, 10),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), bytes, "{value}");
            assert_eq!(varint_bytes(value), bytes, "{value}");
            assert_eq!(Reader::new(&out).varint(), Ok(value));
        }
        assert!(Reader::new(&[0x80; 11]).varint().is_err(), "no end");
        let mut too_big = [0xff; 10];
        too_big[9] = 2;
        assert!(Reader::new(&too_big).varint().is_err(), "over 64 bits");
        for longer in [&[0x80, 0][..], &[0xff, 0], &[0xff, 0x80, 0]] {
            assert!(Reader::new(longer).varint().is_err(), "{longer:02x?}");
        }
    }

    proptest! {
        #[test]
        fn integers_come_back(value: u64, signed: i64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(varint_bytes(value), out.len());
            put_zigzag(&mut out, signed);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert_eq!(reader.zigzag(), Ok(signed));
            prop_assert!(reader.is_at_end());
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = Reader::new(&bytes);
            let _ = reader.varint();
            let _ = reader.text();
            let _ = reader.zigzag();
        }
    }
}
