//! What devices saw acked, kept outside of the agent: in memory, and in a file that is
//! synced at each note, for a power cut that ends us too.
//!
//! Always holds: a mark never goes back; a note that a cut tore is left out, and all
//! before it counts. The form of the file stands in `agent/node/docs/selftest.md`.
//! Bound: WITNESS_BYTES_MAX when it is read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use forebay_wire::ids::{BootId, DeviceUid};

use super::limits::WITNESS_BYTES_MAX;
use crate::sim::SimSnapshot;

/// First line of the file.
const HEAD: &str = "forebay selftest witness 1";

/// First ordinal that was not acked, by device and boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Witness(BTreeMap<(DeviceUid, BootId), u64>);

impl Witness {
    /// As if all that devices gave an ordinal were acked.
    pub(super) fn of_produced(devices: &[SimSnapshot]) -> Self {
        let marks = devices.iter();
        let marks = marks.map(|device| ((device.uid, device.boot), device.produced));
        Self(marks.collect())
    }

    /// Takes notice of what devices say.
    pub(super) fn see(&mut self, devices: &[SimSnapshot]) {
        for device in devices {
            self.note(device.uid, device.boot, device.settled);
        }
    }

    fn note(&mut self, uid: DeviceUid, boot: BootId, settled: u64) {
        let mark = self.0.entry((uid, boot)).or_insert(0);
        *mark = settled.max(*mark);
    }

    /// Marks that are above those of `before`.
    pub(super) fn since(&self, before: &Self) -> Vec<(DeviceUid, BootId, u64)> {
        let known = |uid, boot| before.0.get(&(uid, boot)).copied().unwrap_or(0);
        let marks = self.marks();
        marks
            .filter(|(uid, boot, mark)| *mark > known(*uid, *boot))
            .collect()
    }

    /// Marks, by device and boot.
    pub(super) fn marks(&self) -> impl Iterator<Item = (DeviceUid, BootId, u64)> {
        self.0
            .iter()
            .map(|((uid, boot), mark)| (*uid, *boot, *mark))
    }

    /// Readings that devices saw acked.
    pub(super) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Reads what a file holds, and whether its end was torn.
    ///
    /// # Errors
    /// A sentence: it cannot be read, or is another's.
    pub(super) fn read(path: &Path) -> Result<(Self, bool), String> {
        let shown = path.display();
        let mut text = String::new();
        let opened = File::open(path).map_err(|error| format!("{shown}: {error}"))?;
        // What a cut tore need not be text.
        let mut bytes = Vec::new();
        let read = opened.take(WITNESS_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|error| format!("{shown}: {error}"))?;
        text.push_str(&String::from_utf8_lossy(&bytes));
        Self::parse(&text).ok_or_else(|| format!("{shown}: is no file of notes of a self-test"))
    }

    fn parse(text: &str) -> Option<(Self, bool)> {
        let mut lines = text.split_inclusive('\n');
        if lines.next()? != format!("{HEAD}\n") {
            return None;
        }
        let mut witness = Self::default();
        let mut torn = false;
        for line in lines {
            match parse_line(line) {
                // Behind a torn note nothing is believed: it was not synced yet.
                Some((uid, boot, settled)) if !torn => {
                    witness.note(uid, boot, settled);
                }
                Some(_) | None => torn = true,
            }
        }
        Some((witness, torn))
    }
}

/// `<uid> <boot> <settled> <CRC-32C of all before the last space>`
fn line_of(uid: DeviceUid, boot: BootId, settled: u64) -> String {
    let said = format!("{uid} {:08x} {settled}", boot.0);
    format!("{said} {:08x}\n", crc32c::crc32c(said.as_bytes()))
}

fn parse_line(line: &str) -> Option<(DeviceUid, BootId, u64)> {
    let (said, crc) = line.strip_suffix('\n')?.rsplit_once(' ')?;
    let crc = u32::from_str_radix(crc, 16).ok()?;
    if crc != crc32c::crc32c(said.as_bytes()) {
        return None;
    }
    let mut parts = said.split(' ');
    let uid = u64::from_str_radix(parts.next()?, 16).ok()?;
    let boot = u32::from_str_radix(parts.next()?, 16).ok()?;
    let settled = parts.next()?.parse().ok()?;
    parts
        .next()
        .is_none()
        .then_some((DeviceUid(uid.to_be_bytes()), BootId(boot), settled))
}

/// The file, as it is written.
#[derive(Debug)]
pub(super) struct Notes {
    file: File,
}

impl Notes {
    /// Makes the file, which must not be there, and makes its name durable.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(format!("{HEAD}\n").as_bytes())?;
        file.sync_all()?;
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(Self { file })
    }

    /// Notes what is new, and returns when that is on the disk.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn add(&mut self, news: &[(DeviceUid, BootId, u64)]) -> io::Result<()> {
        if news.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        for (uid, boot, settled) in news {
            // Writing to a String cannot fail.
            let _ = text.write_str(&line_of(*uid, *boot, *settled));
        }
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: DeviceUid = DeviceUid([0xf0, 0, 0, 0, 0, 0, 0, 1]);
    const BOOT: BootId = BootId(7);

    fn written(marks: &[u64]) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("witness");
        let mut notes = Notes::create(&path).unwrap();
        for mark in marks {
            notes.add(&[(UID, BOOT, *mark)]).unwrap();
        }
        assert!(Notes::create(&path).is_err(), "never over another");
        std::fs::read(&path).unwrap()
    }

    fn total(bytes: &[u8]) -> Option<(u64, bool)> {
        let text = String::from_utf8_lossy(bytes);
        Witness::parse(&text).map(|(witness, torn)| (witness.total(), torn))
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let text = String::from_utf8(written(&[12])).unwrap();
        assert_eq!(
            text,
            "forebay selftest witness 1\nf000000000000001 00000007 12 74f866ba\n"
        );
    }

    #[test]
    fn what_was_noted_is_read_however_the_end_was_torn() {
        let bytes = written(&[5, 12, 30]);
        assert_eq!(total(&bytes), Some((30, false)));
        let second = written(&[5, 12]).len();
        for keep in second..bytes.len() {
            let want = Some((12, keep > second));
            assert_eq!(total(&bytes[..keep]), want, "{keep} bytes");
        }
        let mut zeroes = bytes[..second + 3].to_vec();
        zeroes.resize(bytes.len() + 100, 0);
        assert_eq!(total(&zeroes), Some((12, true)), "a torn page");
        let mut flipped = bytes.clone();
        flipped[second - 12] ^= 1;
        assert_eq!(
            total(&flipped),
            Some((5, true)),
            "what follows is not believed"
        );
    }

    #[test]
    fn another_file_is_refused() {
        for text in [
            "",
            "forebay selftest witness 1",
            "forebay selftest witness 2\n",
            "x\n",
        ] {
            assert_eq!(Witness::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_mark_never_goes_back() {
        let mut witness = Witness::default();
        witness.note(UID, BOOT, 5);
        let before = witness.clone();
        witness.note(UID, BOOT, 4);
        assert_eq!(witness.since(&before), []);
        witness.note(UID, BootId(8), 1);
        assert_eq!(witness.since(&before), [(UID, BootId(8), 1)]);
        assert_eq!(witness.total(), 6);
    }
}
