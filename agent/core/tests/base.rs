//! A gateway whose topic `changes` is small, killed at every step of its work: what retention
//! removes of it stands in the base before, and a pipeline that is new afterwards finds rows
//! that were said once and long ago.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::changes::{
    Base, CHANGES_AT, SourceBatch, SourceConfig, SourceEvent, SourceNo, SourcePosition,
};
use forebay_core::clock::ClockRules;
use forebay_core::effect::{Effect, GatewayConfig, Input, Opened, QueryId};
use forebay_core::engine::config::{
    EngineConfig, JoinColumn, JoinKind, JoinSource, JoinSpec, JoinType, TableSpec,
};
use forebay_core::import::{ImportId, ImportRecord, ImportRequest};
use forebay_core::ingest::Router;
use forebay_core::log::block::Body;
use forebay_core::log::decode::decode;
use forebay_core::log::key::TopicPartition;
use forebay_core::payload::GatewayName;
use forebay_core::pipeline::Gateway;
use forebay_core::query::{Names, Query};
use forebay_core::retention::{SpaceConfig, TopicPolicy, WhenFull};
use forebay_core::store::Store as _;
use forebay_core::store::memory::{Crash, MemoryDisk, MemoryStore};
use forebay_core::topics::TopicTable;
use forebay_core::units::{EventTime, LogId, Mono, Now, Offset, PartitionId, Span};
use forebay_wire::ids::DeviceUid;
use forebay_wire::message::Quality;

const SECOND: i64 = 1_000_000;
const START: i64 = 1_800_000_000 * SECOND;
const DEVICES: u64 = 8;
/// Batches of changes, each of so many.
const BATCHES: u64 = 6;
const BATCH: u64 = 20;

fn engine(join: &str) -> EngineConfig {
    let kind = JoinKind::Lookup { wait: None };
    let (readings, table) = (JoinSource::Readings, JoinSource::Table(0));
    let limits = JoinSource::Table(1);
    let pairs = format!("{join}_pairs");
    // Crosses devices: with several partitions it has an engine of its own.
    let pairs = JoinSpec {
        on: vec![JoinColumn::Column(String::from("device"))],
        join_type: JoinType::Left,
        ..JoinSpec::new(&pairs, JoinKind::Table, table, limits)
    };
    EngineConfig {
        tables: vec![
            TableSpec::new("sites", &["device"]),
            TableSpec::new("limits", &["device"]),
        ],
        joins: vec![JoinSpec::new(join, kind, readings, table), pairs],
        ..EngineConfig::default()
    }
}

fn config(join: &str, partitions: u16) -> GatewayConfig {
    let small = TopicPolicy {
        quota_bytes: 2_000,
        age: None,
        when_full: WhenFull::DropOldest,
    };
    GatewayConfig {
        gateway: GatewayName::new("gw").unwrap(),
        router: Router::new(partitions),
        linger: Span(10_000),
        engine: engine(join),
        forward: Vec::new(),
        names: Names((0..DEVICES).map(|n| (uid(n), format!("d{n}"))).collect()),
        space: SpaceConfig {
            reserve_bytes: 1,
            topics: BTreeMap::from([("changes".to_owned(), small)]),
        },
        clock: ClockRules::default(),
        device_log: 0,
        sources: vec![SourceConfig {
            name: "s".to_owned(),
            tables: vec![Arc::from("sites")],
        }],
        tables: Vec::new(),
    }
}

fn uid(n: u64) -> DeviceUid {
    DeviceUid(n.to_be_bytes())
}

/// Change `n`: the first ones say a row of each device, the others one of other keys.
fn event(n: u64) -> SourceEvent {
    let device = if n < DEVICES { n } else { DEVICES + n % 5 };
    SourceEvent::Upsert {
        table: Arc::from("sites"),
        key: None,
        time: EventTime(START + n as i64),
        before: None,
        after: Arc::from(format!("{{\"device\":\"{}\",\"v\":{n}}}", uid(device))),
        position: position(n),
        is_insert: None,
        unchanged: Vec::new(),
    }
}

fn position(n: u64) -> SourcePosition {
    SourcePosition(Arc::from(format!("{n:08}")))
}

struct Run {
    join: &'static str,
    partitions: u16,
    store: MemoryStore,
    gateway: Gateway,
    now: u64,
    steps: usize,
    kill: Option<(usize, Crash)>,
    /// The first change that the source has not handed over.
    next: u64,
    removals: usize,
    imported: bool,
}

