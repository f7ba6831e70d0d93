//! The rules of forwarding as a state machine: what to read, what to hand over,
//! when to give a connection up, which marks to keep.
//!
//! Holds always: nothing at or above a durable head leaves; per partition order is
//! kept; a new connection starts from the marks; a mark moves only over contiguous
//! acks. When the receiver's side shows a session that is not the one it had, the
//! broker may have lost what it had acked: the marks go back to what the receiver
//! confirmed. Bound: [`FORWARD_BYTES_MAX`] on the way, one read of the log at a
//! time. Knows no broker, no clock and no disk.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::connection::Connection;
use super::ids::{ConnNo, Refusal, SendNo};
use super::place::{Place, mark_key};
use crate::limits::{FORWARD_BYTES_MAX, FORWARD_REFUSALS_MAX};
use crate::log::decode::decode;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::READINGS;
use crate::payload::{
    AckMessage, Command, DataMessage, GatewayName, MessageId, SessionNonce, StreamName,
    UPSTREAM_TOPIC, UpstreamHello,
};
use crate::store::StoreInfo;
use crate::topics::TopicTable;
use crate::units::{Mono, Offset, PartitionId, Span};

/// Meta key of the receiver's session that the marks are of.
const SESSION_META_KEY: &[u8] = b"forward/session";
/// Marks are kept at most so long after they moved: a kill resends so much.
const SAVE_AFTER_US: u64 = 200_000;

/// Settings of forwarding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardConfig {
    /// Messages on their way, 1 and up; the broker may take fewer.
    pub window: u16,
    /// A broker that acks nothing for so long is given up.
    pub ack_timeout: Span,
}

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
    /// Keep these meta entries with the next write.
    SaveMarks(Vec<(Vec<u8>, Vec<u8>)>),
}

#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    published: u64,
    resent: u64,
    refused: u64,
    /// Messages given up after [`FORWARD_REFUSALS_MAX`] refusals.
    parked: u64,
    blocks_bad: u64,
    disconnects: u64,
    rewinds: u64,
}

/// The forwarder of one gateway.
#[derive(Debug)]
pub struct Forward {
    config: ForwardConfig,
    gateway: GatewayName,
    info: StoreInfo,
    places: Vec<Place>,
    /// Place whose turn it is.
    turn: usize,
    /// Place that is being read, and whether its answer is still of use.
    fetching: Option<(usize, bool)>,
    connection: Option<Connection>,
    /// Why the connection is to be dropped; nothing is handed over until it is.
    reset: Option<String>,
    resetting: bool,
    /// The receiver's session that the marks are of.
    session: Option<SessionNonce>,
    save_at: Option<Mono>,
    session_dirty: bool,
    last_disconnect: Option<String>,
    counters: Counters,
}

impl Forward {
    /// A forwarder over all streams of a log, with the marks that `meta` holds.
    #[must_use]
    pub fn new(
        config: ForwardConfig,
        gateway: &GatewayName,
        info: &StoreInfo,
        meta: &[(Vec<u8>, Vec<u8>)],
        (topics, partitions): (&TopicTable, &[PartitionId]),
        heads: &BTreeMap<TopicPartition, Offset>,
    ) -> Self {
        let meta: BTreeMap<&[u8], &[u8]> = meta
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
            .collect();
        let mut places = Vec::new();
        for (topic, name) in topics.streams() {
            let Ok(stream) = StreamName::new(name) else {
                continue;
            };
            for partition in partitions {
                let at = TopicPartition {
                    topic,
                    partition: *partition,
                };
                let head = heads.get(&at).copied().unwrap_or(Offset(0));
                let mut place = Place::new(at, stream.clone(), head);
                if let Some(value) = meta.get(mark_key(at).as_slice()) {
                    place.restore(value);
                }
                places.push(place);
            }
        }
        let session = meta.get(SESSION_META_KEY);
        Self {
            config,
            gateway: gateway.clone(),
            info: *info,
            places,
            turn: 0,
            fetching: None,
            connection: None,
            reset: None,
            resetting: false,
            session: session.and_then(|value| Some(SessionNonce((*value).try_into().ok()?))),
            save_at: None,
            session_dirty: false,
            last_disconnect: None,
            counters: Counters::default(),
        }
    }

    /// More of a partition is durable.
    pub fn on_durable(&mut self, at: TopicPartition, head: Offset) {
        if let Some(place) = self.places.iter_mut().find(|place| place.at == at) {
            place.head = head;
        }
    }

    /// A connection takes messages, at most `window` unacked.
    pub fn on_connected(&mut self, conn: ConnNo, window: u16) {
        self.rewind_cursors();
        (self.reset, self.resetting) = (None, false);
        self.connection = Some(Connection::new(conn, window.min(self.config.window)));
    }

    /// A connection, or the attempt at one, ended.
    pub fn on_disconnected(&mut self, conn: ConnNo, reason: &str) {
        self.last_disconnect = Some(reason.to_owned());
        if self.connection.as_ref().is_some_and(|c| c.conn == conn) {
            self.counters.disconnects += 1;
            self.connection = None;
            (self.reset, self.resetting) = (None, false);
            self.rewind_cursors();
        }
    }

