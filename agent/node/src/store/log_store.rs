//! The log on disk: blocks and meta entries of the newest generation, and the
//! identity of the log.
//!
//! Always holds: the log id was drawn once, and every opening has a new epoch
//! with its own nonce, durable before the first append, also when the database
//! has lost what it knew (`identity`). One process at a time (`lock`). Knows
//! nothing of what is in a block. Bound: one generation is open.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use forebay_core::log::decode::decode_head;
use forebay_core::log::key::{BlockKey, TopicPartition};
use forebay_core::store::{
    SegmentId, Store, StoreError, StoreEvent, StoreInfo, StoreOpened, StoredBlock, WriteBatch,
};
use forebay_core::units::{Epoch, LogId, Offset};

use super::identity::Identity;
use super::sled_db::{SledDb, Write};
use super::{DirLock, OpenError};

const BLOCKS: usize = 0;
const META: usize = 1;
const TREES: [&str; 2] = ["blocks", "meta"];

/// Under the reserved prefix; byte table in `agent/node/docs/store.md`.
const LOG_ID_KEY: &[u8] = b"store.log_id";
const EPOCH_KEY: &[u8] = b"store.epoch";
const IDENTITY_VERSION: u8 = 1;
const LOG_ID_VALUE_BYTES: usize = 1 + 16;
const EPOCH_VALUE_BYTES: usize = 1 + 4 + 8;

/// See the module's text.
#[derive(Debug)]
pub struct LogStore {
    db: SledDb,
    log_dir: PathBuf,
    info: StoreInfo,
    losses: Vec<Loss>,
    _lock: DirLock,
}

/// Blocks that were durable and are gone: the database was damaged, or taken back
/// to an older state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    pub at: TopicPartition,
    /// Base of the last block that there was.
    pub had: Offset,
    /// Base of the last block that there is.
    pub has: Option<Offset>,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TopicPartition { topic, partition } = self.at;
        let (topic, partition, had) = (topic.0, partition.0, self.had.0);
        write!(f, "topic {topic}, partition {partition}: the log reached ")?;
        match self.has {
            Some(has) => write!(f, "offset {had} and now ends in the block at {}", has.0),
            None => write!(f, "offset {had} and now is empty"),
        }
    }
}

impl LogStore {
    /// Opens the log in `<data_dir>/log`, creating what is missing, as a new epoch.
    ///
    /// # Errors
    /// When another process holds it, the system refuses, or it is damaged.
    pub fn open(data_dir: &Path) -> Result<Self, OpenError> {
        let lock = DirLock::take(data_dir)?;
        let log_dir = data_dir.join("log");
        let dir = newest_generation(&log_dir)?;
        let known = Identity::read(&log_dir)?;
        let mut db = SledDb::open(&dir, &TREES)?;
        let damaged = |said| OpenError::Damaged { dir, said };
        let tails = read_tails(&db).map_err(|error| damaged.clone()(error.to_string()))?;
        let info = next_epoch(&db, known.as_ref(), !tails.is_empty()).map_err(damaged.clone())?;
        let losses = known.map_or(Vec::new(), |known| losses(&known.tails, &tails));
        // First beside the database: whatever that loses, this epoch is used up.
        Identity {
            log_id: info.log_id,
            epoch: info.epoch,
            tails,
        }
        .write(&log_dir)?;
        write_epoch(&mut db, info).map_err(|error| damaged(error.to_string()))?;
        Ok(Self {
            db,
            log_dir,
            info,
            losses,
            _lock: lock,
        })
    }

    /// What was found missing at this opening.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    #[must_use]
    pub fn info(&self) -> StoreInfo {
        self.info
    }

