//! A disk that ends before a step, and then shows what a power cut would have left.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::super::disk::{Disk, RealDisk};

/// What ends before step `at`, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// All steps from it on fail, as after kill -9.
    Dies(usize),
    /// This one fails and later ones work, as on a disk that was full for a while.
    Fails(usize),
}

/// How to take back what was not synced.
#[derive(Debug)]
enum Undo {
    /// A file that was new, in its folder.
    Created(PathBuf),
    /// Bytes of a file.
    Written(PathBuf),
    CreatedDir(PathBuf),
    Renamed {
        from: PathBuf,
        to: PathBuf,
    },
    Removed {
        path: PathBuf,
        bytes: Vec<u8>,
    },
}

impl Undo {
    /// Whether a sync of `dir` makes it last.
    fn is_in(&self, dir: &Path) -> bool {
        let path = match self {
            Self::Written(_) => return false,
            Self::Created(path) | Self::CreatedDir(path) | Self::Removed { path, .. } => path,
            Self::Renamed { to, .. } => to,
        };
        path.parent() == Some(dir)
    }

    fn run(&self) {
        // What is gone already, with its folder, needs nothing.
        let _ = match self {
            Self::Created(path) => fs::remove_file(path),
            Self::Written(path) => match path.exists() {
                true => fs::write(path, b""),
                false => Ok(()),
            },
            Self::CreatedDir(path) => fs::remove_dir_all(path),
            Self::Renamed { from, to } => fs::rename(to, from),
            Self::Removed { path, bytes } => fs::write(path, bytes),
        };
    }
}

#[derive(Debug, Default)]
struct State {
    steps: usize,
    unsynced: Vec<Undo>,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct FaultyDisk {
    fault: Option<Fault>,
    state: Arc<Mutex<State>>,
}

impl FaultyDisk {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Self {
            fault,
            state: Arc::default(),
        }
    }

    pub(super) fn steps(&self) -> usize {
        self.state.lock().unwrap().steps
    }

    /// Whether a step has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.fault.is_some_and(|fault| match fault {
            Fault::Dies(at) | Fault::Fails(at) => self.steps() > at,
        })
    }

    /// What a power cut leaves: of the steps that nothing has synced, the first `kept`.
    pub(super) fn cut_power(&self, kept: usize) {
        let mut state = self.state.lock().unwrap();
        while state.unsynced.len() > kept {
            if let Some(undo) = state.unsynced.pop() {
                undo.run();
            }
        }
    }

    pub(super) fn unsynced(&self) -> usize {
        self.state.lock().unwrap().unsynced.len()
    }

    /// Counts a step; it may be the one that fails.
    fn step(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        let number = state.steps;
        state.steps += 1;
        match self.fault {
            Some(Fault::Dies(at)) if number >= at => Err(io::Error::other("killed")),
            Some(Fault::Fails(at)) if number == at => Err(io::ErrorKind::StorageFull.into()),
            Some(_) | None => Ok(()),
        }
    }

    fn note(&self, undo: Undo) {
        self.state.lock().unwrap().unsynced.push(undo);
    }
}

struct FaultyFile {
    disk: FaultyDisk,
    path: PathBuf,
    file: Box<dyn Write + Send>,
}

impl Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let step = self.disk.step();
        self.disk.note(Undo::Written(self.path.clone()));
        if step.is_err() {
            // Half of it is there.
            let half = bytes.len() / 2;
            self.file.write_all(&bytes[..half])?;
        }
        step?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Write + Send>> {
        self.step()?;
        if !path.exists() {
            self.note(Undo::Created(path.to_owned()));
        }
        let file = RealDisk.create(path)?;
        Ok(Box::new(FaultyFile {
            disk: self.clone(),
            path: path.to_owned(),
            file,
        }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        let mut state = self.state.lock().unwrap();
        let is_of = |undo: &Undo| matches!(undo, Undo::Written(written) if written == path);
        state.unsynced.retain(|undo| !is_of(undo));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        assert!(path.is_dir(), "{}", path.display());
        let mut state = self.state.lock().unwrap();
        state.unsynced.retain(|undo| !undo.is_in(path));
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        if !path.exists() {
            self.note(Undo::CreatedDir(path.to_owned()));
        }
        RealDisk.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        assert!(!to.exists(), "{} would be replaced", to.display());
        RealDisk.rename(from, to)?;
        let (from, to) = (from.to_owned(), to.to_owned());
        self.note(Undo::Renamed { from, to });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        if let Ok(bytes) = fs::read(path) {
            let path = path.to_owned();
            self.note(Undo::Removed { path, bytes });
        }
        RealDisk.remove(path)
    }
}
