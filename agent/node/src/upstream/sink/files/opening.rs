//! Opening the files sink: what a crash has left is brought to its end, forward where the
//! manifest says so, and else away.
//!
//! Always holds: whatever step of a commit or a roll was the last, after this the sink is
//! as before it or as after it. Bound: one step is held at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::Instant;

use forebay_core::payload::{DataMessage, GatewayName};

use super::super::SinkError;
use super::disk::{Disk, RealDisk};
use super::layout::{
    ManifestNo, StateFile, StepNo, manifest_name, parse_state, part_name, state_dir, step_name,
};
use super::manifest::{Head, ManifestReader, ReadFault};
use super::pending::Pending;
use super::state::{Changes, Kind};
use super::step::{PayloadAt, Step};
use super::table::Kept;
use super::{FilesSink, PENDING_BYTES_MAX};
use crate::config::FilesConfig;
use crate::store::{DirLock, OpenError};

/// Longest step that is read.
const STEP_BYTES_MAX: u64 = 2 * PENDING_BYTES_MAX;

/// What keeps others away.
#[derive(Debug)]
pub(super) enum Lock {
    /// Nobody else.
    Alone { _lock: DirLock },
    /// Nobody who writes.
    Reading { _lock: File },
}

/// What there is in the folder of the state.
#[derive(Debug, Default)]
struct Found {
    steps: BTreeSet<StepNo>,
    manifests: BTreeSet<ManifestNo>,
    parts: BTreeSet<(ManifestNo, u32)>,
    unfinished: Vec<PathBuf>,
}

fn look(folder: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    for entry in fs::read_dir(state_dir(folder))? {
        let entry = entry?;
        let name = entry.file_name();
        match name.to_str().and_then(parse_state) {
            Some(StateFile::Step(step)) => drop(found.steps.insert(step)),
            Some(StateFile::Manifest(number)) => drop(found.manifests.insert(number)),
            Some(StateFile::Part(number, part)) => drop(found.parts.insert((number, part))),
            Some(StateFile::Unfinished) => found.unfinished.push(entry.path()),
            None => {}
        }
    }
    Ok(found)
}

pub(super) fn open(
    config: &FilesConfig,
    disk: Box<dyn Disk>,
    now: Instant,
) -> Result<FilesSink, SinkError> {
    let folder = &config.folder;
    let lock = DirLock::take(&state_dir(folder)).map_err(SinkError::Open)?;
    let lock = Lock::Alone { _lock: lock };
    let mut sink = read(config, disk, (lock, false), now)?;
    sink.settle()?;
    let tidied = tidy(sink.disk.as_ref(), folder, &sink.head);
    tidied.map_err(|error| sink.refused("remove what a crash has left", &error))?;
    Ok(sink)
}

pub(super) fn open_existing(config: &FilesConfig, now: Instant) -> Result<FilesSink, SinkError> {
    let dir = state_dir(&config.folder);
    let path = dir.join("lock");
    let lock = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(SinkError::missing(&config.folder));
        }
        file => file.map_err(|error| SinkError::said(format!("{}: {error}", path.display())))?,
    };
    match lock.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(&path).ok();
            let pid = pid.and_then(|text| text.trim().parse().ok());
            return Err(SinkError::Open(OpenError::Locked { dir, pid }));
        }
        Err(TryLockError::Error(error)) => {
            return Err(SinkError::said(format!(
                "{}: lock: {error}",
                path.display()
            )));
        }
    }
    let lock = Lock::Reading { _lock: lock };
    read(config, Box::new(RealDisk), (lock, true), now)
}

/// Reads manifest and steps; changes nothing.
fn read(
    config: &FilesConfig,
    disk: Box<dyn Disk>,
    (lock, is_read_only): (Lock, bool),
    now: Instant,
) -> Result<FilesSink, SinkError> {
    let folder = &config.folder;
    let found = look(folder)
        .map_err(|error| SinkError::said(format!("{}: {error}", state_dir(folder).display())))?;
    let head = newest(folder, &found)?;
    let mut sink = FilesSink {
        folder: folder.clone(),
        config: config.clone(),
        disk,
        next_step: StepNo(head.rolled.0 + 1),
        is_settled: head.number.0 == 0,
        head,
        changes: Changes::new(),
        versions: BTreeMap::new(),
        pending: Pending::default(),
        failed: None,
        is_broken: false,
        is_read_only,
        _lock: lock,
    };
    let rolled = sink.head.rolled;
    for number in found.steps.into_iter().filter(|step| *step > rolled) {
        if number != sink.next_step {
            return Err(SinkError::said(format!(
                "{}: {} is missing, and later ones are there: restore the folder from a \
                 backup, or begin with an empty one",
                state_dir(folder).display(),
                step_name(sink.next_step)
            )));
        }
        sink.take_step(number, now)?;
    }
    sink.versions = versions(&sink)?;
    Ok(sink)
}

