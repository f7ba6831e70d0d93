//! The loop around the core: events in, effects out, one at a time. Decides
//! nothing; what it waits for is what the core asked for.
//!
//! Bound: every channel has a size; the storage thread is handed at most what it
//! takes, the rest waits here and is bounded by what the core has under way.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_core::commit::CommitToken;
use forebay_core::effect::{Effect, FetchToken, Input, QueryId};
use forebay_core::forward::{ConnNo, DestinationId};
use forebay_core::import::{ImportAnswer, ImportId};
use forebay_core::pipeline::Gateway;
use forebay_core::query::{Answer as QueryAnswer, PlanRequest, Query, Reply};
use forebay_core::units::{EventTime, Mono, Now};
use tokio::sync::{mpsc, oneshot};

use super::device_questions::DeviceQuestion;
use super::links::{Heard, Links};
use super::questions::Question;
use super::sources::{Said, Sources};
use super::status::{with_ports, with_sources};
use super::turns::{For, TurnTimes};
use super::{imports, questions};
use crate::devlog::DeviceLogs;
use crate::local::Asked;
use crate::mqtt::publisher::{LinkEvent, OutMessage};
use crate::ports::{
    MonoClock, PortEvent, PortEventKind, PortHandle, Ports, Say, clock_is_synchronised,
};
use crate::reads::{PlanAsked, PlanIds, Reads};
use crate::sources::SourceSays;
use crate::store::{Answer, Refused, Request, StorageThread};

/// How long the loop sleeps when the core wants nothing.
const IDLE: Duration = Duration::from_secs(3600);

/// One turn in so many is a question's, if there is one: it waits for one event, and a flood
/// of questions leaves half of the time to all else.
const QUESTION_EACH: u32 = 2;
/// One turn in so many goes to what is due, whatever else there is.
const DEADLINE_EACH: u32 = 4;

/// What the owner of an agent tells its loop.
#[derive(Debug)]
pub(super) enum Control {
    /// Take no more readings; answer when what is here is durable and derived and,
    /// if `forwarded`, acked by the broker.
    Drain {
        forwarded: bool,
        done: oneshot::Sender<()>,
    },
    /// Hand nothing more to the broker; answer when what is on its way is answered
    /// and the marks are durable.
    Hold {
        done: oneshot::Sender<()>,
    },
    Stop,
}

/// What somebody waits for.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Settled,
    Drained,
    Quiet,
}

/// Everything that the loop listens to.
#[derive(Debug)]
pub(super) struct Events {
    pub store: mpsc::UnboundedReceiver<Answer>,
    pub ports: mpsc::Receiver<PortEvent>,
    pub mqtt: mpsc::Receiver<Heard>,
    pub sources: mpsc::Receiver<Said>,
    pub asked: mpsc::Receiver<Asked>,
    pub plans: mpsc::Receiver<PlanAsked>,
    pub control: mpsc::Receiver<Control>,
}

/// Everything that the loop acts on.
#[derive(Debug)]
pub(super) struct Outside {
    pub store: StorageThread,
    pub ports: Ports,
    pub links: Links,
    pub sources: Sources,
    pub logs: DeviceLogs,
}

pub(super) struct Runtime {
    core: Gateway,
    clock: MonoClock,
    say: Say,
    outside: Outside,
    handles: BTreeMap<forebay_core::units::PortId, PortHandle>,
    waiting: VecDeque<Request>,
    answers: BTreeMap<QueryId, Asker>,
    last_query: u64,
    plans: PlanIds,
    /// Reads the log for questions beside this loop.
    reads: Reads,
    /// Counts events: who has the next turn.
    turn: u32,
    times: TurnTimes,
    imports: BTreeMap<ImportId, oneshot::Sender<QueryAnswer>>,
    last_import: u64,
    awaited: Vec<(Wanted, oneshot::Sender<()>)>,
    /// What the store said when it failed.
    failed: Option<String>,
}

