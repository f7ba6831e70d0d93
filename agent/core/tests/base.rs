//! A gateway whose topic `changes` is small, killed at every step of its work: what retention
//! removes of it stands in the base before, and a pipeline that is new afterwards finds rows
//! that were said once and long ago.
#![allow(clippy::unwrap_used, reason = "a test")]

mod killed;

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::changes::{
    Base, CHANGES_AT, SourceBatch, SourceConfig, SourceEvent, SourceNo, SourcePosition,
};
use forebay_core::effect::{Effect, GatewayConfig, Input, Opened, QueryId};
use forebay_core::engine::config::{
    EngineConfig, JoinColumn, JoinKind, JoinSource, JoinSpec, JoinType, TableSpec,
};
use forebay_core::import::{ImportId, ImportRecord, ImportRequest};
use forebay_core::ingest::Router;
use forebay_core::payload::GatewayName;
use forebay_core::pipeline::Gateway;
use forebay_core::query::{Names, Query};
use forebay_core::retention::{SpaceConfig, TopicPolicy, WhenFull};
use forebay_core::store::Store as _;
use forebay_core::store::memory::{Crash, MemoryDisk, MemoryStore};
use forebay_core::topics::TopicTable;
use forebay_core::units::{EventTime, LogId, Now, Offset, Span};
use forebay_wire::ids::DeviceUid;
use forebay_wire::message::Quality;
use killed::{Killed, Rig, Run, SECOND, START};

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
        engine: engine(join),
        names: Names((0..DEVICES).map(|n| (uid(n), format!("d{n}"))).collect()),
        space: SpaceConfig {
            reserve_bytes: 1,
            topics: BTreeMap::from([("changes".to_owned(), small)]),
        },
        sources: vec![SourceConfig {
            name: "s".to_owned(),
            tables: vec![Arc::from("sites")],
        }],
        ..GatewayConfig::new(GatewayName::new("gw").unwrap(), partitions, Span(10_000))
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

struct Lab {
    join: &'static str,
    partitions: u16,
    rig: Rig,
    /// The first change that the source has not handed over.
    next: u64,
    removals: usize,
    imported: bool,
}

impl Run for Lab {
    fn rig(&mut self) -> &mut Rig {
        &mut self.rig
    }

    fn die(&mut self, crash: Crash) {
        self.restart(self.join, crash);
    }

    fn act(&mut self, effect: Effect) -> Result<(), Killed> {
        match effect {
            Effect::Remove(segments) => {
                self.step()?;
                self.rig.store.remove(&segments).unwrap();
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
            Effect::Commit(..)
            | Effect::Fetch { .. }
            | Effect::PortWrite(..)
            | Effect::Publish { .. }
            | Effect::BrokerReset(..)
            | Effect::DeviceLog { .. }
            | Effect::Planned(..)
            | Effect::Stop(_) => panic!("{effect:?}"),
        }
        Ok(())
    }
}

impl Lab {
    fn new(join: &'static str, partitions: u16, kill: Option<(usize, Crash)>) -> Self {
        let disk = MemoryDisk {
            generation_bytes: 700,
            capacity_bytes: 1 << 40,
            foreign_bytes: 0,
        };
        let store = MemoryStore::create(LogId([1; 16]), 1).on_disk(disk);
        let mut rig = Rig::new(store, |opened, now| open(join, partitions, opened, now));
        rig.kill = kill;
        Self {
            join,
            partitions,
            rig,
            next: 0,
            removals: 0,
            imported: false,
        }
    }

    fn restart(&mut self, join: &'static str, crash: Crash) {
        self.join = join;
        let partitions = self.partitions;
        self.rig
            .restart(crash, |opened, now| open(join, partitions, opened, now));
    }

    /// What the log keeps of the changes begins here.
    fn first_kept(&self) -> Offset {
        let blocks = self.rig.store.read(CHANGES_AT, Offset(0), 1).unwrap();
        blocks
            .first()
            .map_or(self.rig.store.head(CHANGES_AT), |block| block.key.base)
    }

    fn base(&self) -> Base {
        Base::restore(&self.rig.store.meta_with_prefix(b"table-base").unwrap())
    }

    /// Hands all changes over, however often it is killed.
    fn tell(&mut self) {
        loop {
            if self.drive(self.rig.now + 100_000).is_err() {
                continue;
            }
            if self.next >= BATCHES * BATCH {
                if self.rig.gateway.is_settled() {
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
            self.rig.input(Input::Changes(SourceNo(0), batch));
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
        self.rig.input(Input::Import(ImportId(1), request));
        assert!(self.drive(self.rig.now + 100_000_000).is_ok());
        self.rig.input(Input::Changes(SourceNo(0), batch));
        assert!(self.drive(self.rig.now + 10_000_000).is_ok());
        assert!(self.rig.gateway.is_settled());
        self.lines(self.join)
    }

    /// Changes that engines lack.
    fn missing(&mut self) -> u64 {
        self.rig.input(Input::Query(QueryId(1), Query::Status));
        while let Some(effect) = self.rig.gateway.poll_effect() {
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
        let meta = self.rig.store.meta_with_prefix(b"topic/").unwrap();
        let table = TopicTable::restore(&meta, &self.rig.store.opened().heads);
        let streams: Vec<_> = table.streams().collect();
        let (topic, _) = streams.iter().find(|(_, name)| *name == join).unwrap();
        let partitions = Router::new(self.partitions).partitions();
        let lines = partitions.flat_map(|partition| self.rig.lines(*topic, partition));
        let mut lines: Vec<_> = lines.collect();
        lines.sort();
        lines
    }
}

fn open(join: &str, partitions: u16, opened: &Opened, now: Now) -> Gateway {
    Gateway::new(config(join, partitions), opened, now).unwrap()
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
    let mut run = Lab::new("before", partitions, kill);
    run.tell();
    let steps = run.rig.steps;
    assert_eq!(run.rig.kill, None, "it was killed");
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
