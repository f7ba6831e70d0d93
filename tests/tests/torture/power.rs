//! Power cuts: the child runs on a disk that forgets what was not synced.

use std::time::{Duration, Instant};

use forebay_tests::powercut::cut::Kind;
use forebay_tests::powercut::disk::Disk;
use forebay_tests::powercut::mount::Mounted;
use forebay_tests::world::dice::Dice;

use super::kill::Sum;
use super::ledger::Ledger;
use super::plan;
use super::rig::{self, Failed, LIMIT, Round};

/// Rounds on one disk before a new one is taken.
const ROUNDS_PER_DISK: u64 = 10;
/// In every run of the tests.
const ROUNDS: u64 = 20;
/// Steps of the disk within which the power goes off: an opening takes some dozens,
/// a batch a handful.
const OPENING_STEPS: u64 = 60;
const BATCH_STEPS: u64 = 30;
/// Batches before a cut, at the most.
const ACKS_MAX: u64 = 200;
/// How often a child is looked at that may have ended by itself.
const LOOK: Duration = Duration::from_millis(20);
/// More batches than a round reaches.
const BATCHES: u64 = 100_000;

/// Cuts the power `ROUNDS_PER_DISK` times on one disk.
///
/// # Errors
/// What went wrong, in which round.
fn one_disk(seed: u64, kinds: &[Kind], lies: bool, sum: &mut Sum) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let home = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::default();
    let mut disk = Disk::new();
    for round in 0..=ROUNDS_PER_DISK {
        if lies {
            disk.ignore_fdatasync();
        }
        let kind = kinds[(round % kinds.len() as u64) as usize];
        let at = |error: String| format!("round {round}, {kind:?}: {error}");
        let mounted = Mounted::over(disk)?;
        let is_last = round == ROUNDS_PER_DISK;
        // Within the opening, within the first batches, after some, after many.
        let acks = match dice.below(4) {
            0 => 0,
            1 => 1,
            2 => 1 + dice.below(ACKS_MAX / 10),
            _ => 1 + dice.below(ACKS_MAX),
        };
        let cut_soon = |dice: &mut Dice| {
            let within = if acks == 0 {
                OPENING_STEPS
            } else {
                BATCH_STEPS
            };
            let within = dice.below(within);
            mounted.disk(|disk| disk.cut_at_step(disk.steps() + within));
        };
        if !is_last && acks == 0 {
            cut_soon(&mut dice);
        }
        let batches = if is_last { 3 } else { BATCHES };
        let dir = mounted.path().to_owned();
        let mut child = rig::start(
            &dir,
            home.path(),
            &ledger,
            dice.below(u64::MAX),
            batches,
            None,
        );
        if !is_last {
            if acks > 0 {
                child.follow(&mut ledger, |round| round.acks >= acks);
                cut_soon(&mut dice);
            }
            let deadline = Instant::now() + LIMIT;
            while !mounted.wait_for_cut(LOOK) && !child.has_ended() && Instant::now() < deadline {}
            child.kill();
        }
        let is_on = mounted.disk(|disk| disk.is_on());
        let round_sum = match child.end(&mut ledger) {
            Ok(_) if is_on && !is_last => return Err(at("the power stayed on".to_owned())),
            Ok((round, _)) => round,
            // The power went off under it: what it says of that is its own.
            Err(Failed::Other(_)) if !is_on => Round::default(),
            Err(error) => return Err(at(error.to_string())),
        };
        sum.add(&round_sum, &ledger).map_err(at)?;
        if is_last {
            return Ok(());
        }
        sum.rounds += 1;
        disk = mounted.cut(kind, &mut dice);
    }
    Ok(())
}

#[test]
fn what_was_acked_survives_power_cuts() {
    let rounds = plan::rounds(ROUNDS, 100);
    let seed = plan::seed();
    let mut sum = Sum::default();
    for seed in seed..seed + rounds.div_ceil(ROUNDS_PER_DISK) {
        one_disk(seed, &Kind::ALL, false, &mut sum)
            .unwrap_or_else(|error| panic!("{error}\n{}", plan::replay("power", seed, 1)));
    }
    plan::report("power", &sum);
    assert!(sum.acks > 0 && sum.in_opening > 0, "{sum}");
}

/// The rig can fail: without its fdatasync the store is what `flush` alone makes of
/// it, and acked batches are lost.
#[test]
fn a_store_without_fdatasync_is_caught() {
    let caught = (0..20).any(|seed| {
        let error = one_disk(seed, &[Kind::DropAll], true, &mut Sum::default());
        println!("{seed}: {error:?}");
        error.is_err_and(|error| error.contains("was acked"))
    });
    assert!(
        caught,
        "20 disks that ignore fdatasync lost nothing that was acked"
    );
}
