//! Pins and a bus that fail by a script.

use super::*;
use crate::limits::BUS_TRIES_MAX;
use core::cell::Cell;
use core::convert::Infallible;
use embedded_hal::digital;
use std::rc::Rc;

/// A data line that a device holds until it has seen so many clocks.
#[derive(Debug)]
struct Wires {
    held_for: Cell<u32>,
    clocks: Cell<u32>,
    scl: Cell<bool>,
    sda: Cell<bool>,
    stops: Cell<u32>,
}

#[derive(Debug, Clone)]
struct Scl(Rc<Wires>);
#[derive(Debug, Clone)]
struct Sda(Rc<Wires>);

impl Wires {
    fn sda(&self) -> bool {
        self.sda.get() && self.clocks.get() >= self.held_for.get()
    }
}

impl digital::ErrorType for Scl {
    type Error = Infallible;
}

impl OutputPin for Scl {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.0.scl.set(false);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        if !self.0.scl.replace(true) {
            self.0.clocks.set(self.0.clocks.get() + 1);
        }
        Ok(())
    }
}

impl digital::ErrorType for Sda {
    type Error = Infallible;
}

impl OutputPin for Sda {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.0.sda.set(false);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        let was_low = !self.0.sda();
        self.0.sda.set(true);
        if was_low && self.0.sda() && self.0.scl.get() {
            self.0.stops.set(self.0.stops.get() + 1);
        }
        Ok(())
    }
}

impl InputPin for Sda {
    fn is_high(&mut self) -> Result<bool, Infallible> {
        Ok(self.0.sda())
    }

    fn is_low(&mut self) -> Result<bool, Infallible> {
        Ok(!self.0.sda())
    }
}

#[derive(Debug)]
struct Waited(u64);

impl DelayNs for Waited {
    fn delay_ns(&mut self, ns: u32) {
        self.0 += u64::from(ns);
    }
}

#[test]
fn a_held_line_is_freed_by_at_most_nine_clocks_and_a_stop() {
    let limit = u32::from(RECOVERY_CLOCKS);
    for (name, held_for, free) in [
        ("not held", 0, true),
        ("one bit left", 1, true),
        ("limit - 1", limit - 1, true),
        ("limit", limit, true),
        ("beyond, but for the STOP's own clock", limit + 1, true),
        ("limit + 2", limit + 2, false),
        ("for ever", u32::MAX, false),
    ] {
        let wires = Rc::new(Wires {
            held_for: Cell::new(held_for),
            clocks: Cell::new(0),
            scl: Cell::new(true),
            sda: Cell::new(true),
            stops: Cell::new(0),
        });
        let mut waited = Waited(0);
        let done = clock_free(
            &mut Scl(wires.clone()),
            &mut Sda(wires.clone()),
            &mut waited,
        );
        assert_eq!(done, free, "{name}");
        assert_eq!(wires.stops.get() > 0, free, "{name}: a STOP");
        assert!(wires.scl.get() && wires.sda.get(), "{name}: both released");
        // 21 half clocks at most: a tenth of a millisecond.
        assert!(waited.0 <= 21 * u64::from(RECOVERY_HALF_NS), "{name}");
    }
}

#[derive(Debug)]
struct Held(ErrorKind);

impl Error for Held {
    fn kind(&self) -> ErrorKind {
        self.0
    }
}

/// Fails with a kind until it was recovered often enough.
#[derive(Debug)]
struct Stuck {
    kind: ErrorKind,
    recoveries: u32,
    needs: u32,
    transactions: u32,
}

impl ErrorType for Stuck {
    type Error = Held;
}

impl I2c for Stuck {
    fn transaction(&mut self, _: u8, _: &mut [Operation<'_>]) -> Result<(), Held> {
        self.transactions += 1;
        if self.recoveries >= self.needs {
            Ok(())
        } else {
            Err(Held(self.kind))
        }
    }
}

impl BusRecovery for Stuck {
    fn recover(&mut self) -> bool {
        self.recoveries += 1;
        self.recoveries >= self.needs
    }
}

fn stuck(kind: ErrorKind, needs: u32) -> RecoveringI2c<Stuck> {
    RecoveringI2c::new(Stuck {
        kind,
        recoveries: 0,
        needs,
        transactions: 0,
    })
}

#[test]
fn the_try_after_a_recovery_works() {
    let mut bus = stuck(ErrorKind::Bus, 1);
    assert!(bus.write(0x48, &[0]).is_err());
    assert!(bus.write_read(0x48, &[0], &mut [0; 2]).is_ok());
    assert!(bus.read(0x48, &mut [0; 2]).is_ok());
    let Stuck {
        recoveries,
        transactions,
        ..
    } = bus.release();
    assert_eq!((recoveries, transactions), (1, 3));
}

#[test]
fn a_nack_is_no_reason_to_recover() {
    let nack = ErrorKind::NoAcknowledge(embedded_hal::i2c::NoAcknowledgeSource::Address);
    let mut bus = stuck(nack, 1);
    for _ in 0..5 {
        assert!(bus.write(0x48, &[0]).is_err());
    }
    assert_eq!(bus.release().recoveries, 0);
}

#[test]
fn a_bus_that_stays_stuck_is_left_alone_for_a_while_and_then_tried_again() {
    let mut bus = stuck(ErrorKind::ArbitrationLoss, u32::MAX);
    let mut after = std::vec::Vec::new();
    for _ in 0..2 * u32::from(RECOVERIES_MAX + RECOVERY_PAUSE) {
        assert!(bus.write(0x48, &[0]).is_err());
        after.push(bus.i2c.recoveries);
    }
    let (tries, pause) = (usize::from(RECOVERIES_MAX), usize::from(RECOVERY_PAUSE));
    assert_eq!(after[tries - 1], 3);
    assert_eq!(after[tries + pause - 1], 3, "nothing in the pause");
    assert_eq!(after[tries + pause], 4, "then again");
    assert_eq!(after.last(), Some(&6));
    // A sensor's tries of three periods fit into a pause.
    assert_eq!(RECOVERY_PAUSE % BUS_TRIES_MAX, 0);
}
