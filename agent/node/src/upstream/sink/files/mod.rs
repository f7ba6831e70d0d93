//! The files sink: Parquet or NDJSON in folders by day and gateway, for engines that read
//! files, with the marks in a manifest beside them. Layout, commit and byte tables:
//! `agent/node/docs/files-sink.md`.
//!
//! Always holds: a commit is one step file, which gets its name when it is whole and on
//! disk; a roll moves rows from steps into data files and is done when its manifest has its
//! name. So after a crash each row is in exactly one of the two. Data files get their names
//! only after that: who reads the folders sees what was committed, each once. One process
//! at a time. Bound: what changed since the last manifest, and what `pending` says; the
//! rest stays on disk.

mod disk;
mod layout;
mod manifest;
mod merge;
mod opening;
mod parts;
mod pending;
mod roll;
mod state;
mod step;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_core::payload::GatewayName;
use forebay_core::upstream::batch::{Batch, Loaded, Table, owner};
use forebay_core::upstream::rows::StoredRow;

use super::{Committed, Extent, RowFilter, Sink, SinkError};
use crate::config::{FilesConfig, FilesFormat, SinkKind};
use crate::export::Format;
use disk::Disk;
use layout::{ManifestNo, StepNo, manifest_name, state_dir, step_name, unfinished};
use manifest::{Head, ManifestReader, ManifestWriter};
use merge::View;
use pending::Pending;
use state::{Changes, Key, Kind};

/// Steps, pieces and bytes of payloads that wait for a roll at the most, whatever the
/// config says.
const STEPS_MAX: usize = 4096;
const PENDING_PIECES_MAX: usize = 1 << 17;
const PENDING_BYTES_MAX: u64 = 64 << 20;
/// A roll that failed is tried again after so long.
const ROLL_RETRY: Duration = Duration::from_secs(5);
/// What may wait while rolls fail, in multiples of the above: then nothing more is taken.
const OVERDUE_MAX: u64 = 4;

/// Takes an entry; false when it has enough.
type Visit<'a> = dyn FnMut(&Key, &[u8]) -> Result<bool, SinkError> + 'a;

/// See the module.
#[derive(Debug)]
pub struct FilesSink {
    folder: PathBuf,
    config: FilesConfig,
    disk: Box<dyn Disk>,
    /// Of the newest manifest; number 0 before the first.
    head: Head,
    /// Whether its data files have their names, durably.
    is_settled: bool,
    /// Since that manifest.
    changes: Changes,
    versions: BTreeMap<GatewayName, u64>,
    pending: Pending,
    next_step: StepNo,
    /// Not before this a roll is tried again, and why.
    failed: Option<(Instant, String)>,
    /// A commit may be on disk or not: only opening it anew tells.
    is_broken: bool,
    is_read_only: bool,
    _lock: opening::Lock,
}

impl FilesSink {
    /// Opens the sink in the configured folder, creating it when it is missing. Brings to
    /// its end what a crash has left.
    ///
    /// # Errors
    /// When another process holds it, the system refuses, or it is damaged.
    pub fn open(config: &FilesConfig) -> Result<Self, SinkError> {
        opening::open(config, Box::new(disk::RealDisk), Instant::now())
    }

    /// Opens a sink that must exist, and changes nothing in it.
    ///
    /// # Errors
    /// As [`FilesSink::open`], or [`SinkError::Missing`].
    pub fn open_existing(config: &FilesConfig) -> Result<Self, SinkError> {
        opening::open_existing(config, Instant::now())
    }

    fn state_path(&self, name: &str) -> PathBuf {
        state_dir(&self.folder).join(name)
    }

    fn refused(&self, doing: &str, error: &io::Error) -> SinkError {
        SinkError::said(format!("{}: {doing}: {error}", self.folder.display()))
    }

