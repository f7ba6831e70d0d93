//! An I2C controller on two open-drain pins, as [`embedded_hal::i2c::I2c`].
//!
//! Owns the two lines and their timing; the only controller on its bus, so it
//! looks for no lost arbitration. Always holds: a transaction ends with a STOP,
//! also after an error. Bound: no call waits longer than [`STRETCH_POLLS_MAX`]
//! half periods for a stretched clock, and a stuck data line costs one recovery
//! of [`RECOVERY_CLOCKS`] clocks. Knows nothing of registers or devices.

use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{InputPin, OutputPin};
use embedded_hal::i2c::{ErrorKind, ErrorType, I2c, NoAcknowledgeSource, Operation};

/// Half a clock period: 5 us, the 100 kHz of standard mode.
pub const HALF_PERIOD_NS: u32 = 5_000;
/// Half periods for which a device may hold the clock low: 1 ms at 5 us.
pub const STRETCH_POLLS_MAX: u32 = 200;
/// Clocks that free a device which was cut off in the middle of a byte: eight
/// bits and the acknowledge.
pub const RECOVERY_CLOCKS: u32 = 9;

/// Why a transfer failed. The bus was left idle, as far as that was possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// Nobody answered to the address.
    NackAddress,
    /// The device refused a byte that was written to it.
    NackData,
    /// A device held the clock low for longer than [`STRETCH_POLLS_MAX`].
    ClockStuck,
    /// The data line stayed low through [`RECOVERY_CLOCKS`] clocks.
    DataStuck,
    /// A pin could not be driven or read.
    Pin,
}

impl embedded_hal::i2c::Error for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NackAddress => ErrorKind::NoAcknowledge(NoAcknowledgeSource::Address),
            Self::NackData => ErrorKind::NoAcknowledge(NoAcknowledgeSource::Data),
            Self::ClockStuck | Self::DataStuck => ErrorKind::Bus,
            Self::Pin => ErrorKind::Other,
        }
    }
}

/// The controller. Pins are open drain: high means released, and what is read
/// back is the line, not what this side asked for.
#[derive(Debug)]
pub struct BitBang<Scl, Sda, Delay> {
    scl: Scl,
    sda: Sda,
    delay: Delay,
}

