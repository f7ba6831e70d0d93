//! The wiring of what is built beside the live readers: a pipeline with other windows, or
//! windows whose rows are made anew.
//!
//! Holds always: the live streams go on meanwhile, and each topic has one writer. Both
//! come to one place in the readings; one batch has the last rows of the live readers,
//! the state of those that take over, and the entry that says that they are live. So a
//! crash finds all of it, or goes on building. Bound: one build at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::{Founding, Gateway, Reader};
use crate::checkpoint::PipelineHash;
use crate::commit::CommitToken;
use crate::effect::{Effect, Note};
use crate::engine::STATE_VERSION;
use crate::engine::config::EngineConfig;
use crate::limits::VIEW_MEETING_READINGS;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::meta::Entry;
use crate::readers::{DeriveRead, Readers};
use crate::topics::{pipeline_hash, stream_name, streams};
use crate::units::{Mono, Offset, PartitionId, TopicId};
use crate::views::{Moved, Pipeline, into_slot, moved_entry, renewed_entry};

/// The pipeline of the live readers.
#[derive(Debug)]
pub(crate) struct Live {
    pub engine: EngineConfig,
    pub slot: u32,
    /// As it was given, to be kept.
    pub text: Vec<u8>,
    /// That it writes, of each view in the order of the config.
    pub topics: Vec<Option<TopicId>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Build {
    pub(super) readers: Readers,
    pub(super) pipeline: Live,
    /// Views that get a new topic though their definition is the same.
    pub(super) renews: BTreeSet<String>,
    pub(super) founding: Founding,
}

impl Build {
    /// Readings that the live readers have taken and these have not.
    pub(super) fn behind(&self, caps: &BTreeMap<PartitionId, Offset>) -> u64 {
        let behind = caps.iter().map(|(partition, cap)| {
            let cursor = self.readers.cursor(*partition);
            cap.0.saturating_sub(cursor.0)
        });
        behind.sum()
    }
}

impl Gateway {
    /// How far the live readers have come; `None` while they are not at the last layout.
    pub(super) fn live_cursors(&self) -> Option<BTreeMap<PartitionId, Offset>> {
        let all = self.partitions();
        let cursors = all.map(|partition| (partition, self.readers.cursor(partition)));
        self.readers.has_caught_up().then(|| cursors.collect())
    }

    /// The live readers wait, so that both come to one place.
    pub(super) fn is_meeting(&self) -> bool {
        let Some((build, caps)) = self.build.as_ref().zip(self.live_cursors()) else {
            return false;
        };
        let behind = build.behind(&caps);
        let near = behind <= VIEW_MEETING_READINGS;
        let comes = behind > 0 || build.readers.may_take_over();
        near && comes && build.founding == Founding::Durable
    }

    pub(super) fn build_deadline(&self) -> Option<Mono> {
        self.build.as_ref()?.readers.next_deadline(&self.commit)
    }

    pub(super) fn advance_build(&mut self, now: Mono) {
        let Some(caps) = self.live_cursors().filter(|_| self.is_recovered()) else {
            return;
        };
        let founded = |build: &mut Build| build.founding == Founding::Durable;
        let Some(mut build) = self.build.take_if(founded) else {
            return;
        };
        build.readers.set_caps(&caps);
        while self.commit.has_room_for_rows() {
            let Some((read, at, from)) = build.readers.next_fetch(&self.commit) else {
                break;
            };
            self.fetch(at, from, Reader::Build(build.pipeline.slot, read));
        }
        if let Some(entries) = build.readers.next_layout(&self.commit, now) {
            self.keep(into_slot(build.pipeline.slot, entries), now);
        }
        if build.readers.wakes(&self.commit, now) || self.has_met(&build) {
            self.commit.wake(now);
        }
        let notes = build.readers.take_notes().into_iter();
        self.effects
            .extend(notes.map(|text| Effect::Note(Note(text))));
        // What is gone the live readers have told.
        drop(build.readers.take_holes());
        self.build = Some(build);
    }

    /// Whether both have read the same, and no read is under way.
    fn has_met(&self, build: &Build) -> bool {
        let there = build.readers.cursors();
        there.is_some() && there == self.readers.cursors() && build.readers.may_take_over()
    }

