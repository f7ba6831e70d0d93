//! A store in memory that forgets unsynced batches when it crashes, fails on demand
//! and has a disk that can be full: the store of the simulated world.
//!
//! Invariant: what is visible is every batch appended since the last crash on
//! top of what had survived it; what survives a crash is everything synced and a
//! prefix of whole unsynced batches, a meta entry never without the blocks of its
//! batch. Bound: none of its own but its disk's; it holds what it was given. It
//! knows no files and draws nothing at random.

mod contents;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use self::contents::{Contents, Whole};
use super::{
    Opening, SegmentId, Store, StoreError, StoreEvent, StoreInfo, StoreOpened, StoredBlock,
    WriteBatch,
};
use crate::limits::OPENINGS_KEPT_MAX;
use crate::log::decode::decode_head;
use crate::log::key::{BlockKey, TopicPartition};
use crate::units::{Epoch, EventTime, LogId, Offset, TopicId};

/// What goes wrong, and when. Counted in calls from the moment it was set:
/// `Some(0)` is the next call. Each fires once; the store then stays failed
/// until it is opened again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// This many appends succeed, the one after fails.
    pub append: Option<u64>,
    /// This many syncs succeed, the one after fails.
    pub sync: Option<u64>,
    /// The failure is a full disk.
    pub no_space: bool,
}

/// The disk under a twin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryDisk {
    /// The live generation is sealed when it has so many bytes.
    pub generation_bytes: u64,
    /// What blocks and what is not ours may take together.
    pub capacity_bytes: u64,
    /// What others have on the disk.
    pub foreign_bytes: u64,
}

/// What a crash leaves of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// Batches whose blocks survive.
    pub keep_batches: usize,
    /// Of these, how many survive with their meta entries.
    pub keep_meta: usize,
    /// Whether segments that were removed since the last sync are there again.
    pub undo_removals: bool,
}

#[derive(Debug, Clone, Copy)]
enum Call {
    Append,
    Sync,
}

/// See the module's text.
#[derive(Debug)]
pub struct MemoryStore {
    info: StoreInfo,
    openings: Vec<Opening>,
    durable: Contents,
    /// Appended since the last sync, oldest first.
    unsynced: Vec<WriteBatch>,
    /// `durable` with `unsynced` on top: what reads see.
    visible: Contents,
    /// Removed since the last sync.
    removed: Vec<Whole>,
    faults: Faults,
    failed: Option<StoreError>,
    disk: Option<MemoryDisk>,
    clock: EventTime,
    events: VecDeque<StoreEvent>,
}

impl MemoryStore {
    /// An empty log with the given identity, in its first epoch, on a disk without
    /// end, in one generation.
    #[must_use]
    pub fn create(log_id: LogId, nonce: u64) -> Self {
        let info = StoreInfo {
            log_id,
            epoch: Epoch(1),
            nonce,
        };
        Self {
            info,
            openings: vec![info.opening()],
            durable: Contents::default(),
            unsynced: Vec::new(),
            visible: Contents::default(),
            removed: Vec::new(),
            faults: Faults::default(),
            failed: None,
            disk: None,
            clock: EventTime(0),
            events: VecDeque::new(),
        }
    }

    /// The same on a disk that can be full.
    #[must_use]
    pub fn on_disk(mut self, disk: MemoryDisk) -> Self {
        self.disk = Some(disk);
        self
    }

