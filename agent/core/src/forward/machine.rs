//! One destination as a state machine: what it knows, and what it is told of a
//! connection and of the log.
//!
//! Holds always: nothing at or above a durable head leaves; per partition order is
//! kept, where that is asked for; a new connection starts from the marks; a mark moves
//! only over contiguous acks; what was handed over and is not under a kept mark is at
//! most FORWARD_UNKEPT_WINDOWS, so a kill resends no more. When the receiver's side shows a session
//! that is not the one it had, the broker may have lost what it had acked: the marks go
//! back to what the receiver confirmed. Knows no broker, no clock and no disk.

use std::collections::{BTreeMap, VecDeque};

use super::ahead::Ahead;
use super::config::ForwardConfig;
use super::connection::{Answer, Connection};
use super::counters::Counters;
use super::edge::Edge;
use super::giving::Ages;
use super::ids::{ConnNo, SendNo};
use super::lineage::Lineage;
use super::marks::{Marks, mark_key};
use super::pace::{Cap, Meter};
use super::place::Place;
use super::receiver::{Receiver, session_key};
use super::saving::Saving;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::READINGS;
use crate::payload::{GatewayName, StreamName};
use crate::store::{Opening, StoreInfo};
use crate::topics::TopicTable;
use crate::units::{EventTime, Mono, Offset, PartitionId, TopicId};

/// What forwarding wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum ForwardAction {
    /// Read the log; the answer goes to [`Forward::on_fetched`].
    Fetch { at: TopicPartition, from: Offset },
    Publish {
        conn: ConnNo,
        send: SendNo,
        topic: String,
        payload: Vec<u8>,
        user_properties: Vec<(String, String)>,
    },
    /// Drop the connection; its end is told by [`Forward::on_disconnected`].
    Reset { conn: ConnNo, why: String },
    /// Keep these meta entries with the next write, all or none; once they are
    /// durable, [`Forward::on_saved`] is to be told.
    SaveMarks(Vec<(Vec<u8>, Vec<u8>)>),
}

/// The forwarder of one gateway to one destination.
#[derive(Debug)]
pub struct Forward {
    pub(super) config: ForwardConfig,
    pub(super) gateway: GatewayName,
    pub(super) lineage: Lineage,
    pub(super) places: Vec<Place>,
    /// Ends of older layouts that were not all acked yet, the oldest first.
    pub(super) barriers: VecDeque<BTreeMap<PartitionId, Offset>>,
    /// Place whose turn it is.
    pub(super) turn: usize,
    pub(super) connection: Option<Connection>,
    pub(super) ahead: Ahead,
    /// Why the connection is to be dropped; nothing is handed over until it is.
    pub(super) reset: Option<String>,
    pub(super) resetting: bool,
    /// The broker has no room: nothing is handed over before this.
    pub(super) paused_until: Option<Mono>,
    /// Pauses in a row.
    pub(super) pauses: u32,
    pub(super) receiver: Receiver,
    pub(super) saving: Saving,
    /// The gateway is to stop: marks are kept at once.
    pub(super) draining: bool,
    /// Nothing more is handed over.
    pub(super) held: bool,
    /// A place is sent again on request at most once before this.
    pub(super) resend_after: BTreeMap<usize, Mono>,
    pub(super) last_disconnect: Option<String>,
    /// What the broker does not let us do, until the next connection stands.
    pub(super) denied: Option<String>,
    pub(super) counters: Counters,
    /// How fast the backlog goes at the most, and how fast readings are acked.
    pub(super) cap: Cap,
    pub(super) acked: Meter,
    /// Since when nothing was answered though something could move.
    pub(super) still_since: Option<Mono>,
    pub(super) ages: Option<Ages>,
    /// Of a destination that speaks Sparkplug.
    pub(super) edge: Option<Edge>,
    /// A sentence for the operator that was not given yet.
    pub(super) note: Option<String>,
}

