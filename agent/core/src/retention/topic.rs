//! The room of one topic: its sealed segments, its part of what is not sealed, and
//! whether it is full. Holds always: segments go oldest first, each is asked for
//! once until the store has answered or a while has passed. Bound:
//! [`SEGMENTS_PER_TOPIC_MAX`] segments are kept. Knows no other topic.

use std::collections::BTreeMap;

use super::live::Live;
use super::policy::{TopicPolicy, WhenFull};
use crate::limits::{GENERATIONS_PER_QUOTA, SEGMENTS_PER_TOPIC_MAX};
use crate::store::{SegmentInfo, SegmentRange};
use crate::units::{EventTime, GenerationNo, Mono, Offset, PartitionId};

/// A removal that the store has not confirmed is asked for again after this long, us.
const ASK_AGAIN_US: u64 = 30_000_000;
/// The alarm comes at this part of the quota, and goes below the second one.
const ALARM_ON_PERCENT: u64 = 80;
const ALARM_OFF_PERCENT: u64 = 75;
/// Room above the quota for the gaps that say what was rejected.
const GAPS_PERCENT: u64 = 5;

/// A sealed segment.
#[derive(Debug)]
pub(super) struct Kept {
    pub bytes: u64,
    /// By the clock of this run, or as it was stored by an earlier one.
    pub sealed_at: EventTime,
    pub ranges: Vec<SegmentRange>,
}

/// A segment that is being removed.
#[derive(Debug, Clone, Copy)]
struct Going {
    bytes: u64,
    /// When that was last asked for.
    asked: Mono,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Topic {
    pub name: String,
    pub policy: TopicPolicy,
    segments: BTreeMap<GenerationNo, Kept>,
    /// Of all in `segments`.
    sealed_bytes: u64,
    going: BTreeMap<GenerationNo, Going>,
    pub live: Live,
    /// Its part of what the store takes for unsealed records beyond their bytes.
    pub overhead_bytes: u64,
    pub full: bool,
    pub alarm: bool,
    /// Nobody wants its records any more: each segment goes.
    pub dropped: bool,
}

impl Topic {
    pub(super) fn new(name: String, policy: TopicPolicy) -> Self {
        Self {
            name,
            policy,
            segments: BTreeMap::new(),
            sealed_bytes: 0,
            going: BTreeMap::new(),
            live: Live::default(),
            overhead_bytes: 0,
            full: false,
            alarm: false,
            dropped: false,
        }
    }

    /// Bytes that count against the quota.
    pub(super) fn used_bytes(&self) -> u64 {
        self.sealed_bytes + self.live.bytes() + self.overhead_bytes
    }

    /// Segments that are kept.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Takes a segment that the store has sealed.
    pub(super) fn insert(&mut self, segment: &SegmentInfo, sealed_at: EventTime) {
        for range in &segment.ranges {
            self.live.sealed(range.partition, range.end);
        }
        self.removed(segment.id.generation);
        self.sealed_bytes += segment.bytes;
        let kept = Kept {
            bytes: segment.bytes,
            sealed_at,
            ranges: segment.ranges.clone(),
        };
        self.segments.insert(segment.id.generation, kept);
    }

    /// The store has removed a segment.
    pub(super) fn removed(&mut self, generation: GenerationNo) {
        self.going.remove(&generation);
        if let Some(kept) = self.segments.remove(&generation) {
            self.sealed_bytes -= kept.bytes;
        }
    }

    /// Bytes of segments whose removal was asked for and not confirmed.
    pub(super) fn going_bytes(&self) -> u64 {
        self.going.values().map(|going| going.bytes).sum()
    }

    /// The oldest segment that is kept.
    pub(super) fn oldest(&self) -> Option<&Kept> {
        self.segments.first_key_value().map(|(_, kept)| kept)
    }

    /// Its generation.
    pub(super) fn oldest_generation(&self) -> Option<GenerationNo> {
        self.segments
            .first_key_value()
            .map(|(generation, _)| *generation)
    }

