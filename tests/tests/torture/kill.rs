//! kill -9 of the child, at any moment and at every fault point, on a plain
//! directory: what the page cache holds survives, what the process held does not.

use std::time::Duration;

use forebay_tests::world::dice::Dice;

use super::ledger::Ledger;
use super::plan;
use super::rig::{self, Round, START_MS_MAX};

/// Kills on one directory before a new one is taken.
const ROUNDS_PER_DIR: u64 = 25;
/// More batches than a round reaches.
const BATCHES: u64 = 100_000;
/// Batches of the run that ends a directory by itself.
const LAST_BATCHES: u64 = 3;
/// In every run of the tests.
const ROUNDS: u64 = 30;
/// Kills per hundred power cuts.
const ROUNDS_SHARE: u64 = 334;
/// Longest time between a line of the child and the kill.
const DELAY_US_MAX: u64 = 30_000;

/// What some rounds came to.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    pub(crate) rounds: u64,
    pub(crate) acks: u64,
    pub(crate) in_opening: u64,
    pub(crate) records: u64,
    pub(crate) slowest_ms: u64,
    /// What was durable was damaged on purpose: losses are no fault.
    pub(crate) losses_allowed: bool,
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            rounds,
            acks,
            in_opening,
            records,
            slowest_ms,
            losses_allowed: _,
        } = self;
        write!(
            f,
            "{rounds} times, {in_opening} of them in the opening; {acks} batches acked, all there; \
             up to {records} records; slowest start {slowest_ms} ms"
        )
    }
}

impl Sum {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.acks += other.acks;
        self.in_opening += other.in_opening;
        self.records = self.records.max(other.records);
        self.slowest_ms = self.slowest_ms.max(other.slowest_ms);
    }

    /// # Errors
    /// When the start was too slow or saw a loss that is none.
    pub(crate) fn add(&mut self, round: &Round, ledger: &Ledger) -> Result<(), String> {
        if !self.losses_allowed
            && let Some(loss) = round.losses.first()
        {
            return Err(format!(
                "a loss is reported where nothing was damaged: {} (acked: {}); notes: {:?}",
                loss.text(),
                round.acked_is_lost,
                round.notes
            ));
        }
        self.acks += round.acks;
        self.in_opening += u64::from(!round.verified);
        self.records = self.records.max(ledger.records());
        if let Some(ms) = round.opened_ms {
            self.slowest_ms = self.slowest_ms.max(ms);
            if ms > START_MS_MAX {
                return Err(format!("the start took {ms} ms"));
            }
        }
        Ok(())
    }
}

/// Lets some time go by, short enough that no condition could be looked at.
fn delay(us: u64) {
    std::thread::park_timeout(Duration::from_micros(us));
}

fn one_dir(seed: u64, rounds: u64, sum: &mut Sum) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let home = rig::home();
    let data = home.path().join("data");
    let mut ledger = Ledger::default();
    for round in 0..=rounds {
        let at = |error: String| format!("round {round}: {error}");
        let is_last = round == rounds;
        let batches = if is_last { LAST_BATCHES } else { BATCHES };
        let child_seed = dice.below(u64::MAX);
        let mut child = rig::start(&data, home.path(), &ledger, child_seed, batches, None);
        if !is_last {
            // A third in the opening, a third soon after it, a third further on.
            let acks = [0, dice.below(4), dice.below(60)][dice.below(3) as usize];
            let in_opening = acks == 0 && dice.below(2) == 0;
            let enough = |round: &Round| match in_opening {
                true => round.opening,
                false => round.verified && round.acks >= acks,
            };
            if !child.follow(&mut ledger, enough) {
                return Err(at(format!("the child hangs: {}", child.said())));
            }
            delay(dice.below(DELAY_US_MAX));
            child.kill();
        }
        let (round_sum, code) = child
            .end(&mut ledger)
            .map_err(|error| at(error.to_string()))?;
        sum.add(&round_sum, &ledger).map_err(at)?;
        if is_last && (code != Some(0) || round_sum.acks != LAST_BATCHES) {
            return Err(at(format!("the last run did not go on: {round_sum:?}")));
        }
        sum.rounds += u64::from(!is_last);
    }
    Ok(())
}

#[test]
fn what_was_acked_survives_kills() {
    let mut left = plan::rounds(ROUNDS, ROUNDS_SHARE);
    let mut seed = plan::seed();
    let mut sum = Sum::default();
    while left > 0 {
        let now = left.min(ROUNDS_PER_DIR);
        let done = one_dir(seed, now, &mut sum);
        done.unwrap_or_else(|error| {
            panic!(
                "{error}\n{}",
                plan::replay("kill", seed, now * 100 / ROUNDS_SHARE)
            )
        });
        left -= now;
        seed += 1;
    }
    plan::report("kill", &sum);
    assert!(sum.acks > 0 && sum.in_opening > 0, "{sum}");
}
