//! The converter's registers as a script, up to 4.096 V.

use super::*;
use crate::sensors::script::{ack, done, nack_register, nack_write, register};
use embedded_hal_mock::eh1::i2c::{Mock, Transaction};
use std::vec;
use std::vec::Vec;

const ADDRESS: u8 = 0x48;
const CONFIG: u8 = 0x01;
/// Rate, then range too.
const RATE: [u8; 3] = [CONFIG, 0x85, 0xE3];
const RANGE: [u8; 3] = [CONFIG, 0x83, 0xE3];

fn configured() -> Vec<Transaction> {
    [ack(ADDRESS, &RATE), ack(ADDRESS, &RANGE)].concat()
}

fn idle() -> Vec<Transaction> {
    register(ADDRESS, CONFIG, &[0xC3, 0xE3])
}

fn busy() -> Vec<Transaction> {
    register(ADDRESS, CONFIG, &[0x43, 0xE3])
}

/// The multiplexer stands in bits 14 to 12: 4 + the input's number.
fn trigger(input: Input) -> Vec<Transaction> {
    ack(ADDRESS, &[CONFIG, 0xC3 + 0x10 * input as u8, 0xE3])
}

fn begun(input: Input) -> Vec<Transaction> {
    [idle(), trigger(input)].concat()
}

fn result(raw: u16) -> Vec<Transaction> {
    [idle(), register(ADDRESS, CONVERSION, &raw.to_be_bytes())].concat()
}

fn chip(script: &[Vec<Transaction>]) -> Ads1115<Mock> {
    let bus = Mock::new(&script.concat());
    Ads1115::new(bus, TargetAddr::Gnd, FullScaleRange::Within4_096V)
}

fn measure(script: &[Vec<Transaction>]) -> Result<i32, Quality> {
    let chip = chip(script);
    let mut channel = chip.channel(Input::A0, "battery", 1_000_000);
    channel.start(Tick(0));
    let value = channel.read();
    done(chip.release());
    value
}

/// Data sheet SBAS444, table 7-1 (input signal versus ideal output code).
#[test]
fn the_data_sheets_codes() {
    for (name, raw, want) in [
        ("+FS or more", 0x7FFF, Err(Quality::Saturated)),
        ("a digit less", 0x7FFE, Ok(4_095_750)),
        ("+FS / 2^15", 0x0001, Ok(125)),
        ("0", 0x0000, Ok(0)),
        ("-FS / 2^15: all ones", 0xFFFF, Ok(-125)),
        ("a digit more than -FS", 0x8001, Ok(-4_095_875)),
        ("-FS or less", 0x8000, Err(Quality::Saturated)),
    ] {
        let script = [configured(), begun(Input::A0), result(raw)];
        assert_eq!(measure(&script), want, "{name}");
    }
}

#[test]
fn a_digit_of_each_range_is_the_data_sheets() {
    for (range, nanovolts) in [
        (FullScaleRange::Within6_144V, 187_500),
        (FullScaleRange::Within4_096V, 125_000),
        (FullScaleRange::Within2_048V, 62_500),
        (FullScaleRange::Within1_024V, 31_250),
        (FullScaleRange::Within0_512V, 15_625),
        (FullScaleRange::Within0_256V, 7_812),
    ] {
        let digits = microvolts(16_000, range);
        assert_eq!(digits / 16, nanovolts, "{range:?}");
    }
}

#[test]
fn failures() {
    let nack_config = || nack_register(ADDRESS, CONFIG, 2);
    let started = || [configured(), begun(Input::A0)].concat();
    let good = || result(0x3E80);
    let value = Ok(2_000_000);
    for (name, script, want) in [
        ("good", vec![started(), good()], value),
        (
            "looked at too early, as often as may be",
            [
                vec![started()],
                vec![busy(); usize::from(ADS1115_POLLS_MAX) - 1],
                vec![good()],
            ]
            .concat(),
            value,
        ),
        (
            "never done",
            [
                vec![started()],
                vec![busy(); usize::from(ADS1115_POLLS_MAX)],
            ]
            .concat(),
            Err(Quality::Stale),
        ),
        (
            "no chip",
            vec![nack_write(ADDRESS, &RATE); 4],
            Err(Quality::BusError),
        ),
        (
            "not there at the start, then good",
            vec![
                nack_write(ADDRESS, &RATE),
                nack_write(ADDRESS, &RATE),
                configured(),
                begun(Input::A0),
                good(),
            ],
            value,
        ),
        (
            "two NACKs, then good",
            vec![started(), nack_config(), nack_config(), good()],
            value,
        ),
        (
            "gone while it converted",
            vec![started(), nack_config(), nack_config(), nack_config()],
            Err(Quality::BusError),
        ),
        (
            "all ones",
            [
                vec![started()],
                vec![register(ADDRESS, CONFIG, &[0xFF; 2]); 3],
            ]
            .concat(),
            Err(Quality::BusError),
        ),
        (
            "SDA stuck low: never done",
            [
                vec![started()],
                vec![register(ADDRESS, CONFIG, &[0; 2]); usize::from(ADS1115_POLLS_MAX)],
            ]
            .concat(),
            Err(Quality::Stale),
        ),
    ] {
        assert_eq!(measure(&script), want, "{name}");
    }
}

#[test]
fn inputs_that_are_due_together_take_turns() {
    let chip = chip(&[
        configured(),
        begun(Input::A0),
        result(1),
        begun(Input::A3),
        result(2),
        begun(Input::A1),
        result(3),
    ]);
    let inputs = [Input::A0, Input::A3, Input::A1];
    let mut channels = inputs.map(|input| chip.channel(input, "a", 1_000_000));
    let waits = [0, 1, 2].map(|at: usize| channels[at].start(Tick(0)));
    assert_eq!(waits, [1, 2, 3].map(|turn| turn * ADS1115_CONVERT_US));
    assert_eq!(channels[0].read(), Ok(125));
    assert_eq!(channels[2].read(), Err(Quality::Stale), "A3 comes first");
    assert_eq!(channels[1].read(), Ok(250));
    assert_eq!(channels[2].read(), Ok(375), "its turn is not lost");
    done(chip.release());
}

#[test]
fn a_conversion_that_nobody_fetches_blocks_the_chip_for_a_bounded_time() {
    let longest = u64::from(ADS1115_CONVERT_US) * 4 + SHARE_US;
    for (name, at, wait_us, begins) in [
        ("limit", longest, 2 * ADS1115_CONVERT_US, vec![]),
        (
            "limit + 1",
            longest + 1,
            ADS1115_CONVERT_US,
            begun(Input::A2),
        ),
    ] {
        let chip = chip(&[configured(), begun(Input::A0), begins]);
        chip.channel(Input::A0, "a", 1).start(Tick(0));
        let wait = chip.channel(Input::A2, "b", 1).start(Tick(at));
        assert_eq!(wait, wait_us, "{name}");
        done(chip.release());
    }
}
