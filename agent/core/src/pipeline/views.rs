//! Views as operators see them: what there is, how far it has come, what may go, and what
//! is to be made anew.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::build::{Build, Live};
use super::{Founding, Gateway};
use crate::exchange::CROSSING_PARTITION;
use crate::log::topic::{DERIVED_FIRST, LATE, QUARANTINE};
use crate::query::Answer;
use crate::readers::Readers;
use crate::topics::{stream_name, streams};
use crate::units::{EventTime, Mono, PartitionId, TopicId};
use crate::views::{dropped_entry, from_entry, renew_entry};

/// What is to be known of a topic beside its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Live,
    Building,
    /// Nothing writes it any more.
    Standing,
    /// Its rows go.
    Dropped,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Building => "building",
            Self::Standing => "standing",
            Self::Dropped => "dropped",
        }
    }
}

impl Gateway {
    fn state_of(&self, topic: TopicId) -> State {
        let builds = |build: &Build| build.pipeline.topics.contains(&Some(topic));
        if self.live.topics.contains(&Some(topic)) {
            State::Live
        } else if self.build.as_ref().is_some_and(builds) {
            State::Building
        } else if self.dropped.contains(&topic) {
            State::Dropped
        } else {
            State::Standing
        }
    }

    /// All derived streams.
    pub(super) fn views_answer(&self) -> Value {
        let hashes: BTreeMap<TopicId, String> = self.topics.definitions().collect();
        let windows: BTreeMap<TopicId, String> = self.topics.windows().collect();
        let bytes: BTreeMap<TopicId, u64> = self
            .retention
            .topics()
            .map(|topic| (topic.topic, topic.used_bytes))
            .collect();
        let streams = self.topics.streams();
        let derived = streams.filter(|(topic, _)| *topic >= DERIVED_FIRST);
        let views = derived.map(|(topic, stream)| {
            let heads = self.commit.heads().filter(|(at, _)| at.topic == topic);
            let (mut written, mut kept) = (0, 0);
            for (at, head) in heads {
                written += head.0;
                kept += head.0.saturating_sub(self.retention.counts(at).counted_to);
            }
            json!({
                "view": windows.get(&topic),
                "stream": stream,
                "topic": topic.0,
                "definition": hashes.get(&topic),
                "state": self.state_of(topic).name(),
                "rows": kept,
                "rows_written": written,
                "bytes": bytes.get(&topic).copied().unwrap_or_default(),
                "moved_to": self.moved.get(&topic).map(|moved| moved.to.0),
            })
        });
        let views = views.collect::<Value>();
        let building = self.build.as_ref().map(|build| {
            let caps = self.live_cursors();
            let behind = caps.as_ref().map(|caps| build.behind(caps));
            let read = caps.map(|caps| caps.values().map(|cap| cap.0).sum::<u64>());
            json!({ "readings_behind": behind, "readings": read })
        });
        json!({ "views": views, "building": building })
    }

    /// The topic and the window's name of a stream on the wire.
    fn derived(&self, stream: &str) -> Result<TopicId, String> {
        let mut streams = self.topics.streams();
        let found = streams.find(|(topic, wire)| *topic >= DERIVED_FIRST && *wire == stream);
        found.map(|(topic, _)| topic).ok_or_else(|| {
            let streams = self.topics.streams();
            let derived = streams.filter(|(topic, _)| *topic >= DERIVED_FIRST);
            let known: Vec<&str> = derived.map(|(_, name)| name).collect();
            format!(
                "no view is called \"{stream}\": there are {}",
                known.join(", ")
            )
        })
    }

    /// Lets the rows of a stream go.
    pub(super) fn drop_view(&mut self, stream: &str, now: Mono) -> Answer {
        let topic = self.derived(stream)?;
        match self.state_of(topic) {
            State::Live => {
                return Err(format!(
                    "{stream} is live: take its section out of the config and start the agent \
                     again, or build it anew, and drop it then"
                ));
            }
            State::Building => {
                return Err(format!(
                    "{stream} is being built: take its section out of the config and start the \
                     agent again, and drop it then"
                ));
            }
            State::Standing | State::Dropped => {}
        }
        self.retention.drop_topic(topic);
        self.dropped.insert(topic);
        self.keep(vec![dropped_entry(topic)], now);
        let heads = self.commit.heads().filter(|(at, _)| at.topic == topic);
        let counted = |at| self.retention.counts(at).counted_to;
        let rows: u64 = heads
            .map(|(at, head)| head.0.saturating_sub(counted(at)))
            .sum();
        Ok(json!({ "stream": stream, "topic": topic.0, "rows": rows }).into())
    }

    /// Begins to make the rows of a window anew.
    pub(super) fn rebuild_view(
        &mut self,
        name: &str,
        from: Option<EventTime>,
        now: Mono,
    ) -> Answer {
        let engine = self.live.engine.clone();
        let at = (0..streams(&engine)).find(|at| stream_name(&engine, *at) == name);
        let Some(at) = at else {
            let all = 0..streams(&engine);
            let names: Vec<&str> = all.map(|at| stream_name(&engine, at)).collect();
            return Err(format!(
                "there is no live view \"{name}\": there are {}",
                names.join(", ")
            ));
        };
        if self.build.is_some() {
            return Err(String::from(
                "views are being built: wait until that is done",
            ));
        }
        if self.draining || !self.is_recovered() {
            return Err(String::from(
                "the agent starts or stops: ask again in a moment",
            ));
        }
        if self.exchange.is_some() {
            return Err(String::from(
                "views cross devices of several partitions here: stop the agent and run \
                 `forebay replay --view`",
            ));
        }
        let prepared = self.topics.prepare(&engine, at);
        let (topic, entry) = prepared.map_err(|error| error.to_string())?;
        let mut entries: Vec<_> = entry.into_iter().collect();
        entries.push(renew_entry(name, from));
        let begins: Vec<_> = from
            .map(|from| from_entry(topic, from))
            .into_iter()
            .collect();
        entries.extend(begins.clone());
        let mut topics = self.live.topics.clone();
        let muted = muted(&topics);
        topics[at] = Some(topic);
        let of = (&self.commit, now);
        let layouts = (self.readers.layouts().clone(), false);
        let mut readers = Readers::beside(&engine, topics.clone(), layouts, &begins, of, muted);
        readers.set_base(self.changes.base());
        entries.extend(readers.take_filled());
        self.keep(entries, now);
        let streams: BTreeMap<TopicId, &str> = self.topics.streams().collect();
        let wire = streams.get(&topic).copied().unwrap_or_default().to_owned();
        self.take_up(topic, name, &wire);
        self.build = Some(Build {
            readers,
            pipeline: Live {
                engine,
                slot: self.live.slot + 1,
                text: self.live.text.clone(),
                topics,
            },
            renews: [name.to_owned()].into(),
            founding: Founding::Given,
        });
        Ok(json!({ "stream": wire, "topic": topic.0 }).into())
    }

    /// Tells the stages that know all topics from the start of a new one.
    fn take_up(&mut self, topic: TopicId, name: &str, wire: &str) {
        self.retention.add_topic(topic, name);
        let all: Vec<PartitionId> = self.partitions().chain([CROSSING_PARTITION]).collect();
        for forward in &mut self.forward {
            forward.add_stream(topic, (name, wire), &all);
        }
    }
}

/// Topics that the live readers write.
pub(super) fn muted(topics: &[Option<TopicId>]) -> BTreeSet<TopicId> {
    let windows = topics.iter().flatten().copied();
    windows.chain([LATE, QUARANTINE]).collect()
}
