//! The generations that are not sealed: the one that takes the writes, those that
//! wait for the sealing thread, and the one that is made in advance.
//!
//! Holds always: they are sealed in order; one is forgotten only when its segments
//! are given out. Bounds: UNSEALED_MAX wait, after that writing waits.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::limits::SEGMENT_BLOCKS_MAX;
use forebay_core::log::decode::decode_head;
use forebay_core::log::key::{BlockKey, TopicPartition};
use forebay_core::log::segment::SegmentInfo;
use forebay_core::store::{Loss, StoreError, StoredBlock, WriteBatch};
use forebay_core::units::{GenerationNo, Offset};

use super::identity::Identity;
use super::live::{Live, places_for};
use super::names::generation_name;
use super::reads::Readable;
use super::sealer::{Created, Done, SealInfo, Sealed, Sealer};
use super::sled_db::{io_error, wait_until_closed};
use super::unsealed::{RawSource, Source, Unsealed};
use super::{OpenError, fault, raw};

/// Generations that may wait to be sealed.
const UNSEALED_MAX: usize = 4;
/// More than so many wait: they are copied, not merged, to catch up.
const UNSEALED_MERGED_MAX: usize = 2;
/// Blocks that come faster are copied: merging takes about three times as long.
const MERGED_BYTES_PER_S_MAX: f64 = 8.0 * 1024.0 * 1024.0;
/// A database for the next one is made once this part of a generation is written; it takes
/// memory while it waits, so one that fills slowly has it made later.
const SPARE_SHARE: u64 = 8;
const SPARE_SHARE_SLOW: u64 = 2;
/// Memory that a generation may take until it is sealed when its memory grows by less than
/// this a second. Segments that come at this rate are many, but not small.
const SLOW_MEMORY_MAX: u64 = 3 * 1024 * 1024;
const SLOW_MEMORY_PER_S: f64 = 1024.0 * 1024.0;
/// Smaller blocks than this, in the mean, come slowly: their pages may be written anew.
const SMALL_BLOCK_BYTES: u64 = 1024;
/// What is less than this part of a generation is carried over at a start.
const CARRIED_SHARE: u64 = 4;
/// When to try again what could not be sealed.
const SEAL_AGAIN: Duration = Duration::from_secs(1);

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
pub(super) struct Generations {
    settings: StoreSettings,
    log_dir: PathBuf,
    /// `None` while writing is not possible.
    live: Option<Live>,
    /// Oldest first; the first is being sealed.
    unsealed: VecDeque<Unsealed>,
    sealing: bool,
    seal_again: Option<Instant>,
    spare: Spare,
    last: GenerationNo,
    /// One whose database was given up and is not read by position yet: its number,
    /// and the bytes of its blocks.
    given_up: Option<(GenerationNo, u64)>,
    sealer: Sealer,
    news: VecDeque<News>,
}

/// What became of a generation.
#[derive(Debug)]
pub(super) enum News {
    /// It is read from these segments now.
    Sealed(Vec<SegmentInfo>),
    /// A damaged one stands there now.
    Quarantined(PathBuf),
    /// So many blocks did not read when it was sealed; this is the first.
    Unread(BlockKey, usize),
}

/// A database for the next generation.
#[derive(Debug)]
enum Spare {
    None,
    Asked,
    Ready(Box<Live>),
}

