//! Where each offset of the sealed log stands. Knows the ranges of all segments, and
//! the indexes of the last few that were read.
//!
//! Holds always: per partition the ranges do not overlap. Bounds: one range per
//! segment and partition; INDEXES_MAX open files.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_core::log::decode::decode_head;
use forebay_core::log::key::{StoredBlock, TopicPartition};
use forebay_core::log::segment::SegmentEntry;
use forebay_core::store::{Loss, SegmentId, SegmentInfo};
use forebay_core::units::{Offset, TopicId};

use super::names::segment_name;
use super::reads::{Places, Stretch};
use super::segment_file::SegmentFile;

/// Segments that are kept open for reading.
const INDEXES_MAX: usize = 4;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Catalog {
    log_dir: PathBuf,
    segments: BTreeMap<SegmentId, SegmentInfo>,
    /// Readers beside the storage thread hold it as it was.
    places: Arc<Places>,
    /// The one used last stands last.
    open: Vec<(SegmentId, SegmentFile)>,
}

impl Catalog {
    pub(super) fn new(log_dir: &Path) -> Self {
        Self {
            log_dir: log_dir.to_owned(),
            segments: BTreeMap::new(),
            places: Arc::default(),
            open: Vec::new(),
        }
    }

    /// Adds a segment.
    pub(super) fn add(&mut self, info: SegmentInfo) {
        for range in &info.ranges {
            let at = TopicPartition {
                topic: info.id.topic,
                partition: range.partition,
            };
            let ranges = Arc::make_mut(&mut self.places).entry(at).or_default();
            let stretch = Stretch {
                end: range.end,
                id: info.id,
                times: (range.time_min, range.time_max),
            };
            ranges.insert(range.first, stretch);
        }
        // A file of the same name may have been open.
        self.open.retain(|(id, _)| *id != info.id);
        self.segments.insert(info.id, info);
    }

    pub(super) fn get(&self, id: SegmentId) -> Option<&SegmentInfo> {
        self.segments.get(&id)
    }

    /// Forgets a segment; gives what was known of it.
    pub(super) fn remove(&mut self, id: SegmentId) -> Option<SegmentInfo> {
        let info = self.segments.remove(&id)?;
        self.open.retain(|(open, _)| *open != id);
        for range in &info.ranges {
            let at = TopicPartition {
                topic: id.topic,
                partition: range.partition,
            };
            if let Some(ranges) = Arc::make_mut(&mut self.places).get_mut(&at) {
                ranges.retain(|_, stretch| stretch.id != id);
            }
        }
        Some(info)
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = &SegmentInfo> {
        self.segments.values()
    }

    /// Where each offset stands, as of now.
    pub(super) fn places(&self) -> Arc<Places> {
        self.places.clone()
    }

    /// The runs of offsets of each partition, in order.
    pub(super) fn runs(&self) -> impl Iterator<Item = (TopicPartition, Offset, Offset)> + '_ {
        self.places
            .iter()
            .flat_map(|(at, ranges)| ranges.iter().map(|(first, of)| (*at, *first, of.end)))
    }

    /// Appends to `out` blocks of `at` from the one that holds `from`, or the first
    /// after it, on, while they fit; true when there may be more behind them.
    /// Blocks that are damaged are left out and told to `lost`.
    ///
    /// # Errors
    /// When the system cannot read.
    pub(super) fn read(
        &mut self,
        at: TopicPartition,
        from: Offset,
        bytes_max: usize,
        out: &mut Vec<StoredBlock>,
        lost: &mut impl FnMut(Loss),
    ) -> std::io::Result<bool> {
        let mut sum: usize = out.iter().map(|block| block.bytes.len()).sum();
        let mut next = from;
        while let Some((end, id)) = self.segment_from(at, next) {
            // A segment may begin with what the one before ends with: it is read once.
            let start = std::mem::replace(&mut next, end);
            let file = self.file(id)?;
            for entry in file.index.from(at.partition, start) {
                if !out.is_empty() && sum + usize::from(entry.length) > bytes_max {
                    return Ok(true);
                }
                match read_intact(file, entry, at.topic)? {
                    Some(block) => {
                        sum += block.bytes.len();
                        out.push(block);
                    }
                    None => lost(Loss {
                        at,
                        first: entry.base,
                        end: entry.end(),
                    }),
                }
            }
        }
        Ok(false)
    }

    /// The segment that holds `from` of `at`, or the first after it, and where its
    /// offsets end.
    fn segment_from(&self, at: TopicPartition, from: Offset) -> Option<(Offset, SegmentId)> {
        let ranges = self.places.get(&at)?;
        let holding = ranges.range(..=from).next_back();
        let holding = holding.filter(|(_, stretch)| stretch.end > from);
        let after = (Bound::Excluded(from), Bound::Unbounded);
        let found = holding.or_else(|| ranges.range(after).next());
        found.map(|(_, stretch)| (stretch.end, stretch.id))
    }

    fn file(&mut self, id: SegmentId) -> std::io::Result<&SegmentFile> {
        if let Some(place) = self.open.iter().position(|(open, _)| *open == id) {
            let used = self.open.remove(place);
            self.open.push(used);
        } else {
            let path = self.log_dir.join(segment_name(id));
            let file = SegmentFile::open(&path, id.topic)?;
            if self.open.len() == INDEXES_MAX {
                self.open.remove(0);
            }
            self.open.push((id, file));
        }
        let (_, file) = self.open.last().expect("one was just pushed");
        Ok(file)
    }
}

fn read_intact(
    file: &SegmentFile,
    entry: &SegmentEntry,
    topic: TopicId,
) -> std::io::Result<Option<StoredBlock>> {
    let block = file.read(entry, topic)?;
    Ok(decode_head(block.key, &block.bytes)
        .is_ok()
        .then_some(block))
}
