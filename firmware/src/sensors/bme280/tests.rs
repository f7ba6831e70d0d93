//! The chip's registers as a script; the data sheet's example; the float formulas of
//! its appendix beside ours.

use super::compensate::{HUMIDITY_RANGE, PRESSURE_RANGE, TEMPERATURE_RANGE};
use super::*;
use crate::sensor::Sensor;
use crate::sensors::chip::Shared;
use crate::sensors::script::{ack, done, nack_register, nack_write, register};
use embedded_hal_mock::eh1::i2c::{Mock, Transaction};
use forebay_wire::ids::Tick;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const ADDRESS: u8 = 0x76;
const SETTINGS: [u8; 6] = [0xF2, 0x01, 0xF5, 0x00, 0xF4, 0x25];

/// BMP280 data sheet (BST-BMP280-DS001), section 3.12: its T and P are the BME280's.
const EXAMPLE_FIRST: [i32; 12] = [
    27_504, 26_435, -1_000, 36_477, -10_685, 3_024, 2_855, 140, -7, 15_500, -14_600, 6_000,
];
/// H1 = 75, H2 = 370, H3 = 0, H4 = 313, H5 = 50, H6 = 30: those of a real chip.
const EXAMPLE_H1: u8 = 75;
const EXAMPLE_SECOND: [u8; 7] = [0x72, 0x01, 0x00, 0x13, 0x29, 0x03, 0x1E];
/// UP = 415,148, UT = 519,888; the humidity is ours.
const EXAMPLE_DATA: [u8; 8] = [0x65, 0x5A, 0xC0, 0x7E, 0xED, 0x00, 0x6B, 0x00];

fn example_first() -> [u8; FIRST_BYTES] {
    let mut bytes = [0; FIRST_BYTES];
    for (place, word) in bytes.chunks_exact_mut(2).zip(EXAMPLE_FIRST) {
        place.copy_from_slice(&(word as u16).to_le_bytes());
    }
    bytes[25] = EXAMPLE_H1;
    bytes
}

fn example() -> Calibration {
    Calibration::new(&example_first(), &EXAMPLE_SECOND).expect("a real one")
}

fn meeting(first: &[u8], second: &[u8]) -> Vec<Transaction> {
    let memory = [
        register(ADDRESS, CALIBRATION_FIRST, first),
        register(ADDRESS, CALIBRATION_SECOND, second),
    ]
    .concat();
    [who(BME280, 0), memory.clone(), memory].concat()
}

fn who(id: u8, status: u8) -> Vec<Transaction> {
    [
        register(ADDRESS, ID, &[id]),
        register(ADDRESS, STATUS, &[status]),
    ]
    .concat()
}

fn met() -> Vec<Transaction> {
    meeting(&example_first(), &EXAMPLE_SECOND)
}

fn begun() -> Vec<Transaction> {
    ack(ADDRESS, &SETTINGS)
}

fn burst(head: [u8; 5], data: [u8; 8]) -> Vec<Transaction> {
    register(ADDRESS, CTRL_HUM, &[&head[..], &data].concat())
}

fn measured(data: [u8; 8]) -> Vec<Transaction> {
    burst([0x01, 0x00, 0x24, 0x00, 0x00], data)
}

fn measure(script: &[Vec<Transaction>]) -> [Value; 3] {
    let shared = Shared::new(Bme280::new(Mock::new(&script.concat()), ADDRESS));
    let mut channels = [
        Bme280Quantity::Temperature,
        Bme280Quantity::Pressure,
        Bme280Quantity::Humidity,
    ]
    .map(|quantity| shared.channel(quantity, "a", 1_000_000));
    for channel in &mut channels {
        channel.start(Tick(0));
    }
    let values = [0, 1, 2].map(|at: usize| channels[at].read());
    done(shared.release().release());
    values
}

#[test]
fn the_data_sheets_example() {
    let values = measure(&[met(), begun(), measured(EXAMPLE_DATA)]);
    // 25.08 degC and 25,767,236 / 256 Pa there.
    assert_eq!(values[..2], [Ok(2_508), Ok(1_006_532)]);
    let Ok(humidity) = values[2] else {
        panic!("{values:?}")
    };
    assert!((3_000..7_000).contains(&humidity), "{humidity}");
}

