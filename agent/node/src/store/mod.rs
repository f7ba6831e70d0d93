//! Bytes on disk: the log store, the lock that keeps a second process out, and the
//! one thread that writes.
//!
//! sled takes the writes of the newest generation; a full one is sealed into plain
//! segment files. Layout of a data directory: `agent/node/docs/store.md`.

mod ballast;
pub mod fault;
mod lock;
mod names;

mod identity;
mod keyed;
mod raw;
#[cfg(test)]
mod samples;
mod segment_file;
mod sled_db;

mod live;
mod unsealed;

mod reads;
mod recent;
mod row_index;

mod catalog;
mod copied;
mod meta_db;

mod opening;
mod sealer;

mod generations;

mod log_store;
mod thread;

mod reader;

mod check;
mod repair;

pub use check::{DAMAGES_MAX, Damage, Report};
pub use generations::StoreSettings;
pub use lock::DirLock;
pub use log_store::LogStore;
pub use names::{quarantined, segment_name};
pub use raw::{Chosen, RawBlock, choose, search};
pub use reader::{LogReader, Part, Place, State};
pub use reads::{KeyedPart, LogReads, ReadPart, ReadWhat, RowsOf};
pub use repair::{Repaired, repair};
pub use row_index::KeyHash;
pub use segment_file::{SegmentFile, SegmentWriter, sealed_now};
pub use sled_db::{Entry, SledDb, VALUE_BYTES_MAX, Write};
pub use thread::{Answer, Refused, Request, StorageThread, SyncPolicy};

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a data directory could not be opened. Nothing in it was deleted.
#[derive(Debug)]
pub enum OpenError {
    /// Another process holds it: stop that one, or use another directory.
    Locked { dir: PathBuf, pid: Option<u32> },
    /// The system refused; `no_space` when the disk is full.
    System {
        path: PathBuf,
        doing: &'static str,
        said: String,
        no_space: bool,
    },
    /// The database in `dir` cannot be read: the operator moves it aside.
    Damaged { dir: PathBuf, said: String },
}

impl OpenError {
    /// The store in `path` did not take what an opening writes.
    fn unwritten(path: &Path, error: forebay_core::store::StoreError) -> Self {
        Self::System {
            path: path.to_owned(),
            doing: error.doing,
            said: error.said,
            no_space: error.no_space,
        }
    }

    fn system(path: &Path, doing: &'static str, error: &std::io::Error) -> Self {
        Self::System {
            path: path.to_owned(),
            doing,
            said: error.to_string(),
            no_space: is_no_space(error),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { dir, pid } => {
                let dir = dir.display();
                write!(f, "{dir} is in use by another forebay process")?;
                if let Some(pid) = pid {
                    write!(f, " (pid {pid})")?;
                }
                write!(f, ": stop that one, or give this one another directory")
            }
            Self::System {
                path,
                doing,
                said,
                no_space,
            } => {
                write!(f, "{}: cannot {doing}: {said}", path.display())?;
                if *no_space {
                    write!(f, ": free some space on this disk, then start again")?;
                }
                Ok(())
            }
            Self::Damaged { dir, said } => {
                let dir = dir.display();
                write!(
                    f,
                    "the database in {dir} cannot be opened: {said}. Nothing in it was deleted. \
                     To start with an empty one and keep this one for salvage: \
                     mv {dir} {dir}.damaged"
                )
            }
        }
    }
}

impl std::error::Error for OpenError {}

fn is_no_space(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
    )
}

/// Makes names in `dir` survive a power cut.
fn sync_dir(dir: &Path) -> std::io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}
