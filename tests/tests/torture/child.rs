//! The process that is killed: opens a log, checks it against the ledger, then
//! writes a seeded stream of batches by the agent's own group commit and storage
//! thread, and says on its standard output what became durable.
//!
//! It is this test binary started anew: the test below runs only when the parent
//! set the variables. Each line is written whole:
//!
//! | line | meaning |
//! |---|---|
//! | `opening` | the store is about to be opened |
//! | `opened <epoch> <ms>` | it is open |
//! | `loss <run>`, `note <text>` | what the opening said |
//! | `run <run>` | what stands in the log, all checked |
//! | `verified`, `wrong <text>` | the log agrees with the ledger, or how not |
//! | `ack <tick> <run>[, <run>]*` | this batch is durable |
//! | `removing <run>[, <run>]*` | retention is about to be asked to remove these |
//! | `trouble <text>`, `recovered` | what the store said |
//! | `stopped` | all batches were written, the store is closed |

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use forebay_core::commit::{CommitToken, GroupCommit};
use forebay_core::log::key::TopicPartition;
use forebay_core::store::{SegmentId, SegmentInfo, Store, StoreEvent};
use forebay_core::units::{Epoch, Mono, Offset, Span};
use forebay_node::store::{Answer, LogStore, Request, StorageThread, StoreSettings, SyncPolicy};
use forebay_tests::world::dice::Dice;

use super::check::{self, TICK_KEYS, mark_key};
use super::ledger::{Ledger, Run};
use super::stream;

pub(crate) const DIR_VAR: &str = "FOREBAY_TORTURE_DIR";
pub(crate) const LEDGER_VAR: &str = "FOREBAY_TORTURE_LEDGER";
pub(crate) const CHILD_SEED_VAR: &str = "FOREBAY_TORTURE_CHILD_SEED";
pub(crate) const BATCHES_VAR: &str = "FOREBAY_TORTURE_BATCHES";
/// The name under which the parent starts the test below.
pub(crate) const CHILD_TEST: &str = "child::works_until_it_is_ended";

/// Small, so that rolls and seals happen all the time; of two sizes.
fn settings(seed: u64) -> StoreSettings {
    StoreSettings {
        generation_bytes: [64 * 1024, 400 * 1024][usize::from(seed.is_multiple_of(3))],
        generation_age: std::time::Duration::from_secs(3600),
        ballast_bytes: 64 * 1024,
    }
}

/// A child with this seed or a later one asks for no removal.
pub(crate) const KEEPS_FROM_SEED: u64 = u64::MAX - 8;
/// Sealed segments per topic that stay; so retention works all the time.
const SEGMENTS_KEPT: usize = 3;
/// Records of one partition in a batch, at the most.
const RECORDS_MAX: u64 = 700;

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{line}\n").as_bytes())
        .and_then(|()| out.flush())
        .expect("the parent reads");
}

fn list(runs: &[Run]) -> String {
    let texts: Vec<String> = runs.iter().map(Run::text).collect();
    texts.join(", ")
}

#[test]
fn works_until_it_is_ended() {
    let Some(dir) = std::env::var_os(DIR_VAR).map(PathBuf::from) else {
        return;
    };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let ledger = std::fs::read_to_string(std::env::var(LEDGER_VAR).unwrap()).unwrap();
    let mut writer = open(&dir, &Ledger::parse(&ledger), number(CHILD_SEED_VAR));
    for _ in 0..number(BATCHES_VAR) {
        writer.batch();
    }
    writer.stop();
    say("stopped");
}

fn open(dir: &Path, ledger: &Ledger, seed: u64) -> Writer {
    say("opening");
    let since = Instant::now();
    let opened = LogStore::open(dir, settings(seed));
    let (mut store, opened) = opened.unwrap_or_else(|error| panic!("start refused: {error}"));
    let epoch = opened.info.epoch;
    say(&format!(
        "opened {} {}",
        epoch.0,
        since.elapsed().as_millis()
    ));
    let mut ledger = ledger.clone();
    for loss in &opened.losses {
        let run = check::lost_run(loss, &opened);
        say(&format!("loss {}", run.text()));
        ledger.lost.push(run);
    }
    for note in &opened.notes {
        say(&format!("note {note}"));
    }
    let mut told = Vec::new();
    let runs = check::all(&mut store, &opened, &mut ledger, |event| told.push(event))
        .unwrap_or_else(|error| {
            // At once: a clean close would change the disk that is to be looked at.
            say(&format!("wrong {error}"));
            std::process::exit(1)
        });
    for event in &told {
        if let StoreEvent::Lost(loss) = event {
            say(&format!("loss {}", check::lost_run(loss, &opened).text()));
        }
    }
    for run in runs {
        say(&format!("run {}", run.text()));
    }
    say("verified");
    let tick = store.meta(TICK_KEYS[0]).unwrap();
    let tick = tick.map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()));
    let (answers, from_thread) = channel();
    let answer = move |answer| answers.send(answer).expect("the writer waits for answers");
    let thread = StorageThread::spawn(Box::new(store), SyncPolicy::Group, answer).unwrap();
    let mut writer = Writer {
        epoch,
        commit: GroupCommit::new(epoch, Span(0), opened.heads),
        thread,
        from_thread,
        segments: opened.segments.into_iter().map(|s| (s.id, s)).collect(),
        dice: Dice::new(seed),
        is_slow: seed.is_multiple_of(2),
        removes: seed < KEEPS_FROM_SEED,
        tick,
        now: 0,
    };
    for event in told {
        writer.on_event(event);
    }
    writer
}

