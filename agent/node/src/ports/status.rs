//! What `forebay status` says about a port: counters that the port's task
//! writes and anybody reads, without waiting for each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{PortConfig, PortId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortState {
    /// Not open yet, or gone: tried again and again.
    Waiting,
    Open,
    /// The agent stops.
    Stopped,
}

impl PortState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Open => "open",
            Self::Stopped => "stopped",
        }
    }
}

/// One port at one moment. The counters start at 0 with the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortStatus {
    pub id: PortId,
    pub name: String,
    /// Path or address.
    pub place: String,
    pub state: PortState,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Times that the port was opened; 1 for one that was never lost.
    pub opens: u64,
    /// Frames that were not written: port closed, queue full, or lost with it.
    pub dropped_writes: u64,
    /// Why it last failed to open or was closed; kept after it opened again.
    pub last_error: Option<String>,
}

#[derive(Debug)]
pub(super) struct Shared {
    id: PortId,
    name: String,
    place: String,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    opens: AtomicU64,
    dropped_writes: AtomicU64,
    now: Mutex<(PortState, Option<String>)>,
    reopen: Notify,
}

impl Shared {
    pub(super) fn new(config: &PortConfig) -> Self {
        Self {
            id: config.id,
            name: config.name.clone(),
            place: config.place.to_string(),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            opens: AtomicU64::new(0),
            dropped_writes: AtomicU64::new(0),
            now: Mutex::new((PortState::Waiting, None)),
            reopen: Notify::new(),
        }
    }

    /// A panic elsewhere leaves two plain values, which are valid as they are.
    fn now(&self) -> MutexGuard<'_, (PortState, Option<String>)> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_open(&self) -> bool {
        self.now().0 == PortState::Open
    }

    pub(super) fn set_open(&self) {
        self.opens.fetch_add(1, Ordering::Relaxed);
        self.now().0 = PortState::Open;
    }

    pub(super) fn set_failed(&self, error: String) {
        *self.now() = (PortState::Waiting, Some(error));
    }

    /// For what is wrong with a port that stays open.
    pub(super) fn set_last_error(&self, error: String) {
        self.now().1 = Some(error);
    }

    pub(super) fn set_stopped(&self) {
        self.now().0 = PortState::Stopped;
    }

    pub(super) fn count_in(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn bytes_in(&self) -> u64 {
        self.bytes_in.load(Ordering::Relaxed)
    }

    pub(super) fn count_out(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_dropped(&self, frames: u64) {
        self.dropped_writes.fetch_add(frames, Ordering::Relaxed);
    }

    pub(super) fn ask_reopen(&self) {
        // Only a waiting session hears it: a port that is closed needs no asking.
        self.reopen.notify_waiters();
    }

    pub(super) async fn reopen_asked(&self) {
        self.reopen.notified().await;
    }

    pub(super) fn status(&self) -> PortStatus {
        let (state, last_error) = self.now().clone();
        PortStatus {
            id: self.id,
            name: self.name.clone(),
            place: self.place.clone(),
            state,
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            opens: self.opens.load(Ordering::Relaxed),
            dropped_writes: self.dropped_writes.load(Ordering::Relaxed),
            last_error,
        }
    }
}
