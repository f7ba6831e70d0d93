//! Finds the ELF file of a firmware by its build id, in the files and folders of the
//! config, and keeps the texts of those that are in use.
//!
//! Bound: [`FOLDER_FILES_MAX`] files of a folder, [`FIRMWARE_KEPT_MAX`] firmwares in
//! memory. A build id that is in no file is looked for again after [`LOOK_AGAIN`]: files
//! may be added while the agent runs. Knows no device.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::elf::{self, Formats};
use super::limits::{FIRMWARE_KEPT_MAX, FOLDER_FILES_MAX, LOOK_AGAIN, MISSING_KEPT_MAX};

/// The first bytes of a GNU build id, as devices say them.
pub type BuildId = [u8; 8];

/// What became of a search.
#[derive(Debug, Clone)]
pub(super) enum Search {
    Found(Arc<Formats>),
    /// Why it was not found; `is_new` the first time that it is said.
    Missing {
        why: String,
        is_new: bool,
    },
}

/// See the module.
#[derive(Debug)]
pub(super) struct Firmware {
    places: Vec<PathBuf>,
    /// The one that was used last stands last.
    kept: Vec<(BuildId, Arc<Formats>)>,
    /// What was looked for last stands last.
    missing: Vec<(BuildId, Instant, String)>,
}

/// A build id as people read it.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Firmware {
    pub(super) fn new(places: Vec<PathBuf>) -> Self {
        Self {
            places,
            kept: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// The texts of a firmware.
    pub(super) fn find(&mut self, id: BuildId, now: Instant) -> Search {
        if let Some(at) = self.kept.iter().position(|(known, _)| *known == id) {
            self.kept[at..].rotate_left(1);
            let (_, formats) = &self.kept[self.kept.len() - 1];
            return Search::Found(formats.clone());
        }
        let before = self.missing.iter().position(|(known, ..)| *known == id);
        let before = before.map(|at| self.missing.remove(at));
        if let Some((_, looked, why)) = &before
            && now.duration_since(*looked) < LOOK_AGAIN
        {
            let why = why.clone();
            self.missing.extend(before);
            return Search::Missing { why, is_new: false };
        }
        match look(&self.places, id) {
            Ok(formats) => {
                let formats = Arc::new(formats);
                if self.kept.len() >= FIRMWARE_KEPT_MAX {
                    self.kept.remove(0);
                }
                self.kept.push((id, formats.clone()));
                Search::Found(formats)
            }
            Err(why) => {
                if self.missing.len() >= MISSING_KEPT_MAX {
                    self.missing.remove(0);
                }
                let is_new = before.is_none_or(|(_, _, said)| said != why);
                self.missing.push((id, now, why.clone()));
                Search::Missing { why, is_new }
            }
        }
    }
}

/// Reads the files of all places until one has the build id.
fn look(places: &[PathBuf], id: BuildId) -> Result<Formats, String> {
    if id == BuildId::default() {
        return Err(String::from(
            "the firmware was linked without a build id: link it with --build-id=sha1",
        ));
    }
    let id_text = hex(&id);
    if places.is_empty() {
        return Err(format!(
            "name the ELF file with build id {id_text} in `firmware` of [agent]"
        ));
    }
    let mut broken = Vec::new();
    for place in places {
        for file in files(place, &mut broken) {
            let is_named = file == *place;
            match formats_if(&file, id) {
                Ok(Some(formats)) => return Ok(formats),
                Ok(None) => {}
                // A folder may hold all kinds of files.
                Err(why) if is_named => broken.push(format!("{} {why}", file.display())),
                Err(_) => {}
            }
        }
    }
    let shown: Vec<_> = places
        .iter()
        .map(|place| place.display().to_string())
        .collect();
    broken.insert(
        0,
        format!(
            "no ELF file with build id {id_text} is in {}",
            shown.join(", ")
        ),
    );
    Err(broken.join("; "))
}

/// The file itself, or the files of a folder in order of their names.
fn files(place: &Path, broken: &mut Vec<String>) -> Vec<PathBuf> {
    if !place.is_dir() {
        return vec![place.to_owned()];
    }
    let entries = match std::fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) => {
            broken.push(format!("{}: {error}", place.display()));
            return Vec::new();
        }
    };
    let files = entries.flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.is_file());
    let mut files: Vec<_> = files.take(FOLDER_FILES_MAX + 1).collect();
    if files.len() > FOLDER_FILES_MAX {
        files.pop();
        broken.push(format!(
            "{} has more than {FOLDER_FILES_MAX} files: the others were not looked at",
            place.display()
        ));
    }
    files.sort();
    files
}

/// The texts of a file; `None` when its build id is another.
fn formats_if(file: &Path, id: BuildId) -> Result<Option<Formats>, String> {
    let elf = elf::open(file)?;
    match elf.build_id()? {
        Some(found) if found.starts_with(&id) => elf.formats().map(Some),
        Some(_) | None => Ok(None),
    }
}

/// The texts of one file for lines of one build id, as `forebay device log --elf` asks.
///
/// # Errors
/// What is wrong with the file, with its name, or that it is of another firmware.
pub fn formats_of(file: &Path, id: BuildId) -> Result<Formats, String> {
    let shown = file.display();
    let elf = elf::open(file).map_err(|why| format!("{shown} {why}"))?;
    let found = elf.build_id().map_err(|why| format!("{shown} {why}"))?;
    match found {
        Some(found) if found.starts_with(&id) => {
            elf.formats().map_err(|why| format!("{shown} {why}"))
        }
        Some(found) => Err(format!(
            "{shown} has build id {}: the device runs {}",
            hex(&found),
            hex(&id)
        )),
        None => Err(format!(
            "{shown} has no build id: link it with --build-id=sha1"
        )),
    }
}
