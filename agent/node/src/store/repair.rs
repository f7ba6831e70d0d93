//! Brings back every block of a log that can be read: damaged segments are written
//! anew, databases become segments, and what stands in quarantine goes back to
//! where it is missing. An opening of the log does the salvage of databases; it is
//! the same here.
//!
//! Holds always: what is replaced stands in quarantine before its name is taken, and
//! nothing is deleted. Only offsets that are missing are filled, so no record changes.
//! Bound: one segment's index, and a few bytes per block found in quarantine.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use forebay_core::log::decode::decode;
use forebay_core::log::key::{StoredBlock, TopicPartition};
use forebay_core::log::segment::SegmentHead;
use forebay_core::store::{Loss, SegmentId};
use forebay_core::units::{Epoch, GenerationNo, Offset};

use super::check::Report;
use super::meta_db::MetaDb;
use super::names::{
    KEPT_DIR, QUARANTINE_DIR, keep_in_quarantine, keep_quarantined, now_utc, segment_name,
};
use super::raw::{self, RawBlock, choose, read_block};
use super::reader::LogReader;
use super::segment_file::{SegmentFile, SegmentWriter, peek};
use super::{LogStore, OpenError, StoreSettings, sync_dir};

/// What a repair did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// A sentence each.
    pub done: Vec<String>,
    /// Records that came back from quarantine.
    pub brought_back: u64,
}

/// Repairs the log in `data_dir` as `report` asks, which a check of `reader` gave.
///
/// # Errors
/// When another process takes it meanwhile, or the system refuses. What was done until
/// then stays, and a second run goes on.
pub fn repair(
    data_dir: &Path,
    reader: LogReader,
    report: &Report,
    settings: StoreSettings,
) -> Result<Repaired, OpenError> {
    let mut repaired = Repaired::default();
    let damaged: Vec<_> = reader.catalog.segments().map(|info| info.id).collect();
    let is_damaged = |id: &SegmentId| {
        let path = reader.log_dir.join(segment_name(*id));
        report.damages.iter().any(|damage| damage.path == path)
    };
    for id in damaged.into_iter().filter(is_damaged) {
        rewrite(&reader, id, &Found::default(), &mut repaired)?;
    }
    // It takes the lock itself.
    drop(reader);
    seal_all(data_dir, settings, &mut repaired)?;
    let mut reader = LogReader::open(data_dir)?;
    let missing = missing(&mut reader)?;
    let found = search_quarantine(&reader, &missing, &mut repaired)?;
    bring_back(&reader, &found, &mut repaired)?;
    let kept = keep_quarantined(data_dir);
    let dir = data_dir.join(QUARANTINE_DIR);
    if kept.map_err(refused(&dir, "move what was seen to to its folder kept"))? > 0 {
        repaired.done.push(format!(
            "{}: what stood there was searched and stands in its folder {KEPT_DIR} now; nothing \
             needs it any more once you have what you want",
            dir.display()
        ));
    }
    Ok(repaired)
}

/// Blocks in files of the quarantine.
#[derive(Default)]
struct Found {
    files: Vec<File>,
    /// In key order.
    blocks: Vec<RawBlock>,
}

fn refused(path: &Path, doing: &'static str) -> impl Fn(std::io::Error) -> OpenError {
    let path = path.to_owned();
    move |error| OpenError::system(&path, doing, &error)
}

