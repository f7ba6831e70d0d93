//! The engine of the windows that cross devices: it reads the exchange, and writes rows.
//!
//! Holds always: what it emits is a function of what stands in the exchange. After a
//! restart it goes on from its last checkpoint, as the engines of partitions do; without
//! one it reads all of the exchange again, rows of records before the kept place are left
//! out, and of those after it such as stand in their topic already. Bound: as for the
//! engine of one partition. Knows no partitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::places::{Old, bytes, key_of, open};
use super::{EXCHANGE_AT, Split};
use crate::changes::Base;
use crate::checkpoint::{Manifest, PipelineHash, Unit, Unusable, keys_of, load};
use crate::clock::Heard;
use crate::commit::GroupCommit;
use crate::derive::standing::Standing;
use crate::derive::{Derive, DeriveCounters, Outlet, Outlets, Place, Restored, Seat, Since};
use crate::engine::STATE_VERSION;
use crate::engine::config::EngineConfig;
use crate::layout::CROSSING_PARTITION;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::{LATE, READINGS};
use crate::log::walk::{Met, Walk};
use crate::meta::Entry;
use crate::readers::feed::Feed;
use crate::readers::keep::difference_text;
use crate::topics::{crossing_hash, pipeline_hash};
use crate::units::{EventTime, Mono, Offset, PartitionId, Span, TopicId};

/// Behind all that is in the exchange.
const NEVER: Place = Place {
    layout: u16::MAX,
    step: 0,
    offset: Offset(0),
};

/// See the module.
#[derive(Debug)]
pub struct Across {
    stage: Derive,
    walk: Walk,
    standing: Standing,
    /// From one partition's time: all rows of its readings before these offsets are there.
    old: Old,
    /// What stands in the topics is of records before this.
    opened_at: Offset,
    is_caught_up: bool,
    notes: Vec<String>,
    pub(super) is_restored: bool,
    pub(super) keep: super::keep::Keep,
}

impl Across {
    /// The windows of `split` that cross devices, with the topics of all windows, on a log
    /// that was just opened.
    #[must_use]
    pub fn new(
        split: &Split,
        topics: &[Option<TopicId>],
        meta: &[Entry],
        (commit, now): (&GroupCommit, Mono),
    ) -> Self {
        let mut config = split.across.clone();
        // Each partition has judged by its own clock already.
        config.time.future_guard = Span(i64::MAX);
        let outlets = outlets(split, topics);
        let places: Vec<TopicPartition> = outlets.places().collect();
        let mut since = BTreeMap::new();
        let mut old = Old::new(commit.head(first_readings()));
        for at in &places {
            let (mut found, before) = open(*at, meta, commit);
            if let Some(before) = before {
                old.before.insert(*at, before);
                found.place = NEVER;
            }
            since.insert(*at, found);
        }
        let opened_at = commit.head(EXCHANGE_AT);
        let hash = split.hash();
        let seat = Seat {
            unit: Unit::CROSSING,
            hash,
            stored_until: if old.before.is_empty() {
                place(opened_at)
            } else {
                NEVER
            },
            now,
        };
        let mut stage = Derive::new(seat, &config, outlets, |at| (since[&at], commit.head(at)));
        stage.begin_at(&crate::views::froms(meta));
        let start = Start {
            config: &config,
            since: &since,
            hash,
        };
        let (restored, notes) = start.restore(meta, commit);
        let mut standing = Standing::default();
        for (at, since) in &since {
            let first = restored.as_ref().and_then(|r| r.manifest.head(at.topic));
            let rows = (first.unwrap_or(since.next), commit.head(*at));
            standing.list(*at, rows, restored.is_some());
        }
        let from = restored.as_ref().map(|r| r.manifest.place.offset);
        // What is not gone on from is in the way of what is written next.
        let stale = keys_of(meta, |unit| unit == Unit::CROSSING && restored.is_none());
        if let Some(restored) = restored {
            stage.restore(restored);
        }
        standing
            .places()
            .for_each(|at| standing.tell(at, &mut stage));
        Self {
            stage,
            walk: Walk::new(EXCHANGE_AT, from.unwrap_or_default()),
            standing,
            old,
            opened_at,
            is_caught_up: false,
            notes,
            is_restored: from.is_some(),
            keep: super::keep::Keep::new(from, stale),
        }
    }