#[test]
fn readings() {
    let bad = |quality| [Err(quality); 3];
    let good = measure(&[met(), begun(), measured(EXAMPLE_DATA)]);
    let zeros_13 = register(ADDRESS, CTRL_HUM, &[0; 13]);
    for (name, script, want) in [
        (
            "another chip, such as a BMP280",
            vec![who(0x58, 0), who(0x58, 0), who(0x58, 0)],
            bad(Quality::BusError),
        ),
        (
            "still copying its calibration, then good",
            vec![who(BME280, 1), met(), begun(), measured(EXAMPLE_DATA)],
            good,
        ),
        (
            "calibration all ones",
            vec![
                who(BME280, 0),
                register(ADDRESS, CALIBRATION_FIRST, &[0xFF; 26]),
                who(BME280, 0),
                register(ADDRESS, CALIBRATION_FIRST, &[0xFF; 26]),
                who(BME280, 0),
                register(ADDRESS, CALIBRATION_FIRST, &[0xFF; 26]),
            ],
            bad(Quality::BusError),
        ),
        (
            "calibration all zeros",
            vec![meeting(&[0; 26], &[0; 7]); 3],
            bad(Quality::BusError),
        ),
        (
            "calibration read differently the second time, then good",
            vec![
                who(BME280, 0),
                register(ADDRESS, CALIBRATION_FIRST, &[7; 26]),
                register(ADDRESS, CALIBRATION_SECOND, &EXAMPLE_SECOND),
                register(ADDRESS, CALIBRATION_FIRST, &example_first()),
                met(),
                begun(),
                measured(EXAMPLE_DATA),
            ],
            good,
        ),
        (
            "no chip",
            vec![nack_register(ADDRESS, ID, 1); 3],
            bad(Quality::BusError),
        ),
        (
            "two NACKs to each, then good",
            vec![
                nack_register(ADDRESS, ID, 1),
                nack_register(ADDRESS, ID, 1),
                met(),
                nack_write(ADDRESS, &SETTINGS),
                nack_write(ADDRESS, &SETTINGS),
                begun(),
                nack_register(ADDRESS, CTRL_HUM, 13),
                nack_register(ADDRESS, CTRL_HUM, 13),
                measured(EXAMPLE_DATA),
            ],
            good,
        ),
        (
            "gone while it measured",
            vec![
                met(),
                begun(),
                nack_register(ADDRESS, CTRL_HUM, 13),
                nack_register(ADDRESS, CTRL_HUM, 13),
                nack_register(ADDRESS, CTRL_HUM, 13),
            ],
            bad(Quality::BusError),
        ),
        (
            "all ones",
            vec![
                met(),
                begun(),
                register(ADDRESS, CTRL_HUM, &[0xFF; 13]),
                register(ADDRESS, CTRL_HUM, &[0xFF; 13]),
                register(ADDRESS, CTRL_HUM, &[0xFF; 13]),
            ],
            bad(Quality::BusError),
        ),
        (
            "all zeros: SDA stuck low, or a chip after a reset",
            vec![met(), begun(), zeros_13],
            bad(Quality::BusError),
        ),
        (
            "still measuring",
            vec![met(), begun(), burst([1, 8, 0x25, 0, 0], EXAMPLE_DATA)],
            bad(Quality::Stale),
        ),
        (
            "has not begun",
            vec![met(), begun(), burst([1, 0, 0x25, 0, 0], EXAMPLE_DATA)],
            bad(Quality::Stale),
        ),
        (
            "the numbers of no measurement",
            vec![met(), begun(), measured([0x80, 0, 0, 0x80, 0, 0, 0x80, 0])],
            bad(Quality::Implausible),
        ),
        (
            "no pressure",
            vec![
                met(),
                begun(),
                measured([0x80, 0, 0, 0x7E, 0xED, 0, 0x6B, 0]),
            ],
            [good[0], Err(Quality::Implausible), good[2]],
        ),
        (
            "a humidity far beyond 100 % is not cut to it",
            vec![
                met(),
                begun(),
                measured([0x65, 0x5A, 0xC0, 0x7E, 0xED, 0, 0xFF, 0xFF]),
            ],
            [good[0], good[1], Err(Quality::Implausible)],
        ),
    ] {
        assert_eq!(measure(&script), want, "{name}");
    }
}

