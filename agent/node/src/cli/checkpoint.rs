//! `forebay checkpoint export` and `import`: the engines' state of a stopped agent as
//! one file, and back, into a copy of the same log. Byte table of the file:
//! `agent/core/docs/checkpoint.md`.
//!
//! Holds always: an import writes all entries or none, and only such as belong to the
//! log and the windows of the config. Bound: files of [`FILE_BYTES_MAX`].

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use forebay_core::checkpoint::{CHECKPOINT_META_PREFIX, Manifest, PipelineHash, STATE_META_PREFIX};
use forebay_core::engine::STATE_VERSION;
use forebay_core::engine::config::EngineConfig;
use forebay_core::exchange::{EXCHANGE_META_PREFIX, Split};
use forebay_core::layout::LAYOUT_META_PREFIX;
use forebay_core::limits::{META_KEY_BYTES_MAX, META_VALUE_BYTES_MAX};
use forebay_core::log::bytes::{Malformed, Reader};
use forebay_core::meta::{Entry, checked, with_crc};
use forebay_core::readers::{CHANGED_META_PREFIX, DERIVE_META_PREFIX};
use forebay_core::store::{Store as _, WriteBatch};
use forebay_core::topics::{TOPIC_META_PREFIX, pipeline_hash};
use forebay_core::units::LogId;
use forebay_core::views::{
    PIPELINE_META_PREFIX, Pipeline, SLOT_META_PREFIX, VIEW_META_PREFIX, of_slot,
};
use serde_json::json;

use crate::config::Config;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::shell::output;
use crate::store::{LogReader, LogStore, OpenError};
use crate::terminal::print_line;

/// Version of the file, its first byte.
const VERSION: u8 = 1;
/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// What a checkpoint is made of, in the meta database.
const PREFIXES: [&[u8]; 10] = [
    CHECKPOINT_META_PREFIX,
    STATE_META_PREFIX,
    DERIVE_META_PREFIX,
    CHANGED_META_PREFIX,
    EXCHANGE_META_PREFIX,
    LAYOUT_META_PREFIX,
    TOPIC_META_PREFIX,
    PIPELINE_META_PREFIX,
    SLOT_META_PREFIX,
    VIEW_META_PREFIX,
];
/// Of these, what the log's own data goes by: it may be missing where it is imported,
/// but not be another.
const FIXED: [&[u8]; 2] = [LAYOUT_META_PREFIX, TOPIC_META_PREFIX];

/// Moves the state of a stopped agent's windows
#[derive(Debug, Subcommand)]
pub(super) enum CheckpointVerb {
    Export(ExportArgs),
    Import(ImportArgs),
}

/// Writes the state of a stopped agent's windows to a file
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay checkpoint export windows.state

With a copy of the log's directory the file lets another machine go on where this one was
stopped, without computing its windows anew.
Exit code: 0; 2 when there is no state, or it cannot be read or written.")]
pub(super) struct ExportArgs {
    /// File to write; one that is there is replaced
    file: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// Takes the state of windows from a file that `export` wrote
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay checkpoint import windows.state

The log in the data directory must be the one of the export, or a copy, and the config must
have the same windows.
Exit code: 0; 2 when the file does not belong to this log or config, or cannot be read.")]
pub(super) struct ImportArgs {
    /// File to read
    file: PathBuf,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
struct Target {
    /// Config of the agent: names its data directory and its windows
    #[arg(long, value_name = "FILE", default_value = super::CONFIG_DEFAULT)]
    config: PathBuf,
    /// Another data directory than the config names
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(verb: &CheckpointVerb) -> ExitCode {
    let (args, said) = match verb {
        CheckpointVerb::Export(args) => (&args.target, "kept"),
        CheckpointVerb::Import(args) => (&args.target, "taken"),
    };
    let bar = Progress::waiting("the state is being read").shown(!args.json);
    let done = match verb {
        CheckpointVerb::Export(args) => export(args),
        CheckpointVerb::Import(args) => import(args),
    };
    drop(bar);
    match done {
        Ok(kept) if args.json => {
            let said = json!({ "entries": kept.entries.len(), "bytes": kept.bytes() });
            print_line(&said.to_string())
        }
        Ok(kept) => print_line(&format!(
            "{} entries, {} bytes of state {said}",
            kept.entries.len(),
            kept.bytes()
        )),
        Err(text) => output::failed(&Failure::usage(text)),
    }
}

/// The state of all engines of a log.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    log_id: LogId,
    /// By key.
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Kept {
    fn bytes(&self) -> usize {
        let sizes = self
            .entries
            .iter()
            .map(|(key, value)| key.len() + value.len());
        sizes.sum()
    }

    /// Heads of the checkpoints of its live pipeline.
    fn manifests(&self) -> Vec<Option<Manifest>> {
        let entries: Vec<Entry> = self.entries.clone().into_iter().collect();
        let slot = Pipeline::restore(&entries).map_or(0, |live| live.slot);
        let live = of_slot(slot, &entries);
        let heads = live.iter();
        let heads = heads.filter(|(key, _)| key.starts_with(CHECKPOINT_META_PREFIX));
        heads.map(|(_, value)| Manifest::parse(value)).collect()
    }

    fn to_file(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.log_id.0);
        for (key, value) in &self.entries {
            for text in [key, value] {
                let length = u16::try_from(text.len()).expect("the store takes none longer");
                out.extend_from_slice(&length.to_le_bytes());
                out.extend_from_slice(text);
            }
        }
        with_crc(out)
    }