/// Who waits for an answer.
struct Asker {
    /// The core knows nothing of the ports' side of it.
    about: About,
    answer: oneshot::Sender<QueryAnswer>,
}

/// What the process adds to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Status,
    Tables,
    Other,
}

/// What an event asks of the loop beside its effects.
enum Next {
    GoOn,
    Stop,
}

/// Two clocks that are read within this are read at once, us; and how often it is tried.
const AT_ONCE_US: u64 = 20;
const TRIES: usize = 4;

/// Reads both clocks at once: what a thread is put aside for in between would be an error
/// of the times of readings.
pub(super) fn now(clock: &MonoClock) -> Now {
    let read = || {
        let before = clock.now();
        let utc = SystemTime::now();
        let apart = clock.now().0 - before.0;
        (apart, Mono(before.0 + apart / 2), utc)
    };
    let mut best = read();
    for _ in 1..TRIES {
        if best.0 <= AT_ONCE_US {
            break;
        }
        best = std::cmp::min_by_key(best, read(), |(apart, ..)| *apart);
    }
    let (_, mono, utc) = best;
    let since = utc.duration_since(UNIX_EPOCH).unwrap_or_default();
    Now {
        mono,
        utc: EventTime(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)),
    }
}

/// What the clocks said at `mono`, a moment ago.
fn at(clock: &MonoClock, mono: Mono) -> Now {
    let now = now(clock);
    let ago = now.mono.0.saturating_sub(mono.0) as i64;
    Now {
        mono,
        utc: EventTime(now.utc.0.saturating_sub(ago)),
    }
}

impl Runtime {
    pub(super) fn new(
        core: Gateway,
        clock: MonoClock,
        say: Say,
        outside: Outside,
        reads: Reads,
    ) -> Self {
        let ids = outside.ports.ids();
        let handles = ids.filter_map(|id| Some((id, outside.ports.handle(id)?)));
        Self {
            handles: handles.collect(),
            core,
            clock,
            say,
            outside,
            waiting: VecDeque::new(),
            answers: BTreeMap::new(),
            last_query: 0,
            plans: PlanIds::default(),
            reads,
            turn: 0,
            times: TurnTimes::default(),
            imports: BTreeMap::new(),
            last_import: 0,
            awaited: Vec::new(),
            failed: None,
        }
    }

    /// Runs until told to stop or until the store fails.
    ///
    /// # Errors
    /// What the store said.
    pub(super) async fn run(mut self, mut events: Events) -> Result<(), String> {
        self.act();
        while self.failed.is_none() {
            match self.next(&mut events).await {
                Next::GoOn => {}
                Next::Stop => break,
            }
            self.act();
            self.answer_awaited();
            self.times.end(Instant::now());
        }
        let Outside {
            store,
            ports,
            links,
            sources,
            logs: _,
        } = self.outside;
        // A source's thread waits for room to speak.
        drop(events.sources);
        ports.stop().await;
        tokio::join!(links.stop(), sources.stop());
        // Joining the thread waits for the disk: not on the runtime's own thread.
        let _ = tokio::task::spawn_blocking(move || drop(store)).await;
        self.failed.map_or(Ok(()), Err)
    }