    /// What an opening finds.
    ///
    /// # Errors
    /// When the store cannot read.
    pub fn opened(&self) -> Result<StoreOpened, StoreError> {
        let mut heads = BTreeMap::new();
        for key in read_tails(&self.db)? {
            let bytes = self.db.get(BLOCKS, &key.to_bytes())?.unwrap_or_default();
            let end = decode_head(key, &bytes).map_or(key.base, |head| head.end());
            heads.insert(key.at, end);
        }
        Ok(StoreOpened {
            info: self.info,
            heads,
            segments: Vec::new(),
            losses: Vec::new(),
            notes: Vec::new(),
        })
    }
}

impl Drop for LogStore {
    /// A clean close says how far the log reached. When it cannot, the next opening
    /// knows less, and nothing is lost.
    fn drop(&mut self) {
        let tails = self.db.sync().and_then(|()| read_tails(&self.db));
        if let Ok(tails) = tails {
            let identity = Identity {
                log_id: self.info.log_id,
                epoch: self.info.epoch,
                tails,
            };
            let _ = identity.write(&self.log_dir);
        }
    }
}

/// The directory of the generation to write: the one there is, or the first.
fn newest_generation(log_dir: &Path) -> Result<PathBuf, OpenError> {
    std::fs::create_dir_all(log_dir)
        .and_then(|()| super::sync_dir(log_dir.parent().unwrap_or(Path::new("."))))
        .map_err(|e| OpenError::system(log_dir, "create the directory", &e))?;
    let list = |e| OpenError::system(log_dir, "list the directory", &e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(log_dir).map_err(list)? {
        let name = entry.map_err(list)?.file_name();
        found.extend(name.to_str().and_then(generation_number));
    }
    found.sort_unstable();
    match found[..] {
        [] => Ok(log_dir.join(generation_name(1))),
        [only] => Ok(log_dir.join(generation_name(only))),
        [..] => Err(OpenError::Damaged {
            dir: log_dir.to_owned(),
            said: format!(
                "it holds {} generations, and this version reads one: use the version that wrote it",
                found.len()
            ),
        }),
    }
}

/// `g-00000001` for 1.
fn generation_name(number: u32) -> String {
    format!("g-{number:08}")
}

fn generation_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("g-")?.parse().ok()?;
    (generation_name(number) == name).then_some(number)
}

/// Reads or draws the log id, and counts the epoch up: past the highest that the
/// database or the file beside it knows.
fn next_epoch(
    db: &SledDb,
    known: Option<&Identity>,
    has_blocks: bool,
) -> Result<StoreInfo, String> {
    let get = |key| db.get(META, key).map_err(|error| error.to_string());
    let stored = get(LOG_ID_KEY)?;
    let stored = stored.map(|value| decode_log_id(&value)).transpose()?;
    let log_id = match (stored, known.map(|known| known.log_id)) {
        (Some(stored), Some(known)) if stored != known => {
            return Err(format!(
                "it is of log {stored}, and the file beside it of {known}"
            ));
        }
        (Some(log_id), _) | (None, Some(log_id)) => log_id,
        (None, None) if has_blocks => return Err("it holds blocks but no log id".to_owned()),
        (None, None) => LogId(random()?),
    };
    let stored = get(EPOCH_KEY)?
        .map(|value| decode_epoch(&value))
        .transpose()?;
    let epoch = stored.max(known.map(|known| known.epoch.0)).unwrap_or(0);
    let epoch = epoch
        .checked_add(1)
        .ok_or("it was opened 2^32 times: its epochs are used up")?;
    Ok(StoreInfo {
        log_id,
        epoch: Epoch(epoch),
        nonce: u64::from_be_bytes(random()?),
    })
}

fn write_epoch(db: &mut SledDb, info: StoreInfo) -> Result<(), StoreError> {
    let put = |key, value| Write {
        tree: META,
        key,
        value: Some(value),
        must_be_new: false,
    };
    let epoch = encode_epoch(info.epoch.0, info.nonce);
    db.write(&[
        put(LOG_ID_KEY, &encode_log_id(info.log_id)),
        put(EPOCH_KEY, &epoch),
    ])?;
    db.sync()
}