    /// Shows the whole state in the order of its keys until `visit` is false.
    fn state(&self, visit: &mut Visit<'_>) -> Result<(), SinkError> {
        let mut changes = self.changes.iter().peekable();
        let mut kept = self.manifest()?;
        let mut next = next_entry(&mut kept, &self.folder)?;
        loop {
            // Of two with one key the change is the newer one.
            let of_change = match (&next, changes.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some((kept, _)), Some((changed, _))) => *changed <= kept,
            };
            let goes_on = if of_change {
                let (key, value) = changes.next().expect("it was peeked at");
                if next.as_ref().is_some_and(|(kept, _)| kept == key) {
                    next = next_entry(&mut kept, &self.folder)?;
                }
                match value {
                    Some(value) => visit(key, value)?,
                    None => true,
                }
            } else {
                let (key, value) = next.take().expect("there is one that is no change");
                next = next_entry(&mut kept, &self.folder)?;
                visit(&key, &value)?
            };
            if !goes_on {
                return Ok(());
            }
        }
    }

    fn manifest(&self) -> Result<Option<ManifestReader<BufReader<File>>>, SinkError> {
        if self.head.number.0 == 0 {
            return Ok(None);
        }
        opening::manifest(&self.folder, self.head.number).map(Some)
    }

    /// Writes a step and lets it count.
    fn write_step(&mut self, bytes: &[u8]) -> io::Result<()> {
        let name = step_name(self.next_step);
        let (whole, path) = (self.state_path(&name), self.state_path(&unfinished(&name)));
        let written = self.disk.create(&path).and_then(|mut file| {
            file.write_all(bytes)?;
            file.flush()?;
            drop(file);
            self.disk.sync_file(&path)
        });
        if let Err(error) = written {
            // A full disk needs the room; a start would remove it too.
            let _ = self.disk.remove(&path);
            return Err(error);
        }
        // From here on it may be there after a crash.
        self.is_broken = true;
        self.disk.rename(&path, &whole)?;
        self.disk.sync_dir(&state_dir(&self.folder))?;
        self.is_broken = false;
        Ok(())
    }

    /// Moves all that waits into data files.
    fn roll(&mut self) -> Result<(), SinkError> {
        self.settle()?;
        let number = ManifestNo(self.head.number.0 + 1);
        let format = match self.config.format {
            FilesFormat::Parquet => Format::Parquet,
            FilesFormat::Ndjson => Format::Ndjson,
        };
        let files = roll::write_files(
            self.disk.as_ref(),
            &self.folder,
            format,
            (number, &self.pending),
        );
        let files = files.map_err(|error| self.refused("write data files", &error))?;
        let head = Head {
            number,
            rolled: StepNo(self.next_step.0 - 1),
            files,
        };
        self.write_manifest(&head)?;
        self.head = head;
        self.is_settled = false;
        self.changes.clear();
        self.pending = Pending::default();
        self.settle()
    }

    /// Writes a manifest and lets it count.
    fn write_manifest(&mut self, head: &Head) -> Result<(), SinkError> {
        let name = manifest_name(head.number);
        let (whole, path) = (self.state_path(&name), self.state_path(&unfinished(&name)));
        let told = |error: io::Error| {
            SinkError::said(format!("{}: write the manifest: {error}", path.display()))
        };
        let written = (|| {
            let out = BufWriter::new(self.disk.create(&path).map_err(told)?);
            let mut writer = ManifestWriter::begin(out, head).map_err(told)?;
            self.state(&mut |key, value| {
                writer.entry(key, value).map_err(told)?;
                Ok(true)
            })?;
            writer.finish().map_err(told)?;
            self.disk.sync_file(&path).map_err(told)?;
            // The names of the parts, before one that says that they are there.
            self.disk.sync_dir(&state_dir(&self.folder)).map_err(told)
        })();
        if let Err(error) = written {
            let _ = self.disk.remove(&path);
            return Err(error);
        }
        self.is_broken = true;
        self.disk.rename(&path, &whole).map_err(told)?;
        self.disk.sync_dir(&state_dir(&self.folder)).map_err(told)?;
        self.is_broken = false;
        Ok(())
    }

    /// Gives the data files of the newest manifest their names and removes what is in it.
    fn settle(&mut self) -> Result<(), SinkError> {
        if self.is_settled {
            return Ok(());
        }
        let done = opening::settle(self.disk.as_ref(), &self.folder, &self.head);
        done.map_err(|error| self.refused("give data files their names", &error))?;
        self.is_settled = true;
        Ok(())
    }

    /// What may not be committed, and why.
    fn refusal(&self) -> Option<String> {
        let why = self.failed.as_ref().map_or("", |(_, why)| why.as_str());
        if self.is_read_only {
            return Some("it was opened to be read only".to_owned());
        }
        if self.is_broken {
            return Some("an earlier commit failed: it must be opened anew".to_owned());
        }
        let over = self.pending.is_beyond(OVERDUE_MAX);
        over.then(|| format!("too much waits to be written into data files: {why}"))
    }

    fn note(&mut self, batch: &Batch, changes: Changes, places: &[step::PayloadAt], bytes: usize) {
        self.changes.extend(changes);
        for (name, version) in &batch.gateways {
            self.versions.insert(name.clone(), version + 1);
        }
        for (applied, at) in batch.applied.iter().zip(places) {
            self.pending.add(&applied.message, &applied.fresh, *at);
        }
        self.next_step = StepNo(self.next_step.0 + 1);
        self.pending.add_step(bytes, Instant::now());
    }

    fn view(&self, filter: &RowFilter) -> Result<View<'_>, SinkError> {
        let head = (self.head.number.0 > 0).then_some(&self.head);
        View::of(&self.folder, head, &self.pending, filter)
    }
}

