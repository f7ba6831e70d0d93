//! The gateway's publisher: the one task that publishes on its connection, so
//! that every ack can be matched with its message.
//!
//! Always holds: a message is answered by at most one of `Acked` and `Refused`,
//! with the numbers it was given, and by none when its connection ended before.
//! No state survives a connection. Bound: `window` messages, WAITING_EVENTS_MAX
//! events. Knows no log and never sends anything twice: that is the forwarder's.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

use forebay_core::forward::{ConnNo, Refusal, SendNo};
use rumqttc::Outgoing;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    ConnAck, Filter, Packet, PubAckReason, Publish, PublishProperties, SubscribeReasonCode,
};
use rumqttc::v5::{AsyncClient, Event, EventLoop};
use tokio::select;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::backoff::Backoff;
use super::client::{self, MqttConfig, SessionOptions, Status};
use super::limits::{PACKET_BYTES_MAX, REQUEST_SLACK, STOP_MAX, WAITING_EVENTS_MAX, WINDOW_MAX};
use super::sends::Sends;

/// Settings of a publisher.
#[derive(Debug, Clone)]
pub struct PublisherConfig {
    pub mqtt: MqttConfig,
    pub status: Option<Status>,
    /// Subscribed anew on each connection; at most FILTERS_MAX.
    pub filters: Vec<String>,
    /// Messages that may be out unacked, 1 to WINDOW_MAX; the broker may allow less.
    pub window: u16,
}

/// A message to publish with QoS 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutMessage {
    /// Dropped without an answer when this is no longer the connection.
    pub conn: ConnNo,
    pub send: SendNo,
    pub topic: String,
    pub payload: Vec<u8>,
    pub user_properties: Vec<(String, String)>,
}

/// What happened on the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// Subscriptions and birth are acked; messages of `conn` are taken from now
    /// on, at most `window` of them unacked.
    Connected {
        conn: ConnNo,
        session_present: bool,
        window: u16,
    },
    Acked {
        conn: ConnNo,
        send: SendNo,
    },
    Refused {
        conn: ConnNo,
        send: SendNo,
        reason: Refusal,
    },
    /// The connection, or the attempt at one, ended.
    Disconnected {
        conn: ConnNo,
        reason: String,
    },
    /// The broker does not let us read a filter; the connection goes on.
    SubscriptionRefused {
        filter: String,
    },
    /// A message of a subscription. May come before `Connected`.
    Message {
        topic: String,
        payload: Vec<u8>,
    },
}

/// The task takes no more right now: try again after the next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

enum Command {
    Publish(OutMessage),
    Reset(ConnNo),
    Stop,
}

/// Handle of a publisher task. Dropping it stops the task.
#[derive(Debug)]
pub struct MqttPublisher {
    commands: mpsc::Sender<Command>,
    task: JoinHandle<()>,
}

impl MqttPublisher {
    /// Starts the task on the current tokio runtime.
    #[must_use]
    pub fn spawn(config: PublisherConfig, events: mpsc::Sender<LinkEvent>) -> Self {
        let window = config.window.clamp(1, WINDOW_MAX);
        let (commands, receiver) = mpsc::channel(usize::from(window) + REQUEST_SLACK);
        let task = Task {
            backoff: Backoff::new(config.mqtt.backoff),
            config: Arc::new(PublisherConfig { window, ..config }),
            commands: receiver,
            events,
            waiting: VecDeque::new(),
        };
        Self {
            commands,
            task: tokio::spawn(task.run()),
        }
    }

    /// Hands a message over.
    ///
    /// # Errors
    /// [`Busy`] when the task's queue is full; the message was not taken.
    pub fn publish(&self, message: OutMessage) -> Result<(), Busy> {
        self.commands
            .try_send(Command::Publish(message))
            .map_err(|_| Busy)
    }

    /// Drops the connection `conn`, if it is still the one, and starts another.
    ///
    /// # Errors
    /// [`Busy`] when the task's queue is full.
    pub fn reset(&self, conn: ConnNo) -> Result<(), Busy> {
        self.commands
            .try_send(Command::Reset(conn))
            .map_err(|_| Busy)
    }

    /// Publishes the offline status, disconnects and ends the task; takes at
    /// most STOP_MAX.
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
    config: Arc<PublisherConfig>,
    backoff: Backoff,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<LinkEvent>,
    /// Events that their reader had no room for yet.
    waiting: VecDeque<LinkEvent>,
}

