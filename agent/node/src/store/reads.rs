//! The log read beside the storage thread, by any number of threads: sealed segments by
//! position through files of its own, what is not sealed from what the store shares of it.
//!
//! Holds always: a read sees one view of the log; what a seal, a removal or a database that
//! was given up takes away meanwhile is read from what the view still holds, or is told as
//! missing. A view may show blocks that are not durable yet: whoever reads gives the head.
//! Bounds: FILES_MAX open files, INDEX_ENTRIES_MAX entries of their indexes,
//! ROW_INDEXES_BYTES_MAX of what is derived from rows.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_core::log::decode::decode_head;
use forebay_core::log::key::{BlockKey, StoredBlock, TopicPartition};
use forebay_core::log::segment::SegmentEntry;
use forebay_core::store::{SegmentId, StoreError};
use forebay_core::units::{EventTime, Offset};

use super::live::{LiveBlocks, Stands};
use super::names::segment_name;
use super::recent::Recent;
use super::row_index::{KeyHash, RowIndex};
use super::segment_file::SegmentFile;
use super::sled_db::io_error;
use super::unsealed::{RawSource, Source};

mod by_key;

pub use by_key::{KeyedPart, RowsOf};

/// Segments that are kept open for reading beside the storage thread.
pub(super) const FILES_MAX: usize = 64;
/// Entries of indexes of open segments, 24 bytes each, beside those of the last.
pub(super) const INDEX_ENTRIES_MAX: usize = 1 << 18;

/// Bytes of indexes of rows that are kept, beside the last.
pub(super) const ROW_INDEXES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Where the offsets of a partition stand that begin at a segment's first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub(super) end: Offset,
    pub(super) id: SegmentId,
    /// Smallest and largest event time.
    pub(super) times: (EventTime, EventTime),
}

/// Which segment holds which offsets, by the first of each.
pub(super) type Places = BTreeMap<TopicPartition, BTreeMap<Offset, Stretch>>;

/// What a read is about.
#[derive(Debug, Clone)]
pub struct ReadWhat<'a> {
    pub at: TopicPartition,
    pub range: Range<Offset>,
    /// Blocks without a time in it may be left out.
    pub times: Range<EventTime>,
    /// Of rows: blocks without a row of any of these keys may be left out.
    pub keys: Option<&'a [KeyHash]>,
    /// Bytes of blocks, beside the first.
    pub bytes_max: usize,
}

/// The log as of one moment.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) places: Arc<Places>,
    /// In the order of generations.
    pub(super) unsealed: Vec<Readable>,
}

/// A generation that is not sealed.
#[derive(Debug, Clone)]
pub(super) enum Readable {
    Blocks(Arc<LiveBlocks>),
    Raw(Arc<RawSource>),
}

impl From<&Source> for Readable {
    fn from(source: &Source) -> Self {
        match source {
            Source::Live(live) => Self::Blocks(live.shared()),
            Source::Raw(raw) => Self::Raw(raw.clone()),
        }
    }
}

/// See the module's text. Clones are of the same log.
#[derive(Debug, Clone)]
pub struct LogReads {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    log_dir: PathBuf,
    view: Mutex<Arc<View>>,
    open: Mutex<Recent<SegmentFile>>,
    row_indexes: Mutex<Recent<RowIndex>>,
}

/// What a read brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReadPart {
    /// In order of offsets; the first may begin before what was asked for.
    pub blocks: Vec<StoredBlock>,
    /// Offsets before the next read that are not there: removed, lost, or unreadable.
    pub missing: Vec<Range<Offset>>,
    /// Where to go on.
    pub next: Offset,
}

impl LogReads {
    pub(super) fn new(log_dir: &Path) -> Self {
        Self {
            shared: Arc::new(Shared {
                log_dir: log_dir.to_owned(),
                view: Mutex::default(),
                open: Mutex::new(Recent::new(FILES_MAX, INDEX_ENTRIES_MAX, |file| {
                    file.index.entries.len()
                })),
                row_indexes: Mutex::new(Recent::new(
                    usize::MAX,
                    ROW_INDEXES_BYTES_MAX,
                    RowIndex::bytes,
                )),
            }),
        }
    }

