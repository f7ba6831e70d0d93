//! The log on disk: a chain of generations. The newest takes the writes in sled; a
//! full one is sealed into segment files by a thread of its own.
//!
//! Holds always: the log id was drawn once, and every opening has a new epoch with
//! its own nonce, durable before the first append; offsets never go back, also when
//! what they named is lost. Meta entries are written after the blocks of their batch
//! are synced. One process at a time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_core::log::decode::decode_head;
use forebay_core::log::key::TopicPartition;
use forebay_core::store::{
    Loss, SegmentId, Store, StoreError, StoreEvent, StoreInfo, StoreOpened, StoredBlock, WriteBatch,
};
use forebay_core::units::{Epoch, LogId, Offset};

use super::ballast::{Ballast, free_bytes, written_bytes};
use super::catalog::Catalog;
use super::generations::{Generations, News};
use super::identity::Identity;
use super::meta_db::{MetaDb, covers, told};
use super::names::{quarantined, remove_all, segment_name};
use super::opening::{self, Found};
use super::reads::{LogReads, View};
use super::sealer::SealInfo;
use super::sled_db::io_error;
use super::{DirLock, OpenError, StoreSettings, fault, sync_dir};

/// How often the disk is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Losses of blocks found while reading that are told once.
const TOLD_LOSSES_MAX: usize = 4096;

/// See the module's text.
#[derive(Debug)]
pub struct LogStore {
    data_dir: PathBuf,
    log_dir: PathBuf,
    info: StoreInfo,
    meta: MetaDb,
    /// Given with batches that are not synced yet.
    meta_waiting: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Reading keeps some indexes at hand.
    catalog: RefCell<Catalog>,
    generations: Generations,
    /// Offset after the last appended, and after the last synced record.
    heads: BTreeMap<TopicPartition, Offset>,
    synced: BTreeMap<TopicPartition, Offset>,
    ballast: Ballast,
    looked: Option<Instant>,
    /// Files that stood in quarantine when it was looked at last.
    set_aside: u64,
    /// The last seal failed, which was told.
    unsealable: bool,
    events: VecDeque<StoreEvent>,
    /// Damaged blocks that reading met.
    met: RefCell<Met>,
    reads: LogReads,
    _lock: DirLock,
}

/// Each is told once.
#[derive(Debug, Default)]
struct Met {
    told: BTreeSet<(TopicPartition, Offset)>,
    new: VecDeque<Loss>,
}

impl Met {
    fn note(&mut self, loss: Loss) {
        if self.told.len() < TOLD_LOSSES_MAX && self.told.insert((loss.at, loss.first)) {
            self.new.push_back(loss);
        }
    }
}

