//! Reads a whole log and names everything in it that cannot be read: which file,
//! which of its bytes, which offsets.
//!
//! Holds always: nothing is changed. Bound: [`DAMAGES_MAX`] damages are named, one
//! block and one segment's index are held.

use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use forebay_core::limits::BLOCK_BYTES_MAX;
use forebay_core::log::decode::decode;
use forebay_core::log::head::self_key;
use forebay_core::log::key::{BlockKey, StoredBlock, TopicPartition};
use forebay_core::log::segment::{SEGMENT_FOOTER_BYTES, SEGMENT_HEAD_BYTES, SegmentFault};
use forebay_core::store::{Loss, SegmentId, StoreError};
use forebay_core::units::{GenerationNo, Offset};

use super::names::segment_name;
use super::raw::{RawBlock, read_block};
use super::reader::{LogReader, State, raw_blocks, raw_heads};
use super::segment_file::SegmentFile;
use super::sled_db::io_error;
use super::unsealed::{Source, Unsealed};

/// Damages that are named; more are counted.
pub const DAMAGES_MAX: usize = 10_000;

/// Something that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub path: PathBuf,
    /// Its bytes; an empty range: what is missing stood near there.
    pub bytes: Option<Range<u64>>,
    /// Reads after the place: `its index does not read`.
    pub what: String,
    /// Offsets that cannot be read for it.
    pub lost: Vec<Loss>,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub damages: Vec<Damage>,
    /// Damages that are not among them.
    pub damages_left_out: u64,
    /// Offsets without a record, as the log itself says: lost earlier.
    pub holes: Vec<Loss>,
    pub blocks: u64,
    pub records: u64,
}

impl Report {
    fn damage(&mut self, damage: Damage) {
        if self.damages.len() < DAMAGES_MAX {
            self.damages.push(damage);
        } else {
            self.damages_left_out += 1;
        }
    }

    fn is_named(&self, loss: &Loss) -> bool {
        let lost = self.damages.iter().flat_map(|damage| &damage.lost);
        let mut from = loss.first;
        // Damages of one partition may cover it piece by piece, in order.
        for piece in lost.filter(|piece| piece.at == loss.at) {
            if piece.first <= from {
                from = from.max(piece.end);
            }
        }
        from >= loss.end
    }
}

