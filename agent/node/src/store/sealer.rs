//! The threads that make segments of generations, and databases for new ones, while
//! the storage thread goes on. Each does its jobs in order; they decide nothing.
//!
//! Holds always: a generation is removed only when all its segments are synced
//! under their names. Bound: one generation at a time each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use forebay_core::log::decode::decode_head;
use forebay_core::log::key::{BlockKey, StoredBlock};
use forebay_core::log::segment::{SegmentHead, SegmentId, SegmentInfo};
use forebay_core::store::StoreError;
use forebay_core::units::{Epoch, GenerationNo, LogId, TopicId};

use super::identity::Identity;
use super::live::Live;
use super::names::{REMOVING, now_utc, quarantine, remove_all, with_end};
use super::segment_file::SegmentWriter;
use super::sled_db::io_error;
use super::unsealed::Unsealed;
use super::{OpenError, fault, sync_dir};

/// What the sealing thread is asked.
#[derive(Debug)]
enum Job {
    /// Rewrite a generation as segments.
    Seal { unsealed: Unsealed, merge: bool },
    /// Remove a sealed generation, or move it to quarantine; the last use of it.
    Clear(Unsealed),
    /// Say beside the data how far it reaches.
    WriteIdentity(Identity),
}

/// What the sealing thread has done.
#[derive(Debug)]
pub(super) enum Done {
    Sealed(GenerationNo, Result<Sealed, StoreError>),
    /// A damaged generation stands there now.
    Quarantined(PathBuf),
}

/// A generation that was rewritten.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) infos: Vec<SegmentInfo>,
    /// The first block that did not read, and how many there were: they are left out.
    pub(super) unread: Option<(BlockKey, usize)>,
}

/// A database for a generation.
pub(super) type Created = Result<Box<Live>, OpenError>;

/// Handle of the threads. Dropping it ends them soon: what they leave undone is done
/// at the next start.
#[derive(Debug)]
pub(super) struct Sealer {
    stopping: Arc<AtomicBool>,
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    /// Generations to create, and the places of each.
    wanted: Option<Sender<(GenerationNo, u64)>>,
    created: Receiver<Created>,
    threads: Vec<JoinHandle<()>>,
}

/// What segments say of the log that they belong to.
#[derive(Debug, Clone)]
pub(super) struct SealInfo {
    pub(super) data_dir: PathBuf,
    pub(super) log_dir: PathBuf,
    pub(super) log_id: LogId,
    pub(super) epoch: Epoch,
}

impl Sealer {
    /// # Errors
    /// When the system has no threads to give.
    pub(super) fn spawn(info: SealInfo) -> std::io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let (wanted, to_create) = channel();
        let (answer, created) = channel();
        let log_dir = info.log_dir.clone();
        // Beside the other: making one takes some syncs, and whoever writes fast waits
        // for it.
        let creating = std::thread::Builder::new()
            .name("forebay-create".to_owned())
            .spawn(move || {
                for (generation, bytes) in to_create {
                    let made = Live::create(&log_dir, generation, bytes);
                    if answer.send(made.map(Box::new)).is_err() {
                        return;
                    }
                }
            })?;
        let stopped = Arc::clone(&stopping);
        let (jobs, asked) = channel();
        let (answer, done) = channel();
        let sealing = std::thread::Builder::new()
            .name("forebay-seal".to_owned())
            .spawn(move || {
                for job in asked {
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    if let Some(done) = info.work(job, &stopped)
                        && answer.send(done).is_err()
                    {
                        return;
                    }
                }
            })?;
        Ok(Self {
            stopping,
            jobs: Some(jobs),
            done,
            wanted: Some(wanted),
            created,
            threads: vec![creating, sealing],
        })
    }

    fn ask(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // An ended thread answers nothing; what waits is sealed at the next start.
            let _ = jobs.send(job);
        }
    }

    pub(super) fn seal(&self, unsealed: Unsealed, merge: bool) {
        self.ask(Job::Seal { unsealed, merge });
    }

    pub(super) fn clear(&self, unsealed: Unsealed) {
        self.ask(Job::Clear(unsealed));
    }

    pub(super) fn create(&self, generation: GenerationNo, generation_bytes: u64) {
        if let Some(wanted) = &self.wanted {
            let _ = wanted.send((generation, generation_bytes));
        }
    }

    /// A database that was asked for, when it is there.
    pub(super) fn poll_created(&self) -> Option<Created> {
        self.created.try_recv().ok()
    }

    /// Waits for it; `None` when the thread has ended.
    pub(super) fn wait_created(&self) -> Option<Created> {
        self.created.recv().ok()
    }

    pub(super) fn write_identity(&self, identity: Identity) {
        self.ask(Job::WriteIdentity(identity));
    }

    /// What was done, if anything was.
    pub(super) fn poll(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }

    /// Waits for the next thing done; `None` when the thread has ended.
    pub(super) fn wait(&self) -> Option<Done> {
        self.done.recv().ok()
    }
}