#[test]
fn a_chip_that_had_a_reset_is_met_again() {
    let script = [
        met(),
        begun(),
        burst([0; 5], [0x80, 0, 0, 0x80, 0, 0, 0x80, 0]),
        met(),
        begun(),
        measured(EXAMPLE_DATA),
    ];
    let mut chip = Bme280::new(Mock::new(&script.concat()), ADDRESS);
    assert_eq!(chip.begin(), Ok(BME280_MEASURE_US));
    assert_eq!(chip.collect(), Err(Quality::BusError));
    assert_eq!(chip.begin(), Ok(BME280_MEASURE_US));
    assert!(chip.collect().is_ok());
    done(chip.release());
}

/// The double precision formulas of the data sheet's appendix 8.1.
fn by_floats(data: [u8; 8]) -> [f64; 3] {
    let word = |at: usize| f64::from(EXAMPLE_FIRST[at]);
    let raw = |a: u8, b: u8, c: u8| f64::from(u32::from_be_bytes([0, a, b, c]) >> 4);
    let (adc_p, adc_t) = (
        raw(data[0], data[1], data[2]),
        raw(data[3], data[4], data[5]),
    );
    let adc_h = f64::from(u16::from_be_bytes([data[6], data[7]]));
    let (t1, t2, t3) = (word(0), word(1), word(2));
    let off = adc_t / 131_072.0 - t1 / 8_192.0;
    let fine = (adc_t / 16_384.0 - t1 / 1_024.0) * t2 + off * off * t3;

    let v1 = fine / 2.0 - 64_000.0;
    let v2 = v1 * v1 * word(8) / 32_768.0 + v1 * word(7) * 2.0;
    let v2 = v2 / 4.0 + word(6) * 65_536.0;
    let v1 = (word(5) * v1 * v1 / 524_288.0 + word(4) * v1) / 524_288.0;
    let v1 = (1.0 + v1 / 32_768.0) * word(3);
    let p = (1_048_576.0 - adc_p - v2 / 4_096.0) * 6_250.0 / v1;
    let v1 = word(11) * p * p / 2_147_483_648.0;
    let p = p + (v1 + p * word(10) / 32_768.0 + word(9)) / 16.0;

    let (h1, h2, h3, h4, h5, h6) = (75.0, 370.0, 0.0, 313.0, 50.0, 30.0);
    let v = fine - 76_800.0;
    let v = (adc_h - (h4 * 64.0 + h5 / 16_384.0 * v))
        * (h2 / 65_536.0 * (1.0 + h6 / 67_108_864.0 * v * (1.0 + h3 / 67_108_864.0 * v)));
    let h = v * (1.0 - h1 * v / 524_288.0);
    [fine / 5_120.0, p, h]
}

proptest! {
    #[test]
    fn as_the_float_formulas(t in 400_000_u32..600_000, p in 250_000_u32..600_000, h: u16) {
        let data = {
            let [_, t0, t1, t2] = (t << 4).to_be_bytes();
            let [_, p0, p1, p2] = (p << 4).to_be_bytes();
            let [h0, h1] = h.to_be_bytes();
            [p0, p1, p2, t0, t1, t2, h0, h1]
        };
        let Ok(values) = example().compensate(&Raw::new(data)) else {
            return Ok(());
        };
        let exact = by_floats(data);
        // 0.01 degC, 1 Pa, 0.1 %: what the integer formulas lose.
        for (value, (exact, (unit, allowed))) in
            values.iter().zip(exact.into_iter().zip([(100.0, 0.02), (10.0, 1.0), (100.0, 0.1)]))
        {
            if let Ok(value) = value {
                let value = f64::from(*value) / unit;
                let cut = if unit == 100.0 && allowed == 0.1 { exact.clamp(0.0, 100.0) } else { exact };
                prop_assert!((value - cut).abs() <= allowed, "{value} {exact}");
            }
        }
    }

    #[test]
    fn no_bytes_panic_or_leave_the_range(
        first: [u8; FIRST_BYTES], second: [u8; SECOND_BYTES], data: [u8; 8],
    ) {
        if let Some(Ok(values)) =
            Calibration::new(&first, &second).map(|known| known.compensate(&Raw::new(data)))
        {
            let ranges = [TEMPERATURE_RANGE, PRESSURE_RANGE, HUMIDITY_RANGE];
            for (value, (low, high)) in values.into_iter().zip(ranges) {
                prop_assert!(value.is_err() || (low..=high).contains(&value.expect("looked")));
            }
        }
    }
}
