//! The serial line over USART 1: PA9 sends, PA10 receives.
//!
//! Always holds: nothing here waits, and a byte that the hardware lost is counted. Only
//! the handler touches the control register, so that no change is lost.

use embassy_stm32::interrupt::typelevel::{Handler, Interrupt, USART1};
use embassy_stm32::pac::gpio::vals::{Moder, Pupdr};
use embassy_stm32::peripherals::{PA9, PA10};
use embassy_stm32::{Peri, bind_interrupts, pac};
use forebay_board_common::baud;
use forebay_board_hal::run::{PORT, wake};

use crate::chip::{CORE_HZ, counter};

/// Baud rate.
pub const BAUD: u32 = 115_200;
/// The bus whose clock is divided.
const APB2_HZ: u32 = CORE_HZ / 2;
/// A whole number of its clocks.
const DIVISOR: u16 = ((APB2_HZ + BAUD / 2) / BAUD) as u16;
const TX: usize = 9;
const RX: usize = 10;
/// The alternate function of these pins that is USART 1.
const USART1_ON_PINS: u8 = 7;
const _: () = assert!(baud::error_permille(APB2_HZ, BAUD) < 10);

bind_interrupts!(struct Irqs {
    USART1 => Bytes;
});

struct Bytes;

impl Handler<USART1> for Bytes {
    unsafe fn on_interrupt() {
        let stamp = counter();
        let uart = pac::USART1;
        let state = uart.sr().read();
        if state.rxne() || state.ore() {
            // Read after the state, it clears the errors too.
            let byte = uart.dr().read().dr() as u8;
            if state.ore() {
                PORT.on_overrun(1);
            }
            if state.rxne() {
                PORT.on_received(&[byte], stamp);
            }
            wake();
        }
        if state.txe() {
            let byte = PORT.next_byte();
            match byte {
                Some(byte) => uart.dr().write(|w| w.set_dr(byte.into())),
                // The last one has left: the next line may be written.
                None => wake(),
            }
            uart.cr1().modify(|w| w.set_txeie(byte.is_some()));
        }
    }
}

/// Turns both directions on. The pins are not to be used otherwise from then on.
pub fn start(_tx: Peri<'static, PA9>, _rx: Peri<'static, PA10>) {
    let uart = pac::USART1;
    uart.brr().write(|w| w.set_brr(DIVISOR));
    uart.cr1().write(|w| {
        w.set_ue(true);
        w.set_te(true);
        w.set_re(true);
        w.set_rxneie(true);
    });
    // Only now, so that the line does not show a break.
    let pins = pac::GPIOA;
    // A line that nobody drives is idle.
    pins.pupdr().modify(|w| w.set_pupdr(RX, Pupdr::PULL_UP));
    for pin in [TX, RX] {
        pins.afr(pin / 8)
            .modify(|w| w.set_afr(pin % 8, USART1_ON_PINS));
        pins.moder().modify(|w| w.set_moder(pin, Moder::ALTERNATE));
    }
    let _ = Irqs;
    // SAFETY: its handler is bound, and shares only what is behind critical sections.
    unsafe { USART1::enable() };
}

/// Has the handler send the first byte; the hardware calls it for the others.
pub fn kick() {
    USART1::pend();
}
