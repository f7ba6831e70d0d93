//! The upstream's subscriber: QoS 1 with acks by hand, so that the broker keeps
//! each message until what it carried is committed.
//!
//! Always holds: acks reach the broker in the order of receipt, as MQTT asks
//! and some brokers insist on, and never on another connection than the
//! message came by (the number may stand for another message there). Bound:
//! `receive_max` messages of PACKET_BYTES_MAX, WAITING_PUBLISHES_MAX topics.
//! Knows no payload: a message comes again until it is acked, dedupe is the
//! reader's.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

use forebay_core::forward::ConnNo;
use forebay_core::limits::MESSAGE_BYTES_MAX;
use rumqttc::Outgoing;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{ConnAck, Filter, Packet, Publish, SubscribeReasonCode};
use rumqttc::v5::{AsyncClient, Event, EventLoop};
use tokio::select;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::backoff::Backoff;
use super::client::{self, MqttConfig, SessionOptions, Status};
use super::limits::{
    RECEIVE_MAX, REQUEST_SLACK, STOP_MAX, SUBSCRIBER_PUBLISHES_MAX, WAITING_EVENTS_MAX,
};
use super::outbox::Outbox;
use super::receipts::Receipts;
use super::sends::Sends;

pub use super::receipts::AckToken;

/// Settings of a subscriber.
#[derive(Debug, Clone)]
pub struct SubscriberConfig {
    pub mqtt: MqttConfig,
    pub status: Option<Status>,
    /// Subscribed on each connection; at most FILTERS_MAX.
    pub filters: Vec<String>,
    /// Messages that may be unacked, 1 to RECEIVE_MAX.
    pub receive_max: u16,
    /// How long the broker keeps messages for us while we are away, seconds.
    pub session_expiry_s: u32,
}

/// What happened on the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriberEvent {
    /// Before any message of the connection. Without `session_present` the
    /// broker has forgotten what it held for us. Publish again what matters:
    /// what was not acked is gone.
    Connected { conn: ConnNo, session_present: bool },
    /// Ack it with the token once it is committed.
    Message {
        token: AckToken,
        topic: String,
        payload: Vec<u8>,
    },
    /// A message that cannot be ours: its payload is over MESSAGE_BYTES_MAX or
    /// its topic is no text. Acked already, so that it does not come again.
    Unfit { topic: String, payload_bytes: usize },
    /// The broker does not let us read a filter; the connection goes on.
    SubscriptionRefused { filter: String },
    /// The connection, or the attempt at one, ended; its tokens are void.
    Disconnected { conn: ConnNo, reason: String },
}

/// The task takes no more right now: try again after the next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

enum Command {
    Ack(AckToken),
    Publish {
        topic: String,
        payload: Vec<u8>,
        retain: bool,
    },
    Stop,
}

/// Handle of a subscriber task. Dropping it stops the task.
#[derive(Debug)]
pub struct MqttSubscriber {
    commands: mpsc::Sender<Command>,
    task: JoinHandle<()>,
}

impl MqttSubscriber {
    /// Starts the task on the current tokio runtime. Make `events` small: it
    /// bounds, with `receive_max`, what is held in memory.
    #[must_use]
    pub fn spawn(config: SubscriberConfig, events: mpsc::Sender<SubscriberEvent>) -> Self {
        let receive_max = config.receive_max.clamp(1, RECEIVE_MAX);
        let room = usize::from(receive_max) + usize::from(SUBSCRIBER_PUBLISHES_MAX);
        let (commands, receiver) = mpsc::channel(room);
        let task = Task {
            backoff: Backoff::new(config.mqtt.backoff),
            config: Arc::new(SubscriberConfig {
                receive_max,
                ..config
            }),
            commands: receiver,
            events,
            waiting: VecDeque::new(),
            outbox: Outbox::new(),
        };
        Self {
            commands,
            task: tokio::spawn(task.run()),
        }
    }

    /// The message is committed. A token of an earlier connection is ignored:
    /// the broker sends that message again.
    ///
    /// # Errors
    /// [`Busy`] when the task's queue is full.
    pub fn ack(&self, token: AckToken) -> Result<(), Busy> {
        self.commands
            .try_send(Command::Ack(token))
            .map_err(|_| Busy)
    }