impl Forward {
    /// A forwarder over the streams of a log that the destination wants, with the
    /// marks that `meta` holds. `openings` are those of this log, this one among them.
    #[must_use]
    pub fn new(
        config: ForwardConfig,
        gateway: &GatewayName,
        (info, openings): (&StoreInfo, &[Opening]),
        meta: &[(Vec<u8>, Vec<u8>)],
        streams: (&TopicTable, &[PartitionId]),
        heads: &BTreeMap<TopicPartition, Offset>,
    ) -> Self {
        let meta: BTreeMap<&[u8], &[u8]> = meta
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
            .collect();
        let places = places(&config, &meta, streams, heads);
        let session = meta.get(session_key(&config.name).as_slice()).copied();
        Self {
            receiver: Receiver::restore(session),
            cap: Cap::new(config.rate),
            acked: Meter::default(),
            edge: config.sparkplug.clone().map(Edge::new),
            config,
            gateway: gateway.clone(),
            lineage: Lineage::new(info, openings),
            places,
            barriers: VecDeque::new(),
            turn: 0,
            connection: None,
            ahead: Ahead::default(),
            reset: None,
            resetting: false,
            paused_until: None,
            pauses: 0,
            saving: Saving::default(),
            draining: false,
            held: false,
            resend_after: BTreeMap::new(),
            last_disconnect: None,
            denied: None,
            counters: Counters::default(),
            still_since: None,
            ages: None,
            note: None,
        }
    }

    /// Takes up a stream that is new since the log was opened, where the destination wants
    /// it; `of` is the name that its settings go by.
    pub fn add_stream(&mut self, topic: TopicId, (of, name): (&str, &str), all: &[PartitionId]) {
        let Ok(stream) = StreamName::new(name) else {
            return;
        };
        if !self.config.wants(of) || self.places.iter().any(|place| place.at.topic == topic) {
            return;
        }
        let how = (self.config.order, self.config.within.get(of).copied());
        let places = all.iter().map(|partition| {
            let at = TopicPartition {
                topic,
                partition: *partition,
            };
            Place::new(at, stream.clone(), how, Offset(0))
        });
        self.places.extend(places);
    }

    /// The settings of the destination.
    #[must_use]
    pub fn config(&self) -> &ForwardConfig {
        &self.config
    }

    /// How far a partition has come: below the first the broker has acked all, below
    /// the second all has arrived for good. `None` when it is not forwarded.
    #[must_use]
    pub fn progress(&self, at: TopicPartition) -> Option<(Offset, Offset)> {
        let place = self.places.iter().find(|place| place.at == at)?;
        let Marks {
            sent, confirmed, ..
        } = place.marks;
        // Without a receiver of ours nobody says more than the broker does.
        let arrived = if self.receiver.is_known() {
            confirmed
        } else {
            sent
        };
        Some((sent, arrived))
    }

    /// What the gateway's clock says, when it is trusted; event times before `set_from`
    /// are of a clock that was never set.
    pub fn on_clock(&mut self, now: Option<EventTime>, set_from: EventTime) {
        self.ages = now.map(|now| Ages { set_from, now });
    }

    /// Readings from each of these on go out only when all before it, in all
    /// partitions, is acked by the broker: a device may have changed its partition.
    pub fn set_barriers(&mut self, barriers: &[BTreeMap<PartitionId, Offset>]) {
        self.barriers = barriers.iter().cloned().collect();
        self.pass_barriers();
    }

    pub(super) fn pass_barriers(&mut self) {
        let of = |barrier: &BTreeMap<PartitionId, Offset>, place: &Place| {
            let offset = barrier.get(&place.at.partition).copied();
            offset.unwrap_or(Offset(0))
        };
        let readings = |place: &&Place| place.at.topic == READINGS;
        while let Some(barrier) = self.barriers.front() {
            let mut places = self.places.iter().filter(readings);
            if places.any(|place| place.is_before(of(barrier, place))) {
                break;
            }
            self.barriers.pop_front();
        }
        let front = self.barriers.front();
        for place in self.places.iter_mut().filter(|p| p.at.topic == READINGS) {
            let barrier = front.map(|barrier| of(barrier, place));
            place.set_barrier(barrier);
        }
    }

    /// Told of each partition that is forwarded: below which offset its log was trimmed.
    pub fn on_trimmed(&mut self, below: impl Fn(TopicPartition) -> Offset) {
        for place in &mut self.places {
            place.on_trimmed(below(place.at));
        }
    }

