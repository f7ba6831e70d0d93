//! LIS3DH: acceleration on three axes, high resolution (12 bits), from +-2 to +-16 g.
//!
//! By hand: the `lis3dh` crate (0.5.0) talks to the chip in its constructor and drops
//! the bus when there is no answer, so that a chip which is plugged in later, or was
//! without power for a moment, is never found again; and it scales in floats.
//!
//! Always holds: a reading was made with the settings asked for. They are read along
//! with the data; where they differ the chip had a reset, and is set up again.
//! Bound: one transaction per measurement, three to set up; [`BUS_TRIES_MAX`] tries.
//!
//! [`BUS_TRIES_MAX`]: crate::limits::BUS_TRIES_MAX

use embedded_hal::i2c::I2c;
use forebay_wire::message::Quality;

use crate::sensors::chip::{Chip, Kind, Value};
use crate::sensors::guard::GuardedI2c;
use crate::sensors::tries::{bus, tries};

// Data sheet, section 7 (register mapping) and 8.
const WHO_AM_I: u8 = 0x0F;
const LIS3DH: u8 = 0x33;
const CTRL_REG1: u8 = 0x20;
const CTRL_REG4: u8 = 0x23;
/// Set in a register's address: the next byte is of the next register.
const AUTO_INCREMENT: u8 = 0x80;
/// CTRL_REG1: all three axes.
const XYZ_ON: u8 = 0x07;
/// CTRL_REG4: no half of a value changes while the other is read; high resolution.
const BLOCK_UPDATE: u8 = 0x80;
const HIGH_RESOLUTION: u8 = 0x08;
/// STATUS_REG: new data of all axes.
const ZYXDA: u8 = 0x08;

/// From CTRL_REG1 to OUT_Z_H, and where in it.
const BURST_BYTES: usize = 14;
const STATUS_AT: usize = 7;
const OUT_AT: usize = 8;

/// Largest acceleration, g.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullScale {
    G2 = 0,
    G4 = 1,
    G8 = 2,
    G16 = 3,
}

impl FullScale {
    /// Thousandths of g per digit (data sheet, table 4, high resolution).
    fn digit(self) -> i32 {
        match self {
            FullScale::G2 => 1,
            FullScale::G4 => 2,
            FullScale::G8 => 4,
            FullScale::G16 => 12,
        }
    }

    /// From here on it is saturated: at the last digit, or past the full scale,
    /// which at 16 g comes first.
    fn limit(self) -> i32 {
        (2_048 << self as u8) - self.digit()
    }
}

/// How often the chip measures by itself (data sheet, table 31). Sampled faster than
/// this, readings are stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputRate {
    Hz10 = 2,
    Hz25 = 3,
    Hz50 = 4,
    Hz100 = 5,
    Hz200 = 6,
    Hz400 = 7,
}

/// Thousandths of g along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    X,
    Y,
    Z,
}

impl From<Axis> for usize {
    fn from(axis: Axis) -> usize {
        axis as usize
    }
}

/// See the module.
#[derive(Debug)]
pub struct Lis3dh<I> {
    i2c: GuardedI2c<I>,
    address: u8,
    scale: FullScale,
    rate: OutputRate,
}

impl<I: I2c> Lis3dh<I> {
    /// The chip at the 7-bit `address` (0x18 or 0x19).
    pub fn new(i2c: I, address: u8, scale: FullScale, rate: OutputRate) -> Self {
        Lis3dh {
            i2c: GuardedI2c::new(i2c),
            address,
            scale,
            rate,
        }
    }

    /// Gives the bus back.
    pub fn release(self) -> I {
        self.i2c.release()
    }

    fn ctrl1(&self) -> u8 {
        (self.rate as u8) << 4 | XYZ_ON
    }

    fn ctrl4(&self) -> u8 {
        BLOCK_UPDATE | (self.scale as u8) << 4 | HIGH_RESOLUTION
    }

