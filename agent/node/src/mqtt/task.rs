//! The loop of both clients: connection after connection, commands in, events out.
//!
//! Always holds: nothing of a connection survives it; the client library is polled
//! whatever the reader of the events does, until WAITING_EVENTS_MAX of them wait.
//! Knows neither what is published nor what is received: that is the [`Role`]'s.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use forebay_core::forward::ConnNo;
use tokio::select;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::backoff::Backoff;
use super::client::{self, MqttConfig, SessionOptions, Will};
use super::library::{self, Connection, Heard, Opening, Requests};
use super::limits::WAITING_EVENTS_MAX;
use super::renewal::Renewal;
use super::security::Material;
use super::watch::{Progress, Watch};

/// Why a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Stopped,
    /// By ourselves, for files that have changed.
    Renewed,
    Lost(String),
}

/// What a session says of itself to the loop.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Health {
    /// The broker has answered all that opens a connection.
    pub(super) ready: bool,
    /// The task is to end once its farewell is out.
    pub(super) stopping: bool,
    /// The connection is to end once its goodbye is out, and another to follow.
    pub(super) renewing: bool,
    /// Bytes of messages handed over.
    pub(super) bytes: u64,
    /// Messages that the broker has answered.
    pub(super) answers: u64,
}

impl Health {
    pub(super) fn ended(&self, reason: &str) -> Ended {
        if self.stopping {
            Ended::Stopped
        } else if self.renewing {
            Ended::Renewed
        } else {
            Ended::Lost(reason.to_owned())
        }
    }

    /// Our goodbye is out.
    pub(super) fn left(&self) -> Ended {
        self.ended("our goodbye went out unasked")
    }

    /// With so many messages unanswered.
    pub(super) fn progress(&self, unanswered: u64) -> Progress {
        Progress {
            ready: self.ready,
            leaving: self.stopping || self.renewing,
            bytes: self.bytes,
            answers: self.answers,
            unanswered,
        }
    }
}

/// What one client does with its connections.
pub(super) trait Role: Send {
    type Command: Send;
    type Event: Send;
    type Session: Send;

    fn mqtt(&self) -> &MqttConfig;
    fn session_options(&self) -> SessionOptions;
    /// The last will of a connection attempt.
    fn will(&self, conn: ConnNo) -> Option<Will>;
    /// Requests that may wait in the client library.
    fn requests_max(&self) -> usize;
    fn open(&mut self, conn: ConnNo, requests: Requests) -> Self::Session;
    fn health(session: &Self::Session) -> Health;
    fn progress(session: &Self::Session) -> Progress;
    /// Says goodbye; the connection that follows reads the files anew.
    fn renew(session: &mut Self::Session) -> Result<(), Ended>;

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
    fn on_heard(
        &mut self,
        session: &mut Self::Session,
        heard: Heard,
        out: &mut VecDeque<Self::Event>,
    ) -> Result<(), Ended>;
    fn disconnected(conn: ConnNo, reason: String) -> Self::Event;
    /// The broker does not let us in; `None` where nobody wants to hear that besides.
    fn denied(_why: String) -> Option<Self::Event> {
        None
    }
    fn note(text: String) -> Self::Event;
}

/// A client's task.
pub(super) struct Task<R: Role> {
    pub(super) role: R,
    pub(super) backoff: Backoff,
    pub(super) commands: mpsc::Receiver<R::Command>,
    pub(super) events: mpsc::Sender<R::Event>,
    /// Events that their reader had no room for yet.
    pub(super) waiting: VecDeque<R::Event>,
    pub(super) renewal: Renewal,
}

/// One connection as the loop sees it.
struct Link<S> {
    connection: Connection,
    session: S,
    material: Material,
    watch: Watch,
    started: Instant,
    look_at: Instant,
}

impl<R: Role> Task<R> {
    pub(super) fn new(
        role: R,
        commands: mpsc::Receiver<R::Command>,
        events: mpsc::Sender<R::Event>,
    ) -> Self {
        Self {
            backoff: Backoff::new(role.mqtt().backoff),
            renewal: Renewal::new(role.mqtt().clone()),
            role,
            commands,
            events,
            waiting: VecDeque::new(),
        }
    }

