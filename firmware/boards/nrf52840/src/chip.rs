//! What only the nRF52840 has: its register for the cause of a reset, its timer, its
//! number, its random numbers, its temperature.

use embassy_nrf::config::{Config, HfclkSource, Reg0Voltage};
use embassy_nrf::gpio::{Flex, OutputDrive, Pin, Pull};
use embassy_nrf::interrupt::typelevel::{Handler, Interrupt, TIMER0};
use embassy_nrf::pac::timer::vals::Bitmode;
use embassy_nrf::peripherals::{RNG, TEMP, WDT};
use embassy_nrf::rng::Rng;
use embassy_nrf::wdt::{self, HaltConfig, Watchdog, WatchdogHandle};
use embassy_nrf::{Peri, bind_interrupts, pac};
use forebay_board_common::{die, station};
use forebay_board_hal::run;
use forebay_firmware::wire::message::{Quality, ResetCause};
use forebay_firmware::{ChannelSpec, Sensor};

bind_interrupts!(pub struct Irqs {
    TIMER0 => Alarm;
});

/// Places of the timer: where it is asked, and when it wakes the core.
const NOW: usize = 0;
const ALARM: usize = 1;
/// 16 MHz by 2 to the 4th.
const TIMER_PRESCALER: u8 = 4;
const ALARM_MIN_US: u32 = 20;

/// The crystal of 32 MHz, without which neither the tick nor USB is exact enough. On
/// boards whose chip makes its own supply, pins at 3.3 V instead of 1.8 V.
pub fn settings() -> Config {
    let mut config = Config::default();
    config.hfclk_source = HfclkSource::ExternalXtal;
    config.dcdc.reg0_voltage = Some(Reg0Voltage::_3V3);
    config
}

/// Ends a sleep, and does no more: what is due is found by looking at the clock.
pub struct Alarm;

impl Handler<TIMER0> for Alarm {
    unsafe fn on_interrupt() {
        pac::TIMER0.events_compare(ALARM).write_value(0);
        run::wake();
    }
}

/// Has the counter go, at a megahertz.
pub fn start_counter() {
    let timer = pac::TIMER0;
    timer.bitmode().write(|w| w.set_bitmode(Bitmode::_32bit));
    timer
        .prescaler()
        .write(|w| w.set_prescaler(TIMER_PRESCALER));
    timer.tasks_clear().write_value(1);
    timer.tasks_start().write_value(1);
}

/// Microseconds, in 32 bits. An interrupt in between makes it a later one, no wrong one.
pub fn counter() -> u32 {
    pac::TIMER0.tasks_capture(NOW).write_value(1);
    pac::TIMER0.cc(NOW).read()
}

/// Has the main loop woken, `us` from now.
pub fn wake_in(us: u32) {
    // A time that has passed already would wake it after a wrap only.
    let at = counter().wrapping_add(us.max(ALARM_MIN_US));
    pac::TIMER0.cc(ALARM).write_value(at);
}

/// Lets [`Alarm`] happen.
pub fn start_alarm(_: Irqs) {
    pac::TIMER0.intenset().write(|w| w.set_compare(ALARM, true));
    // SAFETY: its handler is bound, and shares only what is behind critical sections.
    unsafe { TIMER0::enable() };
}

const WATCHDOG_HZ: u64 = 32_768;
const WATCHDOG_TICKS: u32 = (station::WATCHDOG_US as u64 * WATCHDOG_HZ / 1_000_000) as u32;

/// Starts the watchdog, which waits while a probe holds the core.
pub fn watchdog(wdt: Peri<'static, WDT>) -> WatchdogHandle {
    let mut config = wdt::Config::default();
    config.timeout_ticks = WATCHDOG_TICKS;
    config.action_during_debug_halt = HaltConfig::Pause;
    match Watchdog::try_new::<_, 1>(wdt, config) {
        Ok((_, [handle])) => handle,
        // SAFETY: it runs already, as whoever started before had it; its first handle is fed.
        Err(_) => unsafe { WatchdogHandle::steal::<WDT>(0) },
    }
}

/// Why the chip was reset; forgets it, as the register gathers causes. None is one from
/// power that came or went.
pub fn reset_cause() -> ResetCause {
    let register = pac::POWER.resetreas();
    let found = register.read();
    // A one clears.
    register.write_value(found);
    if found.dog() {
        ResetCause::Watchdog
    } else if found.resetpin() {
        ResetCause::Pin
    } else if found.sreq() {
        ResetCause::Software
    } else if found.0 == 0 {
        ResetCause::PowerOn
    } else {
        ResetCause::Unknown
    }
}

/// A number for a cold start, from thermal noise.
pub fn random(rng: Peri<'_, RNG>) -> u32 {
    let mut rng = Rng::new_blocking(rng);
    rng.set_bias_correction(true);
    rng.blocking_next_u32()
}

/// The number that the factory wrote into the chip.
pub fn uid() -> [u8; 8] {
    let [low, high] = [0, 1].map(|word| pac::FICR.deviceid(word).read());
    (u64::from(high) << 32 | u64::from(low)).to_be_bytes()
}

/// A released line of the I2C bus, with the chip's own pull-up.
pub fn open_drain<'a>(pin: Peri<'a, impl Pin>) -> Flex<'a> {
    let mut line = Flex::new(pin);
    line.set_high();
    line.set_as_input_output(Pull::Up, OutputDrive::Standard0Disconnect1);
    line
}

/// The chip's temperature.
pub struct Die<'a> {
    _temp: Peri<'a, TEMP>,
    period_us: u32,
}

/// It is measured in 36 us; then somebody else has stopped it.
const MEASURE_MAX_US: u32 = 200;

impl<'a> Die<'a> {
    pub fn new(temp: Peri<'a, TEMP>, period_us: u32) -> Self {
        Self {
            _temp: temp,
            period_us,
        }
    }
}

impl Sensor for Die<'_> {
    fn spec(&self) -> ChannelSpec {
        die::spec(self.period_us)
    }

    fn read(&mut self) -> Result<i32, Quality> {
        let temp = pac::TEMP;
        temp.events_datardy().write_value(0);
        temp.tasks_start().write_value(1);
        let begun = counter();
        while temp.events_datardy().read() == 0 {
            if counter().wrapping_sub(begun) > MEASURE_MAX_US {
                return Err(Quality::Stale);
            }
        }
        // Two's complement, in quarters of a degree.
        let quarters = temp.temp().read() as i32;
        temp.tasks_stop().write_value(1);
        Ok(die::nrf_tenths(quarters))
    }
}
