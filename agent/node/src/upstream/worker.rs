//! One run of the receiver on one opened sink: events of the broker's client in,
//! transactions, acks and marks out.
//!
//! Always holds: a message is acked only after the transaction that carries its
//! rows and marks is on disk; marks are told only then, too. Bounds: see
//! `limits`. Ends when it is told to stop or the sink fails; then nothing more is
//! acked, and the broker sends again what was not.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use forebay_core::payload::{Command, GatewayName, SessionNonce, UPSTREAM_TOPIC, UpstreamHello};
use forebay_core::units::Mono;
use forebay_core::upstream::apply::{Applier, CloneSeen, Outcome};
use forebay_core::upstream::batch::{Batch, Loaded};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep_until;

use super::ledger::LedgerShown;
use super::limits::{
    ACK_INTERVAL, BATCH_BYTES_MAX, BUSY_PAUSE, CONFLICTS_MAX, EVENTS_MAX, FORKED_SHOWN_MAX,
    SAY_INTERVAL,
};
use super::query::SinkQuestion;
use super::schedule::Schedule;
use super::sink::{Committed, Sink, SinkError};
use super::snapshot::UpstreamSnapshot;
use crate::mqtt::subscriber::{AckToken, MqttSubscriber, SubscriberEvent};
use crate::ports::Say;

/// Why a run ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// As asked; with what could not be made durable any more.
    Stopped(Result<(), String>),
    Sink(String),
}

/// See the module's text.
pub(super) struct Worker {
    /// `None` only while a transaction runs.
    sink: Option<Box<dyn Sink>>,
    applier: Applier,
    client: MqttSubscriber,
    snapshot: watch::Sender<UpstreamSnapshot>,
    ledger: watch::Sender<LedgerShown>,
    say: Say,
    /// Of messages that the running batch carries.
    tokens: Vec<AckToken>,
    touched: Vec<GatewayName>,
    /// Of messages that are durable.
    acks: VecDeque<AckToken>,
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
}

impl Worker {
    pub(super) fn new(
        sink: Box<dyn Sink>,
        applier: Applier,
        client: MqttSubscriber,
        (snapshot, ledger): (watch::Sender<UpstreamSnapshot>, watch::Sender<LedgerShown>),
        say: Say,
    ) -> Self {
        ledger.send_replace(LedgerShown::of(&applier));
        let mut worker = Self {
            sink: Some(sink),
            applier,
            client,
            snapshot,
            ledger,
            say,
            tokens: Vec::new(),
            touched: Vec::new(),
            acks: VecDeque::new(),
            marks: Schedule::new(ACK_INTERVAL),
            command: None,
            started: Instant::now(),
            greet: false,
            busy: false,
            rejected_said: None,
            conflicts: 0,
        };
        worker.show();
        worker
    }

    pub(super) async fn run(
        mut self,
        mut events: mpsc::Receiver<SubscriberEvent>,
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
                event = events.recv() => match event {
                    Some(event) => Some(event),
                    None => return Ended::Sink("the broker's client has ended".to_owned()),
                },
            };
            if let Err(text) = self.gather(first, &mut events).await {
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
    async fn gather(
        &mut self,
        first: Option<SubscriberEvent>,
        events: &mut mpsc::Receiver<SubscriberEvent>,
    ) -> Result<(), String> {
        let mut next = first;
        let mut taken = 0;
        while let Some(event) = next {
            self.on_event(event)?;
            taken += 1;
            let full = taken >= EVENTS_MAX || self.applier.pending_bytes() >= BATCH_BYTES_MAX;
            next = if full { None } else { events.try_recv().ok() };
        }
        self.commit().await
    }

    fn on_event(&mut self, event: SubscriberEvent) -> Result<(), String> {
        match event {
            SubscriberEvent::Connected {
                session_present, ..
            } => self.on_connected(session_present)?,
            SubscriberEvent::Message {
                token,
                topic,
                payload,
            } => {
                self.tokens.push(token);
                let outcome = self.applier.handle(&topic, payload.into());
                self.on_outcome(&topic, outcome);
            }
            SubscriberEvent::Unfit {
                topic,
                payload_bytes,
            } => {
                let outcome = self.applier.handle_unfit(&topic, payload_bytes);
                self.on_outcome(&topic, outcome);
            }
            SubscriberEvent::SubscriptionRefused { filter } => {
                let text = format!("the broker does not let us read {filter}");
                (self.say)(&format!("upstream: {text}"));
                self.broker(false, Some(text));
            }
            SubscriberEvent::Note(text) => (self.say)(&format!("upstream: {text}")),
            SubscriberEvent::Disconnected { reason, .. } => {
                (self.say)(&format!("upstream: no broker: {reason}"));
                self.broker(false, Some(reason));
            }
        }
        Ok(())
    }

    fn on_connected(&mut self, session_present: bool) -> Result<(), String> {
        (self.say)("upstream: connected to the broker");
        self.broker(true, None);
        if !session_present || self.applier.session().is_none() {
            // The broker may have taken messages for us and forgotten them.
            let mut nonce = [0; 16];
            getrandom::fill(&mut nonce).map_err(|error| format!("no random bytes: {error}"))?;
            self.applier.renew_session(SessionNonce(nonce));
        }
        // What was published by an earlier connection may be lost with it.
        self.greet = true;
        let all: Vec<_> = self.applier.gateways().cloned().collect();
        self.touched.extend(all);
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
        let now = Instant::now();
        self.applier.committed(self.mono(now));
        for gateway in std::mem::take(&mut self.touched) {
            self.marks.mark(&gateway, now);
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
            if self.client.ack(*token).is_err() {
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
                .client
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
        let published = self.client.publish(UPSTREAM_TOPIC, hello.render(), true);
        published.is_ok()
    }

    /// False when the client takes no more.
    fn publish_marks(&self, gateway: &GatewayName) -> bool {
        let Some(message) = self.applier.ack_message(gateway) else {
            return true;
        };
        let topic = gateway.ack_topic();
        self.client.publish(&topic, message.render(), true).is_ok()
    }

    /// When there is something to do without an event.
    fn wake(&self) -> Option<Instant> {
        if self.busy {
            return Some(Instant::now() + BUSY_PAUSE);
        }
        let resend = self.applier.next_deadline();
        let resend = resend.map(|at| self.started + Duration::from_micros(at.0));
        let tend = self.sink.as_ref().and_then(|sink| sink.due());
        [self.marks.due(), resend, tend].into_iter().flatten().min()
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
        self.hello(false);
        self.client.stop().await;
        Ended::Stopped(Ok(()))
    }

    fn broker(&self, connected: bool, said: Option<String>) {
        self.snapshot.send_modify(|snapshot| {
            snapshot.connected = connected;
            snapshot.broker_said = said;
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
