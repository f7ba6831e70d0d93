//! Unsigned LEB128 and zigzag, the numbers of a Data body: the same bytes as
//! postcard writes, so that one table in `wire.md` covers both.
//! Bound: a u64 takes at most [`U64_BYTES_MAX`] bytes.

/// Longest u64.
pub const U64_BYTES_MAX: usize = 10;

/// Writes `value` to the front of `out`; `None` when it does not fit.
pub fn write_u64(out: &mut [u8], mut value: u64) -> Option<usize> {
    // Nearly all numbers on the link are short, and 32-bit chips shift a u64 dearly.
    if let Ok(short) = u32::try_from(value) {
        return write_u32(out, short);
    }
    for (at, byte) in out.iter_mut().enumerate() {
        // The mask keeps seven bits: the cast loses nothing.
        *byte = (value & 0x7F) as u8;
        value >>= 7;
        if value == 0 {
            return Some(at + 1);
        }
        *byte |= 0x80;
    }
    None
}

fn write_u32(out: &mut [u8], mut value: u32) -> Option<usize> {
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = (value & 0x7F) as u8;
        value >>= 7;
        if value == 0 {
            return Some(at + 1);
        }
        *byte |= 0x80;
    }
    None
}

/// Writes `value` at `at` of a buffer that has room for it, and returns the place behind.
///
/// # Panics
/// When it does not.
#[inline]
pub(crate) fn put_u32(out: &mut [u8], at: usize, value: u32) -> usize {
    let (mut at, mut value) = (at, value);
    // Most take two bytes, written as one.
    if (0x80..0x4000).contains(&value) {
        let both = (value & 0x7F | 0x80 | value << 1 & 0x7F00) as u16;
        out[at..at + 2].copy_from_slice(&both.to_le_bytes());
        return at + 2;
    }
    while value >= 0x80 {
        // The mask keeps seven bits: the cast loses nothing.
        out[at] = (value & 0x7F) as u8 | 0x80;
        at += 1;
        value >>= 7;
    }
    out[at] = value as u8;
    at + 1
}

/// Bytes that `value` takes.
#[must_use]
pub fn len_u64(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Takes a number off the front of `bytes`. `None` when it is cut short, over
/// 64 bits, or longer than it need be (so each number has one encoding).
pub fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for at in 0..U64_BYTES_MAX {
        let byte = *bytes.get(at)?;
        let low = u64::from(byte & 0x7F);
        if at == U64_BYTES_MAX - 1 && low > 1 {
            return None;
        }
        value |= low << (7 * at);
        if byte & 0x80 == 0 {
            if byte == 0 && at > 0 {
                return None;
            }
            *bytes = &bytes[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Small magnitudes become small numbers: 0, -1, 1, -2 are 0, 1, 2, 3.
#[must_use]
pub fn zigzag(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)).cast_unsigned()
}

/// Inverse of [`zigzag`].
#[must_use]
pub fn unzigzag(value: u32) -> i32 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        for (name, value, length) in [
            ("zero", 0, 1),
            ("last of one byte", 127, 1),
            ("first of two", 128, 2),
            ("last of two", 16_383, 2),
            ("first of three", 16_384, 3),
            ("largest", u64::MAX, 10),
        ] {
            let mut out = [0u8; U64_BYTES_MAX];
            assert_eq!(write_u64(&mut out, value), Some(length), "{name}");
            assert_eq!(len_u64(value), length, "{name}");
            let mut rest = &out[..length];
            assert_eq!(take_u64(&mut rest), Some(value), "{name}");
            assert!(rest.is_empty(), "{name}");
            assert_eq!(
                write_u64(&mut out[..length - 1], value),
                None,
                "{name}: no room"
            );
            assert_eq!(take_u64(&mut &out[..length - 1]), None, "{name}: cut short");
        }
    }

    #[test]
    fn refused() {
        for (name, bytes) in [
            ("longer than need be", &[0x80, 0x00][..]),
            (
                "over 64 bits",
                &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02],
            ),
            ("eleven bytes", &[0x80; 11]),
            ("nothing", &[]),
        ] {
            assert_eq!(take_u64(&mut &bytes[..]), None, "{name}");
        }
    }

    #[test]
    fn zigzag_edges() {
        for (value, coded) in [
            (0, 0),
            (-1, 1),
            (1, 2),
            (-2, 3),
            (i32::MAX, u32::MAX - 1),
            (i32::MIN, u32::MAX),
        ] {
            assert_eq!(zigzag(value), coded);
            assert_eq!(unzigzag(coded), value);
        }
    }

    proptest! {
        #[test]
        fn same_bytes_as_postcard(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let mut ours = [0u8; U64_BYTES_MAX];
            let length = write_u64(&mut ours, value).unwrap();
            let mut theirs = [0u8; U64_BYTES_MAX];
            let theirs = postcard::to_slice(&value, &mut theirs).unwrap();
            prop_assert_eq!(&ours[..length], &theirs[..]);
        }
    }
}
