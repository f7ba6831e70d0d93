//! The folder of a run, on the disk that is tested, and the one in which processes meet.
//!
//! Always holds: nothing outside of the own folder is written or removed; a second run
//! at the same time is refused. What a killed run left is removed by the next, unless it
//! waits for `--resume`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Name of the folder.
const NAME: &str = "forebay-selftest";
const LOCK: &str = "lock";
/// Notes of what devices saw acked; while it stands, the folder is kept for `--resume`.
const WITNESS: &str = "witness";
/// Says where the notes are when they are elsewhere.
const ELSEWHERE: &str = "witness-elsewhere";

/// See the module's text. Dropping it removes the folder, unless it is to be kept.
#[derive(Debug)]
pub(super) struct Place {
    dir: PathBuf,
    lock: File,
    keep: bool,
}

/// The folder that is there, from `data_dir` upwards: it lies on the disk on which the
/// data directory is, or would be made.
pub(super) fn nearest(data_dir: &Path) -> PathBuf {
    let absolute = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let there = absolute.ancestors().find(|folder| folder.is_dir());
    there.unwrap_or(Path::new("/")).to_owned()
}

impl Place {
    /// Makes the folder in `base`, in the place of what a killed run left.
    ///
    /// # Errors
    /// A sentence: who has it, or what the system refuses.
    pub(super) fn make(base: &Path) -> Result<Self, String> {
        let dir = base.join(NAME);
        let shown = dir.display();
        if dir.join(WITNESS).exists() || dir.join(ELSEWHERE).exists() {
            return Err(format!(
                "{shown} waits for `forebay selftest --resume` with the same config or --dir: run \
                 that, or remove the folder"
            ));
        }
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir);
        made.map_err(|error| format!("{shown}: {error}"))?;
        let place = Self::lock(dir)?;
        place.empty()?;
        Ok(place)
    }

    /// The folder in `base` that a power cut left.
    ///
    /// # Errors
    /// A sentence: there is none, or it is in use.
    pub(super) fn left(base: &Path) -> Result<Self, String> {
        let dir = base.join(NAME);
        if !dir.is_dir() {
            return Err(format!(
                "{} is not there: `forebay selftest --power-cut=pull` with the same config or \
                 --dir makes it",
                dir.display()
            ));
        }
        let mut place = Self::lock(dir)?;
        place.keep = true;
        Ok(place)
    }

    fn lock(dir: PathBuf) -> Result<Self, String> {
        let path = dir.join(LOCK);
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let lock = file.map_err(|error| told(&error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                dir,
                lock,
                keep: false,
            }),
            Err(TryLockError::WouldBlock) => Err(format!(
                "another self-test runs in {}: wait for its end",
                dir.display()
            )),
            Err(TryLockError::Error(error)) => Err(told(&error)),
        }
    }

    /// Removes all but the lock.
    fn empty(&self) -> Result<(), String> {
        let told = |error: std::io::Error| format!("{}: {error}", self.dir.display());
        for entry in fs::read_dir(&self.dir).map_err(told)? {
            let entry = entry.map_err(told)?;
            if entry.file_name() == LOCK {
                continue;
            }
            let is_dir = entry.file_type().map_err(told)?.is_dir();
            let gone = if is_dir {
                fs::remove_dir_all(entry.path())
            } else {
                fs::remove_file(entry.path())
            };
            gone.map_err(told)?;
        }
        Ok(())
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn agent_dir(&self) -> PathBuf {
        self.dir.join("agent")
    }

    pub(super) fn upstream_dir(&self) -> PathBuf {
        self.dir.join("upstream")
    }

    /// Where the notes are, unless they are elsewhere.
    pub(super) fn witness(&self) -> PathBuf {
        self.dir.join(WITNESS)
    }

    /// Marks the folder as one whose notes are at `witness`, so that no other run
    /// removes it.
    ///
    /// # Errors
    /// A sentence.
    pub(super) fn note_elsewhere(&self, witness: &Path) -> Result<(), String> {
        let path = self.dir.join(ELSEWHERE);
        let told = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::write(&path, format!("{}\n", witness.display())).map_err(told)?;
        File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(told)?;
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(told)
    }

    /// Whether it stays when this is dropped.
    pub(super) fn set_keep(&mut self, keep: bool) {
        self.keep = keep;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep {
            // A folder that cannot be removed is emptied by the next run.
            let _ = self.empty();
            let _ = fs::remove_dir_all(&self.dir);
        }
        let _ = self.lock.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_used_alone_and_removed() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("users"), "data").unwrap();
        let place = Place::make(base.path()).unwrap();
        fs::create_dir(place.agent_dir()).unwrap();
        assert!(
            Place::make(base.path())
                .unwrap_err()
                .contains("another self-test")
        );
        drop(place);
        let left: Vec<_> = fs::read_dir(base.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "the user's file alone: {left:?}");
    }

    #[test]
    fn what_a_killed_run_left_goes_and_what_waits_for_a_resume_stays() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join(NAME);
        fs::create_dir_all(dir.join("agent/log")).unwrap();
        let mut place = Place::make(base.path()).unwrap();
        assert!(!place.agent_dir().exists());
        assert!(Place::left(base.path()).is_err(), "it is in use");
        place.note_elsewhere(Path::new("/elsewhere")).unwrap();
        place.set_keep(true);
        drop(place);
        assert!(Place::make(base.path()).unwrap_err().contains("--resume"));
        drop(Place::left(base.path()).unwrap());
        assert!(dir.exists(), "only what passed is removed");
    }

    #[test]
    fn the_nearest_folder_that_is_there() {
        let base = tempfile::tempdir().unwrap();
        let there = base.path().canonicalize().unwrap();
        assert_eq!(nearest(&there), there);
        assert_eq!(nearest(&there.join("a/b")), there);
        assert!(nearest(Path::new("nowhere")).is_dir());
    }
}
