//! One process per directory: an advisory lock on the file `lock`, which holds
//! the pid of its owner as text.
//!
//! Invariant: while a [`DirLock`] lives, no other process gets one for the same
//! directory. The system drops the lock with the process, so none goes stale.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::OpenError;

/// Longest text read from a lock file: a pid and a newline fit.
const LOCK_TEXT_BYTES_MAX: u64 = 32;

/// Holds a directory until dropped.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

impl DirLock {
    /// Takes the directory, which is created when it does not exist.
    ///
    /// # Errors
    /// [`OpenError::Locked`] with the owner's pid, or what the system refused.
    pub fn take(dir: &Path) -> Result<Self, OpenError> {
        create_durably(dir)
            .map_err(|error| OpenError::system(dir, "create the directory", &error))?;
        let path = dir.join("lock");
        let system = |doing, error| OpenError::system(&path, doing, &error);
        // Not truncated on open: the pid in it is still the owner's.
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| system("open the lock file", error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Locked {
                    dir: dir.to_owned(),
                    pid: read_pid(&mut file),
                });
            }
            Err(TryLockError::Error(error)) => return Err(system("lock", error)),
        }
        let pid = std::process::id();
        // The pid is a courtesy: on a full disk the lock holds without it.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{pid}"));
        Ok(Self { _file: file })
    }
}

/// Creates a directory and what is missing above it. Each new name is synced in the
/// directory that holds it: else a power cut takes the whole directory along,
/// however often what is in it was synced.
fn create_durably(dir: &Path) -> std::io::Result<()> {
    let parent = dir.parent().filter(|parent| *parent != Path::new(""));
    let parent = parent.unwrap_or(Path::new("."));
    if dir.is_dir() {
        // An earlier start may have been killed before its sync. A parent that may
        // not be read was made by somebody else.
        let _ = super::sync_dir(parent);
        return Ok(());
    }
    create_durably(parent)?;
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        created => created?,
    }
    super::sync_dir(parent)
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(LOCK_TEXT_BYTES_MAX)
        .read_to_string(&mut text)
        .ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_with_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = DirLock::take(dir.path()).unwrap();
        match DirLock::take(dir.path()) {
            Err(OpenError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(first);
        DirLock::take(dir.path()).unwrap();
    }

    #[test]
    fn what_is_missing_above_is_created() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        drop(DirLock::take(&deep).unwrap());
        DirLock::take(&deep).unwrap();
        std::fs::write(dir.path().join("file"), b"").unwrap();
        let error = DirLock::take(&dir.path().join("file/x")).unwrap_err();
        assert!(
            error.to_string().contains("create the directory"),
            "{error}"
        );
    }

    #[test]
    fn a_lock_file_with_rubbish_in_it_still_locks() {
        for rubbish in [&b""[..], b"\xff\xfe", b"99999999999999999999", &[b'1'; 500]] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("lock"), rubbish).unwrap();
            let _first = DirLock::take(dir.path()).unwrap();
            assert!(DirLock::take(dir.path()).is_err());
        }
    }
}
