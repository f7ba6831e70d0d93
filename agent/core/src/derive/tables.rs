//! The changes of tables on their way into an engine: where its input says that they are
//! known up to an offset, those before it are read from topic `changes` and applied, and
//! only then it goes on.
//!
//! Holds always: an engine is a function of its input and of `changes`: what is applied at
//! a place does not depend on how the log was read. Between the first change of a place and
//! the record there nothing is kept. Where the changes at its place were removed, those of the
//! base of tables come instead. Bound: one read of `changes`, or [`BASE_CHANGES_AT_ONCE`] of
//! the base.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Derive, Place};
use crate::change::Change;
use crate::changes::{Base, CHANGES_AT};
use crate::commit::GroupCommit;
use crate::limits::{BASE_CHANGES_AT_ONCE, CHANGE_LINGER_US};
use crate::log::block::Body;
use crate::log::decode::decode_head;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::walk::{Met, Walk};
use crate::record::TablesRecord;
use crate::units::{Mono, Offset};

/// How far changes were applied.
#[derive(Debug)]
pub(super) struct Applied {
    has_tables: bool,
    /// Those before its cursor were.
    walk: Walk,
    /// They are to be before the record at this place is taken.
    stop: Option<Stop>,
    /// Such as were trimmed or lost, or do not read.
    pub(super) missing: u64,
    /// What the changes say that were removed before they were applied; while it may be
    /// needed.
    base: Option<Arc<Base>>,
    /// Of it what is still to be applied, and how far it reaches.
    coming: Option<(VecDeque<Change>, Offset)>,
    /// How far they were applied by the checkpoint that was given, in the batch that was cut,
    /// and durable.
    written: Option<Offset>,
    cut: Option<Offset>,
    kept: Offset,
}

#[derive(Debug, Clone, Copy)]
struct Stop {
    place: Place,
    upto: Offset,
}

impl Applied {
    pub(super) fn new(has_tables: bool) -> Self {
        Self {
            has_tables,
            walk: Walk::new(CHANGES_AT, Offset(0)),
            stop: None,
            missing: 0,
            base: None,
            coming: None,
            written: None,
            cut: None,
            kept: Offset(0),
        }
    }

    /// Goes on behind those that a state has.
    pub(super) fn restore(&mut self, applied: Offset, missing: u64) {
        self.walk = Walk::new(CHANGES_AT, applied);
        self.missing = missing;
        self.kept = applied;
    }

    /// Whether the base is to be applied, now that a read brought `blocks`: what it asked for
    /// is gone.
    fn is_behind(&self, blocks: &[StoredBlock]) -> bool {
        let cursor = self.walk.cursor();
        let has_it = |stored: &StoredBlock| {
            let head = decode_head(stored.key, &stored.bytes);
            head.is_ok_and(|head| head.base <= cursor && cursor < head.end())
        };
        let reaches = self.base.as_ref().is_some_and(|base| base.upto() > cursor);
        reaches && !blocks.iter().any(has_it)
    }

    /// The next changes of the base; those that follow are read from the log.
    fn take_coming(&mut self) -> Vec<Change> {
        let Some((mut coming, upto)) = self.coming.take() else {
            return Vec::new();
        };
        let count = coming.len().min(BASE_CHANGES_AT_ONCE);
        let some = coming.drain(..count).collect();
        let from = if coming.is_empty() {
            upto
        } else {
            self.coming = Some((coming, upto));
            self.walk.cursor()
        };
        self.walk = Walk::new(CHANGES_AT, from);
        self.forget_base();
        some
    }

    /// One that says nothing new is of no use any more.
    fn forget_base(&mut self) {
        let cursor = self.walk.cursor();
        self.base.take_if(|base| base.upto() <= cursor);
    }

    /// A checkpoint was given.
    pub(super) fn on_kept(&mut self) {
        self.written = Some(self.walk.cursor());
    }

    /// The record that was waited for may be gone.
    pub(super) fn on_hole(&mut self) {
        self.stop = None;
    }

    pub(super) fn upto(&self) -> Offset {
        self.walk.cursor()
    }
}

impl Derive {
    /// Takes the record of a place that says how far tables are known. True: changes are to
    /// be applied first, and the reader must meet the record again.
    pub(crate) fn meets_tables(
        &mut self,
        tables: &TablesRecord,
        place: Place,
        commit: &GroupCommit,
    ) -> bool {
        // Beyond the head they are lost: there is nothing to wait for.
        let upto = tables.upto.min(commit.head(CHANGES_AT));
        let waits = self.applied.has_tables && self.applied.walk.cursor() < upto;
        self.applied.stop = waits.then_some(Stop { place, upto });
        waits
    }

