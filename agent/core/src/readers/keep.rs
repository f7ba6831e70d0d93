//! Which batches have a checkpoint, and what is in it.
//!
//! Holds always: a checkpoint goes with a batch that has, or came after, all rows of the
//! readings before its place; one is asked for once, and only where something changed.

use super::places::entry;
use super::{DeriveRead, MetaEntry, Readers, StartUp};
use crate::commit::GroupCommit;
use crate::derive::{Derive, Difference, Place};
use crate::limits::{CHECKPOINT_STEP_PAGES, DERIVE_KEPT_EVERY_US};
use crate::units::{Mono, PartitionId, TopicId};

impl Readers {
    /// A batch was cut: all entries so far are in it or in an earlier one.
    pub fn on_cut(&mut self) {
        self.held = false;
        self.woken = false;
        self.cut.append(&mut self.written);
        self.stages.iter_mut().for_each(Derive::on_cut);
    }

    /// When a batch is wanted for a checkpoint, unless one was asked for.
    #[must_use]
    pub fn next_deadline(&self, commit: &GroupCommit) -> Option<Mono> {
        let at = |stage: &Derive| stage.checkpoint_deadline(self.behind_of(stage, commit));
        let stages = self.stages.iter().filter(|_| !self.woken && !self.held);
        stages
            .filter(|stage| !stage.is_keeping() && self.may_keep(stage))
            .filter_map(at)
            .min()
    }

    /// Whether a batch is wanted now for a checkpoint that is due; once.
    pub fn wakes(&mut self, commit: &GroupCommit, now: Mono) -> bool {
        if self.woken || self.held || !self.is_any_due(commit, now) {
            return false;
        }
        self.woken = true;
        true
    }

    fn is_any_due(&self, commit: &GroupCommit, now: Mono) -> bool {
        let due = |stage: &Derive| stage.is_checkpoint_due(self.behind_of(stage, commit), now);
        let stages = self.stages.iter();
        let mut stages = stages.filter(|stage| !stage.is_keeping() && self.may_keep(stage));
        stages.any(due)
    }

    /// Where an engine stands in its input.
    fn place_of(&self, stage: &Derive) -> Place {
        match &self.walk {
            Some(walk) => self.place(self.step, walk.cursor()),
            None => {
                let walk = &self.walks[usize::from(stage.partition().0)];
                self.place(self.past.len(), walk.cursor())
            }
        }
    }

    /// Whether an engine may be kept where it stands. Before the place to which a topic
    /// was written by an earlier run it may not: at which offset the rows from here on
    /// begin is not known.
    pub(super) fn may_keep(&self, stage: &Derive) -> bool {
        stage.is_written_up_to(self.place_of(stage))
    }

    /// Durable readings that an engine has not taken yet.
    pub(super) fn behind_of(&self, stage: &Derive, commit: &GroupCommit) -> u64 {
        let partition = stage.partition();
        match &self.walk {
            Some(_) => u64::MAX,
            None => {
                let cursor = self.walks[usize::from(partition.0)].cursor();
                self.limit(partition, commit).0.saturating_sub(cursor.0)
            }
        }
    }

    /// The entries to write with the batch that holds all rows so far; `all` also
    /// those of topics without a new row, and of all state that changed.
    pub fn take_entries(&mut self, all: bool, commit: &GroupCommit, now: Mono) -> Vec<MetaEntry> {
        if self.active == self.layouts.number() && self.is_at_end(commit) {
            self.on_caught_up(now);
        }
        let last = all || std::mem::take(&mut self.wanted);
        let all = all || now.0.saturating_sub(self.kept_at.0) >= DERIVE_KEPT_EVERY_US;
        if all {
            self.kept_at = now;
        }
        let mut entries = Vec::new();
        let whole = self.keeps_all_at_once(last, commit, now);
        for index in 0..self.stages.len() {
            let place = self.place_of(&self.stages[index]);
            let may_keep = self.may_keep(&self.stages[index]);
            for (at, since) in self.stages[index].take_since(place, all, commit) {
                entries.push(entry(at, &since));
                self.since.insert(at, since);
            }
            let behind = self.behind_of(&self.stages[index], commit);
            let stage = &mut self.stages[index];
            let changed = last && stage.has_changed();
            let due = changed || (self.all_kept && stage.is_checkpoint_due(behind, now));
            if !whole && due && may_keep && self.in_steps && !last {
                stage.begin_checkpoint();
            } else if whole || (due && may_keep) {
                entries.extend(self.take_checkpoint(index, place, commit, now));
            }
        }
        self.all_kept |= whole;
        entries
    }