/// Writes a segment anew, of the blocks in it that read and of `more`.
fn rewrite(
    reader: &LogReader,
    id: SegmentId,
    more: &Found,
    repaired: &mut Repaired,
) -> Result<(), OpenError> {
    let path = reader.log_dir.join(segment_name(id));
    let told = refused(&path, "write it anew");
    let file = SegmentFile::open(&path, id.topic).map_err(&told)?;
    let mut kept = 0_u64;
    let mut left_out = 0_u64;
    let mut writer = writer(reader, id, file.head).map_err(&told)?;
    let mut extra = more.blocks.iter().peekable();
    for entry in &file.index.entries {
        let block = file.read(entry, id.topic).map_err(&told)?;
        while let Some(raw) = extra.next_if(|raw| raw.key < block.key) {
            writer
                .push(read_block(&more.files, raw).map_err(&told)?)
                .map_err(&told)?;
        }
        if decode(block.key, &block.bytes).is_ok() {
            kept += 1;
            writer.push(block).map_err(&told)?;
        } else {
            left_out += 1;
        }
    }
    for raw in extra {
        let block: StoredBlock = read_block(&more.files, raw).map_err(&told)?;
        writer.push(block).map_err(&told)?;
    }
    let place = keep_in_quarantine(&reader.data_dir, &path).map_err(&told)?;
    if kept == 0 && more.blocks.is_empty() {
        drop(writer);
        std::fs::remove_file(&path).map_err(&told)?;
        repaired.done.push(format!(
            "{}: no block of it reads; it stands in {} now",
            path.display(),
            place.display()
        ));
    } else {
        writer.finish().map_err(&told)?;
        repaired.done.push(format!(
            "{}: written anew with {kept} of its {} blocks{}; what it was stands in {}",
            path.display(),
            kept + left_out,
            match more.blocks.len() {
                0 => String::new(),
                n => format!(" and {n} from quarantine"),
            },
            place.display()
        ));
    }
    sync_dir(&reader.log_dir).map_err(&told)
}

fn writer(
    reader: &LogReader,
    id: SegmentId,
    head: Option<SegmentHead>,
) -> std::io::Result<SegmentWriter> {
    let head = head.unwrap_or(SegmentHead {
        log_id: reader.log_id.unwrap_or(forebay_core::units::LogId([0; 16])),
        id,
        sealed_at: now_utc(),
        epoch: reader.epoch.unwrap_or(Epoch(0)),
    });
    SegmentWriter::create(&reader.log_dir, head, false)
}

/// Opens the log as an agent does, seals all of it and closes it.
fn seal_all(
    data_dir: &Path,
    settings: StoreSettings,
    repaired: &mut Repaired,
) -> Result<(), OpenError> {
    let (mut store, opened) = LogStore::open(data_dir, settings)?;
    repaired.done.extend(opened.notes);
    let sealed = store.seal_all();
    drop(store);
    sealed.map_err(|error| OpenError::System {
        path: data_dir.to_owned(),
        doing: error.doing,
        said: error.said,
        no_space: error.no_space,
    })?;
    if opened.losses.is_empty() {
        return Ok(());
    }
    // The agent's next start is to hear of them as of any other loss.
    let mut notes = Vec::new();
    let (mut meta, _) = MetaDb::open(data_dir, &mut notes)?;
    meta.write_untold(&opened.losses)
        .map_err(|error| OpenError::System {
            path: data_dir.join("meta"),
            doing: error.doing,
            said: error.said,
            no_space: error.no_space,
        })
}

/// All offsets that are missing, in order.
fn missing(reader: &mut LogReader) -> Result<Vec<Loss>, OpenError> {
    let log_dir = reader.log_dir.clone();
    let report = reader.check(&mut |_| {});
    let report = report.map_err(|error| OpenError::System {
        path: log_dir,
        doing: error.doing,
        said: error.said,
        no_space: error.no_space,
    })?;
    let named = report.damages.into_iter().flat_map(|damage| damage.lost);
    let mut missing: Vec<Loss> = named.chain(report.holes).collect();
    missing.sort_unstable();
    missing.dedup();
    Ok(missing)
}