    fn set_up(&mut self) -> Result<(), Quality> {
        let mut id = [0];
        self.i2c
            .write_read(self.address, &[WHO_AM_I], &mut id)
            .map_err(bus)?;
        if id != [LIS3DH] {
            return Err(Quality::BusError);
        }
        let (ctrl1, ctrl4) = (self.ctrl1(), self.ctrl4());
        self.i2c
            .write(self.address, &[CTRL_REG4, ctrl4])
            .map_err(bus)?;
        self.i2c
            .write(self.address, &[CTRL_REG1, ctrl1])
            .map_err(bus)
    }

    fn burst(&mut self) -> Result<[u8; BURST_BYTES], Quality> {
        let mut bytes = [0; BURST_BYTES];
        self.i2c
            .write_read(self.address, &[CTRL_REG1 | AUTO_INCREMENT], &mut bytes)
            .map_err(bus)?;
        Ok(bytes)
    }

    fn value(&self, low: u8, high: u8) -> Value {
        // Left-justified, 12 bits.
        let digits = i32::from(i16::from_le_bytes([low, high]) >> 4);
        let value = digits * self.scale.digit();
        if value.abs() < self.scale.limit() {
            Ok(value)
        } else {
            Err(Quality::Saturated)
        }
    }
}

impl<I: I2c> Chip<3> for Lis3dh<I> {
    type Quantity = Axis;

    fn kind(&self, _: Axis) -> Kind {
        let limit = self.scale.limit();
        Kind {
            unit: "g",
            scale: 3,
            range: (-limit, limit),
        }
    }

