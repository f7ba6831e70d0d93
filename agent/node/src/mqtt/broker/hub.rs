//! What the broker knows: sessions, subscriptions, retained messages.
//!
//! Always holds: a message is refused to its publisher or reaches every
//! session that subscribes to it, never half of them; what was acked is
//! dropped only with its session. Bound: BROKER_SESSIONS_MAX sessions of
//! BROKER_QUEUE_BYTES_MAX, BROKER_RETAINED_MAX retained messages. Opens no
//! socket and reads no clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    ConnectReturnCode, Filter, LastWill, PubAckReason, Publish, PublishProperties,
    RetainForwardRule, SubscribeReasonCode,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::client::is_topic;
use super::super::limits::{
    BROKER_FILTERS_MAX, BROKER_QUEUE_BYTES_MAX, BROKER_RETAINED_MAX, BROKER_SESSIONS_MAX,
};
use super::filter::{is_filter, matches};

/// One accepted connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkNo(u64);

/// What a CONNECT asks for.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    pub(super) client_id: String,
    pub(super) clean_start: bool,
    /// How long the session outlives its connection.
    pub(super) expiry: Duration,
    /// Messages that the client takes unacked.
    pub(super) receive_max: usize,
    /// Largest packet that the client takes.
    pub(super) packet_bytes_max: usize,
    pub(super) will: Option<LastWill>,
}

/// A message as it goes to sessions.
#[derive(Debug)]
struct Message {
    topic: String,
    publish: Publish,
}

impl Message {
    fn bytes(&self) -> usize {
        self.publish.size()
    }
}

/// A message that waits for one session.
#[derive(Debug, Clone)]
struct Queued {
    message: Arc<Message>,
    qos: QoS,
    retain: bool,
}

#[derive(Debug)]
struct Session {
    link: Option<LinkNo>,
    /// Rings when there is something for the connection to do.
    bell: Arc<Notify>,
    filters: BTreeMap<String, Filter>,
    queue: VecDeque<Queued>,
    /// Sent and unacked, in order of sending.
    unacked: VecDeque<(u16, Queued)>,
    /// As many at the end of `unacked` are yet to go out again on this connection.
    resend: usize,
    queued_bytes: usize,
    next_pkid: u16,
    receive_max: usize,
    packet_bytes_max: usize,
    expiry: Duration,
    /// Set while there is no connection.
    ends: Option<Instant>,
    will: Option<LastWill>,
}

/// Sessions by client id, and what is retained.
#[derive(Debug, Default)]
pub(super) struct Hub {
    links: u64,
    sessions: BTreeMap<String, Session>,
    retained: BTreeMap<String, Arc<Message>>,
}

impl Hub {
    /// Opens or resumes a session, and ends an older connection of it.
    /// Gives whether the session was there before.
    pub(super) fn open(
        &mut self,
        opening: Opening,
        bell: Arc<Notify>,
        now: Instant,
    ) -> Result<(LinkNo, bool), ConnectReturnCode> {
        self.drop_ended(now);
        let id = opening.client_id.clone();
        if let Some(link) = self.sessions.get(&id).and_then(|s| s.link) {
            // Its will goes out before the new connection says a word.
            self.close(&id, link, true, now);
        }
        if opening.clean_start {
            self.sessions.remove(&id);
        }
        let present = self.sessions.contains_key(&id);
        if !present && self.sessions.len() >= BROKER_SESSIONS_MAX {
            return Err(ConnectReturnCode::QuotaExceeded);
        }
        self.links += 1;
        let link = LinkNo(self.links);
        let session = self
            .sessions
            .entry(id)
            .or_insert_with(|| Session::new(Arc::clone(&bell)));
        session.link = Some(link);
        session.bell = bell;
        session.resend = session.unacked.len();
        session.receive_max = opening.receive_max.max(1);
        session.packet_bytes_max = opening.packet_bytes_max;
        session.expiry = opening.expiry;
        session.ends = None;
        session.will = opening.will;
        session.bell.notify_one();
        Ok((link, present))
    }

    /// The connection ended. With `will` its last will is published.
    pub(super) fn close(&mut self, id: &str, link: LinkNo, will: bool, now: Instant) {
        let Some(session) = self.session(id, link) else {
            return;
        };
        session.link = None;
        session.ends = Some(now + session.expiry);
        session.bell.notify_one();
        let last_words = session.will.take().filter(|_| will);
        if session.expiry.is_zero() {
            self.sessions.remove(id);
        }
        if let Some(will) = last_words {
            let publish = Publish {
                qos: will.qos,
                retain: will.retain,
                topic: will.topic,
                payload: will.message,
                ..Publish::default()
            };
            self.publish("", publish);
        }
    }

