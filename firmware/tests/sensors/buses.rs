//! A simulated clock, and an I2C bus of 100 kHz whose every transaction takes time on
//! it: with an LM75, an SHT4x and an ADS1115, and a data line that may be held.

#![allow(unreachable_pub)]

use std::cell::RefCell;
use std::rc::Rc;

use embedded_hal::i2c::{Error, ErrorKind, ErrorType, I2c, NoAcknowledgeSource, Operation};
use forebay_firmware::sensors::BusRecovery;
use forebay_firmware::wire::ids::Tick;

/// A byte and its acknowledge.
const BYTE_US: u64 = 90;
/// How long a peripheral waits for a held line before it gives up.
const TIMEOUT_US: u64 = 1_000;
/// Nine clocks and a STOP.
const RECOVERY_US: u64 = 105;

#[derive(Debug, Clone, Default)]
pub struct Time(Rc<RefCell<u64>>);

impl Time {
    pub fn now(&self) -> Tick {
        Tick(*self.0.borrow())
    }

    pub fn pass(&self, us: u64) {
        *self.0.borrow_mut() += us;
    }

    /// At least a microsecond, so that every loop ends.
    pub fn skip_to(&self, at: Tick) {
        let mut now = self.0.borrow_mut();
        *now = at.0.max(*now + 1);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    Free,
    /// Freed by so many recoveries.
    Held(u32),
}

#[derive(Debug)]
pub struct Failure(ErrorKind);

impl Error for Failure {
    fn kind(&self) -> ErrorKind {
        self.0
    }
}

#[derive(Debug)]
struct Wires {
    line: Line,
    recoveries: u32,
    /// When the SHT4x will have measured, if it was told to.
    sht4x: Option<u64>,
    /// The configuration of the ADS1115, and when its conversion ends.
    ads1115: ([u8; 2], u64),
}

/// A board's bus; clones are the same wires.
#[derive(Debug, Clone)]
pub struct Bus {
    time: Time,
    wires: Rc<RefCell<Wires>>,
}

const SHT4X: u8 = 0x44;
const LM75: u8 = 0x4F;
const ADS1115: u8 = 0x48;
/// SHT4x: 25 degC, 56.5 %.
const SHT4X_ANSWER: [u8; 6] = [0x66, 0x66, 0x93, 0x80, 0x00, 0xA2];

impl Bus {
    pub fn new(time: &Time) -> Self {
        Bus {
            time: time.clone(),
            wires: Rc::new(RefCell::new(Wires {
                line: Line::Free,
                recoveries: 0,
                sht4x: None,
                ads1115: ([0x85, 0x83], 0),
            })),
        }
    }

    pub fn hold(&self, line: Line) {
        self.wires.borrow_mut().line = line;
    }

    pub fn recoveries(&self) -> u32 {
        self.wires.borrow().recoveries
    }
}

fn nack<T>() -> Result<T, Failure> {
    Err(Failure(ErrorKind::NoAcknowledge(
        NoAcknowledgeSource::Address,
    )))
}

impl Wires {
    fn sht4x(&mut self, now: u64, operation: &mut Operation<'_>) -> Result<(), Failure> {
        match operation {
            Operation::Write(_) => {
                self.sht4x = Some(now + 8_300);
                Ok(())
            }
            Operation::Read(bytes) => match self.sht4x.take_if(|done| *done <= now) {
                Some(_) => {
                    bytes.copy_from_slice(&SHT4X_ANSWER);
                    Ok(())
                }
                None => nack(),
            },
        }
    }

    /// Each input gives its own number as the result.
    fn ads1115(&mut self, now: u64, operations: &mut [Operation<'_>]) {
        let (config, done) = &mut self.ads1115;
        match operations {
            [Operation::Write([1, high, low])] => {
                *config = [high & 0x7F, *low];
                *done = now + 1_163;
            }
            [Operation::Write([1]), Operation::Read(bytes)] => {
                let idle = if *done <= now { 0x80 } else { 0 };
                bytes.copy_from_slice(&[config[0] | idle, config[1]]);
            }
            [Operation::Write([0]), Operation::Read(bytes)] => {
                bytes.copy_from_slice(&[0x10, (config[0] >> 4) & 3]);
            }
            _ => panic!("nothing that the driver does"),
        }
    }
}

impl ErrorType for Bus {
    type Error = Failure;
}

impl I2c for Bus {
    fn transaction(
        &mut self,
        address: u8,
        operations: &mut [Operation<'_>],
    ) -> Result<(), Failure> {
        let mut wires = self.wires.borrow_mut();
        if wires.line != Line::Free {
            self.time.pass(TIMEOUT_US);
            return Err(Failure(ErrorKind::Bus));
        }
        for operation in operations.iter() {
            let bytes = match operation {
                Operation::Write(bytes) => bytes.len(),
                Operation::Read(bytes) => bytes.len(),
            };
            self.time.pass((1 + bytes as u64) * BYTE_US);
        }
        let now = self.time.now().0;
        match (address, operations) {
            (SHT4X, [operation]) => wires.sht4x(now, operation),
            (LM75, [Operation::Write([0]), Operation::Read(bytes)]) => {
                bytes.copy_from_slice(&[0x19, 0x80]);
                Ok(())
            }
            (ADS1115, operations) => {
                wires.ads1115(now, operations);
                Ok(())
            }
            _ => nack(),
        }
    }
}

impl BusRecovery for Bus {
    fn recover(&mut self) -> bool {
        self.time.pass(RECOVERY_US);
        let mut wires = self.wires.borrow_mut();
        wires.recoveries += 1;
        wires.line = match wires.line {
            Line::Free | Line::Held(0 | 1) => Line::Free,
            Line::Held(left) => Line::Held(left - 1),
        };
        wires.line == Line::Free
    }
}
