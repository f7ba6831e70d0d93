//! All topics together, and the disk that they share: what the store says of them,
//! and what operators hear.

use std::collections::BTreeMap;

use super::dropped::{Came, DropCounts, Dropped};
use super::notices::{Notices, size};
use super::policy::{SpaceConfig, TopicPolicy, WhenFull};
use super::topic::Topic;
use crate::limits::RESERVE_PART;
use crate::link::session::Room;
use crate::log::key::TopicPartition;
use crate::store::{SegmentInfo, StoreError, StoreEvent, StoreOpened};
use crate::units::{EventTime, Mono, Now, Offset, TopicId};

/// Records of which nothing but their number is known are taken to have this many
/// bytes: few, so that a restart drops nothing early. What the store says of its
/// disk comes on top.
const RECORD_BYTES_GUESS: u64 = 4;

/// A meta entry: key and value.
type MetaEntry = (Vec<u8>, Vec<u8>);

/// How far the consumers of a partition are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// How far it has come on its way out; `None` when nothing is forwarded.
    pub came: Option<Came>,
    /// Nobody needs anything below any more.
    pub done: Offset,
    /// The accounts of devices know all below without the log.
    pub accounted: Offset,
    /// Engines have taken all below, and know all below the second without the log.
    pub taken: Offset,
    pub kept: Offset,
}

impl Progress {
    /// Whether a range that ends here may go with nothing lost but itself. What engines
    /// did not take yet they will not have.
    pub(super) fn is_known(&self, end: Offset) -> bool {
        let is_kept = self.kept >= end || self.taken < end;
        self.accounted >= end && is_kept
    }
}

/// The room of one topic, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicUse {
    pub topic: TopicId,
    pub name: String,
    pub policy: TopicPolicy,
    pub used_bytes: u64,
    pub segments: usize,
    /// Smallest event time in the oldest sealed segment.
    pub oldest: Option<EventTime>,
    pub counts: DropCounts,
    /// At least 80 % of the quota is used.
    pub alarm: bool,
    /// New records are rejected or wait.
    pub full: bool,
}

/// What is known of the disk.
#[derive(Debug, Default)]
pub(super) struct Disk {
    free_bytes: Option<u64>,
    /// Taken by what is not sealed, at the last report.
    live_bytes: u64,
    /// Bytes of segments asked to go since the free bytes were last told.
    pub freeing_bytes: u64,
    pub trouble: Option<StoreError>,
}

/// See the module.
#[derive(Debug)]
pub struct Retention {
    config: SpaceConfig,
    pub(super) topics: BTreeMap<TopicId, Topic>,
    pub(super) dropped: Dropped,
    pub(super) disk: Disk,
    /// A pair of times that belong together: the clock goes on from here.
    epoch: Now,
    /// Something changed since segments were last chosen.
    pub(super) dirty: bool,
    /// A segment has to go of which accounts or checkpoints do not know all yet.
    pub(super) wants_accounts: bool,
    /// Ends of the segments that wait for that.
    pub(super) waiting: BTreeMap<TopicPartition, Offset>,
    pub(super) notices: Notices,
}

impl Retention {
    /// The room of a log that was just opened. `names` are the topics with the names
    /// that policies go by: a stream's is that of its window.
    #[must_use]
    pub fn new(
        config: SpaceConfig,
        names: impl IntoIterator<Item = (TopicId, String)>,
        (opened, meta): (&StoreOpened, &[MetaEntry]),
        came: impl Fn(TopicPartition) -> Option<Came>,
        now: Now,
    ) -> Self {
        let topics = names.into_iter().map(|(topic, name)| {
            let policy = config.policy(&name);
            (topic, Topic::new(name, policy))
        });
        let newest = opened.segments.iter().map(|segment| segment.sealed_at);
        // A clock that is behind what the log holds starts at its newest.
        let utc = newest.chain([now.utc]).max().unwrap_or(now.utc);
        let mut retention = Self {
            topics: topics.collect(),
            dropped: Dropped::restore(meta, &opened.losses),
            disk: Disk::default(),
            epoch: Now {
                mono: now.mono,
                utc,
            },
            dirty: true,
            wants_accounts: false,
            waiting: BTreeMap::new(),
            notices: Notices::default(),
            config,
        };
        for segment in &opened.segments {
            retention.insert(segment, segment.sealed_at, &came);
        }
        for (at, head) in &opened.heads {
            retention.guess_live(*at, *head, &opened.segments);
        }
        retention
    }

