//! The loop of both clients: connection after connection, commands in, events out.
//!
//! Always holds: nothing of a connection survives it; the client library is polled
//! whatever the reader of the events does, until WAITING_EVENTS_MAX of them wait.
//! Knows neither what is published nor what is received: that is the [`Role`]'s.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use forebay_core::forward::ConnNo;
use rumqttc::v5::{AsyncClient, Event, EventLoop, MqttOptions};
use tokio::select;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::backoff::Backoff;
use super::client;
use super::limits::{STOP_MAX, WAITING_EVENTS_MAX};

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    Stopped,
    Lost(String),
}

/// What a session says of itself to the loop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Health {
    /// The broker has answered all that opens a connection.
    pub(super) ready: bool,
    /// The task is to end once its farewell is out.
    pub(super) stopping: bool,
    /// The connection was of use: the next wait starts from the beginning.
    pub(super) did_work: bool,
}

impl Health {
    pub(super) fn new() -> Self {
        Self {
            ready: false,
            stopping: false,
            did_work: false,
        }
    }

    pub(super) fn ended(&self, reason: &str) -> Ended {
        if self.stopping {
            Ended::Stopped
        } else {
            Ended::Lost(reason.to_owned())
        }
    }
}

/// What one client does with its connections.
pub(super) trait Role: Send {
    type Command: Send;
    type Event: Send;
    type Session: Send;

    fn options(&self) -> MqttOptions;
    /// Requests that may wait in the client library.
    fn requests_max(&self) -> usize;
    fn open(&mut self, conn: ConnNo, client: AsyncClient) -> Self::Session;
    fn health(session: &Self::Session) -> Health;

    /// Whether one more command surely fits.
    fn has_room(&self) -> bool;
    /// A command while there is no connection; `None` ends the task.
    fn on_idle_command(&mut self, command: Option<Self::Command>) -> Option<()>;
    fn on_command(
        &mut self,
        session: &mut Self::Session,
        command: Option<Self::Command>,
        out: &mut VecDeque<Self::Event>,
    ) -> Result<(), Ended>;
    fn on_event(
        &mut self,
        session: &mut Self::Session,
        event: Event,
        out: &mut VecDeque<Self::Event>,
    ) -> Result<(), Ended>;
    fn disconnected(conn: ConnNo, reason: String) -> Self::Event;
}

/// A client's task.
pub(super) struct Task<R: Role> {
    pub(super) role: R,
    pub(super) backoff: Backoff,
    pub(super) connect_timeout: Duration,
    pub(super) commands: mpsc::Receiver<R::Command>,
    pub(super) events: mpsc::Sender<R::Event>,
    /// Events that their reader had no room for yet.
    pub(super) waiting: VecDeque<R::Event>,
}

impl<R: Role> Task<R> {
    pub(super) async fn run(mut self) {
        for number in 1.. {
            let conn = ConnNo(number);
            let Ended::Lost(reason) = self.connection(conn).await else {
                return;
            };
            self.waiting.push_back(R::disconnected(conn, reason));
            let wait = self.backoff.after_failure(client::random());
            if self.pause(Instant::now() + wait).await.is_none() {
                return;
            }
        }
    }

    /// Waits until `end` and until the reader of the events keeps up; `None` when
    /// the task is to stop.
    async fn pause(&mut self, end: Instant) -> Option<()> {
        loop {
            select! {
                () = sleep_until(end), if self.waiting.len() < WAITING_EVENTS_MAX => {
                    return Some(());
                }
                command = self.commands.recv(), if self.role.has_room() => {
                    self.role.on_idle_command(command)?;
                }
                room = self.events.reserve(), if !self.waiting.is_empty() => {
                    deliver(room.ok()?, &mut self.waiting);
                }
            }
        }
    }

    async fn connection(&mut self, conn: ConnNo) -> Ended {
        let (client, mut eventloop) =
            AsyncClient::new(self.role.options(), self.role.requests_max());
        let mut session = self.role.open(conn, client);
        let mut silent_at = Instant::now() + self.connect_timeout * 2;
        loop {
            let turn = self.turn(&mut eventloop, &mut session, &mut silent_at);
            let event = match turn.await {
                Ok(event) => event,
                Err(ended) => return ended,
            };
            let is_incoming = matches!(event, Event::Incoming(_));
            if let Err(ended) = self.role.on_event(&mut session, event, &mut self.waiting) {
                return ended;
            }
            let health = R::health(&session);
            // A broker that pings and does not open the connection is silent too.
            if is_incoming && health.ready && !health.stopping {
                silent_at = Instant::now() + client::silence_max(&eventloop);
            }
            if health.did_work {
                self.backoff.succeeded();
            }
        }
    }

    /// Works until the client library reports something. Its poll is kept alive
    /// meanwhile: dropped half way, a packet could be counted as sent and never be
    /// written.
    async fn turn(
        &mut self,
        eventloop: &mut EventLoop,
        session: &mut R::Session,
        silent_at: &mut Instant,
    ) -> Result<Event, Ended> {
        let mut poll = pin!(client::next_event(eventloop));
        loop {
            select! {
                event = &mut poll, if self.waiting.len() < WAITING_EVENTS_MAX => {
                    return event.map_err(|reason| R::health(session).ended(&reason));
                }
                command = self.commands.recv(), if self.role.has_room() => {
                    self.role.on_command(session, command, &mut self.waiting)?;
                    if R::health(session).stopping {
                        *silent_at = (*silent_at).min(Instant::now() + STOP_MAX);
                    }
                }
                room = self.events.reserve(), if !self.waiting.is_empty() => match room {
                    Ok(room) => deliver(room, &mut self.waiting),
                    Err(_) => return Err(Ended::Stopped),
                },
                () = sleep_until(*silent_at) => {
                    return Err(R::health(session).ended("the broker does not answer"));
                }
            }
        }
    }
}

fn deliver<T>(room: mpsc::Permit<'_, T>, waiting: &mut VecDeque<T>) {
    if let Some(event) = waiting.pop_front() {
        room.send(event);
    }
}
