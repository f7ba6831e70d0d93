//! Random schedules of faults of the broker, with kill -9 of agent and receiver: at the
//! end every reading that was produced is upstream once, or in a declared gap.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use forebay_tests::judge::{each_once, offsets_once};
use forebay_tests::postgres::Postgres;
use forebay_tests::scripted::{Facts, Faults};

use super::rig::{Plan, Rig};
use super::schedule::{Fate, Schedule};

const ROUNDS_VAR: &str = "FOREBAY_TORTURE_ROUNDS";
const SEED_VAR: &str = "FOREBAY_TORTURE_SEED";
const JOBS_VAR: &str = "FOREBAY_TORTURE_JOBS";
const SINK_VAR: &str = "FOREBAY_TORTURE_SINK";
const PROTOCOL_VAR: &str = "FOREBAY_TORTURE_PROTOCOL";
/// In every run of the tests.
const ROUNDS: u64 = 6;
const JOBS: u64 = 6;

/// Readings after the last fault: what was lost at the end shows as a hole.
const LAST_READINGS: u64 = 100;

fn asked(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| text.parse().expect("a number"))
}

fn word(name: &str, usual: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| usual.to_owned())
}

/// One row of the table that the command prints at its end.
#[allow(clippy::print_stdout, reason = "the command reads it there")]
fn report(what: impl Display) {
    println!("\ntorture: delivery: {what}");
}

/// What rounds are run with.
#[derive(Debug, Clone)]
struct Kind {
    sink: String,
    protocol: String,
    /// Of the sink postgres: each round has a schema of its own.
    server: Option<Arc<Postgres>>,
}

impl Kind {
    fn replay(&self, seed: u64) -> String {
        let Self { sink, protocol, .. } = self;
        format!(
            "replay: cargo xtask torture delivery --rounds 1 --seed {seed} --sink {sink} --protocol {protocol}"
        )
    }

    fn plan(&self, seed: u64, schedule: &Schedule) -> Plan {
        let mut plan = Plan {
            seed,
            ring: schedule.ring,
            partitions: schedule.partitions,
            ..Plan::default()
        };
        let Self { sink, protocol, .. } = self;
        if let Some(server) = &self.server {
            let section = server.section();
            plan.sections += &format!("{section}schema = \"round_{seed}\"\n");
        }
        let client = format!("protocol = \"{protocol}\"\n");
        let Schedule { window, order, .. } = schedule;
        plan.forward += &format!("{client}window = {window}\norder = \"{order}\"\n");
        plan.upstream += &format!("{client}sink = \"{sink}\"\n");
        plan
    }
}

#[derive(Debug, Default)]
struct Sums {
    rounds: u64,
    readings: u64,
    gaps: u64,
    missing: u64,
    offsets: u64,
    kills: u64,
    facts: Facts,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.readings += other.readings;
        self.gaps += other.gaps;
        self.missing += other.missing;
        self.offsets += other.offsets;
        self.kills += other.kills;
        let (all, one) = (&mut self.facts, &other.facts);
        all.connects += one.connects;
        all.publishes += one.publishes;
        all.refused += one.refused;
        all.dropped += one.dropped;
        all.doubled += one.doubled;
        all.reordered += one.reordered;
        all.cuts += one.cuts;
        all.restarts += one.restarts;
        all.forgotten += one.forgotten;
    }
}

impl Display for Sums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Facts {
            connects,
            publishes,
            refused,
            dropped,
            doubled,
            reordered,
            cuts,
            restarts,
            forgotten,
            ..
        } = &self.facts;
        write!(
            f,
            "{} schedules: {} readings applied once + {} declared lost + {} trimmed, none lost, \
             none twice; {} offsets; {} kills; broker: {connects} connections, {cuts} cut, \
             {restarts} restarts, {forgotten} sessions forgotten, {publishes} messages, \
             {refused} refused, {dropped} dropped, {doubled} doubled, {reordered} out of order",
            self.rounds, self.readings, self.gaps, self.missing, self.offsets, self.kills
        )
    }
}

/// Says what a step came to, where a single round is looked at.
struct Diary {
    seed: u64,
    start: Instant,
    alone: bool,
}