    /// The store shows the log as it is now.
    pub(super) fn show(&self, view: View) {
        let mut open = lock(&self.shared.open);
        // A file of the same name may be another one later.
        let is_there = |id: SegmentId| {
            let ranges = view.places.iter().filter(|(at, _)| at.topic == id.topic);
            let mut of_topic = ranges.flat_map(|(_, ranges)| ranges.values());
            of_topic.any(|stretch| stretch.id == id)
        };
        open.retain(is_there);
        lock(&self.shared.row_indexes).retain(is_there);
        *lock(&self.shared.view) = Arc::new(view);
    }

    fn view(&self) -> Arc<View> {
        lock(&self.shared.view).clone()
    }

    /// Blocks that hold what is asked for, in order of offsets, from the first on, while
    /// they fit, and one in any case.
    ///
    /// # Errors
    /// When the system cannot read.
    pub fn read(&self, what: &ReadWhat<'_>) -> Result<ReadPart, StoreError> {
        let view = self.view();
        let mut part = Part::new(what);
        let mut more = self.read_sealed(&view, what, &mut part)?;
        for source in &view.unsealed {
            if more {
                break;
            }
            let (at, from) = (what.at, part.out.next);
            more = match source {
                Readable::Blocks(blocks) => blocks.each(at, from, &mut |key, stands| {
                    let Some(is_wanted) = part.wants_live(key, stands, what) else {
                        return false;
                    };
                    let offsets = (key.base, stands.end);
                    part.offer(offsets, is_wanted, || stands.bytes.to_vec(), key)
                }),
                Readable::Raw(raw) => raw.each(at, from, &mut |block| part.take(block))?,
            };
        }
        Ok(part.finish(more))
    }