impl Generations {
    /// Begins a generation, and has what was found sealed.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn start(
        settings: StoreSettings,
        info: SealInfo,
        (unsealed, last): (Vec<Unsealed>, GenerationNo),
    ) -> Result<Self, OpenError> {
        let log_dir = info.log_dir.clone();
        let sealer = Sealer::spawn(info)
            .map_err(|error| OpenError::system(&log_dir, "start a thread", &error))?;
        let mut out = Self {
            settings,
            log_dir,
            live: None,
            unsealed: unsealed.into(),
            sealing: false,
            seal_again: None,
            spare: Spare::None,
            last,
            given_up: None,
            sealer,
            news: VecDeque::new(),
        };
        let generation = out.next_generation();
        let places = places_for(settings.generation_bytes);
        let mut live = Live::create(&out.log_dir, generation, places)?;
        out.carry_over(&mut live)
            .map_err(|error| OpenError::System {
                path: out.log_dir.clone(),
                doing: error.doing,
                said: error.said,
                no_space: error.no_space,
            })?;
        out.live = Some(live);
        out.seal_next();
        Ok(out)
    }

    /// What an earlier opening wrote last is written again, when that is little: else
    /// many short runs would leave many small segments. A block that stands twice is
    /// one to whoever searches.
    fn carry_over(&mut self, live: &mut Live) -> Result<(), StoreError> {
        let little = self.settings.generation_bytes / CARRIED_SHARE;
        let Some(last) = self.unsealed.pop_back_if(|last| last.bytes <= little) else {
            return Ok(());
        };
        let mut blocks = Vec::new();
        last.source.for_each(|block| {
            blocks.push(block);
            Ok(())
        })?;
        live.insert(&blocks)?;
        live.sync()?;
        fault::point("carry.synced");
        self.sealer.clear(last);
        Ok(())
    }

    /// Ends the sealing thread: what it leaves undone is done at the next start.
    pub(super) fn stop_sealing(&mut self) {
        self.sealer.stop();
    }

    pub(super) fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Bytes on disk of what is not sealed, with the generation made in advance.
    pub(super) fn bytes(&self) -> u64 {
        let unsealed = self.unsealed.iter();
        let unsealed = unsealed.map(|unsealed| db_bytes(&unsealed.dir, unsealed.bytes));
        let live = self.live.as_ref();
        let live = live.map(|live| db_bytes(&self.dir_of(live.generation), live.bytes));
        let spare = match &self.spare {
            Spare::Ready(spare) => Some(db_bytes(&self.dir_of(spare.generation), 0)),
            Spare::None | Spare::Asked => None,
        };
        unsealed.chain(live).chain(spare).sum()
    }

    /// Writes blocks; durable after [`Generations::sync`].
    ///
    /// # Errors
    /// When the database fails, or none takes writes.
    pub(super) fn append(&mut self, blocks: &[StoredBlock]) -> Result<(), StoreError> {
        let live = self.live.as_mut().ok_or_else(not_writable)?;
        live.insert(blocks)?;
        fault::point("append.written");
        self.prepare_spare();
        Ok(())
    }

    /// Makes every write so far survive a power cut.
    ///
    /// # Errors
    /// When that cannot be said.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        let live = self.live.as_mut().ok_or_else(not_writable)?;
        live.sync()?;
        fault::point("sync.synced");
        Ok(())
    }

    /// Whether the batch belongs into a new generation.
    pub(super) fn is_full(&self, batch: &WriteBatch) -> bool {
        let bytes: usize = batch.blocks.iter().map(|block| block.bytes.len()).sum();
        self.live.as_ref().is_some_and(|live| {
            live.blocks() > 0
                && (live.bytes + bytes as u64 > self.settings.generation_bytes
                    || is_heavy(live, SLOW_MEMORY_MAX)
                    || live.blocks() + batch.blocks.len() > SEGMENT_BLOCKS_MAX)
        })
    }

    /// Whether the generation that takes the writes has taken them for long enough.
    pub(super) fn is_old(&self) -> bool {
        let age = self.settings.generation_age;
        let live = self.live.as_ref();
        live.is_some_and(|live| live.blocks() > 0 && live.since.elapsed() >= age)
    }

    /// Begins a new generation; what took the writes before waits to be sealed. All
    /// of it must be synced.
    ///
    /// # Errors
    /// When too many wait and cannot be sealed, or none can be begun.
    pub(super) fn roll(&mut self) -> Result<(), StoreError> {
        self.wait_until_fewer_than(UNSEALED_MAX)?;
        if let Some(live) = self.live.take() {
            self.unsealed.push_back(Unsealed {
                generation: live.generation,
                dir: self.dir_of(live.generation),
                damaged: false,
                bytes: live.bytes,
                merge: filled_slowly(&live),
                source: Source::Live(Arc::new(live)),
            });
        }
        self.begin()?;
        fault::point("append.rolled");
        self.seal_next();
        Ok(())
    }

    /// Waits until nothing but the newest generation is unsealed, and that is empty.
    ///
    /// # Errors
    /// When they cannot be sealed.
    pub(super) fn seal_all(&mut self) -> Result<(), StoreError> {
        if self.live.as_ref().is_some_and(|live| live.blocks() > 0) {
            self.roll()?;
        }
        self.wait_until_fewer_than(1)
    }

    fn wait_until_fewer_than(&mut self, count: usize) -> Result<(), StoreError> {
        while self.unsealed.len() >= count {
            self.seal_next();
            self.wait_for_sealer()?;
        }
        Ok(())
    }

    /// Makes the next generation the one that takes the writes.
    fn begin(&mut self) -> Result<(), StoreError> {
        if matches!(self.spare, Spare::Asked) {
            let created = self.sealer.wait_created().ok_or_else(thread_ended)?;
            self.on_created(created)?;
        }
        let mut live = match std::mem::replace(&mut self.spare, Spare::None) {
            Spare::Ready(live) => *live,
            Spare::None | Spare::Asked => {
                let generation = self.next_generation();
                let places = places_for(self.settings.generation_bytes);
                let created = Live::create(&self.log_dir, generation, places);
                created.map_err(|error| not_created(&error))?
            }
        };
        live.since = Instant::now();
        self.live = Some(live);
        Ok(())
    }

    fn next_generation(&mut self) -> GenerationNo {
        self.last = GenerationNo(self.last.0 + 1);
        self.last
    }

    fn dir_of(&self, generation: GenerationNo) -> PathBuf {
        self.log_dir.join(generation_name(generation))
    }

    /// Has the database of the next generation made before it is needed.
    fn prepare_spare(&mut self) {
        let whole = self.settings.generation_bytes;
        let Some(live) = &self.live else { return };
        if matches!(self.spare, Spare::None) && is_filling(live, whole) {
            let places = places_after(live, whole);
            let generation = self.next_generation();
            self.sealer.create(generation, places);
            self.spare = Spare::Asked;
        }
    }

    /// Starts sealing the oldest generation that waits.
    fn seal_next(&mut self) {
        if !self.sealing
            && let Some(oldest) = self.unsealed.front()
        {
            let merge = oldest.merge && self.unsealed.len() <= UNSEALED_MERGED_MAX;
            self.sealer.seal(oldest.clone(), merge);
            (self.sealing, self.seal_again) = (true, None);
        }
    }

    /// Says beside the data how far it reaches.
    pub(super) fn write_identity(&self, identity: Identity) {
        self.sealer.write_identity(identity);
    }

    /// Hears what the sealing thread has done, and tries again what it could not.
    ///
    /// # Errors
    /// The first thing that it could not do.
    pub(super) fn poll(&mut self) -> Result<(), StoreError> {
        if self.seal_again.is_some_and(|at| at <= Instant::now()) {
            self.seal_next();
        }
        while let Some(created) = self.sealer.poll_created() {
            self.on_created(created)?;
        }
        while let Some(done) = self.sealer.poll() {
            self.on_done(done)?;
        }
        Ok(())
    }

    fn on_created(&mut self, created: Created) -> Result<(), StoreError> {
        self.spare = Spare::None;
        self.spare = Spare::Ready(created.map_err(|error| not_created(&error))?);
        Ok(())
    }

    fn wait_for_sealer(&mut self) -> Result<(), StoreError> {
        let done = self.sealer.wait().ok_or_else(thread_ended)?;
        self.on_done(done)
    }

    fn on_done(&mut self, done: Done) -> Result<(), StoreError> {
        match done {
            Done::Sealed(generation, sealed) => {
                self.sealing = false;
                match sealed {
                    Ok(sealed) => self.on_sealed(generation, sealed),
                    Err(error) => {
                        self.seal_again = Some(Instant::now() + SEAL_AGAIN);
                        return Err(error);
                    }
                }
            }
            Done::Quarantined(place) => self.news.push_back(News::Quarantined(place)),
        }
        Ok(())
    }

    fn on_sealed(&mut self, generation: GenerationNo, sealed: Sealed) {
        let Sealed { infos, unread } = sealed;
        if let Some((first, count)) = unread {
            self.news.push_back(News::Unread(first, count));
        }
        let mut unsealed = self.unsealed.iter();
        let place = unsealed.position(|unsealed| unsealed.generation == generation);
        if let Some(mut sealed) = place.and_then(|place| self.unsealed.remove(place)) {
            sealed.damaged |= unread.is_some();
            self.sealer.clear(sealed);
        }
        self.news.push_back(News::Sealed(infos));
        self.seal_next();
    }

    /// Makes writing possible again after a failure: what was synced of the database
    /// that failed is read from its file, and a new one is begun. Gives what was
    /// synced and is not there.
    ///
    /// # Errors
    /// When it is not possible yet.
    pub(super) fn recover(
        &mut self,
        synced: &BTreeMap<TopicPartition, Offset>,
    ) -> Result<Vec<Loss>, StoreError> {
        let losses = self.close_failed(synced)?;
        if self.live.is_none() {
            self.wait_until_fewer_than(UNSEALED_MAX + 1)?;
            self.begin()?;
        }
        self.seal_next();
        Ok(losses)
    }

    fn close_failed(
        &mut self,
        synced: &BTreeMap<TopicPartition, Offset>,
    ) -> Result<Vec<Loss>, StoreError> {
        if let Some(live) = self.live.take_if(|live| live.has_failed()) {
            self.given_up = Some((live.generation, live.bytes));
            // Its own closing may fail or panic once more: nothing depends on it.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(live)));
        }
        let Some((generation, bytes)) = self.given_up else {
            return Ok(Vec::new());
        };
        let dir = self.dir_of(generation);
        // Only now: a database that closes still writes, also over what it holds free,
        // and what was found there before would not be there any more.
        let (source, losses) = wait_until_closed(&dir)
            .and_then(|()| read_synced(&dir.join("db"), synced))
            .map_err(|error| io_error("read what was written", &error))?;
        self.given_up = None;
        self.unsealed.push_back(Unsealed {
            generation,
            dir,
            source: Source::Raw(Arc::new(source)),
            damaged: false,
            bytes,
            merge: true,
        });
        fault::point("recover.closed");
        Ok(losses)
    }

    /// What is not sealed, oldest first, for readers beside the storage thread.
    pub(super) fn readable(&self) -> Vec<Readable> {
        let unsealed = self.unsealed.iter();
        let unsealed = unsealed.map(|unsealed| Readable::from(&unsealed.source));
        let live = self.live.as_ref();
        let live = live.map(|live| Readable::Blocks(live.shared()));
        unsealed.chain(live).collect()
    }

    /// Appends blocks of `at` from the one that holds `from`, or the first after it,
    /// on, while they fit.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn read(
        &self,
        at: TopicPartition,
        from: Offset,
        bytes_max: usize,
        out: &mut Vec<StoredBlock>,
    ) -> Result<(), StoreError> {
        if let Some((generation, _)) = self.given_up {
            return Err(StoreError {
                doing: "read",
                said: format!("generation {} cannot be read yet", generation.0),
                no_space: false,
            });
        }
        // One may begin with what the one before ends with: it is read once.
        let next = |out: &[StoredBlock]| {
            let last = out.last().and_then(|b| decode_head(b.key, &b.bytes).ok());
            last.map_or(from, |head| head.end().max(from))
        };
        for unsealed in &self.unsealed {
            if unsealed.source.read(at, next(out), bytes_max, out)? {
                return Ok(());
            }
        }
        if let Some(live) = &self.live {
            live.read(at, next(out), bytes_max, out)?;
        }
        Ok(())
    }
}