    fn drop_ended(&mut self, now: Instant) {
        self.sessions
            .retain(|_, session| session.ends.is_none_or(|ends| ends > now));
    }

    fn session(&mut self, id: &str, link: LinkNo) -> Option<&mut Session> {
        self.sessions
            .get_mut(id)
            .filter(|session| session.link == Some(link))
    }

    /// False once another connection has taken the session over.
    pub(super) fn is_open(&self, id: &str, link: LinkNo) -> bool {
        self.sessions
            .get(id)
            .is_some_and(|session| session.link == Some(link))
    }

    /// Takes a message from client `from` for all sessions that subscribe.
    pub(super) fn publish(&mut self, from: &str, publish: Publish) -> PubAckReason {
        let Ok(topic) = String::from_utf8(publish.topic.to_vec()) else {
            return PubAckReason::TopicNameInvalid;
        };
        if !is_topic(&topic) {
            return PubAckReason::TopicNameInvalid;
        }
        let retain = publish.retain;
        let message = Arc::new(Message {
            topic,
            publish: stripped(publish),
        });
        let fits = self.sessions.iter().all(|(id, session)| {
            session.takes(id, from, &message.topic).is_none() || session.has_room(&message)
        });
        let topic = &message.topic;
        let retained_full =
            self.retained.len() >= BROKER_RETAINED_MAX && !self.retained.contains_key(topic);
        if !fits || (retain && retained_full && !message.publish.payload.is_empty()) {
            return PubAckReason::QuotaExceeded;
        }
        let mut readers = 0;
        for (id, session) in &mut self.sessions {
            if let Some((qos, keep_retain)) = session.takes(id, from, &message.topic) {
                readers += 1;
                let qos = lower(qos, message.publish.qos);
                let message = Arc::clone(&message);
                session.push(Queued {
                    message,
                    qos,
                    retain: retain && keep_retain,
                });
            }
        }
        if retain && message.publish.payload.is_empty() {
            self.retained.remove(&message.topic);
        } else if retain {
            self.retained.insert(message.topic.clone(), message);
        }
        if readers > 0 {
            PubAckReason::Success
        } else {
            PubAckReason::NoMatchingSubscribers
        }
    }

    /// Subscribes, and queues what is retained.
    pub(super) fn subscribe(
        &mut self,
        id: &str,
        link: LinkNo,
        filters: Vec<Filter>,
    ) -> Vec<SubscribeReasonCode> {
        let retained = &self.retained;
        let open = self
            .sessions
            .get_mut(id)
            .filter(|session| session.link == Some(link));
        let Some(session) = open else {
            return vec![SubscribeReasonCode::Unspecified];
        };
        filters
            .into_iter()
            .map(|filter| session.subscribe(filter, retained))
            .collect()
    }

    pub(super) fn unsubscribe(&mut self, id: &str, link: LinkNo, filter: &str) -> bool {
        self.session(id, link)
            .is_some_and(|session| session.filters.remove(filter).is_some())
    }

    /// The client acked a message. Unknown numbers are late acks: no harm.
    pub(super) fn acked(&mut self, id: &str, link: LinkNo, pkid: u16) {
        let Some(session) = self.session(id, link) else {
            return;
        };
        let Some(place) = session.unacked.iter().position(|(sent, _)| *sent == pkid) else {
            return;
        };
        let sent_again = session.unacked.len() - session.resend;
        if let Some((_, queued)) = session.unacked.remove(place) {
            session.queued_bytes -= queued.message.bytes();
            session.resend -= usize::from(place >= sent_again);
            session.bell.notify_one();
        }
    }

    /// The next message for the connection, if it takes one more.
    pub(super) fn next(&mut self, id: &str, link: LinkNo) -> Option<Publish> {
        self.session(id, link).and_then(Session::next)
    }
}

impl Session {
    fn new(bell: Arc<Notify>) -> Self {
        Self {
            link: None,
            bell,
            filters: BTreeMap::new(),
            queue: VecDeque::new(),
            unacked: VecDeque::new(),
            resend: 0,
            queued_bytes: 0,
            next_pkid: 1,
            receive_max: 1,
            packet_bytes_max: 0,
            expiry: Duration::ZERO,
            ends: None,
            will: None,
        }
    }