    /// First offset of a partition in the segments that are kept.
    pub(super) fn first_kept(&self, partition: PartitionId) -> Option<Offset> {
        let mut ranges = self.segments.values().flat_map(|kept| &kept.ranges);
        ranges
            .find(|range| range.partition == partition)
            .map(|range| range.first)
    }

    /// Notes that the oldest segment is being removed; gives it.
    pub(super) fn remove_oldest(&mut self, now: Mono) -> Option<(GenerationNo, Kept)> {
        let (generation, kept) = self.segments.pop_first()?;
        self.sealed_bytes -= kept.bytes;
        let going = Going {
            bytes: kept.bytes,
            asked: now,
        };
        self.going.insert(generation, going);
        Some((generation, kept))
    }

    /// A segment whose removal was asked for so long ago that it is asked again.
    pub(super) fn ask_again(&mut self, now: Mono) -> Option<GenerationNo> {
        let late = |going: &Going| now.0.saturating_sub(going.asked.0) >= ASK_AGAIN_US;
        let mut going = self.going.iter_mut();
        let (generation, going) = going.find(|(_, going)| late(going))?;
        going.asked = now;
        Some(*generation)
    }

    /// When [`Topic::ask_again`] has something.
    pub(super) fn asks_again_at(&self) -> Option<Mono> {
        let asked = self.going.values().map(|going| going.asked);
        asked.min().map(|asked| Mono(asked.0 + ASK_AGAIN_US))
    }

    /// The oldest has been kept for longer than the policy says.
    pub(super) fn is_aged(&self, now: EventTime) -> bool {
        let oldest = self.oldest().map(|kept| kept.sealed_at);
        let limit = self.policy.age.and_then(|age| now.0.checked_sub(age.0));
        matches!((oldest, limit), (Some(oldest), Some(limit)) if oldest.0 <= limit)
    }

    /// When the oldest becomes too old.
    pub(super) fn ages_at(&self) -> Option<EventTime> {
        let oldest = self.oldest()?;
        let age = self.policy.age?;
        Some(EventTime(oldest.sealed_at.0.saturating_add(age.0)))
    }

    /// Whether a segment should go for the quota.
    pub(super) fn is_over(&self) -> bool {
        let limit_bytes = match self.policy.when_full {
            WhenFull::DropOldest => self.policy.quota_bytes,
            // Earlier than it becomes full: what was forwarded makes room in time.
            WhenFull::RejectNew | WhenFull::Block => self.opens_at_bytes(),
        };
        self.used_bytes() > limit_bytes || self.segments() > SEGMENTS_PER_TOPIC_MAX
    }

    /// A full topic takes new records again from here down.
    fn opens_at_bytes(&self) -> u64 {
        let quota = self.policy.quota_bytes;
        quota - quota / GENERATIONS_PER_QUOTA
    }

    /// Judges anew whether the topic is full and whether it is nearly so; true when
    /// one of them changed. `disk_full` is about the whole disk, `disk_free` too:
    /// between the two a full topic stays full.
    pub(super) fn judge(&mut self, disk_full: bool, disk_free: bool) -> bool {
        let before = (self.full, self.alarm);
        let (used, quota) = (self.used_bytes(), self.policy.quota_bytes);
        let many = self.segments() > SEGMENTS_PER_TOPIC_MAX;
        self.full = match self.policy.when_full {
            WhenFull::DropOldest => false,
            WhenFull::RejectNew | WhenFull::Block if self.full => {
                used > self.opens_at_bytes() || !disk_free || many
            }
            WhenFull::RejectNew | WhenFull::Block => used >= quota || disk_full || many,
        };
        let percent = if self.alarm {
            ALARM_OFF_PERCENT
        } else {
            ALARM_ON_PERCENT
        };
        self.alarm = used >= quota / 100 * percent;
        before != (self.full, self.alarm)
    }

    /// Whether gaps that say what is rejected still have room.
    pub(super) fn has_room_for_gaps(&self) -> bool {
        let quota = self.policy.quota_bytes;
        self.used_bytes() < quota + quota / 100 * GAPS_PERCENT
    }
}