/// What of a database's file was synced, and what of that is not there.
fn read_synced(
    path: &Path,
    synced: &BTreeMap<TopicPartition, Offset>,
) -> std::io::Result<(RawSource, Vec<Loss>)> {
    let mut blocks = Vec::new();
    raw::search(path, |block| blocks.push(block))?;
    // What was not synced comes again, into the next generation.
    blocks.retain(|block| {
        let head = synced.get(&block.key.at);
        head.is_some_and(|head| block.head.end() <= *head)
    });
    let mut durable = synced.clone();
    durable.retain(|at, _| blocks.iter().any(|block| block.key.at == *at));
    let chosen = raw::choose(blocks, |_| None, &durable);
    let files = Arc::new(vec![std::fs::File::open(path)?]);
    let blocks = chosen.blocks;
    Ok((RawSource { files, blocks }, chosen.losses))
}

/// Length of a generation's database, which is made longer in steps; `else_bytes`
/// when the system does not say.
fn db_bytes(dir: &Path, else_bytes: u64) -> u64 {
    let length = std::fs::metadata(dir.join("db")).map(|file| file.len());
    length.unwrap_or(else_bytes)
}

/// Whether so much of a generation is written that the next one is to be made.
fn is_filling(live: &Live, whole_bytes: u64) -> bool {
    let share = match filled_slowly(live) {
        true => SPARE_SHARE_SLOW,
        false => SPARE_SHARE,
    };
    live.bytes > whole_bytes / share || is_heavy(live, SLOW_MEMORY_MAX / share)
}

