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
use std::sync::Arc;

use forebay_core::forward::ConnNo;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::client::{self, MqttConfig, SessionOptions, Status, Will};
use super::library::{Heard, Requests};
use super::limits::{RECEIVE_MAX, REQUEST_SLACK, SUBSCRIBER_PUBLISHES_MAX};
use super::outbox::Outbox;
use super::task::{Ended, Health, Role, Task};
use super::watch::Progress;

pub use super::receipts::AckToken;

mod session;

use session::Session;

/// Settings of a subscriber.
#[derive(Debug, Clone)]
pub struct SubscriberConfig {
    pub mqtt: MqttConfig,
    pub status: Option<Status>,
    /// Subscribed on each connection; at most FILTERS_MAX. Of several subscribers
    /// with the same [`shared`] filter one gets each message.
    pub filters: Vec<String>,
    /// Messages that may be unacked, 1 to RECEIVE_MAX. A broker of MQTT 3.1.1 is not
    /// told and has a limit of its own.
    pub receive_max: u16,
    /// How long the broker keeps messages for us while we are away, seconds; by
    /// 3.1.1 as long as the broker likes.
    pub session_expiry_s: u32,
}

/// A filter whose messages are shared out among the subscribers of `group`.
#[must_use]
pub fn shared(group: &str, filter: &str) -> String {
    format!("$share/{group}/{filter}")
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
        /// The broker has sent it before, and saw no ack.
        again: bool,
        topic: String,
        payload: Vec<u8>,
    },
    /// A message that cannot be ours: its payload is over MESSAGE_BYTES_MAX or
    /// its topic is no text. Acked already, so that it does not come again.
    Unfit { topic: String, payload_bytes: usize },
    /// The broker does not let us read a filter; the connection goes on.
    SubscriptionRefused { filter: String },
    /// The broker does not let us in: user, password, client id or certificate.
    Denied(String),
    /// Something that the operator should know; the connection goes on.
    Note(String),
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
        let role = Subscribing {
            config: Arc::new(SubscriberConfig {
                receive_max,
                ..config
            }),
            outbox: Outbox::new(),
        };
        let task = Task::new(role, receiver, events);
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

/// The subscriber's side of the loop.
struct Subscribing {
    config: Arc<SubscriberConfig>,
    /// Messages to publish.
    outbox: Outbox,
}

impl Role for Subscribing {
    type Command = Command;
    type Event = SubscriberEvent;
    type Session = Session;

    fn mqtt(&self) -> &MqttConfig {
        &self.config.mqtt
    }

    fn session_options(&self) -> SessionOptions {
        SessionOptions {
            session: client::Session::Kept {
                expiry_s: self.config.session_expiry_s,
            },
            receive_max: self.config.receive_max,
            inflight_max: SUBSCRIBER_PUBLISHES_MAX,
            manual_acks: true,
        }
    }

    fn will(&self, _: ConnNo) -> Option<Will> {
        self.config.status.as_ref().map(Status::will)
    }

    fn requests_max(&self) -> usize {
        usize::from(self.config.receive_max) + usize::from(SUBSCRIBER_PUBLISHES_MAX) + REQUEST_SLACK
    }

    fn open(&mut self, conn: ConnNo, requests: Requests) -> Session {
        Session::new(conn, Arc::clone(&self.config), requests)
    }

    fn health(session: &Session) -> Health {
        session.health
    }

    fn progress(session: &Session) -> Progress {
        session.progress()
    }

    fn renew(session: &mut Session) -> Result<(), Ended> {
        session.renew()
    }

    fn has_room(&self) -> bool {
        self.outbox.has_room()
    }

    fn on_idle_command(&mut self, command: Option<Command>) -> Option<()> {
        match command {
            None | Some(Command::Stop) => return None,
            // Of a connection that is gone.
            Some(Command::Ack(_)) => {}
            Some(Command::Publish {
                topic,
                payload,
                retain,
            }) => {
                self.outbox.push(topic, payload, retain);
            }
        }
        Some(())
    }

    fn on_command(
        &mut self,
        session: &mut Session,
        command: Option<Command>,
        _: &mut VecDeque<SubscriberEvent>,
    ) -> Result<(), Ended> {
        session.on_command(command, &mut self.outbox)
    }

    fn on_heard(
        &mut self,
        session: &mut Session,
        heard: Heard,
        out: &mut VecDeque<SubscriberEvent>,
    ) -> Result<(), Ended> {
        session.on_heard(heard, out)?;
        session.send_acks();
        session.publish_waiting(&mut self.outbox)
    }

    fn denied(why: String) -> Option<SubscriberEvent> {
        Some(SubscriberEvent::Denied(why))
    }

    fn disconnected(conn: ConnNo, reason: String) -> SubscriberEvent {
        SubscriberEvent::Disconnected { conn, reason }
    }

    fn note(text: String) -> SubscriberEvent {
        SubscriberEvent::Note(text)
    }
}
