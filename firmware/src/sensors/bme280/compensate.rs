//! The BME280's integer formulas (data sheet BST-BME280-DS002, section 4.2.3), with
//! room for every intermediate value, so that bad calibration or data give something
//! out of range and not a wrapped number that looks right. Pure.

use forebay_wire::message::Quality;

use crate::sensors::chip::Value;
use crate::sensors::tries::within;

/// What the chip is specified for (data sheet, table 1 to 3): 0.01 degC, 0.1 Pa, 0.01 %.
pub(super) const TEMPERATURE_RANGE: (i32, i32) = (-4_000, 8_500);
pub(super) const PRESSURE_RANGE: (i32, i32) = (300_000, 1_100_000);
pub(super) const HUMIDITY_RANGE: (i32, i32) = (0, 10_000);

/// So far past 0 or 100 % a healthy chip may be, 0.01 %; that much is cut off.
const HUMIDITY_BEYOND: i32 = 500;

pub(super) const FIRST_BYTES: usize = 26;
pub(super) const SECOND_BYTES: usize = 7;

/// What a chip gives where a quantity was not measured (data sheet, section 5.4.7).
const SKIPPED_20: i64 = 0x8_0000;
const SKIPPED_16: i64 = 0x8000;

/// The numbers of the converter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Raw {
    pressure: i64,
    temperature: i64,
    humidity: i64,
}

impl Raw {
    /// From registers 0xF7 to 0xFE.
    pub(super) fn new([p0, p1, p2, t0, t1, t2, h0, h1]: [u8; 8]) -> Self {
        let twenty = |a, b, c| i64::from(u32::from_be_bytes([0, a, b, c]) >> 4);
        Raw {
            pressure: twenty(p0, p1, p2),
            temperature: twenty(t0, t1, t2),
            humidity: i64::from(u16::from_be_bytes([h0, h1])),
        }
    }
}

/// A chip's own constants, `dig_T1` to `dig_H6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Calibration {
    t1: u16,
    t: [i16; 2],
    p1: u16,
    p: [i16; 8],
    h1: u8,
    h2: i16,
    h3: u8,
    h4: i16,
    h5: i16,
    h6: i8,
}

impl Calibration {
    /// From registers 0x88 to 0xA1 and 0xE1 to 0xE7; `None` when they are empty.
    pub(super) fn new(first: &[u8; FIRST_BYTES], second: &[u8; SECOND_BYTES]) -> Option<Self> {
        let word = |at: usize| i16::from_le_bytes([first[2 * at], first[2 * at + 1]]);
        let [h2_low, h2_high, h3, h4_high, shared, h5_high, h6] = *second;
        let twelve = |high: u8, low: u8| i16::from(high.cast_signed()) << 4 | i16::from(low);
        let calibration = Calibration {
            t1: word(0).cast_unsigned(),
            t: [word(1), word(2)],
            p1: word(3).cast_unsigned(),
            p: [4, 5, 6, 7, 8, 9, 10, 11].map(word),
            h1: first[25],
            h2: i16::from_le_bytes([h2_low, h2_high]),
            h3,
            h4: twelve(h4_high, shared & 0x0F),
            h5: twelve(h5_high, shared >> 4),
            h6: h6.cast_signed(),
        };
        let empty = |word: u16| word == 0 || word == u16::MAX;
        (!empty(calibration.t1) && !empty(calibration.p1)).then_some(calibration)
    }

    /// Temperature, pressure, humidity. The others need the temperature.
    pub(super) fn compensate(&self, raw: &Raw) -> Result<[Value; 3], Quality> {
        if raw.temperature == SKIPPED_20 {
            return Err(Quality::Implausible);
        }
        let fine = self.fine(raw.temperature);
        let temperature = within(narrow((fine * 5 + 128) >> 8), TEMPERATURE_RANGE)?;
        let pressure = match self.pressure(raw.pressure, fine) {
            Some(pressure) if raw.pressure != SKIPPED_20 => within(pressure, PRESSURE_RANGE),
            Some(_) | None => Err(Quality::Implausible),
        };
        let humidity = if raw.humidity == SKIPPED_16 {
            Err(Quality::Implausible)
        } else {
            self.humidity(raw.humidity, fine)
        };
        Ok([Ok(temperature), pressure, humidity])
    }

    /// The temperature as the other formulas want it, 1/5120 degC.
    fn fine(&self, raw: i64) -> i64 {
        let t1 = i64::from(self.t1);
        let [t2, t3] = self.t.map(i64::from);
        let first = (((raw >> 3) - (t1 << 1)) * t2) >> 11;
        let off = (raw >> 4) - t1;
        first + ((((off * off) >> 12) * t3) >> 14)
    }

    /// 0.1 Pa. `fine` is within the chip's range, so that all products but those that
    /// are checked stay below 2^63.
    fn pressure(&self, raw: i64, fine: i64) -> Option<i32> {
        let [p2, p3, p4, p5, p6, p7, p8, p9] = self.p.map(i64::from);
        let off = fine - 128_000;
        let offset = off * off * p6 + ((off * p5) << 17) + (p4 << 35);
        let slope = ((off * off * p3) >> 8) + ((off * p2) << 12);
        let slope = ((1_i64 << 47) + slope).checked_mul(i64::from(self.p1))? >> 33;
        let above = (((1_048_576 - raw) << 31) - offset).checked_mul(3_125)?;
        let pressure = above.checked_div(slope)?;
        let high = pressure >> 13;
        let square = high.checked_mul(high)?.checked_mul(p9)? >> 25;
        let linear = pressure.checked_mul(p8)? >> 19;
        // Pa / 256.
        let pressure = ((pressure + square + linear) >> 8) + (p7 << 4);
        Some(narrow(pressure.checked_mul(10)? >> 8))
    }

    /// 0.01 %.
    fn humidity(&self, raw: i64, fine: i64) -> Value {
        let [h2, h4, h5] = [self.h2, self.h4, self.h5].map(i64::from);
        let (h1, h3, h6) = (i64::from(self.h1), i64::from(self.h3), i64::from(self.h6));
        let off = fine - 76_800;
        let zero = ((raw << 14) - (h4 << 20) - h5 * off + 16_384) >> 15;
        let by_heat = (((off * h6) >> 10) * (((off * h3) >> 11) + 32_768)) >> 10;
        let linear = zero * (((by_heat + 2_097_152) * h2 + 8_192) >> 14);
        let root = linear >> 15;
        let value = linear - ((((root * root) >> 7) * h1) >> 4);
        // % * 2^22.
        let percent = narrow((value * 100) >> 22);
        let (low, high) = HUMIDITY_RANGE;
        let near = within(percent, (low - HUMIDITY_BEYOND, high + HUMIDITY_BEYOND))?;
        Ok(near.clamp(low, high))
    }
}

/// What does not fit is out of every range all the same.
fn narrow(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