    /// `None` when it is no such file, or a byte of it is wrong.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = checked(VERSION, bytes)?;
        let log_id = LogId(reader.array().ok()?);
        let mut entries = BTreeMap::new();
        while !reader.is_at_end() {
            let key = text(&mut reader, META_KEY_BYTES_MAX).ok()?;
            let value = text(&mut reader, META_VALUE_BYTES_MAX).ok()?;
            let ours = PREFIXES.iter().any(|prefix| key.starts_with(prefix));
            if !ours || value.is_empty() || entries.insert(key, value).is_some() {
                return None;
            }
        }
        Some(Self { log_id, entries })
    }
}

fn text(reader: &mut Reader<'_>, bytes_max: usize) -> Result<Vec<u8>, Malformed> {
    let length = usize::from(u16::from_le_bytes(reader.array()?));
    if length > bytes_max {
        return Err(reader.malformed());
    }
    reader.take(length).map(<[u8]>::to_vec)
}

impl Target {
    fn load(&self) -> Result<(EngineConfig, PathBuf, Config), String> {
        let config = Config::load(&self.config).map_err(|error| error.to_string())?;
        let named = config.agent.data_dir.clone();
        let data_dir = self.data_dir.clone().unwrap_or(named);
        Ok((config.engine.clone(), data_dir, config))
    }
}

/// The log of a stopped agent.
pub(super) fn stopped(data_dir: &Path) -> Result<LogReader, String> {
    LogReader::open(data_dir).map_err(|error| match error {
        OpenError::Locked { dir, pid } => {
            let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
            let dir = dir.display();
            format!("{dir} is in use by a running forebay process{pid}: stop it first")
        }
        error @ (OpenError::System { .. } | OpenError::Damaged { .. }) => error.to_string(),
    })
}

/// Of the engines of a config: with one partition one has all windows, with more those that
/// cross devices have one of their own.
fn pipeline_hashes(engine: &EngineConfig) -> Vec<PipelineHash> {
    let whole = pipeline_hash(engine, STATE_VERSION);
    let Some(split) = Split::of(engine) else {
        return vec![whole];
    };
    let by_device = pipeline_hash(&split.by_device, STATE_VERSION);
    vec![whole, by_device, split.hash()]
}

/// Whether these checkpoints are of the windows of a config.
fn check_windows(kept: &Kept, engine: &EngineConfig, of: &str) -> Result<(), String> {
    let hashes = pipeline_hashes(engine);
    let mut some = false;
    for manifest in kept.manifests() {
        some = true;
        let manifest = manifest.ok_or_else(|| format!("{of} has a checkpoint that is damaged"))?;
        if !hashes.contains(&manifest.hash) {
            return Err(format!(
                "{of} is of other windows or time rules than the config has: give the config \
                 that the agent ran with"
            ));
        }
    }
    some.then_some(()).ok_or_else(|| {
        format!("{of} has no checkpoint: let the agent run with its windows for a moment first")
    })
}

fn export(args: &ExportArgs) -> Result<Kept, String> {
    let (engine, data_dir, _) = args.target.load()?;
    let reader = stopped(&data_dir)?;
    let log_id = reader.log_id;
    let log_id = log_id.ok_or_else(|| format!("{} holds no log yet", data_dir.display()))?;
    let ours = |entry: &&Entry| PREFIXES.iter().any(|prefix| entry.0.starts_with(prefix));
    let entries = reader.meta.iter().filter(ours).cloned().collect();
    let kept = Kept { log_id, entries };
    check_windows(&kept, &engine, &data_dir.display().to_string())?;
    let write = || {
        let mut file = fs::File::create(&args.file)?;
        file.write_all(&kept.to_file())?;
        file.sync_all()
    };
    write().map_err(|error| format!("{}: cannot be written: {error}", args.file.display()))?;
    Ok(kept)
}

fn import(args: &ImportArgs) -> Result<Kept, String> {
    let name = args.file.display().to_string();
    let (engine, data_dir, config) = args.target.load()?;
    let cannot = |error: std::io::Error| format!("{name}: cannot be read: {error}");
    let length = fs::metadata(&args.file).map_err(cannot)?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("{name}: is longer than {FILE_BYTES_MAX} bytes"));
    }
    let bytes = fs::read(&args.file).map_err(cannot)?;
    let kept = Kept::parse(&bytes).ok_or_else(|| {
        format!("{name}: is no file of forebay checkpoint export, or is damaged: export it again")
    })?;
    check_windows(&kept, &engine, &name)?;
    let reader = stopped(&data_dir)?;
    check_log(&kept, &reader, &name)?;
    // What the log has of a state goes: none of it may stand beside the new one.
    let gone = |entry: &&Entry| {
        let fixed = FIXED.iter().any(|prefix| entry.0.starts_with(prefix));
        let ours = PREFIXES.iter().any(|prefix| entry.0.starts_with(prefix));
        ours && !fixed && !kept.entries.contains_key(&entry.0)
    };
    let gone = reader.meta.iter().filter(gone);
    let mut meta: Vec<Entry> = gone.map(|(key, _)| (key.clone(), Vec::new())).collect();
    // It holds the lock.
    drop(reader);
    meta.extend(kept.entries.clone());
    let settings = crate::agent::store_settings(&config.log);
    let (mut store, _) = LogStore::open(&data_dir, settings).map_err(|e| e.to_string())?;
    let batch = WriteBatch {
        blocks: Vec::new(),
        meta,
    };
    let written = store.append(&batch).and_then(|()| store.sync());
    written.map_err(|error| error.to_string())?;
    Ok(kept)
}

