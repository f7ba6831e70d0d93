//! The log read beside the storage thread, by any number of threads: sealed segments by
//! position through files of its own, what is not sealed from what the store shares of it.
//!
//! Holds always: a read sees one view of the log; what a seal, a removal or a database that
//! was given up takes away meanwhile is read from what the view still holds, or is told as
//! missing. A view may show blocks that are not durable yet: whoever reads gives the head.
//! Bounds: FILES_MAX open files, INDEX_ENTRIES_MAX entries of their indexes.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_core::log::decode::decode_head;
use forebay_core::log::key::{StoredBlock, TopicPartition};
use forebay_core::store::{SegmentId, StoreError};
use forebay_core::units::Offset;

use super::live::LiveBlocks;
use super::names::segment_name;
use super::segment_file::SegmentFile;
use super::sled_db::io_error;
use super::unsealed::{RawSource, Source};

/// Segments that are kept open for reading beside the storage thread.
const FILES_MAX: usize = 64;
/// Entries of indexes of open segments, 24 bytes each, beside those of the last.
const INDEX_ENTRIES_MAX: usize = 1 << 18;

/// Which segment holds which offsets: of each first offset the end, and the segment.
pub(super) type Places = BTreeMap<TopicPartition, BTreeMap<Offset, (Offset, SegmentId)>>;

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
    /// The one used last stands last.
    open: Mutex<Vec<(SegmentId, Arc<SegmentFile>)>>,
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
                open: Mutex::default(),
            }),
        }
    }

    /// The store shows the log as it is now.
    pub(super) fn show(&self, view: View) {
        let mut open = lock(&self.shared.open);
        // A file of the same name may be another one later.
        let is_there = |id: &SegmentId| {
            let ranges = view.places.iter().filter(|(at, _)| at.topic == id.topic);
            ranges
                .flat_map(|(_, ranges)| ranges.values())
                .any(|(_, of)| of == id)
        };
        open.retain(|(id, _)| is_there(id));
        *lock(&self.shared.view) = Arc::new(view);
    }

    fn view(&self) -> Arc<View> {
        lock(&self.shared.view).clone()
    }

    /// Blocks of `at` that hold offsets of `[range.start, range.end)`, in order, from the
    /// first on, while they fit, and one in any case.
    ///
    /// # Errors
    /// When the system cannot read.
    pub fn read(
        &self,
        at: TopicPartition,
        range: Range<Offset>,
        bytes_max: usize,
    ) -> Result<ReadPart, StoreError> {
        let view = self.view();
        let mut part = Part::new(range, bytes_max);
        let mut more = self.read_sealed(&view, at, &mut part)?;
        for source in &view.unsealed {
            if more {
                break;
            }
            let from = part.out.next;
            more = match source {
                Readable::Blocks(blocks) => blocks.read(at, from, &mut |block| part.take(block)),
                Readable::Raw(raw) => raw.each(at, from, &mut |block| part.take(block))?,
            };
        }
        Ok(part.finish(more))
    }

    /// True when there may be more that does not fit.
    fn read_sealed(
        &self,
        view: &View,
        at: TopicPartition,
        part: &mut Part,
    ) -> Result<bool, StoreError> {
        let Some(ranges) = view.places.get(&at) else {
            return Ok(false);
        };
        let mut from = part.out.next;
        while let Some((end, id)) = segment_from(ranges, from).filter(|_| from < part.end) {
            let start = std::mem::replace(&mut from, end).max(part.out.next);
            let Some(file) = self.file(id)? else {
                // Removed since: what comes behind it shows that it is missing.
                continue;
            };
            for entry in file.index.from(at.partition, start) {
                if entry.base >= part.end {
                    return Ok(false);
                }
                if !part.fits(usize::from(entry.length)) {
                    return Ok(true);
                }
                let block = file.read(entry, at.topic);
                let block = block.map_err(|error| io_error("read", &error))?;
                if !part.take(block) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The file of a segment; `None` where it is gone.
    fn file(&self, id: SegmentId) -> Result<Option<Arc<SegmentFile>>, StoreError> {
        let mut open = lock(&self.shared.open);
        if let Some(place) = open.iter().position(|(of, _)| *of == id) {
            let used = open.remove(place);
            let file = used.1.clone();
            open.push(used);
            return Ok(Some(file));
        }
        drop(open);
        let path = self.shared.log_dir.join(segment_name(id));
        let file = match SegmentFile::open(&path, id.topic) {
            Ok(file) => Arc::new(file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &error)),
        };
        let mut open = lock(&self.shared.open);
        open.push((id, file.clone()));
        let entries = |open: &[(SegmentId, Arc<SegmentFile>)]| {
            let lengths = open.iter().map(|(_, file)| file.index.entries.len());
            lengths.sum::<usize>()
        };
        while open.len() > FILES_MAX || (open.len() > 1 && entries(&open) > INDEX_ENTRIES_MAX) {
            open.remove(0);
        }
        Ok(Some(file))
    }
}

/// What was locked is whole at any time: a thread that broke left nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The segment that holds `from`, or the first after it, and where its offsets end.
fn segment_from(
    ranges: &BTreeMap<Offset, (Offset, SegmentId)>,
    from: Offset,
) -> Option<(Offset, SegmentId)> {
    let holding = ranges.range(..=from).next_back();
    let holding = holding.filter(|(_, (end, _))| *end > from);
    let after = (Bound::Excluded(from), Bound::Unbounded);
    let found = holding.or_else(|| ranges.range(after).next());
    found.map(|(_, place)| *place)
}

/// A read under way.
#[derive(Debug)]
struct Part {
    end: Offset,
    bytes_max: usize,
    bytes: usize,
    out: ReadPart,
}

impl Part {
    fn new(range: Range<Offset>, bytes_max: usize) -> Self {
        Self {
            end: range.end,
            bytes_max,
            bytes: 0,
            out: ReadPart {
                next: range.start,
                ..ReadPart::default()
            },
        }
    }

    fn fits(&self, bytes: usize) -> bool {
        self.out.blocks.is_empty() || self.bytes + bytes <= self.bytes_max
    }

    /// Takes the next block; false when it does not belong to this read any more.
    fn take(&mut self, block: StoredBlock) -> bool {
        if block.key.base >= self.end || !self.fits(block.bytes.len()) {
            return false;
        }
        let Ok(head) = decode_head(block.key, &block.bytes) else {
            // A place that does not read is missing with all up to the next that does.
            return true;
        };
        if head.end() <= self.out.next {
            return true;
        }
        self.miss(head.base);
        self.out.next = head.end();
        self.bytes += block.bytes.len();
        self.out.blocks.push(block);
        true
    }

    fn miss(&mut self, until: Offset) {
        let until = until.min(self.end);
        if until > self.out.next {
            self.out.missing.push(self.out.next..until);
        }
    }

    fn finish(mut self, more: bool) -> ReadPart {
        if !more {
            self.miss(self.end);
            self.out.next = self.out.next.max(self.end);
        }
        self.out
    }
}
