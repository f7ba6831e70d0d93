//! What `forebay status` says about a port: counters that the port's task
//! writes and anybody reads, without waiting for each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_core::units::Mono;
use tokio::sync::Notify;

use super::{Baud, PortConfig, PortId, UsbId};

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
    /// Since when it is in this state, on the clock of the ports.
    pub since: Mono,
    /// The device file that is open, links followed.
    pub tty: Option<String>,
    /// Who the board is, or was: kept after it is gone.
    pub usb: Option<UsbId>,
    /// The rate at which the serial line is open; USB CDC takes any.
    pub baud: Option<Baud>,
    /// How long the USB adapter of the open line holds bytes back, where it says so.
    pub latency_ms: Option<u32>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Times that the port was opened; 1 for one that was never lost.
    pub opens: u64,
    /// Frames that were not written: port closed, queue full, or lost with it.
    pub dropped_writes: u64,
    /// Why it last failed to open or was closed; kept after it opened again.
    pub last_error: Option<String>,
}

/// What is known of an open port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) tty: Option<String>,
    pub(super) usb: Option<UsbId>,
    pub(super) baud: Option<Baud>,
    pub(super) latency_ms: Option<u32>,
}

#[derive(Debug)]
struct Now {
    state: PortState,
    since: Mono,
    last_error: Option<String>,
    open: Facts,
    usb: Option<UsbId>,
}

impl Now {
    fn enter(&mut self, state: PortState, at: Mono) {
        if self.state != state {
            (self.state, self.since) = (state, at);
        }
        self.open = Facts::default();
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    id: PortId,
    name: String,
    place: String,
    /// Shown only once it had a board.
    spare: bool,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    opens: AtomicU64,
    dropped_writes: AtomicU64,
    now: Mutex<Now>,
    reopen: Notify,
}

impl Shared {
    pub(super) fn new(config: &PortConfig, now: Mono) -> Self {
        Self {
            id: config.id,
            name: config.name.clone(),
            place: config.place.to_string(),
            spare: config.place.is_spare(),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            opens: AtomicU64::new(0),
            dropped_writes: AtomicU64::new(0),
            now: Mutex::new(Now {
                state: PortState::Waiting,
                since: now,
                last_error: None,
                open: Facts::default(),
                usb: None,
            }),
            reopen: Notify::new(),
        }
    }

    /// A panic elsewhere leaves plain values, which are valid as they are.
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_open(&self) -> bool {
        self.now().state == PortState::Open
    }

    pub(super) fn set_open(&self, facts: Facts, at: Mono) {
        self.opens.fetch_add(1, Ordering::Relaxed);
        let mut now = self.now();
        now.enter(PortState::Open, at);
        if facts.usb.is_some() {
            now.usb.clone_from(&facts.usb);
        }
        now.open = facts;
    }

    pub(super) fn set_failed(&self, error: String, at: Mono) {
        let mut now = self.now();
        now.enter(PortState::Waiting, at);
        now.last_error = Some(error);
    }

    /// For what is wrong with a port that stays open.
    pub(super) fn set_last_error(&self, error: String) {
        self.now().last_error = Some(error);
    }

    pub(super) fn set_stopped(&self, at: Mono) {
        self.now().enter(PortState::Stopped, at);
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

    pub(super) fn opens(&self) -> u64 {
        self.opens.load(Ordering::Relaxed)
    }

    /// The status, unless it would say only that a spare port is spare.
    pub(super) fn shown(&self) -> Option<PortStatus> {
        let spare = self.spare && self.opens() == 0 && self.now().last_error.is_none();
        (!spare).then(|| self.status())
    }

    fn status(&self) -> PortStatus {
        let now = self.now();
        PortStatus {
            id: self.id,
            name: self.name.clone(),
            place: self.place.clone(),
            state: now.state,
            since: now.since,
            tty: now.open.tty.clone(),
            usb: now.usb.clone(),
            baud: now.open.baud,
            latency_ms: now.open.latency_ms,
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            opens: self.opens.load(Ordering::Relaxed),
            dropped_writes: self.dropped_writes.load(Ordering::Relaxed),
            last_error: now.last_error.clone(),
        }
    }
}