/// Where the log reached further than it does now.
fn losses(had: &[BlockKey], has: &[BlockKey]) -> Vec<Loss> {
    let lost = had.iter().filter_map(|had| {
        let has = has.iter().find(|has| has.at == had.at);
        let shorter = has.is_none_or(|has| has < had);
        shorter.then_some(Loss {
            at: had.at,
            had: had.base,
            has: has.map(|has| has.base),
        })
    });
    lost.collect()
}

/// Key of the last block of each partition that has any, in key order.
fn read_tails(db: &SledDb) -> Result<Vec<BlockKey>, StoreError> {
    let mut out = Vec::new();
    let mut before: Option<Vec<u8>> = None;
    loop {
        let to = before.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let Some((key, bytes)) = db.last(BLOCKS, Bound::Unbounded, to)? else {
            break;
        };
        let key = stored(&key, &bytes)?.key;
        let first = BlockKey {
            at: key.at,
            base: Offset(0),
            chunk: 0,
        };
        before = Some(first.to_bytes().to_vec());
        out.push(key);
    }
    out.reverse();
    Ok(out)
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut out = [0; N];
    getrandom::fill(&mut out).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(out)
}

fn encode_log_id(id: LogId) -> [u8; LOG_ID_VALUE_BYTES] {
    let mut out = [IDENTITY_VERSION; LOG_ID_VALUE_BYTES];
    out[1..].copy_from_slice(&id.0);
    out
}

fn decode_log_id(value: &[u8]) -> Result<LogId, String> {
    match <[u8; LOG_ID_VALUE_BYTES]>::try_from(value) {
        Ok([IDENTITY_VERSION, id @ ..]) => Ok(LogId(id)),
        Ok([version, ..]) => Err(format!("log id of format {version}, known is 1")),
        Err(_) => Err(format!("log id of {} bytes, expected 17", value.len())),
    }
}

fn encode_epoch(epoch: u32, nonce: u64) -> [u8; EPOCH_VALUE_BYTES] {
    let mut out = [IDENTITY_VERSION; EPOCH_VALUE_BYTES];
    out[1..5].copy_from_slice(&epoch.to_be_bytes());
    out[5..].copy_from_slice(&nonce.to_be_bytes());
    out
}

fn decode_epoch(value: &[u8]) -> Result<u32, String> {
    match <[u8; EPOCH_VALUE_BYTES]>::try_from(value) {
        Ok([IDENTITY_VERSION, a, b, c, d, ..]) => Ok(u32::from_be_bytes([a, b, c, d])),
        Ok([version, ..]) => Err(format!("epoch of format {version}, known is 1")),
        Err(_) => Err(format!("epoch of {} bytes, expected 13", value.len())),
    }
}

fn stored(key: &[u8], bytes: &[u8]) -> Result<StoredBlock, StoreError> {
    let parsed = BlockKey::from_bytes(key).ok_or_else(|| StoreError {
        doing: "read",
        said: format!("a block key of {} bytes", key.len()),
        no_space: false,
    })?;
    Ok(StoredBlock {
        key: parsed,
        bytes: bytes.to_vec(),
    })
}

impl Store for LogStore {
    fn append(&mut self, batch: &WriteBatch) -> Result<(), StoreError> {
        batch.check();
        let keys: Vec<_> = batch.blocks.iter().map(|b| b.key.to_bytes()).collect();
        let blocks = batch.blocks.iter().zip(&keys).map(|(block, key)| Write {
            tree: BLOCKS,
            key,
            value: Some(&block.bytes),
            must_be_new: false,
        });
        let meta = batch.meta.iter().map(|(key, value)| Write {
            tree: META,
            key,
            value: Some(value),
            must_be_new: false,
        });
        self.db.write(&blocks.chain(meta).collect::<Vec<_>>())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.db.sync()
    }

