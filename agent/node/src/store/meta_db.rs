//! The meta database: small facts beside the log, in a sled database of its own.
//!
//! Holds always: an entry is written only after the blocks that it speaks of are
//! synced. Losing this database costs duplicates and replay, never data: what does
//! not open goes to quarantine and an empty one takes its place.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_core::limits::OPENINGS_KEPT_MAX;
use forebay_core::log::key::TopicPartition;
use forebay_core::store::{Loss, Opening, StoreError, StoreInfo};
use forebay_core::units::{Epoch, LogId, Offset, PartitionId, TopicId};

use super::names::quarantine;
use super::sled_db::{Entry, SledDb};
use super::{OpenError, fault};

const TREE: usize = 0;
const TREES: [&str; 1] = ["meta"];

/// Keys of the store's own; byte tables in `agent/node/docs/store.md`.
const LOG_ID_KEY: &[u8] = b"store.log_id";
const EPOCH_KEY: &[u8] = b"store.epoch";
const OPENINGS_KEY: &[u8] = b"store.openings";
const LOSS_PREFIX: &[u8] = b"store.loss/";
const KEPT_PREFIX: &[u8] = b"store.kept/";
const VERSION: u8 = 1;
/// Follows a loss's end when no opening has told it yet.
const UNTOLD: u8 = 1;
const LOG_ID_VALUE_BYTES: usize = 1 + 16;
const EPOCH_VALUE_BYTES: usize = 1 + 4 + 8;

/// Losses that are noted: where each begins, to its end.
pub(super) type Told = BTreeMap<(TopicPartition, Offset), Offset>;