    fn collect(&mut self) -> Result<[Value; 3], Quality> {
        let bytes = tries(|| self.burst())?;
        let ctrl4_at = usize::from(CTRL_REG4 - CTRL_REG1);
        if bytes[0] != self.ctrl1() || bytes[ctrl4_at] != self.ctrl4() {
            // As after power-on. Its first data comes a few of its periods later.
            tries(|| self.set_up())?;
            return Err(Quality::WarmingUp);
        }
        if bytes[STATUS_AT] & ZYXDA == 0 {
            return Err(Quality::Stale);
        }
        let axis = |number: usize| {
            let at = OUT_AT + 2 * number;
            self.value(bytes[at], bytes[at + 1])
        };
        Ok([axis(0), axis(1), axis(2)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensor::Sensor;
    use crate::sensors::chip::Shared;
    use crate::sensors::script::{ack, done, nack_register, nack_write, register};
    use embedded_hal_mock::eh1::i2c::{Mock, Transaction};
    use std::vec;
    use std::vec::Vec;

    const ADDRESS: u8 = 0x19;
    const BURST: u8 = 0xA0;
    /// 100 Hz; block update, +-2 g, high resolution.
    const SETTINGS: [u8; 6] = [0x57, 0, 0, 0x88, 0, 0];

    fn data(settings: [u8; 6], status: u8, out: [u8; 6]) -> Vec<Transaction> {
        let bytes = [&settings[..], &[0, status], &out].concat();
        register(ADDRESS, BURST, &bytes)
    }

    fn ready(out: [u8; 6]) -> Vec<Transaction> {
        data(SETTINGS, 0x0F, out)
    }

    fn id(id: u8) -> Vec<Transaction> {
        register(ADDRESS, WHO_AM_I, &[id])
    }

    fn set_up() -> Vec<Transaction> {
        let writes = [ack(ADDRESS, &[0x23, 0x88]), ack(ADDRESS, &[0x20, 0x57])];
        [id(LIS3DH), writes.concat()].concat()
    }

    fn read(scale: FullScale, script: &[Vec<Transaction>]) -> [Value; 3] {
        let bus = Mock::new(&script.concat());
        let shared = Shared::new(Lis3dh::new(bus, ADDRESS, scale, OutputRate::Hz100));
        let mut axes = [Axis::X, Axis::Y, Axis::Z].map(|axis| shared.channel(axis, "a", 10_000));
        let values = [axes[0].read(), axes[1].read(), axes[2].read()];
        done(shared.release().release());
        values
    }

    /// AN3308, table 9: 350 mg is 0x15E0, 1 g 0x4000 (1,024 digits), and below zero.
    #[test]
    fn the_application_notes_examples() {
        let out = [0xE0, 0x15, 0x20, 0xEA, 0x00, 0x40];
        let want = [Ok(350), Ok(-350), Ok(1_024)];
        assert_eq!(read(FullScale::G2, &[ready(out)]), want);
    }

    #[test]
    fn readings() {
        let bad = |quality| [Err(quality); 3];
        let zero = [0; 6];
        let off = data([0x07, 0, 0, 0, 0, 0], 0, zero);
        for (name, script, want) in [
            (
                "power-on: set up, nothing yet",
                vec![off.clone(), set_up()],
                bad(Quality::WarmingUp),
            ),
            (
                "another full scale than asked for",
                vec![data([0x57, 0, 0, 0x98, 0, 0], 0x0F, zero), set_up()],
                bad(Quality::WarmingUp),
            ),
            (
                "another chip",
                vec![off.clone(), id(0x32), id(0x32), id(0x32)],
                bad(Quality::BusError),
            ),
            (
                "gone while it is set up, then back",
                vec![
                    off,
                    id(LIS3DH),
                    nack_write(ADDRESS, &[0x23, 0x88]),
                    set_up(),
                ],
                bad(Quality::WarmingUp),
            ),
            (
                "no new data",
                vec![data(SETTINGS, 0, zero)],
                bad(Quality::Stale),
            ),
            (
                "two NACKs, then good",
                vec![
                    nack_register(ADDRESS, BURST, 14),
                    nack_register(ADDRESS, BURST, 14),
                    ready(zero),
                ],
                [Ok(0); 3],
            ),
            (
                "no chip",
                vec![nack_register(ADDRESS, BURST, 14); 3],
                bad(Quality::BusError),
            ),
            (
                "all ones",
                vec![register(ADDRESS, BURST, &[0xFF; 14]); 3],
                bad(Quality::BusError),
            ),
            (
                "SDA stuck low: all zeros",
                vec![register(ADDRESS, BURST, &[0; 14]), id(0), id(0), id(0)],
                bad(Quality::BusError),
            ),
            (
                "at the ends: last digit, one less, most negative",
                vec![ready([0xF0, 0x7F, 0xE0, 0x7F, 0x00, 0x80])],
                [Err(Quality::Saturated), Ok(2_046), Err(Quality::Saturated)],
            ),
            (
                "one axis saturated, the others good",
                vec![ready([0xF0, 0x7F, 0, 0x40, 0x10, 0x80])],
                [Err(Quality::Saturated), Ok(1_024), Err(Quality::Saturated)],
            ),
        ] {
            assert_eq!(read(FullScale::G2, &script), want, "{name}");
        }
    }

    #[test]
    fn every_full_scale_ends_where_its_range_does() {
        for (scale, largest, limit) in [
            (FullScale::G2, 2_046, 2_047),
            (FullScale::G4, 4_092, 4_094),
            (FullScale::G8, 8_184, 8_188),
            (FullScale::G16, 16_368, 16_372),
        ] {
            let chip = Lis3dh::new(Mock::new(&[]), ADDRESS, scale, OutputRate::Hz10);
            let values = (i16::MIN..=i16::MAX).step_by(16).filter_map(|raw| {
                let [low, high] = raw.to_le_bytes();
                chip.value(low, high).ok()
            });
            let (low, high) = values.fold((0, 0), |(low, high), value| {
                (value.min(low), value.max(high))
            });
            assert_eq!((low, high), (-largest, largest), "{scale:?}");
            assert_eq!(chip.kind(Axis::X).range, (-limit, limit), "{scale:?}");
            done(chip.release());
        }
    }
}
