//! Consistent Overhead Byte Stuffing, in place: takes every 0 out of a frame so
//! that 0 can end it. Only for blocks of at most 254 bytes, where it adds exactly
//! one byte; longer ones are not frames of this link (see [`crate::limits`]).

use core::cell::Cell;

/// Longest block that one code byte can reach over.
pub const BLOCK_BYTES_MAX: usize = 254;

const _: () = assert!(crate::limits::FRAME_BYTES_MAX <= BLOCK_BYTES_MAX);

/// Bytes that no COBS encoder writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotCobs {
    /// Place of the code byte that points beyond the block.
    pub at: usize,
}

/// Encodes `block[1..]`; `block[0]` is room for the first code byte.
///
/// # Panics
/// When `block` is empty or holds more than [`BLOCK_BYTES_MAX`] payload bytes.
pub fn encode_in_place(block: &mut [u8]) {
    assert!(
        !block.is_empty() && block.len() <= 1 + BLOCK_BYTES_MAX,
        "not one COBS block"
    );
    let mut codes = Codes::new(block);
    codes.rest().iter().for_each(|byte| codes.pass(byte));
    codes.end();
}

/// The code byte that is not known yet: for whoever looks at each byte anyway.
/// Cells, because the code is written while the bytes behind it are read.
#[derive(Debug)]
pub(crate) struct Codes<'a> {
    open: &'a Cell<u8>,
    /// What its code would be if the next byte were 0.
    code: u8,
    rest: &'a [Cell<u8>],
}

impl<'a> Codes<'a> {
    /// `block[0]` is room for the first code byte.
    pub(crate) fn new(block: &'a mut [u8]) -> Self {
        let cells = Cell::from_mut(block).as_slice_of_cells();
        let (open, rest) = cells.split_first().expect("a block has room for its code");
        Codes {
            open,
            code: 1,
            rest,
        }
    }

    /// What is to be passed, in order.
    pub(crate) fn rest(&self) -> &'a [Cell<u8>] {
        self.rest
    }

    #[inline]
    pub(crate) fn pass(&mut self, byte: &'a Cell<u8>) {
        if byte.get() == 0 {
            self.end();
            self.open = byte;
            self.code = 0;
        }
        // At most 254 bytes behind the first code: it ends at 255.
        self.code = self.code.wrapping_add(1);
    }

    /// The block ends here.
    #[inline]
    pub(crate) fn end(&self) {
        self.open.set(self.code);
    }
}

/// Decodes `block` (no 0 in it) to its front and returns the payload's length.
///
/// # Errors
/// [`NotCobs`] when a code byte points beyond the end, or a 0 stands in the block.
pub fn decode_in_place(block: &mut [u8]) -> Result<usize, NotCobs> {
    let mut read = 0;
    let mut written = 0;
    while read < block.len() {
        let code = usize::from(block[read]);
        let end = read + code;
        if code == 0 || end > block.len() {
            return Err(NotCobs { at: read });
        }
        // Byte by byte: `copy_within` would bring all of `memmove` into a chip's flash.
        for at in read + 1..end {
            block[written] = block[at];
            written += 1;
        }
        // A full code byte stands for no 0; the last one's 0 is the delimiter.
        if end < block.len() && code != 0xFF {
            block[written] = 0;
            written += 1;
        }
        read = end;
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn encoded(payload: &[u8]) -> Vec<u8> {
        let mut block = vec![0];
        block.extend_from_slice(payload);
        encode_in_place(&mut block);
        block
    }

    #[test]
    fn known_encodings() {
        for (name, payload, want) in [
            ("empty", &[][..], &[1][..]),
            ("one zero", &[0], &[1, 1]),
            ("two zeros", &[0, 0], &[1, 1, 1]),
            ("no zero", &[0x11, 0x22], &[3, 0x11, 0x22]),
            ("zero in the middle", &[0x11, 0, 0x22], &[2, 0x11, 2, 0x22]),
            ("zero at the end", &[0x11, 0], &[2, 0x11, 1]),
        ] {
            assert_eq!(encoded(payload), want, "{name}");
        }
    }

    #[test]
    fn lengths_around_the_limit() {
        for length in [BLOCK_BYTES_MAX - 1, BLOCK_BYTES_MAX] {
            let payload = vec![7u8; length];
            let mut block = encoded(&payload);
            assert_eq!(block.len(), length + 1);
            assert_eq!(decode_in_place(&mut block), Ok(length));
            assert_eq!(&block[..length], &payload[..]);
        }
        let result = std::panic::catch_unwind(|| encoded(&[7u8; BLOCK_BYTES_MAX + 1]));
        assert!(result.is_err(), "one byte over the limit");
    }

    #[test]
    fn bad_blocks() {
        for (name, bytes, at) in [
            ("points beyond the end", &[3, 1][..], 0),
            ("second code beyond the end", &[2, 1, 9], 2),
            ("a zero inside", &[1, 0, 1], 1),
        ] {
            assert_eq!(
                decode_in_place(&mut bytes.to_vec()),
                Err(NotCobs { at }),
                "{name}"
            );
        }
    }

    proptest! {
        #[test]
        fn round_trip(payload in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..=BLOCK_BYTES_MAX)) {
            let mut block = encoded(&payload);
            prop_assert_eq!(block.len(), payload.len() + 1);
            prop_assert!(!block.contains(&0));
            let length = decode_in_place(&mut block).unwrap();
            prop_assert_eq!(&block[..length], &payload[..]);
        }

        #[test]
        fn never_panics(mut block in prop::collection::vec(any::<u8>(), 0..300)) {
            let length = block.len();
            if let Ok(decoded) = decode_in_place(&mut block) {
                prop_assert!(decoded <= length);
            }
        }
    }
}
