//! How much is done, with which seed: few rounds for every run of the tests, more
//! when `cargo xtask torture` asks. Each part says in one line what it did.

use std::fmt::Display;

const ROUNDS_VAR: &str = "FOREBAY_TORTURE_ROUNDS";
const SEED_VAR: &str = "FOREBAY_TORTURE_SEED";
/// Seed when none is asked for.
const SEED: u64 = 1;

fn asked(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// Rounds of a part: `few` when none are asked for, else what is asked times
/// `share` in hundred, at least one.
pub(crate) fn rounds(few: u64, share: u64) -> u64 {
    asked(ROUNDS_VAR).map_or(few, |rounds| (rounds * share / 100).max(1))
}

pub(crate) fn seed() -> u64 {
    asked(SEED_VAR).unwrap_or(SEED)
}

/// One row of the table that the command prints at its end.
#[allow(clippy::print_stdout, reason = "the command reads it there")]
pub(crate) fn report(part: &str, what: impl Display) {
    println!("\ntorture: {part}: {what}");
}

/// What to type to see a failure again.
pub(crate) fn replay(part: &str, seed: u64, rounds: u64) -> String {
    format!("replay: cargo xtask torture log --only {part} --seed {seed} --rounds {rounds}")
}

/// As [`replay`], of the engine's part.
pub(crate) fn replay_engine(seed: u64, rounds: u64) -> String {
    format!("replay: cargo xtask torture engine --seed {seed} --rounds {rounds}")
}
