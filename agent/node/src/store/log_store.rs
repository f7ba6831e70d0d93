//! The log on disk: a chain of generations. The newest takes the writes in sled; a
//! full one is sealed into segment files by a thread of its own.
//!
//! Holds always: the log id was drawn once, and every opening has a new epoch with
//! its own nonce, durable before the first append; offsets never go back, also when
//! what they named is lost. Meta entries are written after the blocks of their batch
//! are synced. One process at a time. Bounds: UNSEALED_MAX generations wait to be
//! sealed, after that writing waits.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_core::limits::SEGMENT_BLOCKS_MAX;
use forebay_core::log::decode::decode_head;
use forebay_core::log::key::TopicPartition;
use forebay_core::store::{
    Loss, SegmentId, SegmentInfo, Store, StoreError, StoreEvent, StoreInfo, StoreOpened,
    StoredBlock, WriteBatch,
};
use forebay_core::units::{Epoch, GenerationNo, LogId, Offset};

use super::ballast::{Ballast, free_bytes};
use super::catalog::Catalog;
use super::identity::Identity;
use super::meta_db::MetaDb;
use super::names::{generation_name, segment_name};
use super::opening::{self, Found, Live};
use super::sealer::{Done, SealInfo, Sealer, create_generation};
use super::sled_db::io_error;
use super::unsealed::{RawSource, Source, Unsealed, read_sled};
use super::{BLOCKS, DirLock, OpenError, fault, raw, sync_dir};

/// Generations that may wait to be sealed.
const UNSEALED_MAX: usize = 4;
/// More than so many wait: they are copied, not merged, to catch up.
const UNSEALED_MERGED_MAX: usize = 2;
/// How often the disk is looked at, and what failed in the background tried again.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Losses of blocks found while reading that are told once.
const TOLD_LOSSES_MAX: usize = 4096;