    async fn next(&mut self, events: &mut Events) -> Next {
        self.turn = self.turn.wrapping_add(1);
        if self.turn.is_multiple_of(QUESTION_EACH) {
            if let Ok(plan) = events.plans.try_recv() {
                self.on_plan(plan);
                return Next::GoOn;
            }
            if let Ok(asked) = events.asked.try_recv() {
                self.on_asked(asked);
                return Next::GoOn;
            }
        }
        let deadline = self.core.next_deadline();
        let wake = deadline.map_or_else(|| Instant::now() + IDLE, |mono| self.clock.instant(mono));
        // A timer is late by up to a millisecond: what is due does not wait for one.
        let is_due = wake <= Instant::now();
        if is_due && self.turn % DEADLINE_EACH == 1 {
            self.on_due();
            return Next::GoOn;
        }
        let woken = async {
            match is_due {
                true => tokio::task::yield_now().await,
                false => tokio::time::sleep_until(wake.into()).await,
            }
        };
        tokio::select! {
            Some(answer) = events.store.recv() => self.on_store(answer),
            Some(event) = events.ports.recv() => self.on_port(event),
            Some((dest, event)) = events.mqtt.recv() => self.on_mqtt(dest, event),
            Some(said) = events.sources.recv() => self.on_source(said),
            Some(asked) = events.asked.recv() => self.on_asked(asked),
            Some(plan) = events.plans.recv() => self.on_plan(plan),
            control = events.control.recv() => return self.on_control(control),
            () = woken => self.on_due(),
        }
        Next::GoOn
    }

    fn handle(&mut self, input: Input<'_>) {
        if !self.core.is_clock_trusted() && clock_is_synchronised() {
            self.core.handle(Input::ClockSynchronised, now(&self.clock));
        }
        self.core.handle(input, now(&self.clock));
    }

    fn on_due(&mut self) {
        self.times.begin(For::Due, Instant::now());
        self.handle(Input::Deadline);
    }

    fn on_store(&mut self, answer: Answer) {
        self.times.begin(For::Store, Instant::now());
        match answer {
            Answer::Committed { token } => self.handle(Input::Committed(CommitToken(token))),
            Answer::Fetched { token, blocks, .. } => {
                self.handle(Input::Fetched(FetchToken(token), blocks));
            }
            Answer::Failed { error, .. } => self.handle(Input::StoreFailed(error)),
            Answer::Event(event) => self.handle(Input::Store(event)),
        }
        self.send_waiting();
    }

    fn on_port(&mut self, event: PortEvent) {
        self.times.begin(For::Ports, Instant::now());
        let PortEvent { port, kind, .. } = event;
        match kind {
            PortEventKind::Opened { baud } => {
                let baud = baud.map(|baud| baud.0);
                self.handle(Input::PortOpened { port, baud });
            }
            PortEventKind::Bytes { bytes, received } => {
                let then = at(&self.clock, received);
                self.core.handle(Input::PortBytes(port, &bytes), then);
            }
            PortEventKind::Closed { .. } => self.handle(Input::PortClosed(port)),
        }
    }

    fn on_mqtt(&mut self, dest: DestinationId, event: LinkEvent) {
        self.times.begin(For::Brokers, Instant::now());
        match event {
            LinkEvent::Connected { conn, window, .. } => {
                self.handle(Input::BrokerConnected { dest, conn, window });
            }
            LinkEvent::Acked { conn, send } => {
                self.handle(Input::BrokerAcked(dest, conn, send));
            }
            LinkEvent::Refused { conn, send, reason } => {
                self.handle(Input::BrokerRefused(dest, conn, send, reason));
            }
            LinkEvent::Disconnected { conn, reason } => {
                self.handle(Input::BrokerDisconnected { dest, conn, reason });
            }
            LinkEvent::SubscriptionRefused { filter } => {
                let why = format!(
                    "the broker does not let us read {filter}: marks of the receiver stay unknown"
                );
                (self.say)(&why);
                self.handle(Input::BrokerDenied { dest, why });
            }
            LinkEvent::Denied(why) => self.handle(Input::BrokerDenied { dest, why }),
            LinkEvent::Note(text) => (self.say)(&format!("forward: {text}")),
            LinkEvent::Message { topic, payload } => self.handle(Input::BrokerMessage {
                dest,
                topic: &topic,
                payload: &payload,
            }),
        }
    }

    fn on_source(&mut self, (source, said): Said) {
        self.times.begin(For::Sources, Instant::now());
        match said {
            SourceSays::Batch(batch) => self.handle(Input::Changes(source, batch)),
            SourceSays::State { state, lag_bytes } => self.handle(Input::SourceState {
                source,
                state,
                lag_bytes,
            }),
            SourceSays::Note(text) => {
                let name = self.outside.sources.name(source);
                (self.say)(&format!("{name}: {text}"));
            }
        }
    }

