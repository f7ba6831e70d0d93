//! What a broker keeps for a client: its filters, what waits for it, what it has
//! not acked.
//!
//! Always holds: a message keeps its packet number until it is acked; no number is
//! used twice at once. Bound: what a test publishes. Knows no connection's bytes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::codec::{Connect, Publish, Version};
use super::hub::LinkNo;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) link: Option<LinkNo>,
    pub(super) version: Version,
    /// Filters with their QoS.
    pub(super) filters: BTreeMap<String, u8>,
    /// What waits; a message that was sent before has its number.
    pub(super) queue: VecDeque<Publish>,
    /// Sent and not acked, in order of sending.
    pub(super) unacked: VecDeque<Publish>,
    next_id: u16,
    receive_max: usize,
    expiry: Duration,
    /// When it is forgotten, while there is no connection.
    pub(super) ends: Option<Duration>,
    pub(super) will: Option<Publish>,
}

impl Session {
    pub(super) fn new(version: Version) -> Self {
        Self {
            link: None,
            version,
            filters: BTreeMap::new(),
            queue: VecDeque::new(),
            unacked: VecDeque::new(),
            // Soon past the largest number, so that every test sees it come round.
            next_id: u16::MAX - 20,
            receive_max: 1,
            expiry: Duration::ZERO,
            ends: None,
            will: None,
        }
    }

    /// A connection takes it up: what was not acked goes out again first.
    pub(super) fn open(&mut self, link: LinkNo, connect: &Connect) {
        self.link = Some(link);
        self.version = connect.version;
        self.receive_max = usize::from(connect.receive_max.max(1));
        self.expiry = Duration::from_secs(u64::from(connect.expiry_s));
        self.ends = None;
        self.will.clone_from(&connect.will);
        while let Some(mut publish) = self.unacked.pop_back() {
            publish.dup = true;
            self.queue.push_front(publish);
        }
    }

    /// False when it ends with its connection.
    pub(super) fn close(&mut self, now: Duration) -> bool {
        self.link = None;
        self.ends = Some(now.saturating_add(self.expiry));
        !self.expiry.is_zero()
    }

    /// The QoS with which it takes a topic by itself, without a group.
    pub(super) fn takes(&self, topic: &str) -> Option<u8> {
        let own = self.filters.iter().filter_map(|(filter, qos)| {
            let (group, filter) = super::filter::shared(filter);
            (group.is_none() && super::filter::takes(filter, topic)).then_some(*qos)
        });
        own.max()
    }

    /// The groups by which it takes a topic.
    pub(super) fn groups(&self, topic: &str) -> impl Iterator<Item = (&str, u8)> {
        let topic = topic.to_owned();
        self.filters.iter().filter_map(move |(filter, qos)| {
            let (group, filter) = super::filter::shared(filter);
            group
                .filter(|_| super::filter::takes(filter, &topic))
                .map(|group| (group, *qos))
        })
    }

    /// The next message to go out, with its number, if the client takes one more.
    pub(super) fn next(&mut self) -> Option<Publish> {
        if self.queue.front()?.qos > 0 && self.unacked.len() >= self.receive_max {
            return None;
        }
        let mut publish = self.queue.pop_front()?;
        if publish.qos > 0 {
            if publish.id == 0 {
                publish.id = self.free_id();
            }
            self.unacked.push_back(publish.clone());
        }
        Some(publish)
    }

    fn free_id(&mut self) -> u16 {
        loop {
            self.next_id = self.next_id.checked_add(1).unwrap_or(1);
            let id = self.next_id;
            let mut taken = self.unacked.iter().chain(&self.queue);
            if !taken.any(|publish| publish.id == id) {
                return id;
            }
        }
    }

    pub(super) fn acked(&mut self, id: u16) {
        self.unacked.retain(|publish| publish.id != id);
    }
}