impl<Scl, Sda, Delay> BitBang<Scl, Sda, Delay>
where
    Scl: InputPin + OutputPin,
    Sda: InputPin + OutputPin,
    Delay: DelayNs,
{
    /// Takes the pins; both should be released by then. Touches nothing: what
    /// a reset has left on the bus is found by the first transaction.
    pub fn new(scl: Scl, sda: Sda, delay: Delay) -> Self {
        Self { scl, sda, delay }
    }

    /// Frees a device that still drives the data line since a transfer was cut
    /// off: up to nine clocks until it lets go, then a STOP.
    ///
    /// # Errors
    /// [`Error::DataStuck`] when it never lets go, [`Error::ClockStuck`].
    pub fn recover(&mut self) -> Result<(), Error> {
        self.release_sda()?;
        for _ in 0..RECOVERY_CLOCKS {
            if self.sda_is_high()? {
                break;
            }
            self.scl_low()?;
            self.half();
            self.scl_high()?;
            self.half();
        }
        if self.sda_is_high()? {
            self.stop()
        } else {
            Err(Error::DataStuck)
        }
    }

    fn half(&mut self) {
        self.delay.delay_ns(HALF_PERIOD_NS);
    }

    fn release_sda(&mut self) -> Result<(), Error> {
        self.sda.set_high().map_err(|_| Error::Pin)
    }

    fn pull_sda(&mut self) -> Result<(), Error> {
        self.sda.set_low().map_err(|_| Error::Pin)
    }

    fn sda_is_high(&mut self) -> Result<bool, Error> {
        self.sda.is_high().map_err(|_| Error::Pin)
    }

    fn scl_low(&mut self) -> Result<(), Error> {
        self.scl.set_low().map_err(|_| Error::Pin)
    }

    /// Releases the clock and waits until the line really is high.
    fn scl_high(&mut self) -> Result<(), Error> {
        self.scl.set_high().map_err(|_| Error::Pin)?;
        for _ in 0..STRETCH_POLLS_MAX {
            if self.scl.is_high().map_err(|_| Error::Pin)? {
                return Ok(());
            }
            self.half();
        }
        if self.scl.is_high().map_err(|_| Error::Pin)? {
            Ok(())
        } else {
            Err(Error::ClockStuck)
        }
    }

    /// START, or a repeated START when the clock is low. Leaves the clock low.
    fn start(&mut self) -> Result<(), Error> {
        self.release_sda()?;
        self.half();
        self.scl_high()?;
        self.half();
        self.pull_sda()?;
        self.half();
        self.scl_low()
    }

    /// STOP from any state. Leaves both lines released.
    fn stop(&mut self) -> Result<(), Error> {
        self.scl_low()?;
        self.pull_sda()?;
        self.half();
        let clock = self.scl_high();
        self.half();
        // Released even when the clock is stuck, so that no line stays held by us.
        self.release_sda()?;
        self.half();
        clock
    }

    fn write_bit(&mut self, high: bool) -> Result<(), Error> {
        if high {
            self.release_sda()?;
        } else {
            self.pull_sda()?;
        }
        self.half();
        self.scl_high()?;
        self.half();
        self.scl_low()
    }

    fn read_bit(&mut self) -> Result<bool, Error> {
        self.release_sda()?;
        self.half();
        self.scl_high()?;
        let high = self.sda_is_high()?;
        self.half();
        self.scl_low()?;
        Ok(high)
    }

    /// Whether the device acknowledged the byte.
    fn write_byte(&mut self, byte: u8) -> Result<bool, Error> {
        for bit in (0..8).rev() {
            self.write_bit(byte >> bit & 1 == 1)?;
        }
        Ok(!self.read_bit()?)
    }

    fn read_byte(&mut self, acknowledge: bool) -> Result<u8, Error> {
        let mut byte = 0;
        for _ in 0..8 {
            byte = byte << 1 | u8::from(self.read_bit()?);
        }
        self.write_bit(!acknowledge)?;
        Ok(byte)
    }

    fn address(&mut self, address: u8, read: bool) -> Result<(), Error> {
        self.start()?;
        let acknowledged = self.write_byte(address << 1 | u8::from(read))?;
        if acknowledged {
            Ok(())
        } else {
            Err(Error::NackAddress)
        }
    }

    /// Adjacent operations of one direction are one transfer: a START stands
    /// only where the direction changes, and only the last byte read before
    /// that is refused.
    fn run(&mut self, address: u8, operations: &mut [Operation<'_>]) -> Result<(), Error> {
        let mut direction = None;
        let mut rest = operations;
        while let Some((operation, after)) = rest.split_first_mut() {
            let reads = matches!(operation, Operation::Read(_));
            if direction != Some(reads) {
                self.address(address, reads)?;
                direction = Some(reads);
            }
            match operation {
                Operation::Write(bytes) => self.write_bytes(bytes)?,
                Operation::Read(bytes) => self.read_bytes(bytes, more_to_read(after))?,
            }
            rest = after;
        }
        Ok(())
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for byte in bytes {
            if !self.write_byte(*byte)? {
                return Err(Error::NackData);
            }
        }
        Ok(())
    }

    fn read_bytes(&mut self, bytes: &mut [u8], more: bool) -> Result<(), Error> {
        let count = bytes.len();
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = self.read_byte(more || at + 1 < count)?;
        }
        Ok(())
    }
}

/// Whether the operations that follow go on reading without a new START.
fn more_to_read(after: &[Operation<'_>]) -> bool {
    after
        .iter()
        .map_while(|operation| match operation {
            Operation::Read(bytes) => Some(bytes.len()),
            Operation::Write(_) => None,
        })
        .any(|count| count > 0)
}

impl<Scl, Sda, Delay> ErrorType for BitBang<Scl, Sda, Delay> {
    type Error = Error;
}

impl<Scl, Sda, Delay> I2c for BitBang<Scl, Sda, Delay>
where
    Scl: InputPin + OutputPin,
    Sda: InputPin + OutputPin,
    Delay: DelayNs,
{
    fn transaction(&mut self, address: u8, operations: &mut [Operation<'_>]) -> Result<(), Error> {
        if operations.is_empty() {
            return Ok(());
        }
        if !self.sda_is_high()? {
            self.recover()?;
        }
        let outcome = self.run(address, operations);
        // The first failure tells more than a STOP that failed because of it.
        let stopped = self.stop();
        outcome.and(stopped)
    }
}

#[cfg(test)]
mod sampling;
#[cfg(test)]
mod tests;
