//! The one storage thread: takes requests in order, writes what waits together
//! with one sync, and answers only then.
//!
//! Always holds: a commit is answered only after the sync that its policy asks for,
//! and in the order in which it was sent. A failed write is no answer: the commit is
//! kept and written again once the store has recovered, while reads go on. Bounds:
//! STORE_REQUESTS_MAX requests wait, COMMITS_PER_SYNC_MAX share a sync. Knows no
//! offsets: how long to linger is decided by who sends.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_core::limits::{COMMITS_PER_SYNC_MAX, STORE_REQUESTS_MAX};
use forebay_core::log::key::TopicPartition;
use forebay_core::store::{SegmentId, Store, StoreError, StoreEvent, StoredBlock, WriteBatch};
use forebay_core::units::Offset;

/// How often a store that failed is tried again, and how often one that is asked
/// nothing is heard.
const AGAIN_EVERY: Duration = Duration::from_secs(1);
/// What policy `none` can cost: it syncs now and then, and answers before.
const LAZY_SYNC_EVERY: Duration = Duration::from_millis(500);

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
    /// Removes segments for good.
    Remove(Vec<SegmentId>),
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
    /// A fetch that cannot be answered.
    Failed {
        token: u64,
        error: StoreError,
    },
    /// What the store says unasked.
    Event(StoreEvent),
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
            unsynced: VecDeque::new(),
            trouble: None,
            lazy_since: None,
        };
        let thread = std::thread::Builder::new()
            .name("forebay-store".to_owned())
            .spawn(move || {
                worker.run(&waiting);
                // What policy `none` left unsynced survives at least a clean stop.
                // A failure was told before, or concerns nothing promised.
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
    /// Commits that are not answered yet, oldest first.
    unsynced: VecDeque<(u64, WriteBatch)>,
    /// Since a write failed: when to try again.
    trouble: Option<Instant>,
    /// Since when something answered waits for its sync, under policy `none`.
    lazy_since: Option<Instant>,
}

impl Worker {
    fn run(&mut self, waiting: &Receiver<Request>) {
        loop {
            let mut round = VecDeque::new();
            match waiting.recv_timeout(self.patience(Instant::now())) {
                Ok(first) => round.push_back(first),
                Err(RecvTimeoutError::Timeout) => {}
                // A sender that went away without Stop ends the thread too.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while !round.is_empty() && round.len() < COMMITS_PER_SYNC_MAX {
                match waiting.try_recv() {
                    Ok(next) => round.push_back(next),
                    Err(_) => break,
                }
            }
            let go_on = self.round(round);
            self.on_time(Instant::now());
            if !go_on {
                return;
            }
        }
    }

    /// How long to wait for a request at most.
    fn patience(&self, now: Instant) -> Duration {
        let lazy = self.lazy_since.map(|since| since + LAZY_SYNC_EVERY);
        let due = self.trouble.into_iter().chain(lazy).min();
        due.map_or(AGAIN_EVERY, |due| due.saturating_duration_since(now))
    }

    /// What is to be done at times, and what the store has to say.
    fn on_time(&mut self, now: Instant) {
        if self.trouble.is_some_and(|again| again <= now) {
            self.try_again(now);
        }
        if self
            .lazy_since
            .is_some_and(|since| now >= since + LAZY_SYNC_EVERY)
        {
            self.lazy_since = None;
            if let Err(error) = self.store.sync() {
                self.fail(error, now);
            }
        }
        while let Some(event) = self.store.poll_event() {
            (self.answer)(Answer::Event(event));
        }
    }

    fn fail(&mut self, error: StoreError, now: Instant) {
        self.trouble = Some(now + AGAIN_EVERY);
        (self.answer)(Answer::Event(StoreEvent::Trouble(error)));
    }

    /// Writes once more what was not answered.
    fn try_again(&mut self, now: Instant) {
        let mut batches = self.unsynced.iter().map(|(_, batch)| batch);
        let store = &mut self.store;
        let done = store.recover().and_then(|()| {
            batches.try_for_each(|batch| store.append(batch))?;
            store.sync()
        });
        match done {
            Ok(()) => {
                self.trouble = None;
                (self.answer)(Answer::Event(StoreEvent::Recovered));
                self.answer_unsynced();
            }
            Err(error) => self.fail(error, now),
        }
    }

    /// Does what waits; false when asked to stop. Commits come first and share a
    /// sync: a fetch never shows a block before the sync of its round.
    fn round(&mut self, round: VecDeque<Request>) -> bool {
        let mut others = Vec::new();
        let mut go_on = true;
        for request in round {
            match request {
                Request::Commit { token, batch } => {
                    self.append(token, batch);
                    if self.policy == SyncPolicy::EveryBlock {
                        self.finish();
                    }
                }
                Request::Stop => {
                    go_on = false;
                    break;
                }
                other @ (Request::Fetch { .. } | Request::Remove(_)) => others.push(other),
            }
        }
        self.finish();
        for other in others {
            self.do_other(other);
        }
        go_on
    }

    fn do_other(&mut self, request: Request) {
        match request {
            Request::Fetch {
                token,
                at,
                from,
                bytes_max,
            } => {
                let answer = match self.store.read(at, from, bytes_max) {
                    Ok(blocks) => Answer::Fetched { token, at, blocks },
                    Err(error) => Answer::Failed { token, error },
                };
                (self.answer)(answer);
            }
            Request::Remove(segments) => {
                if let Err(error) = self.store.remove(&segments) {
                    self.fail(error, Instant::now());
                }
                // Room was made: what failed for lack of it need not wait.
                self.trouble = self.trouble.map(|_| Instant::now());
            }
            Request::Commit { .. } | Request::Stop => {}
        }
    }

    fn append(&mut self, token: u64, batch: WriteBatch) {
        let done = match self.trouble {
            Some(_) => Ok(()),
            None => self.store.append(&batch),
        };
        self.unsynced.push_back((token, batch));
        if let Err(error) = done {
            self.fail(error, Instant::now());
        }
    }

    /// Syncs as the policy says and answers the commits.
    fn finish(&mut self) {
        if self.unsynced.is_empty() || self.trouble.is_some() {
            return;
        }
        let synced = match self.policy {
            SyncPolicy::None => {
                self.lazy_since.get_or_insert_with(Instant::now);
                Ok(())
            }
            SyncPolicy::EveryBlock | SyncPolicy::Group => self.store.sync(),
        };
        match synced {
            Ok(()) => self.answer_unsynced(),
            Err(error) => self.fail(error, Instant::now()),
        }
    }

    fn answer_unsynced(&mut self) {
        for (token, _) in self.unsynced.drain(..) {
            (self.answer)(Answer::Committed { token });
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
            Answer::Event(StoreEvent::Trouble(error)) => format!("trouble: {}", error.doing),
            Answer::Event(StoreEvent::Recovered) => "recovered".to_owned(),
            Answer::Event(event) => format!("{event:?}"),
        };
        let told = |answer: &Answer| {
            !matches!(
                answer,
                Answer::Event(StoreEvent::Disk { .. } | StoreEvent::Removed(_))
            )
        };
        answers.try_iter().filter(told).map(short).collect()
    }

    fn worker(policy: SyncPolicy, faults: Faults) -> (Worker, Receiver<Answer>) {
        let mut store = MemoryStore::create(LogId([1; 16]), 1);
        store.set_faults(faults);
        let (answers, out) = channel();
        let worker = Worker {
            store: Box::new(store),
            policy,
            answer: Box::new(move |answer| answers.send(answer).unwrap()),
            unsynced: VecDeque::new(),
            trouble: None,
            lazy_since: None,
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
                vec!["done 0", "done 1", "trouble: sync"],
                vec![],
            ),
            (
                SyncPolicy::Group,
                vec!["done 0", "done 1", "done 2"],
                vec!["trouble: sync"],
            ),
            (
                SyncPolicy::None,
                vec!["done 0", "done 1", "done 2"],
                vec!["done 4"],
            ),
        ] {
            let (mut worker, answers) = worker(policy, faults(None, Some(2)));
            let asked = (0..3).map(commit).collect();
            assert_eq!(round(&mut worker, &answers, asked), first, "{policy:?}");
            round(&mut worker, &answers, vec![commit(3)]);
            let last = round(&mut worker, &answers, vec![commit(4)]);
            assert_eq!(last, third, "{policy:?}");
        }
    }

    #[test]
    fn policy_none_syncs_now_and_then() {
        let (mut worker, answers) = worker(SyncPolicy::None, faults(None, Some(0)));
        round(&mut worker, &answers, vec![commit(0)]);
        let since = worker.lazy_since.unwrap();
        for (wait, said) in [
            (LAZY_SYNC_EVERY - Duration::from_millis(1), 0),
            (LAZY_SYNC_EVERY, 1),
        ] {
            worker.on_time(since + wait);
            let trouble = |a: &Answer| matches!(a, Answer::Event(StoreEvent::Trouble(_)));
            assert_eq!(answers.try_iter().filter(trouble).count(), said, "{wait:?}");
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
    fn a_commit_that_failed_is_written_again_and_fetches_go_on() {
        let (mut worker, answers) = worker(SyncPolicy::Group, faults(Some(1), None));
        let said = round(&mut worker, &answers, vec![commit(0)]);
        assert_eq!(said, ["done 0"]);
        let said = round(&mut worker, &answers, vec![commit(1), commit(2), fetch(3)]);
        assert_eq!(said, ["trouble: append", "fetched 3: 1"]);
        let again = worker.trouble.unwrap();
        worker.on_time(again - Duration::from_millis(1));
        assert_eq!(round(&mut worker, &answers, vec![]), [""; 0], "not yet");
        worker.on_time(again);
        let said = round(&mut worker, &answers, vec![fetch(4)]);
        assert_eq!(said, ["recovered", "done 1", "done 2", "fetched 4: 3"]);
    }

    #[test]
    fn removing_tries_again_at_once() {
        let (mut worker, answers) = worker(SyncPolicy::Group, faults(Some(0), None));
        round(&mut worker, &answers, vec![commit(0)]);
        round(&mut worker, &answers, vec![Request::Remove(Vec::new())]);
        worker.on_time(Instant::now());
        let said = round(&mut worker, &answers, vec![]);
        assert_eq!(said, ["recovered", "done 0"]);
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
