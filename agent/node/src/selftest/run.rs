//! A run: devices sample for a while, the agent is restarted or killed meanwhile, all
//! arrives, and the log is held against what devices saw acked.

use std::time::{Duration, Instant};

use super::bench::{Bench, Stop};
use super::dice::Dice;
use super::evidence::{Comparison, Evidence};
use super::limits::{
    BYTES_PER_S, DEVICES, FREE_BYTES_MIN, KILL_AFTER_MAX, KILL_AFTER_MIN, KILLS_MAX, RATE_HZ,
    SETTLE,
};
use super::outcome::Outcome;
use super::place::{Place, nearest};
use super::plan::{Plan, PowerCut};
use super::witness::Witness;
use crate::doctor::disk::{self, SyncTimes};
use crate::doctor::limits::SYNC_TIME;
use crate::progress::Progress;
use crate::sim::SimSnapshot;

/// Channels of a made-up device.
const CHANNELS: u32 = 2;

/// Runs it all.
///
/// # Errors
/// A sentence: what cannot be had. What goes wrong later is in the outcome.
pub(super) fn run(plan: &Plan) -> Result<Outcome, String> {
    let sampled = plan.sampled()?;
    let base = nearest(&plan.data_dir);
    must_have_room(&base, sampled)?;
    let place = Place::make(&base)?;
    let sync = measure(&place)?;
    let bench = Bench::new(plan, &place)?;
    let mut run = Run::new(plan, place, bench, sampled);
    run.outcome.sync = Some(sync);
    match run.all() {
        Ok(()) => {}
        Err(Stop::Asked) => run.outcome.is_cut_short = true,
        Err(Stop::Failed(text)) => run.outcome.problems.push(text),
    }
    Ok(run.outcome)
}

pub(super) fn measure(place: &Place) -> Result<SyncTimes, String> {
    let sync = disk::measure(place.dir(), SYNC_TIME);
    sync.map_err(|error| format!("{}: {error}", place.dir().display()))
}

fn must_have_room(base: &std::path::Path, sampled: Duration) -> Result<(), String> {
    let shown = base.display();
    let space = rustix::fs::statvfs(base).map_err(|error| format!("{shown}: {error}"))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let needed = FREE_BYTES_MIN + sampled.as_secs() * BYTES_PER_S;
    if free >= needed {
        return Ok(());
    }
    Err(format!(
        "{shown} has {} MB free, and this run may need {} MB: make room, or give a shorter \
         --duration or another --dir",
        free / 1_000_000,
        needed / 1_000_000
    ))
}

struct Run<'a> {
    plan: &'a Plan,
    // Before the place: what works in a folder ends before the folder goes.
    bench: Bench,
    place: Place,
    dice: Dice,
    sampled: Duration,
    progress: Progress,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, place: Place, bench: Bench, sampled: Duration) -> Self {
        let per_second = f64::from(DEVICES * CHANNELS) * RATE_HZ;
        let total = sampled.as_secs_f64() * per_second;
        Self {
            plan,
            bench,
            place,
            dice: Dice::new(plan.seed),
            sampled,
            // Both are far below what a double holds.
            progress: Progress::records(total as u64),
            outcome: Outcome {
                seed: plan.seed,
                devices: DEVICES,
                sampled,
                ..Outcome::default()
            },
        }
    }

    fn all(&mut self) -> Result<(), Stop> {
        let started = Instant::now();
        self.outcome.first_ack = self.bench.start_agent()?;
        let done = match self.plan.power_cut {
            PowerCut::Kill => self.kills(started),
            PowerCut::None | PowerCut::Pull => self.one_restart(started),
        };
        done?;
        self.progress.say("what is on its way arrives".to_owned());
        self.bench.drain()?;
        self.bench.end_agent()?;
        let upstream = self.bench.end_upstream();
        let devices = self.bench.see();
        let evidence = Evidence::read(&self.place.agent_dir())?;
        let witness = self.bench.witness.clone();
        finish(&mut self.outcome, &evidence, &witness, &devices);
        self.outcome.applied = upstream.readings;
        self.outcome.applied_gaps = upstream.gap_readings;
        self.outcome.duplicates_broker = upstream.duplicates;
        self.outcome.duplicates_link = self.bench.duplicates();
        Ok(())
    }

    fn tell(&mut self) {
        let produced = self
            .bench
            .see()
            .iter()
            .map(SimSnapshot::produced_in_all)
            .sum();
        self.progress.set(produced);
        if self.outcome.kills > 0 {
            self.progress.say(format!("{} kills", self.outcome.kills));
        }
    }

    /// Waits until so long after `started`, and tells how it goes.
    fn until(&mut self, started: Instant, time: Duration) -> Result<(), Stop> {
        while started.elapsed() < time {
            let left = time.saturating_sub(started.elapsed());
            self.bench.pause(left.min(Duration::from_millis(200)))?;
            self.tell();
        }
        Ok(())
    }

    fn one_restart(&mut self, started: Instant) -> Result<(), Stop> {
        self.until(started, self.sampled / 2)?;
        self.bench.end_agent()?;
        self.outcome.restarts += 1;
        let took = self.bench.start_agent()?;
        self.outcome.recovered.push(took);
        self.until(started, self.sampled)
    }

    fn kills(&mut self, started: Instant) -> Result<(), Stop> {
        while started.elapsed() < self.sampled && self.outcome.kills < KILLS_MAX {
            let wait = self.dice.between(KILL_AFTER_MIN, KILL_AFTER_MAX);
            self.bench.pause(wait)?;
            self.bench.kill_agent();
            self.outcome.kills += 1;
            // What the agent had written to the line before reaches the devices.
            self.bench.pause(SETTLE)?;
            let evidence = Evidence::read(&self.place.agent_dir())?;
            let comparison = evidence.compare(&self.bench.witness);
            accuse(&mut self.outcome, &comparison);
            let took = self.bench.start_agent()?;
            self.outcome.recovered.push(took);
            self.tell();
        }
        Ok(())
    }
}

/// Takes over what a look at the log found.
pub(super) fn accuse(outcome: &mut Outcome, comparison: &Comparison) {
    // The same may be missing at each look.
    outcome.lost_acked = outcome.lost_acked.max(comparison.missing);
    outcome.stored_twice = outcome.stored_twice.max(comparison.twice);
    for name in &comparison.named {
        if !outcome.problems.contains(name) {
            outcome.problems.push(name.clone());
        }
    }
}

/// Fills in what the devices and the log say at the end.
fn finish(outcome: &mut Outcome, evidence: &Evidence, witness: &Witness, devices: &[SimSnapshot]) {
    accuse(outcome, &evidence.compare(witness));
    outcome.produced = Some(devices.iter().map(SimSnapshot::produced_in_all).sum());
    outcome.waiting = devices.iter().map(|device| device.waiting).sum();
    outcome.acked = witness.total();
    outcome.stored = evidence.readings();
    outcome.gaps = evidence.gaps();
    outcome.late = evidence.late;
    outcome.quarantined = evidence.quarantined;
    outcome.damaged = evidence.damaged;
    let all = evidence.compare(&Witness::of_produced(devices)).missing;
    outcome.lost = all.saturating_sub(outcome.waiting + outcome.lost_acked);
    let sum = |of: fn(&SimSnapshot) -> u64| devices.iter().map(of).sum();
    outcome.faults = (sum(|d| d.faults), sum(|d| d.stalls), sum(|d| d.unplugs));
}