/// Whether all of `loss` is noted.
pub(super) fn covers(told: &Told, loss: &Loss) -> bool {
    let before = told.range(..=(loss.at, loss.first)).next_back();
    before.is_some_and(|((at, _), end)| *at == loss.at && *end >= loss.end)
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct MetaDb {
    /// `None` while it cannot be opened again after a failure.
    db: Option<SledDb>,
}

impl MetaDb {
    /// Opens `<data_dir>/meta`, creating it when it is not there. The second is true
    /// when what stood there could not be read.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn open(
        data_dir: &Path,
        notes: &mut Vec<String>,
    ) -> Result<(Self, bool), OpenError> {
        let dir = data_dir.join("meta");
        let is_new = !dir.exists();
        let said = match SledDb::open(&dir, &TREES) {
            Ok(db) => {
                let meta = Self { db: Some(db) };
                if is_new || meta.identity().0.is_some() {
                    return Ok((meta, is_new));
                }
                // sled gives an empty database for a damaged one, without a word, and
                // would drop what is written to it as well.
                String::from("it shows nothing of what was written to it")
            }
            Err(OpenError::Damaged { said, .. }) => said,
            Err(error) => return Err(error),
        };
        let moved = quarantine(data_dir, &dir)
            .map_err(|error| OpenError::system(&dir, "move to quarantine", &error))?;
        notes.push(format!(
            "the meta database did not open ({said}); it stands in {} now. Nothing of the log \
             is lost; some of it may be computed and sent again",
            moved.display()
        ));
        let db = SledDb::open(&dir, &TREES)?;
        Ok((Self { db: Some(db) }, true))
    }

    /// Opens a copy of the database, to look into it.
    ///
    /// # Errors
    /// When it does not open.
    pub(super) fn open_copy(dir: &Path) -> Result<Self, OpenError> {
        let db = SledDb::open(dir, &TREES)?;
        Ok(Self { db: Some(db) })
    }

    /// Writes entries, all or none, and syncs them; an empty value removes its key.
    ///
    /// # Errors
    /// When it cannot.
    pub(super) fn write<'a>(
        &mut self,
        entries: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), StoreError> {
        let db = self.db.as_mut().ok_or_else(closed)?;
        db.set_all(TREE, entries)?;
        fault::point("sync.meta-written");
        db.sync()?;
        fault::point("sync.meta-synced");
        Ok(())
    }

    /// Whether it takes no writes until it is opened again.
    pub(super) fn has_failed(&self) -> bool {
        self.db.as_ref().is_none_or(SledDb::has_failed)
    }

    /// Opens it again after a failure.
    ///
    /// # Errors
    /// When it cannot; it then is as it was.
    pub(super) fn reopen(
        &mut self,
        data_dir: &Path,
        notes: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        // Closed first: it holds a lock on its file.
        self.db = None;
        let opened = Self::open(data_dir, notes);
        let (meta, _) = opened.map_err(|error| StoreError {
            doing: "open the meta database",
            no_space: matches!(error, OpenError::System { no_space: true, .. }),
            said: error.to_string(),
        })?;
        *self = meta;
        Ok(())
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.db.as_ref().ok_or_else(closed)?.get(TREE, key)
    }

    pub(super) fn with_prefix(&self, prefix: &[u8]) -> Result<Vec<Entry>, StoreError> {
        let mut out = Vec::new();
        let db = self.db.as_ref().ok_or_else(closed)?;
        db.scan_prefix(TREE, prefix, |key, value| {
            out.push((key.to_vec(), value.to_vec()));
            true
        })?;
        Ok(out)
    }

    /// The log id and the highest epoch that stand here; what does not read counts
    /// as absent.
    pub(super) fn identity(&self) -> (Option<LogId>, Option<Epoch>) {
        let read = |key| self.get(key).ok().flatten();
        let log_id = read(LOG_ID_KEY).and_then(|value| decode_log_id(&value));
        let epoch = read(EPOCH_KEY).and_then(|value| decode_epoch(&value));
        (log_id, epoch)
    }

    /// The last openings, oldest first: none where they do not read.
    pub(super) fn openings(&self) -> Vec<Opening> {
        let value = self.get(OPENINGS_KEY).ok().flatten();
        value
            .and_then(|value| decode_openings(&value))
            .unwrap_or_default()
    }

    /// Writes what identifies this opening, and losses that were found at it: as such
    /// that nobody was told of, until [`told`] is written too.
    ///
    /// # Errors
    /// When it cannot.
    pub(super) fn write_identity(
        &mut self,
        info: StoreInfo,
        losses: &[Loss],
    ) -> Result<(), StoreError> {
        let mut openings = self.openings();
        openings.retain(|opening| opening.epoch < info.epoch);
        openings.push(info.opening());
        let oldest = openings.len().saturating_sub(OPENINGS_KEPT_MAX);
        let mut entries = vec![
            (OPENINGS_KEY.to_vec(), encode_openings(&openings[oldest..])),
            (LOG_ID_KEY.to_vec(), encode_log_id(info.log_id).to_vec()),
            (
                EPOCH_KEY.to_vec(),
                encode_epoch(info.epoch, info.nonce).to_vec(),
            ),
        ];
        entries.extend(losses.iter().map(|loss| {
            let (key, mut value) = told(loss);
            value.push(UNTOLD);
            (key, value)
        }));
        self.write(entries.iter().map(|(k, v)| (k.as_slice(), v.as_slice())))
    }

    /// Losses that were found at earlier openings, by their first offset.
    pub(super) fn known_losses(&self) -> Told {
        self.losses(decode_offset)
    }

    /// The same, with those that a repair found and the next opening is to tell.
    pub(super) fn all_losses(&self) -> Told {
        self.losses(|value| decode_offset(value.get(..8)?))
    }

    fn losses(&self, end: impl Fn(&[u8]) -> Option<Offset>) -> Told {
        let entries = self.with_prefix(LOSS_PREFIX).unwrap_or_default();
        let decoded = entries.iter().filter_map(|(key, value)| {
            let key = key.strip_prefix(LOSS_PREFIX)?;
            let (at, first) = key.split_at_checked(4)?;
            Some(((decode_at(at)?, decode_offset(first)?), end(value)?))
        });
        decoded.collect()
    }

    /// Notes losses that the next opening is to tell.
    ///
    /// # Errors
    /// When it cannot.
    pub(super) fn write_untold(&mut self, losses: &[Loss]) -> Result<(), StoreError> {
        let entries: Vec<_> = losses
            .iter()
            .map(|loss| {
                let value = [&loss.end.0.to_be_bytes()[..], &[UNTOLD]].concat();
                (loss_key(loss.at, loss.first), value)
            })
            .collect();
        self.write(entries.iter().map(|(k, v)| (k.as_slice(), v.as_slice())))
    }

    /// Below which offset retention has removed each partition.
    pub(super) fn kept(&self) -> BTreeMap<TopicPartition, Offset> {
        let entries = self.with_prefix(KEPT_PREFIX).unwrap_or_default();
        let decoded = entries.iter().filter_map(|(key, value)| {
            Some((
                decode_at(key.strip_prefix(KEPT_PREFIX)?)?,
                decode_offset(value)?,
            ))
        });
        decoded.collect()
    }

    /// Notes below which offsets retention removes partitions.
    ///
    /// # Errors
    /// When it cannot.
    pub(super) fn write_kept(
        &mut self,
        kept: &BTreeMap<TopicPartition, Offset>,
    ) -> Result<(), StoreError> {
        let entries: Vec<_> = kept
            .iter()
            .map(|(at, offset)| {
                let key = [KEPT_PREFIX, &encode_at(*at)].concat();
                (key, offset.0.to_be_bytes())
            })
            .collect();
        self.write(entries.iter().map(|(k, v)| (k.as_slice(), v.as_slice())))
    }
}

