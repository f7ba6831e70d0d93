//! SHT40, SHT41, SHT43 and SHT45: temperature and humidity, high repeatability, with
//! the CRC of both words checked.
//!
//! By hand: the `sht4x` crate (0.2.0) waits the 9 ms of a measurement inside its one
//! call, so that every other channel would wait too; here the command goes out in
//! [`Chip::begin`] and the answer is fetched when it is there. Integers only.
//!
//! Bound: one transaction to begin, one to collect, [`BUS_TRIES_MAX`] tries each. A
//! wrong CRC is not tried again: the chip gives each result away once.
//!
//! [`BUS_TRIES_MAX`]: crate::limits::BUS_TRIES_MAX

use embedded_hal::i2c::I2c;
use forebay_wire::message::Quality;

use crate::sensors::chip::{Chip, Kind, Value};
use crate::sensors::guard::GuardedI2c;
use crate::sensors::limits::SHT4X_MEASURE_US;
use crate::sensors::sensirion::{celsius, word};
use crate::sensors::tries::{bus, tries, within};

/// Data sheet, section 4.5: measure T and RH, high precision.
const MEASURE: u8 = 0xFD;

/// What the chip is specified for, thousandths of a degree.
const TEMPERATURE_RANGE: (i32, i32) = (-40_000, 125_000);
/// Hundredths of a percent.
const HUMIDITY_RANGE: (i32, i32) = (0, 10_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sht4xQuantity {
    /// Thousandths of a degree Celsius.
    Temperature,
    /// Hundredths of a percent of relative humidity.
    Humidity,
}

impl From<Sht4xQuantity> for usize {
    fn from(quantity: Sht4xQuantity) -> usize {
        quantity as usize
    }
}

/// See the module.
#[derive(Debug)]
pub struct Sht4x<I> {
    i2c: GuardedI2c<I>,
    address: u8,
}

impl<I: I2c> Sht4x<I> {
    /// The chip at the 7-bit `address` (0x44 to 0x46).
    pub fn new(i2c: I, address: u8) -> Self {
        Sht4x {
            i2c: GuardedI2c::new(i2c),
            address,
        }
    }

    /// Gives the bus back.
    pub fn release(self) -> I {
        self.i2c.release()
    }
}

impl<I: I2c> Chip<2> for Sht4x<I> {
    type Quantity = Sht4xQuantity;

    fn kind(&self, quantity: Sht4xQuantity) -> Kind {
        match quantity {
            Sht4xQuantity::Temperature => Kind {
                unit: "degC",
                scale: 3,
                range: TEMPERATURE_RANGE,
            },
            Sht4xQuantity::Humidity => Kind {
                unit: "%",
                scale: 2,
                range: HUMIDITY_RANGE,
            },
        }
    }

    fn begin(&mut self) -> Result<u32, Quality> {
        tries(|| self.i2c.write(self.address, &[MEASURE]).map_err(bus))?;
        Ok(SHT4X_MEASURE_US)
    }

    fn collect(&mut self) -> Result<[Value; 2], Quality> {
        // It refuses its address while it still measures.
        let bytes = tries(|| {
            let mut bytes = [0; 6];
            self.i2c.read(self.address, &mut bytes).map_err(bus)?;
            Ok(bytes)
        })?;
        let [t0, t1, t2, h0, h1, h2] = bytes;
        let temperature = celsius(word([t0, t1, t2])?);
        let humidity = percent(word([h0, h1, h2])?);
        let plausible = within(temperature, TEMPERATURE_RANGE)?;
        Ok([Ok(plausible), Ok(humidity)])
    }
}

/// Hundredths: -6 + 125 raw / 65535. What is a little below 0 or above 100 % is noise
/// and to be cut off, the data sheet says there.
fn percent(raw: u16) -> i32 {
    let (low, high) = HUMIDITY_RANGE;
    (i32::from(raw) * 12_500 / 65_535 - 600).clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensor::Sensor;
    use crate::sensors::chip::Shared;
    use crate::sensors::script::{ack, answer, done, nack_read, nack_write};
    use embedded_hal_mock::eh1::i2c::{Mock, Transaction};
    use forebay_wire::ids::Tick;
    use std::vec::Vec;

    const ADDRESS: u8 = 0x44;

    /// One measurement by both channels, at the right times.
    fn measure(script: &[Vec<Transaction>]) -> [Value; 2] {
        let shared = Shared::new(Sht4x::new(Mock::new(&script.concat()), ADDRESS));
        let mut temperature = shared.channel(Sht4xQuantity::Temperature, "temperature", 1_000_000);
        let mut humidity = shared.channel(Sht4xQuantity::Humidity, "humidity", 1_000_000);
        temperature.start(Tick(0));
        humidity.start(Tick(100));
        let values = [temperature.read(), humidity.read()];
        done(shared.release().release());
        values
    }

    fn command() -> Vec<Transaction> {
        ack(ADDRESS, &[MEASURE])
    }

    #[test]
    fn readings() {
        let bad = |quality| [Err(quality); 2];
        let good = [0x66, 0x66, 0x93, 0x80, 0x00, 0xA2];
        // 0x6666 is -45 + 175 * 26214 / 65535 = 25.0 degC, 0x8000 is 56.5 %.
        let want = [Ok(25_000), Ok(5_650)];
        for (name, script, want) in [
            ("good", std::vec![command(), answer(ADDRESS, &good)], want),
            (
                "a NACK of the command, then good",
                std::vec![
                    nack_write(ADDRESS, &[MEASURE]),
                    command(),
                    answer(ADDRESS, &good)
                ],
                want,
            ),
            (
                "no chip",
                std::vec![nack_write(ADDRESS, &[MEASURE]); 3],
                bad(Quality::BusError),
            ),
            (
                "still measuring, twice",
                std::vec![
                    command(),
                    nack_read(ADDRESS, 6),
                    nack_read(ADDRESS, 6),
                    answer(ADDRESS, &good)
                ],
                want,
            ),
            (
                "never ready",
                std::vec![
                    command(),
                    nack_read(ADDRESS, 6),
                    nack_read(ADDRESS, 6),
                    nack_read(ADDRESS, 6)
                ],
                bad(Quality::BusError),
            ),
            (
                "CRC of the temperature",
                std::vec![
                    command(),
                    answer(ADDRESS, &[0x66, 0x66, 0x92, 0x80, 0, 0xA2])
                ],
                bad(Quality::CrcError),
            ),
            (
                "CRC of the humidity",
                std::vec![
                    command(),
                    answer(ADDRESS, &[0x66, 0x66, 0x93, 0x80, 0, 0xA3])
                ],
                bad(Quality::CrcError),
            ),
            (
                "all ones",
                std::vec![
                    command(),
                    answer(ADDRESS, &[0xFF; 6]),
                    answer(ADDRESS, &[0xFF; 6]),
                    answer(ADDRESS, &[0xFF; 6])
                ],
                bad(Quality::BusError),
            ),
            (
                "SDA stuck low: all zeros, whose CRC is 0x81",
                std::vec![command(), answer(ADDRESS, &[0; 6])],
                bad(Quality::CrcError),
            ),
            (
                "zeros with their CRC are colder than the chip can be",
                std::vec![command(), answer(ADDRESS, &[0, 0, 0x81, 0, 0, 0x81])],
                bad(Quality::Implausible),
            ),
            (
                "ones with their CRC are hotter",
                std::vec![
                    command(),
                    answer(ADDRESS, &[0xFF, 0xFF, 0xAC, 0xFF, 0xFF, 0xAC])
                ],
                bad(Quality::Implausible),
            ),
        ] {
            assert_eq!(measure(&script), want, "{name}");
        }
    }

    #[test]
    fn the_formula_of_section_4_6_for_every_word() {
        for raw in 0..=u16::MAX {
            let exact = -600.0 + 12_500.0 * f64::from(raw) / 65_535.0;
            let cut = exact.clamp(0.0, 10_000.0);
            assert!((f64::from(percent(raw)) - cut).abs() <= 1.0, "{raw}");
        }
    }
}
