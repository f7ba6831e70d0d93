//! From what is pending to data files: one roll writes each pending record into the file of
//! its table, day and gateway.
//!
//! Always holds: in each file records stand in order of run and offset; every file is on
//! disk when [`write_files`] returns. Bound: WRITERS_MAX files are written at a time, each
//! holds one row group; where a gateway has more, its messages are read once more.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use forebay_core::payload::GatewayName;
use forebay_core::units::Offset;

use super::disk::Disk;
use super::layout::{Day, ManifestNo, part_dir, part_name, part_path, state_dir};
use super::manifest::FILES_MAX;
use super::pending::{Payloads, Pending, Piece, for_each_line};
use super::table::{Kept, Line, RunText};
use crate::export::{Format, Table, begin};

/// Files that are written at the same time.
const WRITERS_MAX: usize = 6;
const BUFFER_BYTES: usize = 64 * 1024;

/// A file of a roll, by what it holds.
type Group = (Kept, Day);

/// A file that is being written.
struct Part {
    number: u32,
    table: Box<dyn Table>,
}

/// See the module.
pub(super) struct Roll<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    format: Format,
    manifest: ManifestNo,
    /// Where each part stands in the end.
    files: Vec<PathBuf>,
}

/// Writes all that is pending; gives where each part stands in the end.
///
/// # Errors
/// What the system said. Parts that were written are no harm: the next roll of this number
/// writes over them, and a start removes them.
pub(super) fn write_files(
    disk: &dyn Disk,
    folder: &Path,
    format: Format,
    (manifest, pending): (ManifestNo, &Pending),
) -> io::Result<Vec<PathBuf>> {
    let mut roll = Roll {
        disk,
        folder,
        format,
        manifest,
        files: Vec::new(),
    };
    let pieces = pending.sorted();
    let of_gateway = |a: &Piece, b: &Piece| a.run.source.gateway == b.run.source.gateway;
    let done = pieces
        .chunk_by(of_gateway)
        .try_for_each(|pieces| roll.gateway(pieces));
    if let Err(error) = done {
        for number in 0..roll.files.len() as u64 {
            // A full disk needs the room; a start would remove them too.
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let _ = disk.remove(&roll.part(number));
        }
        return Err(error);
    }
    Ok(roll.files)
}

impl Roll<'_> {
    fn part(&self, number: u32) -> PathBuf {
        state_dir(self.folder).join(part_name(self.manifest, number))
    }

    /// Writes the files of one gateway, some at a time.
    fn gateway(&mut self, pieces: &[Piece]) -> io::Result<()> {
        let mut done = BTreeSet::new();
        loop {
            let more = self.pass(pieces, &mut done)?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Writes files that are not done, as many as may be open; whether there are more.
    fn pass(&mut self, pieces: &[Piece], done: &mut BTreeSet<Group>) -> io::Result<bool> {
        let Some(gateway) = pieces.first().map(|piece| &piece.run.source.gateway) else {
            return Ok(false);
        };
        let mut open: BTreeMap<Group, Part> = BTreeMap::new();
        let mut payloads = Payloads::of(self.folder);
        let mut more = false;
        for piece in pieces {
            let message = payloads.read(piece.at)?;
            let text = RunText::of(&piece.run);
            for_each_line(&message, piece.range, |offset, line| {
                let group = (line.kept(), Day::of(line.time()));
                if done.contains(&group) {
                    return Ok(());
                }
                if !open.contains_key(&group) && open.len() == WRITERS_MAX {
                    more = true;
                    return Ok(());
                }
                self.line(&mut open, (gateway, group), (&text, offset), line)
            })?;
        }
        for (group, part) in open {
            part.table.finish()?;
            self.disk.sync_file(&self.part(part.number))?;
            done.insert(group);
        }
        Ok(more)
    }

    fn line(
        &mut self,
        open: &mut BTreeMap<Group, Part>,
        (gateway, group): (&GatewayName, Group),
        (text, offset): (&RunText, Offset),
        line: Line<'_>,
    ) -> io::Result<()> {
        let part = match open.get_mut(&group) {
            Some(part) => part,
            None => {
                let part = self.begin(gateway, &group)?;
                open.entry(group).or_insert(part)
            }
        };
        line.write(text, offset, part.table.as_mut())
    }

    fn begin(&mut self, gateway: &GatewayName, (kept, day): &Group) -> io::Result<Part> {
        let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        if number >= FILES_MAX {
            let text = format!("one roll would make more than {FILES_MAX} files: roll more often");
            return Err(io::Error::other(text));
        }
        let dir = part_dir(*kept, day, gateway);
        let path = part_path(&dir, self.manifest, number, self.format);
        self.files.push(path);
        let out = self.disk.create(&self.part(number))?;
        let out = Box::new(BufWriter::with_capacity(BUFFER_BYTES, out));
        let table = begin(self.format, kept.columns(), out)?;
        Ok(Part { number, table })
    }
}
