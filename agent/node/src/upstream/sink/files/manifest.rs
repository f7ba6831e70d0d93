//! The manifest: the whole state up to a step, and the data files that its roll has made.
//! Byte table: `agent/node/docs/files-sink.md`.
//!
//! Always holds: entries stand in the order of their keys, so that the next manifest is a
//! merge of this one with what changed since. Bound: written and read entry by entry;
//! only the list of files is held, [`FILES_MAX`] at most.

use std::io::{self, BufRead, Write};
use std::path::{Component, Path, PathBuf};

use forebay_core::limits::{STORE_KEY_BYTES_MAX, STORE_VALUE_BYTES_MAX};

use super::layout::{ManifestNo, StepNo};
use super::state::{CRC_BYTES, Fault, Key, Kind, put_bytes, put_entry};
use forebay_core::log::bytes::put_varint;

const MAGIC: [u8; 4] = *b"FBMF";
const VERSION: u8 = 1;
/// Data files of one roll.
pub(super) const FILES_MAX: u32 = 1 << 20;
/// Longest name of a data file from the folder on.
const PATH_BYTES_MAX: usize = 512;

/// What stands before the entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) number: ManifestNo,
    /// The last step that is in here.
    pub(super) rolled: StepNo,
    /// Where the data files of this roll stand in the end, from the folder on: file `n`
    /// was written as part `n`.
    pub(super) files: Vec<PathBuf>,
}

/// Writes a manifest.
pub(super) struct ManifestWriter<W> {
    out: W,
    crc: u32,
    buffer: Vec<u8>,
}

impl<W: Write> ManifestWriter<W> {
    pub(super) fn begin(out: W, head: &Head) -> io::Result<Self> {
        let mut buffer = MAGIC.to_vec();
        buffer.push(VERSION);
        buffer.extend_from_slice(&head.number.0.to_le_bytes());
        buffer.extend_from_slice(&head.rolled.0.to_le_bytes());
        let crc = 0;
        let mut writer = Self { out, crc, buffer };
        put_varint(&mut writer.buffer, head.files.len() as u64);
        writer.flush()?;
        for path in &head.files {
            let path = path.to_str().expect("made of names that are text");
            put_bytes(&mut writer.buffer, path.as_bytes());
            writer.flush()?;
        }
        Ok(writer)
    }

    pub(super) fn entry(&mut self, key: &Key, value: &[u8]) -> io::Result<()> {
        put_entry(&mut self.buffer, key, value);
        self.flush()
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.buffer.push(0);
        self.flush()?;
        self.out.write_all(&self.crc.to_le_bytes())?;
        self.out.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.crc = crc32c::crc32c_append(self.crc, &self.buffer);
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Why reading stopped.
#[derive(Debug)]
pub(super) enum ReadFault {
    Bytes(Fault),
    System(io::Error),
}

impl From<Fault> for ReadFault {
    fn from(fault: Fault) -> Self {
        Self::Bytes(fault)
    }
}

impl From<io::Error> for ReadFault {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Self::Bytes(Fault::NoFile)
        } else {
            Self::System(error)
        }
    }
}

/// Reads a manifest, entry by entry. Whether its bytes are those that were written is
/// known when the last one was read.
#[derive(Debug)]
pub(super) struct ManifestReader<R> {
    input: R,
    crc: u32,
    position: usize,
    head: Head,
}

impl<R: BufRead> ManifestReader<R> {
    pub(super) fn begin(input: R, number: ManifestNo) -> Result<Self, ReadFault> {
        let mut reader = Self {
            input,
            crc: 0,
            position: 0,
            head: Head {
                number,
                rolled: StepNo(0),
                files: Vec::new(),
            },
        };
        let [found @ .., version] = reader.array::<5>()?;
        if found != MAGIC {
            return Err(Fault::NoFile.into());
        }
        if version != VERSION {
            return Err(Fault::Version(version).into());
        }
        let found = u64::from_le_bytes(reader.array()?);
        if found != number.0 {
            return Err(Fault::Number { found }.into());
        }
        reader.head.rolled = StepNo(u64::from_le_bytes(reader.array()?));
        let count = reader.varint()?;
        if count > FILES_MAX.into() {
            return Err(reader.malformed());
        }
        for _ in 0..count {
            let path = reader.bytes(PATH_BYTES_MAX)?;
            let path = String::from_utf8(path).ok().map(PathBuf::from);
            let path = path.filter(|path| is_inside(path));
            let path = path.ok_or_else(|| reader.malformed())?;
            reader.head.files.push(path);
        }
        Ok(reader)
    }

    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// The next entry; `None` after the last, when the check is right.
    pub(super) fn entry(&mut self) -> Result<Option<(Key, Vec<u8>)>, ReadFault> {
        let [byte] = self.array()?;
        if byte == 0 {
            return self.end().map(|()| None);
        }
        let kind = Kind::from_byte(byte).ok_or_else(|| self.malformed())?;
        let key = self.bytes(STORE_KEY_BYTES_MAX)?;
        let value = self.bytes(STORE_VALUE_BYTES_MAX)?;
        Ok(Some(((kind, key), value)))
    }