impl Task {
    async fn run(mut self) {
        for number in 1.. {
            let conn = ConnNo(number);
            let Ended::Lost(reason) = self.connection(conn).await else {
                return;
            };
            self.waiting
                .push_back(LinkEvent::Disconnected { conn, reason });
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
                command = self.commands.recv() => match command {
                    None | Some(Command::Stop) => return None,
                    // Of a connection that is gone.
                    Some(Command::Publish(_) | Command::Reset(_)) => {}
                },
                room = self.events.reserve(), if !self.waiting.is_empty() => {
                    deliver(room.ok()?, &mut self.waiting);
                }
            }
        }
    }

    async fn connection(&mut self, conn: ConnNo) -> Ended {
        let capacity = usize::from(self.config.window) + REQUEST_SLACK;
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
            if let Err(ended) = session.on_event(event, &mut self.waiting) {
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
                command = self.commands.recv() => {
                    session.on_command(command, &mut self.waiting)?;
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
            clean_start: true,
            expiry_s: 0,
            receive_max: u16::try_from(WAITING_EVENTS_MAX).unwrap_or(u16::MAX),
            inflight_max: self.config.window,
            manual_acks: false,
        };
        client::options(&self.config.mqtt, session, self.config.status.as_ref())
    }
}

fn deliver(room: mpsc::Permit<'_, LinkEvent>, waiting: &mut VecDeque<LinkEvent>) {
    if let Some(event) = waiting.pop_front() {
        room.send(event);
    }
}

/// What was handed to the client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Birth,
    Farewell,
    Data(SendNo),
}

/// One connection: who it is, what is out on it.
struct Session {
    conn: ConnNo,
    config: Arc<PublisherConfig>,
    client: AsyncClient,
    sends: Sends<Sent>,
    /// Set by the CONNACK.
    accepted: Option<Accepted>,
    subscribed: bool,
    born: bool,
    ready: bool,
    did_work: bool,
    stopping: bool,
}

#[derive(Debug, Clone, Copy)]
struct Accepted {
    session_present: bool,
    window: u16,
    packet_bytes_max: usize,
}