impl Sealer {
    /// Ends the threads; nothing is done after this.
    pub(super) fn stop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        (self.jobs, self.wanted) = (None, None);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Sealer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl SealInfo {
    fn work(&self, job: Job, stopped: &AtomicBool) -> Option<Done> {
        match job {
            Job::Seal { unsealed, merge } => {
                let generation = unsealed.generation;
                Some(Done::Sealed(
                    generation,
                    self.seal(&unsealed, merge, stopped),
                ))
            }
            Job::Clear(unsealed) => self.clear(unsealed),
            Job::WriteIdentity(identity) => {
                // An older one that stands there only knows less.
                let _ = identity.write(&self.log_dir);
                None
            }
        }
    }

    fn seal(
        &self,
        unsealed: &Unsealed,
        merge: bool,
        stopped: &AtomicBool,
    ) -> Result<Sealed, StoreError> {
        fault::point("seal.started");
        let mut unread = None;
        let mut topics = Topics {
            info: self,
            generation: unsealed.generation,
            merge,
            open: None,
            done: BTreeMap::new(),
        };
        unsealed.source.for_each(|block| {
            if stopped.load(Ordering::Relaxed) {
                return Err(std::io::Error::other("the store is closing"));
            }
            if decode_head(block.key, &block.bytes).is_err() {
                let (first, count) = unread.unwrap_or((block.key, 0));
                unread = Some((first, count + 1));
                return Ok(());
            }
            topics.push(block)
        })?;
        let sealed = topics.finish().and_then(|infos| {
            sync_dir(&self.log_dir)?;
            fault::point("seal.all-renamed");
            Ok(infos)
        });
        let infos = sealed.map_err(|error| io_error("seal", &error))?;
        fault::point("seal.done");
        Ok(Sealed { infos, unread })
    }

    /// What stands in `unsealed.dir` stands in segments too. When it cannot be
    /// removed now, the next start does it.
    fn clear(&self, unsealed: Unsealed) -> Option<Done> {
        let Unsealed {
            dir,
            source,
            damaged,
            ..
        } = unsealed;
        // Closes the database: its last writes end before its files go.
        drop(source);
        if damaged {
            return quarantine(&self.data_dir, &dir).ok().map(Done::Quarantined);
        }
        let removing = with_end(&dir, REMOVING);
        if std::fs::rename(&dir, &removing).is_ok() {
            fault::point("unseal.renamed");
            let _ = sync_dir(&self.log_dir).and_then(|()| remove_all(&removing));
            fault::point("unseal.removed");
        }
        None
    }
}

/// Blocks in key order become one segment per topic.
struct Topics<'a> {
    info: &'a SealInfo,
    generation: GenerationNo,
    merge: bool,
    open: Option<(TopicId, SegmentWriter)>,
    done: BTreeMap<TopicId, SegmentInfo>,
}

impl Topics<'_> {
    fn push(&mut self, block: StoredBlock) -> std::io::Result<()> {
        let topic = block.key.at.topic;
        if self.open.as_ref().is_none_or(|(open, _)| *open != topic) {
            self.close()?;
            let head = SegmentHead {
                log_id: self.info.log_id,
                id: SegmentId {
                    generation: self.generation,
                    topic,
                },
                sealed_at: now_utc(),
                epoch: self.info.epoch,
            };
            let writer = SegmentWriter::create(&self.info.log_dir, head, self.merge)?;
            self.open = Some((topic, writer));
        }
        match &mut self.open {
            Some((_, writer)) => writer.push(block),
            None => Ok(()),
        }
    }

    fn close(&mut self) -> std::io::Result<()> {
        if let Some((topic, writer)) = self.open.take() {
            self.done.insert(topic, writer.finish()?);
        }
        Ok(())
    }

    fn finish(mut self) -> std::io::Result<Vec<SegmentInfo>> {
        self.close()?;
        Ok(self.done.into_values().collect())
    }
}
