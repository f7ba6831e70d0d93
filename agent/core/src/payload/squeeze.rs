//! Payloads that are compressed as a whole, with zstd.
//!
//! Always holds: what comes out of [`squeeze`] is shorter than what went in, or the
//! same. Bound: a frame says how long its content is, and one that says more than
//! MESSAGE_BYTES_MAX, or nothing, is refused before memory is taken for it. Knows no
//! format.

use std::borrow::Cow;

use super::json::{PayloadError, PayloadFault};
use crate::limits::MESSAGE_BYTES_MAX;

/// First bytes of a zstd frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Higher ones took three times as long for 2 % on rows of windows.
const LEVEL: i32 = 3;
/// It pays when so much of it is saved: a part of ten.
const SAVED_TENTHS: usize = 1;

/// `payload` compressed, where that saves a tenth of it or more; else as it is.
pub(super) fn squeeze(payload: Vec<u8>) -> Vec<u8> {
    let limit = payload.len() - (payload.len() * SAVED_TENTHS).div_ceil(10);
    match zstd::bulk::compress(&payload, LEVEL) {
        Ok(short) if short.len() <= limit => short,
        Ok(_) | Err(_) => payload,
    }
}

/// The payload without compression, as it is or as a frame of zstd says.
///
/// # Errors
/// When it is a frame that is damaged, or does not say that its content is at most
/// MESSAGE_BYTES_MAX long, or when the payload itself is longer.
pub fn plain(payload: &[u8]) -> Result<Cow<'_, [u8]>, PayloadError> {
    let fail = |fault| Err(PayloadError { position: 0, fault });
    if payload.len() > MESSAGE_BYTES_MAX {
        return fail(PayloadFault::TooLarge {
            bytes: payload.len(),
            bytes_max: MESSAGE_BYTES_MAX,
        });
    }
    if !payload.starts_with(&MAGIC) {
        return Ok(Cow::Borrowed(payload));
    }
    let Ok(Some(said)) = zstd::zstd_safe::get_frame_content_size(payload) else {
        return fail(PayloadFault::Expected("a zstd frame that says its size"));
    };
    let bytes = usize::try_from(said).unwrap_or(usize::MAX);
    if bytes > MESSAGE_BYTES_MAX {
        return fail(PayloadFault::TooLarge {
            bytes,
            bytes_max: MESSAGE_BYTES_MAX,
        });
    }
    match zstd::bulk::decompress(payload, bytes) {
        Ok(plain) if plain.len() == bytes => Ok(Cow::Owned(plain)),
        Ok(_) | Err(_) => fail(PayloadFault::Expected("an intact zstd frame")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes with nothing in common, then as many zeros.
    fn half_of(mixed: usize, zeros: usize) -> Vec<u8> {
        let mix = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let byte = |n| (mix(mix(n) ^ n) >> 40) as u8;
        let mut out: Vec<u8> = (1..=mixed as u64).map(byte).collect();
        out.resize(mixed + zeros, 0);
        out
    }

    #[test]
    fn what_saves_less_than_a_tenth_stays_as_it_is() {
        for (name, mixed, zeros, pays) in [
            ("nothing", 0, 0, false),
            ("no order", 2000, 0, false),
            ("a twentieth", 1900, 100, false),
            ("a fifth", 1600, 400, true),
            ("all", 0, 2000, true),
        ] {
            let payload = half_of(mixed, zeros);
            let squeezed = squeeze(payload.clone());
            assert_eq!(squeezed != payload, pays, "{name}");
            assert_eq!(plain(&squeezed).expect("our own"), payload, "{name}");
        }
    }
}