    /// QoS, and whether the retain flag stays, when a filter takes the topic.
    fn takes(&self, id: &str, from: &str, topic: &str) -> Option<(QoS, bool)> {
        self.filters
            .values()
            .filter(|filter| !(filter.nolocal && id == from) && matches(topic, &filter.path))
            .map(|filter| (filter.qos, filter.preserve_retain))
            .max_by_key(|(qos, _)| *qos as u8)
    }

    fn has_room(&self, message: &Message) -> bool {
        self.queued_bytes + message.bytes() <= BROKER_QUEUE_BYTES_MAX
    }

    fn push(&mut self, queued: Queued) {
        self.queued_bytes += queued.message.bytes();
        self.queue.push_back(queued);
        self.bell.notify_one();
    }

    fn subscribe(
        &mut self,
        filter: Filter,
        retained: &BTreeMap<String, Arc<Message>>,
    ) -> SubscribeReasonCode {
        if !is_filter(&filter.path) {
            return SubscribeReasonCode::TopicFilterInvalid;
        }
        if filter.path.starts_with("$share/") {
            return SubscribeReasonCode::SharedSubscriptionsNotSupported;
        }
        let known = self.filters.contains_key(&filter.path);
        if !known && self.filters.len() >= BROKER_FILTERS_MAX {
            return SubscribeReasonCode::QuotaExceeded;
        }
        let send_retained = match filter.retain_forward_rule {
            RetainForwardRule::OnEverySubscribe => true,
            RetainForwardRule::OnNewSubscribe => !known,
            RetainForwardRule::Never => false,
        };
        let qos = lower(filter.qos, QoS::AtLeastOnce);
        for (_, message) in retained
            .iter()
            .filter(|(t, _)| send_retained && matches(t, &filter.path))
        {
            if self.has_room(message) {
                let message = Arc::clone(message);
                let qos = lower(qos, message.publish.qos);
                self.push(Queued {
                    message,
                    qos,
                    retain: true,
                });
            }
        }
        self.filters
            .insert(filter.path.clone(), Filter { qos, ..filter });
        SubscribeReasonCode::Success(qos)
    }

    fn next(&mut self) -> Option<Publish> {
        // What an earlier connection left unacked goes first, as it was sent.
        if self.unacked.len() - self.resend >= self.receive_max {
            return None;
        }
        if self.resend > 0 {
            let (pkid, queued) = &self.unacked[self.unacked.len() - self.resend];
            self.resend -= 1;
            return Some(queued.packet(*pkid, true));
        }
        loop {
            let queued = self.queue.pop_front()?;
            let pkid = if queued.qos == QoS::AtMostOnce {
                0
            } else {
                self.free_pkid()
            };
            let packet = queued.packet(pkid, false);
            // MQTT: what a client cannot take counts as delivered to it.
            let too_large = packet.size() > self.packet_bytes_max;
            if too_large || pkid == 0 {
                self.queued_bytes -= queued.message.bytes();
            } else {
                self.unacked.push_back((pkid, queued));
            }
            if !too_large {
                return Some(packet);
            }
        }
    }

    /// Fewer messages than numbers are unacked, so one is free.
    fn free_pkid(&mut self) -> u16 {
        loop {
            let pkid = self.next_pkid;
            self.next_pkid = self.next_pkid.checked_add(1).unwrap_or(1);
            if self.unacked.iter().all(|(sent, _)| *sent != pkid) {
                return pkid;
            }
        }
    }
}

impl Queued {
    fn packet(&self, pkid: u16, dup: bool) -> Publish {
        Publish {
            dup,
            pkid,
            qos: self.qos,
            retain: self.retain,
            ..self.message.publish.clone()
        }
    }
}

fn lower(a: QoS, b: QoS) -> QoS {
    if (a as u8) < (b as u8) { a } else { b }
}

/// The message without what belonged to its publisher's connection.
fn stripped(publish: Publish) -> Publish {
    let properties = publish.properties.map(|properties| PublishProperties {
        topic_alias: None,
        subscription_identifiers: Vec::new(),
        ..properties
    });
    Publish {
        dup: false,
        retain: false,
        pkid: 0,
        properties,
        ..publish
    }
}
