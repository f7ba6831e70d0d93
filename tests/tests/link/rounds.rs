//! Eight devices on cables that get worse and better by the seed, resets, unplugs,
//! an agent that is killed now and then, a broker that goes away: at the end every
//! reading that was produced is upstream, or declared lost for a reason, once.

use std::fmt::Display;
use std::time::Duration;

use forebay_node::sim::{FaultRates, SimSnapshot};
use forebay_tests::cable::Way;
use forebay_tests::world::dice::Dice;
use serde_json::Value;

use super::rig::{PLAN, Plan, Rig};

const ROUNDS_VAR: &str = "FOREBAY_TORTURE_ROUNDS";
const SEED_VAR: &str = "FOREBAY_TORTURE_SEED";
const DEVICES: u32 = 8;
/// Things that happen in one round.
const STEPS: u64 = 8;

fn asked(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| text.parse().expect("a number"))
}

/// One row of the table that the command prints at its end.
#[allow(clippy::print_stdout, reason = "the command reads it there")]
fn report(what: impl Display) {
    println!("\ntorture: link: {what}");
}

#[derive(Debug, Default)]
struct Sums {
    produced: u64,
    readings: u64,
    gaps: u64,
    boots: u64,
    faults: u64,
    kills: u64,
    unplugs: u64,
}

/// A chance of a fault per byte: none, some, or one in twenty frames and more.
fn rates(dice: &mut Dice) -> FaultRates {
    let mut chance = |most: f64| match dice.below(3) {
        0 => 0.0,
        n => most * n as f64 * dice.below(1_000) as f64 / 2_000.0,
    };
    FaultRates {
        flip: chance(0.002),
        drop: chance(0.002),
        insert: chance(0.002),
        double: 0.0,
        echo: chance(0.2),
        noise: chance(0.002),
    }
}

/// Changes one cable. Unplugged ones are put in again by [`step`].
fn spoil(rig: &Rig, dice: &mut Dice, sums: &mut Sums) {
    let cable = &rig.cables[dice.below(u64::from(DEVICES)) as usize];
    match dice.below(6) {
        0 => cable.rates(rates(dice)),
        1 => cable.pace([0, 115_200, 921_600][dice.below(3) as usize]),
        2 => cable.set(Way::ToGateway, |lane| {
            lane.set_step(Duration::from_millis(16 * dice.below(2)));
        }),
        3 => cable.stall(true),
        4 => cable.inject(Way::ToDevice, b"AT\r\0"),
        _ => {
            sums.unplugs += 1;
            cable.unplug();
        }
    }
}

fn step(rig: &mut Rig, dice: &mut Dice, sums: &mut Sums) {
    for _ in 0..dice.below(6) {
        spoil(rig, dice, sums);
    }
    let produced = |all: &[SimSnapshot]| all.iter().map(SimSnapshot::produced_in_all).sum::<u64>();
    let enough = produced(&rig.devices()) + 200 + dice.below(600);
    match dice.below(5) {
        0 => {
            sums.kills += 1;
            rig.agent_dies();
            rig.until("readings without an agent", |all| produced(all) >= enough);
            rig.agent_starts();
        }
        1 => {
            rig.broker_stops();
            rig.until("readings without a broker", |all| produced(all) >= enough);
            rig.broker_starts();
        }
        _ => rig.until("readings", |all| produced(all) >= enough),
    }
    for cable in &rig.cables {
        cable.stall(false);
        // One that is in stays in.
        cable.plug_in();
    }
}

fn round(seed: u64, rounds: u64) -> Sums {
    let replay = format!("replay: cargo xtask torture link --seed {seed} --rounds {rounds}");
    let plan = Plan {
        devices: DEVICES,
        hz: 20.0,
        // Every second seed loses a lot, the others little.
        ring: [64, 256][(seed % 2) as usize],
        resets: Some(Duration::from_secs(5)),
        seed,
        upstream: true,
        ..PLAN
    };
    let mut sums = Sums::default();
    let mut dice = Dice::new(seed);
    let mut rig = Rig::start(&plan);
    for _ in 0..STEPS {
        step(&mut rig, &mut dice, &mut sums);
    }
    for cable in &rig.cables {
        cable.rates(FaultRates::default());
        cable.pace(0);
    }
    let ledgers = rig.settle_upstream(&replay);
    let count = |value: &Value| value.as_u64().unwrap();
    for (device, ledger) in rig.devices().iter().zip(&ledgers) {
        sums.produced += device.produced_in_all();
        sums.boots += u64::from(device.earlier.boots) + 1;
        sums.readings += count(&ledger["readings"]);
        sums.gaps += count(&ledger["gaps"]["total"]);
        let reasons = ledger["gaps"]["by_reason"].as_object().unwrap();
        let named: u64 = reasons.values().map(count).sum();
        assert_eq!(named, count(&ledger["gaps"]["total"]), "{ledger}; {replay}");
    }
    for cable in &rig.cables {
        sums.faults += Way::BOTH
            .map(|way| cable.counts(way).faults.total())
            .iter()
            .sum::<u64>();
    }
    sums
}

#[test]
fn what_bad_cables_and_kills_leave_is_upstream_or_declared_lost() {
    let (rounds, first) = (asked(ROUNDS_VAR, 1), asked(SEED_VAR, 1));
    for seed in first..first + rounds {
        let sums = round(seed, 1);
        let Sums {
            produced,
            readings,
            gaps,
            ..
        } = sums;
        assert_eq!(produced, readings + gaps);
        report(format_args!(
            "seed {seed}: produced {produced} = applied {readings} + declared lost {gaps}; {} boots, \
             {} bytes spoilt, {} kills, {} unplugs",
            sums.boots, sums.faults, sums.kills, sums.unplugs
        ));
    }
}