    fn on_plan(&mut self, PlanAsked { request, answer }: PlanAsked) {
        self.times.begin(For::Plans, Instant::now());
        let id = self.plans.ask(answer);
        self.handle(Input::Plan(id, request));
    }

    fn on_asked(&mut self, asked: Asked) {
        self.times.begin(For::Questions, Instant::now());
        if imports::is_import(&asked.request) {
            return self.on_import(asked);
        }
        let (input, about) = match questions::read(&asked.request) {
            Ok(Question::Device(DeviceQuestion::Log(request))) => {
                return self.outside.logs.ask(request, asked.answer);
            }
            Ok(Question::Device(DeviceQuestion::Core(request))) => (Ok(request), About::Other),
            Ok(Question::Query(Query::Channel(channel, query))) => {
                let reads = self.reads.clone();
                let (answer, planned) = oneshot::channel();
                let request = PlanRequest::Job(channel, query);
                self.on_plan(PlanAsked { request, answer });
                // It ends with its asker.
                tokio::spawn(async move {
                    let mut answer = asked.answer;
                    let said = tokio::select! {
                        said = reads.job(planned, query) => said,
                        () = answer.closed() => return,
                    };
                    // Who asked may have gone away.
                    let said = said.map(Reply::from);
                    let _ = answer.send(said.map_err(|error| error.to_string()));
                });
                return;
            }
            Ok(Question::Query(query)) => {
                let about = if matches!(query, Query::Status | Query::Summary) {
                    About::Status
                } else if query == Query::Tables {
                    About::Tables
                } else {
                    About::Other
                };
                (Err(query), about)
            }
            // Who asked may have gone away.
            Err(text) => return drop(asked.answer.send(Err(text))),
        };
        self.last_query += 1;
        let id = QueryId(self.last_query);
        let asker = Asker {
            about,
            answer: asked.answer,
        };
        self.answers.insert(id, asker);
        self.handle(match input {
            Ok(request) => Input::Device(id, request),
            Err(query) => Input::Query(id, query),
        });
    }

    fn on_import(&mut self, asked: Asked) {
        match imports::read(&asked.request) {
            Ok(request) => {
                self.last_import += 1;
                let id = ImportId(self.last_import);
                self.imports.insert(id, asked.answer);
                self.handle(Input::Import(id, request));
            }
            // Who asked may have gone away.
            Err(text) => drop(asked.answer.send(Err(text))),
        }
    }

    fn on_imported(&mut self, id: ImportId, answer: ImportAnswer) {
        if let Some(asker) = self.imports.remove(&id) {
            // Who asked may have gone away; what was taken stays.
            let _ = asker.send(answer.map(|imported| imports::write_answer(&imported).into()));
        }
    }

    fn on_control(&mut self, control: Option<Control>) -> Next {
        match control {
            Some(Control::Drain { forwarded, done }) => {
                let wanted = if forwarded {
                    Wanted::Drained
                } else {
                    Wanted::Settled
                };
                self.awaited.push((wanted, done));
                self.outside.sources.drain();
                self.handle(Input::Drain);
                Next::GoOn
            }
            Some(Control::Hold { done }) => {
                self.awaited.push((Wanted::Quiet, done));
                self.handle(Input::Hold);
                Next::GoOn
            }
            Some(Control::Stop) | None => Next::Stop,
        }
    }

    fn answer_awaited(&mut self) {
        let core = &self.core;
        let is_so = |wanted: Wanted| match wanted {
            Wanted::Settled => core.is_settled(),
            Wanted::Drained => core.is_drained(),
            Wanted::Quiet => core.is_quiet(),
        };
        let (done, waiting) = std::mem::take(&mut self.awaited)
            .into_iter()
            .partition::<Vec<_>, _>(|(wanted, _)| is_so(*wanted));
        self.awaited = waiting;
        for (_, done) in done {
            // Who waited may have given up.
            let _ = done.send(());
        }
    }

