//! `[files]`: where and how the receiver's sink "files" writes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::ConfigError;
use super::reader::Source;
use super::schema::{Default, Key, Section};

pub const FILES: Section = Section {
    name: "files",
    many: false,
    doc: "The receiver's sink \"files\": Parquet or NDJSON in folders by day and gateway.",
    keys: &[
        Key {
            name: "folder",
            default: Default::None("\"/srv/readings\""),
            doc: "Where they are. Default files in the receiver's data_dir.",
        },
        Key {
            name: "format",
            default: Default::Is("\"parquet\""),
            doc: "parquet or ndjson. May be changed: what is there stays as it is.",
        },
        Key {
            name: "roll",
            default: Default::Is("\"5m\""),
            doc: "What came so long ago stands in a data file. Shorter makes more and smaller files;\nwhat waits is durable and acked, and seen by query, export and verify.",
        },
        Key {
            name: "rows",
            default: Default::Is("500000"),
            doc: "So many records that wait are written earlier.",
        },
    ],
};

const ROLL_MIN: Duration = Duration::from_secs(1);
const ROLL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Most records that may wait: they are read from disk and sorted at once.
const ROWS_MAX: i64 = 4_000_000;

/// How data files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesFormat {
    Parquet,
    Ndjson,
}

/// `[files]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesConfig {
    pub folder: PathBuf,
    pub format: FilesFormat,
    /// Longest time from a commit to a data file, 1 s to a day.
    pub roll: Duration,
    /// Records after which it is shorter, 1 to 4,000,000.
    pub rows: u64,
}

impl FilesConfig {
    /// All as it is when nothing is said.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            format: FilesFormat::Parquet,
            roll: Duration::from_secs(300),
            rows: 500_000,
        }
    }
}

/// Reads the section; `data_dir` is the receiver's.
pub fn files(
    source: &Source<'_>,
    folder: &Path,
    data_dir: &Path,
) -> Result<FilesConfig, ConfigError> {
    let table = source.one(&FILES)?;
    Ok(FilesConfig {
        folder: match table.get("folder")? {
            Some(field) => folder.join(field.text()?),
            None => data_dir.join("files"),
        },
        format: table.need("format")?.one_of(&[
            ("parquet", FilesFormat::Parquet),
            ("ndjson", FilesFormat::Ndjson),
        ])?,
        roll: table.need("roll")?.timer(ROLL_MIN, ROLL_MAX)?,
        rows: table.need("rows")?.int(1, ROWS_MAX)?.unsigned_abs(),
    })
}
