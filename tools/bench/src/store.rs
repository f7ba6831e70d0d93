//! The log under measurement: open, ask, wait for answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use forebay_core::log::key::{BlockKey, StoredBlock, TopicPartition};
use forebay_core::log::topic::READINGS;
use forebay_core::store::{StoreEvent, StoreInfo, StoreOpened, WriteBatch};
use forebay_core::units::{Offset, PartitionId};
use forebay_node::store::{Answer, LogStore, Request, StorageThread, StoreSettings, SyncPolicy};

/// Everything is measured on one partition of readings.
pub(crate) const AT: TopicPartition = TopicPartition {
    topic: READINGS,
    partition: PartitionId(0),
};
/// No answer in this time: the disk or the store hangs.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn key(base: Offset) -> BlockKey {
    BlockKey {
        at: AT,
        base,
        chunk: 0,
    }
}

/// The storage thread with its answers.
pub(crate) struct Log {
    thread: StorageThread,
    answers: Receiver<Answer>,
    pub(crate) info: StoreInfo,
    pub(crate) heads: BTreeMap<TopicPartition, Offset>,
    next_token: u64,
    /// Events that came while something else was waited for.
    pub(crate) events: Vec<StoreEvent>,
}

pub(crate) fn open_store(
    dir: &Path,
    settings: StoreSettings,
) -> Result<(LogStore, StoreOpened), String> {
    std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    LogStore::open(dir, settings).map_err(|error| error.to_string())
}

impl Log {
    pub(crate) fn open(dir: &Path, settings: StoreSettings) -> Result<Self, String> {
        let (store, opened) = open_store(dir, settings)?;
        if !opened.losses.is_empty() {
            return Err(format!("the log lost {:?}", opened.losses));
        }
        let (answer, answers) = channel();
        let thread = StorageThread::spawn(Box::new(store), SyncPolicy::Group, move |said| {
            // Nobody waits any more when the measurement is over.
            let _ = answer.send(said);
        })
        .map_err(|error| error.to_string())?;
        Ok(Self {
            thread,
            answers,
            info: opened.info,
            heads: opened.heads,
            next_token: 1 << 32,
            events: Vec::new(),
        })
    }

    pub(crate) fn head(&self) -> Offset {
        self.heads.get(&AT).copied().unwrap_or(Offset(0))
    }

    /// Asks; the caller keeps below the thread's bound.
    pub(crate) fn ask(&self, request: Request) -> Result<(), String> {
        self.thread
            .request(request)
            .map_err(|refused| format!("{refused:?}"))
    }

    pub(crate) fn commit(&mut self, batch: WriteBatch) -> Result<u64, String> {
        self.next_token += 1;
        let token = self.next_token;
        self.ask(Request::Commit { token, batch })?;
        Ok(token)
    }

    /// The next commit that became durable, if one did within `wait`. Events are kept.
    pub(crate) fn committed_within(&mut self, wait: Duration) -> Result<Option<u64>, String> {
        loop {
            match self.answers.recv_timeout(wait) {
                Ok(Answer::Committed { token }) => return Ok(Some(token)),
                Ok(Answer::Event(event)) => self.note(event)?,
                Ok(Answer::Failed { error, .. }) => return Err(error.to_string()),
                Ok(Answer::Fetched { .. }) => return Err("an answer nobody asked for".into()),
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err("the thread ended".into()),
            }
        }
    }

    /// Waits for the next commit.
    pub(crate) fn committed(&mut self) -> Result<u64, String> {
        self.committed_within(PATIENCE)?
            .ok_or_else(|| "no commit in a minute".into())
    }

    /// Blocks of the partition from `from` on.
    pub(crate) fn fetch(
        &mut self,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<StoredBlock>, String> {
        self.next_token += 1;
        let wanted = self.next_token;
        self.ask(Request::Fetch {
            token: wanted,
            at: AT,
            from,
            bytes_max,
        })?;
        loop {
            match self.answers.recv_timeout(PATIENCE) {
                Ok(Answer::Fetched { token, blocks, .. }) if token == wanted => return Ok(blocks),
                Ok(Answer::Fetched { .. }) => return Err("an answer nobody asked for".into()),
                Ok(Answer::Event(event)) => self.note(event)?,
                Ok(Answer::Failed { error, .. }) => return Err(error.to_string()),
                Ok(Answer::Committed { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn note(&mut self, event: StoreEvent) -> Result<(), String> {
        if let StoreEvent::Trouble(error) = &event {
            return Err(error.to_string());
        }
        self.events.push(event);
        Ok(())
    }

    pub(crate) fn stop(self) {
        self.thread.stop();
    }
}
