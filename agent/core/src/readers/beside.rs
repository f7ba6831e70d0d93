//! Readers beside the live ones, which build what is new from the first reading that is
//! kept, and take over when both have come to one place.
//!
//! Holds always: they never pass the live ones, and no reading is between the two when
//! they take over. Knows neither the live ones nor which views are new.

use std::collections::{BTreeMap, BTreeSet};

use super::places::changed_entry;
use super::{MetaEntry, Readers};
use crate::commit::GroupCommit;
use crate::derive::Derive;
use crate::layout::Layouts;
use crate::log::topic::{LATE, QUARANTINE};
use crate::log::walk::Walk;
use crate::units::{EventTime, Mono, Offset, PartitionId, TopicId};
use crate::views;

/// What readers keep of it.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// Topics that others write.
    pub muted: BTreeSet<TopicId>,
    /// Topics whose rows begin at some time.
    pub froms: BTreeMap<TopicId, EventTime>,
    /// How far the live ones have come; empty when these are live.
    caps: BTreeMap<PartitionId, Offset>,
}

impl Beside {
    pub(super) fn new(muted: BTreeSet<TopicId>, meta: &[MetaEntry]) -> Self {
        Self {
            muted,
            froms: views::froms(meta),
            caps: BTreeMap::new(),
        }
    }

    pub(super) fn cap(&self, partition: PartitionId) -> Option<Offset> {
        self.caps.get(&partition).copied()
    }
}

impl Readers {
    /// Goes no further than this in each partition.
    pub fn set_caps(&mut self, caps: &BTreeMap<PartitionId, Offset>) {
        self.beside.caps.clone_from(caps);
    }

    /// Where each partition has been read to, between two reads, when all is read under
    /// the last layout.
    #[must_use]
    pub fn cursors(&self) -> Option<BTreeMap<PartitionId, Offset>> {
        let last = self.active == self.layouts.number();
        let settled = last && !self.held && self.walk.is_none() && !self.standing.is_loading();
        let inside = self.stages.iter().any(Derive::is_inside_changes);
        let between = !inside && !self.walks.iter().any(Walk::is_fetching);
        let walks = self.walks.iter();
        let cursors = walks.map(|walk| (walk.at().partition, walk.cursor()));
        (settled && between).then(|| cursors.collect())
    }

    /// Whether all that the log had when it was opened has been read.
    #[must_use]
    pub fn has_caught_up(&self) -> bool {
        self.start.took_us.is_some()
    }

    /// How devices lie in partitions, now and before.
    #[must_use]
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// Whether none has rows beyond where it stands, of an earlier run.
    #[must_use]
    pub fn may_take_over(&self) -> bool {
        self.stages.iter().all(|stage| self.may_keep(stage))
    }

    /// Writes all topics from now on, with the reading at which the live ones stand: the
    /// entries to write with a checkpoint of all, in one batch.
    pub fn take_over(&mut self, commit: &GroupCommit, now: Mono) -> Vec<MetaEntry> {
        let mut entries = Vec::new();
        for index in 0..self.stages.len() {
            let offset = self.walks[index].cursor();
            let place = self.place(self.past.len(), offset);
            for (at, since) in self.stages[index].take_over(place, commit, now) {
                self.since.insert(at, since);
                if [LATE, QUARANTINE].contains(&at.topic) {
                    entries.push(changed_entry(at, &since));
                }
            }
        }
        self.beside.muted.clear();
        self.beside.caps.clear();
        entries.extend(self.take_entries(true, commit, now));
        entries
    }
}