/// The entry of a loss that somebody was told of.
pub(super) fn told(loss: &Loss) -> (Vec<u8>, Vec<u8>) {
    let key = loss_key(loss.at, loss.first);
    (key, loss.end.0.to_be_bytes().to_vec())
}

fn closed() -> StoreError {
    StoreError {
        doing: "use the meta database",
        said: "it is not open".to_owned(),
        no_space: false,
    }
}

fn loss_key(at: TopicPartition, first: Offset) -> Vec<u8> {
    [LOSS_PREFIX, &encode_at(at), &first.0.to_be_bytes()].concat()
}

fn encode_at(at: TopicPartition) -> [u8; 4] {
    let [a, b] = at.topic.0.to_be_bytes();
    let [c, d] = at.partition.0.to_be_bytes();
    [a, b, c, d]
}

fn decode_at(bytes: &[u8]) -> Option<TopicPartition> {
    let [a, b, c, d] = bytes.try_into().ok()?;
    Some(TopicPartition {
        topic: TopicId(u16::from_be_bytes([a, b])),
        partition: PartitionId(u16::from_be_bytes([c, d])),
    })
}

fn decode_offset(bytes: &[u8]) -> Option<Offset> {
    Some(Offset(u64::from_be_bytes(bytes.try_into().ok()?)))
}

fn encode_log_id(id: LogId) -> [u8; LOG_ID_VALUE_BYTES] {
    let mut out = [VERSION; LOG_ID_VALUE_BYTES];
    out[1..].copy_from_slice(&id.0);
    out
}

fn decode_log_id(value: &[u8]) -> Option<LogId> {
    match <[u8; LOG_ID_VALUE_BYTES]>::try_from(value).ok()? {
        [VERSION, id @ ..] => Some(LogId(id)),
        [_, ..] => None,
    }
}

fn encode_openings(openings: &[Opening]) -> Vec<u8> {
    let mut out = vec![VERSION];
    for opening in openings {
        out.extend_from_slice(&opening.epoch.0.to_be_bytes());
        out.extend_from_slice(&opening.nonce.to_be_bytes());
    }
    out
}

fn decode_openings(value: &[u8]) -> Option<Vec<Opening>> {
    let (openings, []) = value.strip_prefix(&[VERSION])?.as_chunks::<12>() else {
        return None;
    };
    let decode = |bytes: &[u8; 12]| {
        let (epoch, nonce) = bytes.split_first_chunk::<4>()?;
        Some(Opening {
            epoch: Epoch(u32::from_be_bytes(*epoch)),
            nonce: u64::from_be_bytes(nonce.try_into().ok()?),
        })
    };
    openings.iter().map(decode).collect()
}

fn encode_epoch(epoch: Epoch, nonce: u64) -> [u8; EPOCH_VALUE_BYTES] {
    let mut out = [VERSION; EPOCH_VALUE_BYTES];
    out[1..5].copy_from_slice(&epoch.0.to_be_bytes());
    out[5..].copy_from_slice(&nonce.to_be_bytes());
    out
}