/// What an operator may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreSettings {
    /// Bytes of blocks after which a generation is sealed.
    pub generation_bytes: u64,
    /// Age after which it is sealed.
    pub generation_age: Duration,
    /// Bytes kept to be given up when the disk is full.
    pub ballast_bytes: u64,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            generation_bytes: 16 * 1024 * 1024,
            generation_age: Duration::from_secs(6 * 3600),
            ballast_bytes: 8 * 1024 * 1024,
        }
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct LogStore {
    settings: StoreSettings,
    data_dir: PathBuf,
    log_dir: PathBuf,
    info: StoreInfo,
    meta: MetaDb,
    /// Given with batches that are not synced yet.
    meta_waiting: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Reading keeps some indexes at hand.
    catalog: RefCell<Catalog>,
    /// Oldest first; the first is being sealed.
    unsealed: VecDeque<Unsealed>,
    sealing: bool,
    /// When to try again what could not be sealed.
    seal_again: Option<Instant>,
    /// `None` while writing is not possible.
    live: Option<Live>,
    spare: Spare,
    last_generation: GenerationNo,
    /// Offset after the last appended, and after the last synced record.
    heads: BTreeMap<TopicPartition, Offset>,
    synced: BTreeMap<TopicPartition, Offset>,
    sealer: Sealer,
    ballast: Ballast,
    looked: Option<Instant>,
    events: VecDeque<StoreEvent>,
    /// Damaged blocks that reading met.
    met: RefCell<Met>,
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

/// A database for the next generation, made in advance.
#[derive(Debug)]
enum Spare {
    None,
    Asked,
    Ready(GenerationNo, Box<super::SledDb>),
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
        let ballast = Ballast::new(data_dir, settings.ballast_bytes);
        if free_bytes(data_dir).is_some_and(|free| free < settings.ballast_bytes) {
            ballast.release();
        }
        let log_dir = data_dir.join("log");
        std::fs::create_dir_all(&log_dir)
            .and_then(|()| sync_dir(data_dir))
            .map_err(|e| OpenError::system(&log_dir, "create the directory", &e))?;
        let known = Identity::read(&log_dir)?;
        let mut notes = Vec::new();
        let (mut meta, meta_lost) = MetaDb::open(data_dir, &mut notes)?;
        // sled may give an empty database for a damaged one, without a word. One beside
        // no log at all is a new log, and nothing is lost.
        let meta_lost = meta_lost || meta.identity().0.is_none();
        let kept = (!meta_lost || known.is_none()).then(|| meta.kept());
        let mut found = opening::find(
            (data_dir, &log_dir),
            known.as_ref(),
            kept,
            opening::Access::Write,
        )?;
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
        let unwritten = |error: StoreError| OpenError::System {
            path: data_dir.to_owned(),
            doing: error.doing,
            said: error.said,
            no_space: error.no_space,
        };
        meta.write_identity(info, &losses).map_err(unwritten)?;
        fault::point("open.epoch");
        let sealer = Sealer::spawn(SealInfo {
            data_dir: data_dir.to_owned(),
            log_dir: log_dir.clone(),
            log_id: info.log_id,
            epoch: info.epoch,
        });
        let sealer =
            sealer.map_err(|error| OpenError::system(data_dir, "start a thread", &error))?;
        let opened = StoreOpened {
            info,
            heads: found.heads.clone(),
            segments: found.catalog.segments().cloned().collect(),
            losses,
            notes,
        };
        let mut store = Self {
            settings,
            data_dir: data_dir.to_owned(),
            log_dir,
            info,
            meta,
            meta_waiting: BTreeMap::new(),
            catalog: RefCell::new(found.catalog),
            unsealed: found.unsealed.into(),
            sealing: false,
            seal_again: None,
            live: found.live,
            spare: Spare::None,
            last_generation: found.last_generation,
            synced: found.heads.clone(),
            heads: found.heads,
            sealer,
            ballast,
            looked: None,
            events: VecDeque::new(),
            met: RefCell::default(),
            _lock: lock,
        };
        store.seal_next();
        if store.live.is_none() {
            store.begin_generation().map_err(unwritten)?;
        }
        Ok((store, opened))
    }

    #[must_use]
    pub fn info(&self) -> StoreInfo {
        self.info
    }

    /// Seals the generation that takes the writes, and waits until all are sealed.
    ///
    /// # Errors
    /// When the store cannot.
    pub fn seal_all(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        if self.live.as_ref().is_some_and(|live| live.blocks > 0) {
            self.roll()?;
        }
        while !self.unsealed.is_empty() {
            self.wait_for_sealer()?;
        }
        Ok(())
    }

    /// Begins a new generation; what took the writes before waits to be sealed.
    fn roll(&mut self) -> Result<(), StoreError> {
        self.sync_blocks()?;
        while self.unsealed.len() >= UNSEALED_MAX {
            self.wait_for_sealer()?;
        }
        if let Some(live) = self.live.take() {
            self.unsealed.push_back(Unsealed {
                generation: live.generation,
                dir: self.log_dir.join(generation_name(live.generation)),
                source: Source::Sled(std::sync::Arc::new(live.db)),
                damaged: false,
                bytes: live.bytes,
            });
        }
        self.begin_generation()?;
        fault::point("append.rolled");
        self.seal_next();
        Ok(())
    }

    /// Makes the next generation the one that takes the writes.
    fn begin_generation(&mut self) -> Result<(), StoreError> {
        while matches!(self.spare, Spare::Asked) {
            self.wait_for_sealer()?;
        }
        let (generation, db) = match std::mem::replace(&mut self.spare, Spare::None) {
            Spare::Ready(generation, db) => (generation, *db),
            Spare::None | Spare::Asked => {
                let generation = self.next_generation();
                let created = create_generation(&self.log_dir, generation);
                (generation, created.map_err(|error| self.uncreated(error))?)
            }
        };
        self.live = Some(Live::empty(generation, db));
        Ok(())
    }

    fn next_generation(&mut self) -> GenerationNo {
        self.last_generation = GenerationNo(self.last_generation.0 + 1);
        self.last_generation
    }

    fn uncreated(&self, error: OpenError) -> StoreError {
        let no_space = matches!(error, OpenError::System { no_space: true, .. });
        StoreError {
            doing: "begin a generation",
            said: error.to_string(),
            no_space,
        }
    }

    /// Starts sealing the oldest generation that waits.
    fn seal_next(&mut self) {
        if !self.sealing
            && let Some(oldest) = self.unsealed.front()
        {
            let merge = self.unsealed.len() <= UNSEALED_MERGED_MAX;
            self.sealer.seal(oldest.clone(), merge);
            (self.sealing, self.seal_again) = (true, None);
        }
    }

    fn wait_for_sealer(&mut self) -> Result<(), StoreError> {
        let ended = || StoreError {
            doing: "seal",
            said: "the sealing thread has ended".to_owned(),
            no_space: false,
        };
        self.seal_next();
        let done = self.sealer.wait().ok_or_else(ended)?;
        self.on_done(done)
    }

    fn on_done(&mut self, done: Done) -> Result<(), StoreError> {
        match done {
            Done::Sealed(generation, Ok(infos)) => {
                self.on_sealed(generation, infos);
                Ok(())
            }
            Done::Sealed(_, Err(error)) => {
                self.sealing = false;
                self.seal_again = Some(Instant::now() + LOOK_EVERY);
                Err(error)
            }
            Done::Created(generation, created) => {
                self.spare = Spare::None;
                let db = created.map_err(|error| self.uncreated(error))?;
                self.spare = Spare::Ready(generation, db);
                Ok(())
            }
            Done::Quarantined(place) => {
                let text = format!("what was damaged stands in {} now", place.display());
                self.events.push_back(StoreEvent::Note(text));
                Ok(())
            }
        }
    }

    fn on_sealed(&mut self, generation: GenerationNo, infos: Vec<SegmentInfo>) {
        self.sealing = false;
        for info in &infos {
            self.catalog.get_mut().add(info.clone());
        }
        if let Some(place) = self
            .unsealed
            .iter()
            .position(|u| u.generation == generation)
            && let Some(sealed) = self.unsealed.remove(place)
        {
            self.sealer.clear(sealed);
        }
        self.events.push_back(StoreEvent::Sealed(infos));
        self.sealer.write_identity(self.identity());
        self.seal_next();
    }

    fn identity(&self) -> Identity {
        Identity {
            log_id: self.info.log_id,
            epoch: self.info.epoch,
            heads: self.synced.clone(),
        }
    }

    fn sync_blocks(&mut self) -> Result<(), StoreError> {
        let live = self.live.as_mut().ok_or_else(not_writable)?;
        live.db.sync()?;
        fault::point("sync.synced");
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

    /// Whether the batch belongs into a new generation.
    fn is_full(&self, batch: &WriteBatch) -> bool {
        let Some(live) = &self.live else {
            return false;
        };
        let bytes: usize = batch.blocks.iter().map(|block| block.bytes.len()).sum();
        live.blocks > 0
            && (live.bytes + bytes as u64 > self.settings.generation_bytes
                || live.blocks + batch.blocks.len() > SEGMENT_BLOCKS_MAX
                || live.since.elapsed() >= self.settings.generation_age)
    }

    /// Has the database of the next generation made before it is needed.
    fn prepare_spare(&mut self) {
        let half_full = self
            .live
            .as_ref()
            .is_some_and(|live| live.bytes > self.settings.generation_bytes / 2);
        if half_full && matches!(self.spare, Spare::None) {
            let generation = self.next_generation();
            self.sealer.create(generation);
            self.spare = Spare::Asked;
        }
    }

    /// What is to be done now and then.
    fn look(&mut self) {
        while let Some(done) = self.sealer.poll() {
            if let Err(error) = self.on_done(done) {
                self.events.push_back(StoreEvent::Trouble(error));
            }
        }
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        if self.seal_again.is_some_and(|at| at <= Instant::now()) {
            self.seal_next();
        }
        let old = self.live.as_ref().is_some_and(|live| {
            live.blocks > 0 && live.since.elapsed() >= self.settings.generation_age
        });
        if old && let Err(error) = self.roll() {
            self.events.push_back(StoreEvent::Trouble(error));
        }
        if let Some(free_bytes) = free_bytes(&self.data_dir) {
            self.ballast.take(free_bytes);
            let unsealed = self.unsealed.iter().map(|unsealed| unsealed.bytes);
            let live = self.live.as_ref().map_or(0, |live| live.bytes);
            self.events.push_back(StoreEvent::Disk {
                free_bytes,
                live_bytes: unsealed.sum::<u64>() + live,
            });
        }
    }

    /// Gives up a database that failed: what was synced is read from its file.
    fn close_failed(&mut self) -> Result<(), StoreError> {
        let Some(live) = self.live.as_ref().filter(|live| live.db.has_failed()) else {
            return Ok(());
        };
        let dir = self.log_dir.join(generation_name(live.generation));
        let mut blocks = Vec::new();
        let path = dir.join("db");
        let file = raw::search(&path, |block| blocks.push(block))
            .and_then(|()| std::fs::File::open(&path))
            .map_err(|error| io_error("read what was written", &error))?;
        // What was not synced comes again, into the next generation.
        let synced = &self.synced;
        blocks.retain(|block| {
            synced
                .get(&block.key.at)
                .is_some_and(|head| block.head.end() <= *head)
        });
        let chosen = raw::choose(blocks, |_| None, &BTreeMap::new());
        let (generation, bytes) = (live.generation, live.bytes);
        let live = self.live.take();
        // Its own closing may fail or panic once more: nothing depends on it.
        let closed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(live)));
        drop(closed);
        self.unsealed.push_back(Unsealed {
            generation,
            dir,
            source: Source::Raw(std::sync::Arc::new(RawSource {
                files: vec![file],
                blocks: chosen.blocks,
            })),
            damaged: false,
            bytes,
        });
        fault::point("recover.closed");
        Ok(())
    }
}

