//! What a source hands on and what it is told back: batches, states and notes out; what is
//! durable, and that it is to end, in.
//!
//! Always holds: at most SOURCE_BATCHES_MAX batches are handed on and not yet durable. Knows no
//! database.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::lsn::At;
use forebay_core::effect::{SourceBatch, SourceEvent, SourcePosition, SourceState};
use forebay_core::limits::SOURCE_BATCHES_MAX;

/// What a source says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Batch(SourceBatch),
    State {
        state: SourceState,
        /// Bytes of write log behind what is durable here.
        lag: u64,
    },
    /// A sentence for the operator.
    Note(String),
}

/// What the server keeps for the source: its disk is at risk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    pub name: String,
    /// Bytes of write log that are not durable here.
    pub lag: u64,
    /// Bytes of write log that the server keeps for it.
    pub kept: u64,
    /// How many more it may keep; `None`: until its disk is full.
    pub spare: Option<u64>,
    /// As `pg_replication_slots` says it: `reserved`, `extended`, `unreserved`, `lost`.
    pub status: String,
}

impl Slot {
    /// For `forebay status`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "slot": self.name,
            "behind_bytes": self.lag,
            "kept_bytes": self.kept,
            "spare_bytes": self.spare,
            "wal_status": self.status,
        })
    }
}

/// Takes what a source says; false: nobody takes it any more.
pub type Say = Arc<dyn Fn(Said) -> bool + Send + Sync>;

/// What a source is told, by whom its thread is not.
#[derive(Debug, Default)]
pub(super) struct Told {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    durable: Option<SourcePosition>,
    stopped: bool,
    /// The other way: the newest that is known.
    slot: Option<Slot>,
}

impl Told {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Fields that are each set at once: no panic leaves them half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn durable(&self, position: SourcePosition) {
        self.lock().durable = Some(position);
        self.changed.notify_all();
    }

    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    pub(super) fn slot(&self) -> Option<Slot> {
        self.lock().slot.clone()
    }

    pub(super) fn set_slot(&self, slot: Slot) {
        self.lock().slot = Some(slot);
    }

    fn newly_durable(&self) -> Option<SourcePosition> {
        self.lock().durable.take()
    }

    /// Waits until something is told, at most so long.
    pub(super) fn wait(&self, most: Duration) {
        let state = self.lock();
        if state.stopped || state.durable.is_some() {
            return;
        }
        // What woke us, the caller looks up.
        drop(self.changed.wait_timeout(state, most));
    }

    /// Sleeps, unless it is to end.
    pub(super) fn pause(&self, length: Duration) {
        let state = self.lock();
        let wait = self
            .changed
            .wait_timeout_while(state, length, |state| !state.stopped);
        drop(wait);
    }
}

/// The way out of a source's thread.
pub(super) struct Hand {
    say: Say,
    told: Arc<Told>,
    /// Ends of batches that are not durable, in order.
    unacked: VecDeque<At>,
    /// The place of the last event that was handed on.
    pub(super) sent: Option<At>,
    durable: Option<At>,
}

impl std::fmt::Debug for Hand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hand = f.debug_struct("Hand");
        { hand }.field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl Hand {
    /// `held`: what the log has of it.
    pub(super) fn new(say: Say, told: Arc<Told>, held: Option<At>) -> Self {
        Self {
            say,
            told,
            unacked: VecDeque::new(),
            sent: held,
            durable: held,
        }
    }

    pub(super) fn told(&self) -> &Told {
        &self.told
    }

    /// What is durable by now.
    pub(super) fn durable(&mut self) -> Option<At> {
        if let Some(position) = self.told.newly_durable()
            && let Some(at) = At::parse(&position)
        {
            self.durable = self.durable.max(Some(at));
        }
        while self.unacked.front() <= self.durable.as_ref() && !self.unacked.is_empty() {
            self.unacked.pop_front();
        }
        self.durable
    }

    /// Whether another batch may be handed on.
    pub(super) fn has_room(&mut self) -> bool {
        self.durable();
        self.unacked.len() < SOURCE_BATCHES_MAX
    }

    /// Whether all that was handed on is durable.
    pub(super) fn is_all_durable(&mut self) -> bool {
        self.durable();
        self.unacked.is_empty()
    }

    /// Hands on events that end at `at`; false: nobody takes them, or it is to end.
    pub(super) fn batch(&mut self, events: Vec<SourceEvent>, at: At) -> bool {
        if self.told.is_stopped() {
            return false;
        }
        self.sent = Some(at);
        self.unacked.push_back(at);
        (self.say)(Said::Batch(SourceBatch {
            events,
            position: at.position(),
        }))
    }

    pub(super) fn state(&self, state: SourceState, lag: u64) {
        // Where nobody listens any more, the next batch ends the source.
        let _ = (self.say)(Said::State { state, lag });
    }

    pub(super) fn note(&self, text: String) {
        let _ = (self.say)(Said::Note(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::postgres::lsn::{Life, Lsn};

    fn at(lsn: u64) -> At {
        At {
            life: Life(0),
            lsn: Lsn(lsn),
            index: 2,
        }
    }

    #[test]
    fn it_waits_for_what_is_not_durable() {
        let told = Arc::new(Told::default());
        let mut hand = Hand::new(Arc::new(|_| true), told.clone(), None);
        for n in 1..=SOURCE_BATCHES_MAX as u64 {
            assert!(hand.has_room(), "{n}");
            assert!(hand.batch(Vec::new(), at(n)));
        }
        assert!(!hand.has_room());
        told.durable(at(2).position());
        assert!(hand.has_room());
        assert_eq!(hand.durable(), Some(at(2)));
        assert!(!hand.is_all_durable());
        told.durable(at(SOURCE_BATCHES_MAX as u64).position());
        assert!(hand.is_all_durable());
        assert_eq!(hand.sent, Some(at(SOURCE_BATCHES_MAX as u64)));
    }
}
