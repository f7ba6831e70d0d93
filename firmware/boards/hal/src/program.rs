//! What every board on these HALs measures: the chip's own temperature, the time since
//! boot, and an LM75 if one answers on the bus. The boards bring the parts.

use embedded_hal::digital::OutputPin;
use embedded_hal::i2c::I2c;
use forebay_board_common::clock::Clock;
use forebay_board_common::station::Station;
use forebay_board_common::uptime::Uptime;
use forebay_firmware::sensors::Lm75Sensor;
use forebay_firmware::{Device, DeviceConfig, Sensor};

use crate::board::HalBoard;
use crate::run::{PORT, block_on, both, main_loop};

/// Channels of each board.
pub const CHANNELS: usize = 3;
/// Rate of the counter behind the ticks: the boards set their timers to it.
pub const TIMER_HZ: u32 = 1_000_000;
/// Sampling period of the temperatures, us.
pub const PERIOD_US: u32 = 500_000;

const UPTIME_PERIOD_US: u32 = 1_000_000;
const LM75_ADDRESS: u8 = 0x48;

/// The board's timer.
#[derive(Debug, Clone, Copy)]
pub struct Timer {
    /// Counts at [`TIMER_HZ`].
    pub counter: fn() -> u32,
    /// That of [`main_loop`].
    pub alarm: fn(u32),
}

/// Samples, keeps and sends for ever. `line` moves bytes, for ever, where interrupts do
/// not.
// Apart from the board's `main`, the HAL's start is no longer folded into that one, with
// what its settings leave out: 1.7 KB of flash.
#[inline(always)]
pub fn run<const RING: usize, Light: OutputPin, Feed: FnMut()>(
    device: &mut Device<RING, CHANNELS>,
    config: DeviceConfig,
    board: &mut HalBoard<Light, Feed>,
    (die, mut bus): (&mut dyn Sensor, impl I2c),
    timer: Timer,
    line: impl Future<Output = ()>,
) -> ! {
    let clock = Clock::new(timer.counter, TIMER_HZ);
    let mut uptime = Uptime::new(&clock, UPTIME_PERIOD_US);
    let found = bus.write(LM75_ADDRESS, &[0]).is_ok();
    let mut lm75 = Lm75Sensor::new(bus, LM75_ADDRESS, "temperature", PERIOD_US);
    let specs = [die.spec(), uptime.spec(), lm75.spec()];
    // Without the sensor its channel is not there, instead of failing all the time.
    let specs = &specs[..if found { CHANNELS } else { CHANNELS - 1 }];
    if device.start(config, specs).is_err() {
        panic!("the table of channels is wrong");
    }
    device.remember(board.kept());
    let mut station = Station::new(&PORT, &clock, specs);
    let sensors: &mut [&mut dyn Sensor] = &mut [die, &mut uptime, &mut lm75];
    let turns = main_loop(device, &mut station, sensors, board, timer.alarm);
    block_on(both(turns, line))
}