    /// What an opening would find.
    #[must_use]
    pub fn opened(&self) -> StoreOpened {
        StoreOpened {
            info: self.info,
            openings: self.openings.clone(),
            heads: self.visible.heads.clone(),
            segments: self.visible.segments.values().cloned().collect(),
            losses: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[must_use]
    pub fn info(&self) -> StoreInfo {
        self.info
    }

    /// What the store's clock says from now on.
    pub fn set_clock(&mut self, now: EventTime) {
        self.clock = now;
    }

    /// Others take so much of the disk from now on.
    pub fn set_foreign_bytes(&mut self, foreign_bytes: u64) {
        if let Some(disk) = self.disk.as_mut() {
            disk.foreign_bytes = foreign_bytes;
            self.tell_disk();
        }
    }

    /// Sets what fails from now on, in place of what was set before.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Batches that a crash may lose.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// Bytes of all blocks of a topic.
    #[must_use]
    pub fn topic_bytes(&self, topic: TopicId) -> u64 {
        let blocks = self.visible.blocks.iter();
        let ours = blocks.filter(|(key, _)| key.at.topic == topic);
        ours.map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Whether anything of a topic is sealed.
    #[must_use]
    pub fn has_segments(&self, topic: TopicId) -> bool {
        self.visible.segments.keys().any(|id| id.topic == topic)
    }

    /// Offset that the next record of a partition takes.
    #[must_use]
    pub fn head(&self, at: TopicPartition) -> Offset {
        self.visible.heads.get(&at).copied().unwrap_or(Offset(0))
    }

    /// What is left of the disk.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let disk = self.disk.as_ref();
        disk.map_or(u64::MAX, |disk| {
            let used = self.visible.used_bytes().saturating_add(disk.foreign_bytes);
            disk.capacity_bytes.saturating_sub(used)
        })
    }

    /// Loses all but the first `keep_batches` of the unsynced batches, then opens
    /// again as the next epoch. Faults are cleared.
    ///
    /// # Panics
    /// After 4,294,967,295 openings.
    pub fn crash(&mut self, keep_batches: usize, nonce: u64) -> StoreInfo {
        let crash = Crash {
            keep_batches,
            keep_meta: keep_batches,
            undo_removals: false,
        };
        self.crash_leaving(crash, nonce)
    }

    /// As [`MemoryStore::crash`], with what is left said in full.
    ///
    /// # Panics
    /// After 4,294,967,295 openings.
    pub fn crash_leaving(&mut self, crash: Crash, nonce: u64) -> StoreInfo {
        let batches = self.unsynced.drain(..).take(crash.keep_batches);
        for (index, batch) in batches.enumerate() {
            if index < crash.keep_meta {
                self.durable.apply(&batch);
            } else {
                self.durable.apply_blocks(&batch);
            }
        }
        let removed = std::mem::take(&mut self.removed);
        if crash.undo_removals {
            removed
                .into_iter()
                .for_each(|whole| self.durable.restore(whole));
        }
        self.visible = self.durable.clone();
        self.faults = Faults::default();
        self.failed = None;
        self.events.clear();
        self.tell_disk();
        let next = self.info.epoch.0.checked_add(1);
        self.info.epoch = Epoch(next.expect("a log is opened fewer than 2^32 times"));
        self.info.nonce = nonce;
        if self.openings.len() >= OPENINGS_KEPT_MAX {
            self.openings.remove(0);
        }
        self.openings.push(self.info.opening());
        self.info
    }

    fn fail(&mut self, doing: &'static str, said: &str, no_space: bool) -> StoreError {
        let error = StoreError {
            doing,
            said: said.to_owned(),
            no_space,
        };
        self.failed = Some(error.clone());
        error
    }

    /// Checks one counter; on its turn the store fails for good.
    fn fault(&mut self, call: Call) -> Result<(), StoreError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let (counter, doing) = match call {
            Call::Append => (&mut self.faults.append, "append"),
            Call::Sync => (&mut self.faults.sync, "sync"),
        };
        match counter {
            None => Ok(()),
            Some(0) => {
                *counter = None;
                let no_space = self.faults.no_space;
                Err(self.fail(doing, "failed on demand", no_space))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// Refuses a batch that does not fit the disk.
    fn check_space(&mut self, batch: &WriteBatch) -> Result<(), StoreError> {
        let Some(disk) = self.disk else {
            return Ok(());
        };
        let blocks = batch.blocks.iter().map(|block| block.bytes.len() as u64);
        let wanted = self.visible.used_bytes() + blocks.sum::<u64>();
        if wanted.saturating_add(disk.foreign_bytes) > disk.capacity_bytes {
            return Err(self.fail("append", "no space left on device", true));
        }
        Ok(())
    }

    fn tell_disk(&mut self) {
        if self.disk.is_some() {
            self.events.push_back(StoreEvent::Disk {
                free_bytes: self.free_bytes(),
                live_bytes: self.visible.live_bytes(),
            });
        }
    }

    /// Seals the live generation when it is large enough.
    fn roll(&mut self) {
        let limit = self.disk.map_or(u64::MAX, |disk| disk.generation_bytes);
        if self.durable.live_bytes() >= limit {
            let sealed = self.durable.seal(self.clock);
            self.visible = self.durable.clone();
            self.events.push_back(StoreEvent::Sealed(sealed));
        }
    }
}

impl Store for MemoryStore {
    fn append(&mut self, batch: &WriteBatch) -> Result<(), StoreError> {
        batch.check();
        self.fault(Call::Append)?;
        self.check_space(batch)?;
        self.visible.apply(batch);
        self.unsynced.push(batch.clone());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.fault(Call::Sync)?;
        for batch in self.unsynced.drain(..) {
            self.durable.apply(&batch);
        }
        self.removed.clear();
        self.roll();
        self.tell_disk();
        Ok(())
    }

    fn recover(&mut self) -> Result<(), StoreError> {
        self.unsynced.clear();
        self.visible = self.durable.clone();
        self.failed = None;
        Ok(())
    }

    fn read(
        &self,
        at: TopicPartition,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<StoredBlock>, StoreError> {
        let key = |base, chunk| BlockKey { at, base, chunk };
        let blocks = &self.visible.blocks;
        let holding = blocks
            .range(key(Offset(0), 0)..=key(from, u16::MAX))
            .next_back()
            .filter(|(key, bytes)| decode_head(**key, bytes).is_ok_and(|head| head.end() > from));
        let first = holding.map_or(from, |(found, _)| found.base);
        let mut sum = 0;
        Ok(blocks
            .range(key(first, 0)..=key(Offset(u64::MAX), u16::MAX))
            .enumerate()
            .take_while(|(index, (_, bytes))| {
                sum += bytes.len();
                *index == 0 || sum <= bytes_max
            })
            .map(|(_, (key, bytes))| StoredBlock {
                key: *key,
                bytes: bytes.clone(),
            })
            .collect())
    }

    fn remove(&mut self, segments: &[SegmentId]) -> Result<(), StoreError> {
        for id in segments {
            self.visible.remove(*id);
            self.removed.extend(self.durable.remove(*id));
        }
        self.events
            .push_back(StoreEvent::Removed(segments.to_vec()));
        self.tell_disk();
        Ok(())
    }

    fn poll_event(&mut self) -> Option<StoreEvent> {
        self.events.pop_front()
    }

    fn meta(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.visible.meta.get(key).cloned())
    }

    fn meta_with_prefix(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        Ok(self
            .visible
            .meta
            .range(prefix.to_vec()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}
