//! A gateway over a store in memory, driven by hand, that is killed at a step of its work:
//! before a batch is written, before it is synced, before it is heard of, and before each
//! read. Knows no pipeline and no expectation.
#![allow(dead_code, reason = "no test needs all of it")]

use std::sync::Arc;

use forebay_core::effect::{Effect, Input, Opened};
use forebay_core::import::{ImportRecord, SessionNo};
use forebay_core::ingest::Router;
use forebay_core::log::block::{Body, Record};
use forebay_core::log::decode::decode;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::READINGS;
use forebay_core::pipeline::Gateway;
use forebay_core::store::Store as _;
use forebay_core::store::memory::{Crash, MemoryStore};
use forebay_core::units::{EventTime, Mono, Now, Offset, PartitionId, TopicId};
use forebay_wire::message::Quality;

pub(crate) const SECOND: i64 = 1_000_000;
/// What the gateway's clock says when the first process starts, us.
pub(crate) const START: i64 = 1_800_000_000 * SECOND;
/// Between two batches of readings, us: some state is kept after each, as windows close.
pub(crate) const PAUSE: u64 = 150_000;
/// More deadlines at one time than a gateway has things to do.
const DEADLINES_AT_ONCE: usize = 100;

/// It was killed and has started again.
pub(crate) struct Killed;

/// The session of an import of which nothing was refused.
pub(crate) fn imported(effect: Effect) -> SessionNo {
    let Effect::Imported(_, answer) = effect else {
        panic!("{effect:?}")
    };
    let imported = answer.unwrap();
    assert!(imported.refused.is_empty());
    imported.session
}

/// The process and its disk.
pub(crate) struct Rig {
    pub(crate) store: MemoryStore,
    pub(crate) gateway: Gateway,
    /// Since the first process started, us.
    pub(crate) now: u64,
    /// Steps so far, and the one at which it is killed, with what that leaves.
    pub(crate) steps: usize,
    pub(crate) kill: Option<(usize, Crash)>,
}

impl Rig {
    /// The first process, which `open` starts.
    pub(crate) fn new(store: MemoryStore, open: impl FnOnce(&Opened, Now) -> Gateway) -> Self {
        Self {
            gateway: open(&opened(&store), at(0)),
            store,
            now: 0,
            steps: 0,
            kill: None,
        }
    }

    /// Ends the process without a word, and starts the next one on what it left.
    pub(crate) fn restart(&mut self, crash: Crash, open: impl FnOnce(&Opened, Now) -> Gateway) {
        self.store.crash_leaving(crash, 7);
        self.gateway = open(&opened(&self.store), at(self.now));
    }

    pub(crate) fn input(&mut self, input: Input<'_>) {
        self.gateway.handle(input, at(self.now));
    }

    /// What stands in a partition.
    pub(crate) fn blocks(&self, topic: TopicId, partition: PartitionId) -> Vec<Body> {
        let at = TopicPartition { topic, partition };
        let blocks = self.store.read(at, Offset(0), usize::MAX).unwrap();
        let bodies = blocks.iter();
        let bodies = bodies.map(|block| decode(block.key, &block.bytes).unwrap().body);
        bodies.collect()
    }

    /// Lines that stand in a partition of a stream.
    pub(crate) fn lines(&self, topic: TopicId, partition: PartitionId) -> Vec<String> {
        let rows = self.blocks(topic, partition).into_iter();
        let rows = rows.flat_map(|body| match body {
            Body::Rows(rows) => rows,
            Body::Readings { .. } => Vec::new(),
        });
        rows.map(|row| String::from_utf8(row.line).unwrap())
            .collect()
    }

    /// Readings that are durable: a batch is whole or not at all.
    pub(crate) fn readings(&self, partitions: u16) -> usize {
        let bodies = Router::new(partitions)
            .partitions()
            .flat_map(|partition| self.blocks(READINGS, partition));
        let counts = bodies.map(|body| match body {
            Body::Readings { records, .. } => {
                let is_reading = |record: &&Record| matches!(record, Record::Reading(_));
                records.iter().filter(is_reading).count()
            }
            Body::Rows(_) => 0,
        });
        counts.sum()
    }
}

fn opened(store: &MemoryStore) -> Opened {
    Opened {
        store: store.opened(),
        meta: store.meta_with_prefix(b"").unwrap(),
    }
}

/// So long after the start of the first process, us.
pub(crate) fn at(now: u64) -> Now {
    Now {
        mono: Mono(now),
        utc: EventTime(START + now as i64),
    }
}

/// What a test makes of a gateway that may be killed.
pub(crate) trait Run {
    fn rig(&mut self) -> &mut Rig;

    /// It is killed: starts it again on what that leaves.
    fn die(&mut self, crash: Crash);

    /// What the gateway wants beside the store's work.
    fn act(&mut self, effect: Effect) -> Result<(), Killed>;

    /// One step more; the error is the death of the process.
    fn step(&mut self) -> Result<(), Killed> {
        let rig = self.rig();
        rig.steps += 1;
        let Some((_, crash)) = rig.kill.take_if(|(at, _)| *at == rig.steps) else {
            return Ok(());
        };
        self.die(crash);
        Err(Killed)
    }

    /// Does what the gateway wants until it wants nothing before `until`.
    fn drive(&mut self, until: u64) -> Result<(), Killed> {
        let mut deadlines = 0;
        loop {
            loop {
                let rig = self.rig();
                if let Some(event) = rig.store.poll_event() {
                    rig.input(Input::Store(event));
                } else if let Some(effect) = rig.gateway.poll_effect() {
                    self.work(effect)?;
                } else {
                    break;
                }
            }
            let rig = self.rig();
            match rig.gateway.next_deadline() {
                Some(due) if due.0 <= until => {
                    deadlines = if due.0 > rig.now { 0 } else { deadlines + 1 };
                    assert!(
                        deadlines < DEADLINES_AT_ONCE,
                        "it wants to be called at {} again and again",
                        due.0
                    );
                    rig.now = rig.now.max(due.0);
                    rig.input(Input::Deadline);
                }
                Some(_) | None => break,
            }
        }
        self.rig().now = until;
        Ok(())
    }

    /// Does the store's work, step by step, and leaves the rest to the test.
    fn work(&mut self, effect: Effect) -> Result<(), Killed> {
        if let Effect::Commit(token, batch) = effect {
            self.step()?;
            self.rig().store.append(&batch).unwrap();
            self.step()?;
            self.rig().store.sync().unwrap();
            self.step()?;
            self.rig().input(Input::Committed(token));
            Ok(())
        } else if let Effect::Fetch {
            token,
            at,
            from,
            bytes_max,
        } = effect
        {
            self.step()?;
            let blocks = self.rig().store.read(at, from, bytes_max).unwrap();
            self.rig().input(Input::Fetched(token, blocks));
            Ok(())
        } else {
            self.act(effect)
        }
    }
}

/// What a crash leaves of a batch that was written and not synced.
pub(crate) fn leavings() -> [Crash; 3] {
    let crash = |keep_batches, keep_meta| Crash {
        keep_batches,
        keep_meta,
        undo_removals: false,
    };
    [crash(0, 0), crash(1, 0), crash(1, 1)]
}

/// Reading `n`: of three devices, some late, some too late.
pub(crate) fn record(n: usize) -> ImportRecord {
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
