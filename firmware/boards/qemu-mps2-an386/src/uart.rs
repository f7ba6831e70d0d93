//! CMSDK UART 0: moves bytes between the line and the port, in interrupts.
//!
//! Always holds: nothing here waits. Knows no frames.

use forebay_board_common::port::Port;
use forebay_board_qemu::reg::Block;
use forebay_board_qemu::wake;

use crate::vectors::Irq;
use crate::{CLOCK_HZ, timer};

/// Baud rate; QEMU does not pace it, a board does.
pub const BAUD: u32 = 115_200;

/// Between the interrupts and the main loop.
pub static PORT: Port = Port::new();

const DATA: usize = 0;
const STATE: usize = 1;
const CTRL: usize = 2;
const INT_STATUS: usize = 3;
const BAUD_DIV: usize = 4;

const TX_FULL: u32 = 1;
const RX_OVERRUN: u32 = 1 << 3;
const ENABLE_ALL: u32 = 0b1111; // TX, RX and the interrupt of each
const TX_DONE: u32 = 1;
const RX_DONE: u32 = 1 << 1;

// SAFETY: UART 0 of the AN386 image (`info mtree`: 0x40004000, uart).
static UART: Block = unsafe { Block::at(0x4000_4000) };

/// Sets the rate and turns both directions on.
pub fn start() {
    UART.write(CTRL, 0);
    UART.write(BAUD_DIV, CLOCK_HZ / BAUD);
    UART.write(INT_STATUS, TX_DONE | RX_DONE);
    UART.write(CTRL, ENABLE_ALL);
}

/// Has the handler send the first byte; the hardware calls it for the others.
pub fn kick() {
    cortex_m::peripheral::NVIC::pend(Irq::Uart0Tx);
}

/// A byte came in. Stamped here and not in the main loop: what the loop is busy with
/// must not end up in the clock of the gateway.
pub extern "C" fn on_receive() {
    let stamp = timer::counter();
    UART.write(INT_STATUS, RX_DONE);
    if UART.read(STATE) & RX_OVERRUN != 0 {
        UART.write(STATE, RX_OVERRUN);
        PORT.on_overrun(1);
    }
    PORT.on_received(&[UART.read(DATA) as u8], stamp);
    wake::wake();
}

/// The transmitter has room: one byte at a time, so that it stays short.
pub extern "C" fn on_sent() {
    UART.write(INT_STATUS, TX_DONE);
    if UART.read(STATE) & TX_FULL != 0 {
        return;
    }
    match PORT.next_byte() {
        Some(byte) => UART.write(DATA, byte.into()),
        // The last one has left: the next line may be written.
        None => wake::wake(),
    }
}
