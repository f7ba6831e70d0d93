//! BME280: temperature, pressure and humidity, one forced measurement each time (the
//! data sheet's "weather monitoring": all three once, no filter, asleep between).
//!
//! By hand: the `bme280` crate (0.5.1) waits 40 ms in its call and cuts what is out of
//! range down to its limit, so that a broken chip reads 100 % for ever; `bme280-rs`
//! (0.4.1) waits for ever on a bus of ones (its chip seems to be calibrating) and has
//! no way to tell old data; both give floats. Here all is in integers, and:
//!
//! Always holds: a value comes of the measurement that was asked for, by a chip whose
//! settings are those written. What cannot be is implausible, never cut.
//! Bound: one transaction to begin, one to collect, six when a chip is new;
//! [`BUS_TRIES_MAX`] tries each.
//!
//! [`BUS_TRIES_MAX`]: crate::limits::BUS_TRIES_MAX

mod compensate;

use embedded_hal::i2c::I2c;
use forebay_wire::message::Quality;

use crate::sensors::chip::{Chip, Kind, Value};
use crate::sensors::guard::GuardedI2c;
use crate::sensors::limits::BME280_MEASURE_US;
use crate::sensors::tries::{bus, tries};
use compensate::{Calibration, FIRST_BYTES, Raw, SECOND_BYTES};

// Data sheet BST-BME280-DS002, section 5.3 (memory map).
const CALIBRATION_FIRST: u8 = 0x88;
const CALIBRATION_SECOND: u8 = 0xE1;
const ID: u8 = 0xD0;
const BME280: u8 = 0x60;
const CTRL_HUM: u8 = 0xF2;
const CTRL_MEAS: u8 = 0xF4;
const CONFIG: u8 = 0xF5;
/// Once each; no filter.
const HUMIDITY_ONCE: u8 = 0b001;
const OTHERS_ONCE: u8 = 0b001 << 5 | 0b001 << 2;
const FORCED: u8 = 0b01;
/// STATUS: a measurement runs; calibration is being copied from memory.
const MEASURING: u8 = 1 << 3;
const COPYING: u8 = 1;
const STATUS: u8 = 0xF3;

/// From CTRL_HUM to the last byte of data, and where in it.
const BURST_BYTES: usize = 13;
const DATA_AT: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bme280Quantity {
    /// Hundredths of a degree Celsius.
    Temperature,
    /// Tenths of a pascal.
    Pressure,
    /// Hundredths of a percent of relative humidity.
    Humidity,
}

impl From<Bme280Quantity> for usize {
    fn from(quantity: Bme280Quantity) -> usize {
        quantity as usize
    }
}

/// See the module.
#[derive(Debug)]
pub struct Bme280<I> {
    i2c: GuardedI2c<I>,
    address: u8,
    /// `None` until read, and again when the chip does not seem to be the same.
    calibration: Option<Calibration>,
}

impl<I: I2c> Bme280<I> {
    /// The chip at the 7-bit `address` (0x76 or 0x77).
    pub fn new(i2c: I, address: u8) -> Self {
        Bme280 {
            i2c: GuardedI2c::new(i2c),
            address,
            calibration: None,
        }
    }

    /// Gives the bus back.
    pub fn release(self) -> I {
        self.i2c.release()
    }

    fn read<const BYTES: usize>(&mut self, register: u8) -> Result<[u8; BYTES], Quality> {
        let mut bytes = [0; BYTES];
        self.i2c
            .write_read(self.address, &[register], &mut bytes)
            .map_err(bus)?;
        Ok(bytes)
    }

    /// Reads the calibration, twice: it has no check sum and is used for long.
    fn meet(&mut self) -> Result<Calibration, Quality> {
        let [id] = self.read(ID)?;
        let [status] = self.read(STATUS)?;
        if id != BME280 || status & COPYING != 0 {
            return Err(Quality::BusError);
        }
        let first: [u8; FIRST_BYTES] = self.read(CALIBRATION_FIRST)?;
        let second: [u8; SECOND_BYTES] = self.read(CALIBRATION_SECOND)?;
        if first != self.read(CALIBRATION_FIRST)? || second != self.read(CALIBRATION_SECOND)? {
            return Err(Quality::BusError);
        }
        Calibration::new(&first, &second).ok_or(Quality::BusError)
    }
}

impl<I: I2c> Chip<3> for Bme280<I> {
    type Quantity = Bme280Quantity;

    fn kind(&self, quantity: Bme280Quantity) -> Kind {
        let (unit, scale, range) = match quantity {
            Bme280Quantity::Temperature => ("degC", 2, compensate::TEMPERATURE_RANGE),
            Bme280Quantity::Pressure => ("Pa", 1, compensate::PRESSURE_RANGE),
            Bme280Quantity::Humidity => ("%", 2, compensate::HUMIDITY_RANGE),
        };
        Kind { unit, scale, range }
    }

    fn begin(&mut self) -> Result<u32, Quality> {
        if self.calibration.is_none() {
            self.calibration = Some(tries(|| self.meet())?);
        }
        // The humidity's setting is taken over by a write to CTRL_MEAS, so that is last.
        let settings = [
            CTRL_HUM,
            HUMIDITY_ONCE,
            CONFIG,
            0,
            CTRL_MEAS,
            OTHERS_ONCE | FORCED,
        ];
        tries(|| self.i2c.write(self.address, &settings).map_err(bus))?;
        Ok(BME280_MEASURE_US)
    }

    fn collect(&mut self) -> Result<[Value; 3], Quality> {
        let bytes: [u8; BURST_BYTES] = tries(|| self.read(CTRL_HUM))?;
        let [hum, status, meas, config, _, data @ ..] = bytes;
        debug_assert_eq!(data.len(), BURST_BYTES - DATA_AT);
        // Asleep again means that it has measured.
        if (hum, meas, config) == (HUMIDITY_ONCE, OTHERS_ONCE, 0) && status & MEASURING == 0 {
            let raw = Raw::new(data);
            return match &self.calibration {
                Some(calibration) => calibration.compensate(&raw),
                None => Err(Quality::Stale),
            };
        }
        if (hum, meas & !FORCED) == (HUMIDITY_ONCE, OTHERS_ONCE) {
            return Err(Quality::Stale);
        }
        // It had a reset since, or is another one, or the bus lies.
        self.calibration = None;
        Err(Quality::BusError)
    }
}

#[cfg(test)]
mod tests;