    pub(super) fn is_loading(&self) -> bool {
        self.standing.is_loading()
    }

    pub(super) fn next_standing(&mut self) -> Option<(TopicPartition, Offset)> {
        self.standing.next_fetch()
    }

    pub(super) fn on_standing(&mut self, blocks: &[StoredBlock]) {
        if let Some(at) = self.standing.on_fetched(blocks) {
            self.standing.tell(at, &mut self.stage);
        }
    }

    /// A record at `offset` of a partition is about to stand at `next` in the exchange.
    pub(super) fn on_source(&mut self, partition: PartitionId, offset: Offset, next: Offset) {
        if partition != PartitionId(0) {
            return;
        }
        for at in self.old.take_reached(offset) {
            self.stage.set_since(at, place(next));
        }
        if self.old.take_end(offset) {
            self.stage.set_stored_until(place(next));
        }
    }

    /// The next read of the exchange, or of changes of tables.
    pub fn next_fetch(&mut self, commit: &GroupCommit) -> Option<(TopicPartition, Offset)> {
        if self.stage.wants_changes() {
            return self.stage.next_changes();
        }
        self.walk.next_fetch(commit.head(EXCHANGE_AT))
    }

    /// Takes what it brought.
    pub fn on_fetched(&mut self, blocks: &[StoredBlock], now: Mono, commit: &mut GroupCommit) {
        if self.stage.is_fetching_changes() {
            return self.stage.on_changes(blocks, now, commit);
        }
        let stage = &mut self.stage;
        let limit = commit.head(EXCHANGE_AT);
        self.walk.on_fetched_until(blocks, limit, |met| match met {
            Met::Block { block, records, .. } => {
                let mut feed = Feed {
                    stages: std::slice::from_mut(stage),
                    all: 0..1,
                    owner: |_| 0,
                    place,
                    now,
                    commit,
                };
                feed.block(block, records)
            }
            Met::Hole { first, end } => {
                // The front was trimmed before this run: nothing that it had.
                if first > Offset(0) {
                    stage.counters.records_missing += end.0 - first.0;
                }
                stage.on_hole(place(end));
                None
            }
        });
        if !self.is_caught_up && self.walk.cursor() >= self.opened_at && self.old.is_over() {
            self.is_caught_up = true;
            self.standing.clear();
            self.stage.on_caught_up();
        }
    }

    pub(super) fn heard(&mut self, now: EventTime) -> Heard {
        Heard {
            // Each partition says what does not hold.
            now: None,
            parks: false,
            ..self.stage.heard(now)
        }
    }

    pub(super) fn is_settled(&self, commit: &GroupCommit) -> bool {
        !self.is_loading() && self.walk.cursor() >= commit.head(EXCHANGE_AT)
    }

    /// Where the engine stands in the exchange.
    pub(super) fn place(&self) -> Place {
        place(self.walk.cursor())
    }

    /// Durable records that the engine has not taken yet.
    pub(super) fn behind(&self, commit: &GroupCommit) -> u64 {
        let head = commit.head(EXCHANGE_AT);
        head.0.saturating_sub(self.walk.cursor().0)
    }

    /// The engine.
    #[must_use]
    pub fn stage(&self) -> &Derive {
        &self.stage
    }

    pub(super) fn stage_mut(&mut self) -> &mut Derive {
        &mut self.stage
    }

    pub(crate) fn set_base(&mut self, base: &Arc<Base>) {
        self.stage.set_base(base);
    }

    pub(super) fn counters(&self) -> DeriveCounters {
        self.stage.counters()
    }

