//! The I2C bus of Shield 1: SBCon at 0x4002a000, two open-drain lines behind a
//! set and a clear register, clocked by hand.
//!
//! QEMU plugs `-device tmp105,bus=i2c` in here: of the two buses that are not
//! internal to the board it takes the one that was made last (`info qtree`).

use core::convert::Infallible;

use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{ErrorType, InputPin, OutputPin};
use forebay_board_common::bitbang::BitBang;

use forebay_board_qemu::reg::Block;

use crate::CLOCK_HZ;

const SCL: u32 = 1;
const SDA: u32 = 1 << 1;

/// Read: the lines. Write: the lines to release.
const LINES: usize = 0;
/// Write: the lines to pull low.
const PULL: usize = 1;

// SAFETY: SBCon of Shield 1 (`info mtree`: 0x4002a000, arm_sbcon_i2c).
static SBCON: Block = unsafe { Block::at(0x4002_a000) };

/// One of the lines. Setting one never writes the other: no read-modify-write.
#[derive(Debug)]
pub struct Line(u32);

impl ErrorType for Line {
    type Error = Infallible;
}

impl OutputPin for Line {
    fn set_low(&mut self) -> Result<(), Infallible> {
        SBCON.write(PULL, self.0);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        SBCON.write(LINES, self.0);
        Ok(())
    }
}

impl InputPin for Line {
    fn is_high(&mut self) -> Result<bool, Infallible> {
        Ok(SBCON.read(LINES) & self.0 != 0)
    }

    fn is_low(&mut self) -> Result<bool, Infallible> {
        self.is_high().map(|high| !high)
    }
}

/// Waits by counting cycles: at least as long as asked.
#[derive(Debug)]
pub struct Cycles;

impl DelayNs for Cycles {
    fn delay_ns(&mut self, ns: u32) {
        cortex_m::asm::delay(ns.div_ceil(1_000_000_000 / CLOCK_HZ));
    }
}

/// The bus as drivers see it.
pub type Bus = BitBang<Line, Line, Cycles>;

/// Releases both lines at once, so that it is neither START nor STOP.
pub fn bus() -> Bus {
    SBCON.write(LINES, SCL | SDA);
    BitBang::new(Line(SCL), Line(SDA), Cycles)
}
