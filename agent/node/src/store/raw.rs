//! Blocks found by searching a file: the log as it stands on the disk, whatever a
//! database makes of it. Which of the found blocks are the log is decided here too.
//!
//! Holds always: what is chosen has offsets that do not overlap, and an epoch never
//! goes back along them. Nothing is chosen behind a hole that may be a write that
//! was cut: its readings were never acked, and what follows would ack them.
//! Bound: a few bytes per block found, and one piece of a file at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use forebay_core::limits::BLOCK_BYTES_MAX;
use forebay_core::log::block::BlockHead;
use forebay_core::log::key::{BlockKey, StoredBlock, TopicPartition};
use forebay_core::log::scan::next_block;
use forebay_core::store::Loss;
use forebay_core::units::Offset;

/// Bytes of a file that are searched at a time.
const PIECE_BYTES: usize = 1024 * 1024;

/// A block and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawBlock {
    pub key: BlockKey,
    pub head: BlockHead,
    /// Number of the file in the list that was searched.
    pub file: usize,
    /// First byte in that file.
    pub position: u64,
    pub length: u16,
}

impl RawBlock {
    /// First byte after it.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.position + u64::from(self.length)
    }
}

/// Searches `path`; shows every intact block in the order of the file.
///
/// # Errors
/// When the system cannot read it.
pub fn search(path: &Path, mut found: impl FnMut(RawBlock)) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::with_capacity(PIECE_BYTES + BLOCK_BYTES_MAX);
    let mut start = 0_u64;
    loop {
        let read = (&mut file)
            .take(PIECE_BYTES as u64)
            .read_to_end(&mut bytes)?;
        let mut from = 0;
        while let Some(block) = next_block(&bytes, from) {
            from = block.end();
            found(RawBlock {
                key: block.key,
                head: block.head,
                file: 0,
                position: start + block.position as u64,
                length: block.bytes.len() as u16,
            });
        }
        if read == 0 {
            return Ok(());
        }
        // A block may be cut by the end of the piece.
        let keep_from = from.max(bytes.len().saturating_sub(BLOCK_BYTES_MAX - 1));
        bytes.drain(..keep_from);
        start += keep_from as u64;
    }
}

/// What of the found blocks is the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// In key order.
    pub blocks: Vec<RawBlock>,
    /// What was durable and is not there, in order.
    pub losses: Vec<Loss>,
    /// Offset after the last record of each partition, there or lost.
    pub heads: BTreeMap<TopicPartition, Offset>,
    /// Offset below which each partition was durable for sure.
    pub durable: BTreeMap<TopicPartition, Offset>,
}

/// Chooses among blocks that were found in any order and more than once. `start`
/// says where a partition begins, if that is known, `durable` below which offset
/// each was durable; the blocks say so too.
#[must_use]
pub fn choose(
    found: Vec<RawBlock>,
    start: impl Fn(TopicPartition) -> Option<Offset>,
    durable: &BTreeMap<TopicPartition, Offset>,
) -> Chosen {
    let mut partitions: BTreeMap<TopicPartition, Vec<RawBlock>> = BTreeMap::new();
    for block in found {
        partitions.entry(block.key.at).or_default().push(block);
    }
    for at in durable.keys() {
        partitions.entry(*at).or_default();
    }
    let mut out = Chosen::default();
    for (at, blocks) in partitions {
        let said = durable.get(&at).copied().unwrap_or(Offset(0));
        let proven = blocks.iter().map(|block| block.head.durable_below());
        let durable = proven.max().map_or(said, |proven| proven.max(said));
        let blocks = without_overlaps(blocks);
        let first = blocks.first().map_or(durable, |block| block.key.base);
        let start = start(at).unwrap_or(first);
        chain(at, blocks, (start, durable), &mut out);
        out.durable.insert(at, durable);
    }
    out
}

/// In order of offset; of blocks that overlap the one of the later epoch: the
/// earlier one was never durable, or its offsets would not have been given again.
fn without_overlaps(mut blocks: Vec<RawBlock>) -> Vec<RawBlock> {
    blocks.sort_by_key(|block| (std::cmp::Reverse(block.head.epoch), block.key.base));
    let mut taken: BTreeMap<Offset, RawBlock> = BTreeMap::new();
    for block in blocks {
        let before = taken.range(..block.head.end()).next_back();
        if before.is_none_or(|(_, before)| before.head.end() <= block.key.base) {
            taken.insert(block.key.base, block);
        }
    }
    taken.into_values().collect()
}

fn chain(
    at: TopicPartition,
    blocks: Vec<RawBlock>,
    (start, durable): (Offset, Offset),
    out: &mut Chosen,
) {
    let mut end = start;
    let mut epoch = None;
    let mut lost = |first, end| out.losses.push(Loss { at, first, end });
    for block in blocks {
        let of_earlier_epoch = epoch.is_some_and(|epoch| block.head.epoch < epoch);
        let behind_a_cut = block.key.base > end && block.key.base > durable;
        if block.key.base < end || of_earlier_epoch || behind_a_cut {
            continue;
        }
        if block.key.base > end {
            lost(end, block.key.base);
        }
        (end, epoch) = (block.head.end(), Some(block.head.epoch));
        out.blocks.push(block);
    }
    if end < durable {
        lost(end, durable);
        end = durable;
    }
    out.heads.insert(at, end);
}

