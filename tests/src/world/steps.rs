//! The gateway's core over the store's twin, one step of the store at a time: a crash
//! can be put before any of them, with anything of what was not synced left. Readings
//! come as an import; nothing else is there, so that runs are short and can be repeated
//! for every step. Its clock moves only here.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::changes::{SourceBatch, SourceConfig, SourceEvent, SourceNo, SourcePosition};
use forebay_core::commit::CommitToken;
use forebay_core::effect::{Effect, FetchToken, GatewayConfig, Input, Opened, QueryId};
use forebay_core::engine::config::EngineConfig;
use forebay_core::import::{ImportId, ImportRecord, ImportRequest, SessionNo};
use forebay_core::ingest::Router;
use forebay_core::limits::SOURCE_BATCHES_MAX;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::DERIVED_FIRST;
use forebay_core::payload::GatewayName;
use forebay_core::pipeline::Gateway;
use forebay_core::query::{Query, Reply};
use forebay_core::store::memory::{Crash, MemoryDisk, MemoryStore};
use forebay_core::store::{Store as _, WriteBatch};
use forebay_core::units::{EventTime, LogId, Mono, Now, Offset, Span};
use serde_json::Value;

use super::archive::Archive;
use super::gateway::UTC_0;
use super::model;

/// Bytes after which the live generation is sealed.
const GENERATION_BYTES: u64 = 20_000;
/// More steps than a script takes: it goes round in a circle then.
const STEPS_MAX: u64 = 100_000;

/// What a run is of.
#[derive(Debug, Clone)]
pub struct Script {
    pub engine: EngineConfig,
    pub partitions: u16,
    pub linger: Span,
    /// Imports, one after the other, each with the time before it, us.
    pub batches: Vec<(u64, Vec<ImportRecord>)>,
    /// What the source of all tables has read before each of them, as far as there are any.
    pub changes: Vec<Vec<SourceEvent>>,
}

/// A crash before a step of the store, counted from the last start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashAt {
    pub step: u64,
    /// Whether the blocks of a batch that is not synced survive, and its meta entries.
    pub keeps: (bool, bool),
}

/// What has come of a script.
#[derive(Debug)]
pub struct Done {
    pub archive: Archive,
    /// Steps of the store after the last start.
    pub steps: u64,
    /// Crashes that came.
    pub crashes: usize,
    /// Engines that went on from a checkpoint, over all starts.
    pub restored: usize,
    /// Of these, such that read the exchange.
    pub crossing_restored: usize,
    /// Rows that were made again and are not what stands in their topic.
    pub different: u64,
}

#[derive(Debug)]
enum Job {
    Write(CommitToken, WriteBatch),
    Sync(CommitToken),
    Tell(CommitToken),
    Fetch(FetchToken, TopicPartition, Offset, usize),
    Remove(Vec<forebay_core::store::SegmentId>),
}

struct Steps {
    config: GatewayConfig,
    core: Gateway,
    store: MemoryStore,
    jobs: VecDeque<Job>,
    unsynced: Option<WriteBatch>,
    now: u64,
    crashes: VecDeque<CrashAt>,
    answered: bool,
    /// Of the imports, until a crash.
    session: Option<SessionNo>,
    status: Option<Value>,
    /// What the source has read and is not confirmed, and how much of it was handed on.
    read: VecDeque<SourceBatch>,
    handed: usize,
    /// The source may start, in this run.
    started: bool,
    done: Done,
}

/// Runs a script with these crashes, to the end of all windows that end in it.
///
/// # Panics
/// When the core stops or goes round in a circle.
#[must_use]
pub fn run(script: &Script, crashes: &[CrashAt]) -> Done {
    let mut steps = Steps::start(script, crashes);
    for (n, (pause, records)) in (1..).zip(&script.batches) {
        steps.now += pause;
        if let Some(events) = script.changes.get(n as usize - 1) {
            steps.read.push_back(SourceBatch {
                events: events.clone(),
                position: SourcePosition(format!("{n:08}").into()),
            });
        }
        steps.handle(Input::Deadline);
        // A crash takes the request along: whoever imports asks again.
        let mut sent_in = None;
        steps.answered = false;
        while !steps.answered {
            let starts = steps.done.crashes;
            if sent_in != Some(starts) {
                sent_in = Some(starts);
                let request = ImportRequest::Batch {
                    session: steps.session,
                    records: records.clone(),
                };
                steps.handle(Input::Import(ImportId(n), request));
            }
            steps.one();
        }
    }
    while !steps.core.is_settled() || !steps.read.is_empty() {
        steps.one();
    }
    steps.note_different();
    steps.done
}