    pub(super) async fn run(mut self) {
        for number in 1.. {
            let conn = ConnNo(number);
            let (ended, stood) = self.connection(conn).await;
            let (reason, wait) = match ended {
                Ended::Stopped => return,
                Ended::Renewed => {
                    let reason = "files of TLS have changed: connecting with the new ones";
                    (reason.to_owned(), Duration::ZERO)
                }
                Ended::Lost(reason) if stood => (reason, self.backoff.after_loss(client::random())),
                Ended::Lost(reason) => (reason, self.backoff.after_failure(client::random())),
            };
            self.waiting.push_back(R::disconnected(conn, reason));
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

    /// One connection to its end, and whether it ever stood.
    async fn connection(&mut self, conn: ConnNo) -> (Ended, bool) {
        let material = match self.renewal.load().await {
            Ok(material) => material,
            Err(reason) => return (Ended::Lost(reason), false),
        };
        let will = self.role.will(conn);
        let (requests, connection) = library::open(&Opening {
            config: self.role.mqtt(),
            material: &material,
            session: self.role.session_options(),
            will: will.as_ref(),
            requests_max: self.role.requests_max(),
        });
        let session = self.role.open(conn, requests);
        let started = Instant::now();
        let config = self.role.mqtt();
        let open_max = config.connect_timeout * 2;
        // Pings go out at each keep-alive, so an answer is due after one.
        let silence_max = config.keep_alive().mul_f32(2.5);
        let mut link = Link {
            connection,
            session,
            material,
            watch: Watch::new(Duration::ZERO, open_max, silence_max),
            started,
            look_at: started + config.files_check,
        };
        loop {
            let heard = match self.turn(&mut link).await {
                Ok(heard) => heard,
                Err(ended) => return (ended, R::health(&link.session).ready),
            };
            let incoming = heard.is_incoming();
            let done = self
                .role
                .on_heard(&mut link.session, heard, &mut self.waiting);
            if let Err(ended) = done {
                return (ended, R::health(&link.session).ready);
            }
            link.on(R::progress(&link.session), incoming);
        }
    }

    /// Works until the client library reports something. Its poll is kept alive
    /// meanwhile: dropped half way, a packet could be counted as sent and never be
    /// written.
    async fn turn(&mut self, link: &mut Link<R::Session>) -> Result<Heard, Ended> {
        let Link {
            connection,
            session,
            material,
            watch,
            started,
            look_at,
        } = link;
        let mut next = pin!(connection.next());
        loop {
            let (end, why) = watch.end(R::progress(session));
            select! {
                heard = &mut next, if self.waiting.len() < WAITING_EVENTS_MAX => {
                    return heard.map_err(|failure| {
                        let health = R::health(session);
                        let about = (health.ready, client::local_clock());
                        let reason = failure.sentence(self.role.mqtt(), material, about);
                        if failure.is_denied() {
                            self.waiting.extend(R::denied(reason.clone()));
                        }
                        health.ended(&reason)
                    });
                }
                command = self.commands.recv(), if self.role.has_room() => {
                    self.role.on_command(session, command, &mut self.waiting)?;
                    watch.on(R::progress(session), false, started.elapsed());
                }
                room = self.events.reserve(), if !self.waiting.is_empty() => match room {
                    Ok(room) => deliver(room, &mut self.waiting),
                    Err(_) => return Err(Ended::Stopped),
                },
                () = sleep_until(*look_at), if material.is_watched() => {
                    *look_at = Instant::now() + self.role.mqtt().files_check;
                    let health = R::health(session);
                    if health.ready && !health.stopping && !health.renewing {
                        let seen = self.renewal.look(material).await;
                        self.waiting.extend(seen.notes.into_iter().map(R::note));
                        if seen.renew {
                            R::renew(session)?;
                        }
                    }
                    watch.on(R::progress(session), false, started.elapsed());
                }
                () = sleep_until(*started + end) => {
                    return Err(R::health(session).ended(why));
                }
            }
        }
    }
}

impl<S> Link<S> {
    fn on(&mut self, progress: Progress, heard: bool) {
        self.watch.on(progress, heard, self.started.elapsed());
    }
}

fn deliver<T>(room: mpsc::Permit<'_, T>, waiting: &mut VecDeque<T>) {
    if let Some(event) = waiting.pop_front() {
        room.send(event);
    }
}