impl LogStore {
    /// Opens the log in `<data_dir>/log`, creating what is missing, as a new epoch.
    ///
    /// # Errors
    /// When another process holds it, the system refuses, the disk is full, or a
    /// newer version wrote it. Damage is no error: it is told in [`StoreOpened`].
    pub fn open(
        data_dir: &Path,
        settings: StoreSettings,
    ) -> Result<(Self, StoreOpened), OpenError> {
        let lock = DirLock::take(data_dir)?;
        fault::point("open.locked");
        let ballast = ballast(data_dir, settings.ballast_bytes);
        let log_dir = create_log_dir(data_dir)?;
        let known = Identity::read(&log_dir)?;
        let mut notes = Vec::new();
        let (mut meta, meta_lost) = MetaDb::open(data_dir, &mut notes)?;
        let kept = (!meta_lost).then(|| meta.kept());
        let (dirs, losses) = ((data_dir, &*log_dir), meta.all_losses());
        let access = opening::Access::Write;
        let mut found = opening::find(dirs, known.as_ref(), kept, losses, access)?;
        notes.append(&mut found.notes);
        let info = next_epoch(data_dir, &found, known.as_ref(), &meta)?;
        let losses = news(std::mem::take(&mut found.losses), &meta);
        fault::point("open.identity");
        // First beside the data: whatever that loses, this epoch is used up.
        Identity {
            log_id: info.log_id,
            epoch: info.epoch,
            heads: found.heads.clone(),
        }
        .write(&log_dir)?;
        note_opening(&mut meta, meta_lost.then_some(&found), info, &losses)
            .map_err(|error| OpenError::unwritten(data_dir, error))?;
        fault::point("open.epoch");
        let opened = StoreOpened {
            info,
            openings: meta.openings(),
            heads: found.heads.clone(),
            segments: found.catalog.segments().cloned().collect(),
            losses,
            notes,
        };
        let seal_info = SealInfo {
            data_dir: data_dir.to_owned(),
            log_dir: log_dir.clone(),
            log_id: info.log_id,
            epoch: info.epoch,
        };
        let unsealed = (found.unsealed, found.last_generation);
        let store = Self {
            data_dir: data_dir.to_owned(),
            log_dir: log_dir.clone(),
            info,
            meta,
            // With the first sync: who is told may be killed before that.
            meta_waiting: opened.losses.iter().map(told).collect(),
            catalog: RefCell::new(found.catalog),
            generations: Generations::start(settings, seal_info, unsealed)?,
            synced: found.heads.clone(),
            heads: found.heads,
            ballast,
            looked: None,
            set_aside: 0,
            unsealable: false,
            events: VecDeque::new(),
            met: RefCell::default(),
            reads: LogReads::new(&log_dir),
            _lock: lock,
        };
        store.show();
        Ok((store, opened))
    }

    /// The log for readers on other threads.
    #[must_use]
    pub fn reads(&self) -> LogReads {
        self.reads.clone()
    }

    /// Shows readers on other threads what there is now.
    fn show(&self) {
        self.reads.show(View {
            places: self.catalog.borrow().places(),
            unsealed: self.generations.readable(),
        });
    }

    #[must_use]
    pub fn info(&self) -> StoreInfo {
        self.info
    }

    /// Seals all that was written, and waits until that is done.
    ///
    /// # Errors
    /// When the store cannot.
    pub fn seal_all(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        let sealed = self.generations.seal_all();
        self.take_news();
        sealed
    }

    fn identity(&self) -> Identity {
        Identity {
            log_id: self.info.log_id,
            epoch: self.info.epoch,
            heads: self.synced.clone(),
        }
    }

    fn sync_blocks(&mut self) -> Result<(), StoreError> {
        self.generations.sync()?;
        self.synced.clone_from(&self.heads);
        Ok(())
    }

    fn sync_meta(&mut self) -> Result<(), StoreError> {
        if self.meta_waiting.is_empty() {
            return Ok(());
        }
        let entries = self.meta_waiting.iter();
        self.meta
            .write(entries.map(|(key, value)| (key.as_slice(), value.as_slice())))?;
        self.meta_waiting.clear();
        Ok(())
    }

    fn roll(&mut self) -> Result<(), StoreError> {
        self.sync_blocks()?;
        let rolled = self.generations.roll();
        self.take_news();
        self.show();
        rolled
    }

    /// What was sealed is read from its segments from now on.
    fn take_news(&mut self) {
        let mut is_new = false;
        while let Some(news) = self.generations.poll_news() {
            match news {
                News::Sealed(infos) => {
                    is_new = true;
                    for info in &infos {
                        self.catalog.get_mut().add(info.clone());
                    }
                    self.events.push_back(StoreEvent::Sealed(infos));
                    self.unsealable = false;
                    self.generations.write_identity(self.identity());
                }
                News::Unread(first, count) => {
                    let TopicPartition { topic, partition } = first.at;
                    let text = format!(
                        "{count} blocks did not read when they were to be sealed, the first at \
                         topic {}, partition {}, offset {}; `forebay log check` names all",
                        topic.0, partition.0, first.base.0
                    );
                    self.events.push_back(StoreEvent::Note(text));
                }
                News::Quarantined(place) => {
                    // It is counted at the next look, which is now.
                    self.looked = None;
                    let text = format!("what was damaged stands in {} now", place.display());
                    self.events.push_back(StoreEvent::Note(text));
                }
            }
        }
        if is_new {
            self.show();
        }
    }