    /// The broker has a message; an ack of another connection changes nothing.
    pub fn on_acked(&mut self, conn: ConnNo, send: SendNo, now: Mono) {
        let Some(connection) = self.connection.as_mut().filter(|c| c.conn == conn) else {
            return;
        };
        connection.ack(send);
        // A connection that is being dropped moves no mark: they may have gone back.
        if self.resetting || self.reset.is_some() {
            return;
        }
        while let Some(message) = connection.pop_acked() {
            let place = &mut self.places[message.place];
            place.sent = place.sent.max(message.end);
            (place.dirty, place.refusals) = (true, 0);
            self.save_at.get_or_insert(Mono(now.0 + SAVE_AFTER_US));
        }
    }

    /// The broker does not take a message. What can become right is tried again on
    /// a new connection; what cannot is parked, so that it holds up nothing.
    pub fn on_refused(&mut self, conn: ConnNo, send: SendNo, why: Refusal, now: Mono) {
        self.counters.refused += 1;
        let connection = self.connection.as_ref().filter(|c| c.conn == conn);
        let Some(message) = connection.and_then(|c| c.get(send)) else {
            return;
        };
        let place = &mut self.places[message.place];
        place.refusals += 1;
        if is_about_the_message(why) && place.refusals >= FORWARD_REFUSALS_MAX {
            self.counters.parked += 1;
            self.on_acked(conn, send, now);
        } else {
            self.reset = Some(format!("a message was refused: {why}"));
        }
    }

    /// A message from the receiver's side; what does not read changes nothing.
    pub fn on_message(&mut self, topic: &str, payload: &[u8], now: Mono) {
        if topic == UPSTREAM_TOPIC {
            if let Ok(hello) = UpstreamHello::parse(payload) {
                self.on_session(hello.session, now);
            }
        } else if topic == self.gateway.ack_topic() {
            if let Ok(ack) = AckMessage::parse(payload) {
                self.on_ack_message(&ack, now);
            }
        } else if topic == self.gateway.cmd_topic()
            && let Ok(command) = Command::parse(payload)
        {
            self.on_command(&command, now);
        }
    }

    fn on_ack_message(&mut self, ack: &AckMessage, now: Mono) {
        if ack.log_id == self.info.log_id {
            for mark in &ack.marks {
                let of_mark = |place: &&mut Place| {
                    place.stream == mark.stream && place.at.partition == mark.partition
                };
                if let Some(place) = self.places.iter_mut().find(of_mark) {
                    place.confirm(mark.next);
                    self.save_at.get_or_insert(Mono(now.0 + SAVE_AFTER_US));
                }
            }
        }
        self.on_session(ack.session, now);
    }

    fn on_session(&mut self, session: SessionNonce, now: Mono) {
        if self.session == Some(session) {
            return;
        }
        self.session = Some(session);
        self.session_dirty = true;
        self.save_at.get_or_insert(Mono(now.0 + SAVE_AFTER_US));
        for place in &mut self.places {
            place.rewind_mark(place.confirmed);
        }
        self.counters.rewinds += 1;
        // Acks of what is on the way would move the marks over what was lost.
        self.reset = Some(String::from("the receiver has a new session"));
    }

    fn on_command(&mut self, command: &Command, now: Mono) {
        let Command::Resend {
            log_id,
            stream,
            partition,
            from,
        } = command;
        let asked = |place: &&mut Place| {
            place.stream == *stream && place.at.partition == *partition && *from < place.sent
        };
        if *log_id == self.info.log_id
            && let Some(place) = self.places.iter_mut().find(asked)
        {
            place.rewind_mark(*from);
            self.save_at.get_or_insert(Mono(now.0 + SAVE_AFTER_US));
            self.counters.rewinds += 1;
            self.reset = Some(format!("the receiver asks for offset {} again", from.0));
        }
    }

    /// Takes what a read of the log brought.
    pub fn on_fetched(&mut self, blocks: Vec<StoredBlock>) {
        let Some((at, true)) = self.fetching.take() else {
            return;
        };
        let place = &mut self.places[at];
        let (cursor, head) = (place.cursor, place.head);
        let wanted = |block: &StoredBlock| block.key.base >= cursor && block.key.base < head;
        place.blocks = blocks.into_iter().filter(wanted).collect();
        if place.blocks.is_empty() {
            // Nothing readable up to the head: counted, and not asked for again.
            self.counters.blocks_bad += 1;
            place.cursor = head;
        }
    }

    /// Gives up a broker that acks nothing.
    pub fn handle_deadline(&mut self, now: Mono) {
        if self.ack_deadline().is_some_and(|deadline| deadline <= now) {
            let seconds = self.config.ack_timeout.0 as f64 / 1e6;
            self.reset = Some(format!("no ack for {seconds} s"));
        }
    }

