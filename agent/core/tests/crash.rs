//! A gateway that is killed at every step of its work: before a batch is written, before
//! it is synced, before its entries are, before it is heard of, and before each read.
//! Its derived topics are those of a run that nothing disturbed, byte for byte, however
//! often state was kept between.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::clock::ClockRules;
use forebay_core::effect::{Effect, GatewayConfig, Input, Opened, QueryId};
use forebay_core::engine::config::{
    Bounds, Emit, EngineConfig, Grid, Source, TimeRules, WindowKind, WindowSpec,
};
use forebay_core::import::{ImportId, ImportRecord, ImportRequest, SessionNo};
use forebay_core::ingest::Router;
use forebay_core::log::block::{Body, Record};
use forebay_core::log::decode::decode;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::{LATE, READINGS};
use forebay_core::payload::GatewayName;
use forebay_core::pipeline::Gateway;
use forebay_core::query::{Names, Query};
use forebay_core::retention::SpaceConfig;
use forebay_core::store::Store as _;
use forebay_core::store::memory::{Crash, MemoryStore};
use forebay_core::units::{EventTime, LogId, Mono, Now, Offset, PartitionId, Span, TopicId};
use forebay_wire::message::Quality;

const READINGS_COUNT: usize = 60;
const BATCH: usize = 20;
const SECOND: i64 = 1_000_000;
/// Between two batches, us: some state is kept after each, as windows close.
const PAUSE: u64 = 150_000;

fn config(partitions: u16) -> GatewayConfig {
    let span = |seconds: i64| Span(seconds * SECOND);
    let fixed = |size, offset| {
        WindowKind::Tumbling(Grid::Fixed {
            size: span(size),
            offset: span(offset),
        })
    };
    let hopping = WindowKind::Hopping {
        size: span(6),
        hop: span(2),
        offset: span(0),
    };
    let sliding = WindowKind::Sliding {
        size: span(5),
        bounds: Bounds::HalfOpen,
    };
    let mut every = WindowSpec::new("every", fixed(8, 0));
    every.emit = Emit::EveryUpdate;
    let mut over = WindowSpec::new("over", fixed(12, 0));
    over.from = Source::Window(0);
    let windows = vec![
        WindowSpec::new("ten", fixed(4, 1)),
        WindowSpec::new("hops", hopping),
        WindowSpec::new("last", sliding),
        WindowSpec::new("rows", WindowKind::Rows { n: 3 }),
        WindowSpec::new("calls", WindowKind::Session { gap: span(2) }),
        every,
        over,
    ];
    GatewayConfig {
        gateway: GatewayName::new("gw").unwrap(),
        router: Router::new(partitions),
        linger: Span(10_000),
        engine: EngineConfig {
            time: TimeRules {
                out_of_order: span(2),
                allowed_lateness: span(3),
                ..TimeRules::default()
            },
            windows,
            ..EngineConfig::default()
        },
        forward: Vec::new(),
        names: Names::default(),
        space: SpaceConfig::default(),
        clock: ClockRules::default(),
        sources: Vec::new(),
        tables: Vec::new(),
        device_log: 0,
    }
}

/// Reading `n`: of three devices, some late, some too late.
fn record(n: usize) -> ImportRecord {
    let back = [0, 0, 1, 0, 4, 0, 0, 9, 0, 2][n % 10];
    ImportRecord {
        device: Arc::from(format!("d{}", n % 3)),
        channel: Arc::from("a"),
        unit: Arc::from(""),
        time: EventTime((1_800_000_000 + n as i64 / 3 - back) * SECOND),
        value: (n * 7 % 31) as f64 / 4.0,
        quality: Quality::Ok,
    }
}

struct Run {
    config: GatewayConfig,
    store: MemoryStore,
    gateway: Gateway,
    now: u64,
    /// Steps so far, and the one at which it is killed, with what that leaves.
    steps: usize,
    kill: Option<(usize, Crash)>,
    imports: u64,
    /// Of the import that goes on in this process.
    session: Option<SessionNo>,
    /// Engines that went on from a checkpoint, rows that were compared, and found to be
    /// others.
    restored: u64,
    same: u64,
    different: u64,
}