/// Intact blocks in the files of the quarantine that are missing in the log.
fn search_quarantine(
    reader: &LogReader,
    missing: &[Loss],
    repaired: &mut Repaired,
) -> Result<Found, OpenError> {
    let mut out = Found::default();
    if missing.is_empty() {
        return Ok(out);
    }
    let mut files = Vec::new();
    list_files(&reader.data_dir.join(QUARANTINE_DIR), &mut files);
    files.sort();
    let mut blocks = Vec::new();
    for path in files {
        // A segment of another log has blocks that only look like ours.
        let stands = peek(&path).ok().flatten().map(|(head, _)| head.log_id);
        if stands.is_some() && stands != reader.log_id {
            continue;
        }
        let file = out.files.len();
        let before = blocks.len();
        let searched = raw::search(&path, |block| {
            let is_missing = missing.iter().any(|loss| {
                block.key.at == loss.at
                    && loss.first <= block.head.base
                    && block.head.end() <= loss.end
            });
            if is_missing && reader.epoch.is_none_or(|epoch| block.head.epoch <= epoch) {
                blocks.push(RawBlock { file, ..block });
            }
        });
        match searched.and_then(|()| File::open(&path)) {
            Ok(opened) => out.files.push(opened),
            Err(error) => {
                blocks.truncate(before);
                let note = format!("{}: cannot be searched: {error}", path.display());
                repaired.done.push(note);
            }
        }
    }
    // Whatever fits between what is there was durable once: it is missing now.
    let all = blocks.iter().map(|block| (block.key.at, Offset(u64::MAX)));
    let durable: BTreeMap<TopicPartition, Offset> = all.collect();
    out.blocks = choose(blocks, |_| None, &durable).blocks;
    Ok(out)
}

fn list_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => list_files(&path, out),
            Ok(kind) if kind.is_file() => out.push(path),
            Ok(_) | Err(_) => {}
        }
    }
}

/// Puts blocks into the segments before which, or in which, they are missing.
fn bring_back(reader: &LogReader, found: &Found, repaired: &mut Repaired) -> Result<(), OpenError> {
    let mut by_segment: BTreeMap<SegmentId, Vec<RawBlock>> = BTreeMap::new();
    for block in &found.blocks {
        let id = segment_for(reader, block);
        by_segment.entry(id).or_default().push(*block);
        repaired.brought_back += u64::from(block.head.count);
    }
    for (id, blocks) in by_segment {
        let path = reader.log_dir.join(segment_name(id));
        let told = refused(&path, "bring blocks back");
        let files = found.files.iter().map(File::try_clone);
        let more = Found {
            files: files.collect::<std::io::Result<_>>().map_err(&told)?,
            blocks,
        };
        if reader.catalog.get(id).is_some() {
            rewrite(reader, id, &more, repaired)?;
            continue;
        }
        let mut writer = writer(reader, id, None).map_err(&told)?;
        for raw in &more.blocks {
            let block = read_block(&more.files, raw).map_err(&told)?;
            writer.push(block).map_err(&told)?;
        }
        writer.finish().map_err(&told)?;
        sync_dir(&reader.log_dir).map_err(&told)?;
        repaired.done.push(format!(
            "{}: made of {} blocks from quarantine",
            path.display(),
            more.blocks.len()
        ));
    }
    Ok(())
}

/// The segment of its topic that holds the partition's records before the block, or
/// else those after it; a new one when the topic has none.
fn segment_for(reader: &LogReader, block: &RawBlock) -> SegmentId {
    let topic = block.key.at.topic;
    let mut before = None;
    let mut after = None;
    for info in reader.catalog.segments().filter(|i| i.id.topic == topic) {
        let mut ranges = info.ranges.iter();
        let Some(range) = ranges.find(|range| range.partition == block.key.at.partition) else {
            continue;
        };
        if range.first <= block.head.base {
            before = Some(info.id);
        } else if after.is_none() {
            after = Some(info.id);
        }
    }
    let mut same_topic = reader.catalog.segments().filter(|i| i.id.topic == topic);
    let any = same_topic.next().map(|info| info.id);
    before.or(after).or(any).unwrap_or(SegmentId {
        generation: GenerationNo(1),
        topic,
    })
}

#[cfg(test)]
mod tests;
