//! A bus whose data line is held low, by a device that was cut off in the middle of a
//! byte: nine clocks and a STOP free it. The peripherals of most chips cannot clock a
//! held bus, so that a board lends the two pins for it.
//!
//! Bound: one recovery per failed transaction; after [`RECOVERIES_MAX`] in vain the bus
//! is left alone for [`RECOVERY_PAUSE`] failures. Its sensors are bus errors meanwhile,
//! and no other channel waits for them.

use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{InputPin, OutputPin};
use embedded_hal::i2c::{Error, ErrorKind, ErrorType, I2c, Operation};

use crate::sensors::limits::{RECOVERIES_MAX, RECOVERY_CLOCKS, RECOVERY_HALF_NS, RECOVERY_PAUSE};

/// What a board knows of its bus.
pub trait BusRecovery {
    /// Switches the pins to open-drain outputs, frees the bus (as [`clock_free`] does)
    /// and hands them back to a peripheral that is set up anew. True when both lines
    /// are high.
    fn recover(&mut self) -> bool;
}

/// Clocks a held data line free: up to [`RECOVERY_CLOCKS`] clocks until it is high,
/// then a STOP. True when it is high in the end. Pins are open drain; 100 kHz.
pub fn clock_free<Scl: OutputPin, Sda: InputPin + OutputPin>(
    scl: &mut Scl,
    sda: &mut Sda,
    delay: &mut impl DelayNs,
) -> bool {
    let mut half = || delay.delay_ns(RECOVERY_HALF_NS);
    // A pin that cannot be driven leaves the line as it is, which the end tells.
    let _ = sda.set_high();
    for _ in 0..RECOVERY_CLOCKS {
        if sda.is_high().unwrap_or(false) {
            break;
        }
        let _ = scl.set_low();
        half();
        let _ = scl.set_high();
        half();
    }
    let _ = scl.set_low();
    let _ = sda.set_low();
    half();
    let _ = scl.set_high();
    half();
    let _ = sda.set_high();
    half();
    sda.is_high().unwrap_or(false)
}

/// A bus that recovers by itself. The failed transaction stays failed: the sensor
/// tries again, or sets its chip up anew, as after any error.
#[derive(Debug)]
pub struct RecoveringI2c<I> {
    i2c: I,
    /// Recoveries in vain since the last success; then failures to let pass.
    failed: u8,
    pause: u8,
}

impl<I> RecoveringI2c<I> {
    pub fn new(i2c: I) -> Self {
        RecoveringI2c {
            i2c,
            failed: 0,
            pause: 0,
        }
    }

    /// Gives the bus back.
    pub fn release(self) -> I {
        self.i2c
    }
}

impl<I: I2c + BusRecovery> RecoveringI2c<I> {
    fn after<T>(&mut self, outcome: Result<T, I::Error>) -> Result<T, I::Error> {
        match &outcome {
            Ok(_) => (self.failed, self.pause) = (0, 0),
            Err(error) if is_held(error.kind()) => self.recover(),
            Err(_) => {}
        }
        outcome
    }

    fn recover(&mut self) {
        if self.pause > 0 {
            self.pause -= 1;
        } else if self.i2c.recover() {
            self.failed = 0;
        } else {
            self.failed += 1;
            if self.failed == RECOVERIES_MAX {
                (self.failed, self.pause) = (0, RECOVERY_PAUSE);
            }
        }
    }
}

/// A NACK is an answer of a bus that works.
fn is_held(kind: ErrorKind) -> bool {
    !matches!(kind, ErrorKind::NoAcknowledge(_))
}

impl<I: ErrorType> ErrorType for RecoveringI2c<I> {
    type Error = I::Error;
}

impl<I: I2c + BusRecovery> I2c for RecoveringI2c<I> {
    fn read(&mut self, address: u8, read: &mut [u8]) -> Result<(), I::Error> {
        let outcome = self.i2c.read(address, read);
        self.after(outcome)
    }

    fn write(&mut self, address: u8, write: &[u8]) -> Result<(), I::Error> {
        let outcome = self.i2c.write(address, write);
        self.after(outcome)
    }

    fn write_read(&mut self, address: u8, write: &[u8], read: &mut [u8]) -> Result<(), I::Error> {
        let outcome = self.i2c.write_read(address, write, read);
        self.after(outcome)
    }

    fn transaction(
        &mut self,
        address: u8,
        operations: &mut [Operation<'_>],
    ) -> Result<(), I::Error> {
        let outcome = self.i2c.transaction(address, operations);
        self.after(outcome)
    }
}

#[cfg(test)]
mod tests;
