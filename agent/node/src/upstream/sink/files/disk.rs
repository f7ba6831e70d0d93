//! What the files sink asks of a file system when it changes something, behind a trait, so
//! that a test may end it before any of these steps.
//!
//! Always holds: nothing here decides an order. Reading goes past it, as reading changes
//! nothing. Knows no layout.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The steps of which a commit is made. Each does all of it or says why not.
pub(super) trait Disk: fmt::Debug + Send {
    /// An empty file, in place of one that is there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Write + Send>>;
    /// Makes a file's bytes survive a power cut.
    fn sync_file(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder survive a power cut.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// A folder; one that is there already is as good.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; one that is gone already is as good.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The file system as it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Write + Send>> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).open(path)?;
        Ok(Box::new(file))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        // Another handle of the same file: what is synced is the file.
        File::open(path)?.sync_all()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}
