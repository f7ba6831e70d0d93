//! Segment files: written once and whole, read by position. What the bytes mean is
//! `forebay_core::log::segment`.
//!
//! Holds always: a file under its final name is complete and synced; one whose
//! index does not read is searched for its blocks instead. Bound: one index and one
//! read at a time.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use forebay_core::limits::SEGMENT_BYTES_MAX;
use forebay_core::log::decode::decode_head;
use forebay_core::log::key::StoredBlock;
use forebay_core::log::merge::Merger;
use forebay_core::log::segment::{
    SEGMENT_FOOTER_BYTES, SEGMENT_HEAD_BYTES, SEGMENT_TAIL_BYTES_MAX, SegmentEntry, SegmentFault,
    SegmentHead, SegmentIndex, SegmentInfo, decode_segment_footer, decode_segment_head,
    decode_segment_ranges, encode_segment_head,
};
use forebay_core::units::{EventTime, TopicId};

use super::fault;
use super::keyed::{KeyedFile, KeyedRows};
use super::names::{UNFINISHED, segment_name, with_end};
use super::raw;

const WRITE_BUFFER_BYTES: usize = 256 * 1024;

/// Writes the segment of one topic; nothing stands under its name until
/// [`SegmentWriter::finish`].
#[derive(Debug)]
pub struct SegmentWriter {
    file: BufWriter<File>,
    path: PathBuf,
    head: SegmentHead,
    index: SegmentIndex,
    position: u64,
    /// `None`: blocks are copied as they are.
    merger: Option<Merger>,
    /// Of a topic whose rows have keys.
    keyed: Option<KeyedRows>,
}

impl SegmentWriter {
    /// Starts the segment `head.id` in `log_dir`; small blocks are merged into full
    /// ones if `merge`.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn create(log_dir: &Path, head: SegmentHead, merge: bool) -> std::io::Result<Self> {
        let path = log_dir.join(segment_name(head.id));
        let file = File::create(with_end(&path, UNFINISHED))?;
        let mut file = BufWriter::with_capacity(WRITE_BUFFER_BYTES, file);
        file.write_all(&encode_segment_head(&head))?;
        Ok(Self {
            file,
            path,
            head,
            index: SegmentIndex::default(),
            position: SEGMENT_HEAD_BYTES as u64,
            merger: merge.then(Merger::new),
            keyed: KeyedRows::of(head.id.topic),
        })
    }

    /// Takes the next block in key order. One that does not read is left out: what
    /// is missing shows as a hole.
    ///
    /// # Errors
    /// When the system refuses, or the segment is as long as one may be.
    pub fn push(&mut self, block: StoredBlock) -> std::io::Result<()> {
        match self.merger.as_mut() {
            None => self.write(&block),
            Some(merger) => {
                let merged = merger.push(block);
                merged.iter().try_for_each(|block| self.write(block))
            }
        }
    }

    fn write(&mut self, block: &StoredBlock) -> std::io::Result<()> {
        let Ok(head) = decode_head(block.key, &block.bytes) else {
            return Ok(());
        };
        if self.position + block.bytes.len() as u64 > SEGMENT_BYTES_MAX {
            return Err(std::io::Error::other(
                "the segment is as long as one may be",
            ));
        }
        self.file.write_all(&block.bytes)?;
        if let Some(keyed) = self.keyed.take() {
            self.keyed = keyed.with(block, &head);
        }
        let (length, position) = (block.bytes.len() as u16, self.position as u32);
        self.index
            .push(block.key.at.partition, &head, length, position);
        self.position += u64::from(length);
        Ok(())
    }

    /// Writes the index and syncs; the file then stands under its name. The name is
    /// durable after a sync of the directory.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn finish(mut self) -> std::io::Result<SegmentInfo> {
        if let Some(mut merger) = self.merger.take() {
            let merged = merger.finish();
            merged.iter().try_for_each(|block| self.write(block))?;
        }
        if let Some(keyed) = self.keyed.take() {
            let bytes = keyed.finish();
            if self.position + bytes.len() as u64 <= SEGMENT_BYTES_MAX {
                self.file.write_all(&bytes)?;
                self.position += bytes.len() as u64;
            }
        }
        let tail = self.index.encode(self.position);
        self.file.write_all(&tail)?;
        self.file.flush()?;
        fault::point("seal.blocks-written");
        self.file.get_ref().sync_all()?;
        fault::point("seal.synced");
        std::fs::rename(with_end(&self.path, UNFINISHED), &self.path)?;
        fault::point("seal.renamed");
        let bytes = self.position + tail.len() as u64;
        Ok(self.index.info(&self.head, bytes))
    }
}

/// A segment file, open for reading.
#[derive(Debug)]
pub struct SegmentFile {
    file: File,
    /// `None` when it does not read.
    pub head: Option<SegmentHead>,
    pub index: SegmentIndex,
    /// What was wrong beside the blocks; the index was then made by searching.
    pub fault: Option<SegmentFault>,
    pub bytes: u64,
    /// First byte of the index, where that reads.
    pub(super) index_at: Option<u64>,
}