impl Diary {
    fn note(&self, rig: &Rig, what: &str) {
        if self.alone {
            let Facts {
                connects,
                publishes,
                acked,
                delivered,
                ..
            } = rig.broker.facts();
            report(format_args!(
                "seed {} after {:.2} s, {} readings, {connects} connections, {publishes} messages, \
                 {acked} acked, {delivered} delivered: {what}",
                self.seed,
                self.start.elapsed().as_secs_f64(),
                rig.produced()
            ));
        }
    }
}

fn round(seed: u64, alone: bool, kind: &Kind) -> Sums {
    let schedule = Schedule::draw(seed);
    let diary = Diary {
        seed,
        start: Instant::now(),
        alone,
    };
    let mut sums = Sums {
        rounds: 1,
        ..Sums::default()
    };
    let mut rig = Rig::start(&kind.plan(seed, &schedule));
    for step in &schedule.steps {
        rig.broker.set(step.faults.clone());
        for act in &step.acts {
            rig.broker.act(*act);
        }
        if step.agent != Fate::Lives {
            rig.agent_dies();
            sums.kills += 1;
        }
        if step.receiver != Fate::Lives {
            rig.receiver_dies();
            sums.kills += 1;
        }
        if step.agent == Fate::Killed {
            rig.agent_starts();
        }
        if step.receiver == Fate::Killed {
            rig.receiver_starts();
        }
        rig.goes_on(step.readings);
        if step.agent == Fate::Away {
            rig.agent_starts();
        }
        if step.receiver == Fate::Away {
            rig.receiver_starts();
        }
        diary.note(&rig, &step.said);
    }
    rig.broker.set(Faults::default());
    rig.goes_on(LAST_READINGS);
    diary.note(&rig, "no faults any more");
    rig.settle();
    diary.note(&rig, "all has arrived");
    let heard = rig.heard();
    rig.stop();
    sums.facts = rig.broker.facts();
    assert_eq!(sums.facts.violations, [""; 0], "rules of MQTT were broken");
    let rows = rig.export();
    let found = each_once(&heard, &rows).unwrap_or_else(|wrong| panic!("{wrong}"));
    (sums.readings, sums.gaps, sums.missing) = (found.readings, found.gaps, found.missing);
    sums.offsets = offsets_once(&rows, &[]).unwrap_or_else(|wrong| panic!("{wrong}"));
    sums
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "no words".to_owned())
}

/// Runs rounds on several threads; the sums, and what failed.
fn run(first: u64, rounds: u64, jobs: u64, kind: &Kind) -> (Sums, Vec<String>) {
    let next = AtomicU64::new(first);
    let all = Mutex::new((Sums::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(rounds) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + rounds {
                        return;
                    }
                    let done = catch_unwind(AssertUnwindSafe(|| round(seed, rounds == 1, kind)));
                    let mut all = all.lock().unwrap();
                    match done {
                        Ok(sums) => all.0.add(&sums),
                        Err(panic) => {
                            let wrong = format!(
                                "seed {seed} FAILED: {}; {}",
                                said(panic.as_ref()),
                                kind.replay(seed)
                            );
                            report(&wrong);
                            for (number, step) in (1..).zip(&Schedule::draw(seed).steps) {
                                report(format_args!("seed {seed} step {number}: {}", step.said));
                            }
                            all.1.push(wrong);
                        }
                    }
                }
            });
        }
    });
    all.into_inner().unwrap()
}

#[test]
fn what_a_lying_broker_and_kills_leave_is_upstream_once_or_declared_lost() {
    let (rounds, first) = (asked(ROUNDS_VAR, ROUNDS), asked(SEED_VAR, 1));
    let sink = word(SINK_VAR, "embedded");
    // A kill of a process loses nothing that was not synced.
    let server = || Arc::new(Postgres::start_with("fsync = off"));
    let kind = Kind {
        server: (sink == "postgres").then(server),
        sink,
        protocol: word(PROTOCOL_VAR, "5"),
    };
    let (sums, failed) = run(first, rounds, asked(JOBS_VAR, JOBS), &kind);
    report(format_args!(
        "sink {}, MQTT {}: {sums}",
        kind.sink, kind.protocol
    ));
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}
