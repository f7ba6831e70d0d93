//! Tests only: two open-drain wires and one device on them, driven by edges.
//!
//! Written from the bus rules alone and shares no code with the controller, so
//! that a mistake there is not repeated here. Keeps a log in the notation
//! `S 90+ 01- P`: START, byte with its acknowledge, STOP.

use core::cell::RefCell;
use core::convert::Infallible;
use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{ErrorType, InputPin, OutputPin};
use std::collections::VecDeque;
use std::format;
use std::rc::Rc;
use std::string::String;
use std::vec::Vec;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Idle,
    /// Bits of the byte on its way, and whether the device sends it.
    Byte {
        bits: u8,
        value: u8,
        sends: bool,
    },
    /// The acknowledge of `value`, given by whoever did not send it.
    Ack {
        value: u8,
        sends: bool,
        acked: bool,
    },
    /// Not addressed, or refused: waits for the next START.
    Deaf,
}

#[derive(Debug)]
struct Wires {
    address: u8,
    scl_out: bool,
    sda_out: bool,
    device_sda: bool,
    state: State,
    expects_address: bool,
    log: Vec<String>,
    accepts: usize,
    written: Vec<u8>,
    answers: VecDeque<u8>,
    hold_sda_clocks: u32,
    stretch_polls: u32,
    scl_held: bool,
    now_ns: u64,
    edges_ns: Vec<u64>,
}

/// Handle to the wires; its clones are the same wires.
#[derive(Debug, Clone)]
pub(crate) struct Bus(Rc<RefCell<Wires>>);

impl Bus {
    pub(crate) fn with_device(address: u8) -> Self {
        Self(Rc::new(RefCell::new(Wires {
            address,
            scl_out: true,
            sda_out: true,
            device_sda: true,
            state: State::Idle,
            expects_address: false,
            log: Vec::new(),
            accepts: 16,
            written: Vec::new(),
            answers: VecDeque::new(),
            hold_sda_clocks: 0,
            stretch_polls: 0,
            scl_held: false,
            now_ns: 0,
            edges_ns: Vec::new(),
        })))
    }

    pub(crate) fn scl(&self) -> Line {
        Line {
            bus: self.clone(),
            clock: true,
        }
    }

    pub(crate) fn sda(&self) -> Line {
        Line {
            bus: self.clone(),
            clock: false,
        }
    }

    pub(crate) fn delay(&self) -> NoDelay {
        NoDelay(self.clone())
    }

    pub(crate) fn answer(&self, bytes: &[u8]) {
        self.0.borrow_mut().answers.extend(bytes);
    }

    /// The device refuses what is written after so many bytes.
    pub(crate) fn accept_only(&self, bytes: usize) {
        self.0.borrow_mut().accepts = bytes;
    }

    pub(crate) fn hold_sda(&self) {
        self.hold_sda_for_clocks(u32::MAX);
    }

    pub(crate) fn hold_sda_for_clocks(&self, clocks: u32) {
        let mut wires = self.0.borrow_mut();
        wires.hold_sda_clocks = clocks;
        wires.device_sda = clocks == 0;
    }

    /// The next time that the clock is released, it stays low for so many looks at it.
    pub(crate) fn stretch_once(&self, polls: u32) {
        self.0.borrow_mut().stretch_polls = polls;
    }

    pub(crate) fn hold_scl(&self) {
        self.0.borrow_mut().scl_held = true;
    }

    pub(crate) fn log(&self) -> String {
        self.0.borrow().log.join(" ")
    }

    pub(crate) fn written(&self) -> Vec<u8> {
        self.0.borrow().written.clone()
    }

    pub(crate) fn waited_ns(&self) -> u64 {
        self.0.borrow().now_ns
    }

    /// Times of all edges of the clock line.
    pub(crate) fn edges_ns(&self) -> Vec<u64> {
        self.0.borrow().edges_ns.clone()
    }

    pub(crate) fn controller_released(&self) -> bool {
        let wires = self.0.borrow();
        wires.scl_out && wires.sda_out
    }

    pub(crate) fn is_idle(&self) -> bool {
        let wires = self.0.borrow();
        wires.scl_out && wires.sda() && wires.state == State::Idle
    }
}

impl Wires {
    fn sda(&self) -> bool {
        self.sda_out && self.device_sda
    }

    fn drive_sda(&mut self, high: bool) {
        let before = self.sda();
        self.sda_out = high;
        if self.scl_out && before != self.sda() {
            if before {
                self.on_start();
            } else {
                self.on_stop();
            }
        }
    }

