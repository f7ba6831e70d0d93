//! A store in memory that forgets unsynced batches when it crashes and fails on
//! demand: the disk of the simulated world.
//!
//! Invariant: what is visible is every batch appended since the last crash on
//! top of what had survived it; what survives a crash is everything synced and a
//! prefix of whole unsynced batches. Bound: none of its own; it holds what it was
//! given. It knows no files and draws nothing at random.

use std::collections::BTreeMap;

use super::{
    SegmentId, Store, StoreError, StoreEvent, StoreInfo, StoreOpened, StoredBlock, WriteBatch,
};
use crate::log::decode::decode_head;
use crate::log::key::{BlockKey, TopicPartition};
use crate::units::{Epoch, LogId, Offset};

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

#[derive(Debug, Clone, Copy)]
enum Call {
    Append,
    Sync,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Contents {
    blocks: BTreeMap<BlockKey, Vec<u8>>,
    meta: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Contents {
    fn apply(&mut self, batch: &WriteBatch) {
        for block in &batch.blocks {
            self.blocks.insert(block.key, block.bytes.clone());
        }
        self.meta.extend(batch.meta.iter().cloned());
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct MemoryStore {
    info: StoreInfo,
    durable: Contents,
    /// Appended since the last sync, oldest first.
    unsynced: Vec<WriteBatch>,
    /// `durable` with `unsynced` on top: what reads see.
    visible: Contents,
    faults: Faults,
    failed: Option<StoreError>,
}

impl MemoryStore {
    /// An empty log with the given identity, in its first epoch.
    #[must_use]
    pub fn create(log_id: LogId, nonce: u64) -> Self {
        Self {
            info: StoreInfo {
                log_id,
                epoch: Epoch(1),
                nonce,
            },
            durable: Contents::default(),
            unsynced: Vec::new(),
            visible: Contents::default(),
            faults: Faults::default(),
            failed: None,
        }
    }

    /// What an opening would find.
    ///
    /// # Panics
    /// When a block that was given does not read.
    #[must_use]
    pub fn opened(&self) -> StoreOpened {
        let heads = self.visible.blocks.iter().map(|(key, bytes)| {
            let head = decode_head(*key, bytes).expect("the twin holds what it was given");
            (key.at, head.end())
        });
        StoreOpened {
            info: self.info,
            heads: heads.collect(),
            segments: Vec::new(),
            losses: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[must_use]
    pub fn info(&self) -> StoreInfo {
        self.info
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

    /// Loses all but the first `keep_batches` of the unsynced batches, then opens
    /// again as the next epoch. Faults are cleared.
    ///
    /// # Panics
    /// After 4,294,967,295 openings.
    pub fn crash(&mut self, keep_batches: usize, nonce: u64) -> StoreInfo {
        for batch in self.unsynced.drain(..).take(keep_batches) {
            self.durable.apply(&batch);
        }
        self.visible = self.durable.clone();
        self.faults = Faults::default();
        self.failed = None;
        let next = self.info.epoch.0.checked_add(1);
        self.info.epoch = Epoch(next.expect("a log is opened fewer than 2^32 times"));
        self.info.nonce = nonce;
        self.info
    }

    /// Checks one counter; on its turn the store fails for good.
    fn fault(&mut self, call: Call) -> Result<(), StoreError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let counter = match call {
            Call::Append => &mut self.faults.append,
            Call::Sync => &mut self.faults.sync,
        };
        match counter {
            None => Ok(()),
            Some(0) => {
                *counter = None;
                let error = StoreError {
                    doing: match call {
                        Call::Append => "append",
                        Call::Sync => "sync",
                    },
                    said: "failed on demand".to_owned(),
                    no_space: self.faults.no_space,
                };
                self.failed = Some(error.clone());
                Err(error)
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

impl Store for MemoryStore {
    fn append(&mut self, batch: &WriteBatch) -> Result<(), StoreError> {
        batch.check();
        self.fault(Call::Append)?;
        self.visible.apply(batch);
        self.unsynced.push(batch.clone());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.fault(Call::Sync)?;
        for batch in self.unsynced.drain(..) {
            self.durable.apply(&batch);
        }
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
        let first = blocks
            .range(key(Offset(0), 0)..=key(from, u16::MAX))
            .next_back()
            .map_or(from, |(found, _)| found.base);
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
        // All of it is one generation that is never sealed.
        assert!(segments.is_empty(), "this store has no segments");
        Ok(())
    }

    fn poll_event(&mut self) -> Option<StoreEvent> {
        None
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{PartitionId, TopicId};

    const AT: TopicPartition = TopicPartition {
        topic: TopicId(1),
        partition: PartitionId(2),
    };

    fn batch(base: u64) -> WriteBatch {
        WriteBatch {
            blocks: vec![StoredBlock {
                key: BlockKey {
                    at: AT,
                    base: Offset(base),
                    chunk: 0,
                },
                bytes: vec![base as u8; 10],
            }],
            meta: vec![(b"head".to_vec(), base.to_be_bytes().to_vec())],
        }
    }

    fn bases(store: &MemoryStore) -> Vec<u64> {
        let blocks = store.read(AT, Offset(0), usize::MAX).unwrap();
        blocks.iter().map(|block| block.key.base.0).collect()
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_a_prefix_of_the_rest() {
        for (keep, want) in [
            (0, vec![0]),
            (1, vec![0, 10]),
            (2, vec![0, 10, 20]),
            (9, vec![0, 10, 20]),
        ] {
            let mut store = MemoryStore::create(LogId([7; 16]), 1);
            store.append(&batch(0)).unwrap();
            store.sync().unwrap();
            store.append(&batch(10)).unwrap();
            store.append(&batch(20)).unwrap();
            assert_eq!(store.unsynced(), 2);
            let info = store.crash(keep, 99);
            assert_eq!((info.epoch, info.nonce), (Epoch(2), 99));
            assert_eq!(bases(&store), want, "keep {keep}");
            let head = want.last().unwrap().to_be_bytes().to_vec();
            assert_eq!(store.meta(b"head").unwrap(), Some(head), "keep {keep}");
        }
    }

    #[test]
    fn fails_on_demand_and_stays_failed_until_reopened() {
        let faults = |append, sync| Faults {
            append,
            sync,
            no_space: true,
        };
        for (name, faults, appends_ok, syncs_ok) in [
            ("first append", faults(Some(0), None), 0, 0),
            ("second append", faults(Some(1), None), 1, 1),
            ("first sync", faults(None, Some(0)), 1, 0),
            ("third sync", faults(None, Some(2)), 3, 2),
        ] {
            let mut store = MemoryStore::create(LogId([7; 16]), 1);
            store.set_faults(faults);
            let (mut appends, mut syncs) = (0, 0);
            for base in 0..5 {
                appends += u64::from(store.append(&batch(base)).is_ok());
                syncs += u64::from(store.sync().is_ok());
            }
            assert_eq!((appends, syncs), (appends_ok, syncs_ok), "{name}");
            assert!(store.sync().unwrap_err().no_space, "{name}");
            store.crash(0, 2);
            assert_eq!(bases(&store).len() as u64, syncs_ok, "{name}");
            store.append(&batch(50)).unwrap();
            store.sync().unwrap();
        }
    }
}