/// It was killed and has started again.
struct Killed;

impl Run {
    fn new(partitions: u16, kill: Option<(usize, Crash)>) -> Self {
        let config = config(partitions);
        let store = MemoryStore::create(LogId([1; 16]), 1);
        let gateway = open(&config, &store, 0);
        Self {
            config,
            store,
            gateway,
            now: 0,
            steps: 0,
            kill,
            imports: 0,
            session: None,
            restored: 0,
            same: 0,
            different: 0,
        }
    }

    fn at(&self) -> Now {
        Now {
            mono: Mono(self.now),
            utc: EventTime(1_800_000_000 * SECOND + self.now as i64),
        }
    }

    /// One step more; the error is the death of the process.
    fn step(&mut self) -> Result<(), Killed> {
        self.steps += 1;
        let Some((_, crash)) = self.kill.filter(|(at, _)| *at == self.steps) else {
            return Ok(());
        };
        self.count();
        self.kill = None;
        self.session = None;
        self.store.crash_leaving(crash, 7);
        self.gateway = open(&self.config, &self.store, self.now);
        Err(Killed)
    }

    /// What this process found of rows that it made again.
    fn count(&mut self) {
        let now = self.at();
        self.gateway
            .handle(Input::Query(QueryId(1), Query::Status), now);
        while let Some(effect) = self.gateway.poll_effect() {
            if let Effect::Answer(_, answer) = effect {
                let status = answer.unwrap();
                self.same += status["rows_same"].as_u64().unwrap();
                self.different += status["rows_different"].as_u64().unwrap();
                self.restored += status["start"]["engines_restored"].as_u64().unwrap();
            }
        }
    }

    fn input(&mut self, input: Input<'_>) {
        let now = self.at();
        self.gateway.handle(input, now);
    }

    /// Does what the gateway wants until it wants nothing before `until`.
    fn drive(&mut self, until: u64) -> Result<(), Killed> {
        loop {
            while let Some(effect) = self.gateway.poll_effect() {
                self.act(effect)?;
            }
            match self.gateway.next_deadline() {
                Some(due) if due.0 <= until => {
                    self.now = self.now.max(due.0);
                    self.input(Input::Deadline);
                }
                Some(_) | None => break,
            }
        }
        self.now = until;
        Ok(())
    }

    fn act(&mut self, effect: Effect) -> Result<(), Killed> {
        match effect {
            Effect::Commit(token, batch) => {
                self.step()?;
                self.store.append(&batch).unwrap();
                self.step()?;
                self.store.sync().unwrap();
                self.step()?;
                self.input(Input::Committed(token));
            }
            Effect::Fetch {
                token,
                at,
                from,
                bytes_max,
            } => {
                self.step()?;
                let blocks = self.store.read(at, from, bytes_max).unwrap();
                self.input(Input::Fetched(token, blocks));
            }
            Effect::Imported(_, answer) => {
                let imported = answer.unwrap();
                assert!(imported.refused.is_empty());
                self.session = Some(imported.session);
            }
            Effect::Note(note) => panic!("{note}"),
            Effect::PortWrite(..)
            | Effect::Remove(_)
            | Effect::Publish { .. }
            | Effect::BrokerReset(..)
            | Effect::Answer(..)
            | Effect::DeviceLog { .. }
            | Effect::SourceStart { .. }
            | Effect::ChangesDurable { .. }
            | Effect::Stop(_) => panic!("{effect:?}"),
        }
        Ok(())
    }

    /// Readings that are durable: a batch is whole or not at all.
    fn durable(&self) -> usize {
        let partitions = self.config.router.partitions();
        let of = |partition| {
            let blocks = self.blocks(READINGS, partition);
            let records = blocks.iter().map(|body| match body {
                Body::Readings { records, .. } => {
                    let is_reading = |record: &&Record| matches!(record, Record::Reading(_));
                    records.iter().filter(is_reading).count()
                }
                Body::Rows(_) => 0,
            });
            records.sum::<usize>()
        };
        partitions.map(of).sum()
    }

