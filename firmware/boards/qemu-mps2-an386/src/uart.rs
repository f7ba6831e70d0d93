//! CMSDK UART 0, between its interrupts and the main loop: the serial link.
//!
//! Owns a queue for each direction. Always holds: nothing here waits. A byte
//! that finds the receive queue full is dropped and counted; the frame's CRC
//! finds that out. Bound: [`RX_QUEUE`] and [`TX_QUEUE`] bytes. Knows no frames.

use core::cell::RefCell;
use core::sync::atomic::{AtomicU32, Ordering};

use critical_section::Mutex;
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use heapless::Deque;

use crate::reg::{Block, CLOCK_HZ};
use crate::timer;
use crate::vectors::Irq;
use crate::wake;

/// Baud rate; QEMU does not pace it, a board does.
pub const BAUD: u32 = 115_200;
/// Received bytes that may wait, each with its stamp: a full frame and some acks.
pub const RX_QUEUE: usize = 384;
/// Bytes that may wait to be sent: one full line.
pub const TX_QUEUE: usize = LINE_BYTES_MAX;

const DATA: usize = 0;
const STATE: usize = 1;
const CTRL: usize = 2;
const INT_STATUS: usize = 3;
const BAUD_DIV: usize = 4;

const TX_FULL: u32 = 1;
const ENABLE_ALL: u32 = 0b1111; // TX, RX and the interrupt of each
const TX_DONE: u32 = 1;
const RX_DONE: u32 = 1 << 1;

// SAFETY: UART 0 of the AN386 image (`info mtree`: 0x40004000, uart).
static UART: Block = unsafe { Block::at(0x4000_4000) };

/// A byte with the counter at its receipt. Stamped here and not in the main
/// loop: what the loop is busy with must not end up in the clock of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    pub byte: u8,
    pub counter: u32,
}

static RX: Mutex<RefCell<Deque<Received, RX_QUEUE>>> = Mutex::new(RefCell::new(Deque::new()));
static TX: Mutex<RefCell<Deque<u8, TX_QUEUE>>> = Mutex::new(RefCell::new(Deque::new()));
static RX_DROPPED: AtomicU32 = AtomicU32::new(0);

/// Sets the rate and turns both directions on.
pub fn start() {
    UART.write(CTRL, 0);
    UART.write(BAUD_DIV, CLOCK_HZ / BAUD);
    UART.write(INT_STATUS, TX_DONE | RX_DONE);
    UART.write(CTRL, ENABLE_ALL);
}

/// The oldest received byte.
pub fn receive() -> Option<Received> {
    critical_section::with(|cs| RX.borrow_ref_mut(cs).pop_front())
}

/// Bytes that were dropped because the main loop was late.
pub fn dropped() -> u32 {
    RX_DROPPED.load(Ordering::Relaxed)
}

/// Whether all that was to be sent has gone, but for the byte on its way.
pub fn is_idle() -> bool {
    critical_section::with(|cs| TX.borrow_ref(cs).is_empty())
}

/// Queues a line and starts sending. To be called when [`is_idle`]; what does not
/// fit is left out and found by the other side's CRC.
pub fn send(bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    critical_section::with(|cs| {
        let mut queue = TX.borrow_ref_mut(cs);
        for byte in bytes {
            if queue.push_back(*byte).is_err() {
                break;
            }
        }
    });
    // The handler sends the first byte; the hardware calls it for the others.
    cortex_m::peripheral::NVIC::pend(Irq::Uart0Tx);
}

/// A byte came in.
pub extern "C" fn on_receive() {
    let counter = timer::counter();
    UART.write(INT_STATUS, RX_DONE);
    let received = Received {
        byte: UART.read(DATA) as u8,
        counter,
    };
    critical_section::with(|cs| {
        if RX.borrow_ref_mut(cs).push_back(received).is_err() {
            RX_DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    });
    wake::wake();
}

/// The transmitter has room: one byte at a time, so that it stays short.
pub extern "C" fn on_sent() {
    UART.write(INT_STATUS, TX_DONE);
    if UART.read(STATE) & TX_FULL != 0 {
        return;
    }
    let (next, more) = critical_section::with(|cs| {
        let mut queue = TX.borrow_ref_mut(cs);
        (queue.pop_front(), !queue.is_empty())
    });
    if let Some(byte) = next {
        UART.write(DATA, byte.into());
    }
    if !more {
        wake::wake();
    }
}