    /// True when there may be more that does not fit.
    fn read_sealed(
        &self,
        view: &View,
        what: &ReadWhat<'_>,
        part: &mut Part,
    ) -> Result<bool, StoreError> {
        let Some(ranges) = view.places.get(&what.at) else {
            return Ok(false);
        };
        let mut from = part.out.next;
        while let Some((first, stretch)) = segment_from(ranges, from).filter(|_| from < part.end) {
            let start = std::mem::replace(&mut from, stretch.end).max(part.out.next);
            if first >= part.end {
                break;
            }
            if !part.wants(stretch.times) {
                part.pass((first, stretch.end));
                continue;
            }
            // One that was removed since: what comes behind it shows that it is missing.
            let Some(file) = self.file(stretch.id)? else {
                continue;
            };
            if self.read_segment((stretch.id, &file), start, what, part)? || part.has_built {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read_segment(
        &self,
        (id, file): (SegmentId, &Arc<SegmentFile>),
        start: Offset,
        what: &ReadWhat<'_>,
        part: &mut Part,
    ) -> Result<bool, StoreError> {
        let failed = |error| io_error("read", &error);
        let index = match what.keys {
            Some(_) => Some(self.row_index(id, file, part).map_err(failed)?),
            None => None,
        };
        let wanted = index.as_ref().zip(what.keys);
        let wanted = wanted.map(|(index, keys)| (index, index.blocks_of(keys)));
        let entries = file.index.from(what.at.partition, start);
        let before = |entry: &SegmentEntry| {
            entry.partition < what.at.partition
                || (entry.partition == what.at.partition && entry.end() <= start)
        };
        let first = file.index.entries.partition_point(before);
        for (number, entry) in (first..).zip(entries) {
            if entry.base >= part.end {
                return Ok(false);
            }
            let is_wanted = wanted.as_ref().is_none_or(|(index, blocks)| {
                blocks.get(number) == Some(&true) && part.wants(index.times(number))
            });
            if !is_wanted {
                part.pass((entry.base, entry.end()));
                continue;
            }
            if !part.fits(usize::from(entry.length)) {
                return Ok(true);
            }
            if !part.take(file.read(entry, what.at.topic).map_err(failed)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Which blocks of a segment hold rows of which key.
    fn row_index(
        &self,
        id: SegmentId,
        file: &SegmentFile,
        part: &mut Part,
    ) -> std::io::Result<Arc<RowIndex>> {
        if let Some(index) = lock(&self.shared.row_indexes).get(id) {
            return Ok(index);
        }
        let index = Arc::new(RowIndex::build(file, id.topic)?);
        part.has_built = true;
        lock(&self.shared.row_indexes).keep(id, index.clone());
        Ok(index)
    }

    /// The file of a segment; `None` where it is gone.
    fn file(&self, id: SegmentId) -> Result<Option<Arc<SegmentFile>>, StoreError> {
        if let Some(file) = lock(&self.shared.open).get(id) {
            return Ok(Some(file));
        }
        let path = self.shared.log_dir.join(segment_name(id));
        let file = match SegmentFile::open(&path, id.topic) {
            Ok(file) => Arc::new(file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &error)),
        };
        lock(&self.shared.open).keep(id, file.clone());
        Ok(Some(file))
    }
}

/// What was locked is whole at any time: a thread that broke left nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The segment that holds `from`, or the first after it, with its first offset.
fn segment_from(ranges: &BTreeMap<Offset, Stretch>, from: Offset) -> Option<(Offset, Stretch)> {
    let holding = ranges.range(..=from).next_back();
    let holding = holding.filter(|(_, stretch)| stretch.end > from);
    let after = (Bound::Excluded(from), Bound::Unbounded);
    let found = holding.or_else(|| ranges.range(after).next());
    found.map(|(first, stretch)| (*first, *stretch))
}

/// A read under way.
#[derive(Debug)]
struct Part {
    end: Offset,
    times: Range<EventTime>,
    bytes_max: usize,
    bytes: usize,
    /// Bytes of blocks that are not sealed whose keys were looked for.
    looked_into: usize,
    /// A block behind the end was met.
    is_over: bool,
    /// A whole segment was read for its index: enough for one read.
    has_built: bool,
    out: ReadPart,
}

impl Part {
    fn new(what: &ReadWhat<'_>) -> Self {
        Self {
            end: what.range.end,
            times: what.times.clone(),
            bytes_max: what.bytes_max,
            bytes: 0,
            looked_into: 0,
            is_over: false,
            has_built: false,
            out: ReadPart {
                next: what.range.start,
                ..ReadPart::default()
            },
        }
    }

    fn fits(&self, bytes: usize) -> bool {
        self.out.blocks.is_empty() || self.bytes + bytes <= self.bytes_max
    }

    fn wants(&self, (min, max): (EventTime, EventTime)) -> bool {
        max >= self.times.start && min < self.times.end
    }

    /// Whether a block that is not sealed may be wanted; `None`: enough was looked into for
    /// one read, as whoever writes waits meanwhile.
    fn wants_live(&mut self, key: BlockKey, stands: &Stands, what: &ReadWhat<'_>) -> Option<bool> {
        if !self.wants(stands.times) {
            return Some(false);
        }
        let Some(keys) = what.keys else {
            return Some(true);
        };
        if !stands.has_keys() {
            let is_first = self.looked_into == 0;
            self.looked_into += stands.bytes.len();
            if !is_first && self.looked_into > self.bytes_max {
                return None;
            }
        }
        Some(stands.may_have(key, keys))
    }

    /// Takes the next block; false when it does not belong to this read any more.
    fn take(&mut self, block: StoredBlock) -> bool {
        let Ok(head) = decode_head(block.key, &block.bytes) else {
            // A place that does not read is missing with all up to the next that does.
            return true;
        };
        let offsets = (head.base, head.end());
        let is_wanted = self.wants((head.time_min, head.time_max));
        self.offer(offsets, is_wanted, || block.bytes, block.key)
    }

    /// Takes the next block if it is wanted; false when it does not belong to this read
    /// any more.
    fn offer(
        &mut self,
        (first, end): (Offset, Offset),
        is_wanted: bool,
        bytes: impl FnOnce() -> Vec<u8>,
        key: BlockKey,
    ) -> bool {
        if first >= self.end {
            self.is_over = true;
            return false;
        }
        if end <= self.out.next {
            return true;
        }
        if !is_wanted {
            self.pass((first, end));
            return true;
        }
        let bytes = bytes();
        if !self.fits(bytes.len()) {
            return false;
        }
        self.pass((first, end));
        self.bytes += bytes.len();
        self.out.blocks.push(StoredBlock { key, bytes });
        true
    }

    /// These offsets are there; what lies before them is not.
    fn pass(&mut self, (first, end): (Offset, Offset)) {
        self.miss(first);
        self.out.next = self.out.next.max(end);
    }

    fn miss(&mut self, until: Offset) {
        let until = until.min(self.end);
        if until > self.out.next {
            self.out.missing.push(self.out.next..until);
        }
    }

    fn finish(mut self, more: bool) -> ReadPart {
        if !more || self.is_over {
            self.miss(self.end);
            self.out.next = self.out.next.max(self.end);
        }
        self.out
    }
}

#[cfg(test)]
mod tests;
