//! The chip's commands as a script. Bytes of the example are the data sheet's.

use super::*;
use crate::sensors::script::{ack, answer, done, nack_read, nack_write};
use embedded_hal_mock::eh1::delay::NoopDelay;
use embedded_hal_mock::eh1::i2c::{Mock, Transaction};
use std::vec;
use std::vec::Vec;

const ADDRESS: u8 = 0x62;
const START: [u8; 2] = [0x21, 0xB1];
const STOP: [u8; 2] = [0x3F, 0x86];
const READY: [u8; 2] = [0xE4, 0xB8];
const READ: [u8; 2] = [0xEC, 0x05];
/// SCD4x data sheet, table 11 (read_measurement): 500 ppm, 25 degC, 37 %.
const EXAMPLE: [u8; 9] = [0x01, 0xF4, 0x33, 0x66, 0x67, 0xA2, 0x5E, 0xB9, 0x3C];

fn started() -> Vec<Transaction> {
    ack(ADDRESS, &START)
}

fn status(bytes: &[u8; 3]) -> Vec<Transaction> {
    [ack(ADDRESS, &READY), answer(ADDRESS, bytes)].concat()
}

fn ready() -> Vec<Transaction> {
    // 0x8006 with its CRC: the lowest 11 bits are not 0.
    status(&[0x80, 0x06, 0x04])
}

fn not_ready() -> Vec<Transaction> {
    status(&[0x80, 0x00, 0xA2])
}

fn data(bytes: &[u8]) -> Vec<Transaction> {
    [ack(ADDRESS, &READ), answer(ADDRESS, bytes)].concat()
}

fn example() -> Vec<Transaction> {
    [ready(), data(&EXAMPLE)].concat()
}

/// Each step's outcome, of a chip that was just built.
fn run(script: &[Vec<Transaction>], steps: usize) -> Vec<Result<[Value; 3], Quality>> {
    let mut chip = Scd4x::new(Mock::new(&script.concat()), NoopDelay);
    let outcomes = (0..steps).map(|_| chip.collect()).collect();
    done(chip.release());
    outcomes
}

/// The last outcome of a chip that is warm before `script`.
fn warm(script: &[Vec<Transaction>], steps: usize) -> Result<[Value; 3], Quality> {
    let before = usize::from(SCD4X_WARMING_UP);
    let mut all = vec![started()];
    all.extend(vec![example(); before]);
    all.extend(script.to_vec());
    run(&all, 1 + before + steps).pop().expect("a step")
}

const GOOD: [Value; 3] = [Ok(500), Ok(25_002), Ok(3_700)];

#[test]
fn the_first_measurements_warm_up() {
    let mut script = vec![started(), not_ready()];
    script.extend(vec![example(); usize::from(SCD4X_WARMING_UP) + 1]);
    let outcomes = run(&script, script.len());
    let (last, before) = outcomes.split_last().expect("steps");
    assert!(before.iter().all(|one| *one == Err(Quality::WarmingUp)));
    assert_eq!(*last, Ok(GOOD));
}

#[test]
fn readings_of_a_warm_chip() {
    let nack_ready = || nack_write(ADDRESS, &READY);
    let mut damaged = EXAMPLE;
    damaged[5] ^= 1;
    for (name, script, want) in [
        ("good", vec![example()], Ok(GOOD)),
        ("nothing new", vec![not_ready()], Err(Quality::Stale)),
        (
            "two NACKs to each, then good",
            vec![
                nack_ready(),
                ack(ADDRESS, &READY),
                nack_read(ADDRESS, 3),
                ready(),
                nack_write(ADDRESS, &READ),
                ack(ADDRESS, &READ),
                nack_read(ADDRESS, 9),
                data(&EXAMPLE),
            ],
            Ok(GOOD),
        ),
        ("no chip", vec![nack_ready(); 3], Err(Quality::BusError)),
        (
            "its data refused",
            vec![ready(), vec![nack_write(ADDRESS, &READ); 3].concat()],
            Err(Quality::BusError),
        ),
        (
            "CRC of the data: given away once, so not again",
            vec![ready(), data(&damaged)],
            Err(Quality::CrcError),
        ),
        (
            "CRC of the status, once",
            vec![
                ack(ADDRESS, &READY),
                answer(ADDRESS, &[0x80, 0x06, 0x05]),
                example(),
            ],
            Ok(GOOD),
        ),
        (
            "CRC of the status, always",
            vec![status(&[0x80, 0x06, 0x05]); 3],
            Err(Quality::CrcError),
        ),
        (
            "all ones",
            vec![status(&[0xFF; 3]); 3],
            Err(Quality::BusError),
        ),
        (
            "SDA stuck low: all zeros, whose CRC is 0x81",
            vec![status(&[0; 3]); 3],
            Err(Quality::CrcError),
        ),
        (
            "no CO2, and colder than the chip can be",
            vec![ready(), data(&[0, 0, 0x81, 0, 0, 0x81, 0x5E, 0xB9, 0x3C])],
            Ok([
                Err(Quality::Implausible),
                Err(Quality::Implausible),
                Ok(3_700),
            ]),
        ),
    ] {
        assert_eq!(warm(&script, 1), want, "{name}");
    }
}

#[test]
fn a_chip_that_measures_since_before_our_reset_is_taken_as_it_is() {
    let script = [
        nack_write(ADDRESS, &START),
        not_ready(),
        ready(),
        data(&EXAMPLE),
    ];
    assert_eq!(run(&script, 2), [Err(Quality::WarmingUp); 2]);
}

#[test]
fn no_chip_at_the_start() {
    let gone = [
        nack_write(ADDRESS, &START),
        vec![nack_write(ADDRESS, &READY); 3].concat(),
    ];
    assert_eq!(run(&gone, 1), [Err(Quality::BusError)]);
}

#[test]
fn a_chip_that_was_away_is_stopped_and_started() {
    let script = [
        vec![nack_write(ADDRESS, &READY); 3].concat(),
        ack(ADDRESS, &STOP),
        started(),
        not_ready(),
    ];
    assert_eq!(warm(&script, 4), Err(Quality::WarmingUp));
}

#[test]
fn a_silent_chip_is_started_again_at_the_limit() {
    let limit = usize::from(SCD4X_SILENT_MAX);
    for (name, looks, after) in [
        ("limit - 1", limit - 1, example()),
        ("limit", limit, [ack(ADDRESS, &STOP), started()].concat()),
    ] {
        let mut script = vec![not_ready(); looks];
        script.push(after);
        let steps = if looks < limit { looks + 1 } else { looks + 2 };
        let want = if looks < limit {
            Ok(GOOD)
        } else {
            Err(Quality::WarmingUp)
        };
        assert_eq!(warm(&script, steps), want, "{name}");
    }
}

#[test]
fn no_command_waits_for_longer_than_a_millisecond() {
    #[derive(Debug, Default)]
    struct Longest(u64);
    impl DelayNs for Longest {
        fn delay_ns(&mut self, ns: u32) {
            self.0 += u64::from(ns);
        }
    }
    let mut brief = Brief(Longest::default());
    brief.delay_ms(500);
    assert_eq!(brief.0.0, 1_000_000);
    brief.delay_us(5_000);
    brief.delay_ns(u32::MAX);
    assert_eq!(brief.0.0, 3_000_000);
}
