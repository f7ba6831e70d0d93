//! What stands in a log directory, and what of it is the log: segments, and
//! generations that wait to be sealed. It never deletes what it cannot read, and no
//! damage stops a start.
//!
//! No database of a generation is opened: sled cuts off what it does not understand,
//! and may not open at all. Its file is searched for blocks and read by position.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use forebay_core::log::key::{BlockKey, TopicPartition};
use forebay_core::log::segment::{SegmentFault, SegmentId, SegmentIndex, SegmentInfo};
use forebay_core::store::Loss;
use forebay_core::units::{Epoch, GenerationNo, LogId, Offset};

use super::catalog::Catalog;
use super::identity::Identity;
use super::meta_db::{Told, covers};
use super::names::{self, Listing, generation_name, quarantine, segment_name};
use super::raw::{self, RawBlock, choose};
use super::segment_file::{SegmentFile, peek};
use super::unsealed::{RawSource, Source, Unsealed};
use super::{OpenError, sync_dir};

/// A file in the directory of a generation in which something is missing.
const DAMAGED_MARK: &str = "damaged";

/// Whether what is found may be put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Leftovers go, and what is not of this log goes to quarantine.
    Write,
    /// Nothing is changed.
    Read,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) catalog: Catalog,
    /// Oldest first.
    pub(super) unsealed: Vec<Unsealed>,
    pub(super) heads: BTreeMap<TopicPartition, Offset>,
    /// First offset of each partition of which anything was found.
    firsts: BTreeMap<TopicPartition, Offset>,
    pub(super) losses: Vec<Loss>,
    /// Highest that anything was written in.
    pub(super) epoch: Option<Epoch>,
    pub(super) log_id: Option<LogId>,
    pub(super) last_generation: GenerationNo,
    pub(super) notes: Vec<String>,
}

impl Found {
    /// Where each partition begins: for a meta database that has lost what retention
    /// removed.
    pub(super) fn starts(&self) -> BTreeMap<TopicPartition, Offset> {
        let mut starts = self.heads.clone();
        starts.extend(&self.firsts);
        starts
    }
}

/// The files of all generations, searched.
#[derive(Default)]
struct Searched {
    files: Vec<File>,
    /// Which generation each file is of.
    of: Vec<GenerationNo>,
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
    /// Losses that are noted already: no database is damaged for them.
    told: Told,
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
    told: Told,
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
        told,
        found: Found {
            catalog: Catalog::new(log_dir),
            unsealed: Vec::new(),
            heads: BTreeMap::new(),
            firsts: BTreeMap::new(),
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
    opening.load_generations(&listing);
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
            self.found.firsts.entry(at).or_insert(first);
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
            SegmentFault::Head
            | SegmentFault::Footer
            | SegmentFault::Index
            | SegmentFault::Keyed => {}
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

    /// All generations together: a block may stand in two of them, as one that failed
    /// is followed by one to which its last batch was written again.
    fn load_generations(&mut self, listing: &Listing) {
        let mut searched = Searched::default();
        for generation in &listing.generations {
            self.search(*generation, listing, &mut searched);
        }
        let Searched { files, of, blocks } = searched;
        let epoch = blocks.iter().map(|block| block.head.epoch).max();
        self.found.epoch = self.found.epoch.max(epoch);
        let known = self.known.map(|known| known.heads.clone());
        let mut durable = known.unwrap_or_default();
        for (at, head) in &self.found.heads {
            let entry = durable.entry(*at).or_insert(*head);
            *entry = (*entry).max(*head);
        }
        let copies = copies_of(&blocks);
        let mut chosen = choose(blocks, |at| self.start_now(at), &durable);
        assign(&mut chosen.blocks, &copies, (&of, &listing.generations));
        let damaged = chosen.losses.iter().any(|loss| !covers(&self.told, loss));
        self.found.heads.extend(&chosen.heads);
        self.found.losses.extend(&chosen.losses);
        for block in &chosen.blocks {
            let BlockKey { at, base, .. } = block.key;
            self.found.firsts.entry(at).or_insert(base);
        }
        let files = Arc::new(files);
        for generation in &listing.generations {
            let mine = chosen.blocks.iter();
            let mine = mine.filter(|block| of[block.file] == *generation);
            let blocks: Vec<RawBlock> = mine.copied().collect();
            let bytes = blocks.iter().map(|block| u64::from(block.length));
            let dir = self.log_dir.join(generation_name(*generation));
            let is_evidence = self.is_evidence(&dir, damaged);
            self.found.unsealed.push(Unsealed {
                generation: *generation,
                damaged: is_evidence,
                dir,
                bytes: bytes.sum(),
                merge: true,
                source: Source::Raw(Arc::new(RawSource {
                    files: Arc::clone(&files),
                    blocks,
                })),
            });
        }
    }

    /// Whether a generation is not to be deleted. That something is missing in it is
    /// noted once, but it may take another start until it is sealed: so the directory
    /// itself is marked.
    fn is_evidence(&mut self, dir: &Path, damaged: bool) -> bool {
        let mark = dir.join(DAMAGED_MARK);
        if damaged && self.access == Access::Write {
            let marked = File::create(&mark).and_then(|_| sync_dir(dir));
            if let Err(error) = marked {
                let note = format!("{} is damaged and cannot be marked: {error}", dir.display());
                self.found.notes.push(note);
            }
        }
        damaged || mark.exists()
    }

    fn start_now(&self, at: TopicPartition) -> Option<Offset> {
        let head = self.found.heads.get(&at).copied();
        head.or_else(|| self.start(at))
    }

    /// Searches the file of a generation, and segments of it that an earlier run wrote
    /// before it was cut short.
    fn search(&mut self, generation: GenerationNo, listing: &Listing, out: &mut Searched) {
        let db = self.log_dir.join(generation_name(generation)).join("db");
        let segments = listing.segments.iter();
        let segments = segments.filter(|id| id.generation == generation);
        let segments = segments.map(|id| self.log_dir.join(segment_name(*id)));
        for path in std::iter::once(db).chain(segments) {
            let (file, before) = (out.files.len(), out.blocks.len());
            let mut add = |block: RawBlock| out.blocks.push(RawBlock { file, ..block });
            let searched = File::open(&path).and_then(|opened| {
                // A killed process may leave what it had not synced: it is read like all
                // else, will be acked for it, and must survive the next power cut.
                if self.access == Access::Write {
                    opened.sync_data()?;
                }
                raw::search(&path, &mut add)?;
                Ok(opened)
            });
            match searched {
                Ok(opened) => {
                    out.files.push(opened);
                    out.of.push(generation);
                }
                // One whose creation was cut short.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    out.blocks.truncate(before);
                    let note = format!("{} cannot be read: {error}", path.display());
                    self.found.notes.push(note);
                }
            }
        }
    }
}