    /// Publishes with QoS 1. Waits for a connection; of retained messages on
    /// one topic only the latest waits. Lost when the connection ends before
    /// the broker's ack.
    ///
    /// # Errors
    /// [`Busy`] when the task's queue is full.
    pub fn publish(&self, topic: &str, payload: Vec<u8>, retain: bool) -> Result<(), Busy> {
        let topic = topic.to_owned();
        let command = Command::Publish {
            topic,
            payload,
            retain,
        };
        self.commands.try_send(command).map_err(|_| Busy)
    }

    /// Publishes the offline status, disconnects and ends the task; takes at
    /// most STOP_MAX. The broker keeps the session.
    pub async fn stop(self) {
        // A closed channel says the same as the command.
        let _ = self.commands.send(Command::Stop).await;
        drop(self.commands);
        let _ = self.task.await;
    }
}

/// Why a connection ended.
enum Ended {
    Stopped,
    Lost(String),
}

struct Task {
    config: Arc<SubscriberConfig>,
    backoff: Backoff,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<SubscriberEvent>,
    /// Events that their reader had no room for yet.
    waiting: VecDeque<SubscriberEvent>,
    /// Messages to publish.
    outbox: Outbox,
}

impl Task {
    async fn run(mut self) {
        for number in 1.. {
            let conn = ConnNo(number);
            let Ended::Lost(reason) = self.connection(conn).await else {
                return;
            };
            self.waiting
                .push_back(SubscriberEvent::Disconnected { conn, reason });
            let wait = self.backoff.after_failure(client::random());
            if self.pause(Instant::now() + wait).await.is_none() {
                return;
            }
        }
    }

    /// Waits until `end`; `None` when the task is to stop.
    async fn pause(&mut self, end: Instant) -> Option<()> {
        loop {
            select! {
                () = sleep_until(end) => return Some(()),
                command = self.commands.recv(), if self.outbox.has_room() => match command {
                    None | Some(Command::Stop) => return None,
                    Some(Command::Ack(_)) => {}
                    Some(Command::Publish { topic, payload, retain }) => {
                        self.outbox.push(topic, payload, retain);
                    }
                },
                room = self.events.reserve(), if !self.waiting.is_empty() => {
                    deliver(room.ok()?, &mut self.waiting);
                }
            }
        }
    }

    async fn connection(&mut self, conn: ConnNo) -> Ended {
        let capacity = usize::from(self.config.receive_max)
            + usize::from(SUBSCRIBER_PUBLISHES_MAX)
            + REQUEST_SLACK;
        let (client, mut eventloop) = AsyncClient::new(self.options(), capacity);
        let mut session = Session::new(conn, Arc::clone(&self.config), client);
        let mut silent_at = Instant::now() + self.config.mqtt.connect_timeout * 2;
        loop {
            let event = match self
                .turn(&mut eventloop, &mut session, &mut silent_at)
                .await
            {
                Ok(event) => event,
                Err(ended) => return ended,
            };
            if matches!(event, Event::Incoming(_)) && !session.stopping {
                silent_at = Instant::now() + client::silence_max(&eventloop);
            }
            let done = session
                .on_event(event, &mut self.waiting)
                .and_then(|()| session.publish_waiting(&mut self.outbox));
            if let Err(ended) = done {
                return ended;
            }
            if session.did_work {
                self.backoff.succeeded();
            }
        }
    }

    /// Works until the client library reports something. Its poll is kept
    /// alive meanwhile: dropped half way, a packet could be counted as sent
    /// and never be written.
    async fn turn(
        &mut self,
        eventloop: &mut EventLoop,
        session: &mut Session,
        silent_at: &mut Instant,
    ) -> Result<Event, Ended> {
        let mut poll = pin!(client::next_event(eventloop));
        loop {
            select! {
                event = &mut poll, if self.waiting.len() < WAITING_EVENTS_MAX => {
                    return event.map_err(|reason| session.ended(reason));
                }
                command = self.commands.recv(), if self.outbox.has_room() => {
                    session.on_command(command, &mut self.outbox)?;
                    if session.stopping {
                        *silent_at = (*silent_at).min(Instant::now() + STOP_MAX);
                    }
                }
                room = self.events.reserve(), if !self.waiting.is_empty() => match room {
                    Ok(room) => deliver(room, &mut self.waiting),
                    Err(_) => return Err(Ended::Stopped),
                },
                () = sleep_until(*silent_at) => {
                    return Err(session.ended("the broker does not answer".to_owned()));
                }
            }
        }
    }

