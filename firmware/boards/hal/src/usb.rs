//! The serial port over USB as a future, between a HAL's driver and the port.

use core::sync::atomic::{AtomicU32, Ordering};

use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::signal::Signal;
use embassy_usb_driver::Driver;
use forebay_board_common::cdc;

use crate::run::{PORT, both, wake};

/// The endpoint that received bytes come in by, for the interrupt that stamps them.
pub const DATA_ENDPOINT: usize = cdc::DATA_ENDPOINT as usize;

static SEND: Signal<CriticalSectionRawMutex, ()> = Signal::new();
static STAMP: AtomicU32 = AtomicU32::new(0);

/// Has the writer look at the port.
pub fn kick() {
    SEND.signal(());
}

/// To be called by the USB interrupt when a packet has come in by [`DATA_ENDPOINT`],
/// with the counter of the board. The next one comes only after this one was taken.
pub fn on_packet(counter: u32) {
    STAMP.store(counter, Ordering::Relaxed);
}

/// Enumerates and moves bytes, for ever. A host that is not there or does not read
/// holds up nothing but the line.
pub async fn run<'d, D: Driver<'d>>(driver: D, uid: [u8; 8]) {
    let Ok((mut control, mut reader, mut writer)) = cdc::open(driver, uid) else {
        panic!("the chip has no endpoints left");
    };
    let control = async {
        loop {
            if control.step().await {
                PORT.on_reopened();
                SEND.signal(());
            }
        }
    };
    let reader = async {
        loop {
            reader.step(&PORT, || STAMP.load(Ordering::Relaxed)).await;
            wake();
        }
    };
    let writer = async {
        loop {
            SEND.wait().await;
            writer.drain(&PORT).await;
            wake();
        }
    };
    both(control, both(reader, writer)).await;
}
