//! The one storage thread: takes requests in order, writes what waits together
//! with one sync, and answers only then.
//!
//! Always holds: a commit is answered `Committed` only after the sync that its
//! policy asks for; commits are applied in the order in which they were sent;
//! after the first failed write every later commit fails with that error, while
//! reads are still tried. Bounds: STORE_REQUESTS_MAX requests wait, COMMITS_PER_SYNC_MAX
//! share a sync. Knows no offsets and no clock: how long to linger is decided by
//! who sends.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use forebay_core::limits::{COMMITS_PER_SYNC_MAX, STORE_REQUESTS_MAX};
use forebay_core::log::key::TopicPartition;
use forebay_core::store::{Store, StoreError, StoredBlock, WriteBatch};
use forebay_core::units::Offset;

/// When a commit counts as done, and what a power cut can then cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// One sync per commit: nothing acked is lost.
    EveryBlock,
    /// One sync for all commits that wait: nothing acked is lost, acks are later.
    Group,
    /// No sync: a power cut or a kill can lose the last half second of what was acked.
    None,
}

/// What the storage thread is asked. `token` comes back in the answer.
#[derive(Debug)]
pub enum Request {
    Commit {
        token: u64,
        batch: WriteBatch,
    },
    Fetch {
        token: u64,
        at: TopicPartition,
        from: Offset,
        bytes_max: usize,
    },
    /// Ends the thread after all that was asked before.
    Stop,
}

/// What the storage thread says.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Committed {
        token: u64,
    },
    Fetched {
        token: u64,
        at: TopicPartition,
        blocks: Vec<StoredBlock>,
    },
    Failed {
        token: u64,
        error: StoreError,
    },
}

/// Why a request was not taken; it comes back with it.
#[derive(Debug)]
pub enum Refused {
    /// As many requests as may wait do wait.
    Full(Request),
    /// The thread has ended.
    Ended(Request),
}

/// Handle of the thread. Dropping it stops the thread after what was asked.
pub struct StorageThread {
    requests: SyncSender<Request>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for StorageThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageThread").finish_non_exhaustive()
    }
}

impl StorageThread {
    /// Starts the thread. `answer` is called on it and must not block for long.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn spawn(
        store: Box<dyn Store>,
        policy: SyncPolicy,
        answer: impl FnMut(Answer) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (requests, waiting) = sync_channel(STORE_REQUESTS_MAX);
        let mut worker = Worker {
            store,
            policy,
            answer: Box::new(answer),
            failed: None,
        };
        let thread = std::thread::Builder::new()
            .name("forebay-store".to_owned())
            .spawn(move || {
                worker.run(&waiting);
                // What policy `none` left unsynced survives at least a clean stop.
                // A failure was answered before, or concerns nothing promised.
                let _ = worker.store.sync();
            })?;
        Ok(Self {
            requests,
            thread: Some(thread),
        })
    }

    /// Hands a request over without waiting.
    ///
    /// # Errors
    /// When it cannot be taken now; it comes back.
    pub fn request(&self, request: Request) -> Result<(), Refused> {
        self.requests
            .try_send(request)
            .map_err(|error| match error {
                TrySendError::Full(request) => Refused::Full(request),
                TrySendError::Disconnected(request) => Refused::Ended(request),
            })
    }

    /// Waits until all that was asked is done and the store is closed.
    pub fn stop(mut self) {
        self.stop_and_join();
    }

    fn stop_and_join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Blocks while the channel is full; the thread empties it. An error
            // means that it has ended, which is what is wanted.
            let _ = self.requests.send(Request::Stop);
            let _ = thread.join();
        }
    }
}

impl Drop for StorageThread {
    fn drop(&mut self) {
        self.stop_and_join();
    }
}

struct Worker {
    store: Box<dyn Store>,
    policy: SyncPolicy,
    answer: Box<dyn FnMut(Answer) + Send>,
    failed: Option<StoreError>,
}

impl Worker {
    fn run(&mut self, waiting: &Receiver<Request>) {
        // A sender that went away without Stop ends the thread too.
        while let Ok(first) = waiting.recv() {
            let mut round = VecDeque::from([first]);
            while round.len() < COMMITS_PER_SYNC_MAX {
                match waiting.try_recv() {
                    Ok(next) => round.push_back(next),
                    Err(_) => break,
                }
            }
            if !self.round(round) {
                return;
            }
        }
    }

    /// Does what waits; false when asked to stop. Commits come first and share a
    /// sync: a fetch never shows a block before the sync of its round.
    fn round(&mut self, round: VecDeque<Request>) -> bool {
        let mut unsynced = Vec::new();
        let mut fetches = Vec::new();
        let mut go_on = true;
        for request in round {
            match request {
                Request::Commit { token, batch } => {
                    if self.append(token, &batch) {
                        unsynced.push(token);
                    }
                    if self.policy == SyncPolicy::EveryBlock {
                        self.finish(&mut unsynced);
                    }
                }
                Request::Fetch {
                    token,
                    at,
                    from,
                    bytes_max,
                } => fetches.push((token, at, from, bytes_max)),
                Request::Stop => {
                    go_on = false;
                    break;
                }
            }
        }
        self.finish(&mut unsynced);
        for (token, at, from, bytes_max) in fetches {
            let answer = match self.store.read(at, from, bytes_max) {
                Ok(blocks) => Answer::Fetched { token, at, blocks },
                Err(error) => Answer::Failed { token, error },
            };
            (self.answer)(answer);
        }
        go_on
    }

