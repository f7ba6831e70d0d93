//! The serial line over USB.

use embassy_nrf::interrupt::typelevel::{Handler, USBD as Irq};
use embassy_nrf::peripherals::USBD;
use embassy_nrf::usb::vbus_detect::{self, HardwareVbusDetect};
use embassy_nrf::usb::{Driver, InterruptHandler};
use embassy_nrf::{Peri, bind_interrupts, pac};
use forebay_board_hal::usb;

use crate::chip::counter;

bind_interrupts!(struct Irqs {
    USBD => Stamp, InterruptHandler<USBD>;
    CLOCK_POWER => vbus_detect::InterruptHandler;
});

/// Stamps received packets, before the HAL takes note of them.
struct Stamp;

impl Handler<Irq> for Stamp {
    unsafe fn on_interrupt() {
        let packets = pac::USBD.epdatastatus().read();
        // It counts from endpoint 1.
        if packets.epout(usb::DATA_ENDPOINT - 1) {
            usb::on_packet(counter());
        }
    }
}

/// Has the port's next line sent.
pub use forebay_board_hal::usb::kick;

/// Moves bytes for ever.
pub async fn run(peripheral: Peri<'static, USBD>, uid: [u8; 8]) {
    let power = HardwareVbusDetect::new(Irqs);
    usb::run(Driver::new(peripheral, Irqs, power), uid).await;
}
