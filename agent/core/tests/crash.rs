//! A gateway that is killed at every step of its work: before a batch is written, before
//! it is synced, before its entries are, before it is heard of, and before each read.
//! Its derived topics are those of a run that nothing disturbed, byte for byte, however
//! often state was kept between.
#![allow(clippy::unwrap_used, reason = "a test")]

mod killed;

use std::collections::BTreeMap;

use forebay_core::effect::{Effect, GatewayConfig, Input, QueryId};
use forebay_core::engine::config::{
    Bounds, Emit, EngineConfig, Grid, Source, TimeRules, WindowKind, WindowSpec,
};
use forebay_core::import::{ImportId, ImportRequest, SessionNo};
use forebay_core::log::topic::LATE;
use forebay_core::payload::GatewayName;
use forebay_core::pipeline::Gateway;
use forebay_core::query::Query;
use forebay_core::store::memory::{Crash, MemoryStore};
use forebay_core::units::{LogId, PartitionId, Span, TopicId};
use killed::{Killed, PAUSE, Rig, Run, SECOND, leavings, record};

const READINGS_COUNT: usize = 60;
const BATCH: usize = 20;

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
        engine: EngineConfig {
            time: TimeRules {
                out_of_order: span(2),
                allowed_lateness: span(3),
                ..TimeRules::default()
            },
            windows,
            ..EngineConfig::default()
        },
        ..GatewayConfig::new(GatewayName::new("gw").unwrap(), partitions, Span(10_000))
    }
}

struct Lab {
    config: GatewayConfig,
    rig: Rig,
    imports: u64,
    /// Of the import that goes on in this process.
    session: Option<SessionNo>,
    /// Engines that went on from a checkpoint, rows that were compared, and found to be
    /// others.
    restored: u64,
    same: u64,
    different: u64,
}

impl Run for Lab {
    fn rig(&mut self) -> &mut Rig {
        &mut self.rig
    }

    fn die(&mut self, crash: Crash) {
        self.count();
        self.session = None;
        self.rig.restart(crash, |opened, now| {
            Gateway::new(self.config.clone(), opened, now).unwrap()
        });
    }

    fn act(&mut self, effect: Effect) -> Result<(), Killed> {
        self.session = Some(killed::imported(effect));
        Ok(())
    }
}

impl Lab {
    fn new(partitions: u16, kill: Option<(usize, Crash)>) -> Self {
        let config = config(partitions);
        let store = MemoryStore::create(LogId([1; 16]), 1);
        let mut rig = Rig::new(store, |opened, now| {
            Gateway::new(config.clone(), opened, now).unwrap()
        });
        rig.kill = kill;
        Self {
            config,
            rig,
            imports: 0,
            session: None,
            restored: 0,
            same: 0,
            different: 0,
        }
    }

    /// What this process found of rows that it made again.
    fn count(&mut self) {
        self.rig.input(Input::Query(QueryId(1), Query::Status));
        while let Some(effect) = self.rig.gateway.poll_effect() {
            if let Effect::Answer(_, answer) = effect {
                let reply = answer.unwrap();
                let status = reply.object();
                self.same += status["rows_same"].as_u64().unwrap();
                self.different += status["rows_different"].as_u64().unwrap();
                self.restored += status["start"]["engines_restored"].as_u64().unwrap();
            }
        }
    }

    /// All of it, however often it is killed.
    fn go(&mut self) {
        loop {
            let from = self.rig.readings(self.config.router.count());
            assert_eq!(from % BATCH, 0, "a batch is whole");
            if from == READINGS_COUNT {
                // What was cut short is derived.
                if self.drive(self.rig.now + 20 * PAUSE).is_ok() {
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
            self.rig
                .input(Input::Import(ImportId(self.imports), request));
            let _ = self.drive(self.rig.now + PAUSE);
        }
        assert!(self.rig.gateway.is_settled());
        self.count();
    }

    /// Lines of every derived topic.
    fn lines(&self) -> BTreeMap<(TopicId, PartitionId), Vec<String>> {
        let windows = (16..16 + self.config.engine.windows.len() as u16).map(TopicId);
        let mut out = BTreeMap::new();
        for topic in windows.chain([LATE]) {
            for partition in self.config.router.partitions() {
                out.insert((topic, partition), self.rig.lines(topic, partition));
            }
        }
        out
    }
}

#[test]
fn a_crash_at_any_step_changes_no_byte_of_a_derived_topic() {
    let mut whole = Lab::new(1, None);
    whole.go();
    let want = whole.lines();
    let filled = want.iter().filter(|(_, lines)| !lines.is_empty());
    assert!(filled.count() >= 6, "most topics have rows");
    assert!(whole.rig.steps > 25, "{} steps", whole.rig.steps);
    let (mut restored, mut same) = (0, 0);
    for at in 1..=whole.rig.steps {
        // One after the other of what can be left of a batch.
        let crash = leavings()[at % 3];
        let mut run = Lab::new(1, Some((at, crash)));
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
    let mut run = Lab::new(1, None);
    run.go();
    run.rig.input(Input::Drain);
    assert!(run.drive(run.rig.now + 20 * PAUSE).is_ok());
    let steps = run.rig.steps;
    run.rig.kill = Some((steps + 1, leavings()[0]));
    assert!(run.step().is_err());
    let want = run.lines();
    run.go();
    assert_eq!(run.lines(), want);
    run.rig.input(Input::Query(QueryId(1), Query::Status));
    let Some(Effect::Answer(_, Ok(reply))) = run.rig.gateway.poll_effect() else {
        panic!("status is answered at once");
    };
    let status = reply.object();
    assert_eq!(status["start"]["engines_restored"], 1, "{status}");
    assert_eq!(status["start"]["readings_replayed"], 0, "{status}");
}
