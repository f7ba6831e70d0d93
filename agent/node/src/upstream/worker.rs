//! One run of the receiver on one opened sink: events of the broker's client in,
//! transactions, acks and marks out.
//!
//! Always holds: a message is acked only after the transaction that carries its
//! rows and marks is on disk; marks are told only then, too. Bounds: see
//! `limits`. Ends when it is told to stop or the sink fails; then nothing more is
//! acked, and the broker sends again what was not.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::payload::{Command, GatewayName, SessionNonce, UPSTREAM_TOPIC, UpstreamHello};
use forebay_core::units::Mono;
use forebay_core::upstream::apply::{Applier, CloneSeen, Outcome};
use forebay_core::upstream::batch::{Batch, Loaded, shared};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep_until;

use super::connections::{Connections, Event, Plan, Token};
use super::health::Heard;
use super::ledger::LedgerShown;
use super::limits::{
    ACK_INTERVAL, BATCH_BYTES_MAX, BUSY_PAUSE, CONFLICTS_MAX, EVENTS_MAX, FORKED_SHOWN_MAX,
    SAY_INTERVAL, STALLED_AFTER, STALLED_MESSAGES,
};
use super::query::SinkQuestion;
use super::schedule::Schedule;
use super::session;
use super::sink::{Committed, Sink, SinkError};
use super::snapshot::UpstreamSnapshot;
use crate::ports::Say;

/// Why a run ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// As asked; with what could not be made durable any more.
    Stopped(Result<(), String>),
    Sink(String),
}

/// Where a worker shows how it does.
pub(super) type Shows = (
    watch::Sender<UpstreamSnapshot>,
    watch::Sender<LedgerShown>,
    Arc<Heard>,
);

/// See the module's text.
pub(super) struct Worker {
    /// `None` only while a transaction runs.
    sink: Option<Box<dyn Sink>>,
    applier: Applier,
    plan: Plan,
    connections: Connections,
    /// How long a batch may wait to become larger, and up to which size.
    linger: (Duration, usize),
    snapshot: watch::Sender<UpstreamSnapshot>,
    ledger: watch::Sender<LedgerShown>,
    /// When something of each gateway was applied.
    gateways: Arc<Heard>,
    say: Say,
    /// Of messages that the running batch carries.
    tokens: Vec<Token>,
    /// When the first and the last of them came.
    batch_at: Option<(Instant, Instant)>,
    /// The batch must not wait.
    is_urgent: bool,
    touched: Vec<GatewayName>,
    /// Of messages that are durable.
    acks: VecDeque<Token>,
    marks: Schedule,
    /// A command that the client could not take yet.
    command: Option<(GatewayName, Command)>,
    started: Instant,
    /// The hello is to be published.
    greet: bool,
    /// The client took no more: it is tried again after a pause.
    busy: bool,
    rejected_said: Option<Instant>,
    conflicts: u64,
    /// Of another receiver of the group, as it says.
    heard: Option<SessionNonce>,
    /// One that was wrong was answered since the last connect.
    is_answered: bool,
}

impl Worker {
    pub(super) fn new(
        sink: Box<dyn Sink>,
        applier: Applier,
        plan: Plan,
        (snapshot, ledger, gateways): Shows,
        say: Say,
    ) -> Self {
        ledger.send_replace(LedgerShown::of(&applier));
        let (wait, bytes) = sink.linger();
        let bytes = if wait.is_zero() {
            BATCH_BYTES_MAX
        } else {
            bytes
        };
        let mut worker = Self {
            linger: (wait, bytes),
            sink: Some(sink),
            applier,
            connections: Connections::spawn(&plan),
            plan,
            snapshot,
            ledger,
            gateways,
            say,
            tokens: Vec::new(),
            batch_at: None,
            is_urgent: false,
            touched: Vec::new(),
            acks: VecDeque::new(),
            marks: Schedule::new(ACK_INTERVAL),
            command: None,
            started: Instant::now(),
            greet: false,
            busy: false,
            rejected_said: None,
            conflicts: 0,
            heard: None,
            is_answered: false,
        };
        worker.show();
        worker
    }

    pub(super) async fn run(
        mut self,
        (asked, stop): (
            &mut mpsc::Receiver<SinkQuestion>,
            &mut oneshot::Receiver<()>,
        ),
    ) -> Ended {
        loop {
            let wake = self.wake().unwrap_or_else(far_away);
            let first = tokio::select! {
                _ = &mut *stop => return self.stop().await,
                () = sleep_until(wake.into()) => None,
                Some(question) = asked.recv() => {
                    if let Err(text) = self.with_sink(|sink| question.answer(sink)).await {
                        return Ended::Sink(text);
                    }
                    continue;
                }
                event = self.connections.next() => match event {
                    Some(event) => Some(event),
                    None => return Ended::Sink("the broker's client has ended".to_owned()),
                },
            };
            if let Err(text) = self.gather(first).await {
                // Dropped without a word: what is not acked comes again.
                return Ended::Sink(text);
            }
            if let Err(text) = self.tend(false).await {
                return Ended::Sink(text);
            }
            self.tell();
        }
    }