/// The entries that a batch sets and removes, its versions among them.
fn changes_of(batch: &Batch) -> Changes {
    let entries = batch.entries.iter().filter_map(|entry| {
        let kind = match entry.table {
            Table::Marks => Kind::Mark,
            Table::Meta => Kind::Meta,
            Table::Rejected => Kind::Rejected,
            // Rows are no entries.
            Table::Rows => return None,
        };
        Some(((kind, entry.key.clone()), entry.value.clone()))
    });
    let versions = batch.gateways.iter().map(|(name, version)| {
        let key = (Kind::Version, name.as_str().as_bytes().to_vec());
        (key, Some((version + 1).to_le_bytes().to_vec()))
    });
    entries.chain(versions).collect()
}

type Kept = Option<ManifestReader<BufReader<File>>>;

fn next_entry(kept: &mut Kept, folder: &Path) -> Result<Option<(Key, Vec<u8>)>, SinkError> {
    let Some(reader) = kept else {
        return Ok(None);
    };
    let number = reader.head().number;
    let entry = reader.entry();
    let entry = entry.map_err(|fault| opening::bad_manifest(folder, number, &fault))?;
    if entry.is_none() {
        *kept = None;
    }
    Ok(entry)
}

impl Sink for FilesSink {
    fn kind(&self) -> SinkKind {
        SinkKind::Files
    }

    fn load(&mut self, gateway: Option<&GatewayName>) -> Result<Loaded, SinkError> {
        let mut out = Loaded::default();
        let of = |table, key: &[u8]| gateway.is_none_or(|gateway| owner(table, key) == *gateway);
        self.state(&mut |(kind, key), value| {
            let entry = || (key.clone(), value.to_vec());
            match kind {
                Kind::Mark if of(Table::Marks, key) => out.marks.push(entry()),
                Kind::Meta if of(Table::Meta, key) => out.meta.push(entry()),
                Kind::Mark | Kind::Meta | Kind::Rejected | Kind::Version => {}
            }
            Ok(true)
        })?;
        let versions = self.versions.iter();
        let versions = versions.filter(|(name, _)| gateway.is_none_or(|want| *name == want));
        out.versions = versions.map(|(name, n)| (name.clone(), *n)).collect();
        Ok(out)
    }

    fn commit(&mut self, batch: &Batch) -> Result<Committed, SinkError> {
        if let Some(why) = self.refusal() {
            return Err(SinkError::said(format!("{}: {why}", self.folder.display())));
        }
        let version = |name| self.versions.get(name).copied().unwrap_or(0);
        let changed = batch.gateways.iter();
        let changed = changed.filter(|(name, judged)| version(name) != *judged);
        let changed: Vec<_> = changed.map(|(name, _)| name.clone()).collect();
        if !changed.is_empty() {
            return Ok(Committed::Conflict(changed));
        }
        let changes = changes_of(batch);
        let taken = batch.applied.iter();
        let taken = taken.map(|applied| (applied.payload.as_ref(), applied.fresh.as_slice()));
        let (bytes, places) = step::step_bytes(self.next_step, &changes, taken);
        self.write_step(&bytes)
            .map_err(|error| self.refused("write what came", &error))?;
        self.note(batch, changes, &places, bytes.len());
        Ok(Committed::Done)
    }

    fn due(&self) -> Option<Instant> {
        let pending = &self.pending;
        let since = pending.since.filter(|_| !self.is_read_only)?;
        let enough = pending.rows >= self.config.rows || pending.is_beyond(1);
        let due = if enough {
            since
        } else {
            since + self.config.roll
        };
        let again = self.failed.as_ref().map(|(until, _)| *until);
        Some(again.map_or(due, |again| due.max(again)))
    }

    fn tend(&mut self, now: Instant, is_last: bool) -> Result<(), SinkError> {
        let is_due = self.due().is_some_and(|due| due <= now);
        let waits = self.pending.since.is_some() && !self.is_read_only;
        if self.is_broken || !(is_due || is_last && waits) {
            return Ok(());
        }
        let done = self.roll();
        self.failed = done
            .as_ref()
            .err()
            .map(|error| (now + ROLL_RETRY, error.to_string()));
        done
    }

    fn rows(
        &mut self,
        filter: &RowFilter,
        visit: &mut dyn FnMut(StoredRow) -> bool,
    ) -> Result<(), SinkError> {
        self.view(filter)?.rows(filter, visit)
    }

    fn extents(
        &mut self,
        filter: &RowFilter,
        visit: &mut dyn FnMut(Extent) -> bool,
    ) -> Result<(), SinkError> {
        let filter = RowFilter {
            gateway: filter.gateway.clone(),
            stream: filter.stream.clone(),
            ..RowFilter::default()
        };
        self.view(&filter)?.extents(visit)
    }

    fn rejected(&mut self, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), SinkError> {
        self.state(&mut |(kind, _), value| Ok(*kind != Kind::Rejected || visit(value)))
    }
}
