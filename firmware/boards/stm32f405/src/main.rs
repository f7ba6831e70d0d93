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
use embedded_hal::i2c::I2c;
use forebay_board_chip::stack;
use forebay_board_common::bitbang::BitBang;
use forebay_board_common::clock::Clock;
use forebay_board_common::station::Station;
use forebay_board_common::uptime::Uptime;
use forebay_board_hal::board::{self, HalBoard};
use forebay_board_hal::delay::Cycles;
#[cfg(feature = "usb")]
use forebay_board_hal::run::both;
use forebay_board_hal::run::{PORT, block_on, main_loop};
use forebay_firmware::Sensor;
use forebay_firmware::sensors::Lm75Sensor;

const TIMER_HZ: u32 = 1_000_000;
/// Readings in the ring: 96 KiB of 12 bytes each.
const RING: usize = 8_192;
const CHANNELS: usize = 3;
const LM75_ADDRESS: u8 = 0x48;
const PERIOD_US: u32 = 500_000;
const UPTIME_PERIOD_US: u32 = 1_000_000;

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

    let clock = Clock::new(chip::counter, TIMER_HZ);
    let mut die = Die::new(PERIOD_US);
    let mut uptime = Uptime::new(&clock, UPTIME_PERIOD_US);
    let (sda, scl) = (chip::open_drain(chip.PB7), chip::open_drain(chip.PB6));
    let mut bus = BitBang::new(scl, sda, Cycles::<{ chip::CORE_HZ }>);
    let found = bus.write(LM75_ADDRESS, &[0]).is_ok();
    let mut lm75 = Lm75Sensor::new(bus, LM75_ADDRESS, "temperature", PERIOD_US);

    let specs = [die.spec(), uptime.spec(), lm75.spec()];
    // Without the sensor its channel is not there, instead of failing all the time.
    let specs = &specs[..if found { CHANNELS } else { CHANNELS - 1 }];
    if DEVICE.start(config, specs).is_err() {
        panic!("the table of channels is wrong");
    }
    DEVICE.remember(board.kept());
    let mut station = Station::new(&PORT, &clock, specs);
    let sensors: &mut [&mut dyn Sensor] = &mut [&mut die, &mut uptime, &mut lm75];
    chip::start_alarm(chip::Irqs);
    let turns = main_loop(DEVICE, &mut station, sensors, &mut board, chip::wake_in);
    #[cfg(feature = "usb")]
    let turns = both(turns, line::run(chip.USB_OTG_FS, chip.PA12, chip.PA11, uid));
    #[cfg(not(feature = "usb"))]
    line::start(chip.PA9, chip.PA10);
    block_on(turns)
}