/// Whether it takes more memory than `most` and came to that slowly: there is time to seal it
/// early. Where readings are few, blocks are small, and each takes several times its bytes.
fn is_heavy(live: &Live, most: u64) -> bool {
    is_slow_and_large(live.memory_bytes(), live.since.elapsed(), most)
}

fn is_slow_and_large(memory: u64, age: Duration, most: u64) -> bool {
    memory > most && (memory as f64) < SLOW_MEMORY_PER_S * age.as_secs_f64()
}

fn has_small_blocks(live: &Live) -> bool {
    live.bytes < SMALL_BLOCK_BYTES * live.blocks() as u64
}

/// Places for the generation after this one: none where blocks come small.
fn places_after(live: &Live, whole_bytes: u64) -> u64 {
    match has_small_blocks(live) {
        true => 0,
        false => places_for(whole_bytes),
    }
}

/// Whether its blocks came so slowly that there is time to merge them. Those that come
/// fast are full anyway.
fn filled_slowly(live: &Live) -> bool {
    let bytes_per_s = live.bytes as f64 / live.since.elapsed().as_secs_f64();
    bytes_per_s < MERGED_BYTES_PER_S_MAX
}

fn thread_ended() -> StoreError {
    StoreError {
        doing: "seal",
        said: "a thread of the store has ended".to_owned(),
        no_space: false,
    }
}

fn not_writable() -> StoreError {
    StoreError {
        doing: "append",
        said: "no generation takes writes".to_owned(),
        no_space: false,
    }
}

fn not_created(error: &OpenError) -> StoreError {
    StoreError {
        doing: "begin a generation",
        said: error.to_string(),
        no_space: matches!(error, OpenError::System { no_space: true, .. }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_sealed_early_when_it_is_large_and_came_slowly() {
        let most = SLOW_MEMORY_MAX;
        // At the rate that is no longer slow, it takes so long to be one byte too large.
        let at_rate = Duration::from_secs_f64((most + 1) as f64 / SLOW_MEMORY_PER_S);
        let hour = Duration::from_secs(3600);
        let tick = Duration::from_micros(1);
        for (name, memory, age, want) in [
            ("memory: limit - 1", most - 1, hour, false),
            ("memory: limit", most, hour, false),
            ("memory: limit + 1", most + 1, hour, true),
            ("rate: limit - 1", most + 1, at_rate + tick, true),
            ("rate: limit + 1", most + 1, at_rate - tick, false),
            ("at once", most + 1, Duration::ZERO, false),
        ] {
            assert_eq!(is_slow_and_large(memory, age, most), want, "{name}");
        }
    }
}
