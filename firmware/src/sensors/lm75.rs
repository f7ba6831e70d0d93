//! The LM75 family (LM75, TMP105, TMP75, DS1775, ...) by the `lm75` driver: whole
//! and half degrees from -55 to 125 degC. Tries a failed transaction a few times at
//! once, then gives a quality code; the next period tries afresh.

use core::fmt;

use ::lm75::{Address, Lm75, ic};
use embedded_hal::i2c::I2c;
use forebay_wire::message::Quality;

use crate::sensor::{ChannelSpec, Sensor};
use crate::sensors::guard::GuardedI2c;
use crate::sensors::tries::{bus, tries, within};

/// What the datasheets promise, thousandths of a degree.
const RANGE: (i32, i32) = (-55_000, 125_000);

/// See the module.
pub struct Lm75Sensor<I> {
    driver: Lm75<GuardedI2c<I>, ic::Lm75>,
    spec: ChannelSpec,
}

impl<I> fmt::Debug for Lm75Sensor<I> {
    // The driver's marker type has no Debug.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lm75Sensor")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

impl<I: I2c> Lm75Sensor<I> {
    /// A sensor at the 7-bit `address` (0x48 to 0x4F) that is read each `period_us`
    /// and called `quantity`, such as `temperature`.
    pub fn new(i2c: I, address: u8, quantity: &'static str, period_us: u32) -> Self {
        let spec = ChannelSpec {
            quantity,
            unit: "degC",
            scale: 3,
            range: RANGE,
            period_us,
        };
        Lm75Sensor {
            driver: Lm75::new(GuardedI2c::new(i2c), Address::from(address)),
            spec,
        }
    }

    /// Gives the bus back.
    pub fn release(self) -> I {
        self.driver.destroy().release()
    }
}

impl<I: I2c> Sensor for Lm75Sensor<I> {
    fn spec(&self) -> ChannelSpec {
        self.spec
    }

    fn read(&mut self) -> Result<i32, Quality> {
        let driver = &mut self.driver;
        let celsius = tries(|| driver.read_temperature().map_err(bus))?;
        // Steps of 0.125 degC or more: exact in f32 and as thousandths.
        within((celsius * 1_000.0) as i32, RANGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use embedded_hal::i2c::{ErrorKind, NoAcknowledgeSource};
    use embedded_hal_mock::eh1::i2c::{Mock, Transaction};
    use std::vec;
    use std::vec::Vec;

    const ADDRESS: u8 = 0x48;

    /// What the driver does for one read.
    fn answer(bytes: [u8; 2]) -> Vec<Transaction> {
        vec![Transaction::write_read(ADDRESS, vec![0], bytes.to_vec())]
    }

    fn nack() -> Vec<Transaction> {
        let error = ErrorKind::NoAcknowledge(NoAcknowledgeSource::Address);
        vec![Transaction::write_read(ADDRESS, vec![0], vec![0, 0]).with_error(error)]
    }

    fn read(script: &[Vec<Transaction>]) -> Result<i32, Quality> {
        let mut sensor =
            Lm75Sensor::new(Mock::new(&script.concat()), ADDRESS, "temperature", 100_000);
        let result = sensor.read();
        // Every scripted transaction was used, so the tries are counted too.
        sensor.release().done();
        result
    }

    #[test]
    fn readings() {
        for (name, script, want) in [
            ("25 degC", vec![answer([0x19, 0x00])], Ok(25_000)),
            ("25.5 degC", vec![answer([0x19, 0x80])], Ok(25_500)),
            (
                "unused bits ignored",
                vec![answer([0x19, 0x7F])],
                Ok(25_000),
            ),
            ("-0.5 degC", vec![answer([0xFF, 0x80])], Ok(-500)),
            ("-55 degC", vec![answer([0xC9, 0x00])], Ok(-55_000)),
            (
                "-55.5 degC",
                vec![answer([0xC8, 0x80])],
                Err(Quality::Implausible),
            ),
            ("125 degC", vec![answer([0x7D, 0x00])], Ok(125_000)),
            (
                "125.5 degC",
                vec![answer([0x7D, 0x80])],
                Err(Quality::Implausible),
            ),
            (
                "-128 degC",
                vec![answer([0x80, 0x00])],
                Err(Quality::Implausible),
            ),
            ("all zero is 0 degC", vec![answer([0x00, 0x00])], Ok(0)),
            (
                "all ones",
                vec![answer([0xFF, 0xFF]); 3],
                Err(Quality::BusError),
            ),
            (
                "all ones, then an answer",
                vec![answer([0xFF, 0xFF]), answer([0x19, 0])],
                Ok(25_000),
            ),
            ("one NACK", vec![nack(), answer([0x19, 0])], Ok(25_000)),
            (
                "two NACKs",
                vec![nack(), nack(), answer([0x19, 0])],
                Ok(25_000),
            ),
            (
                "three NACKs",
                vec![nack(), nack(), nack()],
                Err(Quality::BusError),
            ),
        ] {
            assert_eq!(read(&script), want, "{name}");
        }
    }

    #[test]
    fn every_answer_is_plausible_or_a_code() {
        for raw in 0..=u16::MAX {
            let bytes = raw.to_be_bytes();
            let tries = if raw == u16::MAX { 3 } else { 1 };
            match read(&vec![answer(bytes); tries]) {
                Ok(value) => assert!((RANGE.0..=RANGE.1).contains(&value)),
                Err(quality) => assert_ne!(quality, Quality::Ok),
            }
        }
    }
}