    /// More of a partition is durable.
    pub fn on_durable(&mut self, at: TopicPartition, head: Offset) {
        if let Some(place) = self.places.iter_mut().find(|place| place.at == at) {
            place.on_durable(head);
        }
    }

    /// A connection takes messages, at most `window` unacked.
    pub fn on_connected(&mut self, conn: ConnNo, window: u16, now: Mono) {
        for place in &mut self.places {
            place.on_connected(now);
        }
        (self.reset, self.resetting) = (None, false);
        self.still_since = None;
        self.denied = None;
        self.ahead.forget();
        if let Some(edge) = self.edge.as_mut() {
            edge.on_connected(conn);
        }
        self.connection = Some(Connection::new(conn, window.min(self.config.window)));
    }

    /// The broker does not let us in, or does not let us read a topic: a sentence.
    pub fn on_denied(&mut self, why: &str) {
        self.denied = Some(why.to_owned());
    }

    /// A connection, or the attempt at one, ended.
    pub fn on_disconnected(&mut self, conn: ConnNo, reason: &str) {
        self.last_disconnect = Some(reason.to_owned());
        self.receiver.on_disconnected();
        let Some(connection) = self.connection.take_if(|c| c.conn == conn) else {
            return;
        };
        self.counters.disconnects += 1;
        if let Some(edge) = self.edge.as_mut() {
            edge.drop_queue();
        }
        (self.reset, self.resetting) = (None, false);
        if let Some(first) = connection.oldest().filter(|_| connection.answers == 0) {
            let place = &mut self.places[first.place];
            place.on_silence(first.lane, first.first, first.end);
        }
        self.places.iter_mut().for_each(Place::on_disconnected);
    }

    /// The broker has a message; an ack of another connection changes nothing.
    pub fn on_acked(&mut self, conn: ConnNo, send: SendNo, now: Mono) {
        let connection = self.connection.as_mut().filter(|c| c.conn == conn);
        if connection
            .and_then(|c| c.answer(send, Answer::Acked))
            .is_some()
        {
            self.pauses = 0;
            self.still_since = None;
            self.pop_answered(now);
        }
    }

    /// Moves marks over what is answered without a hole.
    pub(super) fn pop_answered(&mut self, now: Mono) {
        let Some(connection) = self.connection.as_mut() else {
            return;
        };
        while let Some((message, answer)) = connection.pop_answered(now) {
            let place = &mut self.places[message.place];
            let moves = message.moves && answer == Answer::Acked;
            if moves && place.lane(message.lane).rewinds == message.rewinds {
                let records = place.on_acked(message.lane, message.first, message.end);
                if place.at.topic == READINGS {
                    self.acked.add(records, now);
                }
                self.saving.moved(now);
            }
            place.note(now);
        }
    }

    /// Takes what a read of the log brought.
    pub fn on_fetched(&mut self, at: TopicPartition, blocks: Vec<StoredBlock>) {
        if let Some(place) = self.places.iter_mut().find(|place| place.at == at) {
            place.on_fetched(blocks);
        }
    }

    /// The next sentence for the operator.
    pub fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }
}

/// A place per partition of each topic that the destination wants.
fn places(
    config: &ForwardConfig,
    meta: &BTreeMap<&[u8], &[u8]>,
    (topics, partitions): (&TopicTable, &[PartitionId]),
    heads: &BTreeMap<TopicPartition, Offset>,
) -> Vec<Place> {
    let windows: BTreeMap<TopicId, String> = topics.windows().collect();
    let mut places = Vec::new();
    for (topic, name) in topics.streams() {
        let Ok(stream) = StreamName::new(name) else {
            continue;
        };
        // A window's earlier definitions go by its name too.
        let name = windows.get(&topic).map_or(name, String::as_str);
        if !config.wants(name) {
            continue;
        }
        let how = (config.order, config.within.get(name).copied());
        for partition in partitions {
            let at = TopicPartition {
                topic,
                partition: *partition,
            };
            let head = heads.get(&at).copied().unwrap_or(Offset(0));
            let mut place = Place::new(at, stream.clone(), how, head);
            if let Some(value) = meta.get(mark_key(&config.name, at).as_slice()) {
                place.restore(value);
            }
            places.push(place);
        }
    }
    places
}
