//! TMP117 by the register layer of the `tmp117` crate: one conversion for each
//! reading, an average of eight where the period leaves room for it.
//!
//! The crate's own calls wait inside for up to three conversions and give floats; its
//! registers need neither.
//!
//! Always holds: a value comes of the conversion that was asked for.
//! Bound: two transactions to begin, two to read, [`BUS_TRIES_MAX`] tries each.
//!
//! [`BUS_TRIES_MAX`]: crate::limits::BUS_TRIES_MAX

use core::fmt;

use ::tmp117::register::{Average, Configuration, ConversionMode, Temperature};
use ::tmp117::tmp117_ll::Tmp117LL;
use device_register::{EditRegister, ReadRegister};
use embedded_hal::i2c::I2c;
use forebay_wire::ids::Tick;
use forebay_wire::message::Quality;

use crate::sensor::{ChannelSpec, Sensor};
use crate::sensors::guard::{GuardError, GuardedI2c};
use crate::sensors::limits::{TMP117_AVERAGE_PERIOD_US, TMP117_AVERAGE_US, TMP117_MEASURE_US};
use crate::sensors::tries::{bus, tries, within};

/// What the chip is specified for, 0.1 thousandths of a degree.
const RANGE: (i32, i32) = (-550_000, 1_500_000);
/// The result register may hold only ones: -0.0078 degC.
const RESULT: u8 = 0x00;
/// In the result register before the first conversion (data sheet, section 7.6.2).
const NOTHING_YET: i16 = i16::MIN;

/// See the module.
pub struct Tmp117Sensor<I: I2c> {
    registers: Tmp117LL<GuardedI2c<I>, GuardError<I::Error>>,
    /// What the last [`Sensor::start`] failed with.
    failed: Option<Quality>,
    /// The one before: the period may have been changed since it was built.
    started: Option<Tick>,
    spec: ChannelSpec,
}

impl<I: I2c> fmt::Debug for Tmp117Sensor<I> {
    // The crate's types have no Debug.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tmp117Sensor")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

impl<I: I2c> Tmp117Sensor<I> {
    /// A sensor at the 7-bit `address` (0x48 to 0x4B) that is read each `period_us`
    /// and called `quantity`, such as `temperature`.
    pub fn new(i2c: I, address: u8, quantity: &'static str, period_us: u32) -> Self {
        let spec = ChannelSpec {
            quantity,
            unit: "degC",
            scale: 4,
            range: RANGE,
            period_us,
        };
        Tmp117Sensor {
            registers: Tmp117LL::new(GuardedI2c::except(i2c, RESULT), address),
            failed: None,
            started: None,
            spec,
        }
    }

    fn average(&self, now: Tick) -> (Average, u32) {
        let period_us = match self.started {
            Some(before) => now.0.saturating_sub(before.0),
            None => u64::from(self.spec.period_us),
        };
        if period_us < u64::from(TMP117_AVERAGE_PERIOD_US) {
            (Average::NoAverage, TMP117_MEASURE_US)
        } else {
            (Average::Avg8, TMP117_AVERAGE_US)
        }
    }

    fn look(&mut self) -> Result<i32, Quality> {
        // Before the result: reading either clears the flag.
        let configuration: Configuration = tries(|| self.registers.read().map_err(bus))?;
        match configuration.mode() {
            ConversionMode::Shutdown if configuration.data_ready() => {}
            ConversionMode::Shutdown | ConversionMode::OneShot => return Err(Quality::Stale),
            // As after power-on, or with SDA stuck low; the next start sets it up.
            ConversionMode::Continuous => return Err(Quality::BusError),
        }
        let result: Temperature = tries(|| self.registers.read().map_err(bus))?;
        let raw = u16::from(result).cast_signed();
        if raw == NOTHING_YET {
            return Err(Quality::WarmingUp);
        }
        within(ten_thousandths(raw), RANGE)
    }
}

/// One digit is 7.8125 thousandths.
fn ten_thousandths(raw: i16) -> i32 {
    i32::from(raw) * 625 / 8
}

impl<I: I2c> Sensor for Tmp117Sensor<I> {
    fn spec(&self) -> ChannelSpec {
        self.spec
    }

    fn start(&mut self, now: Tick) -> u32 {
        let (average, wait_us) = self.average(now);
        self.started = Some(now);
        let begun = tries(|| {
            let edit = |configuration: &mut Configuration| {
                configuration.set_mode(ConversionMode::OneShot);
                configuration.set_average(average);
            };
            self.registers.edit(edit).map_err(bus)
        });
        self.failed = begun.err();
        if self.failed.is_some() { 0 } else { wait_us }
    }