/// Where something stood that is missing: the file, its bytes, what is wrong there.
type Stood = (PathBuf, Option<Range<u64>>, &'static str);

/// A run of bytes that do not read, with the offsets that stood in them.
struct Run {
    bytes: Range<u64>,
    what: String,
    lost: Vec<Loss>,
}

impl LogReader {
    /// Reads everything. `progress` hears how many bytes have been read.
    ///
    /// # Errors
    /// When the system cannot read.
    pub fn check(&mut self, progress: &mut dyn FnMut(u64)) -> Result<Report, StoreError> {
        let mut report = Report::default();
        let mut done = 0;
        self.check_identity(&mut report);
        let ids: Vec<_> = self.catalog.segments().map(|info| info.id).collect();
        for id in ids {
            self.check_segment(id, &mut report, &mut |bytes| progress(done + bytes))?;
            done += self.catalog.get(id).map_or(0, |info| info.bytes);
        }
        for unsealed in &self.unsealed {
            check_unsealed(unsealed, &mut report, &mut |bytes| progress(done + bytes))?;
            done += unsealed.bytes;
        }
        self.check_losses(&mut report);
        Ok(report)
    }

    fn check_identity(&self, report: &mut Report) {
        let parts = [
            (self.log_dir.join("identity"), &self.identity),
            (self.data_dir.join("meta"), &self.meta_state),
        ];
        for (path, state) in parts {
            let what = match state {
                State::Sound => continue,
                State::Missing => String::from("is missing"),
                State::Damaged(what) => format!("does not read: {what}"),
            };
            report.damage(Damage {
                path,
                bytes: None,
                what,
                lost: Vec::new(),
            });
        }
    }

    fn check_segment(
        &self,
        id: SegmentId,
        report: &mut Report,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), StoreError> {
        let path = self.log_dir.join(segment_name(id));
        let told = |error| io_error("read", &error);
        let file = SegmentFile::open(&path, id.topic).map_err(told)?;
        if let Some(fault) = file.fault {
            let bytes = fault_bytes(fault, &file);
            report.damage(damage_of_file(fault, bytes, path.clone()));
        }
        let index_reads = !matches!(
            file.fault,
            Some(SegmentFault::Footer | SegmentFault::Index | SegmentFault::Version { .. })
        );
        let mut run: Option<Run> = None;
        let mut end = SEGMENT_HEAD_BYTES as u64;
        let mut last: Option<(TopicPartition, Offset)> = None;
        for entry in &file.index.entries {
            let block = file.read(entry, id.topic).map_err(told)?;
            let start = u64::from(entry.position);
            let at = block.key.at;
            let before = last.filter(|(same, end)| *same == at && *end < entry.base);
            let hole = before.map(|(at, first)| Loss {
                at,
                first,
                end: entry.base,
            });
            match hole {
                Some(hole) if index_reads => report.holes.push(hole),
                // The index was made by searching: what lies between was not found.
                Some(hole) => grow(&mut run, end..start, "holds no intact block", Some(hole)),
                None if start > end && !index_reads => {
                    grow(&mut run, end..start, "holds no intact block", None);
                }
                None => {}
            }
            match read_whole(&block) {
                Ok(()) => {
                    flush(&mut run, &path, report);
                    report.blocks += 1;
                    report.records += u64::from(entry.count);
                }
                Err(what) => {
                    let lost = Loss {
                        at,
                        first: entry.base,
                        end: entry.end(),
                    };
                    let bytes = start..start + u64::from(entry.length);
                    grow(&mut run, bytes, &what, Some(lost));
                }
            }
            end = start + u64::from(entry.length);
            last = Some((at, entry.end()));
            progress(end);
        }
        flush(&mut run, &path, report);
        if let Err(fault) = file.check_keyed().map_err(told)? {
            report.damage(damage_of_file(fault, file.between(), path));
        }
        Ok(())
    }

    /// What is missing and is not named by a damage.
    fn check_losses(&self, report: &mut Report) {
        for loss in &self.losses {
            if report.is_named(loss) {
                continue;
            }
            let between = self.generations_around(loss);
            if let Some(damage) = self.damaged_segment(loss, &between, report) {
                damage.lost.push(*loss);
            } else if self.is_told(loss) {
                report.holes.push(*loss);
            } else {
                report.damage(self.damage_of(loss, &between));
            }
        }
        report.holes.sort_unstable();
        report.holes.dedup();
    }

    /// Generations in which something that is missing stood: from the one that holds
    /// what is before it to the one with what is after it.
    fn generations_around(&self, loss: &Loss) -> RangeInclusive<u32> {
        let mut around = (0, u32::MAX);
        let mut meet = |generation: GenerationNo, at, first: Offset, end: Offset| {
            if at == loss.at && end <= loss.first {
                around.0 = around.0.max(generation.0);
            }
            if at == loss.at && first >= loss.end {
                around.1 = around.1.min(generation.0);
            }
        };
        for info in self.catalog.segments() {
            for range in &info.ranges {
                let at = TopicPartition {
                    topic: info.id.topic,
                    partition: range.partition,
                };
                meet(info.id.generation, at, range.first, range.end);
            }
        }
        for unsealed in &self.unsealed {
            for (at, head) in raw_heads(unsealed) {
                meet(unsealed.generation, at, head.base, head.end());
            }
        }
        around.0..=around.1
    }

    /// A segment that is known to be damaged and may have held what is missing.
    fn damaged_segment<'a>(
        &self,
        loss: &Loss,
        between: &RangeInclusive<u32>,
        report: &'a mut Report,
    ) -> Option<&'a mut Damage> {
        let ids = self.catalog.segments().map(|info| info.id);
        let paths: Vec<_> = ids
            .filter(|id| id.topic == loss.at.topic && between.contains(&id.generation.0))
            .map(|id| self.log_dir.join(segment_name(id)))
            .collect();
        let mut damages = report.damages.iter_mut();
        damages.find(|damage| paths.contains(&damage.path))
    }

    fn damage_of(&self, loss: &Loss, between: &RangeInclusive<u32>) -> Damage {
        let (path, bytes, what) = self
            .in_database(loss, between)
            .or_else(|| self.missing_file(loss, between))
            .unwrap_or_else(|| {
                let what = "blocks are missing, and no file has them";
                (self.log_dir.clone(), None, what)
            });
        Damage {
            path,
            bytes,
            what: what.to_owned(),
            lost: vec![*loss],
        }
    }

    /// The place in a database that is not sealed yet.
    fn in_database(&self, loss: &Loss, between: &RangeInclusive<u32>) -> Option<Stood> {
        let unsealed = self.unsealed.iter();
        let unsealed = unsealed.filter(|one| between.contains(&one.generation.0));
        let unsealed: Vec<_> = unsealed.collect();
        for one in &unsealed {
            let db = one.dir.join("db");
            if let Some(bytes) = damaged_block(&db, loss) {
                return Some((db, Some(bytes), "a block does not have its CRC"));
            }
        }
        if let Some(one) = unsealed.iter().find(|one| self.is_emptied(one)) {
            let what = "holds no block, and what is missing may have stood there";
            return Some((one.dir.join("db"), None, what));
        }
        let before = unsealed.iter().rev().find_map(|one| {
            let blocks = raw_blocks(one).iter().rev();
            let mut before = blocks.filter(|b| b.key.at == loss.at && b.key.base < loss.first);
            before.next().map(|block| (one, block.end()))
        });
        let (one, end) = before?;
        let what = "blocks are missing behind this byte";
        Some((one.dir.join("db"), Some(end..end), what))
    }

    /// Whether a database holds nothing, and is not one that was only just begun.
    fn is_emptied(&self, one: &Unsealed) -> bool {
        let last = self.unsealed.last().map(|last| last.generation);
        let bytes = std::fs::metadata(one.dir.join("db")).map_or(0, |meta| meta.len());
        raw_blocks(one).is_empty() && (last != Some(one.generation) || bytes == 0)
    }

    /// The one segment that should be there and is not.
    fn missing_file(&self, loss: &Loss, between: &RangeInclusive<u32>) -> Option<Stood> {
        let topic = loss.at.topic;
        let all = self.parts().into_iter().map(|part| part.generation.0);
        let last = (*between.end()).min(all.max().unwrap_or(0).saturating_add(1));
        let first = between.start() + 1;
        let mut missing = (first..last).map(GenerationNo).filter(|generation| {
            let id = SegmentId {
                generation: *generation,
                topic,
            };
            let waits = self.unsealed.iter().any(|u| u.generation == *generation);
            self.catalog.get(id).is_none() && !waits
        });
        let generation = missing.next()?;
        let name = segment_name(SegmentId { generation, topic });
        let what = "is not there; it or one of the next generation held what is missing";
        Some((self.log_dir.join(name), None, what))
    }
}

