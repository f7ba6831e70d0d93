//! Firmware for boards with an nRF52840, such as the nRF52840 DK: the chip's
//! temperature, the time since boot, and an LM75 if there is one, over
//! UART 0 or, with the feature `usb`, over USB.
#![no_std]
#![no_main]

mod chip;
#[cfg(not(feature = "usb"))]
mod uart;
#[cfg(feature = "usb")]
mod usb;

use chip::Die;
use embassy_nrf::gpio::{Level, Output, OutputDrive};
use embedded_hal::digital::PinState;
use forebay_board_chip::stack;
use forebay_board_common::bitbang::BitBang;
use forebay_board_hal::board::{self, HalBoard};
use forebay_board_hal::delay::Cycles;
use forebay_board_hal::program::{self, CHANNELS, PERIOD_US, TIMER_HZ, Timer};

/// The chip has no other.
const CORE_HZ: u32 = 64_000_000;
/// Readings in the ring: 192 KiB of 12 bytes each.
const RING: usize = 16_384;

#[cfg(not(feature = "usb"))]
use uart as line;
#[cfg(feature = "usb")]
use usb as line;

type Device = forebay_firmware::Device<RING, CHANNELS>;

#[cortex_m_rt::entry]
fn main() -> ! {
    // The attribute makes it a plain `&mut`: `main` runs once.
    static mut DEVICE: Device = Device::unstarted();
    stack::paint();
    let chip = embassy_nrf::init(chip::settings());
    chip::start_counter();
    let mut watchdog = chip::watchdog(chip.WDT);
    let uid = chip::uid();
    let random = || chip::random(chip.RNG);
    let config = board::config(uid, chip::reset_cause(), TIMER_HZ, random);
    let light = Output::new(chip.P0_13, Level::High, OutputDrive::Standard);
    let mut board = HalBoard::new(line::kick, light, PinState::Low, || watchdog.pet());

    let mut die = Die::new(chip.TEMP, PERIOD_US);
    let (sda, scl) = (chip::open_drain(chip.P0_26), chip::open_drain(chip.P0_27));
    let bus = BitBang::new(scl, sda, Cycles::<CORE_HZ>);
    chip::start_alarm(chip::Irqs);
    #[cfg(feature = "usb")]
    let bytes = line::run(chip.USBD, uid);
    #[cfg(not(feature = "usb"))]
    let _line = line::start(chip.UARTE0, chip.P0_06, chip.P0_08);
    #[cfg(not(feature = "usb"))]
    let bytes = core::future::pending();
    let timer = Timer {
        counter: chip::counter,
        alarm: chip::wake_in,
    };
    program::run(DEVICE, config, &mut board, (&mut die, bus), timer, bytes)
}
