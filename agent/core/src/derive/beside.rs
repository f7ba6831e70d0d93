//! An engine beside the live one: what that one writes it makes and does not write, until
//! it takes over.
//!
//! Holds always: a topic is written by one of them at a time; what the one that takes over
//! writes begins with the first reading that the other one had not taken.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Derive, Place, Since, Stored};
use crate::commit::GroupCommit;
use crate::log::key::TopicPartition;
use crate::units::{EventTime, Mono, TopicId};

impl Derive {
    /// Leaves these topics to others, before anything is fed.
    pub(crate) fn mute(&mut self, topics: &BTreeSet<TopicId>) {
        for output in &mut self.outputs {
            output.muted = output.at().is_some_and(|at| topics.contains(&at.topic));
            if output.muted {
                output.stored = Stored::Count(0);
            }
        }
    }

    /// Leaves out rows before some time, by topic.
    pub(crate) fn begin_at(&mut self, froms: &BTreeMap<TopicId, EventTime>) {
        for output in &mut self.outputs {
            let from = output.at().and_then(|at| froms.get(&at.topic));
            output.begins_at = from.copied().unwrap_or(EventTime(i64::MIN));
        }
    }

    /// Writes all topics from now on: others have given all rows of readings before
    /// `place` to `commit`. Gives the topics with where their rows go on.
    pub(crate) fn take_over(
        &mut self,
        place: Place,
        commit: &GroupCommit,
        now: Mono,
    ) -> Vec<(TopicPartition, Since)> {
        let mut taken = Vec::new();
        for output in self.outputs.iter_mut().filter(|output| output.muted) {
            let Some(at) = output.at() else {
                continue;
            };
            let next = commit.next(at);
            output.since = Since { place, next };
            output.stored = Stored::Lines(VecDeque::new());
            output.muted = false;
            output.moved = true;
            taken.push((at, output.since));
        }
        // The heads are others now.
        self.keeping.pace.on_fed((0, 0), true, now);
        taken
    }
}
