//! Seeded runs of the whole system. A failure prints the seed that replays it.

use std::ops::Range;

use forebay_tests::world;

/// Seeds that every run of the tests tries.
const SEEDS: u64 = 200;

/// `cargo xtask sim` names other seeds in it, as `first..end`.
const SEEDS_VARIABLE: &str = "FOREBAY_SEEDS";

/// The seeds that were asked for, if any were.
fn asked() -> Option<Range<u64>> {
    let text = std::env::var(SEEDS_VARIABLE).ok()?;
    let (first, end) = text.split_once("..").expect("seeds as first..end");
    let number = |text: &str| text.parse().expect("a seed is a number");
    Some(number(first)..number(end))
}

#[test]
fn every_reading_arrives_once_or_in_a_declared_gap() {
    let mut faults = std::collections::BTreeMap::new();
    let seeds = asked();
    for seed in seeds.clone().unwrap_or(0..SEEDS) {
        let outcome = world::run(seed);
        let (rows, end) = (outcome.rows.len(), outcome.ended_at);
        println!(
            "seed {seed}: {rows} rows at {end} us, faults {:?}",
            outcome.faults
        );
        for (name, count) in outcome.faults {
            *faults.entry(name).or_insert(0) += count;
        }
    }
    if seeds.is_some() {
        return;
    }
    assert_eq!(faults.len(), 7, "every kind of fault happened: {faults:?}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in [1, 77, 1_000_003] {
        assert_eq!(world::run(seed), world::run(seed), "seed {seed}");
    }
}