    fn read(&mut self) -> Result<i32, Quality> {
        match self.failed.take() {
            Some(quality) => Err(quality),
            None => self.look(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensors::script::{ack, done, nack_register, register};
    use embedded_hal_mock::eh1::i2c::{Mock, Transaction};
    use std::vec;
    use std::vec::Vec;

    const ADDRESS: u8 = 0x48;
    /// As after power-on: continuous, average of eight, 1 s (data sheet, 0x0220).
    const POWER_ON: [u8; 2] = [0x02, 0x20];
    /// Done: data ready, shutdown.
    const DONE: [u8; 2] = [0x26, 0x20];

    fn begun(found: [u8; 2], written: [u8; 2]) -> Vec<Transaction> {
        [
            register(ADDRESS, 1, &found),
            ack(ADDRESS, &[1, written[0], written[1]]),
        ]
        .concat()
    }

    fn started() -> Vec<Transaction> {
        begun(POWER_ON, [0x0E, 0x20])
    }

    fn result(raw: u16) -> Vec<Transaction> {
        [
            register(ADDRESS, 1, &DONE),
            register(ADDRESS, 0, &raw.to_be_bytes()),
        ]
        .concat()
    }

    fn measure(period_us: u32, script: &[Vec<Transaction>]) -> (u32, Result<i32, Quality>) {
        let bus = Mock::new(&script.concat());
        let mut sensor = Tmp117Sensor::new(bus.clone(), ADDRESS, "temperature", period_us);
        let wait_us = sensor.start(Tick(0));
        let value = sensor.read();
        done(bus);
        (wait_us, value)
    }

    /// Data sheet SNOSD82, table 7-1 (16-bit temperature data format).
    #[test]
    fn the_data_sheets_table() {
        for (raw, want) in [
            (0x3200, Ok(1_000_000)),
            (0x0C80, Ok(250_000)),
            (0x0001, Ok(78)),
            (0x0000, Ok(0)),
            // All ones, with a bus that is known to be well from the read before.
            (0xFFFF, Ok(-78)),
            (0xF380, Ok(-250_000)),
            (0xE480, Ok(-550_000)),
            (0x4B00, Ok(1_500_000)),
            (0x4B01, Err(Quality::Implausible)),
            (0x7FFF, Err(Quality::Implausible)),
            (0x8001, Err(Quality::Implausible)),
            (0x8000, Err(Quality::WarmingUp)),
        ] {
            let got = measure(1_000_000, &[started(), result(raw)]);
            assert_eq!(got, (TMP117_AVERAGE_US, want), "{raw:04x}");
        }
    }

    #[test]
    fn an_average_only_where_the_period_has_room() {
        for (name, period_us, written, wait_us) in [
            ("limit - 1", 199_999, [0x0E, 0x00], TMP117_MEASURE_US),
            ("limit", 200_000, [0x0E, 0x20], TMP117_AVERAGE_US),
            ("limit + 1", 200_001, [0x0E, 0x20], TMP117_AVERAGE_US),
        ] {
            let got = measure(period_us, &[begun(POWER_ON, written), result(0x0C80)]);
            assert_eq!(got, (wait_us, Ok(250_000)), "{name}");
        }
    }

    #[test]
    fn no_average_once_it_is_read_faster_than_it_was_built_for() {
        let bus = Mock::new(&[started(), begun([0x06, 0x20], [0x0E, 0x00])].concat());
        let mut sensor = Tmp117Sensor::new(bus.clone(), ADDRESS, "temperature", 1_000_000);
        assert_eq!(sensor.start(Tick(0)), TMP117_AVERAGE_US);
        assert_eq!(sensor.start(Tick(199_999)), TMP117_MEASURE_US);
        done(bus);
    }

    #[test]
    fn failures() {
        let nack = || nack_register(ADDRESS, 1, 2);
        let config = |bytes: [u8; 2]| register(ADDRESS, 1, &bytes);
        let last = measure(1_000_000, &[started(), result(0x0C80)]).1;
        for (name, script, want) in [
            ("no chip", vec![nack(); 3], Err(Quality::BusError)),
            (
                "two NACKs to each, then good",
                vec![
                    nack(),
                    nack(),
                    started(),
                    nack(),
                    nack(),
                    config(DONE),
                    nack_register(ADDRESS, 0, 2),
                    nack_register(ADDRESS, 0, 2),
                    register(ADDRESS, 0, &[0x0C, 0x80]),
                ],
                last,
            ),
            (
                "gone while it converted",
                vec![started(), nack(), nack(), nack()],
                Err(Quality::BusError),
            ),
            (
                "all ones",
                vec![config([0xFF; 2]), config([0xFF; 2]), config([0xFF; 2])],
                Err(Quality::BusError),
            ),
            (
                "all ones later",
                vec![
                    started(),
                    config([0xFF; 2]),
                    config([0xFF; 2]),
                    config([0xFF; 2]),
                ],
                Err(Quality::BusError),
            ),
            (
                "SDA stuck low: all zeros",
                vec![begun([0, 0], [0x0C, 0x20]), config([0, 0])],
                Err(Quality::BusError),
            ),
            (
                "still converting",
                vec![started(), config([0x0E, 0x20])],
                Err(Quality::Stale),
            ),
            (
                "nothing new",
                vec![started(), config([0x06, 0x20])],
                Err(Quality::Stale),
            ),
            (
                "had a reset since",
                vec![started(), config(POWER_ON)],
                Err(Quality::BusError),
            ),
        ] {
            assert_eq!(measure(1_000_000, &script).1, want, "{name}");
        }
    }
}