/// It was killed and has started again.
struct Killed;

impl Run {
    fn new(join: &'static str, partitions: u16, kill: Option<(usize, Crash)>) -> Self {
        let disk = MemoryDisk {
            generation_bytes: 700,
            capacity_bytes: 1 << 40,
            foreign_bytes: 0,
        };
        let store = MemoryStore::create(LogId([1; 16]), 1).on_disk(disk);
        Self {
            join,
            partitions,
            gateway: open(join, partitions, &store, 0),
            store,
            now: 0,
            steps: 0,
            kill,
            next: 0,
            removals: 0,
            imported: false,
        }
    }

    fn restart(&mut self, join: &'static str, crash: Crash) {
        self.join = join;
        self.store.crash_leaving(crash, 7);
        self.gateway = open(join, self.partitions, &self.store, self.now);
    }

    fn step(&mut self) -> Result<(), Killed> {
        self.steps += 1;
        let Some((_, crash)) = self.kill.filter(|(at, _)| *at == self.steps) else {
            return Ok(());
        };
        self.kill = None;
        self.restart(self.join, crash);
        Err(Killed)
    }

    fn input(&mut self, input: Input<'_>) {
        let now = at(self.now);
        self.gateway.handle(input, now);
    }

    /// What the log keeps of the changes begins here.
    fn first_kept(&self) -> Offset {
        let blocks = self.store.read(CHANGES_AT, Offset(0), 1).unwrap();
        blocks
            .first()
            .map_or(self.store.head(CHANGES_AT), |block| block.key.base)
    }

    fn base(&self) -> Base {
        Base::restore(&self.store.meta_with_prefix(b"table-base").unwrap())
    }