    /// What is to be done now and then.
    fn look(&mut self) {
        let polled = self.generations.poll();
        self.take_news();
        if let Err(error) = polled
            && !std::mem::replace(&mut self.unsealable, true)
        {
            let text = format!("{error}; it is tried again each second");
            self.events.push_back(StoreEvent::Note(text));
        }
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        if self.generations.is_old() {
            // A failure shows, and is told, with the next write.
            let _ = self.roll();
        }
        if let Some(free_bytes) = free_bytes(&self.data_dir) {
            self.ballast.take(free_bytes);
            self.events.push_back(StoreEvent::Disk {
                free_bytes,
                live_bytes: self.generations.bytes(),
            });
        }
        let aside = quarantined(&self.data_dir);
        if std::mem::replace(&mut self.set_aside, aside) != aside {
            self.events.push_back(StoreEvent::SetAside(aside));
        }
        let written = written_bytes().map(StoreEvent::Written);
        self.events.extend(written);
    }
}

impl Drop for LogStore {
    /// A clean close says how far the log reached. When it cannot, the next opening
    /// knows less, and nothing is lost.
    fn drop(&mut self) {
        // It writes the same file.
        self.generations.stop_sealing();
        if self.sync().is_ok() {
            let _ = self.identity().write(&self.log_dir);
        }
    }
}

impl Store for LogStore {
    fn append(&mut self, batch: &WriteBatch) -> Result<(), StoreError> {
        batch.check();
        if self.generations.is_full(batch) {
            self.roll()?;
        }
        self.generations.append(&batch.blocks)?;
        for block in &batch.blocks {
            if let Ok(head) = decode_head(block.key, &block.bytes) {
                self.heads.insert(block.key.at, head.end());
            }
        }
        self.meta_waiting.extend(batch.meta.iter().cloned());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.sync_blocks()?;
        self.sync_meta()
    }

    fn recover(&mut self) -> Result<(), StoreError> {
        self.ballast.release();
        self.meta_waiting.clear();
        self.heads.clone_from(&self.synced);
        let mut notes = Vec::new();
        if self.meta.has_failed() {
            self.meta.reopen(&self.data_dir, &mut notes)?;
        }
        self.events.extend(notes.into_iter().map(StoreEvent::Note));
        let recovered = self.generations.recover(&self.synced);
        self.take_news();
        // What was given up stays readable as it was until it is read by position.
        if recovered.is_ok() {
            self.show();
        }
        let losses = recovered?.into_iter();
        self.events.extend(losses.map(StoreEvent::Lost));
        Ok(())
    }

