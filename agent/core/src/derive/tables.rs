//! The changes of tables on their way into an engine: where its input says that they are
//! known up to an offset, those before it are read from topic `changes` and applied, and
//! only then it goes on.
//!
//! Holds always: an engine is a function of its input and of `changes`: what is applied at
//! a place does not depend on how the log was read. Between the first change of a place and
//! the record there nothing is kept. Bound: one read of `changes`.

use super::{Derive, Place};
use crate::change::Change;
use crate::commit::GroupCommit;
use crate::limits::CHANGE_LINGER_US;
use crate::log::block::Body;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::CHANGES;
use crate::log::walk::{Met, Walk};
use crate::record::TablesRecord;
use crate::units::{Mono, Offset, PartitionId};

/// Where all changes of tables stand.
pub const CHANGES_AT: TopicPartition = TopicPartition {
    topic: CHANGES,
    partition: PartitionId(0),
};

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
        }
    }

    /// Goes on behind those that a state has.
    pub(super) fn restore(&mut self, applied: Offset, missing: u64) {
        self.walk = Walk::new(CHANGES_AT, applied);
        self.missing = missing;
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
        self.applied.stop.is_some()
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
        // The tables are others, whether or not a row was made of it.
        self.keeping.pace.on_fed((0, 0), false, now);
    }

    fn on_change(&mut self, line: &[u8], (place, now): (Place, Mono), commit: &mut GroupCommit) {
        let Ok(change) = Change::parse(line) else {
            self.applied.missing += 1;
            return;
        };
        self.places.push(place);
        self.engine.on_change(&change, &mut self.rows);
        if !self.rows.is_empty() {
            commit.hurry(Mono(now.0.saturating_add(CHANGE_LINGER_US)));
        }
        self.write_rows(now, commit);
        self.places.clear();
    }

    /// Changes of tables before this offset were applied.
    #[must_use]
    pub fn applied(&self) -> Offset {
        self.applied.upto()
    }
}
