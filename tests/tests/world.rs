//! Seeded runs of the whole system. A failure prints the seed that replays it.

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_core::retention::WhenFull;
use forebay_tests::world;
use forebay_tests::world::model::Ends;
use forebay_tests::world::scenario::Scenario;

/// Seeds that every run of the tests tries.
const SEEDS: u64 = 200;
/// Seeds of each scenario in which room is short.
const SPACE_SEEDS: u64 = 40;
/// Seeds in which an operator changes settings and commands devices.
const OPERATED_SEEDS: u64 = 100;

/// `cargo xtask sim` names other seeds in it, as `first..end`.
const SEEDS_VARIABLE: &str = "FOREBAY_SEEDS";

/// The seeds that were asked for, if any were.
fn asked() -> Option<Range<u64>> {
    let text = std::env::var(SEEDS_VARIABLE).ok()?;
    let (first, end) = text.split_once("..").expect("seeds as first..end");
    let number = |text: &str| text.parse().expect("a seed is a number");
    Some(number(first)..number(end))
}

/// Runs the seeds of one scenario; gives how many worlds had each end, and how often
/// each fault happened.
#[allow(clippy::print_stdout, reason = "shown when the test fails")]
fn run_all(name: &str, seeds: u64, scenario: fn() -> Scenario) -> BTreeMap<&'static str, u32> {
    let mut seen = BTreeMap::new();
    for seed in asked().unwrap_or(0..seeds) {
        let outcome = world::run_in(seed, scenario());
        let (rows, end) = (outcome.rows.len(), outcome.ended_at);
        println!(
            "{name} seed {seed}: {rows} rows at {end} us, faults {:?}, {:?}",
            outcome.faults, outcome.ends
        );
        for (name, count) in outcome.faults.into_iter().chain(outcome.heard) {
            *seen.entry(name).or_insert(0) += count;
        }
        let Ends {
            kept,
            dropped,
            never_arrived,
            rejected,
            device_gaps,
            rows_dropped,
            rows_refused,
        } = outcome.ends;
        for (name, count) in [
            ("kept", kept),
            ("dropped", dropped),
            ("never arrived", never_arrived),
            ("rejected", rejected),
            ("device gaps", device_gaps),
            ("rows dropped", rows_dropped),
            ("rows refused", rows_refused),
        ] {
            *seen.entry(name).or_insert(0) += u32::from(count > 0);
        }
    }
    seen
}

/// Checks that what a scenario is made for happened, and what it rules out did not;
/// seeds that were asked for by hand need not show everything.
fn expect(seen: &BTreeMap<&'static str, u32>, happened: &[&str], not: &[&str]) {
    for name in not {
        assert_eq!(seen.get(name).copied().unwrap_or(0), 0, "{name}: {seen:?}");
    }
    if asked().is_some() {
        return;
    }
    for name in happened {
        assert!(seen.get(name).is_some_and(|n| *n > 0), "{name}: {seen:?}");
    }
}

const FAULTS: [&str; 7] = [
    "gateway killed",
    "device reset",
    "receiver killed",
    "broker lost its disk",
    "gateway's connection broke",
    "receiver's connection broke",
    "port replugged",
];

#[test]
fn every_reading_arrives_once_or_in_a_declared_gap() {
    let seen = run_all("roomy", SEEDS, Scenario::roomy);
    expect(
        &seen,
        &[&FAULTS[..], &["device gaps"]].concat(),
        &["dropped", "rejected", "never arrived", "rows dropped"],
    );
}

#[test]
fn the_oldest_goes_when_a_topic_is_full_and_all_is_accounted_for() {
    let small = || Scenario::small(WhenFull::DropOldest);
    let seen = run_all("drop_oldest", SPACE_SEEDS, small);
    expect(
        &seen,
        &[
            "broker out of reach",
            "dropped",
            "never arrived",
            "rows dropped",
        ],
        &["rejected", "rows refused"],
    );
}

#[test]
fn what_a_full_log_rejects_is_a_declared_gap_and_the_rest_arrives() {
    let small = || Scenario::small(WhenFull::RejectNew);
    let seen = run_all("reject_new", SPACE_SEEDS, small);
    expect(
        &seen,
        &["broker out of reach", "dropped", "rejected", "rows refused"],
        &["never arrived"],
    );
}

#[test]
fn devices_wait_for_a_log_that_blocks_and_go_on() {
    let small = || Scenario::small(WhenFull::Block);
    let seen = run_all("block", SPACE_SEEDS, small);
    expect(
        &seen,
        &[
            "broker out of reach",
            "dropped",
            "device gaps",
            "rows refused",
        ],
        &["never arrived", "rejected"],
    );
}

#[test]
fn partitions_grow_under_load_and_nothing_is_lost_or_out_of_order() {
    let seen = run_all("growing", SPACE_SEEDS, Scenario::growing);
    expect(
        &seen,
        &["partitions grew", "gateway killed", "device gaps"],
        &["dropped", "rejected", "never arrived", "rows dropped"],
    );
    let small = || Scenario::growing_small(WhenFull::DropOldest);
    let seen = run_all("growing, drop_oldest", SPACE_SEEDS, small);
    expect(
        &seen,
        &["partitions grew", "dropped", "never arrived"],
        &["rejected", "rows refused"],
    );
}

#[test]
fn what_crosses_devices_has_every_reading_once_in_any_number_of_partitions() {
    let seen = run_all("crossing", SPACE_SEEDS, Scenario::crossing);
    expect(
        &seen,
        &["gateway killed", "device reset", "device gaps"],
        &["dropped", "rejected", "never arrived", "rows dropped"],
    );
}

#[test]
fn devices_take_orders_and_every_ledger_closes() {
    let seen = run_all("operated", OPERATED_SEEDS, Scenario::operated);
    expect(
        &seen,
        &[
            "gateway killed",
            "device reset",
            "devices changed ports",
            "settings applied",
            "settings kept",
            "command done",
            "device shown",
            "refused",
            "identified",
            "log frames",
        ],
        &["dropped", "rejected", "never arrived", "rows dropped"],
    );
}

#[test]
fn a_disk_that_others_fill_and_empty_again_costs_nothing_that_was_acked() {
    for policy in [WhenFull::DropOldest, WhenFull::RejectNew, WhenFull::Block] {
        let name = format!("filling, {}", policy.name());
        let scenario = match policy {
            WhenFull::DropOldest => || Scenario::filling(WhenFull::DropOldest),
            WhenFull::RejectNew => || Scenario::filling(WhenFull::RejectNew),
            WhenFull::Block => || Scenario::filling(WhenFull::Block),
        };
        let seen = run_all(&name, SPACE_SEEDS, scenario);
        expect(&seen, &["disk filled"], &[]);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in [1, 77, 1_000_003] {
        assert_eq!(world::run(seed), world::run(seed), "seed {seed}");
    }
    let small = || Scenario::filling(WhenFull::RejectNew);
    assert_eq!(world::run_in(5, small()), world::run_in(5, small()));
}