    /// A topic that is new since the log was opened; `name` is its window's.
    pub fn add_topic(&mut self, topic: TopicId, name: &str) {
        let policy = self.config.policy(name);
        let new = || Topic::new(String::from(name), policy);
        self.topics.entry(topic).or_insert_with(new);
    }

    /// Lets all records of a topic go: what is sealed now, the rest when it is.
    pub fn drop_topic(&mut self, topic: TopicId) {
        if let Some(topic) = self.topics.get_mut(&topic) {
            topic.dropped = true;
            self.dirty = true;
        }
    }

    /// What stands above the sealed segments when the log is opened.
    fn guess_live(&mut self, at: TopicPartition, head: Offset, segments: &[SegmentInfo]) {
        let of_topic = segments.iter().filter(|s| s.id.topic == at.topic);
        let ranges = of_topic.flat_map(|segment| &segment.ranges);
        let ends = ranges.filter(|range| range.partition == at.partition);
        let sealed = ends.map(|range| range.end).max().unwrap_or(Offset(0));
        // A partition of which nothing is kept any more has no segment.
        let gone = self.dropped.of(at).counted_to.max(sealed.0);
        let records = head.0.saturating_sub(gone);
        if records > 0 {
            let bytes = records.saturating_mul(RECORD_BYTES_GUESS);
            self.topic(at.topic).live.add(at.partition, head, bytes);
        }
    }

    pub(super) fn topic(&mut self, topic: TopicId) -> &mut Topic {
        let config = &self.config;
        self.topics.entry(topic).or_insert_with(|| {
            let name = format!("topic {}", topic.0);
            let policy = config.policy(&name);
            Topic::new(name, policy)
        })
    }

    fn insert(
        &mut self,
        segment: &SegmentInfo,
        sealed_at: EventTime,
        came: &impl Fn(TopicPartition) -> Option<Came>,
    ) {
        let id = segment.id;
        self.topic(id.topic).insert(segment, sealed_at);
        for range in &segment.ranges {
            let at = TopicPartition {
                topic: id.topic,
                partition: range.partition,
            };
            let first = self.topic(id.topic).first_kept(range.partition);
            if first == Some(range.first) {
                self.dropped.kept_from(at, range.first, came(at));
            }
        }
        self.dirty = true;
    }

    /// A batch leaves for the store with `bytes` of blocks of one partition, up to
    /// `end`.
    pub fn on_written(&mut self, at: TopicPartition, end: Offset, bytes: u64) {
        self.topic(at.topic).live.add(at.partition, end, bytes);
        self.dirty = true;
    }

    /// The store has something to say.
    pub fn on_event(
        &mut self,
        event: &StoreEvent,
        came: impl Fn(TopicPartition) -> Option<Came>,
        now: Mono,
    ) {
        match event {
            StoreEvent::Sealed(segments) => {
                let sealed_at = self.utc(now);
                for segment in segments {
                    self.insert(segment, sealed_at, &came);
                }
            }
            StoreEvent::Removed(segments) => {
                for id in segments {
                    self.topic(id.topic).removed(id.generation);
                }
            }
            StoreEvent::Disk {
                free_bytes,
                live_bytes,
            } => self.on_disk(*free_bytes, *live_bytes),
            StoreEvent::Trouble(error) => {
                // Told once: what is removed for it must not grow with the repeats.
                if error.no_space && self.disk.trouble.is_none() {
                    self.disk.free_bytes = Some(0);
                    self.disk.freeing_bytes = 0;
                }
                self.disk.trouble = Some(error.clone());
            }
            StoreEvent::Recovered => self.disk.trouble = None,
            StoreEvent::Lost(_)
            | StoreEvent::Note(_)
            | StoreEvent::Written(_)
            | StoreEvent::SetAside(_) => {}
        }
        self.dirty = true;
    }

