//! The I2C controller, as the bus that drivers expect.
//!
//! QEMU plugs `-device tmp105,bus=i2c` in here. Always holds: a transfer ends with a
//! STOP; no call waits longer than [`POLLS_MAX`]. QEMU knows no repeated START, so a
//! change of direction is a STOP and a START, which sensors with a register pointer
//! take as the same.

use embedded_hal::i2c::{ErrorKind, ErrorType, I2c, NoAcknowledgeSource, Operation};
use forebay_board_qemu::reg::Block;

use crate::CLOCK_HZ;

/// Looks at a busy controller: far more than a byte takes at 100 kHz.
const POLLS_MAX: u32 = 10_000;
const BUS_HZ: u32 = 100_000;

// Registers, counted in words.
const ADDRESS: usize = 0;
/// Written: what to do. Read: how it went.
const CONTROL: usize = 1;
const DATA: usize = 2;
const PERIOD: usize = 3;
const CONFIG: usize = 8;

const RUN: u32 = 1;
const START: u32 = 1 << 1;
const STOP: u32 = 1 << 2;
const ACKNOWLEDGE: u32 = 1 << 3;

const BUSY: u32 = 1;
const FAILED: u32 = 1 << 1;
const LOST: u32 = 1 << 4;

const CONTROLLER: u32 = 1 << 4;

// SAFETY: I2C 0 (`info mtree`: 0x40020000, i2c).
static I2C: Block = unsafe { Block::at(0x4002_0000) };

/// Why a transfer failed. The bus was left idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// Nobody answered, or the byte was refused.
    Nack,
    /// The controller stayed busy.
    Stuck,
}

impl embedded_hal::i2c::Error for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Nack => ErrorKind::NoAcknowledge(NoAcknowledgeSource::Unknown),
            Self::Stuck => ErrorKind::Bus,
        }
    }
}

/// The bus as drivers see it.
#[derive(Debug)]
pub struct Bus;

/// Turns the controller on.
pub fn bus() -> Bus {
    I2C.write(CONFIG, CONTROLLER);
    I2C.write(PERIOD, CLOCK_HZ / (20 * BUS_HZ) - 1);
    Bus
}

/// One byte, or the end of the transfer, as `control` says.
fn step(control: u32) -> Result<(), Error> {
    I2C.write(CONTROL, control);
    let idle = (0..POLLS_MAX).any(|_| I2C.read(CONTROL) & BUSY == 0);
    let status = I2C.read(CONTROL);
    if !idle {
        return Err(Error::Stuck);
    }
    if status & (FAILED | LOST) != 0 {
        I2C.write(CONTROL, STOP);
        return Err(Error::Nack);
    }
    Ok(())
}

impl ErrorType for Bus {
    type Error = Error;
}

impl I2c for Bus {
    fn transaction(&mut self, address: u8, operations: &mut [Operation<'_>]) -> Result<(), Error> {
        for operation in operations {
            match operation {
                Operation::Write(bytes) => write(address, bytes)?,
                Operation::Read(bytes) => read(address, bytes)?,
            }
        }
        Ok(())
    }
}

fn write(address: u8, bytes: &[u8]) -> Result<(), Error> {
    I2C.write(ADDRESS, u32::from(address) << 1);
    let last = bytes.len().saturating_sub(1);
    for (at, byte) in bytes.iter().enumerate() {
        I2C.write(DATA, (*byte).into());
        step(control(at, last))?;
    }
    Ok(())
}

fn read(address: u8, bytes: &mut [u8]) -> Result<(), Error> {
    I2C.write(ADDRESS, u32::from(address) << 1 | 1);
    let last = bytes.len().saturating_sub(1);
    for (at, byte) in bytes.iter_mut().enumerate() {
        let more = if at < last { ACKNOWLEDGE } else { 0 };
        step(control(at, last) | more)?;
        *byte = I2C.read(DATA) as u8;
    }
    Ok(())
}

/// The first byte of a transfer has a START, the last a STOP.
fn control(at: usize, last: usize) -> u32 {
    let start = if at == 0 { START } else { 0 };
    let stop = if at == last { STOP } else { 0 };
    RUN | start | stop
}
