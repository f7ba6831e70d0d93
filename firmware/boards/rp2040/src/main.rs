//! Firmware for boards with an RP2040, such as the Raspberry Pi Pico: the chip's
//! temperature, the time since boot, and an LM75 if there is one, over
//! UART 0 or, with the feature `usb`, over USB.
#![no_std]
#![no_main]

mod chip;

use embassy_rp::gpio::{Level, Output, OutputOpenDrain};
use embassy_rp::watchdog::Watchdog;
use embedded_hal::digital::PinState;
use forebay_board_chip::stack;
use forebay_board_common::bitbang::BitBang;
use forebay_board_hal::board::{self, HalBoard};
use forebay_board_hal::delay::Cycles;
use forebay_board_hal::program::{self, CHANNELS, PERIOD_US, TIMER_HZ, Timer};
use forebay_board_rp::chip::{self as rp, CORE_HZ, Die};

/// Readings in the ring: 192 KiB of 12 bytes each.
const RING: usize = 16_384;

#[cfg(not(feature = "usb"))]
use forebay_board_rp::uart as line;
#[cfg(feature = "usb")]
use forebay_board_rp::usb as line;

type Device = forebay_firmware::Device<RING, CHANNELS>;

#[cortex_m_rt::entry]
fn main() -> ! {
    // The attribute makes it a plain `&mut`: `main` runs once.
    static mut DEVICE: Device = Device::unstarted();
    stack::paint();
    let chip = embassy_rp::init(embassy_rp::config::Config::default());
    let mut watchdog = Watchdog::new(chip.WATCHDOG);
    let cause = chip::reset_cause(&watchdog);
    watchdog.start(rp::WATCHDOG_TIME);
    let uid = chip::uid(chip.FLASH);
    let config = board::config(uid, cause, TIMER_HZ, rp::random);
    let light = Output::new(chip.PIN_25, Level::Low);
    let feed = || watchdog.feed(rp::WATCHDOG_TIME);
    let mut board = HalBoard::new(line::kick, light, PinState::High, feed);

    let mut die = Die::new(chip.ADC, chip.ADC_TEMP_SENSOR, PERIOD_US);
    let mut sda = OutputOpenDrain::new(chip.PIN_4, Level::High);
    let mut scl = OutputOpenDrain::new(chip.PIN_5, Level::High);
    sda.set_pullup(true);
    scl.set_pullup(true);
    let bus = BitBang::new(scl, sda, Cycles::<CORE_HZ>);
    rp::start_alarm(rp::Irqs);
    #[cfg(feature = "usb")]
    let bytes = line::run(chip.USB, uid);
    #[cfg(not(feature = "usb"))]
    let _line = line::start(chip.UART0, chip.PIN_0, chip.PIN_1);
    #[cfg(not(feature = "usb"))]
    let bytes = core::future::pending();
    let timer = Timer {
        counter: rp::counter,
        alarm: rp::wake_in,
    };
    program::run(DEVICE, config, &mut board, (&mut die, bus), timer, bytes)
}