    /// How far topics have come, with the batch that holds all rows so far; `all` also of
    /// those without a new one.
    pub(super) fn take_entries(&mut self, all: bool, commit: &GroupCommit) -> Vec<Entry> {
        if self.is_loading() {
            return Vec::new();
        }
        let since = self.stage.take_since(self.place(), all, commit).into_iter();
        since
            .map(|(at, since)| (key_of(at.topic), bytes(since)))
            .collect()
    }

    pub(super) fn take_notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        for (topic, difference) in self.stage.take_differences() {
            notes.push(difference_text(topic, CROSSING_PARTITION, &difference));
        }
        notes
    }
}

impl Split {
    /// What the state of the engine over all partitions depends on beside the log.
    #[must_use]
    pub fn hash(&self) -> PipelineHash {
        let of = |config| pipeline_hash(config, STATE_VERSION);
        crossing_hash(of(&self.across), of(&self.by_device))
    }
}

/// Where a start goes on.
struct Start<'a> {
    config: &'a EngineConfig,
    since: &'a BTreeMap<TopicPartition, Since>,
    hash: PipelineHash,
}

impl Start<'_> {
    /// The state that is kept, where it can be used, and what an operator should hear.
    fn restore(&self, meta: &[Entry], commit: &GroupCommit) -> (Option<Restored>, Vec<String>) {
        let loaded = load(meta, Unit::CROSSING, self.hash);
        let loaded = loaded.and_then(|loaded| {
            let checked = self.check(&loaded.manifest, commit);
            checked.map_err(Unusable::Damaged)?;
            Ok(loaded)
        });
        let said = match loaded {
            Ok(loaded) => match Restored::read(loaded, self.config) {
                Ok(restored) => return (Some(restored), Vec::new()),
                Err(said) => said,
            },
            Err(Unusable::Missing) => return (None, Vec::new()),
            Err(Unusable::OtherPipeline) => {
                let said = "windows or time rules are others than before: all that cross devices \
                            are computed again from the first record of the exchange that is kept";
                return (None, vec![String::from(said)]);
            }
            Err(Unusable::Damaged(said)) => String::from(said),
        };
        let note = format!(
            "the checkpoint of the windows that cross devices is not used ({said}): they are \
             computed again from the first record of the exchange that is kept"
        );
        (None, vec![note])
    }

    /// Whether the log still has what a checkpoint is of.
    fn check(&self, manifest: &Manifest, commit: &GroupCommit) -> Result<(), &'static str> {
        if manifest.place.step != 0 || manifest.place.offset > commit.head(EXCHANGE_AT) {
            return Err("the exchange ends before it");
        }
        for (at, since) in self.since {
            match manifest.head(at.topic) {
                Some(next) if next > commit.head(*at) => {
                    return Err("rows that it had made are gone");
                }
                Some(_) => {}
                // A stream that was built anew up to the same place.
                None if since.place == manifest.place => {}
                None => return Err("a stream is new to it"),
            }
        }
        Ok(())
    }
}

/// Those that the partitions' engines have are only read by others here.
fn outlets(split: &Split, topics: &[Option<TopicId>]) -> Outlets {
    let windows = split.across.windows.iter();
    let is_ours = windows.map(|window| !window.key.device);
    let is_ours = is_ours.chain(split.across.joins.iter().map(|_| true));
    let streams = split.across_of.iter().zip(is_ours).map(|(place, is_ours)| {
        if !is_ours {
            return Outlet::Nowhere;
        }
        let topic = topics.get(*place).copied().flatten();
        topic.map_or(Outlet::Homeless, |topic| {
            Outlet::To(TopicPartition {
                topic,
                partition: PartitionId(0),
            })
        })
    });
    let late = TopicPartition {
        topic: LATE,
        partition: CROSSING_PARTITION,
    };
    Outlets::of_crossing(streams.collect(), late, split.by_device.clone())
}

fn first_readings() -> TopicPartition {
    TopicPartition {
        topic: READINGS,
        partition: PartitionId(0),
    }
}

pub(super) fn place(offset: Offset) -> Place {
    Place {
        offset,
        ..Place::default()
    }
}