    /// Takes what waits and makes it durable together.
    async fn gather(&mut self, first: Option<Event>) -> Result<(), String> {
        let mut next = first;
        let mut taken = 0;
        while let Some(event) = next {
            self.on_event(event)?;
            taken += 1;
            let full = taken >= EVENTS_MAX || self.applier.pending_bytes() >= self.linger.1;
            next = if full {
                None
            } else {
                self.connections.try_next()
            };
        }
        if self.is_due(Instant::now()) {
            self.commit().await?;
            self.follow().await?;
        }
        Ok(())
    }

    /// Whether the batch is to wait no more.
    fn is_due(&self, now: Instant) -> bool {
        let Some((first, last)) = self.batch_at else {
            return true;
        };
        let (wait, bytes) = self.linger;
        let many = self.tokens.len() >= self.plan.unacked_max() / 2;
        let large = self.applier.pending_bytes() >= bytes;
        // The broker may wait for acks: it sends only so many without.
        let stalled = self.tokens.len() >= STALLED_MESSAGES && now >= last + STALLED_AFTER;
        self.is_urgent || many || large || stalled || now >= first + wait
    }

    /// When the batch waits no more.
    fn due(&self) -> Option<Instant> {
        let (first, last) = self.batch_at?;
        let end = first + self.linger.0;
        if self.tokens.len() >= STALLED_MESSAGES {
            Some(end.min(last + STALLED_AFTER))
        } else {
            Some(end)
        }
    }