    /// Whether it waits for changes before it takes what comes next in its input.
    pub(crate) fn wants_changes(&self) -> bool {
        let stop = self.applied.stop;
        stop.is_some_and(|stop| self.applied.walk.cursor() < stop.upto)
    }

    /// Whether it has applied, or is to apply, changes of a place whose record it has not
    /// taken yet: nothing is kept then.
    pub(crate) fn is_inside_changes(&self) -> bool {
        self.applied.stop.is_some() || self.applied.coming.is_some()
    }

    /// Whether a read of changes is under way.
    pub(crate) fn is_fetching_changes(&self) -> bool {
        self.applied.walk.is_fetching()
    }

    /// The next read of changes.
    pub(crate) fn next_changes(&mut self) -> Option<(TopicPartition, Offset)> {
        let stop = self.applied.stop?;
        self.applied.walk.next_fetch(stop.upto)
    }

    /// Takes the changes that a read brought; their rows are of the place where they are
    /// applied.
    pub(crate) fn on_changes(
        &mut self,
        blocks: &[StoredBlock],
        now: Mono,
        commit: &mut GroupCommit,
    ) {
        let Some(Stop { place, upto }) = self.applied.stop else {
            return;
        };
        self.step(now, commit);
        if self.applied.coming.is_none() && self.applied.is_behind(blocks) {
            let base = self.applied.base.clone().expect("it is behind one");
            let (changes, missing) = base.changes(self.applied.walk.cursor());
            self.applied.missing += missing;
            self.applied.coming = Some((changes.into(), base.upto()));
        }
        if self.applied.coming.is_some() {
            for change in self.applied.take_coming() {
                self.apply(&change, (place, now), commit);
            }
            return self.keeping.pace.on_fed((0, 0), false, now);
        }
        let mut walk = self.applied.walk.clone();
        walk.on_fetched(blocks, upto, |met| match met {
            Met::Block { block, records, .. } => match &block.body {
                Body::Rows(rows) => {
                    for row in &rows[records] {
                        self.on_change(&row.line, (place, now), commit);
                    }
                }
                Body::Readings { .. } => self.applied.missing += records.len() as u64,
            },
            Met::Hole { first, end } => self.applied.missing += end.0 - first.0,
        });
        self.applied.walk = walk;
        self.applied.forget_base();
        // The tables are others, whether or not a row was made of it.
        self.keeping.pace.on_fed((0, 0), false, now);
    }

    fn on_change(&mut self, line: &[u8], (place, now): (Place, Mono), commit: &mut GroupCommit) {
        let Ok(change) = Change::parse(line) else {
            self.applied.missing += 1;
            return;
        };
        self.apply(&change, (place, now), commit);
    }

    fn apply(&mut self, change: &Change, (place, now): (Place, Mono), commit: &mut GroupCommit) {
        self.places.push(place);
        self.engine.on_change(change, &mut self.rows);
        if !self.rows.is_empty() {
            commit.hurry(Mono(now.0.saturating_add(CHANGE_LINGER_US)));
        }
        self.write_rows(now, commit);
        self.places.clear();
    }

    /// What the changes say that were removed: for an engine that has not applied them.
    pub(crate) fn set_base(&mut self, base: &Arc<Base>) {
        let applied = &mut self.applied;
        if applied.has_tables && applied.walk.cursor() < base.upto() {
            applied.base = Some(base.clone());
        }
    }

    /// A batch was cut, and with it the checkpoint that was given before.
    pub(crate) fn on_cut(&mut self) {
        let applied = &mut self.applied;
        applied.cut = applied.written.take().or(applied.cut);
    }

    /// That batch is durable.
    pub(crate) fn on_committed(&mut self) {
        let applied = &mut self.applied;
        applied.kept = applied.cut.take().unwrap_or(applied.kept);
    }

    /// Changes below it are not read again after a crash; of an engine that has kept all it
    /// knows, those that it has not come to are the base's.
    #[must_use]
    pub fn changes_kept(&self) -> Offset {
        let applied = &self.applied;
        let is_kept = applied.kept == applied.walk.cursor() || !self.has_changed();
        let waits = applied.written.is_some() || applied.cut.is_some();
        if !applied.has_tables || (is_kept && !waits) {
            return Offset(u64::MAX);
        }
        applied.kept
    }

    /// Changes of tables before this offset were applied.
    #[must_use]
    pub fn applied(&self) -> Offset {
        self.applied.upto()
    }
}