/// Where each block was found, by its key and epoch.
type Copies = BTreeMap<(BlockKey, Epoch), Vec<RawBlock>>;

fn copies_of(found: &[RawBlock]) -> Copies {
    let mut copies = Copies::new();
    for block in found {
        let of_key = copies.entry((block.key, block.head.epoch)).or_default();
        of_key.push(*block);
    }
    copies
}

/// A block may stand in several generations: what a failed write left is written again
/// to the next one, and what is carried over as well. The end of a partition that a
/// generation has without a hole is taken from it, the newest first, so that each
/// generation holds one run of offsets and they can be read one after the other.
fn assign(chosen: &mut [RawBlock], copies: &Copies, (of, all): (&[GenerationNo], &[GenerationNo])) {
    for partition in chosen.chunk_by_mut(|a, b| a.key.at == b.key.at) {
        let mut left = partition.len();
        for generation in all.iter().rev() {
            while let Some(block) = left.checked_sub(1).map(|last| &mut partition[last]) {
                let copies = copies.get(&(block.key, block.head.epoch));
                let mut copies = copies.into_iter().flatten();
                let same = |copy: &&RawBlock| {
                    of[copy.file] == *generation && copy.head.count == block.head.count
                };
                let Some(copy) = copies.find(same) else {
                    break;
                };
                *block = *copy;
                left -= 1;
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use forebay_core::log::block::BlockHead;
    use forebay_core::units::{EventTime, PartitionId, TopicId};

    use super::*;

    fn block(base: u64, file: usize) -> RawBlock {
        let at = TopicPartition {
            topic: TopicId(16),
            partition: PartitionId(0),
        };
        let base = Offset(base);
        RawBlock {
            key: BlockKey { at, base, chunk: 0 },
            head: BlockHead {
                epoch: Epoch(1),
                base,
                count: 10,
                time_min: EventTime(0),
                time_max: EventTime(0),
                unsynced: None,
            },
            file,
            position: 0,
            length: 0,
        }
    }

    #[test]
    fn each_generation_holds_one_run_of_offsets() {
        let generations = [GenerationNo(1), GenerationNo(2)];
        type Case = (
            &'static str,
            &'static [u64],
            &'static [u64],
            &'static [usize],
        );
        let cases: [Case; 4] = [
            ("no overlap", &[0, 10], &[20, 30], &[0, 0, 1, 1]),
            // The middle of the batch did not get to the first one's file.
            ("written again", &[0, 10, 30], &[10, 20, 30], &[0, 1, 1, 1]),
            ("carried over in part", &[0, 10, 20], &[0, 20], &[0, 0, 1]),
            ("carried over whole", &[0, 10], &[0, 10], &[1, 1]),
        ];
        for (name, first, second, want) in cases {
            let of_first = first.iter().map(|base| block(*base, 0));
            let of_second = second.iter().map(|base| block(*base, 1));
            let found: Vec<_> = of_first.chain(of_second).collect();
            let mut chosen = choose(found.clone(), |_| None, &BTreeMap::new()).blocks;
            assign(
                &mut chosen,
                &copies_of(&found),
                (&generations, &generations),
            );
            let files: Vec<_> = chosen.iter().map(|block| block.file).collect();
            assert_eq!(files, want, "{name}");
        }
    }
}
