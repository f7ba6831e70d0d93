//! Firmware for boards with an STM32F405, such as the WeAct core board: the chip's
//! temperature, the time since boot, and an LM75 if there is one, over
//! USART 1 or, with the feature `usb`, over USB.
#![no_std]
#![no_main]

mod chip;
#[cfg(not(feature = "usb"))]
mod uart;
#[cfg(feature = "usb")]
mod usb;

use chip::Die;
use embassy_stm32::gpio::{Level, Output, Speed};
use embedded_hal::digital::PinState;
use forebay_board_chip::stack;
use forebay_board_common::bitbang::BitBang;
use forebay_board_hal::board::{self, HalBoard};
use forebay_board_hal::delay::Cycles;
use forebay_board_hal::program::{self, CHANNELS, PERIOD_US, TIMER_HZ, Timer};

/// Readings in the ring: 96 KiB of 12 bytes each.
const RING: usize = 8_192;

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
    // First, as the crystal is waited for.
    chip::start_watchdog();
    let chip = embassy_stm32::init(chip::settings());
    chip::start_clocks();
    chip::start_counter();
    let uid = chip::uid();
    let config = board::config(uid, chip::reset_cause(), TIMER_HZ, chip::random);
    let light = Output::new(chip.PB2, Level::Low, Speed::Low);
    let mut board = HalBoard::new(line::kick, light, PinState::High, chip::feed);

    let mut die = Die::new(PERIOD_US);
    let (sda, scl) = (chip::open_drain(chip.PB7), chip::open_drain(chip.PB6));
    let bus = BitBang::new(scl, sda, Cycles::<{ chip::CORE_HZ }>);
    chip::start_alarm(chip::Irqs);
    #[cfg(feature = "usb")]
    let bytes = line::run(chip.USB_OTG_FS, chip.PA12, chip.PA11, uid);
    #[cfg(not(feature = "usb"))]
    line::start(chip.PA9, chip.PA10);
    #[cfg(not(feature = "usb"))]
    let bytes = core::future::pending();
    let timer = Timer {
        counter: chip::counter,
        alarm: chip::wake_in,
    };
    program::run(DEVICE, config, &mut board, (&mut die, bus), timer, bytes)
}