fn decode_epoch(value: &[u8]) -> Option<Epoch> {
    match <[u8; EPOCH_VALUE_BYTES]>::try_from(value).ok()? {
        [VERSION, a, b, c, d, ..] => Some(Epoch(u32::from_be_bytes([a, b, c, d]))),
        [_, ..] => None,
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::store::META_RESERVED_PREFIX;

    use super::*;

    const AT: TopicPartition = TopicPartition {
        topic: TopicId(16),
        partition: PartitionId(3),
    };

    #[test]
    fn values_decode_or_count_as_absent() {
        let id = LogId([9; 16]);
        assert_eq!(decode_log_id(&encode_log_id(id)), Some(id));
        assert_eq!(
            decode_epoch(&encode_epoch(Epoch(7), u64::MAX)),
            Some(Epoch(7))
        );
        for bytes in [
            &[][..],
            &[1; 12],
            &[1; 14],
            &[1; 16],
            &[1; 18],
            &[2; 13],
            &[2; 17],
        ] {
            assert_eq!(decode_log_id(bytes), None);
            assert_eq!(decode_epoch(bytes), None);
        }
        for key in [
            LOG_ID_KEY,
            EPOCH_KEY,
            OPENINGS_KEY,
            LOSS_PREFIX,
            KEPT_PREFIX,
        ] {
            assert!(key.starts_with(META_RESERVED_PREFIX));
        }
    }

    #[test]
    fn the_last_openings_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (mut meta, _) = MetaDb::open(dir.path(), &mut Vec::new()).unwrap();
        let most = OPENINGS_KEPT_MAX as u32;
        for epoch in 1..=most + 1 {
            let info = StoreInfo {
                log_id: LogId([3; 16]),
                epoch: Epoch(epoch),
                nonce: u64::from(epoch) << 40,
            };
            meta.write_identity(info, &[]).unwrap();
            let openings = meta.openings();
            assert_eq!(openings.last(), Some(&info.opening()));
            assert_eq!(openings.len() as u32, epoch.min(most), "{epoch}");
        }
        assert_eq!(meta.openings()[0].epoch, Epoch(2));
        for bad in [&[][..], &[2], &[1, 0], &[1; 12]] {
            assert_eq!(decode_openings(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn identity_losses_and_what_is_kept_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut notes = Vec::new();
        let info = StoreInfo {
            log_id: LogId([3; 16]),
            epoch: Epoch(5),
            nonce: 1,
        };
        let loss = Loss {
            at: AT,
            first: Offset(7),
            end: Offset(9),
        };
        {
            let (mut meta, is_new) = MetaDb::open(dir.path(), &mut notes).unwrap();
            assert!(is_new);
            meta.write_identity(info, &[loss]).unwrap();
            meta.write_kept(&BTreeMap::from([(AT, Offset(4))])).unwrap();
        }
        let (mut meta, is_new) = MetaDb::open(dir.path(), &mut notes).unwrap();
        assert!(!is_new);
        assert_eq!(meta.identity(), (Some(info.log_id), Some(info.epoch)));
        let losses = BTreeMap::from([((AT, Offset(7)), Offset(9))]);
        assert_eq!(meta.known_losses(), BTreeMap::new(), "not told yet");
        assert_eq!(meta.all_losses(), losses);
        let (key, value) = told(&loss);
        meta.write([(&key[..], &value[..])].into_iter()).unwrap();
        assert_eq!(meta.known_losses(), losses);
        assert_eq!(meta.kept(), BTreeMap::from([(AT, Offset(4))]));
    }

    #[test]
    fn what_does_not_open_goes_to_quarantine() {
        let dir = tempfile::tempdir().unwrap();
        let mut notes = Vec::new();
        drop(MetaDb::open(dir.path(), &mut notes).unwrap());
        std::fs::remove_file(dir.path().join("meta/db")).unwrap();
        std::fs::create_dir(dir.path().join("meta/db")).unwrap();
        let (meta, is_new) = MetaDb::open(dir.path(), &mut notes).unwrap();
        assert!(is_new);
        assert_eq!(meta.identity(), (None, None));
        assert_eq!(notes.len(), 1, "{notes:?}");
        let kept = std::fs::read_dir(dir.path().join("quarantine")).unwrap();
        assert_eq!(kept.count(), 1);
    }
}