/// Reads a block that was found.
///
/// # Errors
/// When the system cannot.
pub(super) fn read_block(files: &[File], block: &RawBlock) -> std::io::Result<StoredBlock> {
    let mut bytes = vec![0; usize::from(block.length)];
    files[block.file].read_exact_at(&mut bytes, block.position)?;
    Ok(StoredBlock {
        key: block.key,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use forebay_core::units::{Epoch, EventTime, PartitionId, TopicId};

    use super::super::samples::rows_block;
    use super::*;

    const AT: TopicPartition = TopicPartition {
        topic: TopicId(16),
        partition: PartitionId(1),
    };

    /// A block of `count` records from `base` on, before which `unsynced` were not durable.
    fn found(base: u64, count: u16, epoch: u32, unsynced: Option<u32>) -> RawBlock {
        let base = Offset(base);
        RawBlock {
            key: BlockKey {
                at: AT,
                base,
                chunk: 0,
            },
            head: BlockHead {
                epoch: Epoch(epoch),
                base,
                count,
                time_min: EventTime(0),
                time_max: EventTime(0),
                unsynced,
            },
            file: 0,
            position: 0,
            length: 0,
        }
    }

    #[test]
    fn what_is_the_log_is_chosen() {
        let synced = Some(0);
        type Case = (
            &'static str,
            Vec<RawBlock>,
            u64,
            Vec<u64>,
            Vec<(u64, u64)>,
            u64,
        );
        let cases: Vec<Case> = vec![
            (
                "in order",
                vec![found(0, 10, 1, synced), found(10, 5, 1, synced)],
                0,
                vec![0, 10],
                vec![],
                15,
            ),
            (
                "found twice and in any order",
                vec![
                    found(10, 5, 1, synced),
                    found(0, 10, 1, synced),
                    found(10, 5, 1, synced),
                ],
                0,
                vec![0, 10],
                vec![],
                15,
            ),
            (
                "a hole that was durable is a loss",
                vec![found(0, 10, 1, synced), found(20, 5, 1, synced)],
                0,
                vec![0, 20],
                vec![(10, 20)],
                25,
            ),
            (
                "a hole in the last batch may be a write that was cut",
                vec![found(0, 10, 1, synced), found(20, 5, 1, Some(10))],
                0,
                vec![0],
                vec![],
                10,
            ),
            (
                "what is known to be durable is lost at the end too",
                vec![found(0, 10, 1, synced)],
                15,
                vec![0],
                vec![(10, 15)],
                15,
            ),
            (
                "a later epoch took the offsets of a write that was cut",
                vec![
                    found(0, 10, 1, synced),
                    found(10, 40, 1, synced),
                    found(10, 5, 2, synced),
                ],
                0,
                vec![0, 10],
                vec![],
                15,
            ),
            (
                "and its end does not make an older write fit",
                vec![
                    found(0, 10, 1, synced),
                    found(10, 10, 1, synced),
                    found(20, 10, 1, Some(10)),
                    found(10, 10, 2, synced),
                ],
                0,
                vec![0, 10],
                vec![],
                20,
            ),
            ("nothing", vec![], 7, vec![], vec![], 7),
        ];
        for (name, blocks, durable, bases, losses, head) in cases {
            let durable = BTreeMap::from([(AT, Offset(durable))]);
            let chosen = choose(blocks, |_| None, &durable);
            let got: Vec<_> = chosen.blocks.iter().map(|b| b.key.base.0).collect();
            assert_eq!(got, bases, "{name}");
            let got: Vec<_> = chosen.losses.iter().map(|l| (l.first.0, l.end.0)).collect();
            assert_eq!(got, losses, "{name}");
            assert_eq!(chosen.heads[&AT], Offset(head), "{name}");
        }
    }

    #[test]
    fn a_start_that_is_known_shows_what_is_missing_there() {
        let chosen = choose(
            vec![found(10, 5, 1, Some(0)), found(15, 1, 1, Some(0))],
            |_| Some(Offset(5)),
            &BTreeMap::new(),
        );
        assert_eq!(chosen.losses.len(), 1);
        assert_eq!(
            (chosen.losses[0].first, chosen.losses[0].end),
            (Offset(5), Offset(10))
        );
    }

    #[test]
    fn blocks_are_found_across_the_edges_of_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let block = rows_block(AT, 0, 3, 1, 100);
        for distance in [0, 1, 50, block.bytes.len() - 1, block.bytes.len()] {
            let mut bytes = vec![0xaa; PIECE_BYTES - distance];
            bytes.extend_from_slice(&block.bytes);
            bytes.extend_from_slice(&[0; 10]);
            std::fs::write(&path, &bytes).unwrap();
            let mut all = Vec::new();
            search(&path, |block| all.push(block)).unwrap();
            assert_eq!(all.len(), 1, "{distance}");
            assert_eq!(all[0].position, (PIECE_BYTES - distance) as u64);
            let files = [File::open(&path).unwrap()];
            assert_eq!(read_block(&files, &all[0]).unwrap(), block);
        }
    }
}