    fn end(&mut self) -> Result<(), ReadFault> {
        let actual = self.crc;
        let stored = u32::from_le_bytes(self.array::<CRC_BYTES>()?);
        if stored != actual {
            return Err(Fault::Crc { stored, actual }.into());
        }
        match self.input.fill_buf()?.is_empty() {
            true => Ok(()),
            false => Err(self.malformed()),
        }
    }

    fn malformed(&self) -> ReadFault {
        let position = self.position;
        ReadFault::Bytes(Fault::Malformed { position })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadFault> {
        let mut out = [0; N];
        self.input.read_exact(&mut out)?;
        self.crc = crc32c::crc32c_append(self.crc, &out);
        self.position += N;
        Ok(out)
    }

    fn varint(&mut self) -> Result<u64, ReadFault> {
        let mut value = 0_u64;
        for shift in (0..63).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.malformed())
    }

    fn bytes(&mut self, max: usize) -> Result<Vec<u8>, ReadFault> {
        let len = usize::try_from(self.varint()?).map_err(|_| self.malformed())?;
        if len > max {
            return Err(self.malformed());
        }
        let mut out = vec![0; len];
        self.input.read_exact(&mut out)?;
        self.crc = crc32c::crc32c_append(self.crc, &out);
        self.position += len;
        Ok(out)
    }
}

/// Whether a path stays in the folder: what is renamed there replaces nothing else.
fn is_inside(path: &Path) -> bool {
    let mut parts = path.components();
    parts.all(|part| matches!(part, Component::Normal(_))) && path.file_name().is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Entries = Vec<(Key, Vec<u8>)>;

    fn head() -> Head {
        Head {
            number: ManifestNo(2),
            rolled: StepNo(258),
            files: vec![PathBuf::from("a/b"), PathBuf::from("c")],
        }
    }

    fn written(head: &Head, entries: &Entries) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = ManifestWriter::begin(&mut out, head).unwrap();
        for (key, value) in entries {
            writer.entry(key, value).unwrap();
        }
        writer.finish().unwrap();
        out
    }

    fn read(bytes: &[u8], number: u64) -> Result<(Head, Entries), ReadFault> {
        let mut reader = ManifestReader::begin(bytes, ManifestNo(number))?;
        let mut entries = Vec::new();
        while let Some(entry) = reader.entry()? {
            entries.push(entry);
        }
        Ok((reader.head().clone(), entries))
    }

    /// The byte table, as written by version 1.
    #[test]
    fn golden_bytes() {
        let entries = vec![
            ((Kind::Mark, b"m".to_vec()), b"1".to_vec()),
            ((Kind::Version, b"g".to_vec()), vec![0; 8]),
        ];
        let bytes = written(&head(), &entries);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let want = "46424d46010200000000000000020100000000000002\
                    03612f62016301016d013104016708000000000000000000";
        assert_eq!(text[..text.len() - 8], *want);
        let (found, back) = read(&bytes, 2).unwrap();
        assert_eq!((found, back), (head(), entries));
    }

    #[test]
    fn what_is_not_whole_is_named() {
        let entries = vec![((Kind::Meta, b"k".to_vec()), b"v".to_vec())];
        let bytes = written(&head(), &entries);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut], 2).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(read(&other, 2).is_err(), "{at}");
        }
        let longer = [bytes.as_slice(), b"x"].concat();
        assert!(read(&longer, 2).is_err());
        let fault = read(&bytes, 3).unwrap_err();
        assert!(matches!(
            fault,
            ReadFault::Bytes(Fault::Number { found: 2 })
        ));
    }

    #[test]
    fn a_file_stays_in_the_folder() {
        for (path, fits) in [
            ("a/b", true),
            ("../b", false),
            ("/b", false),
            ("a/../../b", false),
            ("", false),
        ] {
            let head = Head {
                files: vec![PathBuf::from(path)],
                ..head()
            };
            let read = read(&written(&head, &Vec::new()), 2);
            assert_eq!(read.is_ok(), fits, "{path}");
        }
    }

    proptest! {
        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut whole = MAGIC.to_vec();
            whole.push(VERSION);
            whole.extend_from_slice(&2_u64.to_le_bytes());
            whole.extend(bytes);
            let _ = read(&whole, 2);
        }
    }
}
