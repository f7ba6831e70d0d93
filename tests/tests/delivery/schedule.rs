//! What happens in a round, drawn from a seed: steps of some readings, each with
//! faults of the broker that go on for it, things that happen at its start, and
//! processes that are killed.
//!
//! Always holds: one seed, one schedule. Bound: [`STEPS_MAX`] steps. Does nothing.

use std::fmt::Write as _;
use std::time::Duration;

use forebay_tests::scripted::{Act, Disk, Faults, Forget};
use forebay_tests::world::dice::Dice;

pub(crate) const STEPS_MIN: u64 = 4;
pub(crate) const STEPS_MAX: u64 = 8;
/// Faults that are set at once.
const FAULTS_MAX: u64 = 3;
/// Readings of a step.
const READINGS_MIN: u64 = 150;
const READINGS_SPAN: u64 = 450;

/// What happens to a process in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Lives,
    /// Killed, and started at once.
    Killed,
    /// Killed, and started at the end of the step.
    Away,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) faults: Faults,
    pub(crate) acts: Vec<Act>,
    pub(crate) agent: Fate,
    pub(crate) receiver: Fate,
    /// It ends when the devices have produced so many more.
    pub(crate) readings: u64,
    /// In words.
    pub(crate) said: String,
}

/// How the parts are set up, and the steps.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pub(crate) partitions: u64,
    pub(crate) window: u64,
    pub(crate) order: &'static str,
    /// Readings that a device keeps: with few, some are lost and declared.
    pub(crate) ring: u32,
    pub(crate) steps: Vec<Step>,
}

fn one_of<T: Copy>(dice: &mut Dice, list: &[T]) -> T {
    list[dice.below(list.len() as u64) as usize]
}

/// So many kinds are known to [`spoil`].
const KINDS: u64 = 20;

fn millis(dice: &mut Dice, most: u64) -> Duration {
    Duration::from_millis(1 + dice.below(most))
}

/// Adds the fault of a number.
fn spoil(kind: u64, faults: &mut Faults, dice: &mut Dice) {
    let mut share = |most: u64| 1 + dice.below(most);
    match kind {
        0 => faults.ack_late = millis(dice, 700),
        1 => faults.hold_acks = true,
        2 => faults.reverse_acks = 2 + share(30) as usize,
        3 => faults.double_ack = share(1_000),
        4 => faults.missing_ack = share(200),
        5 => faults.unknown_ack = share(100),
        6 => {
            faults.refuse = share(500);
            faults.reasons = vec![0x97];
        }
        7 => {
            faults.refuse = share(200);
            faults.reasons = vec![0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99];
        }
        8 => faults.drop = share(300),
        9 => faults.double = share(500),
        10 => faults.reorder = share(500),
        11 => faults.lose_retained = 1_000,
        12 => faults.cut_in_packet = share(50),
        13 => faults.forget = Forget::Said,
        14 => faults.forget = Forget::Silently,
        15 => faults.receive_max = Some(share(4) as u16),
        16 => faults.packet_max = Some(2_000 + share(20_000) as u32),
        17 => faults.refuse_connect = Some(one_of(dice, &[0x86, 0x87, 0x88, 0x89, 0x97])),
        18 => faults.mute = true,
        _ => faults.deaf = true,
    }
}

/// One thing that happens to all connections.
fn event(dice: &mut Dice) -> Act {
    match dice.below(8) {
        0 | 1 => Act::Cut,
        2 => Act::Goodbye(one_of(
            dice,
            &[0x80, 0x81, 0x82, 0x89, 0x8b, 0x8d, 0x97, 0x98],
        )),
        3 => Act::Restart(Disk::Kept),
        4 => Act::Restart(Disk::Old),
        5 => Act::Restart(Disk::Wiped),
        6 => Act::LoseRetained,
        _ => Act::Save,
    }
}

fn fate(dice: &mut Dice) -> Fate {
    match dice.below(14) {
        0 => Fate::Killed,
        1 => Fate::Away,
        _ => Fate::Lives,
    }
}

impl Step {
    fn draw(dice: &mut Dice) -> Self {
        let mut faults = Faults::default();
        let mut said = String::new();
        for _ in 0..dice.below(FAULTS_MAX + 1) {
            spoil(dice.below(KINDS), &mut faults, dice);
        }
        let mut acts = Vec::new();
        // What was held goes out, unless its connection has ended.
        acts.push(one_of(dice, &[Act::Release, Act::ReleaseReversed]));
        if dice.below(3) == 0 {
            acts.push(event(dice));
        }
        // Limits and what is forgotten show at the next connection only.
        let of_connects = faults.receive_max.is_some()
            || faults.packet_max.is_some()
            || faults.refuse_connect.is_some()
            || faults.forget != Forget::No;
        if of_connects {
            acts.push(Act::Cut);
        }
        // The broker is away as a whole.
        if dice.below(12) == 0 {
            faults.down = true;
            acts.push(Act::Restart(one_of(
                dice,
                &[Disk::Kept, Disk::Old, Disk::Wiped],
            )));
        }
        let (agent, receiver) = (fate(dice), fate(dice));
        let readings = READINGS_MIN + dice.below(READINGS_SPAN);
        let _ = write!(
            said,
            "{}; {acts:?}; agent {agent:?}, receiver {receiver:?}; {readings} readings",
            named(&faults)
        );
        Self {
            faults,
            acts,
            agent,
            receiver,
            readings,
            said,
        }
    }
}

/// The faults that are set, without those that are not.
fn named(faults: &Faults) -> String {
    let (all, none) = (format!("{faults:#?}"), format!("{:#?}", Faults::default()));
    let set = all
        .lines()
        .filter(|line| !none.lines().any(|other| other == *line));
    let set: Vec<&str> = set.map(|line| line.trim().trim_end_matches(',')).collect();
    if set.is_empty() {
        "no fault".to_owned()
    } else {
        set.join(" ")
    }
}

impl Schedule {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let steps = STEPS_MIN + dice.below(STEPS_MAX - STEPS_MIN + 1);
        Self {
            partitions: 1 + dice.below(6),
            window: one_of(&mut dice, &[1, 4, 64, 1000]),
            order: one_of(&mut dice, &["oldest_first", "oldest_first", "live_first"]),
            ring: one_of(&mut dice, &[64, 1024, 8192, 8192]),
            steps: (0..steps).map(|_| Step::draw(&mut dice)).collect(),
        }
    }
}

#[test]
fn a_seed_is_a_schedule_and_all_kinds_come() {
    let said = |seed| {
        let steps = Schedule::draw(seed).steps.into_iter();
        steps.map(|step| step.said).collect::<Vec<_>>()
    };
    assert_eq!(said(7), said(7));
    assert_ne!(said(7), said(8));
    let all: String = (0..200).flat_map(said).collect();
    for word in [
        "ack_late",
        "hold_acks",
        "reverse_acks",
        "double_ack",
        "missing_ack",
        "unknown_ack",
        "refuse:",
        "drop",
        "double:",
        "reorder",
        "lose_retained",
        "cut_in_packet",
        "Said",
        "Silently",
        "receive_max",
        "packet_max",
        "refuse_connect",
        "mute",
        "deaf",
        "down",
        "Cut",
        "Goodbye",
        "Kept",
        "Old",
        "Wiped",
        "LoseRetained",
        "Killed",
        "Away",
        "no fault",
    ] {
        assert!(all.contains(word), "{word} never comes");
    }
}
