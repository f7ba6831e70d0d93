//! A copy of a database, to be opened without changing the original: sled writes when
//! it opens. It goes when it is dropped.

use std::path::{Path, PathBuf};

use super::OpenError;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Copied {
    temporary: tempfile::TempDir,
}

impl Copied {
    /// Copies the directory `from` into the system's folder for temporary files.
    ///
    /// # Errors
    /// When the system refuses, or has no room.
    pub(super) fn of(from: &Path) -> Result<Self, OpenError> {
        let refused = |error| OpenError::system(from, "copy to look into it", &error);
        let temporary = tempfile::tempdir().map_err(refused)?;
        let copy = Self { temporary };
        copy_all(from, &copy.dir()).map_err(refused)?;
        Ok(copy)
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.temporary.path().join("db")
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