struct Writer {
    epoch: Epoch,
    commit: GroupCommit,
    thread: StorageThread,
    from_thread: Receiver<Answer>,
    segments: BTreeMap<SegmentId, SegmentInfo>,
    dice: Dice,
    /// Batches of a few records only: the store's files grow in small steps.
    is_slow: bool,
    removes: bool,
    tick: u64,
    now: u64,
}

impl Writer {
    fn batch(&mut self) {
        self.now += 1_000;
        let now = Mono(self.now);
        for at in stream::partitions() {
            if self.dice.below(3) > 0 {
                self.records(at, now);
            }
        }
        self.tick += 1;
        for key in TICK_KEYS {
            let value = self.tick.to_be_bytes().to_vec();
            self.commit.meta(key.to_vec(), value, now);
        }
        let Some((token, batch)) = self.commit.poll(now) else {
            panic!("a batch with meta entries is due at once");
        };
        let request = Request::Commit {
            token: token.0,
            batch,
        };
        self.thread.request(request).expect("one request fits");
        self.wait_for(token);
        self.retention();
    }

    fn records(&mut self, at: TopicPartition, now: Mono) {
        // Mostly a few, as from a line; now and then a full block and more.
        let count = match self.dice.below(8) {
            0 if !self.is_slow => RECORDS_MAX,
            _ if self.is_slow => 1 + self.dice.below(4),
            _ => 1 + self.dice.below(40),
        };
        let first = self.commit.next(at);
        for offset in (first.0..first.0 + count).map(Offset) {
            if stream::is_readings(at) {
                let series = stream::series(at, offset, self.epoch);
                let reading = stream::reading(at, offset, self.epoch);
                self.commit.reading(at, &series, &reading, now);
            } else {
                self.commit
                    .row(at, &stream::row(at, offset, self.epoch), now);
            }
        }
        let mark = (first.0 + count).to_be_bytes().to_vec();
        self.commit.meta(mark_key(at), mark, now);
    }

    fn wait_for(&mut self, token: CommitToken) {
        loop {
            match self.from_thread.recv().expect("the thread answers") {
                Answer::Committed { token: done } => {
                    assert_eq!(done, token.0, "another token");
                    return self.committed(token);
                }
                Answer::Failed { error, .. } => panic!("nothing was fetched: {error}"),
                Answer::Fetched { .. } => panic!("nothing was fetched"),
                Answer::Event(event) => self.on_event(event),
            }
        }
    }

    fn on_event(&mut self, event: StoreEvent) {
        match event {
            StoreEvent::Sealed(infos) => {
                self.segments
                    .extend(infos.into_iter().map(|info| (info.id, info)));
            }
            StoreEvent::Trouble(error) => say(&format!("trouble {error}")),
            StoreEvent::Recovered => say("recovered"),
            StoreEvent::Lost(loss) => say(&format!("note {loss}")),
            StoreEvent::Note(text) => say(&format!("note {text}")),
            StoreEvent::Removed(_)
            | StoreEvent::Disk { .. }
            | StoreEvent::Written(_)
            | StoreEvent::SetAside(_) => {}
        }
    }

    fn committed(&mut self, token: CommitToken) {
        let before: BTreeMap<_, _> = self.commit.heads().collect();
        let durable = self.commit.committed(token);
        let runs: Vec<Run> = durable
            .heads
            .into_iter()
            .map(|(at, end)| Run {
                at,
                first: before.get(&at).copied().unwrap_or(Offset(0)),
                end,
                epoch: self.epoch,
            })
            .collect();
        say(&format!("ack {} {}", self.tick, list(&runs)));
    }

    /// Asks to remove the oldest segments of a topic that has more than may stay.
    fn retention(&mut self) {
        let topics: BTreeSet<_> = self.segments.keys().map(|id| id.topic).collect();
        let mut ids = Vec::new();
        for topic in topics {
            let of_topic = self.segments.keys().filter(|id| id.topic == topic);
            let of_topic: Vec<_> = of_topic.copied().collect();
            let surplus = of_topic.len().saturating_sub(SEGMENTS_KEPT);
            ids.extend(&of_topic[..surplus]);
        }
        if ids.is_empty() || !self.removes {
            return;
        }
        ids.sort_unstable();
        let runs: Vec<Run> = ids.iter().flat_map(|id| self.ranges(*id)).collect();
        say(&format!("removing {}", list(&runs)));
        let request = Request::Remove(ids.clone());
        self.thread.request(request).expect("one request fits");
        for id in ids {
            self.segments.remove(&id);
        }
    }

    fn ranges(&self, id: SegmentId) -> Vec<Run> {
        let ranges = self.segments[&id].ranges.iter();
        let run = |range: &forebay_core::store::SegmentRange| Run {
            at: TopicPartition {
                topic: id.topic,
                partition: range.partition,
            },
            first: range.first,
            end: range.end,
            epoch: self.epoch,
        };
        ranges.map(run).collect()
    }

    fn stop(self) {
        self.thread.stop();
    }
}