    fn on_disk(&mut self, free_bytes: u64, live_bytes: u64) {
        self.disk.free_bytes = Some(free_bytes);
        self.disk.live_bytes = live_bytes;
        let asked = self.topics.values().map(Topic::going_bytes);
        self.disk.freeing_bytes = asked.sum();
        let known: u64 = self.topics.values().map(|topic| topic.live.bytes()).sum();
        let overhead = live_bytes.saturating_sub(known);
        let count = self.topics.len().max(1) as u64;
        for topic in self.topics.values_mut() {
            let share = u128::from(overhead) * u128::from(topic.live.bytes());
            let share = share.checked_div(u128::from(known));
            let share = share.and_then(|share| u64::try_from(share).ok());
            topic.overhead_bytes = share.unwrap_or(overhead / count);
        }
    }

    /// A reader did not find `[first, end)`. At the front of what is kept it was
    /// removed just before a crash, where no segment is left to say so.
    pub fn not_found(
        &mut self,
        at: TopicPartition,
        (first, end): (Offset, Offset),
        came: Option<Came>,
    ) {
        if first.0 <= self.dropped.of(at).counted_to {
            self.dropped.kept_from(at, end, came);
            // A start that knew of no segment took them for what is not sealed yet: a topic
            // that they fill would wait for ever.
            self.topic(at.topic).live.sealed(at.partition, end);
            self.dirty = true;
        }
    }

    /// A full topic did not take `rows`.
    pub fn refuse_rows(&mut self, at: TopicPartition, rows: u64) {
        self.dropped.refuse(at, rows);
    }

    /// The time of this run's clock, which never jumps.
    pub(super) fn utc(&self, now: Mono) -> EventTime {
        let elapsed = now.0.saturating_sub(self.epoch.mono.0);
        let elapsed = i64::try_from(elapsed).unwrap_or(i64::MAX);
        EventTime(self.epoch.utc.0.saturating_add(elapsed))
    }

    fn mono(&self, at: EventTime) -> Mono {
        let ahead = at.0.saturating_sub(self.epoch.utc.0).max(0);
        Mono(self.epoch.mono.0.saturating_add(ahead.unsigned_abs()))
    }

    /// Bytes that the disk lacks to its reserve, with what is being removed.
    pub(super) fn short_bytes(&self) -> u64 {
        let free = self.disk.free_bytes.unwrap_or(u64::MAX);
        let free = free.saturating_add(self.disk.freeing_bytes);
        self.reserve_bytes().max(1).saturating_sub(free)
    }

