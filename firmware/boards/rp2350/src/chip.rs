//! What only the RP2350 has: its registers for the cause of a reset, its timer, its
//! number, its temperature.

use embassy_rp::adc::{Adc, Blocking, Channel, Config};
use embassy_rp::clocks::RoscRng;
use embassy_rp::interrupt::typelevel::{Handler, Interrupt, TIMER0_IRQ_0};
use embassy_rp::peripherals::{ADC, ADC_TEMP_SENSOR};
use embassy_rp::watchdog::{ResetReason, Watchdog};
use embassy_rp::{Peri, bind_interrupts, otp, pac};
use embassy_time::Duration;
use forebay_board_common::{die, station};
use forebay_board_hal::run;
use forebay_firmware::wire::message::{Quality, ResetCause};
use forebay_firmware::{ChannelSpec, Sensor};

bind_interrupts!(pub struct Irqs {
    TIMER0_IRQ_0 => Alarm;
});

/// Ends a sleep, and does no more: what is due is found by looking at the clock.
pub struct Alarm;

impl Handler<TIMER0_IRQ_0> for Alarm {
    unsafe fn on_interrupt() {
        pac::TIMER0.intr().write(|w| w.set_alarm(0, true));
        run::wake();
    }
}

/// Has the main loop woken, `us` from now.
pub fn wake_in(us: u32) {
    // A time that has passed already would wake it after a wrap only.
    let at = counter().wrapping_add(us.max(ALARM_MIN_US));
    pac::TIMER0.alarm(0).write_value(at);
}

/// Lets [`Alarm`] happen.
pub fn start_alarm(_: Irqs) {
    pac::TIMER0.inte().write(|w| w.set_alarm(0, true));
    // SAFETY: its handler is bound, and shares only what is behind critical sections.
    unsafe { TIMER0_IRQ_0::enable() };
}

const ALARM_MIN_US: u32 = 20;

/// By this the HAL waits a few microseconds; nobody else asks it.
struct HalTime;

impl embassy_time_driver::Driver for HalTime {
    fn now(&self) -> u64 {
        // A wait over a wrap of the low word would end too late by as much: 71 minutes;
        // all are at start.
        counter().into()
    }

    fn schedule_wake(&self, _: u64, _: &core::task::Waker) {}
}

embassy_time_driver::time_driver_impl!(static TIME: HalTime = HalTime);

/// How long the watchdog waits.
pub const WATCHDOG_TIME: Duration = Duration::from_micros(station::WATCHDOG_US as u64);

/// Microseconds, in 32 bits.
pub fn counter() -> u32 {
    pac::TIMER0.timerawl().read()
}

/// Why the chip was reset. The registers keep a power-on or the RUN pin until the next
/// of these, whatever the core does in between.
pub fn reset_cause(watchdog: &Watchdog) -> ResetCause {
    let chip = pac::POWMAN.chip_reset().read();
    match watchdog.reset_reason() {
        Some(ResetReason::TimedOut) => ResetCause::Watchdog,
        Some(ResetReason::Forced) => ResetCause::Software,
        None if chip.had_bor() => ResetCause::Brownout,
        None if chip.had_run_low() => ResetCause::Pin,
        None if chip.had_por() => ResetCause::PowerOn,
        None => ResetCause::Unknown,
    }
}

/// A number for a cold start, from the jitter of the ring oscillator.
pub fn random() -> u32 {
    RoscRng.next_u32()
}

/// The number that the factory wrote into the chip.
pub fn uid() -> [u8; 8] {
    // It fails only for a chip without one, which there is none of.
    otp::get_chipid().unwrap_or(0).to_be_bytes()
}

/// The chip's temperature.
pub struct Die<'a> {
    adc: Adc<'a, Blocking>,
    channel: Channel<'a>,
    period_us: u32,
}

impl<'a> Die<'a> {
    pub fn new(adc: Peri<'a, ADC>, sensor: Peri<'a, ADC_TEMP_SENSOR>, period_us: u32) -> Self {
        Self {
            adc: Adc::new_blocking(adc, Config::default()),
            channel: Channel::new_temp_sensor(sensor),
            period_us,
        }
    }
}

impl Sensor for Die<'_> {
    fn spec(&self) -> ChannelSpec {
        die::spec(self.period_us)
    }

    fn read(&mut self) -> Result<i32, Quality> {
        let raw = self.adc.blocking_read(&mut self.channel);
        raw.map(die::rp_tenths).map_err(|_| Quality::Implausible)
    }
}
