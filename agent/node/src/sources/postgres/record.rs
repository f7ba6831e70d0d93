//! What an agent remembers of a database beside the positions in its log: which database
//! it was, which tables were read, and whether they were read to the end. One small file
//! per source, replaced as a whole.
//!
//! Always holds: after a crash the file is the old one or the new one; a file that cannot
//! be read is none, and then all rows are read anew. It says that a snapshot is whole only
//! after the log has it durably. Format 1: `agent/node/docs/tables-postgres.md`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Largest file that is read.
const RECORD_BYTES_MAX: u64 = 64 << 10;
const FORMAT: u64 = 1;

/// How far it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// A snapshot has begun; what a slot has is of no use without its end.
    Snapshot,
    Streaming,
}

/// By what a table is known again: dropped and made anew, or taken out of the publication
/// and put back, it has other numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableId {
    pub table: u32,
    /// 0 where the publication has it without naming it.
    pub published: u32,
}

/// See the module's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// The cluster's own number.
    pub system: String,
    pub timeline: u32,
    pub slot: String,
    pub publication: String,
    pub phase: Phase,
    /// By schema and name, as `schema.name`.
    pub tables: BTreeMap<String, TableId>,
}

impl Record {
    /// Reads it; `None`: there is none that can be used.
    pub(super) fn load(file: &Path) -> Option<Self> {
        let mut bytes = Vec::new();
        let opened = File::open(file).ok()?;
        opened.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Self::parse(&serde_json::from_slice(&bytes).ok()?)
    }

    fn parse(value: &Value) -> Option<Self> {
        if value["format"].as_u64() != Some(FORMAT) {
            return None;
        }
        let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let text = |key: &str| Some(value[key].as_str()?.to_owned());
        let mut tables = BTreeMap::new();
        for (name, ids) in value["tables"].as_object()? {
            let id = TableId {
                table: number(&ids["table"])?,
                published: number(&ids["published"])?,
            };
            tables.insert(name.clone(), id);
        }
        Some(Self {
            system: text("system")?,
            timeline: number(&value["timeline"])?,
            slot: text("slot")?,
            publication: text("publication")?,
            phase: match value["phase"].as_str()? {
                "snapshot" => Phase::Snapshot,
                "streaming" => Phase::Streaming,
                _ => return None,
            },
            tables,
        })
    }

    fn write(&self) -> Value {
        let id = |id: &TableId| json!({ "table": id.table, "published": id.published });
        let tables = self.tables.iter().map(|(name, of)| (name.clone(), id(of)));
        json!({
            "format": FORMAT,
            "system": self.system,
            "timeline": self.timeline,
            "slot": self.slot,
            "publication": self.publication,
            "phase": match self.phase {
                Phase::Snapshot => "snapshot",
                Phase::Streaming => "streaming",
            },
            "tables": tables.collect::<serde_json::Map<_, _>>(),
        })
    }

    /// Puts it in the place of the one that was there, durably.
    pub(super) fn save(&self, file: &Path) -> io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut new = PathBuf::from(file);
        new.set_extension("new");
        let mut written = File::create(&new)?;
        written.write_all(format!("{:#}\n", self.write()).as_bytes())?;
        written.sync_all()?;
        fs::rename(&new, file)?;
        File::open(folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let id = TableId {
            table: 16_400,
            published: 0,
        };
        Record {
            system: "7321".into(),
            timeline: 1,
            slot: "s".into(),
            publication: "p".into(),
            phase: Phase::Snapshot,
            tables: [("public.sites".to_owned(), id)].into(),
        }
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sources").join("main.json");
        assert_eq!(Record::load(&file), None);
        for phase in [Phase::Snapshot, Phase::Streaming] {
            let record = Record { phase, ..record() };
            record.save(&file).unwrap();
            assert_eq!(Record::load(&file), Some(record));
        }
    }

    #[test]
    fn a_file_that_is_no_record_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("main.json");
        record().save(&file).unwrap();
        let whole = fs::read(&file).unwrap();
        for len in 0..whole.len() - 2 {
            fs::write(&file, &whole[..len]).unwrap();
            assert_eq!(Record::load(&file), None, "{len}");
        }
        let other = String::from_utf8(whole).unwrap();
        for (from, to) in [
            ("\"format\": 1", "\"format\": 2"),
            ("snapshot", "snapshots"),
        ] {
            fs::write(&file, other.replace(from, to)).unwrap();
            assert_eq!(Record::load(&file), None, "{to}");
        }
    }
}
