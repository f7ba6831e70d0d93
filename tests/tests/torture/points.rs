//! The child killed at every fault point of the store, at several passes of each:
//! what was acked is there, and the log goes on.

use std::path::Path;

use forebay_node::store::fault::POINTS;
use forebay_tests::world::dice::Dice;

use super::damage::{Harm, Template, copy_dir};
use super::kill::Sum;
use super::ledger::Ledger;
use super::plan;
use super::rig;

/// Batches within which a point is passed, if it is at all.
const BATCHES: u64 = 60;
const LAST_BATCHES: u64 = 3;
/// Which pass of a point kills, in a short run.
const PASSES_FEW: [u64; 1] = [1];
const PASSES_MAX: u64 = 12;
/// A damaged database has a flipped bit at the end of each of these parts but one.
const HARM_PARTS: u64 = 17;
/// A database with blocks is longer.
const HOLDS_BYTES: u64 = 2_000;
const TEMPLATES_MAX: u64 = 20;

/// Kills at pass `n` of `point`, then looks; false when it was not passed so often.
fn at_point(
    data: &Path,
    home: &Path,
    ledger: &mut Ledger,
    (point, n): (&str, u64),
    sum: &mut Sum,
) -> Result<bool, String> {
    let fault = format!("{point}:{n}");
    // One whose generations fill quickly.
    let seed = n * 6 + 1;
    let child = rig::start(data, home, ledger, seed, BATCHES, Some(&fault));
    let (round, code) = child.end(ledger).map_err(|error| error.to_string())?;
    sum.add(&round, ledger)?;
    let killed = code.is_none();
    // Twice: the second start finds what the first one made of it.
    for batches in [0, LAST_BATCHES] {
        let child = rig::start(data, home, ledger, seed + 6, batches, None);
        let (round, code) = child
            .end(ledger)
            .map_err(|error| format!("after it: {error}"))?;
        sum.add(&round, ledger)?;
        if code != Some(0) || round.acks != batches {
            return Err(format!("it did not go on after it: {round:?}"));
        }
    }
    sum.rounds += u64::from(killed);
    Ok(killed)
}

/// A log that lost blocks in its live generation, so that an opening has to move
/// things aside.
fn harmed(template: &Template, home: &Path) -> (std::path::PathBuf, Ledger) {
    let data = home.join("harmed");
    copy_dir(&template.data(), &data);
    for db in template.files.iter().filter(|path| is_generation(path)) {
        let len = std::fs::metadata(data.join(db)).unwrap().len();
        for part in 1..HARM_PARTS {
            Harm::Flip(db.clone(), len * part / HARM_PARTS, 2).apply(&data);
        }
    }
    (data, template.ledger.clone())
}

fn is_generation(path: &Path) -> bool {
    path.ends_with("db") && path.starts_with("log")
}

/// A template in which a generation that is not sealed holds something.
fn template(seed: u64) -> Template {
    let holds = |template: &Template| {
        let dbs = template.files.iter().filter(|path| is_generation(path));
        let len = |path| std::fs::metadata(template.data().join(path)).unwrap().len();
        dbs.map(len).any(|len| len > HOLDS_BYTES)
    };
    let all = (0..TEMPLATES_MAX).map(|n| Template::new(seed + n));
    all.into_iter()
        .find(holds)
        .expect("some log ends within a generation")
}

#[test]
fn a_kill_at_every_point_loses_nothing() {
    let seed = plan::seed();
    let mut dice = Dice::new(seed);
    let passes: Vec<u64> = match plan::rounds(0, 100) {
        0 => PASSES_FEW.to_vec(),
        rounds => (1..=(rounds / 25).clamp(1, PASSES_MAX)).collect(),
    };
    let template = template(seed);
    let mut sum = Sum::default();
    let mut never = Vec::new();
    let mut failed = Vec::new();
    for point in POINTS {
        let mut passed = false;
        for n in &passes {
            let home = rig::home();
            let fresh = home.path().join("fresh");
            let old = home.path().join("old");
            copy_dir(&template.data(), &old);
            let (damaged, _) = harmed(&template, home.path());
            for (name, data, mut ledger) in [
                ("fresh", fresh, Ledger::default()),
                ("old", old, template.ledger.clone()),
                ("damaged", damaged, template.ledger.clone()),
            ] {
                // Only its first opening may name a loss.
                let allowed = name == "damaged";
                let n = if *n > 1 { *n + dice.below(4) } else { 1 };
                let mut own = Sum {
                    losses_allowed: allowed,
                    ..Sum::default()
                };
                match at_point(&data, home.path(), &mut ledger, (point, n), &mut own) {
                    Ok(killed) => passed |= killed,
                    Err(error) => failed.push(format!("{name}, {point}:{n}: {error}")),
                }
                sum.merge(&own);
            }
        }
        if !passed {
            never.push(point);
        }
    }
    plan::report("points", format!("{sum}; {} points", POINTS.len()));
    let replay = plan::replay("points", seed, passes.len() as u64 * 25);
    assert!(failed.is_empty(), "{}\n{replay}", failed.join("\n"));
    assert_eq!(never, NEVER, "points that no run passed\n{replay}");
}

/// Passed on a full disk only: see [`super::full`].
const NEVER: [&str; 1] = ["recover.closed"];
