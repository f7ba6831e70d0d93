//! The serial line over UART 0: P0.06 sends, P0.08 receives; the DK's probe brings them
//! to its USB socket.
//!
//! Always holds: nothing here waits, and a byte that the hardware lost is counted. Each
//! byte is received by a transfer of its own, so that it is stamped when it comes; the
//! next ones wait in the UART's FIFO of six. Bound: one packet on its way out.

use core::sync::atomic::{AtomicU8, Ordering, compiler_fence};

use embassy_nrf::gpio::{Input, Level, Output, OutputDrive, Pin, Pull};
use embassy_nrf::interrupt::typelevel::{Handler, Interrupt, UARTE0 as Irq};
use embassy_nrf::pac::shared::regs::Psel;
use embassy_nrf::pac::uarte::vals::{Baudrate, Enable};
use embassy_nrf::peripherals::{P0_06, P0_08, UARTE0};
use embassy_nrf::{Peri, bind_interrupts, pac};
use forebay_board_common::baud;
use forebay_board_hal::run::{PORT, wake};

use crate::chip::counter;

/// Baud rate.
pub const BAUD: u32 = 115_200;
const RATE: Baudrate = Baudrate::Baud115200;
/// What the UART divides.
const CLOCK_HZ: u32 = 16_000_000;
const _: () = assert!(baud::error_permille(CLOCK_HZ, BAUD) < 10);

/// Bytes that one transfer sends.
const PACKET: usize = 32;

/// Where the hardware reads and writes by itself.
static SENT: [AtomicU8; PACKET] = [const { AtomicU8::new(0) }; PACKET];
static RECEIVED: AtomicU8 = AtomicU8::new(0);
/// Bytes on their way out.
static SENDING: AtomicU8 = AtomicU8::new(0);

bind_interrupts!(struct Irqs {
    UARTE0 => Bytes;
});

struct Bytes;

impl Handler<Irq> for Bytes {
    unsafe fn on_interrupt() {
        let stamp = counter();
        let uart = pac::UARTE0;
        if uart.events_error().read() != 0 {
            uart.events_error().write_value(0);
            let source = uart.errorsrc().read();
            // A one clears.
            uart.errorsrc().write_value(source);
            if source.overrun() {
                PORT.on_overrun(1);
            }
        }
        let received = uart.events_dma().rx().end();
        if received.read() != 0 {
            received.write_value(0);
            // The byte is read after the event that tells of it.
            compiler_fence(Ordering::SeqCst);
            PORT.on_received(&[RECEIVED.load(Ordering::Relaxed)], stamp);
            uart.tasks_dma().rx().start().write_value(1);
            wake();
        }
        let sent = uart.events_dma().tx().end();
        if sent.read() != 0 {
            sent.write_value(0);
            PORT.on_packet_sent(SENDING.load(Ordering::Relaxed).into());
            SENDING.store(0, Ordering::Relaxed);
        }
        if SENDING.load(Ordering::Relaxed) == 0 {
            send();
        }
    }
}

/// Sends the next bytes of the line, or has the next line written.
fn send() {
    let mut packet = [0; PACKET];
    let count = PORT.next_packet(&mut packet);
    if count == 0 {
        wake();
        return;
    }
    for (place, byte) in SENT.iter().zip(packet) {
        place.store(byte, Ordering::Relaxed);
    }
    SENDING.store(count as u8, Ordering::Relaxed);
    let transfer = pac::UARTE0.dma().tx();
    transfer.maxcnt().write(|w| w.set_maxcnt(count as u16));
    // All bytes are in place before the hardware reads them.
    compiler_fence(Ordering::SeqCst);
    pac::UARTE0.tasks_dma().tx().start().write_value(1);
}

/// Turns both directions on; the line works as long as what it returns lives.
pub fn start(
    _uart: Peri<'static, UARTE0>,
    tx: Peri<'static, P0_06>,
    rx: Peri<'static, P0_08>,
) -> (Output<'static>, Input<'static>) {
    let uart = pac::UARTE0;
    let psel = uart.psel();
    psel.txd().write_value(Psel(tx.pin().into()));
    psel.rxd().write_value(Psel(rx.pin().into()));
    let pins = (
        Output::new(tx, Level::High, OutputDrive::Standard),
        Input::new(rx, Pull::Up),
    );
    uart.baudrate().write(|w| w.set_baudrate(RATE));
    uart.enable().write(|w| w.set_enable(Enable::Enabled));
    let dma = uart.dma();
    dma.tx().ptr().write_value(SENT.as_ptr() as u32);
    dma.rx().ptr().write_value(RECEIVED.as_ptr() as u32);
    dma.rx().maxcnt().write(|w| w.set_maxcnt(1));
    uart.intenset().write(|w| {
        w.set_dmarxend(true);
        w.set_dmatxend(true);
        w.set_error(true);
    });
    let _ = Irqs;
    // SAFETY: its handler is bound, and shares only what is behind critical sections.
    unsafe { Irq::enable() };
    uart.tasks_dma().rx().start().write_value(1);
    pins
}

/// Has the handler send the first bytes; the hardware calls it for the others.
pub fn kick() {
    Irq::pend();
}
