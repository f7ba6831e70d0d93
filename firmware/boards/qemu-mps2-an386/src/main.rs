//! Firmware for Arm's MPS2 board with the AN386 image, as QEMU has it: a TMP105 on
//! the I2C bus and the time since boot, sent over UART 0.
//!
//! The main loop owns all; interrupts only move bytes and wake it. It never waits
//! for the line: a line goes out only once the one before it has left.
#![no_std]
#![no_main]

mod i2c;
mod timer;
mod uart;
mod vectors;

use forebay_board_common::clock::Clock;
use forebay_board_common::station::Station;
use forebay_board_common::uptime::Uptime;
use forebay_board_qemu::board::{self, QemuBoard};
use forebay_board_qemu::wake;
use forebay_firmware::Sensor;
use forebay_firmware::sensors::Lm75Sensor;

/// Main clock of the AN386 image, of its UARTs and of its timers.
const CLOCK_HZ: u32 = 25_000_000;
/// Readings in the ring: 32 KiB of 12 bytes each.
const RING: usize = 2_730;
const CHANNELS: usize = 2;
const TMP105_ADDRESS: u8 = 0x48;
const TEMPERATURE_PERIOD_US: u32 = 100_000;
const UPTIME_PERIOD_US: u32 = 1_000_000;

type Device = forebay_firmware::Device<RING, CHANNELS>;

#[cortex_m_rt::entry]
fn main() -> ! {
    // The attribute makes it a plain `&mut`: `main` runs once.
    static mut DEVICE: Device = Device::unstarted();
    let config = board::begin(CLOCK_HZ);
    timer::start();
    uart::start();
    let mut board = QemuBoard::new(uart::kick);
    let clock = Clock::new(timer::counter, CLOCK_HZ);
    let mut temperature = Lm75Sensor::new(
        i2c::bus(),
        TMP105_ADDRESS,
        "temperature",
        TEMPERATURE_PERIOD_US,
    );
    let mut uptime = Uptime::new(&clock, UPTIME_PERIOD_US);

    let specs = [temperature.spec(), uptime.spec()];
    if DEVICE.start(config, &specs).is_err() {
        // `expect` would bring all of `fmt` into flash.
        panic!("the table of channels is wrong");
    }
    DEVICE.remember(board.kept());
    let mut station = Station::<CHANNELS>::new(&uart::PORT, &clock, &specs);
    vectors::unmask_all();
    loop {
        let sensors: &mut [&mut dyn Sensor] = &mut [&mut temperature, &mut uptime];
        timer::wake_in(station.turn(DEVICE, sensors, &mut board));
        wake::sleep();
    }
}