    fn drive(&mut self, until: u64) -> Result<(), Killed> {
        loop {
            loop {
                if let Some(event) = self.store.poll_event() {
                    self.input(Input::Store(event));
                } else if let Some(effect) = self.gateway.poll_effect() {
                    self.act(effect)?;
                } else {
                    break;
                }
            }
            match self.gateway.next_deadline() {
                Some(due) if due.0 <= until => {
                    // One that is past waits for another: time goes on.
                    self.now = due.0.max(self.now + 1000);
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
                let blocks = self.store.read(at, from, bytes_max).unwrap();
                self.input(Input::Fetched(token, blocks));
            }
            Effect::Remove(segments) => {
                self.step()?;
                self.store.remove(&segments).unwrap();
                self.removals += 1;
                let (first, base) = (self.first_kept(), self.base());
                assert!(base.upto() >= first, "{first:?} {:?}", base.upto());
                self.step()?;
            }
            Effect::SourceStart { position, .. } => {
                let taken = position.filter(|position| !position.is_none());
                self.next = taken.map_or(0, |p| p.0.parse::<u64>().unwrap() + 1);
            }
            Effect::Imported(_, answer) => drop(answer.unwrap()),
            Effect::ChangesDurable { .. } | Effect::Note(_) | Effect::Answer(..) => {}
            Effect::PortWrite(..)
            | Effect::Publish { .. }
            | Effect::BrokerReset(..)
            | Effect::DeviceLog { .. }
            | Effect::Stop(_) => panic!("{effect:?}"),
        }
        Ok(())
    }

    /// Hands all changes over, however often it is killed.
    fn tell(&mut self) {
        loop {
            if self.drive(self.now + 100_000).is_err() {
                continue;
            }
            if self.next >= BATCHES * BATCH {
                if self.gateway.is_settled() {
                    return;
                }
                continue;
            }
            let end = (self.next / BATCH + 1) * BATCH;
            let batch = SourceBatch {
                events: (self.next..end).map(event).collect(),
                position: position(end - 1),
            };
            self.next = end;
            self.input(Input::Changes(SourceNo(0), batch));
        }
    }

    /// A reading of each device, and a heartbeat behind it.
    fn ask(&mut self) -> Vec<String> {
        let time = EventTime(START + SECOND);
        let record = |device: u64| ImportRecord {
            device: Arc::from(format!("d{device}")),
            channel: Arc::from("a"),
            unit: Arc::from(""),
            time,
            value: 1.0,
            quality: Quality::Ok,
        };
        let batch = SourceBatch {
            events: vec![SourceEvent::Heartbeat {
                time: EventTime(time.0 + 60 * SECOND),
                position: position(BATCHES * BATCH),
            }],
            position: position(BATCHES * BATCH),
        };
        let records = (0..DEVICES).map(record).collect();
        let request = ImportRequest::Batch {
            session: None,
            records,
        };
        assert!(!self.imported);
        self.imported = true;
        self.input(Input::Import(ImportId(1), request));
        assert!(self.drive(self.now + 100_000_000).is_ok());
        self.input(Input::Changes(SourceNo(0), batch));
        assert!(self.drive(self.now + 10_000_000).is_ok());
        assert!(self.gateway.is_settled());
        self.lines(self.join)
    }

    /// Changes that engines lack.
    fn missing(&mut self) -> u64 {
        self.input(Input::Query(QueryId(1), Query::Status));
        while let Some(effect) = self.gateway.poll_effect() {
            if let Effect::Answer(_, answer) = effect {
                let status = answer.unwrap().to_string();
                let (_, rest) = status.split_once("\"changes_missing\":").unwrap();
                let end = rest.find([',', '}']).unwrap();
                return rest[..end].parse().unwrap();
            }
        }
        panic!("no answer");
    }

    /// Lines of a join, all partitions in order of the lines.
    fn lines(&self, join: &str) -> Vec<String> {
        let meta = self.store.meta_with_prefix(b"topic/").unwrap();
        let table = TopicTable::restore(&meta, &self.store.opened().heads);
        let streams: Vec<_> = table.streams().collect();
        let (topic, _) = streams.iter().find(|(_, name)| *name == join).unwrap();
        let mut lines = Vec::new();
        for partition in 0..self.partitions {
            let at = TopicPartition {
                topic: *topic,
                partition: PartitionId(partition),
            };
            for block in self.store.read(at, Offset(0), usize::MAX).unwrap() {
                let Body::Rows(rows) = decode(block.key, &block.bytes).unwrap().body else {
                    panic!("rows");
                };
                lines.extend(
                    rows.into_iter()
                        .map(|row| String::from_utf8(row.line).unwrap()),
                );
            }
        }
        lines.sort();
        lines
    }
}

fn at(now: u64) -> Now {
    Now {
        mono: Mono(now),
        utc: EventTime(START + now as i64),
    }
}

fn open(join: &str, partitions: u16, store: &MemoryStore, now: u64) -> Gateway {
    let opened = Opened {
        store: store.opened(),
        meta: store.meta_with_prefix(b"").unwrap(),
    };
    Gateway::new(config(join, partitions), &opened, at(now)).unwrap()
}

fn crash(keep_batches: usize, keep_meta: usize, undo_removals: bool) -> Crash {
    Crash {
        keep_batches,
        keep_meta,
        undo_removals,
    }
}

/// All changes, killed once on the way; then a pipeline that is new, and what its joins make.
fn run(partitions: u16, kill: Option<(usize, Crash)>) -> (usize, Vec<String>, Vec<String>) {
    let mut run = Run::new("before", partitions, kill);
    run.tell();
    let steps = run.steps;
    assert_eq!(run.kill, None, "it was killed");
    assert!(run.removals > 1, "{}", run.removals);
    assert!(run.first_kept().0 > DEVICES, "the first rows are gone");
    assert!(run.base().upto() >= run.first_kept());
    run.restart("after", crash(0, 0, false));
    let lines = run.ask();
    assert_eq!(run.missing(), 0);
    (steps, lines, run.lines("after_pairs"))
}

#[test]
fn a_new_pipeline_finds_rows_whose_changes_were_removed() {
    for partitions in [1, 3] {
        let (_, lines, pairs) = run(partitions, None);
        assert_eq!(lines.len() as u64, DEVICES, "{lines:#?}");
        for n in 0..DEVICES {
            let row = format!("\"right\":{{\"device\":\"{}\",\"v\":{n}}}", uid(n));
            let told = pairs
                .iter()
                .filter(|line| line.contains(&row.replace("right", "left")));
            assert_eq!(told.count(), 1, "{row} {pairs:#?}");
            assert!(
                lines.iter().any(|line| line.contains(&row)),
                "{row} {lines:#?}"
            );
        }
    }
}

#[test]
fn a_crash_at_any_step_changes_nothing() {
    let (steps, want, pairs) = run(1, None);
    let leavings = [
        crash(0, 0, false),
        crash(1, 0, false),
        crash(1, 1, false),
        crash(0, 0, true),
    ];
    for step in 1..=steps {
        for crash in leavings {
            let (_, lines, told) = run(1, Some((step, crash)));
            assert_eq!((&lines, &told), (&want, &pairs), "{step} {crash:?}");
        }
    }
}
