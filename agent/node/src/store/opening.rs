//! What stands in a log directory, and what of it is the log: segments, generations
//! that wait to be sealed, the one to go on writing. It never deletes what it cannot
//! read, and no damage stops a start.
//!
//! A database is believed only when it shows exactly the blocks that stand in its
//! file; else its file is read by position and a new generation takes the writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use forebay_core::log::decode::decode_head;
use forebay_core::log::key::{BlockKey, TopicPartition};
use forebay_core::log::segment::{SegmentFault, SegmentId, SegmentIndex, SegmentInfo};
use forebay_core::store::Loss;
use forebay_core::units::{Epoch, GenerationNo, LogId, Offset};

use super::catalog::Catalog;
use super::copied::Copied;
use super::identity::Identity;
use super::names::{self, Listing, generation_name, quarantine, segment_name};
use super::raw::{self, Chosen, RawBlock, choose};
use super::segment_file::{SegmentFile, peek};
use super::sled_db::SledDb;
use super::unsealed::{RawSource, Source, Unsealed};
use super::{BLOCKS, OpenError, TREES};

/// The generation that takes the writes.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) generation: GenerationNo,
    pub(super) db: SledDb,
    /// Blocks in it, and their bytes.
    pub(super) blocks: usize,
    pub(super) bytes: u64,
    pub(super) since: Instant,
}

impl Live {
    /// A generation that was just created.
    pub(super) fn empty(generation: GenerationNo, db: SledDb) -> Self {
        Self {
            generation,
            db,
            blocks: 0,
            bytes: 0,
            since: Instant::now(),
        }
    }
}

/// Whether what is found may be put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Leftovers go, and what is not of this log goes to quarantine.
    Write,
    /// Nothing is changed: databases are opened as copies, and all blocks are read by
    /// position.
    Read,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) catalog: Catalog,
    /// Oldest first.
    pub(super) unsealed: Vec<Unsealed>,
    pub(super) live: Option<Live>,
    pub(super) heads: BTreeMap<TopicPartition, Offset>,
    pub(super) losses: Vec<Loss>,
    /// Highest that anything was written in.
    pub(super) epoch: Option<Epoch>,
    pub(super) log_id: Option<LogId>,
    pub(super) last_generation: GenerationNo,
    pub(super) notes: Vec<String>,
}

/// A generation's directory, searched.
struct Searched {
    generation: GenerationNo,
    dir: PathBuf,
    files: Vec<File>,
    blocks: Vec<RawBlock>,
}

struct Opening<'a> {
    access: Access,
    data_dir: &'a Path,
    log_dir: &'a Path,
    known: Option<&'a Identity>,
    /// Below which offsets retention has removed partitions; `None` when that is
    /// not known any more.
    kept: Option<BTreeMap<TopicPartition, Offset>>,
    found: Found,
}

/// Looks through `log_dir`.
///
/// # Errors
/// When the system refuses, the disk is full, or a newer version wrote it.
pub(super) fn find(
    (data_dir, log_dir): (&Path, &Path),
    known: Option<&Identity>,
    kept: Option<BTreeMap<TopicPartition, Offset>>,
    access: Access,
) -> Result<Found, OpenError> {
    let listing = names::list(log_dir)?;
    let generations = listing.generations.iter().copied();
    let segments = listing.segments.iter().map(|id| id.generation);
    let last = generations.chain(segments).max();
    let mut opening = Opening {
        access,
        data_dir,
        log_dir,
        known,
        kept,
        found: Found {
            catalog: Catalog::new(log_dir),
            unsealed: Vec::new(),
            live: None,
            heads: BTreeMap::new(),
            losses: Vec::new(),
            epoch: None,
            log_id: known.map(|known| known.log_id),
            last_generation: last.unwrap_or(GenerationNo(0)),
            notes: Vec::new(),
        },
    };
    if access == Access::Write {
        for leftover in &listing.leftovers {
            // What does not go now goes next time.
            let _ = names::remove_all(leftover);
        }
    }
    opening.load_segments(&listing)?;
    opening.load_generations(&listing)?;
    Ok(opening.found)
}

