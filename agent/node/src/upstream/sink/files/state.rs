//! Entries of the state, marks and the like, as steps and manifests hold them.
//! Byte tables: `agent/node/docs/files-sink.md`.
//!
//! Always holds: in the order of their keys, a key at most once. Bound: a key has at most
//! STORE_KEY_BYTES_MAX bytes, a value STORE_VALUE_BYTES_MAX.

use std::collections::BTreeMap;

use forebay_core::limits::{STORE_KEY_BYTES_MAX, STORE_VALUE_BYTES_MAX};
use forebay_core::log::bytes::{Malformed, Reader, put_varint};

/// What an entry is about. Its byte is its number here: append only, 0 ends a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    Mark = 1,
    Meta = 2,
    Rejected = 3,
    /// How often the state of a gateway was changed.
    Version = 4,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Mark, Self::Meta, Self::Rejected, Self::Version];

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Name of an entry.
pub(super) type Key = (Kind, Vec<u8>);

/// Entries that were set, or removed where there is no value.
pub(super) type Changes = BTreeMap<Key, Option<Vec<u8>>>;

/// Appends bytes with their number before them.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bytes with their number before them.
pub(super) fn read_bytes<'a>(reader: &mut Reader<'a>, max: usize) -> Result<&'a [u8], Malformed> {
    let at = reader.malformed();
    let len = usize::try_from(reader.varint()?).map_err(|_| at)?;
    if len > max {
        return Err(at);
    }
    reader.take(len)
}

/// Appends one entry that is set.
pub(super) fn put_entry(out: &mut Vec<u8>, (kind, key): &Key, value: &[u8]) {
    out.push(*kind as u8);
    put_bytes(out, key);
    put_bytes(out, value);
}

/// Appends changes and their end.
pub(super) fn put_changes(out: &mut Vec<u8>, changes: &Changes) {
    for (key, value) in changes {
        out.push(key.0 as u8);
        put_bytes(out, &key.1);
        match value {
            Some(value) => {
                out.push(1);
                put_bytes(out, value);
            }
            None => out.push(0),
        }
    }
    out.push(0);
}

/// What [`put_changes`] wrote.
pub(super) fn read_changes(reader: &mut Reader<'_>) -> Result<Changes, Malformed> {
    let mut out = Changes::new();
    loop {
        let at = reader.malformed();
        let kind = match reader.byte()? {
            0 => return Ok(out),
            byte => Kind::from_byte(byte).ok_or(at)?,
        };
        let key = read_bytes(reader, STORE_KEY_BYTES_MAX)?.to_vec();
        let value = match reader.byte()? {
            0 => None,
            1 => Some(read_bytes(reader, STORE_VALUE_BYTES_MAX)?.to_vec()),
            _ => return Err(at),
        };
        out.insert((kind, key), value);
    }
}

/// Why a file of the state cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Not such a file, or cut inside of its head.
    NoFile,
    /// Written by another version.
    Version(u8),
    /// Its bytes are not those that were written.
    Crc { stored: u32, actual: u32 },
    /// Bytes that no writer writes.
    Malformed { position: usize },
    /// It is of another number than its name says.
    Number { found: u64 },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoFile => f.write_str("is no file of this kind, or cut off"),
            Self::Version(found) => write!(f, "is of version {found}: use a newer program"),
            Self::Crc { stored, actual } => write!(
                f,
                "is damaged: its check is {stored:08x} and its bytes give {actual:08x}"
            ),
            Self::Malformed { position } => write!(f, "cannot be read at byte {position}"),
            Self::Number { found } => write!(f, "says that its number is {found}"),
        }
    }
}

impl From<Malformed> for Fault {
    fn from(at: Malformed) -> Self {
        Self::Malformed {
            position: at.position,
        }
    }
}

/// Bytes at the end of each such file: CRC-32C of all before.
pub(super) const CRC_BYTES: usize = 4;

/// The bytes between magic and check, when both are right.
pub(super) fn opened<'a>(
    bytes: &'a [u8],
    magic: [u8; 4],
    version: u8,
) -> Result<Reader<'a>, Fault> {
    let body = bytes.split_last_chunk::<CRC_BYTES>();
    let (body, stored) = body.ok_or(Fault::NoFile)?;
    let head = body.split_first_chunk::<5>();
    let ([found @ .., written], _) = head.ok_or(Fault::NoFile)?;
    if *found != magic {
        return Err(Fault::NoFile);
    }
    if *written != version {
        return Err(Fault::Version(*written));
    }
    let (stored, actual) = (u32::from_le_bytes(*stored), crc32c::crc32c(body));
    if stored != actual {
        return Err(Fault::Crc { stored, actual });
    }
    let mut reader = Reader::new(body);
    reader.take(head.map_or(0, |(head, _)| head.len()))?;
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_read_back_and_cut_ones_do_not() {
        let mut changes = Changes::new();
        changes.insert((Kind::Mark, b"a".to_vec()), Some(b"1".to_vec()));
        changes.insert((Kind::Mark, b"b".to_vec()), None);
        changes.insert((Kind::Rejected, vec![0; 8]), Some(Vec::new()));
        let mut bytes = Vec::new();
        put_changes(&mut bytes, &changes);
        assert_eq!(read_changes(&mut Reader::new(&bytes)), Ok(changes));
        for cut in 0..bytes.len() {
            let cut = read_changes(&mut Reader::new(&bytes[..cut]));
            assert!(cut.is_err(), "{cut:?}");
        }
    }

    #[test]
    fn keys_and_values_up_to_their_limits() {
        for (key, value, fits) in [
            (STORE_KEY_BYTES_MAX - 1, STORE_VALUE_BYTES_MAX - 1, true),
            (STORE_KEY_BYTES_MAX, STORE_VALUE_BYTES_MAX, true),
            (STORE_KEY_BYTES_MAX + 1, 0, false),
            (0, STORE_VALUE_BYTES_MAX + 1, false),
        ] {
            let changes = Changes::from([((Kind::Meta, vec![1; key]), Some(vec![2; value]))]);
            let mut bytes = Vec::new();
            put_changes(&mut bytes, &changes);
            let read = read_changes(&mut Reader::new(&bytes));
            assert_eq!(read.is_ok(), fits, "{key} {value}");
        }
    }

    #[test]
    fn each_kind_has_its_byte() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_byte(kind as u8), Some(kind));
        }
        assert_eq!(Kind::from_byte(0), None);
        assert_eq!(Kind::from_byte(5), None);
    }
}
