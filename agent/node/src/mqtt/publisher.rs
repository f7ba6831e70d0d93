//! The gateway's publisher: the one task that publishes on its connection, so
//! that every ack can be matched with its message.
//!
//! Always holds: a message is answered by at most one of `Acked` and `Refused`,
//! with the numbers it was given, and by none when its connection ended before.
//! No state survives a connection. Bound: `window` messages, WAITING_EVENTS_MAX
//! events. Knows no log and never sends anything twice: that is the forwarder's.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::forward::{ConnNo, Refusal, SendNo};
use forebay_core::payload::sparkplug::NodeId;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::client::{self, MqttConfig, SessionOptions, Status, Will};
use super::library::{Heard, Requests};
use super::limits::{REQUEST_SLACK, WAITING_EVENTS_MAX, WINDOW_MAX};
use super::task::{Ended, Health, Role, Task};
use super::watch::Progress;

mod session;

use session::Session;

/// Settings of a publisher.
#[derive(Debug, Clone)]
pub struct PublisherConfig {
    pub mqtt: MqttConfig,
    pub status: Option<Status>,
    /// Its will and its farewell are deaths of this edge node instead; births are data.
    pub sparkplug: Option<NodeId>,
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
    /// The broker does not let us in: who must do what. `Disconnected` follows.
    Denied(String),
    /// Something that the operator should know; the connection goes on.
    Note(String),
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
        let role = Publishing {
            config: Arc::new(PublisherConfig { window, ..config }),
        };
        let task = Task::new(role, receiver, events);
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

/// The publisher's side of the loop.
struct Publishing {
    config: Arc<PublisherConfig>,
}

impl Role for Publishing {
    type Command = Command;
    type Event = LinkEvent;
    type Session = Session;

    fn mqtt(&self) -> &MqttConfig {
        &self.config.mqtt
    }

    fn session_options(&self) -> SessionOptions {
        SessionOptions {
            session: client::Session::Fresh,
            receive_max: u16::try_from(WAITING_EVENTS_MAX).unwrap_or(u16::MAX),
            inflight_max: self.config.window,
            manual_acks: false,
        }
    }

    fn will(&self, conn: ConnNo) -> Option<Will> {
        match &self.config.sparkplug {
            Some(node) => Some(client::will_of(node, conn)),
            None => self.config.status.as_ref().map(Status::will),
        }
    }

    fn requests_max(&self) -> usize {
        usize::from(self.config.window) + REQUEST_SLACK
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
        true
    }

    fn on_idle_command(&mut self, command: Option<Command>) -> Option<()> {
        match command {
            None | Some(Command::Stop) => None,
            // Of a connection that is gone.
            Some(Command::Publish(_) | Command::Reset(_)) => Some(()),
        }
    }

    fn on_command(
        &mut self,
        session: &mut Session,
        command: Option<Command>,
        out: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Ended> {
        session.on_command(command, out)
    }

    fn on_heard(
        &mut self,
        session: &mut Session,
        heard: Heard,
        out: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Ended> {
        session.on_heard(heard, out)
    }

    fn disconnected(conn: ConnNo, reason: String) -> LinkEvent {
        LinkEvent::Disconnected { conn, reason }
    }

    fn denied(why: String) -> Option<LinkEvent> {
        Some(LinkEvent::Denied(why))
    }

    fn note(text: String) -> LinkEvent {
        LinkEvent::Note(text)
    }
}