impl Opening<'_> {
    fn load_segments(&mut self, listing: &Listing) -> Result<(), OpenError> {
        let unsealed: BTreeSet<_> = listing.generations.iter().collect();
        for id in &listing.segments {
            // What is not wholly sealed is read from its generation.
            if !unsealed.contains(&id.generation)
                && let Some(info) = self.load_segment(*id)?
            {
                self.found.catalog.add(info);
            }
        }
        let mut ends: BTreeMap<TopicPartition, Offset> = BTreeMap::new();
        for (at, first, end) in self.found.catalog.runs() {
            let start = ends.get(&at).copied().or_else(|| self.start(at));
            if let Some(start) = start.filter(|start| *start < first) {
                self.found.losses.push(Loss {
                    at,
                    first: start,
                    end: first,
                });
            }
            ends.insert(at, end);
        }
        self.found.heads = ends;
        Ok(())
    }

    /// Where a partition begins of which nothing was found so far.
    fn start(&self, at: TopicPartition) -> Option<Offset> {
        let kept = self.kept.as_ref()?;
        Some(kept.get(&at).copied().unwrap_or(Offset(0)))
    }

    fn load_segment(&mut self, id: SegmentId) -> Result<Option<SegmentInfo>, OpenError> {
        let path = self.log_dir.join(segment_name(id));
        let looked = peek(&path).and_then(|peeked| match peeked {
            Some((head, info)) => Ok((Some(head), info, None)),
            None => {
                let file = SegmentFile::open(&path, id.topic)?;
                Ok((file.head, file.info(id), Some(file)))
            }
        });
        let (head, info, faulty) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                let note = format!("{} cannot be read: {error}", path.display());
                self.found.notes.push(note);
                return Ok(None);
            }
        };
        if let Some(file) = faulty {
            self.note_fault(id, &file)?;
        }
        let log_id = head.map(|head| head.log_id);
        if let (Some(stands), Some(ours)) = (log_id, self.found.log_id)
            && stands != ours
        {
            if self.access == Access::Read {
                let path = path.display();
                let note = format!("{path} belongs to log {stands}, not to {ours}");
                self.found.notes.push(note);
                return Ok(None);
            }
            let moved = quarantine(self.data_dir, &path)
                .map_err(|error| OpenError::system(&path, "move to quarantine", &error))?;
            self.found.notes.push(format!(
                "{} belongs to log {stands}, not to {ours}; it stands in {} now",
                path.display(),
                moved.display()
            ));
            return Ok(None);
        }
        self.found.log_id = self.found.log_id.or(log_id);
        self.found.epoch = self.found.epoch.max(head.map(|head| head.epoch));
        Ok(Some(info))
    }

    fn note_fault(&mut self, id: SegmentId, file: &SegmentFile) -> Result<(), OpenError> {
        let path = self.log_dir.join(segment_name(id));
        let Some(fault) = file.fault else {
            return Ok(());
        };
        match fault {
            SegmentFault::Version { .. } => {
                return Err(OpenError::Damaged {
                    dir: path,
                    said: fault.to_string(),
                });
            }
            SegmentFault::Head | SegmentFault::Footer | SegmentFault::Index => {}
        }
        self.found.losses.extend(holes(id, &file.index));
        self.found.notes.push(format!(
            "{}: {fault}; it was searched, and {} blocks were found. `forebay log repair` \
             writes it anew",
            path.display(),
            file.index.entries.len()
        ));
        Ok(())
    }

    fn load_generations(&mut self, listing: &Listing) -> Result<(), OpenError> {
        let mut searched = Vec::new();
        for generation in &listing.generations {
            searched.push(self.search(*generation, listing));
        }
        while let Some(last) = searched.pop_if(|last| last.blocks.is_empty()) {
            self.discard_empty(&last)?;
        }
        clip_to_later(&mut searched);
        let known = self.known.map(|known| known.heads.clone());
        let mut durable = known.unwrap_or_default();
        let newest = searched.pop();
        for place in 0..searched.len() {
            // All of it was synced before the next one was begun.
            let bounds = first_bases(&searched[place + 1..], newest.as_ref());
            let chosen = self.choose(&mut searched[place], &bounds);
            let damaged = !chosen.losses.is_empty();
            self.take_heads(&chosen);
            let searched = &mut searched[place];
            let files = std::mem::take(&mut searched.files);
            let (generation, dir) = (searched.generation, searched.dir.clone());
            self.push_raw((generation, dir, files), chosen, damaged);
        }
        let Some(mut newest) = newest else {
            let chosen = choose(Vec::new(), |at| self.start_now(at), &durable);
            self.take_heads(&chosen);
            return Ok(());
        };
        for (at, head) in &self.found.heads {
            let entry = durable.entry(*at).or_insert(*head);
            *entry = (*entry).max(*head);
        }
        let chosen = self.choose(&mut newest, &durable);
        self.load_newest(newest, chosen)
    }

    fn start_now(&self, at: TopicPartition) -> Option<Offset> {
        let head = self.found.heads.get(&at).copied();
        head.or_else(|| self.start(at))
    }

    fn choose(
        &mut self,
        searched: &mut Searched,
        durable: &BTreeMap<TopicPartition, Offset>,
    ) -> Chosen {
        let blocks = std::mem::take(&mut searched.blocks);
        let epoch = blocks.iter().map(|block| block.head.epoch).max();
        self.found.epoch = self.found.epoch.max(epoch);
        choose(blocks, |at| self.start_now(at), durable)
    }

    fn take_heads(&mut self, chosen: &Chosen) {
        for (at, head) in &chosen.heads {
            let entry = self.found.heads.entry(*at).or_insert(*head);
            *entry = (*entry).max(*head);
        }
        self.found.losses.extend(&chosen.losses);
    }

    /// Goes on with the newest generation when its database shows what stands in
    /// its file.
    fn load_newest(&mut self, newest: Searched, mut chosen: Chosen) -> Result<(), OpenError> {
        let trusted = chosen.losses.is_empty() && self.is_trusted(&newest, &mut chosen)?;
        let live = if trusted && self.access == Access::Write {
            self.open_original(&newest, &chosen)?
        } else {
            None
        };
        self.take_heads(&chosen);
        let damaged = !trusted || (live.is_none() && self.access == Access::Write);
        match live {
            Some(live) => self.found.live = Some(live),
            None => {
                if damaged {
                    self.found.notes.push(format!(
                        "{} is damaged; {} blocks were found in it and are kept",
                        newest.dir.display(),
                        chosen.blocks.len()
                    ));
                }
                let place = (newest.generation, newest.dir, newest.files);
                self.push_raw(place, chosen, damaged);
            }
        }
        Ok(())
    }

    /// Whether the database shows the blocks that stand in its file. A copy of it is
    /// asked: sled cuts off what it does not understand when it opens, and what was
    /// found behind that would be gone.
    fn is_trusted(&mut self, newest: &Searched, chosen: &mut Chosen) -> Result<bool, OpenError> {
        let copied = match self.access {
            Access::Write => Copied::beside(&newest.dir),
            Access::Read => Copied::of(&newest.dir),
        };
        let copy = match (copied, self.access) {
            (Ok(copy), _) => copy,
            (Err(error), Access::Read) => return Err(error),
            (Err(error), Access::Write) => {
                self.found
                    .notes
                    .push(format!("{error}; it is read by position"));
                return Ok(false);
            }
        };
        let Some(db) = self.open_database(copy.dir(), &newest.dir)? else {
            return Ok(false);
        };
        let Ok(shown) = shown_blocks(&db) else {
            return Ok(false);
        };
        // What was written last may have been cut off: it was not durable then.
        chosen.blocks.retain(|block| {
            let durable = chosen.durable.get(&block.key.at);
            shown.contains(&block.key) || durable.is_some_and(|end| block.key.base < *end)
        });
        let stands: BTreeSet<BlockKey> = chosen.blocks.iter().map(|block| block.key).collect();
        if shown != stands {
            return Ok(false);
        }
        for (at, head) in &mut chosen.heads {
            let mine = chosen.blocks.iter().filter(|block| block.key.at == *at);
            let end = mine.map(|block| block.head.end()).max();
            *head = end.max(chosen.durable.get(at).copied()).unwrap_or(*head);
        }
        Ok(true)
    }

    /// Opens a database whose copy could be trusted.
    fn open_original(
        &mut self,
        newest: &Searched,
        chosen: &Chosen,
    ) -> Result<Option<Live>, OpenError> {
        let db = self.open_database(&newest.dir, &newest.dir)?;
        let bytes = chosen.blocks.iter().map(|block| u64::from(block.length));
        let bytes = bytes.sum();
        Ok(db.map(|db| Live {
            generation: newest.generation,
            db,
            blocks: chosen.blocks.len(),
            bytes,
            since: Instant::now(),
        }))
    }

    /// Opens the database in `dir`; `None`, and a note that names it `called`, when it
    /// is damaged.
    fn open_database(&mut self, dir: &Path, called: &Path) -> Result<Option<SledDb>, OpenError> {
        match SledDb::open(dir, &TREES) {
            Ok(db) => Ok(Some(db)),
            Err(error @ (OpenError::Locked { .. } | OpenError::System { no_space: true, .. })) => {
                Err(error)
            }
            Err(OpenError::Damaged { said, .. } | OpenError::System { said, .. }) => {
                let called = called.display();
                self.found
                    .notes
                    .push(format!("{called} did not open: {said}"));
                Ok(None)
            }
        }
    }

    fn push_raw(
        &mut self,
        (generation, dir, files): (GenerationNo, PathBuf, Vec<File>),
        chosen: Chosen,
        damaged: bool,
    ) {
        let bytes = chosen.blocks.iter().map(|block| u64::from(block.length));
        let bytes = bytes.sum();
        let blocks = chosen.blocks;
        self.found.unsealed.push(Unsealed {
            generation,
            dir,
            source: Source::Raw(Arc::new(RawSource { files, blocks })),
            damaged,
            bytes,
        });
    }

    /// Searches the files of a generation, and segments of it that an earlier run
    /// wrote before it was cut short.
    fn search(&mut self, generation: GenerationNo, listing: &Listing) -> Searched {
        let dir = self.log_dir.join(generation_name(generation));
        let segments = listing.segments.iter();
        let segments = segments.filter(|id| id.generation == generation);
        let segments = segments.map(|id| self.log_dir.join(segment_name(*id)));
        let mut out = Searched {
            generation,
            dir: dir.clone(),
            files: Vec::new(),
            blocks: Vec::new(),
        };
        for path in std::iter::once(dir.join("db")).chain(segments) {
            let file = out.files.len();
            let mut add = |block: RawBlock| out.blocks.push(RawBlock { file, ..block });
            let searched = raw::search(&path, &mut add).and_then(|()| File::open(&path));
            match searched {
                Ok(opened) => out.files.push(opened),
                Err(error) => {
                    out.blocks.retain(|block| block.file != file);
                    let note = format!("{} cannot be read: {error}", path.display());
                    self.found.notes.push(note);
                }
            }
        }
        out
    }

    /// A generation in which nothing was written, or of which nothing is left.
    fn discard_empty(&mut self, empty: &Searched) -> Result<(), OpenError> {
        if self.access == Access::Read {
            return Ok(());
        }
        match SledDb::open(&empty.dir, &TREES) {
            Ok(db) => {
                drop(db);
                names::remove_all(&empty.dir)
                    .map_err(|error| OpenError::system(&empty.dir, "remove", &error))
            }
            Err(error @ (OpenError::Locked { .. } | OpenError::System { .. })) => Err(error),
            Err(OpenError::Damaged { said, .. }) => {
                let moved = quarantine(self.data_dir, &empty.dir)
                    .map_err(|error| OpenError::system(&empty.dir, "move to quarantine", &error))?;
                self.found.notes.push(format!(
                    "{} did not open ({said}) and holds no block; it stands in {} now",
                    empty.dir.display(),
                    moved.display()
                ));
                Ok(())
            }
        }
    }
}

