//! A log read without changing it, while no agent runs on it: what `forebay log`
//! shows, checks and exports. It finds the same records as an agent that starts.
//!
//! Holds always: nothing in the data directory is written but the pid in `lock`.
//! Bound: as an opening of the log; reads are a few blocks at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_core::log::block::BlockHead;
use forebay_core::log::key::{StoredBlock, TopicPartition};
use forebay_core::store::{Loss, SegmentId, StoreError};
use forebay_core::units::{Epoch, EventTime, GenerationNo, LogId, Offset};

use super::catalog::Catalog;
use super::copied::Copied;
use super::identity::Identity;
use super::meta_db::{MetaDb, Told, covers};
use super::names::segment_name;
use super::opening::{self, Access};
use super::raw::RawBlock;
use super::sled_db::{Entry, io_error};
use super::unsealed::{Source, Unsealed};
use super::{DirLock, OpenError};

/// How a part beside the blocks is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Sound,
    Missing,
    /// With what is wrong.
    Damaged(String),
}

/// What one partition of a topic holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub first: Offset,
    /// Offset that the next record takes.
    pub head: Offset,
    pub records: u64,
    pub time_min: EventTime,
    pub time_max: EventTime,
}

/// A file or a directory that holds blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub path: PathBuf,
    pub generation: GenerationNo,
    /// `None`: a database that is not sealed yet, of any topics.
    pub segment: Option<SegmentId>,
    /// Bytes of a segment, or of a database's blocks.
    pub bytes: u64,
    pub records: u64,
}

/// See the module's text.
#[derive(Debug)]
pub struct LogReader {
    pub data_dir: PathBuf,
    pub log_dir: PathBuf,
    pub log_id: Option<LogId>,
    /// Highest that is known.
    pub epoch: Option<Epoch>,
    pub identity: State,
    pub meta_state: State,
    /// All entries of the meta database, in order of their keys.
    pub meta: Vec<Entry>,
    /// Offset after the last record of each partition.
    pub heads: BTreeMap<TopicPartition, Offset>,
    /// What was durable and is not there, as far as it shows without reading all.
    pub losses: Vec<Loss>,
    /// Losses that are noted already, by an opening or a repair.
    pub(super) told: Told,
    pub notes: Vec<String>,
    pub(super) catalog: Catalog,
    pub(super) unsealed: Vec<Unsealed>,
    _lock: DirLock,
}

impl LogReader {
    /// Looks through the log in `data_dir`.
    ///
    /// # Errors
    /// When there is none, another process holds it, the system refuses, or a newer
    /// version wrote it. Damage is no error.
    pub fn open(data_dir: &Path) -> Result<Self, OpenError> {
        let log_dir = data_dir.join("log");
        // The lock would create what is not there.
        std::fs::read_dir(&log_dir)
            .map_err(|error| OpenError::system(&log_dir, "list the directory", &error))?;
        let lock = DirLock::take(data_dir)?;
        let known = Identity::read(&log_dir)?;
        let identity = match &known {
            Some(_) => State::Sound,
            None if log_dir.join("identity").exists() => {
                State::Damaged(String::from("its CRC or its form is wrong"))
            }
            None => State::Missing,
        };
        let meta = Meta::read(data_dir, known.as_ref().map(|known| known.log_id))?;
        let known_kept = meta.state == State::Sound || known.is_none();
        let found = opening::find(
            (data_dir, &log_dir),
            known.as_ref(),
            known_kept.then_some(meta.kept),
            meta.told.clone(),
            Access::Read,
        )?;
        let epoch = known.map(|known| known.epoch).max(found.epoch);
        Ok(Self {
            data_dir: data_dir.to_owned(),
            log_dir,
            log_id: found.log_id,
            epoch,
            identity,
            meta_state: meta.state,
            meta: meta.entries,
            heads: found.heads,
            losses: found.losses,
            told: meta.told,
            notes: found.notes,
            catalog: found.catalog,
            unsealed: found.unsealed,
            _lock: lock,
        })
    }

