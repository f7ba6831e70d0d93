//! Which engines go on from a checkpoint when a log is opened, and which are fed from
//! the first reading that is kept.
//!
//! Holds always: a state is used only where the log still has all that it is of, and
//! the rows that it had made; anything else costs a sentence and time, never a wrong
//! row. Where older layouts are read first, all engines go on or none does.

use std::collections::BTreeMap;

use super::Readers;
use super::places::changed_entry;
use crate::checkpoint::{Manifest, Unit, Unusable, keys_of, load};
use crate::commit::GroupCommit;
use crate::derive::{Derive, Place, Restored};
use crate::log::key::TopicPartition;
use crate::log::topic::{LATE, QUARANTINE};
use crate::meta::Entry;
use crate::units::{Offset, PartitionId};

impl Readers {
    /// Loads what `meta` keeps of the engines of the layout whose turn it is.
    pub(super) fn restore(&mut self, meta: &[Entry], commit: &GroupCommit) {
        let mut missing = false;
        let mut changed = false;
        for partition in self.router().partitions() {
            let found = load(meta, self.unit(partition), self.hash);
            let found = found.and_then(|loaded| {
                self.check(partition, &loaded.manifest, commit)
                    .map_err(Unusable::Damaged)?;
                Ok(loaded)
            });
            let said = match found {
                Ok(loaded) => match Restored::read(loaded, &self.config) {
                    Ok(restored) => {
                        self.restored.insert(partition, restored);
                        continue;
                    }
                    Err(said) => Some(said),
                },
                Err(Unusable::Missing) => None,
                Err(Unusable::OtherPipeline) => {
                    changed = true;
                    None
                }
                Err(Unusable::Damaged(said)) => Some(String::from(said)),
            };
            missing = true;
            self.notes.extend(said.map(|said| {
                format!(
                    "the checkpoint of partition {} is not used ({said}): its windows are \
                     computed again from the first reading that is kept",
                    partition.0
                )
            }));
        }
        if changed && self.beside.muted.is_empty() {
            for (at, since) in &self.since {
                if [LATE, QUARANTINE].contains(&at.topic) {
                    self.filled.push(changed_entry(*at, since));
                }
            }
            self.notes.push(String::from(
                "windows or time rules are others than before: all windows are computed again \
                 from the first reading that is kept, and rows that stand are not written twice",
            ));
        }
        let places = || self.restored.values().map(|r| r.manifest.place);
        let own = self.past.len();
        let first = places().next();
        let in_past = places().any(|place| usize::from(place.step) < own);
        let apart = in_past && places().any(|place| Some(place) != first);
        if !self.past.is_empty() && (missing || apart) {
            self.restored.clear();
        }
        self.all_kept = self.past.is_empty() || !self.restored.is_empty() && !in_past;
        self.start.restored = self.restored.len();
        let places = self.restored.iter();
        self.kept = places.map(|(p, r)| (*p, r.manifest.place)).collect();
        // What is not gone on from is in the way of what is written next.
        let unit = |partition| self.unit(partition);
        let used: Vec<_> = self.restored.keys().map(|p| unit(*p)).collect();
        self.stale = keys_of(meta, |unit| unit != Unit::CROSSING && !used.contains(&unit));
    }

    /// Whether the log still has what a checkpoint is of.
    fn check(
        &self,
        partition: PartitionId,
        manifest: &Manifest,
        commit: &GroupCommit,
    ) -> Result<(), &'static str> {
        let Place { step, offset, .. } = manifest.place;
        let (first, end) = match self.past.get(usize::from(step)) {
            Some(span) => (span.first, span.end),
            None if usize::from(step) == self.past.len() => (
                self.layout().fence(partition),
                self.limit(partition, commit),
            ),
            None => return Err("it is of a step that the log does not have"),
        };
        if offset < first || offset > end {
            return Err("the log ends before it");
        }
        for topic in self.outputs() {
            let at = TopicPartition { topic, partition };
            match manifest.head(topic) {
                Some(next) if next > commit.head(at) => {
                    return Err("rows that it had made are gone");
                }
                Some(_) => {}
                // A stream that was built anew up to the same place.
                None if self
                    .since
                    .get(&at)
                    .is_some_and(|s| s.place == manifest.place) => {}
                None => return Err("a stream is new to it"),
            }
        }
        Ok(())
    }

    /// Up to where engines need nothing of a partition any more.
    #[must_use]
    pub fn done_with(&self, partition: PartitionId) -> Offset {
        let kept = self.kept(partition);
        let waits = |places: &BTreeMap<_, _>| places.contains_key(&partition);
        let stage = self.stages.get(usize::from(partition.0));
        let has_changed = stage.is_some_and(Derive::has_changed);
        if has_changed || waits(&self.written) || waits(&self.cut) {
            return kept;
        }
        // What came since the last one is no reading.
        kept.max(self.cursor(partition))
    }

    /// Up to where a crash replays nothing of a partition; 0 while older layouts are
    /// read.
    #[must_use]
    pub fn kept(&self, partition: PartitionId) -> Offset {
        let place = self.kept.get(&partition);
        let current = place.filter(|place| {
            let (layout, step) = (usize::from(place.layout), usize::from(place.step));
            layout == self.layouts.number() && step == self.past.len()
        });
        current.map_or(Offset(0), |place| place.offset)
    }

    /// Asks for a checkpoint of all that changed, as readings are to be removed; false
    /// when one is on its way, or nothing changed.
    pub fn want(&mut self) -> bool {
        let is_new = !self.wanted && self.stages.iter().any(|stage| stage.has_changed());
        self.wanted |= is_new;
        is_new
    }

    /// The batch that was cut last is durable.
    pub fn on_committed(&mut self) {
        let cut = std::mem::take(&mut self.cut);
        self.kept.extend(cut);
        self.stages.iter_mut().for_each(Derive::on_committed);
    }
}
