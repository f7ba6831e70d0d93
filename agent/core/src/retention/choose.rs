//! Which segments go.
//!
//! Holds always: a topic under `drop_oldest` never keeps more than its quota and
//! what is written while a removal is on its way; a topic under another policy
//! loses nothing that was not delivered, but for its age; readings go only when the
//! accounts of devices know them without the log, and changes of tables only when their
//! base does, but for a disk that is full.
//! Bound: [`REMOVALS_PER_POLL_MAX`] segments at a time.

use super::dropped::Behind;
use super::policy::WhenFull;
use super::space::{Progress, Retention};
use super::topic::{Kept, Topic};
use crate::limits::REMOVALS_PER_POLL_MAX;
use crate::log::key::TopicPartition;
use crate::store::{SegmentId, SegmentRange};
use crate::units::{EventTime, Mono, TopicId};

/// What becomes of the oldest segment of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    /// It goes once the accounts know all that it holds.
    Waits,
    Goes,
}

impl Retention {
    /// Segments to remove now, oldest first per topic.
    pub fn poll(
        &mut self,
        progress: impl Fn(TopicPartition) -> Progress,
        now: Mono,
    ) -> Vec<SegmentId> {
        if !self.is_due(now) {
            return Vec::new();
        }
        (self.dirty, self.wants_accounts) = (false, false);
        self.waiting.clear();
        let mut chosen = Vec::new();
        let utc = self.utc(now);
        let ids: Vec<TopicId> = self.topics.keys().copied().collect();
        for id in ids {
            self.choose(id, &progress, (now, utc), &mut chosen);
        }
        while self.short_bytes() > 0
            && chosen.len() < REMOVALS_PER_POLL_MAX
            && let Some(id) = self.next_for_reserve(&progress)
        {
            chosen.extend(self.take_oldest(id, &progress, now));
        }
        self.dirty = chosen.len() >= REMOVALS_PER_POLL_MAX;
        self.judge(now);
        chosen
    }

    fn is_due(&self, now: Mono) -> bool {
        // A topic that waits for its consumers is looked at each time.
        let waits = self.topics.values().any(Topic::is_over);
        self.dirty
            || waits
            || self.wants_accounts
            || self.next_deadline().is_some_and(|due| due <= now)
    }

    /// Chooses among the segments of one topic.
    fn choose(
        &mut self,
        id: TopicId,
        progress: &impl Fn(TopicPartition) -> Progress,
        (now, utc): (Mono, EventTime),
        chosen: &mut Vec<SegmentId>,
    ) {
        while let Some(generation) = self.topic(id).ask_again(now) {
            chosen.push(SegmentId {
                generation,
                topic: id,
            });
        }
        while chosen.len() < REMOVALS_PER_POLL_MAX {
            match self.fate(id, progress, utc) {
                Fate::Stays => return,
                Fate::Waits => {
                    self.wait_for(id);
                    return;
                }
                Fate::Goes => chosen.extend(self.take_oldest(id, progress, now)),
            }
        }
    }

    /// What becomes of the oldest segment of a topic for its quota and age.
    fn fate(
        &self,
        id: TopicId,
        progress: &impl Fn(TopicPartition) -> Progress,
        utc: EventTime,
    ) -> Fate {
        let Some(topic) = self.topics.get(&id) else {
            return Fate::Stays;
        };
        let Some(oldest) = topic.oldest() else {
            return Fate::Stays;
        };
        if self.was_counted(oldest, id) {
            return Fate::Goes;
        }
        let goes =
            topic.dropped || topic.is_aged(utc) || (topic.is_over() && may_go(topic, id, progress));
        match goes {
            false => Fate::Stays,
            true if self.is_accounted(oldest, id, progress) => Fate::Goes,
            true => Fate::Waits,
        }
    }

    /// The oldest segment of a topic waits until what it says is kept elsewhere.
    fn wait_for(&mut self, id: TopicId) {
        self.wants_accounts = true;
        let oldest = self.topics.get(&id).and_then(Topic::oldest);
        let ranges = oldest.into_iter().flat_map(|kept| &kept.ranges);
        let ends = ranges.map(|range| (place(id, range), range.end));
        self.waiting.extend(ends);
    }

    /// Whether nothing is lost but the segment itself. A full disk cannot wait: neither
    /// accounts nor checkpoints could be written.
    fn is_accounted(
        &self,
        kept: &Kept,
        id: TopicId,
        progress: &impl Fn(TopicPartition) -> Progress,
    ) -> bool {
        let accounted = |range: &SegmentRange| progress(place(id, range)).is_known(range.end);
        self.is_in_trouble() || kept.ranges.iter().all(accounted)
    }

    /// Whether a segment was counted as dropped before a restart and is there still.
    fn was_counted(&self, kept: &Kept, id: TopicId) -> bool {
        let counted =
            |range: &SegmentRange| self.counts(place(id, range)).counted_to >= range.end.0;
        !kept.ranges.is_empty() && kept.ranges.iter().all(counted)
    }

    /// The topic whose oldest segment goes for the reserve: the oldest of those
    /// that may go.
    fn next_for_reserve(
        &mut self,
        progress: &impl Fn(TopicPartition) -> Progress,
    ) -> Option<TopicId> {
        let may = |(id, topic): &(&TopicId, &Topic)| may_go(topic, **id, progress);
        let topics = self.topics.iter().filter(may);
        let oldest = topics.filter_map(|(id, topic)| Some((topic.oldest_generation()?, *id)));
        let (_, id) = oldest.min()?;
        let kept = self.topics.get(&id)?.oldest()?;
        if !self.is_accounted(kept, id, progress) {
            self.wait_for(id);
            return None;
        }
        Some(id)
    }

    fn take_oldest(
        &mut self,
        id: TopicId,
        progress: &impl Fn(TopicPartition) -> Progress,
        now: Mono,
    ) -> Option<SegmentId> {
        let topic = self.topics.get_mut(&id)?;
        let (generation, kept) = topic.remove_oldest(now)?;
        self.disk.freeing_bytes += kept.bytes;
        for range in &kept.ranges {
            let at = place(id, range);
            let came = progress(at).came;
            let behind = Behind::of(range.first.0, range.end.0, came, range.records);
            let kept_from = topic.first_kept(range.partition).unwrap_or(range.end);
            let ends = (range.end, kept_from.max(range.end));
            self.dropped.reaches(at, range.time_max);
            if self.dropped.remove(at, ends, range.records, behind) {
                self.notices.dropped(id, range.records, behind);
            }
        }
        Some(SegmentId {
            generation,
            topic: id,
        })
    }
}

fn place(topic: TopicId, range: &SegmentRange) -> TopicPartition {
    TopicPartition {
        topic,
        partition: range.partition,
    }
}

/// Whether the policy lets the oldest segment go for room.
fn may_go(topic: &Topic, id: TopicId, progress: &impl Fn(TopicPartition) -> Progress) -> bool {
    let Some(oldest) = topic.oldest() else {
        return false;
    };
    let delivered = |range: &SegmentRange| progress(place(id, range)).done >= range.end;
    match topic.policy.when_full {
        WhenFull::DropOldest => true,
        WhenFull::RejectNew | WhenFull::Block => oldest.ranges.iter().all(delivered),
    }
}