/// What a segment says of itself, read without its index; `None` when that does
/// not read and the file has to be looked into.
///
/// # Errors
/// When the system cannot read it.
pub(super) fn peek(path: &Path) -> std::io::Result<Option<(SegmentHead, SegmentInfo)>> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut head = [0; SEGMENT_HEAD_BYTES];
    if bytes < (SEGMENT_HEAD_BYTES + SEGMENT_FOOTER_BYTES) as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut head, 0)?;
    let tail_bytes = bytes.min(SEGMENT_TAIL_BYTES_MAX as u64);
    let mut tail = vec![0; tail_bytes as usize];
    file.read_exact_at(&mut tail, bytes - tail_bytes)?;
    let read = || {
        let head = decode_segment_head(&head)?;
        let footer = decode_segment_footer(&tail, bytes)?;
        let end = tail.len() - SEGMENT_FOOTER_BYTES;
        let start = end.checked_sub(footer.ranges_bytes);
        let ranges = start.and_then(|start| tail.get(start..end));
        let ranges = decode_segment_ranges(ranges.ok_or(SegmentFault::Index)?, &footer)?;
        let info = SegmentInfo {
            id: head.id,
            bytes,
            sealed_at: head.sealed_at,
            ranges,
        };
        Ok::<_, SegmentFault>((head, info))
    };
    Ok(read().ok())
}

impl SegmentFile {
    /// Opens the segment at `path`, which holds blocks of `topic`.
    ///
    /// # Errors
    /// When the system cannot read it.
    pub fn open(path: &Path, topic: TopicId) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut out = Self {
            file,
            head: None,
            index: SegmentIndex::default(),
            fault: None,
            bytes,
            index_at: None,
        };
        match out.read_head()? {
            Ok(head) => out.head = Some(head),
            Err(fault) => out.fault = Some(fault),
        }
        match out.read_index()? {
            Ok((index, index_at)) => {
                out.index = index;
                out.index_at = Some(index_at);
            }
            Err(fault) => {
                out.fault = Some(fault);
                out.index = searched_index(path, topic)?;
            }
        }
        Ok(out)
    }

    fn read_head(&self) -> std::io::Result<Result<SegmentHead, SegmentFault>> {
        if self.bytes < SEGMENT_HEAD_BYTES as u64 {
            return Ok(Err(SegmentFault::Head));
        }
        let mut bytes = [0; SEGMENT_HEAD_BYTES];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(decode_segment_head(&bytes))
    }

    fn read_index(&self) -> std::io::Result<Result<(SegmentIndex, u64), SegmentFault>> {
        let Some(footer_at) = self.bytes.checked_sub(SEGMENT_FOOTER_BYTES as u64) else {
            return Ok(Err(SegmentFault::Footer));
        };
        let mut bytes = [0; SEGMENT_FOOTER_BYTES];
        self.file.read_exact_at(&mut bytes, footer_at)?;
        let footer = match decode_segment_footer(&bytes, self.bytes) {
            Ok(footer) => footer,
            Err(fault) => return Ok(Err(fault)),
        };
        let mut bytes = vec![0; footer.index_bytes + footer.ranges_bytes];
        self.file.read_exact_at(&mut bytes, footer.index_at)?;
        let index = SegmentIndex::decode(&bytes, &footer);
        Ok(index.map(|index| (index, footer.index_at)))
    }

    /// The bytes between blocks and index, where the index reads: nothing, or rows by key.
    #[must_use]
    pub(super) fn between(&self) -> Range<u64> {
        let ends = self.index.entries.iter();
        let ends = ends.map(|entry| u64::from(entry.position) + u64::from(entry.length));
        let end = ends.max().unwrap_or(SEGMENT_HEAD_BYTES as u64);
        end..self.index_at.unwrap_or(end)
    }

    /// Reads all rows by key; whether they are there and whole, or there are none.
    ///
    /// # Errors
    /// When the system cannot.
    pub(super) fn check_keyed(&self) -> std::io::Result<Result<(), SegmentFault>> {
        let Range { start, end } = self.between();
        if start == end {
            return Ok(Ok(()));
        }
        let keyed = match KeyedFile::of(&self.file, end)? {
            Ok(keyed) if keyed.first() == start => keyed,
            Ok(_) | Err(_) => return Ok(Err(SegmentFault::Keyed)),
        };
        keyed.check(&self.file)
    }

    /// Reads the block of an entry; it may be damaged.
    ///
    /// # Errors
    /// When the system cannot.
    pub fn read(&self, entry: &SegmentEntry, topic: TopicId) -> std::io::Result<StoredBlock> {
        let mut bytes = vec![0; usize::from(entry.length)];
        self.file
            .read_exact_at(&mut bytes, u64::from(entry.position))?;
        Ok(StoredBlock {
            key: entry.key(topic),
            bytes,
        })
    }

    /// What the catalog keeps of it.
    #[must_use]
    pub fn info(&self, id: forebay_core::store::SegmentId) -> SegmentInfo {
        SegmentInfo {
            id,
            bytes: self.bytes,
            // Unknown counts as just sealed: age then removes it last.
            sealed_at: self
                .head
                .map_or_else(super::names::now_utc, |head| head.sealed_at),
            ranges: self.index.ranges.clone(),
        }
    }
}

