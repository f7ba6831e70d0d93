//! The serial line over USB: PA11 and PA12.

use embassy_stm32::interrupt::typelevel::{Handler, OTG_FS as Irq};
use embassy_stm32::peripherals::{PA11, PA12, USB_OTG_FS};
use embassy_stm32::usb::{Config, Driver, InterruptHandler};
use embassy_stm32::{Peri, bind_interrupts, pac};
use forebay_board_common::cdc;
use forebay_board_hal::usb;

use crate::chip::counter;

bind_interrupts!(struct Irqs {
    OTG_FS => Stamp, InterruptHandler<USB_OTG_FS>;
});

/// What the oldest entry of the receive queue is when it is a packet with data.
const DATA_RECEIVED: u8 = 2;

/// Stamps received packets, before the HAL takes them out.
struct Stamp;

impl Handler<Irq> for Stamp {
    unsafe fn on_interrupt() {
        let registers = pac::USB_OTG_FS;
        if !registers.gintsts().read().rxflvl() {
            return;
        }
        // Looks, and leaves it there.
        let oldest = registers.grxstsr().read();
        let data = oldest.pktstsd().to_bits() == DATA_RECEIVED;
        if data && usize::from(oldest.epnum()) == usb::DATA_ENDPOINT {
            usb::on_packet(counter());
        }
    }
}

/// Has the port's next line sent.
pub use forebay_board_hal::usb::kick;

/// Moves bytes for ever.
pub async fn run(
    peripheral: Peri<'static, USB_OTG_FS>,
    plus: Peri<'static, PA12>,
    minus: Peri<'static, PA11>,
    uid: [u8; 8],
) {
    // One packet each of the control endpoint and of ours.
    let mut received = [0; 2 * cdc::PACKET];
    let mut config = Config::default();
    // No pin of this board sees the bus's supply.
    config.vbus_detection = false;
    let driver = Driver::new_fs(peripheral, Irqs, plus, minus, &mut received, config);
    usb::run(driver, uid).await;
}
