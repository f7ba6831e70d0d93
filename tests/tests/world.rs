//! Seeded runs of the whole system. A failure prints the seed that replays it.

use forebay_tests::world;

/// Seeds that every run of the tests tries.
const SEEDS: u64 = 200;

#[test]
fn every_reading_arrives_once_or_in_a_declared_gap() {
    let mut faults = std::collections::BTreeMap::new();
    for seed in 0..SEEDS {
        for (name, count) in world::run(seed).faults {
            *faults.entry(name).or_insert(0) += count;
        }
    }
    assert_eq!(faults.len(), 7, "every kind of fault happened: {faults:?}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in [1, 77, 1_000_003] {
        assert_eq!(world::run(seed), world::run(seed), "seed {seed}");
    }
}