    fn read(
        &self,
        at: TopicPartition,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<StoredBlock>, StoreError> {
        let key = |base, chunk| BlockKey { at, base, chunk }.to_bytes();
        let before = self.db.last(
            BLOCKS,
            Bound::Included(&key(Offset(0), 0)),
            Bound::Included(&key(from, u16::MAX)),
        )?;
        let first = match before {
            Some((found, bytes)) => stored(&found, &bytes)?.key.base,
            None => from,
        };
        let mut out: Vec<Result<StoredBlock, StoreError>> = Vec::new();
        let mut sum = 0;
        self.db.scan(
            BLOCKS,
            Bound::Included(&key(first, 0)),
            Bound::Included(&key(Offset(u64::MAX), u16::MAX)),
            |key, bytes| {
                sum += bytes.len();
                let fits = out.is_empty() || sum <= bytes_max;
                if fits {
                    out.push(stored(key, bytes));
                }
                fits
            },
        )?;
        out.into_iter().collect()
    }

    fn remove(&mut self, _: &[SegmentId]) -> Result<(), StoreError> {
        Ok(())
    }

    fn poll_event(&mut self) -> Option<StoreEvent> {
        None
    }

    fn meta(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.db.get(META, key)
    }

    fn meta_with_prefix(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        let mut out = Vec::new();
        self.db.scan_prefix(META, prefix, |key, value| {
            out.push((key.to_vec(), value.to_vec()));
            true
        })?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::store::META_RESERVED_PREFIX;
    use forebay_core::units::{PartitionId, TopicId};

    use super::*;

    #[test]
    fn generation_names_parse_back_and_others_do_not() {
        for (name, want) in [
            ("g-00000001", Some(1)),
            ("g-99999999", Some(99_999_999)),
            ("g-1", None),
            ("g-00000001.creating", None),
            ("g-+0000001", None),
            ("quarantine-g-00000001", None),
        ] {
            assert_eq!(generation_number(name), want, "{name}");
        }
    }

    #[test]
    fn a_shorter_log_is_a_loss() {
        let key = |partition, base, chunk| BlockKey {
            at: TopicPartition {
                topic: TopicId(1),
                partition: PartitionId(partition),
            },
            base: Offset(base),
            chunk,
        };
        let lost = |had: &[BlockKey], has: &[BlockKey]| {
            let losses = losses(had, has).into_iter();
            let short = losses.map(|loss| (loss.at.partition.0, loss.has.map(|base| base.0)));
            short.collect::<Vec<_>>()
        };
        for (name, had, has, want) in [
            ("equal", vec![key(0, 5, 0)], vec![key(0, 5, 0)], vec![]),
            (
                "grown",
                vec![key(0, 5, 0)],
                vec![key(0, 6, 0), key(1, 0, 0)],
                vec![],
            ),
            (
                "shorter",
                vec![key(0, 5, 0), key(1, 7, 0)],
                vec![key(0, 5, 0), key(1, 6, 0)],
                vec![(1, Some(6))],
            ),
            (
                "a part",
                vec![key(0, 5, 2)],
                vec![key(0, 5, 1)],
                vec![(0, Some(5))],
            ),
            ("empty", vec![key(0, 5, 0)], vec![], vec![(0, None)]),
        ] {
            assert_eq!(lost(&had, &has), want, "{name}");
        }
    }

    #[test]
    fn identity_values_decode_or_say_why() {
        let id = LogId([9; 16]);
        assert_eq!(decode_log_id(&encode_log_id(id)), Ok(id));
        assert_eq!(decode_epoch(&encode_epoch(7, u64::MAX)), Ok(7));
        for bytes in [
            &[][..],
            &[1; 12],
            &[1; 14],
            &[1; 16],
            &[1; 18],
            &[2; 13],
            &[2; 17],
        ] {
            assert!(decode_log_id(bytes).is_err());
            assert!(decode_epoch(bytes).is_err());
        }
        assert!(LOG_ID_KEY.starts_with(META_RESERVED_PREFIX));
        assert!(EPOCH_KEY.starts_with(META_RESERVED_PREFIX));
    }
}
