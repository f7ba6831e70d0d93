//! The serial line over USB.

use embassy_rp::interrupt::typelevel::{Handler, USBCTRL_IRQ};
use embassy_rp::peripherals::USB;
use embassy_rp::usb::{Driver, InterruptHandler};
use embassy_rp::{Peri, bind_interrupts, pac};
use forebay_board_hal::usb;

use crate::chip::counter;

bind_interrupts!(struct Irqs {
    USBCTRL_IRQ => Stamp, InterruptHandler<USB>;
});

/// Stamps received packets, before the HAL takes note of them.
struct Stamp;

impl Handler<USBCTRL_IRQ> for Stamp {
    unsafe fn on_interrupt() {
        if pac::USB.buff_status().read().ep_out(usb::DATA_ENDPOINT) {
            usb::on_packet(counter());
        }
    }
}

/// Has the port's next line sent.
pub use forebay_board_hal::usb::kick;

/// Moves bytes for ever.
pub async fn run(peripheral: Peri<'static, USB>, uid: [u8; 8]) {
    usb::run(Driver::new(peripheral, Irqs), uid).await;
}