fn not_writable() -> StoreError {
    StoreError {
        doing: "append",
        said: "no generation takes writes".to_owned(),
        no_space: false,
    }
}

impl Drop for LogStore {
    /// A clean close says how far the log reached. When it cannot, the next opening
    /// knows less, and nothing is lost.
    fn drop(&mut self) {
        if self.sync().is_ok() {
            let _ = self.identity().write(&self.log_dir);
        }
    }
}

impl Store for LogStore {
    fn append(&mut self, batch: &WriteBatch) -> Result<(), StoreError> {
        batch.check();
        if self.is_full(batch) {
            self.roll()?;
        }
        let live = self.live.as_mut().ok_or_else(not_writable)?;
        let keys: Vec<_> = batch.blocks.iter().map(|b| b.key.to_bytes()).collect();
        let entries = batch.blocks.iter().zip(&keys);
        let entries = entries.map(|(block, key)| (key.as_slice(), block.bytes.as_slice()));
        live.db.insert_all(BLOCKS, entries)?;
        fault::point("append.written");
        for block in &batch.blocks {
            live.blocks += 1;
            live.bytes += block.bytes.len() as u64;
            if let Ok(head) = decode_head(block.key, &block.bytes) {
                self.heads.insert(block.key.at, head.end());
            }
        }
        self.meta_waiting.extend(batch.meta.iter().cloned());
        self.prepare_spare();
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
        self.close_failed()?;
        let mut notes = Vec::new();
        if self.meta.has_failed() {
            self.meta.reopen(&self.data_dir, &mut notes)?;
        }
        self.events.extend(notes.into_iter().map(StoreEvent::Note));
        while self.unsealed.len() > UNSEALED_MAX {
            self.wait_for_sealer()?;
        }
        if self.live.is_none() {
            self.begin_generation()?;
        }
        self.seal_next();
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
        let mut more = read.map_err(|error| io_error("read", &error))?;
        for unsealed in &self.unsealed {
            if more {
                return Ok(out);
            }
            more = unsealed.source.read(at, from, bytes_max, &mut out)?;
        }
        if let Some(live) = self.live.as_ref().filter(|_| !more) {
            read_sled(&live.db, at, from, bytes_max, &mut out)?;
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
            super::names::remove_all(&path).map_err(|error| io_error("remove", &error))?;
            self.catalog.get_mut().remove(*id);
            fault::point("remove.unlinked");
        }
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
        match self.meta_waiting.get(key) {
            Some(value) => Ok(Some(value.clone())),
            None => self.meta.get(key),
        }
    }

    fn meta_with_prefix(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        let mut out: BTreeMap<_, _> = self.meta.with_prefix(prefix)?.into_iter().collect();
        let waiting = self.meta_waiting.iter();
        let waiting = waiting.filter(|(key, _)| key.starts_with(prefix));
        out.extend(waiting.map(|(key, value)| (key.clone(), value.clone())));
        Ok(out.into_iter().collect())
    }
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
    let is_known = |loss: &Loss| {
        let before = known.range(..=(loss.at, loss.first)).next_back();
        before.is_some_and(|((at, _), end)| *at == loss.at && *end >= loss.end)
    };
    let mut news: Vec<_> = losses.into_iter().filter(|loss| !is_known(loss)).collect();
    news.sort_unstable();
    news
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut out = [0; N];
    getrandom::fill(&mut out).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(out)
}