impl Steps {
    fn start(script: &Script, crashes: &[CrashAt]) -> Self {
        let config = GatewayConfig {
            engine: script.engine.clone(),
            sources: sources(&script.engine),
            ..GatewayConfig::new(
                GatewayName::new("steps").expect("a name"),
                script.partitions,
                script.linger,
            )
        };
        let disk = MemoryDisk {
            generation_bytes: GENERATION_BYTES,
            capacity_bytes: u64::MAX,
            foreign_bytes: 0,
        };
        let store = MemoryStore::create(LogId([7; 16]), 1).on_disk(disk);
        let core = Gateway::new(config.clone(), &opened(&store), now_of(0)).expect("it starts");
        Self {
            config,
            core,
            store,
            jobs: VecDeque::new(),
            unsynced: None,
            now: 0,
            crashes: crashes.iter().copied().collect(),
            answered: false,
            session: None,
            status: None,
            read: VecDeque::new(),
            handed: 0,
            started: false,
            done: Done {
                archive: Archive::default(),
                steps: 0,
                crashes: 0,
                restored: 0,
                crossing_restored: 0,
                different: 0,
            },
        }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.core.handle(input, now_of(self.now));
        while let Some(effect) = self.core.poll_effect() {
            match effect {
                Effect::Commit(token, batch) => self.jobs.push_back(Job::Write(token, batch)),
                Effect::Fetch {
                    token,
                    at,
                    from,
                    bytes_max,
                } => self.jobs.push_back(Job::Fetch(token, at, from, bytes_max)),
                Effect::Remove(segments) => self.jobs.push_back(Job::Remove(segments)),
                Effect::Imported(_, answer) => {
                    let answer = answer.expect("nothing is wrong with it");
                    assert_eq!(answer.refused, [], "nor with a part of it");
                    (self.answered, self.session) = (true, Some(answer.session));
                }
                Effect::Answer(_, answer) => self.status = answer.ok().map(Reply::into_value),
                Effect::Planned(..) => panic!("nobody asked for a plan"),
                Effect::ChangesDurable { position, .. } => self.confirm(&position),
                Effect::SourceStart { position, .. } => {
                    self.started = true;
                    self.confirm(&position.unwrap_or_default());
                }
                Effect::Note(_) => {}
                Effect::Stop(error) => panic!("the twin failed: {error}"),
                Effect::PortWrite(..)
                | Effect::Publish { .. }
                | Effect::BrokerReset(..)
                | Effect::DeviceLog { .. } => {
                    panic!("nobody is there")
                }
            }
        }
    }

    /// Does the next step of the store, or lets time go by to the core's next deadline.
    fn one(&mut self) {
        self.hand_on();
        let Some(job) = self.jobs.pop_front() else {
            let next = self.core.next_deadline().expect("it waits for something");
            self.now = next.0.max(self.now + 1);
            return self.handle(Input::Deadline);
        };
        let step = self.done.steps;
        self.done.steps += 1;
        assert!(step < STEPS_MAX, "it goes round in a circle");
        if let Some(crash) = self.crashes.front().filter(|crash| crash.step == step) {
            let crash = *crash;
            self.crashes.pop_front();
            return self.crash(crash);
        }
        self.now += 100;
        match job {
            Job::Write(token, batch) => {
                self.store.append(&batch).expect("there is room");
                self.unsynced = Some(batch);
                self.jobs.push_front(Job::Sync(token));
            }
            Job::Sync(token) => {
                self.store.set_clock(now_of(self.now).utc);
                self.store.sync().expect("the twin syncs");
                if let Some(batch) = self.unsynced.take() {
                    self.done.archive.add(&batch);
                }
                self.jobs.push_front(Job::Tell(token));
            }
            Job::Tell(token) => self.handle(Input::Committed(token)),
            Job::Fetch(token, at, from, bytes_max) => {
                let blocks = self.store.read(at, from, bytes_max);
                self.handle(Input::Fetched(token, blocks.expect("the twin reads")));
            }
            Job::Remove(segments) => self.store.remove(&segments).expect("the twin removes"),
        }
        while let Some(event) = self.store.poll_event() {
            self.handle(Input::Store(event));
        }
    }

