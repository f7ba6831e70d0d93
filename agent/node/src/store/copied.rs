//! A copy of a database, to be opened without changing the original: sled writes when
//! it opens. It goes when it is dropped.

use std::path::{Path, PathBuf};

use super::OpenError;
use super::names::{UNFINISHED, remove_all, with_end};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Copied {
    /// Where it stands, when that is not beside the original.
    temporary: Option<tempfile::TempDir>,
    dir: PathBuf,
}

impl Copied {
    /// Copies the directory `from` into the system's folder for temporary files.
    ///
    /// # Errors
    /// When the system refuses, or has no room.
    pub(super) fn of(from: &Path) -> Result<Self, OpenError> {
        let refused = |error| OpenError::system(from, "copy to look into it", &error);
        let temporary = tempfile::tempdir().map_err(refused)?;
        let dir = temporary.path().join("db");
        copy_all(from, &dir).map_err(refused)?;
        let temporary = Some(temporary);
        Ok(Self { temporary, dir })
    }

    /// Copies the directory `original` to a place beside it, where the next opening
    /// finds and removes what is left of a copy that was cut short.
    ///
    /// # Errors
    /// When the system refuses, or has no room.
    pub(super) fn beside(original: &Path) -> Result<Self, OpenError> {
        let dir = with_end(original, UNFINISHED);
        let refused = |error| OpenError::system(original, "copy to look into it", &error);
        remove_all(&dir).map_err(refused)?;
        let copy = Self {
            temporary: None,
            dir,
        };
        // Dropping it removes what was copied until the disk was full.
        copy_all(original, &copy.dir).map_err(refused)?;
        Ok(copy)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if self.temporary.is_none() {
            // What does not go now goes at the next opening.
            let _ = remove_all(&self.dir);
        }
    }
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