    fn take_checkpoint(
        &mut self,
        index: usize,
        place: Place,
        commit: &GroupCommit,
        now: Mono,
    ) -> Vec<MetaEntry> {
        let stage = &mut self.stages[index];
        // Those of before go first: some of them may be written again.
        let stale = std::mem::take(&mut self.stale).into_iter();
        let mut entries: Vec<_> = stale.map(|key| (key, Vec::new())).collect();
        entries.extend(stage.take_checkpoint(place, now, commit));
        self.written.insert(stage.partition(), place);
        entries
    }

    /// From now on a checkpoint that is due of one engine is taken in steps: it is fed
    /// nothing meanwhile, and everybody else has their turn between two steps.
    pub fn keep_in_steps(&mut self) {
        self.in_steps = true;
    }

    /// Whether [`Readers::step_checkpoint`] has something to do.
    #[must_use]
    pub fn is_keeping(&self) -> bool {
        self.stages.iter().any(Derive::is_keeping)
    }

    /// Whether a read may not be handed over now.
    #[must_use]
    pub fn must_wait(&self, read: DeriveRead) -> bool {
        let stage = |partition: PartitionId| self.stages.get(usize::from(partition.0));
        match read {
            DeriveRead::Own(partition) | DeriveRead::Changes(partition) => {
                stage(partition).is_some_and(Derive::is_keeping)
            }
            DeriveRead::Stored | DeriveRead::Past | DeriveRead::Exchange => self.is_keeping(),
        }
    }

    /// The next step of a checkpoint. With the last one come its entries: the rows of all
    /// readings before its place were given to the log.
    pub fn step_checkpoint(&mut self, commit: &GroupCommit, now: Mono) -> Vec<MetaEntry> {
        let Some(index) = self.stages.iter().position(Derive::is_keeping) else {
            return Vec::new();
        };
        if !self.stages[index].step_checkpoint(CHECKPOINT_STEP_PAGES) {
            return Vec::new();
        }
        let place = self.place_of(&self.stages[index]);
        self.take_checkpoint(index, place, commit, now)
    }

    /// While what was written before a layout is read, all engines are at one place, and
    /// are kept together; so they are once more when each goes its own way.
    fn keeps_all_at_once(&self, last: bool, commit: &GroupCommit, now: Mono) -> bool {
        if self.past.is_empty() || self.held {
            return false;
        }
        let apart = self.walk.is_none() && self.all_kept;
        let may = self.stages.iter().all(|stage| self.may_keep(stage));
        !apart && may && (last || self.is_any_due(commit, now))
    }

    /// What the log had when it was opened is derived.
    pub(super) fn on_caught_up(&mut self, now: Mono) {
        // What stood there at the start has been met again.
        self.standing.clear();
        if self.start.took_us.is_none() {
            self.start.took_us = Some(now.0.saturating_sub(self.start.began.0));
            self.stages.iter_mut().for_each(Derive::on_caught_up);
        }
    }

    /// Sentences for the operator that were not given before.
    pub fn take_notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        for stage in &mut self.stages {
            let partition = stage.partition();
            for (topic, difference) in stage.take_differences() {
                notes.push(difference_text(topic, partition, &difference));
            }
        }
        notes
    }

    /// What the start has cost.
    #[must_use]
    pub fn start_up(&self) -> StartUp {
        self.start
    }
}

pub(crate) fn difference_text(
    topic: TopicId,
    partition: PartitionId,
    difference: &Difference,
) -> String {
    let Difference { stands, made } = difference;
    let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    let made = made.as_ref().map_or_else(
        || String::from("no such row is made of the readings"),
        |line| format!("the readings give {}", text(line)),
    );
    format!(
        "topic {}, partition {}, offset {}: the row that stands there is not the one that the \
         log gives: {made}; there stands {}; `forebay verify` looks through all of it",
        topic.0,
        partition.0,
        stands.offset.0,
        text(&stands.line),
    )
}