/// The index of the blocks that are found in a segment.
fn searched_index(path: &Path, topic: TopicId) -> std::io::Result<SegmentIndex> {
    let mut found = Vec::new();
    raw::search(path, |block| found.push(block))?;
    found.retain(|block| block.key.at.topic == topic && block.position <= u64::from(u32::MAX));
    found.sort_by_key(|block| block.key);
    let mut index = SegmentIndex::default();
    let mut end = None;
    for block in found {
        let place = (block.key.at.partition, block.key.base);
        if end.is_none_or(|end| place >= end) {
            let position = block.position as u32;
            index.push(block.key.at.partition, &block.head, block.length, position);
            end = Some((block.key.at.partition, block.head.end()));
        }
    }
    Ok(index)
}

/// When a segment was sealed that is being sealed now.
#[must_use]
pub fn sealed_now() -> EventTime {
    super::names::now_utc()
}

#[cfg(test)]
mod tests {
    use forebay_core::log::key::TopicPartition;
    use forebay_core::store::SegmentId;
    use forebay_core::units::{Epoch, GenerationNo, LogId, Offset, PartitionId};

    use super::super::samples::rows_block;
    use super::*;

    const TOPIC: TopicId = TopicId(16);

    fn at(partition: u16) -> TopicPartition {
        TopicPartition {
            topic: TOPIC,
            partition: PartitionId(partition),
        }
    }

    fn blocks() -> Vec<StoredBlock> {
        vec![
            rows_block(at(0), 0, 3, 1, 50),
            rows_block(at(0), 3, 2, 1, 50),
            rows_block(at(2), 7, 4, 1, 50),
        ]
    }

    fn written(dir: &Path, merge: bool) -> (PathBuf, SegmentInfo) {
        let head = SegmentHead {
            log_id: LogId([1; 16]),
            id: SegmentId {
                generation: GenerationNo(1),
                topic: TOPIC,
            },
            sealed_at: EventTime(9),
            epoch: Epoch(1),
        };
        let mut writer = SegmentWriter::create(dir, head, merge).unwrap();
        for block in blocks() {
            writer.push(block).unwrap();
        }
        let info = writer.finish().unwrap();
        (dir.join(segment_name(head.id)), info)
    }

    fn read_all(file: &SegmentFile) -> Vec<StoredBlock> {
        let entries = file.index.entries.iter();
        entries.map(|e| file.read(e, TOPIC).unwrap()).collect()
    }

    #[test]
    fn a_segment_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, info) = written(dir.path(), false);
        let file = SegmentFile::open(&path, TOPIC).unwrap();
        assert_eq!(file.fault, None);
        assert_eq!(file.info(info.id), info);
        let (head, peeked) = peek(&path).unwrap().unwrap();
        assert_eq!((head.id, peeked), (info.id, info));
        assert_eq!(read_all(&file), blocks());
    }

    #[test]
    fn merging_makes_fewer_blocks_of_the_same_records() {
        let dir = tempfile::tempdir().unwrap();
        let (path, info) = written(dir.path(), true);
        let file = SegmentFile::open(&path, TOPIC).unwrap();
        assert_eq!(file.index.entries.len(), 2);
        let ends: Vec<_> = info.ranges.iter().map(|r| (r.first, r.end)).collect();
        assert_eq!(ends, [(Offset(0), Offset(5)), (Offset(7), Offset(11))]);
    }

    #[test]
    fn whatever_byte_is_damaged_all_other_blocks_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let (path, _) = written(dir.path(), false);
        let good = std::fs::read(&path).unwrap();
        let intact = blocks();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            std::fs::write(&path, &bad).unwrap();
            let file = SegmentFile::open(&path, TOPIC).unwrap();
            let holds = |b: &&StoredBlock| decode_head(b.key, &b.bytes).is_ok();
            let all = read_all(&file);
            let read: Vec<_> = all.iter().filter(holds).collect();
            assert!(read.len() >= intact.len() - 1, "byte {at}");
            assert!(read.iter().all(|block| intact.contains(block)));
        }
    }

    #[test]
    fn every_cut_leaves_the_blocks_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, _) = written(dir.path(), false);
        let good = std::fs::read(&path).unwrap();
        for len in 0..good.len() {
            std::fs::write(&path, &good[..len]).unwrap();
            let file = SegmentFile::open(&path, TOPIC).unwrap();
            let mut end = SEGMENT_HEAD_BYTES;
            let whole = blocks().into_iter().take_while(|block| {
                end += block.bytes.len();
                end <= len
            });
            assert_eq!(read_all(&file), whole.collect::<Vec<_>>(), "cut at {len}");
        }
    }
}