    fn options(&self) -> rumqttc::v5::MqttOptions {
        let session = SessionOptions {
            clean_start: false,
            expiry_s: self.config.session_expiry_s,
            receive_max: self.config.receive_max,
            inflight_max: SUBSCRIBER_PUBLISHES_MAX,
            manual_acks: true,
        };
        client::options(&self.config.mqtt, session, self.config.status.as_ref())
    }
}

fn deliver(room: mpsc::Permit<'_, SubscriberEvent>, waiting: &mut VecDeque<SubscriberEvent>) {
    if let Some(event) = waiting.pop_front() {
        room.send(event);
    }
}

/// What was handed to the client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Birth,
    Farewell,
    Message,
}

/// One connection: what came by it and what is out on it.
struct Session {
    conn: ConnNo,
    config: Arc<SubscriberConfig>,
    client: AsyncClient,
    sends: Sends<Sent>,
    receipts: Receipts<Publish>,
    /// Messages that may be out unacked on this connection; set by the CONNACK.
    window: u64,
    ready: bool,
    did_work: bool,
    stopping: bool,
}

impl Session {
    fn new(conn: ConnNo, config: Arc<SubscriberConfig>, client: AsyncClient) -> Self {
        Self {
            conn,
            config,
            client,
            sends: Sends::new(),
            receipts: Receipts::new(conn),
            window: 0,
            ready: false,
            did_work: false,
            stopping: false,
        }
    }

    fn ended(&self, reason: String) -> Ended {
        if self.stopping {
            Ended::Stopped
        } else {
            Ended::Lost(reason)
        }
    }

    fn on_command(&mut self, command: Option<Command>, outbox: &mut Outbox) -> Result<(), Ended> {
        match command {
            None | Some(Command::Stop) => self.begin_stop(),
            Some(Command::Ack(token)) => {
                self.receipts.ack(token);
                self.send_acks()
            }
            Some(Command::Publish {
                topic,
                payload,
                retain,
            }) => {
                outbox.push(topic, payload, retain);
                self.publish_waiting(outbox)
            }
        }
    }

    fn send_acks(&mut self) -> Result<(), Ended> {
        while let Some(publish) = self.receipts.next_ack() {
            self.did_work = true;
            self.client
                .try_ack(&publish)
                .map_err(|_| self.ended("an ack was not taken".to_owned()))?;
        }
        Ok(())
    }

