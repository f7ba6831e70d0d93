//! Readers of changes on their way along the durable head. Bound: [`FOLLOWERS_MAX`].

use std::collections::BTreeMap;

use super::{Gateway, Reader};
use crate::effect::{Effect, QueryId};
use crate::follow::{Follow, FollowNext, FollowOf, FollowRequest};
use crate::limits::FOLLOWERS_MAX;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::CHANGES;
use crate::units::{Mono, Offset, PartitionId, TopicId};

impl Gateway {
    pub(super) fn start_follow(
        &mut self,
        id: QueryId,
        request: &FollowRequest,
        now: Mono,
    ) -> Result<(), String> {
        if self.followers.len() >= FOLLOWERS_MAX {
            return Err(format!(
                "{FOLLOWERS_MAX} readers of changes wait already: end one of them"
            ));
        }
        let of = self.follow_of(request)?;
        let heads = self.heads_of(of.topic);
        let follow = Follow::start(request, of, &heads, now)?;
        self.followers.insert(id, follow);
        self.step_follower(id, now);
        Ok(())
    }

    /// Which topic a name stands for.
    pub(super) fn follow_of(&self, request: &FollowRequest) -> Result<FollowOf, String> {
        let (named, table) = self.named(request)?;
        let names: BTreeMap<TopicId, &str> = self.topics.streams().collect();
        let name = |topic: TopicId| {
            names
                .get(&topic)
                .map_or_else(String::new, |n| (*n).to_owned())
        };
        // What a reader began with it reads to its end.
        let is_known = |topic: &TopicId| names.contains_key(topic);
        let before = request.topic.filter(is_known);
        let topic = before.unwrap_or(named);
        let moved = self
            .moved
            .get(&topic)
            .filter(|_| before.is_some() && topic != named);
        let moved = moved.map(|moved| (moved.to, name(moved.to), moved.next.clone()));
        Ok(FollowOf {
            topic,
            stream: name(topic),
            table,
            moved,
        })
    }

    fn named(&self, request: &FollowRequest) -> Result<(TopicId, Option<String>), String> {
        let (name, table) = (&request.stream, request.table.clone());
        let names: BTreeMap<TopicId, String> = self.topics.windows().collect();
        let mut live = self.live.topics.iter().flatten();
        let of_view = live.find(|topic| names.get(topic) == Some(name)).copied();
        let mut streams = self.topics.streams();
        let of_wire = streams.find(|(_, wire)| *wire == name);
        let found = of_view.or(of_wire.map(|(topic, _)| topic));
        let mut tables = self.live.engine.tables.iter();
        let is_table = tables.any(|table| table.name == *name);
        match found {
            Some(topic) => Ok((topic, table)),
            None if is_table => Ok((CHANGES, Some(name.clone()))),
            None => {
                let streams = self.topics.streams().map(|(_, name)| name);
                let tables = self.live.engine.tables.iter();
                let known: Vec<&str> = streams.chain(tables.map(|table| &*table.name)).collect();
                Err(format!(
                    "no stream is called \"{name}\": there are {}",
                    known.join(", ")
                ))
            }
        }
    }

    pub(super) fn heads_of(&self, topic: TopicId) -> BTreeMap<PartitionId, Offset> {
        let heads = self.commit.heads().filter(|(at, _)| at.topic == topic);
        heads.map(|(at, head)| (at.partition, head)).collect()
    }

    pub(super) fn on_followed(
        &mut self,
        id: QueryId,
        at: TopicPartition,
        blocks: &[StoredBlock],
        now: Mono,
    ) {
        let head = self.commit.head(at);
        if let Some(follow) = self.followers.get_mut(&id) {
            follow.on_fetched(at, blocks, head);
            self.step_follower(id, now);
        }
    }

    /// Something became durable, or somebody has waited long enough.
    pub(super) fn step_followers(&mut self, now: Mono) {
        let ids: Vec<QueryId> = self.followers.keys().copied().collect();
        for id in ids {
            self.step_follower(id, now);
        }
    }

    fn step_follower(&mut self, id: QueryId, now: Mono) {
        let Some(topic) = self.followers.get(&id).map(Follow::topic) else {
            return;
        };
        let heads = self.heads_of(topic);
        let Some(follow) = self.followers.get_mut(&id) else {
            return;
        };
        match follow.next(&heads, now) {
            FollowNext::Fetch(at, from) => self.fetch(at, from, Reader::Follow(id, at)),
            FollowNext::Wait => {}
            FollowNext::Done => {
                if let Some(follow) = self.followers.remove(&id) {
                    let answer = Ok(follow.finish(&heads).into());
                    self.effects.push_back(Effect::Answer(id, answer));
                }
            }
        }
    }
}