/// What the newest manifest says, or that there is none.
fn newest(folder: &Path, found: &Found) -> Result<Head, SinkError> {
    let Some(number) = found.manifests.last() else {
        let no_state = found.steps.first().is_none_or(|step| step.0 > 1);
        let has_data = Kept::ALL
            .iter()
            .any(|kept| folder.join(kept.name()).exists());
        if has_data || (no_state && !found.steps.is_empty()) {
            return Err(SinkError::said(format!(
                "{}: there are data files and no manifest that says what they hold: restore \
                 {} from a backup, or name another folder",
                folder.display(),
                state_dir(folder).display()
            )));
        }
        return Ok(Head {
            number: ManifestNo(0),
            rolled: StepNo(0),
            files: Vec::new(),
        });
    };
    Ok(manifest(folder, *number)?.head().clone())
}

pub(super) fn manifest(
    folder: &Path,
    number: ManifestNo,
) -> Result<ManifestReader<BufReader<File>>, SinkError> {
    let path = state_dir(folder).join(manifest_name(number));
    let file = File::open(&path);
    let file = file.map_err(|error| SinkError::said(format!("{}: {error}", path.display())))?;
    ManifestReader::begin(BufReader::new(file), number)
        .map_err(|fault| bad_manifest(folder, number, &fault))
}

pub(super) fn bad_manifest(folder: &Path, number: ManifestNo, fault: &ReadFault) -> SinkError {
    let path = state_dir(folder).join(manifest_name(number));
    let path = path.display();
    SinkError::said(match fault {
        ReadFault::Bytes(fault) => format!("{path} {fault}; nothing was changed"),
        ReadFault::System(error) => format!("{path}: {error}"),
    })
}

fn versions(sink: &FilesSink) -> Result<BTreeMap<GatewayName, u64>, SinkError> {
    let mut out = BTreeMap::new();
    sink.state(&mut |(kind, key), value| {
        if *kind == Kind::Version {
            let name = std::str::from_utf8(key).ok();
            let name = name.and_then(|name| GatewayName::new(name).ok());
            let (Some(name), Ok(value)) = (name, value.try_into()) else {
                let key = key.escape_ascii();
                return Err(SinkError::said(format!("the version of {key} is none")));
            };
            out.insert(name, u64::from_le_bytes(value));
        }
        Ok(true)
    })?;
    Ok(out)
}

impl FilesSink {
    fn take_step(&mut self, number: StepNo, now: Instant) -> Result<(), SinkError> {
        let path = state_dir(&self.folder).join(step_name(number));
        let bad = |said: &dyn std::fmt::Display| {
            SinkError::said(format!("{} {said}; nothing was changed", path.display()))
        };
        let len = fs::metadata(&path).map_err(|error| bad(&error))?.len();
        if len > STEP_BYTES_MAX {
            return Err(bad(&"is longer than any step"));
        }
        let bytes = fs::read(&path).map_err(|error| bad(&error))?;
        let step = Step::from_bytes(&bytes, number).map_err(|fault| bad(&fault))?;
        for taken in step.taken {
            let message = DataMessage::parse(&taken.payload).map_err(|error| bad(&error))?;
            let at = PayloadAt {
                step: number,
                position: taken.position,
                bytes: taken.payload.len(),
            };
            self.pending.add(&message, &taken.fresh, at);
        }
        self.changes.extend(step.changes);
        self.pending.add_step(bytes.len(), now);
        self.next_step = StepNo(number.0 + 1);
        Ok(())
    }
}

/// Gives the data files of a manifest their names, durably, and removes the steps that are
/// in it.
pub(super) fn settle(disk: &dyn Disk, folder: &Path, head: &Head) -> io::Result<()> {
    let state = state_dir(folder);
    let mut dirs = BTreeSet::from([state.clone()]);
    for (number, path) in (0..).zip(&head.files) {
        let part = state.join(part_name(head.number, number));
        let is_new = part.exists();
        for dir in path
            .ancestors()
            .skip(1)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
        {
            let dir = folder.join(dir);
            if is_new {
                disk.create_dir(&dir)?;
            }
            // Who reads may have removed an old day since.
            if dir.exists() {
                dirs.insert(dir);
            }
        }
        if is_new {
            disk.rename(&part, &folder.join(path))?;
        }
    }
    // An earlier try may have been cut off before this: all are synced again.
    dirs.iter().try_for_each(|dir| disk.sync_dir(dir))?;
    let found = look(folder)?;
    let steps = found.steps.iter().filter(|step| **step <= head.rolled);
    for step in steps {
        disk.remove(&state.join(step_name(*step)))?;
    }
    for number in found
        .manifests
        .iter()
        .filter(|number| **number < head.number)
    {
        disk.remove(&state.join(manifest_name(*number)))?;
    }
    Ok(())
}

/// Removes what was never finished.
fn tidy(disk: &dyn Disk, folder: &Path, head: &Head) -> io::Result<()> {
    let found = look(folder)?;
    for path in found.unfinished {
        disk.remove(&path)?;
    }
    for (number, part) in found.parts {
        if number > head.number {
            disk.remove(&state_dir(folder).join(part_name(number, part)))?;
        }
    }
    Ok(())
}