    /// Never fills the library's window, in which the subscription has a place
    /// too: its queue carries the acks as well, and it stops reading the queue
    /// while the window is full.
    fn publish_waiting(&mut self, outbox: &mut Outbox) -> Result<(), Ended> {
        while self.ready && !self.stopping && self.sends.span() + 2 < self.window.max(3) {
            let Some((topic, message)) = outbox.pop() else {
                return Ok(());
            };
            if client::is_topic(&topic) {
                self.send(topic, message.payload, message.retain, Sent::Message)?;
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        topic: String,
        payload: Vec<u8>,
        retain: bool,
        as_: Sent,
    ) -> Result<(), Ended> {
        self.client
            .try_publish(topic, QoS::AtLeastOnce, retain, payload)
            .map_err(|_| self.ended("a message was not taken".to_owned()))?;
        self.sends.hand_over(as_);
        Ok(())
    }

    fn send_status(&mut self, payload: Vec<u8>, as_: Sent) -> Result<(), Ended> {
        let topic = self
            .config
            .status
            .as_ref()
            .map(|status| status.topic.clone());
        topic.map_or(Ok(()), |topic| self.send(topic, payload, true, as_))
    }

    fn begin_stop(&mut self) -> Result<(), Ended> {
        if self.stopping {
            return Ok(());
        }
        self.stopping = true;
        let config = Arc::clone(&self.config);
        match &config.status {
            Some(status) if self.ready => self.send_status(status.offline.clone(), Sent::Farewell),
            Some(_) | None => self.disconnect(),
        }
    }

    fn disconnect(&mut self) -> Result<(), Ended> {
        self.client
            .try_disconnect()
            .map_err(|_| self.ended("the disconnect was not taken".to_owned()))
    }

    fn on_event(&mut self, event: Event, out: &mut VecDeque<SubscriberEvent>) -> Result<(), Ended> {
        if client::is_collision(&event) {
            return Err(self.ended("a packet number was taken twice".to_owned()));
        }
        match event {
            Event::Incoming(packet) => self.on_packet(packet, out),
            Event::Outgoing(Outgoing::Publish(pkid)) => self
                .sends
                .on_written(pkid)
                .map_err(|reason| self.ended(reason)),
            Event::Outgoing(Outgoing::Disconnect) => Err(Ended::Stopped),
            Event::Outgoing(_) => Ok(()),
        }
    }

    fn on_packet(
        &mut self,
        packet: Packet,
        out: &mut VecDeque<SubscriberEvent>,
    ) -> Result<(), Ended> {
        if let Packet::Publish(publish) = packet {
            return self.on_message(publish, out);
        }
        if let Packet::PubAck(puback) = packet {
            return match self.sends.on_answered(puback.pkid) {
                Err(reason) => Err(self.ended(reason)),
                Ok(Sent::Farewell) => self.disconnect(),
                Ok(Sent::Birth | Sent::Message) => Ok(()),
            };
        }
        if let Packet::ConnAck(connack) = packet {
            return self.on_accepted(&connack, out);
        }
        if let Packet::SubAck(suback) = packet {
            for (filter, code) in self.config.filters.iter().zip(suback.return_codes) {
                if !matches!(code, SubscribeReasonCode::Success(_)) {
                    out.push_back(SubscriberEvent::SubscriptionRefused {
                        filter: filter.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    /// On a resumed session messages follow the CONNACK at once, so this is
    /// when the reader must know. The subscription is on its way before
    /// anything that the reader publishes.
    fn on_accepted(
        &mut self,
        connack: &ConnAck,
        out: &mut VecDeque<SubscriberEvent>,
    ) -> Result<(), Ended> {
        let receive_max = connack.properties.as_ref().and_then(|p| p.receive_max);
        self.window = u64::from(
            receive_max
                .unwrap_or(u16::MAX)
                .min(SUBSCRIBER_PUBLISHES_MAX),
        );
        self.ready = true;
        let session_present = connack.session_present;
        out.push_back(SubscriberEvent::Connected {
            conn: self.conn,
            session_present,
        });
        // Also on a resumed session: the filters may have changed since.
        let filters = self.config.filters.iter();
        self.client
            .try_subscribe_many(filters.map(|f| Filter::new(f, QoS::AtLeastOnce)))
            .map_err(|_| self.ended("a subscription is not valid".to_owned()))?;
        let config = Arc::clone(&self.config);
        config.status.as_ref().map_or(Ok(()), |status| {
            self.send_status(status.online.clone(), Sent::Birth)
        })
    }

    fn on_message(
        &mut self,
        publish: Publish,
        out: &mut VecDeque<SubscriberEvent>,
    ) -> Result<(), Ended> {
        let payload = publish.payload.clone();
        let topic = String::from_utf8(publish.topic.to_vec());
        // Only the numbers are kept for the ack, never the bytes.
        let receipt = Publish {
            payload: Vec::new().into(),
            topic: Vec::new().into(),
            properties: None,
            ..publish
        };
        let token = self.receipts.received(receipt);
        match topic {
            Ok(topic) if payload.len() <= MESSAGE_BYTES_MAX => {
                let payload = Vec::from(payload);
                out.push_back(SubscriberEvent::Message {
                    token,
                    topic,
                    payload,
                });
                Ok(())
            }
            topic => {
                let topic = topic.unwrap_or_default();
                let payload_bytes = payload.len();
                out.push_back(SubscriberEvent::Unfit {
                    topic,
                    payload_bytes,
                });
                self.receipts.ack(token);
                self.send_acks()
            }
        }
    }
}
