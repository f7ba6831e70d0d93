//! Meta entries that speak of the log: a version in front, a CRC behind, so that a
//! value is read whole or not at all. Knows no keys.

use crate::log::bytes::Reader;

/// Key and value of a meta entry. An empty value says that there is none: the store
/// then removes the key.
pub type Entry = (Vec<u8>, Vec<u8>);

/// `bytes`, which begin with their version, with their CRC-32C behind.
#[must_use]
pub fn with_crc(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// What stands between version and CRC; `None` when one of the two is another.
#[must_use]
pub fn checked(version: u8, bytes: &[u8]) -> Option<Reader<'_>> {
    let (rest, crc) = bytes.split_last_chunk::<4>()?;
    let same = crc32c::crc32c(rest) == u32::from_le_bytes(*crc);
    let body = rest.strip_prefix(&[version])?;
    same.then(|| Reader::new(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_whole_or_not_at_all() {
        let good = with_crc(vec![3, 7]);
        assert_eq!(checked(3, &good).and_then(|mut r| r.byte().ok()), Some(7));
        assert!(checked(2, &good).is_none(), "another version");
        for cut in 0..good.len() {
            assert!(checked(3, &good[..cut]).is_none(), "{cut}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x80;
            assert!(checked(3, &bad).is_none(), "byte {at}");
        }
    }
}