    /// When [`Forward::handle_deadline`] or [`Forward::poll`] wants to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        self.ack_deadline().into_iter().chain(self.save_at).min()
    }

    fn ack_deadline(&self) -> Option<Mono> {
        let oldest = self.connection.as_ref()?.oldest()?;
        let timeout = self.config.ack_timeout.0.unsigned_abs();
        (!self.resetting).then_some(Mono(oldest.0.saturating_add(timeout)))
    }

    /// The next thing to do.
    pub fn poll(&mut self, now: Mono) -> Option<ForwardAction> {
        if self.save_at.is_some_and(|at| at <= now) {
            return Some(ForwardAction::SaveMarks(self.take_marks()));
        }
        if let Some(why) = self.reset.take()
            && let Some(connection) = &self.connection
        {
            self.resetting = true;
            let conn = connection.conn;
            return Some(ForwardAction::Reset { conn, why });
        }
        if self.resetting {
            return None;
        }
        self.publish(now).or_else(|| self.fetch())
    }

    /// The marks as meta entries, now rather than later: at a clean stop.
    pub fn take_marks(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.save_at = None;
        let dirty = self.places.iter_mut().filter(|place| place.dirty);
        let mut entries: Vec<_> = dirty
            .map(|place| {
                place.dirty = false;
                place.entry()
            })
            .collect();
        if std::mem::take(&mut self.session_dirty)
            && let Some(session) = self.session
        {
            entries.push((SESSION_META_KEY.to_vec(), session.0.to_vec()));
        }
        entries
    }

    fn fetch(&mut self) -> Option<ForwardAction> {
        if self.connection.is_none() || self.fetching.is_some() {
            return None;
        }
        let count = self.places.len();
        let order = (0..count).map(|n| (self.turn + n) % count);
        let next = order.clone().find(|at| self.places[*at].wants_blocks())?;
        self.fetching = Some((next, true));
        let place = &self.places[next];
        Some(ForwardAction::Fetch {
            at: place.at,
            from: place.cursor,
        })
    }

    /// The next block of the next partition that has one, in turn.
    fn publish(&mut self, now: Mono) -> Option<ForwardAction> {
        let count = self.places.len();
        loop {
            let connection = self.connection.as_mut()?;
            if !connection.has_room(FORWARD_BYTES_MAX) {
                return None;
            }
            let mut order = (0..count).map(|n| (self.turn + n) % count);
            let at = order.find(|at| !self.places[*at].blocks.is_empty())?;
            let place = &mut self.places[at];
            let stored = place.blocks.pop_front()?;
            let Ok(block) = decode(stored.key, &stored.bytes) else {
                self.counters.blocks_bad += 1;
                place.cursor = Offset(stored.key.base.0 + 1);
                continue;
            };
            self.turn = (at + 1) % count;
            let id = MessageId::of(&self.gateway, self.info.log_id, &place.stream, &block);
            let resend = block.base < place.reached;
            place.cursor = block.end();
            place.reached = place.reached.max(block.end());
            self.counters.published += 1;
            self.counters.resent += u64::from(resend);
            let payload = DataMessage::render(&id, &block);
            let send = connection.push(at, block.end(), payload.len(), now);
            return Some(ForwardAction::Publish {
                conn: connection.conn,
                send,
                topic: self.gateway.data_topic(&place.stream, block.at.partition),
                payload,
                user_properties: id.user_properties(resend),
            });
        }
    }

    fn rewind_cursors(&mut self) {
        self.places.iter_mut().for_each(Place::rewind_cursor);
        if let Some((_, of_use)) = self.fetching.as_mut() {
            *of_use = false;
        }
    }

    /// Whether the broker has acked everything that is durable.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.places.iter().all(|place| place.sent >= place.head)
    }

    /// How forwarding is doing, as JSON.
    #[must_use]
    pub fn status(&self) -> Value {
        let sum = |of: fn(&Place) -> u64| self.places.iter().map(of).sum::<u64>();
        let readings = self.places.iter().filter(|p| p.at.topic == READINGS);
        let Counters {
            published,
            resent,
            refused,
            parked,
            blocks_bad,
            disconnects,
            rewinds,
        } = self.counters;
        json!({
            "connected": self.connection.is_some() && !self.resetting,
            "receiver_known": self.session.is_some(),
            "readings": readings.map(|place| place.sent.0).sum::<u64>(),
            "backlog": sum(|place| place.head.0 - place.sent.0.min(place.head.0)),
            "unconfirmed": sum(|place| place.head.0 - place.confirmed.0.min(place.head.0)),
            "in_flight": self.connection.as_ref().map_or(0, Connection::len),
            "published": published,
            "resent": resent,
            "refused": refused,
            "parked": parked,
            "blocks_bad": blocks_bad,
            "disconnects": disconnects,
            "rewinds": rewinds,
            "last_disconnect": self.last_disconnect,
        })
    }
}

/// Whether another try of the same message can only fail again.
fn is_about_the_message(why: Refusal) -> bool {
    match why {
        Refusal::PayloadInvalid
        | Refusal::TooLarge { .. }
        | Refusal::Unspecified
        | Refusal::Implementation => true,
        Refusal::Quota
        | Refusal::NotAuthorized
        | Refusal::TopicInvalid
        | Refusal::PacketIdInUse => false,
    }
}
