//! The one file that names sled: a guarded database of a few trees with atomic
//! writes across them and a sync that survives a power cut.
//!
//! Always holds: a value is at most [`VALUE_BYTES_MAX`], because sled spills
//! larger pages into `blobs/`, which it never syncs; after the first failure
//! nothing is written until the database is opened again; a panic of sled comes
//! out as an error. Knows nothing of what keys and values mean. Memory: the page
//! cache, which grows with the pages touched since open.

use std::fmt;
use std::fs::File;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_core::limits::{BLOCK_BYTES_MAX, STORE_KEY_BYTES_MAX};
use forebay_core::store::StoreError;
use sled::transaction::{ConflictableTransactionError, TransactionError, Transactional};

use super::names::remove_all;
use super::{OpenError, is_no_space, sync_dir};

/// Largest value. A leaf splits above 16 entries, and 17 of these with their keys
/// stay below the 128 KiB at which sled spills a page.
pub const VALUE_BYTES_MAX: usize = BLOCK_BYTES_MAX;
const _: () = assert!(17 * (VALUE_BYTES_MAX + STORE_KEY_BYTES_MAX) < 128 * 1024);

const CACHE_BYTES: u64 = 8 * 1024 * 1024;
/// sled parts its cache in 256, and a page of blocks that has no room in its part goes
/// out at once: the next write to it then waits for a flush to read it back. What a
/// generation holds bounds the memory, not this.
const CACHE_ONCE_BYTES: u64 = 128 * 1024 * 1024;
/// sled collects garbage only in its flusher thread, so that one stays on.
const FLUSHER_EVERY_MS: u64 = 500;
/// A database just closed may hold its file lock until its last write task ended.
const REOPEN_TRIES: u32 = 100;
const REOPEN_PAUSE: Duration = Duration::from_millis(20);

/// One entry of an atomic write.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Index into the trees given at open.
    pub tree: usize,
    pub key: &'a [u8],
    /// `None` removes the key.
    pub value: Option<&'a [u8]>,
    /// The whole write fails when the key exists.
    pub must_be_new: bool,
}

/// Bytes that a database and others hold in one piece of memory.
pub(super) type SharedBytes = sled::IVec;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// See the module's text.
pub struct SledDb {
    dir: PathBuf,
    trees: Vec<sled::Tree>,
    db: sled::Db,
    /// Our own handle of `<dir>/db`: sled's flush does not reach the platter.
    file: File,
    failed: Option<StoreError>,
}

impl fmt::Debug for SledDb {
    /// sled's own shows every entry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledDb")
            .field("dir", &self.dir)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl SledDb {
    /// Opens the database in `dir`, or creates it whole: a creation that was cut
    /// short leaves nothing that a later open could stumble over.
    ///
    /// # Errors
    /// When the system refuses or the database is damaged. Nothing is deleted but
    /// leftovers that hold no data.
    pub fn open(dir: &Path, trees: &[&str]) -> Result<Self, OpenError> {
        if !dir.exists() {
            create(dir)?;
        }
        remove_leftovers(dir)?;
        let opened = open_guarded(dir, trees, LASTING)?;
        // The open wrote a new snapshot and removed the one before, and sled syncs no
        // names: after a power cut the old one would describe a `db` that has moved on,
        // and the next open would fail or take all for gone.
        sync_dir(dir).map_err(|error| OpenError::system(dir, "sync", &error))?;
        Self::of(dir, opened)
    }

    /// Creates a database that is not opened again; what stands in `dir` goes. It
    /// collects no garbage: it is removed as a whole.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn create_new(dir: &Path, trees: &[&str]) -> Result<Self, OpenError> {
        let parent = dir.parent().unwrap_or(Path::new("."));
        let refused = |error| OpenError::system(dir, "create", &error);
        remove_all(dir).map_err(refused)?;
        let opened = open_guarded(dir, trees, ONCE)?;
        sync_files(dir)
            .and_then(|()| sync_dir(parent))
            .map_err(refused)?;
        Self::of(dir, opened)
    }