/// Whether a state is of this log.
fn check_log(kept: &Kept, reader: &LogReader, name: &str) -> Result<(), String> {
    let dir = reader.data_dir.display();
    match reader.log_id {
        Some(log_id) if log_id == kept.log_id => {}
        Some(log_id) => {
            return Err(format!(
                "{name} is of the log {}, and {dir} holds the log {log_id}: copy the log first",
                kept.log_id
            ));
        }
        None => return Err(format!("{dir} holds no log: copy the log first")),
    }
    let fixed = |entry: &&Entry| FIXED.iter().any(|prefix| entry.0.starts_with(prefix));
    for (key, value) in reader.meta.iter().filter(fixed) {
        if kept
            .entries
            .get(key)
            .is_some_and(|of_file| of_file != value)
        {
            return Err(format!(
                "{dir} and {name} disagree on {}: the log has gone its own way since it was \
                 copied",
                String::from_utf8_lossy(key)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use forebay_core::checkpoint::Place;
    use forebay_core::units::Offset;
    use tempfile::TempDir;

    use super::*;
    use crate::store::StoreSettings;

    /// A config with one window of this size over a data directory.
    fn target(dir: &Path, data: &str, size: &str) -> Target {
        let path = dir.join(format!("{data}-{size}.toml"));
        let text = format!(
            "[agent]\ngateway = \"g\"\ndata_dir = \"{}\"\n\
             [[window]]\nname = \"w\"\nkind = \"tumbling\"\nsize = \"{size}\"\n",
            dir.join(data).display()
        );
        fs::write(&path, text).expect("a config");
        Target {
            config: path,
            data_dir: None,
            json: false,
        }
    }

    fn export_to(file: &Path, target: Target) -> Result<Kept, String> {
        let file = file.to_path_buf();
        export(&ExportArgs { file, target })
    }

    fn import_from(file: &Path, target: Target) -> Result<Kept, String> {
        let file = file.to_path_buf();
        import(&ImportArgs { file, target })
    }

    /// A log that was stopped with a checkpoint of the window.
    fn stopped_log(dir: &Path, data: &str) {
        let (engine, data_dir, _) = target(dir, data, "1m").load().expect("it reads");
        fs::create_dir_all(&data_dir).expect("a directory");
        let manifest = Manifest {
            hash: pipeline_hash(&engine, STATE_VERSION),
            epoch: 3,
            place: Place {
                offset: Offset(0),
                ..Place::default()
            },
            entries: 1,
            sum: 5,
            heads: Vec::new(),
            exact: true,
            counts: [0; 4],
            applied: Offset(0),
            changes_missing: 0,
        };
        let meta = vec![
            (b"checkpoint/0/0".to_vec(), manifest.bytes()),
            (b"state/0/0/ex".to_vec(), vec![9; 4000]),
            (b"account/x".to_vec(), vec![1]),
        ];
        let (mut store, _) = LogStore::open(&data_dir, StoreSettings::default()).expect("new");
        let blocks = Vec::new();
        store.append(&WriteBatch { blocks, meta }).expect("room");
        store.sync().expect("it syncs");
    }

    #[test]
    fn a_state_moves_to_a_copy_of_its_log_and_to_nothing_else() {
        let dir = TempDir::new().expect("a directory");
        let dir = dir.path();
        stopped_log(dir, "one");
        stopped_log(dir, "other");
        let file = dir.join("windows.state");
        let kept = export_to(&file, target(dir, "one", "1m")).expect("it has a state");
        assert_eq!(kept.entries.len(), 2, "accounts are no state");
        // The log alone, as a backup has it.
        fs::create_dir_all(dir.join("copy/log")).expect("a directory");
        let identity = "log/identity";
        fs::copy(
            dir.join("one").join(identity),
            dir.join("copy").join(identity),
        )
        .expect("there");
        let taken = import_from(&file, target(dir, "copy", "1m")).expect("the same log");
        assert_eq!(taken, kept);
        let again = dir.join("again.state");
        assert_eq!(export_to(&again, target(dir, "copy", "1m")), Ok(kept));
        for (name, data, size, said) in [
            ("another log", "other", "1m", "copy the log first"),
            ("no log", "none", "1m", "list the directory"),
            ("other windows", "one", "2m", "other windows"),
        ] {
            let refused = import_from(&file, target(dir, data, size));
            assert!(
                refused.as_ref().is_err_and(|e| e.contains(said)),
                "{name}: {refused:?}"
            );
        }
    }

    fn kept() -> Kept {
        let entries = [
            (b"checkpoint/0/0".to_vec(), vec![1, 2, 3]),
            (b"state/0/0/ex".to_vec(), vec![9; 4000]),
        ];
        Kept {
            log_id: LogId([7; 16]),
            entries: entries.into_iter().collect(),
        }
    }

    #[test]
    fn a_file_reads_back_whole_or_not_at_all() {
        let file = kept().to_file();
        assert_eq!(Kept::parse(&file), Some(kept()));
        for cut in [0, 1, 16, 17, 20, file.len() - 1] {
            assert_eq!(Kept::parse(&file[..cut]), None, "{cut}");
        }
        for at in [0, 5, 18, 30, file.len() - 1] {
            let mut bad = file.clone();
            bad[at] ^= 1;
            assert_eq!(Kept::parse(&bad), None, "byte {at}");
        }
    }

    #[test]
    fn only_entries_of_a_checkpoint_are_read() {
        for (name, key, value, reads) in [
            ("of a state", &b"state/0/0/ex"[..], &[1][..], true),
            ("of a device", b"account/x", &[1], false),
            ("of the store", b"store.log_id", &[1], false),
            ("removed", b"state/0/0/ex", &[], false),
        ] {
            let kept = Kept {
                log_id: LogId([7; 16]),
                entries: BTreeMap::from([(key.to_vec(), value.to_vec())]),
            };
            assert_eq!(Kept::parse(&kept.to_file()).is_some(), reads, "{name}");
        }
    }
}