    pub(super) fn on_build_fetched(
        &mut self,
        slot: u32,
        read: DeriveRead,
        blocks: &[StoredBlock],
        now: Mono,
    ) {
        if let Some(build) = self.build.as_mut().filter(|b| b.pipeline.slot == slot) {
            build
                .readers
                .on_fetched(read, blocks, now, &mut self.commit);
        }
    }

    pub(super) fn on_build_cut(&mut self, token: CommitToken) {
        if let Some(build) = &mut self.build {
            build.readers.on_cut();
            if build.founding == Founding::Given {
                build.founding = Founding::Written(token);
            }
        }
    }

    pub(super) fn on_build_committed(&mut self, token: CommitToken) {
        if let Some(build) = &mut self.build {
            build.readers.on_committed();
            if build.founding == Founding::Written(token) {
                build.founding = Founding::Durable;
            }
        }
    }

    /// Gives the batch that is about to be cut what is to be kept of a build; with it, the
    /// build takes over where it has met the live readers.
    pub(super) fn keep_build(&mut self, last: bool, now: Mono) {
        let Some(mut build) = self.build.take() else {
            return;
        };
        let ready = build.founding == Founding::Durable && self.readers.has_caught_up();
        if ready && self.has_met(&build) {
            return self.swap(build, now);
        }
        let entries = build.readers.take_entries(last, &self.commit, now);
        self.keep(into_slot(build.pipeline.slot, entries), now);
        self.build = Some(build);
    }

    fn swap(&mut self, mut build: Build, now: Mono) {
        let entries = build.readers.take_over(&self.commit, now);
        self.keep(into_slot(build.pipeline.slot, entries), now);
        let pipeline = &build.pipeline;
        let kept = Pipeline {
            slot: pipeline.slot,
            hash: hash_of(&pipeline.engine),
            text: pipeline.text.clone(),
        };
        self.keep(kept.entries(), now);
        let moved = self.moved(&build);
        let mut entries = Vec::new();
        let engine = &build.pipeline.engine;
        for at in 0..streams(engine) {
            let name = stream_name(engine, at);
            if build.renews.contains(name) {
                entries.extend(self.topics.turn(engine, at));
                entries.push(renewed_entry(name));
            }
        }
        for (name, from, moved) in moved {
            entries.push(moved_entry(from, &moved));
            self.say_moved(&name, from, &moved);
            self.moved.insert(from, moved);
        }
        self.keep(entries, now);
        self.readers = build.readers;
        self.readers.keep_in_steps();
        self.live = build.pipeline;
    }

    /// Views whose names stand for other topics when a build takes over.
    fn moved(&self, build: &Build) -> Vec<(String, TopicId, Moved)> {
        let names: BTreeMap<TopicId, String> = self.topics.windows().collect();
        let before = self.live.topics.iter().flatten();
        let before = before.filter_map(|topic| Some((names.get(topic)?.as_str(), *topic)));
        let before: BTreeMap<&str, TopicId> = before.collect();
        let mut all = Vec::new();
        for to in build.pipeline.topics.iter().flatten().copied() {
            let name = names.get(&to).map_or("", String::as_str);
            if let Some(from) = before.get(name).copied().filter(|from| *from != to) {
                let next = self.partitions().map(|partition| {
                    let at = TopicPartition {
                        topic: to,
                        partition,
                    };
                    (partition, self.commit.next(at))
                });
                let next = next.collect();
                all.push((name.to_owned(), from, Moved { to, next }));
            }
        }
        all
    }

    fn say_moved(&mut self, name: &str, from: TopicId, moved: &Moved) {
        let streams: BTreeMap<TopicId, &str> = self.topics.streams().collect();
        let wire = |topic: &TopicId| streams.get(topic).copied().unwrap_or_default().to_owned();
        let text = format!(
            "view {name}: {} has caught up and takes its place; the rows before stand in {}",
            wire(&moved.to),
            wire(&from)
        );
        self.effects.push_back(Effect::Note(Note(text)));
    }
}

pub(super) fn hash_of(engine: &EngineConfig) -> PipelineHash {
    pipeline_hash(engine, STATE_VERSION)
}

/// Entries that take keys away.
pub(super) fn removed(keys: Vec<Vec<u8>>) -> Vec<Entry> {
    keys.into_iter().map(|key| (key, Vec::new())).collect()
}