    fn append(&mut self, token: u64, batch: &WriteBatch) -> bool {
        let done = match &self.failed {
            Some(error) => Err(error.clone()),
            None => self.store.append(batch),
        };
        match done {
            Ok(()) => true,
            Err(error) => {
                self.failed.get_or_insert_with(|| error.clone());
                (self.answer)(Answer::Failed { token, error });
                false
            }
        }
    }

    /// Syncs as the policy says and answers the commits.
    fn finish(&mut self, unsynced: &mut Vec<u64>) {
        if unsynced.is_empty() {
            return;
        }
        let synced = match self.policy {
            SyncPolicy::None => Ok(()),
            SyncPolicy::EveryBlock | SyncPolicy::Group => self.store.sync(),
        };
        for token in unsynced.drain(..) {
            let answer = match &synced {
                Ok(()) => Answer::Committed { token },
                Err(error) => Answer::Failed {
                    token,
                    error: error.clone(),
                },
            };
            (self.answer)(answer);
        }
        if let Err(error) = synced {
            self.failed.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use forebay_core::log::key::BlockKey;
    use forebay_core::store::memory::{Faults, MemoryStore};
    use forebay_core::units::{LogId, PartitionId, TopicId};

    use super::*;

    const AT: TopicPartition = TopicPartition {
        topic: TopicId(1),
        partition: PartitionId(0),
    };

    fn commit(token: u64) -> Request {
        let key = BlockKey {
            at: AT,
            base: Offset(token),
            chunk: 0,
        };
        let bytes = vec![1; 8];
        Request::Commit {
            token,
            batch: WriteBatch {
                blocks: vec![StoredBlock { key, bytes }],
                meta: Vec::new(),
            },
        }
    }

    fn fetch(token: u64) -> Request {
        Request::Fetch {
            token,
            at: AT,
            from: Offset(0),
            bytes_max: usize::MAX,
        }
    }

    /// What one round of requests is answered, in short words.
    fn round(worker: &mut Worker, answers: &Receiver<Answer>, asked: Vec<Request>) -> Vec<String> {
        worker.round(asked.into());
        let short = |answer| match answer {
            Answer::Committed { token } => format!("done {token}"),
            Answer::Fetched { token, blocks, .. } => format!("fetched {token}: {}", blocks.len()),
            Answer::Failed { token, error } => format!("failed {token}: {}", error.doing),
        };
        answers.try_iter().map(short).collect()
    }

    fn worker(policy: SyncPolicy, faults: Faults) -> (Worker, Receiver<Answer>) {
        let mut store = MemoryStore::create(LogId([1; 16]), 1);
        store.set_faults(faults);
        let (answers, out) = channel();
        let worker = Worker {
            store: Box::new(store),
            policy,
            answer: Box::new(move |answer| answers.send(answer).unwrap()),
            failed: None,
        };
        (worker, out)
    }

    fn faults(append: Option<u64>, sync: Option<u64>) -> Faults {
        Faults {
            append,
            sync,
            no_space: false,
        }
    }

    #[test]
    fn policies_sync_as_often_as_they_say() {
        // The third sync fails: three commits in one round reach it only under
        // every_block, and two more rounds do under group.
        for (policy, first, third) in [
            (
                SyncPolicy::EveryBlock,
                ["done 0", "done 1", "failed 2: sync"],
                "failed 4: sync",
            ),
            (
                SyncPolicy::Group,
                ["done 0", "done 1", "done 2"],
                "failed 4: sync",
            ),
            (SyncPolicy::None, ["done 0", "done 1", "done 2"], "done 4"),
        ] {
            let (mut worker, answers) = worker(policy, faults(None, Some(2)));
            let asked = (0..3).map(commit).collect();
            assert_eq!(round(&mut worker, &answers, asked), first, "{policy:?}");
            round(&mut worker, &answers, vec![commit(3)]);
            let last = round(&mut worker, &answers, vec![commit(4)]);
            assert_eq!(last, [third], "{policy:?}");
        }
    }

    #[test]
    fn a_fetch_waits_for_the_sync_of_its_round() {
        let (mut worker, answers) = worker(SyncPolicy::Group, Faults::default());
        let asked = vec![fetch(9), commit(0), commit(1)];
        let said = round(&mut worker, &answers, asked);
        assert_eq!(said, ["done 0", "done 1", "fetched 9: 2"]);
    }

    #[test]
    fn after_a_failed_write_commits_fail_and_fetches_go_on() {
        let (mut worker, answers) = worker(SyncPolicy::Group, faults(Some(1), None));
        let said = round(&mut worker, &answers, vec![commit(0)]);
        assert_eq!(said, ["done 0"]);
        let said = round(&mut worker, &answers, vec![commit(1), commit(2), fetch(3)]);
        assert_eq!(
            said,
            ["failed 1: append", "failed 2: append", "fetched 3: 1"]
        );
    }

    #[test]
    fn stop_does_what_was_asked_before_it() {
        let (answers, out) = channel();
        let store = Box::new(MemoryStore::create(LogId([1; 16]), 1));
        let answer = move |answer| answers.send(answer).unwrap();
        let thread = StorageThread::spawn(store, SyncPolicy::Group, answer).unwrap();
        for token in 0..100 {
            thread.request(commit(token)).unwrap();
        }
        thread.stop();
        let want: Vec<_> = (0..100).map(|token| Answer::Committed { token }).collect();
        assert_eq!(out.into_iter().collect::<Vec<_>>(), want);
    }
}