    fn act(&mut self) {
        while let Some(effect) = self.core.poll_effect() {
            match effect {
                Effect::PortWrite(port, bytes) => {
                    if let Some(handle) = self.handles.get(&port) {
                        // Dropped writes are counted there, and the link repeats.
                        handle.write(bytes);
                    }
                }
                Effect::Commit(CommitToken(token), batch) => {
                    self.ask_store(Request::Commit { token, batch });
                }
                Effect::Fetch {
                    token: FetchToken(token),
                    at,
                    from,
                    bytes_max,
                } => {
                    self.ask_store(Request::Fetch {
                        token,
                        at,
                        from,
                        bytes_max,
                    });
                }
                Effect::Remove(segments) => self.ask_store(Request::Remove(segments)),
                Effect::Publish {
                    dest,
                    conn,
                    send,
                    topic,
                    payload,
                    user_properties,
                } => {
                    let message = OutMessage {
                        conn,
                        send,
                        topic,
                        payload,
                        user_properties,
                    };
                    self.outside.links.publish(dest, message);
                }
                Effect::BrokerReset(dest, conn, why) => self.reset(dest, conn, &why),
                Effect::Answer(id, answer) => self.answer(id, answer),
                Effect::Planned(id, planned) => self.plans.answer(id, planned),
                Effect::Imported(id, answer) => self.on_imported(id, answer),
                Effect::SourceStart { source, position } => {
                    let trouble = self.outside.sources.start(source, position);
                    if let Some(text) = trouble {
                        (self.say)(&text);
                    }
                }
                Effect::ChangesDurable { source, position } => {
                    self.outside.sources.durable(source, position);
                }
                Effect::DeviceLog {
                    uid,
                    build_id,
                    frame,
                } => {
                    let at = now(&self.clock).utc;
                    self.outside.logs.take(uid, at, build_id, frame);
                }
                Effect::Note(note) => (self.say)(&note.0),
                Effect::Stop(error) => self.failed = Some(error.to_string()),
            }
        }
    }

    fn answer(&mut self, id: QueryId, answer: QueryAnswer) {
        let Some(asker) = self.answers.remove(&id) else {
            return;
        };
        let figures = || self.outside.sources.figures();
        match asker.about {
            // Who asked may have gone away.
            About::Other => drop(asker.answer.send(answer)),
            About::Tables => {
                let with_sources = |answer| with_sources(answer, &figures());
                drop(asker.answer.send(answer.map(with_sources)));
            }
            About::Status => {
                let (ports, figures) = (self.outside.ports.status(), figures());
                let (now, turns) = (self.clock.now(), self.times.told());
                // What is put together of many ports and devices is no work for this thread.
                tokio::spawn(async move {
                    let with_ports = |mut status: Reply| {
                        status.object_mut()["loop"] = turns;
                        with_ports(status, &ports, now)
                    };
                    let answer = answer.map(with_ports);
                    let answer = answer.map(|answer| with_sources(answer, &figures));
                    drop(asker.answer.send(answer));
                });
            }
        }
    }

    /// Hands a request over, after those that wait already.
    fn ask_store(&mut self, request: Request) {
        self.waiting.push_back(request);
        self.send_waiting();
    }

    fn send_waiting(&mut self) {
        while let Some(request) = self.waiting.pop_front() {
            match self.outside.store.request(request) {
                Ok(()) => {}
                Err(Refused::Full(request)) => return self.waiting.push_front(request),
                Err(Refused::Ended(_)) => {
                    self.failed = Some(String::from("store: its thread has ended"));
                }
            }
        }
    }

    fn reset(&mut self, dest: DestinationId, conn: ConnNo, why: &str) {
        (self.say)(&format!("forward: connecting again: {why}"));
        self.outside.links.reset(dest, conn);
    }
}