    fn blocks(&self, topic: TopicId, partition: PartitionId) -> Vec<Body> {
        let at = TopicPartition { topic, partition };
        let blocks = self.store.read(at, Offset(0), usize::MAX).unwrap();
        let bodies = blocks.iter();
        let bodies = bodies.map(|block| decode(block.key, &block.bytes).unwrap().body);
        bodies.collect()
    }

    /// All of it, however often it is killed.
    fn go(&mut self) {
        loop {
            let from = self.durable();
            assert_eq!(from % BATCH, 0, "a batch is whole");
            if from == READINGS_COUNT {
                // What was cut short is derived.
                if self.drive(self.now + 20 * PAUSE).is_ok() {
                    break;
                }
                continue;
            }
            let records = (from..from + BATCH).map(record).collect();
            self.imports += 1;
            let request = ImportRequest::Batch {
                session: self.session,
                records,
            };
            self.input(Input::Import(ImportId(self.imports), request));
            let _ = self.drive(self.now + PAUSE);
        }
        assert!(self.gateway.is_settled());
        self.count();
    }

    /// Lines of every derived topic.
    fn lines(&self) -> BTreeMap<(TopicId, PartitionId), Vec<String>> {
        let windows = (16..16 + self.config.engine.windows.len() as u16).map(TopicId);
        let mut out = BTreeMap::new();
        for topic in windows.chain([LATE]) {
            for partition in self.config.router.partitions() {
                let mut lines = Vec::new();
                for body in self.blocks(topic, partition) {
                    if let Body::Rows(rows) = body {
                        let text = rows
                            .into_iter()
                            .map(|row| String::from_utf8(row.line).unwrap());
                        lines.extend(text);
                    }
                }
                out.insert((topic, partition), lines);
            }
        }
        out
    }
}

fn open(config: &GatewayConfig, store: &MemoryStore, now: u64) -> Gateway {
    let opened = Opened {
        store: store.opened(),
        meta: store.meta_with_prefix(b"").unwrap(),
    };
    let now = Now {
        mono: Mono(now),
        utc: EventTime(1_800_000_000 * SECOND + now as i64),
    };
    Gateway::new(config.clone(), &opened, now).unwrap()
}

/// What a crash leaves of a batch that was written and not synced.
fn leavings() -> [Crash; 3] {
    let crash = |keep_batches, keep_meta| Crash {
        keep_batches,
        keep_meta,
        undo_removals: false,
    };
    [crash(0, 0), crash(1, 0), crash(1, 1)]
}

#[test]
fn a_crash_at_any_step_changes_no_byte_of_a_derived_topic() {
    let mut whole = Run::new(1, None);
    whole.go();
    let want = whole.lines();
    let filled = want.iter().filter(|(_, lines)| !lines.is_empty());
    assert!(filled.count() >= 6, "most topics have rows");
    assert!(whole.steps > 25, "{} steps", whole.steps);
    let (mut restored, mut same) = (0, 0);
    for at in 1..=whole.steps {
        // One after the other of what can be left of a batch.
        let crash = leavings()[at % 3];
        let mut run = Run::new(1, Some((at, crash)));
        run.go();
        assert_eq!(run.lines(), want, "killed at step {at}, leaving {crash:?}");
        assert_eq!(run.different, 0, "killed at step {at}, leaving {crash:?}");
        restored += run.restored;
        same += run.same;
    }
    assert!(restored > 0, "starts go on from what was kept");
    assert!(same > 0, "rows are made again");
}

#[test]
fn a_clean_stop_leaves_nothing_to_replay() {
    let mut run = Run::new(1, None);
    run.go();
    run.input(Input::Drain);
    assert!(run.drive(run.now + 20 * PAUSE).is_ok());
    let steps = run.steps;
    run.kill = Some((steps + 1, leavings()[0]));
    assert!(run.step().is_err());
    let want = run.lines();
    run.go();
    assert_eq!(run.lines(), want);
    let now = run.at();
    run.gateway
        .handle(Input::Query(QueryId(1), Query::Status), now);
    let Some(Effect::Answer(_, Ok(status))) = run.gateway.poll_effect() else {
        panic!("status is answered at once");
    };
    assert_eq!(status["start"]["engines_restored"], 1, "{status}");
    assert_eq!(status["start"]["readings_replayed"], 0, "{status}");
}