    fn read(
        &self,
        at: TopicPartition,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<StoredBlock>, StoreError> {
        let mut out = Vec::new();
        let mut met = self.met.borrow_mut();
        let mut lost = |loss: Loss| met.note(loss);
        let mut catalog = self.catalog.borrow_mut();
        let read = catalog.read(at, from, bytes_max, &mut out, &mut lost);
        let more = read.map_err(|error| io_error("read", &error))?;
        if !more {
            self.generations.read(at, from, bytes_max, &mut out)?;
        }
        Ok(out)
    }

    fn remove(&mut self, segments: &[SegmentId]) -> Result<(), StoreError> {
        let catalog = self.catalog.get_mut();
        let known = segments.iter().filter_map(|id| catalog.get(*id));
        let mut kept: BTreeMap<TopicPartition, Offset> = BTreeMap::new();
        for info in known {
            for range in &info.ranges {
                let at = TopicPartition {
                    topic: info.id.topic,
                    partition: range.partition,
                };
                let below = kept.entry(at).or_insert(range.end);
                *below = (*below).max(range.end);
            }
        }
        // Noted first: a segment that is gone without a note would count as lost.
        self.meta.write_kept(&kept)?;
        fault::point("remove.noted");
        for id in segments {
            let path = self.log_dir.join(segment_name(*id));
            remove_all(&path).map_err(|error| io_error("remove", &error))?;
            self.catalog.get_mut().remove(*id);
            fault::point("remove.unlinked");
        }
        self.show();
        sync_dir(&self.log_dir).map_err(|error| io_error("remove", &error))?;
        self.events
            .push_back(StoreEvent::Removed(segments.to_vec()));
        // There is room now: what waited for it need not wait on.
        self.looked = None;
        Ok(())
    }

    fn poll_event(&mut self) -> Option<StoreEvent> {
        if self.events.is_empty() {
            self.look();
        }
        let met = self.met.get_mut();
        self.events
            .pop_front()
            .or_else(|| met.new.pop_front().map(StoreEvent::Lost))
    }

    fn meta(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = match self.meta_waiting.get(key) {
            Some(value) => Some(value.clone()),
            None => self.meta.get(key)?,
        };
        Ok(found.filter(|value| !value.is_empty()))
    }

    fn meta_with_prefix(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        let mut out: BTreeMap<_, _> = self.meta.with_prefix(prefix)?.into_iter().collect();
        let waiting = self.meta_waiting.iter();
        let waiting = waiting.filter(|(key, _)| key.starts_with(prefix));
        out.extend(waiting.map(|(key, value)| (key.clone(), value.clone())));
        // Those that older versions wrote are still there.
        out.retain(|_, value| !value.is_empty());
        Ok(out.into_iter().collect())
    }
}

/// The ballast, given up where the disk has less room than it takes.
fn ballast(data_dir: &Path, bytes: u64) -> Ballast {
    let ballast = Ballast::new(data_dir, bytes);
    if free_bytes(data_dir).is_some_and(|free| free < bytes) {
        ballast.release();
    }
    ballast
}

fn create_log_dir(data_dir: &Path) -> Result<PathBuf, OpenError> {
    let log_dir = data_dir.join("log");
    std::fs::create_dir_all(&log_dir)
        .and_then(|()| sync_dir(data_dir))
        .map_err(|e| OpenError::system(&log_dir, "create the directory", &e))?;
    Ok(log_dir)
}

/// Writes what identifies this opening; with what was found when meta has lost where
/// partitions begin.
fn note_opening(
    meta: &mut MetaDb,
    found: Option<&Found>,
    info: StoreInfo,
    losses: &[Loss],
) -> Result<(), StoreError> {
    if let Some(found) = found {
        // Before the identity: without that, the next opening comes here again.
        meta.write_kept(&found.starts())?;
    }
    meta.write_identity(info, losses)
}

/// The log id that is known or a new one, and an epoch above all that are known.
fn next_epoch(
    data_dir: &Path,
    found: &Found,
    known: Option<&Identity>,
    meta: &MetaDb,
) -> Result<StoreInfo, OpenError> {
    let damaged = |said: String| OpenError::Damaged {
        dir: data_dir.to_owned(),
        said,
    };
    let (meta_log_id, meta_epoch) = meta.identity();
    let log_id = match (found.log_id, meta_log_id) {
        (Some(log), Some(meta)) if log != meta => {
            return Err(damaged(format!(
                "its log is {log}, and its meta database is of {meta}"
            )));
        }
        (Some(log_id), _) | (None, Some(log_id)) => log_id,
        (None, None) => LogId(random().map_err(damaged)?),
    };
    let known = known.map(|known| known.epoch);
    let epoch = known.max(meta_epoch).max(found.epoch).unwrap_or(Epoch(0));
    let next = epoch.0.checked_add(1);
    Ok(StoreInfo {
        log_id,
        epoch: Epoch(next.ok_or_else(|| {
            damaged("it was opened 2^32 times: its epochs are used up".to_owned())
        })?),
        nonce: u64::from_be_bytes(random().map_err(damaged)?),
    })
}

/// Losses that no earlier opening has told.
fn news(losses: Vec<Loss>, meta: &MetaDb) -> Vec<Loss> {
    let known = meta.known_losses();
    let mut news: Vec<_> = losses
        .into_iter()
        .filter(|loss| !covers(&known, loss))
        .collect();
    news.sort_unstable();
    news
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut out = [0; N];
    getrandom::fill(&mut out).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(out)
}
