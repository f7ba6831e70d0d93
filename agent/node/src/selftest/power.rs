//! A power cut by hand: what devices saw acked is noted on disk until somebody pulls the
//! plug, and held against the log when the power is back.
//!
//! Always holds: a number is shown only when it is in the notes; notes are made only of
//! what a device saw acked.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use super::bench::{Bench, Stop};
use super::evidence::Evidence;
use super::limits::NOTE_EACH;
use super::outcome::Outcome;
use super::place::{Place, nearest};
use super::plan::Plan;
use super::run::{accuse, measure};
use super::witness::{Notes, Witness};
use crate::terminal::{fail, print_line};

/// Works until the power is gone, or Ctrl-C.
pub(super) fn pull(plan: &Plan) -> ExitCode {
    match note_until_dark(plan) {
        Ok(()) | Err(Stop::Asked) => print_line("ended without a power cut: all is removed"),
        Err(Stop::Failed(text)) => fail(&text),
    }
}

fn witness_file(plan: &Plan, place: &Place) -> PathBuf {
    plan.witness.clone().unwrap_or_else(|| place.witness())
}

fn note_until_dark(plan: &Plan) -> Result<(), Stop> {
    let mut place = Place::make(&nearest(&plan.data_dir))?;
    let mut bench = Bench::new(plan, &place)?;
    bench.start_agent()?;
    let path = witness_file(plan, &place);
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    if plan.witness.is_some() {
        place.note_elsewhere(&path)?;
    }
    let mut notes = Notes::create(&path).map_err(told)?;
    // From here on the folder is what `--resume` looks at.
    place.set_keep(true);
    print_line(&format!(
        "Pull the plug at any time. Afterwards: forebay selftest --resume{} --seen N with the same \
         config or --dir, where N is the last number that you see here.",
        plan.witness
            .as_ref()
            .map_or_else(String::new, |path| format!(" --witness {}", path.display()))
    ));
    let ended = note(&mut bench, &mut notes);
    // Nobody pulled it.
    drop(bench);
    place.set_keep(false);
    if plan.witness.is_some() {
        // The notes are of a run that nothing is left of.
        let _ = std::fs::remove_file(&path);
    }
    drop(place);
    ended
}

fn note(bench: &mut Bench, notes: &mut Notes) -> Result<(), Stop> {
    let mut noted = Witness::default();
    loop {
        let news: Vec<_> = bench.witness.since(&noted);
        notes
            .add(&news)
            .map_err(|error| Stop::Failed(format!("the notes: {error}")))?;
        noted = bench.witness.clone();
        if !news.is_empty() {
            print_line(&format!("acked {}", noted.total()));
        }
        bench.pause(NOTE_EACH)?;
    }
}

/// Starts an agent on what the cut left, and holds its log against the notes.
///
/// # Errors
/// A sentence: there is nothing to look at, or something cannot be had.
pub(super) fn resume(plan: &Plan) -> Result<Outcome, String> {
    let mut place = Place::left(&nearest(&plan.data_dir))?;
    let (witness, _) = Witness::read(&witness_file(plan, &place))?;
    let mut outcome = Outcome {
        seed: plan.seed,
        acked: witness.total(),
        sync: Some(measure(&place)?),
        ..Outcome::default()
    };
    let done = look(plan, &place, &witness, &mut outcome);
    match done {
        Ok(()) => {}
        Err(Stop::Asked) => outcome.is_cut_short = true,
        Err(Stop::Failed(text)) => outcome.problems.push(text),
    }
    if outcome.has_passed() {
        place.set_keep(false);
        if let Some(path) = &plan.witness {
            // Its run is over.
            let _ = std::fs::remove_file(path);
        }
    } else {
        outcome.problems.push(format!(
            "what was found is kept in {}: remove it when you have looked at it",
            place.dir().display()
        ));
    }
    Ok(outcome)
}

fn look(plan: &Plan, place: &Place, witness: &Witness, outcome: &mut Outcome) -> Result<(), Stop> {
    let started = Instant::now();
    let mut bench = Bench::new(plan, place)?;
    outcome.recovered.push(bench.start_agent()?);
    outcome.first_ack = started.elapsed();
    bench.drain()?;
    bench.end_agent()?;
    let upstream = bench.end_upstream();
    let devices = bench.see();
    let evidence = Evidence::read(&place.agent_dir())?;
    outcome.devices = u32::try_from(devices.len()).unwrap_or(u32::MAX);
    outcome.waiting = devices.iter().map(|device| device.waiting).sum();
    accuse(outcome, &evidence.compare(witness));
    accuse(outcome, &evidence.compare(&bench.witness));
    outcome.stored = evidence.readings();
    outcome.gaps = evidence.gaps();
    outcome.late = evidence.late;
    outcome.quarantined = evidence.quarantined;
    outcome.damaged = evidence.damaged;
    outcome.applied = upstream.readings;
    outcome.applied_gaps = upstream.gap_readings;
    outcome.duplicates_broker = upstream.duplicates;
    outcome.duplicates_link = bench.duplicates();
    if let Some(seen) = plan.seen {
        judge_seen(seen, witness, &evidence, &bench.witness, outcome);
    }
    Ok(())
}

/// The number on the screen outlived the cut wherever the screen was.
fn judge_seen(
    seen: u64,
    witness: &Witness,
    evidence: &Evidence,
    since: &Witness,
    outcome: &mut Outcome,
) {
    let held = evidence.readings() + evidence.gaps();
    // What came after the power was back is no proof of what was there before.
    let held = held.saturating_sub(since.total());
    if held < seen {
        outcome.lost_acked = outcome.lost_acked.max(seen - held);
        outcome.problems.push(format!(
            "the screen showed {seen} acked readings, and the log holds {held} of before the cut"
        ));
    }
    if witness.total() < seen {
        outcome.problems.push(format!(
            "the screen showed {seen} acked readings, and the notes know of {}: this disk says that \
             writes are on it which are not",
            witness.total()
        ));
    }
}