    fn drive_scl(&mut self, high: bool) {
        if self.scl_out == high {
            return;
        }
        self.scl_out = high;
        self.edges_ns.push(self.now_ns);
        if high {
            self.on_clock_rise();
        } else {
            self.on_clock_fall();
        }
    }

    fn on_start(&mut self) {
        self.log.push("S".into());
        self.expects_address = true;
        self.state = State::Byte {
            bits: 0,
            value: 0,
            sends: false,
        };
    }

    fn on_stop(&mut self) {
        self.log.push("P".into());
        self.state = State::Idle;
        self.device_sda = true;
    }

    fn on_clock_rise(&mut self) {
        if self.hold_sda_clocks > 0 {
            return;
        }
        let sda = self.sda();
        self.state = match self.state {
            State::Byte { bits, value, sends } if bits < 8 => State::Byte {
                bits: bits + 1,
                value: value << 1 | u8::from(sda),
                sends,
            },
            State::Ack { value, sends, .. } => {
                self.log
                    .push(format!("{value:02x}{}", if sda { '-' } else { '+' }));
                State::Ack {
                    value,
                    sends,
                    acked: !sda,
                }
            }
            other @ (State::Idle | State::Deaf | State::Byte { .. }) => other,
        };
    }

    /// The device changes the data line only while the clock is low.
    fn on_clock_fall(&mut self) {
        if self.hold_sda_clocks > 0 {
            self.hold_sda_clocks -= 1;
            self.device_sda = self.hold_sda_clocks == 0;
            return;
        }
        self.device_sda = true;
        match self.state {
            State::Byte {
                bits: 8,
                value,
                sends,
            } => {
                let acked = !sends && self.takes(value);
                self.device_sda = !acked;
                self.state = State::Ack {
                    value,
                    sends,
                    acked,
                };
            }
            State::Byte {
                bits, sends: true, ..
            } => self.send_bit(bits),
            State::Ack {
                value,
                sends,
                acked,
            } => self.after_ack(value, sends, acked),
            State::Byte { .. } | State::Idle | State::Deaf => {}
        }
    }

    fn takes(&mut self, value: u8) -> bool {
        if self.expects_address {
            return value >> 1 == self.address;
        }
        let takes = self.accepts > 0;
        if takes {
            self.accepts -= 1;
            self.written.push(value);
        }
        takes
    }

    fn send_bit(&mut self, bits: u8) {
        let byte = self.answers.front().copied().unwrap_or(0xff);
        self.device_sda = byte >> (7 - bits) & 1 == 1;
    }

    fn after_ack(&mut self, value: u8, sent: bool, acked: bool) {
        if sent {
            self.answers.pop_front();
        }
        if !acked {
            self.state = State::Deaf;
            return;
        }
        let sends = sent || (self.expects_address && value & 1 == 1);
        self.expects_address = false;
        self.state = State::Byte {
            bits: 0,
            value: 0,
            sends,
        };
        if sends {
            self.send_bit(0);
        }
    }
}

/// One of the two lines, as a pin.
#[derive(Debug)]
pub(crate) struct Line {
    bus: Bus,
    clock: bool,
}

impl ErrorType for Line {
    type Error = Infallible;
}

impl OutputPin for Line {
    fn set_low(&mut self) -> Result<(), Infallible> {
        let mut wires = self.bus.0.borrow_mut();
        if self.clock {
            wires.drive_scl(false)
        } else {
            wires.drive_sda(false)
        }
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        let mut wires = self.bus.0.borrow_mut();
        if self.clock {
            wires.drive_scl(true)
        } else {
            wires.drive_sda(true)
        }
        Ok(())
    }
}

impl InputPin for Line {
    fn is_high(&mut self) -> Result<bool, Infallible> {
        let mut wires = self.bus.0.borrow_mut();
        if !self.clock {
            return Ok(wires.sda());
        }
        if wires.scl_held {
            return Ok(false);
        }
        if wires.stretch_polls > 0 {
            wires.stretch_polls -= 1;
            return Ok(false);
        }
        Ok(wires.scl_out)
    }

    fn is_low(&mut self) -> Result<bool, Infallible> {
        self.is_high().map(|high| !high)
    }
}

/// Time that only counts itself.
#[derive(Debug)]
pub(crate) struct NoDelay(Bus);

impl DelayNs for NoDelay {
    fn delay_ns(&mut self, ns: u32) {
        self.0.0.borrow_mut().now_ns += u64::from(ns);
    }
}
