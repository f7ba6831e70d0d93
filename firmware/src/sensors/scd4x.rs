//! SCD40 and SCD41 by the `scd4x` crate: CO2, temperature and humidity, in the chip's
//! own rhythm of 5 s. Read it each 6 s or more slowly: the chip's clock is not ours,
//! and what it has not measured anew is stale.
//!
//! Always holds: the first [`SCD4X_WARMING_UP`] measurements after a start are not
//! passed on as numbers. A chip that says nothing new for long is started again, for
//! it may have been without power.
//! Bound: two commands per reading, each with the 1 ms that the chip takes to answer;
//! [`BUS_TRIES_MAX`] tries. A wrong CRC is not tried again: the chip gives each result
//! away once.
//!
//! [`BUS_TRIES_MAX`]: crate::limits::BUS_TRIES_MAX

use core::fmt;

use ::scd4x::{Error, Scd4x as Driver};
use embedded_hal::delay::DelayNs;
use embedded_hal::i2c::I2c;
use forebay_wire::message::Quality;

use crate::limits::BUS_TRIES_MAX;
use crate::sensors::chip::{Chip, Kind, Value};
use crate::sensors::guard::GuardedI2c;
use crate::sensors::limits::{SCD4X_SILENT_MAX, SCD4X_WARMING_UP};
use crate::sensors::sensirion::celsius;
use crate::sensors::tries::{tries, within};

/// What the chip gives (data sheet, tables 1 to 3): ppm; 0 is none.
const CO2_RANGE: (i32, i32) = (1, 40_000);
/// Thousandths of a degree.
const TEMPERATURE_RANGE: (i32, i32) = (-10_000, 60_000);
/// Hundredths of a percent.
const HUMIDITY_RANGE: (i32, i32) = (0, 10_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scd4xQuantity {
    /// ppm.
    Co2,
    /// Thousandths of a degree Celsius.
    Temperature,
    /// Hundredths of a percent of relative humidity.
    Humidity,
}

impl From<Scd4xQuantity> for usize {
    fn from(quantity: Scd4xQuantity) -> usize {
        quantity as usize
    }
}

/// Waits 1 ms at most. The crate waits out each command inside its call: 1 ms for
/// those that answer, but 500 ms to stop, which happens between our periods.
struct Brief<D>(D);

impl<D: DelayNs> DelayNs for Brief<D> {
    fn delay_ns(&mut self, ns: u32) {
        self.0.delay_ns(ns.min(1_000_000));
    }

    fn delay_us(&mut self, us: u32) {
        self.0.delay_us(us.min(1_000));
    }

    fn delay_ms(&mut self, ms: u32) {
        self.0.delay_ms(ms.min(1));
    }
}

/// See the module.
pub struct Scd4x<I, D> {
    driver: Driver<GuardedI2c<I>, Brief<D>>,
    started: bool,
    /// Measurements since the start, up to [`SCD4X_WARMING_UP`].
    seen: u8,
    /// Looks in a row that found nothing new.
    silent: u8,
}

impl<I, D> fmt::Debug for Scd4x<I, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scd4x")
            .field("started", &self.started)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

impl<I: I2c, D: DelayNs> Scd4x<I, D> {
    /// The chip at its only address, 0x62. `delay` waits 1 ms per command.
    pub fn new(i2c: I, delay: D) -> Self {
        Scd4x {
            driver: Driver::new(GuardedI2c::new(i2c), Brief(delay)),
            started: false,
            seen: 0,
            silent: 0,
        }
    }

    /// Gives the bus back.
    pub fn release(self) -> I {
        self.driver.destroy().release()
    }

    /// One step towards a chip that measures.
    fn start(&mut self) -> Result<(), Quality> {
        let driver = &mut self.driver;
        match driver.start_periodic_measurement() {
            Ok(()) => {}
            // The driver thinks that it runs, the chip does not: stop it, start it in
            // the next period.
            Err(Error::NotAllowed) => {
                return tries(|| driver.stop_periodic_measurement().map_err(quality));
            }
            // A chip that measures since before our reset refuses, but answers.
            Err(_) => {
                tries(|| driver.data_ready_status().map_err(quality))?;
            }
        }
        (self.started, self.seen, self.silent) = (true, 0, 0);
        Ok(())
    }

    fn nothing_new(&mut self) -> Quality {
        self.silent += 1;
        if self.silent == SCD4X_SILENT_MAX {
            self.started = false;
        }
        if self.seen == 0 {
            Quality::WarmingUp
        } else {
            Quality::Stale
        }
    }

    fn measurement(&mut self) -> Result<[Value; 3], Quality> {
        let mut tried = 0;
        let raw = loop {
            tried += 1;
            match self.driver.sensor_output() {
                Ok(raw) => break raw,
                Err(Error::I2c(_)) if tried < BUS_TRIES_MAX => {}
                Err(error) => return Err(quality(error)),
            }
        };
        let humidity = i32::from(raw.humidity) * 10_000 / 65_535;
        Ok([
            within(i32::from(raw.co2), CO2_RANGE),
            within(celsius(raw.temperature), TEMPERATURE_RANGE),
            within(humidity, HUMIDITY_RANGE),
        ])
    }
}

fn quality<E>(error: Error<E>) -> Quality {
    match error {
        Error::Crc => Quality::CrcError,
        Error::I2c(_) | Error::SelfTest | Error::NotAllowed | Error::Internal => Quality::BusError,
    }
}

impl<I: I2c, D: DelayNs> Chip<3> for Scd4x<I, D> {
    type Quantity = Scd4xQuantity;

    fn kind(&self, quantity: Scd4xQuantity) -> Kind {
        let (unit, scale, range) = match quantity {
            Scd4xQuantity::Co2 => ("ppm", 0, CO2_RANGE),
            Scd4xQuantity::Temperature => ("degC", 3, TEMPERATURE_RANGE),
            Scd4xQuantity::Humidity => ("%", 2, HUMIDITY_RANGE),
        };
        Kind { unit, scale, range }
    }

    fn collect(&mut self) -> Result<[Value; 3], Quality> {
        if !self.started {
            self.start()?;
            return Err(Quality::WarmingUp);
        }
        let driver = &mut self.driver;
        match tries(|| driver.data_ready_status().map_err(quality)) {
            Ok(true) => self.silent = 0,
            Ok(false) => return Err(self.nothing_new()),
            Err(quality) => {
                self.started = false;
                return Err(quality);
            }
        }
        let values = self.measurement()?;
        if self.seen < SCD4X_WARMING_UP {
            self.seen += 1;
            return Err(Quality::WarmingUp);
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests;