    /// Hands on what the source has read.
    fn hand_on(&mut self) {
        while self.started && self.handed < SOURCE_BATCHES_MAX {
            let Some(batch) = self.read.get(self.handed).cloned() else {
                return;
            };
            self.handed += 1;
            self.handle(Input::Changes(SourceNo(0), batch));
        }
    }

    /// All up to there is durable.
    fn confirm(&mut self, position: &SourcePosition) {
        while self
            .read
            .front()
            .is_some_and(|batch| batch.position <= *position)
        {
            self.read.pop_front();
            self.handed = self.handed.saturating_sub(1);
        }
    }

    fn crash(&mut self, CrashAt { keeps, .. }: CrashAt) {
        let kept = usize::from(keeps.0).min(self.store.unsynced());
        let crash = Crash {
            keep_batches: kept,
            keep_meta: kept * usize::from(keeps.1),
            undo_removals: false,
        };
        self.done.crashes += 1;
        let nonce = self.done.crashes as u64 + 1;
        self.store.crash_leaving(crash, nonce);
        if let Some(batch) = self.unsynced.take().filter(|_| kept > 0) {
            self.done.archive.add(&batch);
        }
        self.note_different();
        self.jobs.clear();
        self.session = None;
        (self.handed, self.started) = (0, false);
        self.done.steps = 0;
        self.core = Gateway::new(self.config.clone(), &opened(&self.store), now_of(self.now))
            .expect("it starts");
        let status = self.ask_status();
        let start = &status["start"];
        self.done.restored += start["engines_restored"].as_u64().unwrap_or(0) as usize;
        let crossing = status["exchange"]["checkpoint"]["epoch"].as_u64();
        self.done.crossing_restored += usize::from(crossing > Some(0));
    }

    fn ask_status(&mut self) -> Value {
        self.handle(Input::Query(QueryId(1), Query::Status));
        self.status.take().expect("status is answered at once")
    }

    /// Counts what the run that ends found.
    fn note_different(&mut self) {
        let status = self.ask_status();
        self.done.different += status["rows_different"].as_u64().expect("a count");
    }
}

/// One source feeds all tables.
fn sources(engine: &EngineConfig) -> Vec<SourceConfig> {
    let tables: Vec<_> = engine
        .tables
        .iter()
        .map(|table| table.name.as_str().into())
        .collect();
    let source = (!tables.is_empty()).then(|| SourceConfig {
        name: String::from("source"),
        tables,
    });
    source.into_iter().collect()
}

fn now_of(now: u64) -> Now {
    Now {
        mono: Mono(now),
        utc: EventTime(UTC_0 + now as i64),
    }
}

fn opened(store: &MemoryStore) -> Opened {
    Opened {
        store: store.opened(),
        meta: store.meta_with_prefix(b"").expect("the twin reads"),
    }
}

/// Holds all rows of a run to fresh engines over its readings, and over its exchange.
///
/// # Panics
/// At the first difference, with `what`.
pub fn judge(script: &Script, done: &Done, what: &str) {
    let partitions: Vec<_> = Router::new(script.partitions).partitions().collect();
    model::judge_log(&done.archive, &partitions, &script.engine, what);
}

/// How many rows each stream has, windows first, then joins.
#[must_use]
pub fn rows_of_streams(script: &Script, done: &Done) -> Vec<usize> {
    let streams = script.engine.windows.len() + script.engine.joins.len();
    let of = |topic: usize| {
        let rows = model::rows(&done.archive);
        rows.filter(|(at, _)| usize::from(at.topic.0) == topic)
            .count()
    };
    let first = usize::from(DERIVED_FIRST.0);
    (first..first + streams).map(of).collect()
}

/// The rows of a run by topic and device, in their order, whatever partition has them.
#[must_use]
pub fn rows_by_device(done: &Done) -> BTreeMap<(u16, String), Vec<String>> {
    let mut out: BTreeMap<(u16, String), Vec<String>> = BTreeMap::new();
    for (at, line) in model::rows(&done.archive) {
        let json: Value = serde_json::from_str(line).expect("JSON");
        let device = json["device"].as_str().expect("a device").to_owned();
        out.entry((at.topic.0, device))
            .or_default()
            .push(line.to_owned());
    }
    out
}
