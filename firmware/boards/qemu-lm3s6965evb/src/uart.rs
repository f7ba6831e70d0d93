//! UART 0, a PL011: moves bytes between the line and the port, in interrupts.
//!
//! Always holds: nothing here waits. Its FIFOs stay off: with them the last bytes of a
//! frame could stay below the threshold that raises the interrupt. Knows no frames.

use forebay_board_common::port::Port;
use forebay_board_qemu::reg::Block;
use forebay_board_qemu::wake;

use crate::vectors::Irq;
use crate::{CLOCK_HZ, timer};

/// Baud rate; QEMU does not pace it, a board does.
pub const BAUD: u32 = 115_200;
/// Divisor in 64ths, rounded.
const DIVISOR: u32 = (CLOCK_HZ * 4 + BAUD / 2) / BAUD;

/// Between the interrupts and the main loop.
pub static PORT: Port = Port::new();

// Registers, counted in words.
const DATA: usize = 0;
const FLAGS: usize = 6;
const INTEGER_DIVISOR: usize = 9;
const FRACTION_DIVISOR: usize = 10;
const LINE_CONTROL: usize = 11;
const CONTROL: usize = 12;
const INT_MASK: usize = 14;
const INT_CLEAR: usize = 17;

const RX_EMPTY: u32 = 1 << 4;
const TX_FULL: u32 = 1 << 5;
const EIGHT_BITS: u32 = 0b11 << 5;
const ENABLE_ALL: u32 = 1 | 1 << 8 | 1 << 9; // UART, TX, RX
const RX: u32 = 1 << 4;
const TX: u32 = 1 << 5;
const OVERRUN: u32 = 1 << 11; // beside the byte

// SAFETY: UART 0 (`info mtree`: 0x4000c000, pl011).
static UART: Block = unsafe { Block::at(0x4000_c000) };

/// Sets the rate and turns both directions on.
pub fn start() {
    UART.write(CONTROL, 0);
    UART.write(INTEGER_DIVISOR, DIVISOR / 64);
    UART.write(FRACTION_DIVISOR, DIVISOR % 64);
    UART.write(LINE_CONTROL, EIGHT_BITS);
    UART.write(INT_CLEAR, RX | TX);
    UART.write(INT_MASK, RX | TX);
    UART.write(CONTROL, ENABLE_ALL);
}

/// Has the handler send the first byte; the hardware calls it for the others.
pub fn kick() {
    cortex_m::peripheral::NVIC::pend(Irq::Uart0);
}

/// A byte came in, or the transmitter has room, or both.
pub extern "C" fn on_interrupt() {
    // Stamped here and not in the main loop: what the loop is busy with must not end
    // up in the clock of the gateway.
    let stamp = timer::counter();
    UART.write(INT_CLEAR, RX | TX);
    while UART.read(FLAGS) & RX_EMPTY == 0 {
        let data = UART.read(DATA);
        if data & OVERRUN != 0 {
            PORT.on_overrun(1);
        }
        PORT.on_received(&[data as u8], stamp);
        wake::wake();
    }
    if UART.read(FLAGS) & TX_FULL == 0 {
        match PORT.next_byte() {
            Some(byte) => UART.write(DATA, byte.into()),
            // The last one has left: the next line may be written.
            None => wake::wake(),
        }
    }
}