/// A fault beside the blocks: nothing is lost by it.
fn damage_of_file(fault: SegmentFault, bytes: Range<u64>, path: PathBuf) -> Damage {
    Damage {
        path,
        bytes: Some(bytes),
        what: fault.to_string(),
        lost: Vec::new(),
    }
}

fn fault_bytes(fault: SegmentFault, file: &SegmentFile) -> Range<u64> {
    let footer = file.bytes.saturating_sub(SEGMENT_FOOTER_BYTES as u64);
    match fault {
        SegmentFault::Head | SegmentFault::Version { .. } => {
            0..file.bytes.min(SEGMENT_HEAD_BYTES as u64)
        }
        SegmentFault::Footer => footer..file.bytes,
        SegmentFault::Keyed => file.between(),
        SegmentFault::Index => {
            let ends = file.index.entries.iter();
            let ends = ends.map(|entry| u64::from(entry.position) + u64::from(entry.length));
            ends.max().unwrap_or(SEGMENT_HEAD_BYTES as u64).min(footer)..footer
        }
    }
}

/// Reads all of a block, not only its head.
fn read_whole(block: &StoredBlock) -> Result<(), String> {
    decode(block.key, &block.bytes)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Adds to the run of unreadable bytes; a run goes on as long as nothing reads.
fn grow(run: &mut Option<Run>, bytes: Range<u64>, what: &str, lost: Option<Loss>) {
    let run = run.get_or_insert_with(|| Run {
        bytes: bytes.clone(),
        what: what.to_owned(),
        lost: Vec::new(),
    });
    run.bytes.end = run.bytes.end.max(bytes.end);
    if let Some(loss) = lost {
        match run.lost.last_mut() {
            Some(last) if last.at == loss.at && last.end == loss.first => last.end = loss.end,
            Some(_) | None => run.lost.push(loss),
        }
    }
}

fn flush(run: &mut Option<Run>, path: &Path, report: &mut Report) {
    if let Some(Run { bytes, what, lost }) = run.take() {
        report.damage(Damage {
            path: path.to_owned(),
            bytes: Some(bytes),
            what,
            lost,
        });
    }
}

fn check_unsealed(
    unsealed: &Unsealed,
    report: &mut Report,
    progress: &mut dyn FnMut(u64),
) -> Result<(), StoreError> {
    let Source::Raw(raw) = &unsealed.source else {
        return Ok(());
    };
    let mut done = 0;
    for raw_block in &raw.blocks {
        let RawBlock {
            position, length, ..
        } = *raw_block;
        let block = read_block(&raw.files, raw_block).map_err(|e| io_error("read", &e))?;
        match read_whole(&block) {
            Ok(()) => {
                report.blocks += 1;
                report.records += u64::from(raw_block.head.count);
            }
            Err(what) => report.damage(Damage {
                path: unsealed.dir.join("db"),
                bytes: Some(position..position + u64::from(length)),
                what,
                lost: vec![Loss {
                    at: block.key.at,
                    first: raw_block.head.base,
                    end: raw_block.head.end(),
                }],
            }),
        }
        done += u64::from(length);
        progress(done);
    }
    Ok(())
}

/// Bytes of a block that says it is one of `loss`, and does not have its CRC.
fn damaged_block(path: &Path, loss: &Loss) -> Option<Range<u64>> {
    let file = std::fs::File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let mut bytes = vec![0; 1024 * 1024];
    let mut start = 0;
    while start < length {
        let piece = bytes.len().min(usize::try_from(length - start).ok()?);
        file.read_exact_at(&mut bytes[..piece], start).ok()?;
        for at in 0..piece {
            let Some((key, block_bytes)) = self_key(&bytes[at..piece]) else {
                continue;
            };
            let stands = in_loss(key, loss) && block_bytes <= BLOCK_BYTES_MAX;
            if stands && !is_intact(&bytes[at..piece], key, block_bytes) {
                let first = start + at as u64;
                return Some(first..first + block_bytes as u64);
            }
        }
        if start + piece as u64 == length {
            return None;
        }
        // A block may be cut by the end of the piece.
        start += (piece - BLOCK_BYTES_MAX) as u64;
    }
    None
}

fn in_loss(key: BlockKey, loss: &Loss) -> bool {
    key.at == loss.at && loss.first <= key.base && key.base < loss.end
}

fn is_intact(bytes: &[u8], key: BlockKey, length: usize) -> bool {
    let block = bytes.get(..length);
    block.is_some_and(|block| decode(key, block).is_ok())
}