    fn of(dir: &Path, (db, trees): (sled::Db, Vec<sled::Tree>)) -> Result<Self, OpenError> {
        let path = dir.join("db");
        let file = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| OpenError::system(&path, "open for syncing", &error))?;
        let opened = Self {
            dir: dir.to_owned(),
            trees,
            db,
            file,
            failed: None,
        };
        opened.check_blobs().map_err(|error| OpenError::Damaged {
            dir: dir.to_owned(),
            said: error.said,
        })?;
        Ok(opened)
    }

    /// Writes all entries or none. Durable after [`SledDb::sync`].
    ///
    /// # Errors
    /// When sled fails, or a key that must be new exists; see the module's text.
    ///
    /// # Panics
    /// When a key or value is longer than the bounds above.
    pub fn write(&mut self, writes: &[Write<'_>]) -> Result<(), StoreError> {
        for write in writes {
            check_bounds(write.key, write.value.map_or(0, <[u8]>::len));
        }
        self.refuse_when_failed()?;
        if writes.is_empty() {
            return Ok(());
        }
        let done = guarded("append", || transact(&self.trees, writes));
        self.remember(done)
    }

    /// Inserts entries into one tree, all or none. Durable after [`SledDb::sync`].
    /// Faster than [`SledDb::write`], which can do more.
    ///
    /// # Errors
    /// When sled fails; see the module's text.
    ///
    /// # Panics
    /// When a key or value is longer than the bounds above.
    pub fn insert_all<'a>(
        &mut self,
        tree: usize,
        entries: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), StoreError> {
        self.refuse_when_failed()?;
        let mut batch = sled::Batch::default();
        for (key, value) in entries {
            check_bounds(key, value.len());
            batch.insert(key, value);
        }
        self.apply(tree, batch)
    }

    /// As [`SledDb::insert_all`], with values whose memory the database shares.
    ///
    /// # Errors
    /// When sled fails; see the module's text.
    ///
    /// # Panics
    /// When a key or value is longer than the bounds above.
    pub(super) fn insert_shared<'a>(
        &mut self,
        tree: usize,
        entries: impl Iterator<Item = (&'a [u8], &'a SharedBytes)>,
    ) -> Result<(), StoreError> {
        self.refuse_when_failed()?;
        let mut batch = sled::Batch::default();
        for (key, value) in entries {
            check_bounds(key, value.len());
            batch.insert(key, value.clone());
        }
        self.apply(tree, batch)
    }

    /// As [`SledDb::insert_all`], but an empty value removes its key.
    ///
    /// # Errors
    /// When sled fails; see the module's text.
    ///
    /// # Panics
    /// When a key or value is longer than the bounds above.
    pub fn set_all<'a>(
        &mut self,
        tree: usize,
        entries: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), StoreError> {
        self.refuse_when_failed()?;
        let mut batch = sled::Batch::default();
        for (key, value) in entries {
            check_bounds(key, value.len());
            if value.is_empty() {
                batch.remove(key);
            } else {
                batch.insert(key, value);
            }
        }
        self.apply(tree, batch)
    }

    fn apply(&mut self, tree: usize, batch: sled::Batch) -> Result<(), StoreError> {
        let done = guarded("append", || {
            let applied = self.trees[tree].apply_batch(batch);
            applied.map_err(|error| sled_error("append", &error))
        });
        self.remember(done)
    }

    /// Makes every write so far survive a power cut.
    ///
    /// # Errors
    /// When that cannot be said.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.refuse_when_failed()?;
        let done = self.sync_once();
        self.remember(done)
    }

    fn sync_once(&self) -> Result<(), StoreError> {
        guarded("flush", || {
            self.db.flush().map_err(|error| sled_error("flush", &error))
        })?;
        // The flush above hands the bytes to the system; only this call makes the
        // file's size and the drive's cache follow.
        super::fault::point("sync.flushed");
        self.file
            .sync_data()
            .map_err(|error| io_error("fdatasync", &error))?;
        self.check_blobs()
    }

    /// The value of a key.
    ///
    /// # Errors
    /// When sled cannot read.
    pub fn get(&self, tree: usize, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        guarded("read", || {
            let found = self.trees[tree].get(key);
            let found = found.map_err(|error| sled_error("read", &error))?;
            Ok(found.map(|value| value.to_vec()))
        })
    }

    /// The last entry whose key lies within the bounds.
    ///
    /// # Errors
    /// When sled cannot read.
    pub fn last(
        &self,
        tree: usize,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<Option<Entry>, StoreError> {
        guarded("read", || {
            match range(&self.trees[tree], from, to).next_back() {
                None => Ok(None),
                Some(Ok((key, value))) => Ok(Some((key.to_vec(), value.to_vec()))),
                Some(Err(error)) => Err(sled_error("read", &error)),
            }
        })
    }

    /// Shows the entries within the bounds in key order until `visit` says no.
    ///
    /// # Errors
    /// When sled cannot read; some entries may have been shown by then.
    pub fn scan(
        &self,
        tree: usize,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        guarded("read", || {
            for entry in range(&self.trees[tree], from, to) {
                let (key, value) = entry.map_err(|error| sled_error("read", &error))?;
                if !visit(&key, &value) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// All entries whose key starts with `prefix`, in key order.
    ///
    /// # Errors
    /// When sled cannot read.
    pub fn scan_prefix(
        &self,
        tree: usize,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.scan(
            tree,
            Bound::Included(prefix),
            Bound::Unbounded,
            |key, value| key.starts_with(prefix) && visit(key, value),
        )
    }

    /// Whether nothing is written any more until it is opened again.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn check_blobs(&self) -> Result<(), StoreError> {
        let blobs = self.dir.join("blobs");
        let mut entries =
            std::fs::read_dir(&blobs).map_err(|error| io_error("look into blobs/", &error))?;
        if entries.next().is_some() {
            return Err(StoreError {
                doing: "check",
                said: format!("{} is not empty: a page spilled unsynced", blobs.display()),
                no_space: false,
            });
        }
        Ok(())
    }

    fn refuse_when_failed(&self) -> Result<(), StoreError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn remember(&mut self, done: Result<(), StoreError>) -> Result<(), StoreError> {
        if let Err(error) = &done {
            self.failed = Some(error.clone());
        }
        done
    }
}

fn check_bounds(key: &[u8], value_bytes: usize) {
    assert!(
        key.len() <= STORE_KEY_BYTES_MAX && value_bytes <= VALUE_BYTES_MAX,
        "an entry of {} and {value_bytes} bytes would spill",
        key.len(),
    );
}

/// Creates beside its place, syncs, and moves there: half a database is never
/// found under the name.
fn create(dir: &Path) -> Result<(), OpenError> {
    let system = |path: &Path, doing, error| OpenError::system(path, doing, &error);
    let parent = dir.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(|e| system(parent, "create the directory", e))?;
    let mut name = dir.as_os_str().to_owned();
    name.push(".creating");
    let creating = PathBuf::from(name);
    if creating.exists() {
        std::fs::remove_dir_all(&creating)
            .map_err(|e| system(&creating, "remove a creation that was cut short", e))?;
    }
    drop(open_guarded(&creating, &[], LASTING)?);
    sync_files(&creating).map_err(|e| system(&creating, "sync", e))?;
    std::fs::rename(&creating, dir).map_err(|e| system(&creating, "rename", e))?;
    sync_dir(parent).map_err(|e| system(parent, "sync", e))
}

fn sync_files(dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        match File::open(entry?.path()) {
            Ok(file) => file.sync_all()?,
            // A snapshot that sled has just replaced.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    sync_dir(dir)
}

/// A snapshot still being generated when the process died stops sled's open for
/// good. It is renamed only after its own fsync, so no data stands in it alone.
fn remove_leftovers(dir: &Path) -> Result<(), OpenError> {
    let entries =
        std::fs::read_dir(dir).map_err(|e| OpenError::system(dir, "list the directory", &e))?;
    for entry in entries {
        let path = entry
            .map_err(|e| OpenError::system(dir, "list the directory", &e))?
            .path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            std::fs::remove_file(&path)
                .map_err(|e| OpenError::system(&path, "remove a leftover", &e))?;
        }
    }
    Ok(())
}

/// What sled is told about a database.
#[derive(Debug, Clone, Copy)]
struct How {
    cache_bytes: u64,
    flusher_every_ms: Option<u64>,
}

const LASTING: How = How {
    cache_bytes: CACHE_BYTES,
    flusher_every_ms: Some(FLUSHER_EVERY_MS),
};
/// Written once: without garbage to collect.
const ONCE: How = How {
    cache_bytes: CACHE_ONCE_BYTES,
    flusher_every_ms: None,
};

fn open_guarded(
    dir: &Path,
    trees: &[&str],
    how: How,
) -> Result<(sled::Db, Vec<sled::Tree>), OpenError> {
    let config = sled::Config::new()
        .path(dir)
        .cache_capacity(how.cache_bytes)
        .flush_every_ms(how.flusher_every_ms);
    let open = || -> Result<_, sled::Error> {
        let mut tries = 0;
        let db = loop {
            match config.open() {
                Err(error) if is_lock_error(&error) && tries < REOPEN_TRIES => {
                    tries += 1;
                    std::thread::sleep(REOPEN_PAUSE);
                }
                opened => break opened?,
            }
        };
        let trees = trees.iter().map(|name| db.open_tree(name));
        let trees = trees.collect::<Result<Vec<_>, _>>()?;
        Ok((db, trees))
    };
    match catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(sled::Error::Io(error))) if is_no_space(&error) => {
            Err(OpenError::system(dir, "open the database", &error))
        }
        Ok(Err(error)) => Err(OpenError::Damaged {
            dir: dir.to_owned(),
            said: error.to_string(),
        }),
        Err(panic) => Err(OpenError::Damaged {
            dir: dir.to_owned(),
            said: panic_text(panic.as_ref()),
        }),
    }
}

/// Waits until nothing writes to a database any more that was closed: its last write
/// tasks hold its lock. One that failed may hold it for ever, and writes no more then:
/// so the wait has an end.
///
/// # Errors
/// When the system refuses.
pub(super) fn wait_until_closed(dir: &Path) -> std::io::Result<()> {
    let file = File::open(dir.join("db"))?;
    for _ in 0..REOPEN_TRIES {
        match file.try_lock() {
            Ok(()) => return file.unlock(),
            Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(REOPEN_PAUSE),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(())
}

fn is_lock_error(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(error) if error.to_string().contains("could not acquire lock"))
}

fn transact(trees: &[sled::Tree], writes: &[Write<'_>]) -> Result<(), StoreError> {
    let done = trees.transaction(|views| {
        for write in writes {
            let view = &views[write.tree];
            let old = match write.value {
                Some(value) => view.insert(write.key, value)?,
                None => view.remove(write.key)?,
            };
            if write.must_be_new && old.is_some() {
                let key = format!("{:02x?}", write.key);
                return Err(ConflictableTransactionError::Abort(key));
            }
        }
        Ok(())
    });
    done.map_err(|error| match error {
        TransactionError::Storage(error) => sled_error("append", &error),
        TransactionError::Abort(key) => StoreError {
            doing: "append",
            said: format!("key {key} exists already"),
            no_space: false,
        },
    })
}

fn range(tree: &sled::Tree, from: Bound<&[u8]>, to: Bound<&[u8]>) -> sled::Iter {
    tree.range::<Vec<u8>, _>((from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec)))
}

fn guarded<T>(
    doing: &'static str,
    call: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        Err(StoreError {
            doing,
            said: panic_text(panic.as_ref()),
            no_space: false,
        })
    })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without a text"))
}

pub(super) fn io_error(doing: &'static str, error: &std::io::Error) -> StoreError {
    StoreError {
        doing,
        said: error.to_string(),
        no_space: is_no_space(error),
    }
}

fn sled_error(doing: &'static str, error: &sled::Error) -> StoreError {
    let no_space = matches!(error, sled::Error::Io(error) if is_no_space(error));
    StoreError {
        doing,
        said: error.to_string(),
        no_space,
    }
}