    /// Every file and database with blocks, in order of age.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let segments = self.catalog.segments().map(|info| Part {
            path: self.log_dir.join(segment_name(info.id)),
            generation: info.id.generation,
            segment: Some(info.id),
            bytes: info.bytes,
            records: info.ranges.iter().map(|range| range.records).sum(),
        });
        let unsealed = self.unsealed.iter().map(|unsealed| Part {
            path: unsealed.dir.clone(),
            generation: unsealed.generation,
            segment: None,
            bytes: unsealed.bytes,
            records: raw_heads(unsealed)
                .map(|(_, head)| u64::from(head.count))
                .sum(),
        });
        segments.chain(unsealed).collect()
    }

    /// What each partition holds.
    #[must_use]
    pub fn places(&self) -> BTreeMap<TopicPartition, Place> {
        let mut places = BTreeMap::new();
        for info in self.catalog.segments() {
            for range in &info.ranges {
                let at = TopicPartition {
                    topic: info.id.topic,
                    partition: range.partition,
                };
                let times = (range.time_min, range.time_max);
                add(
                    &mut places,
                    at,
                    (range.first, range.end),
                    range.records,
                    times,
                );
            }
        }
        for unsealed in &self.unsealed {
            for (at, head) in raw_heads(unsealed) {
                let times = (head.time_min, head.time_max);
                let range = (head.base, head.end());
                add(&mut places, at, range, u64::from(head.count), times);
            }
        }
        for (at, head) in &self.heads {
            if let Some(place) = places.get_mut(at) {
                place.head = place.head.max(*head);
            }
        }
        places
    }

    /// Blocks of `at` from the one that holds `from`, or the first after it, on, while
    /// they fit `bytes_max`; at least one if there is any. What does not read is left
    /// out and told to `lost`.
    ///
    /// # Errors
    /// When the system cannot read.
    pub fn read(
        &mut self,
        at: TopicPartition,
        from: Offset,
        bytes_max: usize,
        mut lost: impl FnMut(Loss),
    ) -> Result<Vec<StoredBlock>, StoreError> {
        let mut out = Vec::new();
        let read = self.catalog.read(at, from, bytes_max, &mut out, &mut lost);
        let mut more = read.map_err(|error| io_error("read", &error))?;
        for unsealed in &self.unsealed {
            if more {
                break;
            }
            more = unsealed.source.read(at, from, bytes_max, &mut out)?;
        }
        Ok(out)
    }

    /// Whether a loss is noted already.
    #[must_use]
    pub fn is_told(&self, loss: &Loss) -> bool {
        covers(&self.told, loss)
    }
}

fn add(
    places: &mut BTreeMap<TopicPartition, Place>,
    at: TopicPartition,
    (first, end): (Offset, Offset),
    records: u64,
    (time_min, time_max): (EventTime, EventTime),
) {
    let place = places.entry(at).or_insert(Place {
        first,
        head: end,
        records: 0,
        time_min,
        time_max,
    });
    place.first = place.first.min(first);
    place.head = place.head.max(end);
    place.records += records;
    place.time_min = place.time_min.min(time_min);
    place.time_max = place.time_max.max(time_max);
}

/// The blocks of an unsealed generation; a reader has them all by position.
pub(super) fn raw_blocks(unsealed: &Unsealed) -> &[RawBlock] {
    match &unsealed.source {
        Source::Raw(raw) => &raw.blocks,
        Source::Live(_) => &[],
    }
}

/// Their heads.
pub(super) fn raw_heads(
    unsealed: &Unsealed,
) -> impl Iterator<Item = (TopicPartition, BlockHead)> + '_ {
    let blocks = raw_blocks(unsealed).iter();
    blocks.map(|block| (block.key.at, block.head))
}

/// What a copy of the meta database shows.
struct Meta {
    state: State,
    entries: Vec<Entry>,
    kept: BTreeMap<TopicPartition, Offset>,
    told: Told,
}

impl Meta {
    fn read(data_dir: &Path, log_id: Option<LogId>) -> Result<Self, OpenError> {
        let mut out = Self {
            state: State::Missing,
            entries: Vec::new(),
            kept: BTreeMap::new(),
            told: BTreeMap::new(),
        };
        let dir = data_dir.join("meta");
        if !dir.is_dir() {
            return Ok(out);
        }
        let copy = Copied::of(&dir)?;
        let meta = match MetaDb::open_copy(&copy.dir()) {
            Ok(meta) => meta,
            Err(OpenError::Damaged { said, .. }) => {
                out.state = State::Damaged(said);
                return Ok(out);
            }
            Err(error) => return Err(error),
        };
        let entries = meta.with_prefix(b"");
        out.state = match (&entries, meta.identity().0) {
            (Err(error), _) => State::Damaged(error.to_string()),
            // sled may give an empty database for a damaged one, without a word.
            (Ok(_), None) if log_id.is_some() => {
                State::Damaged(String::from("it does not hold the log id any more"))
            }
            (Ok(_), Some(stands)) if log_id.is_some_and(|ours| ours != stands) => {
                State::Damaged(format!("it is of log {stands}"))
            }
            (Ok(_), _) => State::Sound,
        };
        out.entries = entries.unwrap_or_default();
        out.kept = meta.kept();
        out.told = meta.all_losses();
        Ok(out)
    }
}
