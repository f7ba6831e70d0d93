//! Firmware for boards with an RP2040, such as the Raspberry Pi Pico: the chip's
//! temperature, the time since boot, and an LM75 if there is one, over
//! UART 0 or, with the feature `usb`, over USB.
#![no_std]
#![no_main]

mod chip;

use embassy_rp::gpio::{Level, Output, OutputOpenDrain};
use embassy_rp::watchdog::Watchdog;
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
use forebay_board_rp::chip::{self as rp, CORE_HZ, Die};
use forebay_firmware::Sensor;
use forebay_firmware::sensors::Lm75Sensor;

const TIMER_HZ: u32 = 1_000_000;
/// Readings in the ring: 192 KiB of 12 bytes each.
const RING: usize = 16_384;
const CHANNELS: usize = 3;
const LM75_ADDRESS: u8 = 0x48;
const PERIOD_US: u32 = 500_000;
const UPTIME_PERIOD_US: u32 = 1_000_000;

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

    let clock = Clock::new(rp::counter, TIMER_HZ);
    let mut die = Die::new(chip.ADC, chip.ADC_TEMP_SENSOR, PERIOD_US);
    let mut uptime = Uptime::new(&clock, UPTIME_PERIOD_US);
    let mut sda = OutputOpenDrain::new(chip.PIN_4, Level::High);
    let mut scl = OutputOpenDrain::new(chip.PIN_5, Level::High);
    sda.set_pullup(true);
    scl.set_pullup(true);
    let mut bus = BitBang::new(scl, sda, Cycles::<CORE_HZ>);
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
    rp::start_alarm(rp::Irqs);
    let turns = main_loop(DEVICE, &mut station, sensors, &mut board, rp::wake_in);
    #[cfg(feature = "usb")]
    let turns = both(turns, line::run(chip.USB, uid));
    #[cfg(not(feature = "usb"))]
    let _line = line::start(chip.UART0, chip.PIN_0, chip.PIN_1);
    block_on(turns)
}
