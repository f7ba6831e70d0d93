//! The checkpoints of the engine over all partitions: which batches have one.
//!
//! Holds always: it goes with a batch that has, or came after, all rows of the records of
//! the exchange before its place.

use super::Exchange;
use super::across::Across;
use crate::commit::GroupCommit;
use crate::meta::Entry;
use crate::units::{Mono, Offset};

/// How far checkpoints are on their way.
#[derive(Debug)]
pub(super) struct Keep {
    /// Keys of state that is of no use any more.
    stale: Vec<Vec<u8>>,
    /// A batch was asked for, for one that is due.
    woken: bool,
    /// One is to go with the next batch.
    wanted: bool,
    /// Place of the newest: given, in the batch that was cut, and durable.
    written: Option<Offset>,
    cut: Option<Offset>,
    kept: Option<Offset>,
}

impl Keep {
    pub(super) fn new(kept: Option<Offset>, stale: Vec<Vec<u8>>) -> Self {
        Self {
            stale,
            woken: false,
            wanted: false,
            written: None,
            cut: None,
            kept,
        }
    }
}

impl Across {
    /// Whether it may be kept where it stands: not before the place to which a topic was
    /// written by an earlier run.
    fn may_keep(&self) -> bool {
        !self.is_loading() && self.stage().is_written_up_to(self.place())
    }

    fn is_due(&self, commit: &GroupCommit, now: Mono) -> bool {
        self.may_keep() && self.stage().is_checkpoint_due(self.behind(commit), now)
    }

    fn take_checkpoint(&mut self, last: bool, commit: &GroupCommit, now: Mono) -> Vec<Entry> {
        let last = std::mem::take(&mut self.keep.wanted) || last;
        let asked = last && self.stage().has_changed() && self.may_keep();
        if !asked && !self.is_due(commit, now) {
            return Vec::new();
        }
        let place = self.place();
        // Those of before go first: some of them may be written again.
        let stale = std::mem::take(&mut self.keep.stale).into_iter();
        let mut entries: Vec<Entry> = stale.map(|key| (key, Vec::new())).collect();
        entries.extend(self.stage_mut().take_checkpoint(place, now, commit));
        self.keep.written = Some(place.offset);
        entries
    }
}

impl Exchange {
    /// The entries to write with the batch that holds all records so far; `last` also
    /// where nothing is new, and of all state that changed.
    pub fn take_entries(&mut self, last: bool, commit: &GroupCommit, now: Mono) -> Vec<Entry> {
        let all = last || self.is_time_to_keep(now);
        let mut entries = self.feed.take_entries(all, commit);
        entries.extend(self.across.take_entries(all, commit));
        entries.extend(self.across.take_checkpoint(last, commit, now));
        entries
    }

    /// A batch was cut: all entries so far are in it or in an earlier one.
    pub fn on_cut(&mut self) {
        let keep = &mut self.across.keep;
        keep.woken = false;
        keep.cut = keep.written.take().or(keep.cut);
        self.across.stage_mut().on_cut();
    }

    /// The batch that was cut last is durable.
    pub fn on_committed(&mut self) {
        let keep = &mut self.across.keep;
        keep.kept = keep.cut.take().or(keep.kept);
        self.across.stage_mut().on_committed();
    }

    /// When a batch is wanted for a checkpoint, unless one was asked for.
    #[must_use]
    pub fn next_deadline(&self, commit: &GroupCommit) -> Option<Mono> {
        let across = &self.across;
        if across.keep.woken || !across.may_keep() {
            return None;
        }
        across.stage().checkpoint_deadline(across.behind(commit))
    }

    /// Whether a batch is wanted now for a checkpoint that is due; once.
    pub fn wakes(&mut self, commit: &GroupCommit, now: Mono) -> bool {
        let is_due = !self.across.keep.woken && self.across.is_due(commit, now);
        self.across.keep.woken |= is_due;
        is_due
    }

    /// Asks for a checkpoint of all that changed, as records are to be removed; false when
    /// one is on its way, or nothing changed.
    pub fn want(&mut self) -> bool {
        let across = &mut self.across;
        let is_new = !across.keep.wanted && across.stage().has_changed();
        across.keep.wanted |= is_new;
        is_new
    }

    /// Up to where a crash replays nothing of the exchange.
    #[must_use]
    pub fn kept(&self) -> Offset {
        self.across.keep.kept.unwrap_or_default()
    }

    /// Up to where the engine has read the exchange, and up to where it needs nothing of
    /// it any more.
    #[must_use]
    pub fn progress(&self) -> (Offset, Offset) {
        let (cursor, keep) = (self.across.place().offset, &self.across.keep);
        let waits = keep.written.is_some() || keep.cut.is_some();
        let done = if waits || self.across.stage().has_changed() {
            self.kept()
        } else {
            // What came since the last one is no reading.
            self.kept().max(cursor)
        };
        (cursor, done)
    }
}