/// Keys of the blocks that a database shows.
fn shown_blocks(db: &SledDb) -> Result<BTreeSet<BlockKey>, ()> {
    let mut keys = BTreeSet::new();
    let mut intact = true;
    let shown = db.scan(BLOCKS, Bound::Unbounded, Bound::Unbounded, |key, bytes| {
        let key = BlockKey::from_bytes(key);
        intact = key.is_some_and(|key| decode_head(key, bytes).is_ok());
        keys.extend(key);
        intact
    });
    (shown.is_ok() && intact).then_some(keys).ok_or(())
}

/// Drops what a later generation has as well: it was written there again after a
/// failed write.
fn clip_to_later(searched: &mut [Searched]) {
    for place in 0..searched.len() {
        let (earlier, later) = searched.split_at_mut(place + 1);
        let bounds = first_bases(later, None);
        let bound = |at| bounds.get(&at).copied().unwrap_or(Offset(u64::MAX));
        earlier[place]
            .blocks
            .retain(|block| block.key.base < bound(block.key.at));
    }
}

fn first_bases(searched: &[Searched], last: Option<&Searched>) -> BTreeMap<TopicPartition, Offset> {
    let mut out: BTreeMap<TopicPartition, Offset> = BTreeMap::new();
    let blocks = searched.iter().chain(last).flat_map(|one| &one.blocks);
    for block in blocks {
        let first = out.entry(block.key.at).or_insert(block.key.base);
        *first = (*first).min(block.key.base);
    }
    out
}

/// Offsets that are missing between the blocks of a segment.
fn holes(id: SegmentId, index: &SegmentIndex) -> Vec<Loss> {
    let pairs = index.entries.windows(2);
    let holes =
        pairs.filter(|pair| pair[0].partition == pair[1].partition && pair[0].end() < pair[1].base);
    let losses = holes.map(|pair| Loss {
        at: TopicPartition {
            topic: id.topic,
            partition: pair[0].partition,
        },
        first: pair[0].end(),
        end: pair[1].base,
    });
    losses.collect()
}