impl Session {
    fn new(conn: ConnNo, config: Arc<PublisherConfig>, client: AsyncClient) -> Self {
        Self {
            conn,
            subscribed: config.filters.is_empty(),
            born: config.status.is_none(),
            config,
            client,
            sends: Sends::new(),
            accepted: None,
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

    fn on_command(
        &mut self,
        command: Option<Command>,
        out: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Ended> {
        match command {
            None | Some(Command::Stop) => self.begin_stop(),
            Some(Command::Reset(conn)) if conn == self.conn => {
                Err(self.ended("reset by the forwarder".to_owned()))
            }
            Some(Command::Reset(_)) => Ok(()),
            Some(Command::Publish(message)) => self.publish(message, out),
        }
    }

    fn publish(&mut self, message: OutMessage, out: &mut VecDeque<LinkEvent>) -> Result<(), Ended> {
        let Some(accepted) = self.accepted.filter(|_| self.ready && !self.stopping) else {
            return Ok(());
        };
        if message.conn != self.conn {
            return Ok(());
        }
        let OutMessage {
            conn,
            send,
            topic,
            payload,
            user_properties,
        } = message;
        if !client::is_topic(&topic) {
            out.push_back(LinkEvent::Refused {
                conn,
                send,
                reason: Refusal::TopicInvalid,
            });
            return Ok(());
        }
        let properties = PublishProperties {
            user_properties,
            ..PublishProperties::default()
        };
        let publish = Publish::new(&topic, QoS::AtLeastOnce, payload, Some(properties));
        // The library counts the two bytes of the packet number only once it
        // has one. A packet that is too large would fail there for ever.
        let packet_bytes = publish.size() + 2;
        if packet_bytes > accepted.packet_bytes_max {
            let bytes_max = accepted.packet_bytes_max;
            let reason = Refusal::TooLarge {
                packet_bytes,
                bytes_max,
            };
            out.push_back(LinkEvent::Refused { conn, send, reason });
            return Ok(());
        }
        let properties = publish.properties.unwrap_or_default();
        self.client
            .try_publish_with_properties(
                topic,
                QoS::AtLeastOnce,
                false,
                publish.payload,
                properties,
            )
            .map_err(|_| self.ended("more messages than the window were handed over".to_owned()))?;
        self.sends.hand_over(Sent::Data(send));
        Ok(())
    }

    fn begin_stop(&mut self) -> Result<(), Ended> {
        if self.stopping {
            return Ok(());
        }
        self.stopping = true;
        match &self.config.status {
            Some(status) if self.ready => self.send_status(status.offline.clone(), Sent::Farewell),
            Some(_) | None => Err(Ended::Stopped),
        }
    }

    fn send_status(&mut self, payload: Vec<u8>, as_: Sent) -> Result<(), Ended> {
        let Some(status) = &self.config.status else {
            return Ok(());
        };
        self.client
            .try_publish(status.topic.clone(), QoS::AtLeastOnce, true, payload)
            .map_err(|_| self.ended("the status was not taken".to_owned()))?;
        self.sends.hand_over(as_);
        Ok(())
    }

    fn on_event(&mut self, event: Event, out: &mut VecDeque<LinkEvent>) -> Result<(), Ended> {
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

    fn on_packet(&mut self, packet: Packet, out: &mut VecDeque<LinkEvent>) -> Result<(), Ended> {
        if let Packet::ConnAck(connack) = packet {
            return self.on_accepted(&connack, out);
        }
        if let Packet::SubAck(suback) = packet {
            for (filter, code) in self.config.filters.iter().zip(suback.return_codes) {
                if !matches!(code, SubscribeReasonCode::Success(_)) {
                    out.push_back(LinkEvent::SubscriptionRefused {
                        filter: filter.clone(),
                    });
                }
            }
            self.subscribed = true;
            self.check_ready(out);
            return Ok(());
        }
        if let Packet::PubAck(puback) = packet {
            return self.on_answer(puback.pkid, refusal(puback.reason), out);
        }
        if let Packet::Publish(publish) = packet {
            // A topic that is no text cannot be one of ours.
            if let Ok(topic) = String::from_utf8(publish.topic.to_vec()) {
                let payload = publish.payload.to_vec();
                out.push_back(LinkEvent::Message { topic, payload });
            }
        }
        Ok(())
    }

    fn on_accepted(
        &mut self,
        connack: &ConnAck,
        out: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Ended> {
        let properties = connack.properties.as_ref();
        let receive_max = properties.and_then(|p| p.receive_max).unwrap_or(u16::MAX);
        let packet_max = properties
            .and_then(|p| p.max_packet_size)
            .unwrap_or(u32::MAX);
        self.accepted = Some(Accepted {
            session_present: connack.session_present,
            window: self.config.window.min(receive_max).max(1),
            packet_bytes_max: usize::try_from(packet_max)
                .unwrap_or(usize::MAX)
                .min(PACKET_BYTES_MAX),
        });
        if !self.config.filters.is_empty() {
            let filters = self.config.filters.iter();
            self.client
                .try_subscribe_many(filters.map(|f| Filter::new(f, QoS::AtLeastOnce)))
                .map_err(|_| self.ended("a subscription is not valid".to_owned()))?;
        }
        if let Some(status) = &self.config.status {
            self.send_status(status.online.clone(), Sent::Birth)?;
        }
        self.check_ready(out);
        Ok(())
    }

    fn on_answer(
        &mut self,
        pkid: u16,
        refused: Option<Refusal>,
        out: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Ended> {
        let conn = self.conn;
        match self
            .sends
            .on_answered(pkid)
            .map_err(|reason| self.ended(reason))?
        {
            // A broker that refuses our status still takes our data.
            Sent::Birth => {
                self.born = true;
                self.check_ready(out);
            }
            Sent::Farewell => {
                self.client
                    .try_disconnect()
                    .map_err(|_| self.ended("the disconnect was not taken".to_owned()))?;
            }
            Sent::Data(send) => {
                self.did_work = true;
                out.push_back(match refused {
                    None => LinkEvent::Acked { conn, send },
                    Some(reason) => LinkEvent::Refused { conn, send, reason },
                });
            }
        }
        Ok(())
    }

    /// Data goes out only when nothing else takes packet numbers any more: the
    /// library hands them out in a circle of `window`, so a subscription among
    /// the data would push a message onto a number that is still taken.
    fn check_ready(&mut self, out: &mut VecDeque<LinkEvent>) {
        let Some(accepted) = self.accepted else {
            return;
        };
        if self.ready || !self.subscribed || !self.born {
            return;
        }
        self.ready = true;
        out.push_back(LinkEvent::Connected {
            conn: self.conn,
            session_present: accepted.session_present,
            window: accepted.window,
        });
    }
}

/// `None` for a message that the broker took, also when nobody listens.
fn refusal(reason: PubAckReason) -> Option<Refusal> {
    match reason {
        PubAckReason::Success | PubAckReason::NoMatchingSubscribers => None,
        PubAckReason::UnspecifiedError => Some(Refusal::Unspecified),
        PubAckReason::ImplementationSpecificError => Some(Refusal::Implementation),
        PubAckReason::NotAuthorized => Some(Refusal::NotAuthorized),
        PubAckReason::TopicNameInvalid => Some(Refusal::TopicInvalid),
        PubAckReason::PacketIdentifierInUse => Some(Refusal::PacketIdInUse),
        PubAckReason::QuotaExceeded => Some(Refusal::Quota),
        PubAckReason::PayloadFormatInvalid => Some(Refusal::PayloadInvalid),
    }
}