    /// What stays free: as configured, but not more than a part of what the log could
    /// have. A small disk would else keep nothing, and one that others fill would
    /// cost all of the log at once.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        let free = self.disk.free_bytes.unwrap_or(u64::MAX);
        let free = free.saturating_add(self.disk.freeing_bytes);
        let used: u64 = self.topics.values().map(Topic::used_bytes).sum();
        let part = free.saturating_add(used) / RESERVE_PART;
        self.config.reserve_bytes.min(part)
    }

    pub(super) fn judge(&mut self, now: Mono) {
        let short = self.short_bytes();
        let free = self.disk.free_bytes.unwrap_or(u64::MAX);
        let reserve = self.reserve_bytes();
        let sentence = self.short_sentence();
        self.notices.disk(sentence, now);
        // A little more than the reserve, so that it does not go to and fro.
        let disk_free = short == 0 && free >= reserve.saturating_add(reserve / 16);
        for (id, topic) in &mut self.topics {
            if topic.judge(short > 0, disk_free) {
                self.notices.changed(*id, topic, now);
            }
        }
    }

    /// What happens to a new record of `topic`.
    #[must_use]
    pub fn room(&self, topic: TopicId) -> Room {
        let Some(topic) = self.topics.get(&topic).filter(|topic| topic.full) else {
            return Room::Take;
        };
        let free = self.disk.free_bytes.unwrap_or(u64::MAX);
        let has_disk = free >= self.reserve_bytes() / 2;
        match topic.policy.when_full {
            WhenFull::DropOldest => Room::Take,
            WhenFull::RejectNew if has_disk && topic.has_room_for_gaps() => Room::Reject,
            WhenFull::RejectNew | WhenFull::Block => Room::Wait,
        }
    }

    /// Whether segments wait for accounts of devices or states of engines to be kept.
    #[must_use]
    pub fn wants_accounts(&self) -> bool {
        self.wants_accounts
    }

    /// Where a segment ends that waits until what it says is kept elsewhere.
    #[must_use]
    pub fn waiting(&self, at: TopicPartition) -> Option<Offset> {
        self.waiting.get(&at).copied()
    }

    /// When [`Retention::poll`] wants to be called without anything happening.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let ages = self.topics.values().filter_map(Topic::ages_at);
        // What waits for the accounts goes when they are kept, not at some time.
        let ages = ages.filter(|_| !self.wants_accounts);
        let ages = ages.map(|at| self.mono(at));
        let again = self.topics.values().filter_map(Topic::asks_again_at);
        ages.chain(again).chain(self.dirty.then_some(Mono(0))).min()
    }

    /// Meta entries that keep the counts, when they changed.
    pub fn take_entries(&mut self) -> Vec<MetaEntry> {
        self.dropped.take_entries()
    }

    /// The next sentence for the operator.
    pub fn poll_note(&mut self, now: Mono) -> Option<String> {
        let topics = &self.topics;
        self.notices.poll(
            |id| topics.get(&id).map(|t| (t.name.clone(), t.policy)),
            now,
        )
    }

    /// What is wrong with the room, in a sentence; `None` when nothing is.
    #[must_use]
    pub fn health(&self) -> Option<String> {
        if let Some(error) = &self.disk.trouble {
            let help = if error.no_space {
                "the disk is full: make room on it; "
            } else {
                ""
            };
            return Some(format!(
                "{error}; {help}nothing new is acked until a write works again"
            ));
        }
        let Some(full) = self.topics.values().find(|topic| topic.full) else {
            return self.short_sentence();
        };
        let what = match full.policy.when_full {
            WhenFull::RejectNew => "new records are rejected and counted",
            WhenFull::Block | WhenFull::DropOldest => "devices wait with new readings",
        };
        Some(format!(
            "topic {} is full: {what} until what it holds was forwarded",
            full.name
        ))
    }

    /// Why nothing can be written, when the store says so.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.health().filter(|_| self.is_in_trouble())
    }

    /// That the disk is at its reserve, when it is.
    #[must_use]
    pub fn short_sentence(&self) -> Option<String> {
        let free = self.disk.free_bytes.filter(|_| self.short_bytes() > 0)?;
        Some(format!(
            "the disk has {} free, less than its reserve of {}: the oldest records are dropped \
             for it",
            size(free),
            size(self.reserve_bytes()),
        ))
    }

    /// Whether the store says that it cannot write.
    #[must_use]
    pub fn is_in_trouble(&self) -> bool {
        self.disk.trouble.is_some()
    }

    /// Topics that take no new rows.
    pub fn full_topics(&self) -> impl Iterator<Item = TopicId> + '_ {
        let full = self.topics.iter().filter(|(_, topic)| topic.full);
        full.map(|(id, _)| *id)
    }

    /// Free bytes of the disk, when the store has said so.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        self.disk.free_bytes
    }

    /// Bytes that the store takes for what is not sealed yet.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.disk.live_bytes
    }

    /// The room of each topic, in order.
    pub fn topics(&self) -> impl Iterator<Item = TopicUse> + '_ {
        self.topics.iter().map(|(id, topic)| TopicUse {
            topic: *id,
            name: topic.name.clone(),
            policy: topic.policy,
            used_bytes: topic.used_bytes(),
            segments: topic.segments(),
            oldest: topic.oldest().and_then(|kept| {
                let times = kept.ranges.iter().map(|range| range.time_min);
                times.min()
            }),
            counts: self.dropped.of_topic(*id),
            alarm: topic.alarm,
            full: topic.full,
        })
    }

    /// Counts of one partition.
    #[must_use]
    pub fn counts(&self, at: TopicPartition) -> DropCounts {
        self.dropped.of(at)
    }
}