    fn on_event(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Connected {
                connection,
                session_present,
            } => self.on_connected(connection, session_present)?,
            Event::Message {
                token,
                topic,
                received,
            } => {
                let now = Instant::now();
                let first = self.batch_at.map_or(now, |(first, _)| first);
                self.batch_at = Some((first, now));
                self.tokens.push(token);
                let outcome = self.applier.take(&topic, received);
                self.on_outcome(&topic, outcome);
            }
            Event::Hello { token, payload } => {
                self.acks.push_back(token);
                self.on_hello(&payload);
            }
            Event::Unfit {
                topic,
                payload_bytes,
            } => {
                let outcome = self.applier.handle_unfit(&topic, payload_bytes);
                self.on_outcome(&topic, outcome);
            }
            Event::Down { connection, reason } => {
                (self.say)(&format!("upstream: {reason}"));
                self.connections.set_up(connection, false);
                self.broker(false, Some(reason));
            }
            Event::Denied(why) => self
                .snapshot
                .send_modify(|snapshot| snapshot.denied = Some(why)),
            Event::Note(text) => (self.say)(&format!("upstream: {text}")),
        }
        Ok(())
    }

    fn on_connected(&mut self, connection: usize, session_present: bool) -> Result<(), String> {
        (self.say)("upstream: connected to the broker");
        if self.connections.set_up(connection, true) {
            self.broker(true, None);
        }
        // The broker may have taken messages for us and forgotten them.
        if session::on_connected(&mut self.applier, &self.plan, connection, session_present) {
            let mut nonce = [0; 16];
            getrandom::fill(&mut nonce).map_err(|error| format!("no random bytes: {error}"))?;
            self.applier.renew_session(SessionNonce(nonce));
        }
        // What was published by an earlier connection may be lost with it.
        self.greet = true;
        self.is_urgent = true;
        self.is_answered = false;
        self.touch_all();
        Ok(())
    }

    fn touch_all(&mut self) {
        let all: Vec<_> = self.applier.gateways().cloned().collect();
        self.touched.extend(all);
    }

    /// A receiver of the group says which session it is in.
    fn on_hello(&mut self, payload: &[u8]) {
        let hello = UpstreamHello::parse(payload).ok();
        let other = hello.filter(|hello| Some(hello.session) != self.applier.session());
        if let Some(hello) = other {
            self.heard = Some(hello.session);
            self.is_urgent = true;
        }
    }

    /// Takes over the session that another receiver of the group has drawn.
    async fn follow(&mut self) -> Result<(), String> {
        let Some(heard) = self.heard.take() else {
            return Ok(());
        };
        let loaded = self.with_sink(|sink| load(sink, vec![shared()])).await?;
        let loaded = loaded.map_err(|error| error.to_string())?;
        let batch = self.applier.conflict(Batch::default(), loaded);
        // Nothing was handled since the last commit.
        batch.map_err(|error| error.to_string())?;
        if self.applier.session() == Some(heard) {
            self.touch_all();
        } else if !self.is_answered {
            // What is retained is of before.
            self.is_answered = true;
            self.greet = true;
        }
        Ok(())
    }

    fn on_outcome(&mut self, topic: &str, outcome: Outcome) {
        match outcome {
            Outcome::Taken { gateway } | Outcome::Beyond { gateway } => {
                self.touched.push(gateway);
            }
            Outcome::Rejected { reason } => {
                let now = Instant::now();
                let said = self.rejected_said;
                if said.is_none_or(|said| now.duration_since(said) >= SAY_INTERVAL) {
                    self.rejected_said = Some(now);
                    let topic = topic.escape_debug().take(80).collect::<String>();
                    (self.say)(&format!(
                        "upstream: a message on {topic} is rejected: {reason}"
                    ));
                }
            }
        }
    }

    /// Makes the batch durable; then what it carried may be acked and told.
    async fn commit(&mut self) -> Result<(), String> {
        let mut batch = self.applier.take_batch();
        let mut conflicts = 0;
        while !batch.is_empty() {
            let done;
            (batch, done) = self.write(batch).await?;
            let Some(loaded) = done else { break };
            // Judged on a state that another worker has changed meanwhile.
            conflicts += 1;
            if conflicts > CONFLICTS_MAX {
                return Err(String::from(
                    "other workers change the same gateways all the time",
                ));
            }
            let names: Vec<_> = loaded.iter().map(|(name, _)| name.clone()).collect();
            let judged = self.applier.conflict(batch, loaded);
            batch = judged.map_err(|error| error.to_string())?;
            self.conflicts += 1;
            self.touched.extend(names);
        }
        self.acks.extend(self.tokens.drain(..));
        self.batch_at = None;
        self.is_urgent = false;
        let now = Instant::now();
        self.applier.committed(self.mono(now));
        for gateway in std::mem::take(&mut self.touched) {
            self.marks.mark(&gateway, now);
            self.gateways.note(gateway, now);
        }
        self.say_clones();
        self.show();
        Ok(())
    }

    /// Gives the batch to the sink: `None` when it is durable, else what the sink holds
    /// now of the gateways that it refused.
    async fn write(&mut self, batch: Batch) -> Result<(Batch, Option<Changed>), String> {
        let write = |sink: &mut dyn Sink| {
            let done = sink.commit(&batch).and_then(|done| match done {
                Committed::Done => Ok(None),
                Committed::Conflict(gateways) => load(sink, gateways).map(Some),
            });
            (batch, done)
        };
        let (batch, done) = self.with_sink(write).await?;
        Ok((batch, done.map_err(|error| error.to_string())?))
    }

    fn say_clones(&mut self) {
        for clone in self.applier.take_clones() {
            let CloneSeen {
                gateway,
                log_id,
                opening,
            } = clone;
            (self.say)(&format!(
                "upstream: ALARM: two disks of gateway {gateway} have one log ({log_id}): its \
                 epoch {} was opened twice, as after a backup was restored or a disk copied. \
                 Both are kept apart and nothing is dropped",
                opening.epoch.0
            ));
        }
    }

    /// Calls the sink where blocking harms nobody. An error only when that is not possible.
    async fn with_sink<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut dyn Sink) -> T + Send + 'static,
    ) -> Result<T, String> {
        let mut sink = self.sink.take().expect("it comes back from each call");
        let task = tokio::task::spawn_blocking(move || {
            let done = call(sink.as_mut());
            (sink, done)
        });
        let (sink, done) = task.await.map_err(|error| error.to_string())?;
        self.sink = Some(sink);
        Ok(done)
    }

    /// Lets the sink do what is due beside commits. When it cannot, that is shown; what
    /// comes is applied as long as commits work.
    async fn tend(&mut self, is_last: bool) -> Result<(), String> {
        let now = Instant::now();
        let due = self.sink.as_ref().and_then(|sink| sink.due());
        if !is_last && due.is_none_or(|due| due > now) {
            return Ok(());
        }
        let done = self.with_sink(move |sink| sink.tend(now, is_last)).await?;
        let said = done.as_ref().err().map(SinkError::to_string);
        if let Some(text) = &said {
            (self.say)(&format!("upstream: {text}"));
        }
        self.snapshot
            .send_modify(|snapshot| snapshot.sink_said = said);
        Ok(())
    }

    /// Hands acks, marks and commands to the broker's client as far as it takes
    /// them and they are due.
    fn tell(&mut self) {
        let now = Instant::now();
        self.busy = !self.ack() || !self.greet() || !self.tell_marks(now) || !self.ask(now);
    }

    // Each of these is false when the client takes no more.

    fn ack(&mut self) -> bool {
        while let Some(token) = self.acks.front() {
            if self.connections.ack(*token).is_err() {
                return false;
            }
            self.acks.pop_front();
        }
        true
    }

    fn greet(&mut self) -> bool {
        if self.greet {
            self.greet = !self.hello(true);
        }
        !self.greet
    }

    fn tell_marks(&mut self, now: Instant) -> bool {
        while let Some(gateway) = self.marks.next(now) {
            if !self.publish_marks(&gateway) {
                self.marks.mark(&gateway, now);
                return false;
            }
        }
        true
    }

    fn ask(&mut self, now: Instant) -> bool {
        let mono = self.mono(now);
        loop {
            let next = self.command.take();
            let Some((gateway, command)) = next.or_else(|| self.applier.poll_resend(mono)) else {
                return true;
            };
            let topic = gateway.cmd_topic();
            if self
                .connections
                .publish(&topic, command.render(), false)
                .is_err()
            {
                self.command = Some((gateway, command));
                return false;
            }
        }
    }

    /// The worker's own clock, microseconds since its start.
    fn mono(&self, at: Instant) -> Mono {
        let micros = at.duration_since(self.started).as_micros();
        Mono(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// False when the client takes no more.
    fn hello(&self, online: bool) -> bool {
        let Some(session) = self.applier.session() else {
            return true;
        };
        let hello = UpstreamHello { session, online };
        let published = self
            .connections
            .publish(UPSTREAM_TOPIC, hello.render(), true);
        published.is_ok()
    }

    /// False when the client takes no more.
    fn publish_marks(&self, gateway: &GatewayName) -> bool {
        let Some(message) = self.applier.ack_message(gateway) else {
            return true;
        };
        let topic = gateway.ack_topic();
        self.connections
            .publish(&topic, message.render(), true)
            .is_ok()
    }

    /// When there is something to do without an event.
    fn wake(&self) -> Option<Instant> {
        if self.busy {
            return Some(Instant::now() + BUSY_PAUSE);
        }
        let resend = self.applier.next_deadline();
        let resend = resend.map(|at| self.started + Duration::from_micros(at.0));
        let tend = self.sink.as_ref().and_then(|sink| sink.due());
        let due = [self.marks.due(), resend, tend, self.due()];
        due.into_iter().flatten().min()
    }

    async fn stop(mut self) -> Ended {
        self.applier.keep_counters();
        if let Err(text) = self.commit().await {
            return Ended::Stopped(Err(text));
        }
        // What it cannot do now, it does after the next start.
        let _ = self.tend(true).await;
        // Nothing is lost by it, so the stop is a clean one.
        self.snapshot
            .send_modify(|snapshot| snapshot.sink_said = None);
        self.ack();
        while let Some(gateway) = self.marks.pop() {
            if !self.publish_marks(&gateway) {
                break;
            }
        }
        // Others of a group go on.
        if !self.plan.is_joint() {
            self.hello(false);
        }
        self.connections.stop().await;
        Ended::Stopped(Ok(()))
    }

    fn broker(&self, connected: bool, said: Option<String>) {
        self.snapshot.send_modify(|snapshot| {
            snapshot.connected = connected;
            snapshot.broker_said = said;
            if connected {
                snapshot.denied = None;
            }
        });
    }

    fn show(&mut self) {
        let applier = &mut self.applier;
        self.ledger.send_modify(|ledger| ledger.update(applier));
        let gateways = self.applier.gateways().count() as u64;
        let partitions = self.applier.partitions() as u64;
        let holes = self.applier.holes() as u64;
        let counters = self.applier.counters();
        let forked = self.applier.forked().take(FORKED_SHOWN_MAX);
        let forked: Vec<_> = forked
            .map(|(gateway, log_id)| (gateway.to_string(), log_id.to_string()))
            .collect();
        let conflicts = self.conflicts;
        self.snapshot.send_modify(|snapshot| {
            snapshot.count(counters);
            snapshot.gateways = gateways;
            snapshot.partitions = partitions;
            snapshot.holes = holes;
            snapshot.conflicts = conflicts;
            snapshot.forked = forked;
        });
    }
}

/// What the sink holds now of these gateways.
type Changed = Vec<(GatewayName, Loaded)>;

fn load(sink: &mut dyn Sink, gateways: Vec<GatewayName>) -> Result<Changed, SinkError> {
    let load = |gateway: GatewayName| {
        let loaded = sink.load(Some(&gateway))?;
        Ok((gateway, loaded))
    };
    gateways.into_iter().map(load).collect()
}

fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}
