//! The serial line over UART 0: GP0 sends, GP1 receives.
//!
//! Always holds: nothing here waits, and a byte that the hardware lost is counted. Its
//! FIFOs stay off: with them the last bytes of a frame would be stamped late.

use embassy_rp::interrupt::typelevel::{Handler, Interrupt, UART0_IRQ};
use embassy_rp::peripherals::{PIN_0, PIN_1, UART0};
use embassy_rp::uart::{Blocking, Config, Uart};
use embassy_rp::{Peri, bind_interrupts, pac};
use forebay_board_common::baud;
use forebay_board_hal::run::{PORT, wake};

use crate::chip::{CORE_HZ, counter};

/// Baud rate.
pub const BAUD: u32 = 115_200;
// The UART divides the core's clock in 64ths of 16.
const _: () = assert!(baud::error_permille(CORE_HZ * 4, BAUD) < 10);

bind_interrupts!(struct Irqs {
    UART0_IRQ => Bytes;
});

struct Bytes;

impl Handler<UART0_IRQ> for Bytes {
    unsafe fn on_interrupt() {
        let stamp = counter();
        let uart = pac::UART0;
        uart.uarticr().write(|w| {
            w.set_rxic(true);
            w.set_txic(true);
        });
        while !uart.uartfr().read().rxfe() {
            let data = uart.uartdr().read();
            if data.oe() {
                PORT.on_overrun(1);
            }
            PORT.on_received(&[data.data()], stamp);
            wake();
        }
        if !uart.uartfr().read().txff() {
            match PORT.next_byte() {
                Some(byte) => uart.uartdr().write(|w| w.set_data(byte)),
                // The last one has left: the next line may be written.
                None => wake(),
            }
        }
    }
}

/// Turns both directions on; the line works as long as what it returns lives.
pub fn start(
    uart: Peri<'static, UART0>,
    tx: Peri<'static, PIN_0>,
    rx: Peri<'static, PIN_1>,
) -> Uart<'static, Blocking> {
    let mut config = Config::default();
    config.baudrate = BAUD;
    let line = Uart::new_blocking(uart, tx, rx, config);
    let _ = Irqs;
    pac::UART0.uartlcr_h().modify(|w| w.set_fen(false));
    pac::UART0.uartimsc().write(|w| {
        w.set_rxim(true);
        w.set_txim(true);
    });
    // SAFETY: its handler is bound, and shares only what is behind critical sections.
    unsafe { UART0_IRQ::enable() };
    line
}

/// Has the handler send the first byte; the hardware calls it for the others.
pub fn kick() {
    UART0_IRQ::pend();
}
