//! One file of the model: its live bytes, its durable bytes, and the changes that
//! lead from these to those. Knows no names.

use std::collections::BTreeSet;

use crate::world::dice::Dice;

/// What a drive writes whole or not at all.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Place of a change in the history of the whole disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seq(pub(super) u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Resize(u64),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => put(content, *offset, bytes),
            Self::Resize(size) => content.resize(index(*size), 0),
        }
    }

    /// The file's size after this change to one of `size`.
    fn size_after(&self, size: u64) -> u64 {
        match self {
            Self::Write { offset, bytes } => size.max(offset + bytes.len() as u64),
            Self::Resize(size) => *size,
        }
    }
}

fn index(at: u64) -> usize {
    usize::try_from(at).expect("files of the model fit into memory")
}

fn put(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let end = index(offset) + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[index(offset)..end].copy_from_slice(bytes);
}

/// See the module's text.
#[derive(Debug, Clone, Default)]
pub(super) struct FileNode {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<(Seq, Change)>,
    /// Handles that are open on it: it stays while there are any.
    pub(super) opens: u32,
}

impl FileNode {
    pub(super) fn size(&self) -> u64 {
        self.live.len() as u64
    }

    pub(super) fn read(&self, offset: u64, bytes_max: usize) -> &[u8] {
        let from = usize::try_from(offset).map_or(self.live.len(), |at| at.min(self.live.len()));
        let to = from.saturating_add(bytes_max).min(self.live.len());
        &self.live[from..to]
    }

    pub(super) fn change(&mut self, at: Seq, change: Change) {
        change.apply(&mut self.live);
        self.pending.push((at, change));
    }

    pub(super) fn sync(&mut self) {
        for (_, change) in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// Writes that are not durable, by their place in the history.
    pub(super) fn unsynced_writes(&self) -> impl Iterator<Item = Seq> {
        self.pending
            .iter()
            .filter(|(_, change)| matches!(change, Change::Write { .. }))
            .map(|(at, _)| *at)
    }

    fn from_bytes(bytes: Vec<u8>) -> Self {
        Self {
            live: bytes.clone(),
            durable: bytes,
            ..Self::default()
        }
    }

    pub(super) fn durable(&self) -> Self {
        Self::from_bytes(self.durable.clone())
    }

    /// All changes before `torn`, and of that one a part that ends at any byte.
    pub(super) fn torn_at(&self, torn: Seq, dice: &mut Dice) -> Self {
        let mut content = self.durable.clone();
        for (at, change) in &self.pending {
            match change {
                _ if *at < torn => change.apply(&mut content),
                Change::Write { offset, bytes } if *at == torn => {
                    let kept = dice.below(bytes.len() as u64 + 1);
                    put(&mut content, *offset, &bytes[..index(kept)]);
                }
                Change::Write { .. } | Change::Resize(_) => {}
            }
        }
        Self::from_bytes(content)
    }

    /// Each sector as it was after some change, one thrown for each; the size too.
    /// `keep_per_million`: how likely the newest state is; else any is as likely.
    pub(super) fn in_part(&self, keep_per_million: u64, dice: &mut Dice) -> Self {
        let mut sizes = vec![self.durable.len() as u64];
        for (_, change) in &self.pending {
            let last = sizes[sizes.len() - 1];
            sizes.push(change.size_after(last));
        }
        let size = sizes[pick(sizes.len(), keep_per_million, dice)];
        let mut content = self.durable.clone();
        content.resize(index(size), 0);
        for sector in self.touched_sectors(&sizes) {
            let start = sector * SECTOR_BYTES;
            if start >= size {
                continue;
            }
            let version = pick(self.pending.len() + 1, keep_per_million, dice);
            let bytes = self.sector_after(start, version);
            let room = index(SECTOR_BYTES.min(size - start));
            content[index(start)..index(start) + room].copy_from_slice(&bytes[..room]);
        }
        Self::from_bytes(content)
    }

    /// Sectors that some pending change reaches.
    fn touched_sectors(&self, sizes: &[u64]) -> BTreeSet<u64> {
        let mut touched = BTreeSet::new();
        for ((_, change), before) in self.pending.iter().zip(sizes) {
            let range = match change {
                Change::Write { offset, bytes } => *offset..offset + bytes.len() as u64,
                Change::Resize(size) => (*size).min(*before)..(*before).max(*size),
            };
            if !range.is_empty() {
                touched.extend(range.start / SECTOR_BYTES..=(range.end - 1) / SECTOR_BYTES);
            }
        }
        touched
    }

    /// The sector that starts at `start` after the first `version` pending changes.
    fn sector_after(&self, start: u64, version: usize) -> [u8; SECTOR_BYTES as usize] {
        let mut sector = [0; SECTOR_BYTES as usize];
        let end = start + SECTOR_BYTES;
        let mut lay = |offset: u64, bytes: &[u8]| {
            let from = offset.max(start);
            let to = (offset + bytes.len() as u64).min(end);
            if from < to {
                sector[index(from - start)..index(to - start)]
                    .copy_from_slice(&bytes[index(from - offset)..index(to - offset)]);
            }
        };
        lay(0, &self.durable);
        for (_, change) in &self.pending[..version] {
            match change {
                Change::Write { offset, bytes } => lay(*offset, bytes),
                // What is cut off reads as zeros if the file grows again.
                Change::Resize(size) if *size < end => {
                    let from = (*size).max(start);
                    lay(from, &[0; SECTOR_BYTES as usize][..index(end - from)]);
                }
                Change::Resize(_) => {}
            }
        }
        sector
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.live
    }

    pub(super) fn damage(&mut self, bytes: Vec<u8>) {
        *self = Self {
            opens: self.opens,
            ..Self::from_bytes(bytes)
        };
    }
}

/// An index below `count`: the last, or any.
fn pick(count: usize, last_per_million: u64, dice: &mut Dice) -> usize {
    if dice.hit(last_per_million) {
        count - 1
    } else {
        index(dice.below(count as u64))
    }
}
