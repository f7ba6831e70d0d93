//! The timer, the random number and the temperature of both chips. One alarm of the
//! timer ends the main loop's sleep.

use embassy_rp::adc::{Adc, Blocking, Channel, Config};
use embassy_rp::clocks::RoscRng;
use embassy_rp::interrupt::typelevel::{Handler, Interrupt};
use embassy_rp::peripherals::{ADC, ADC_TEMP_SENSOR};
use embassy_rp::{Peri, bind_interrupts};
use embassy_time::Duration;
use forebay_board_common::{die, station};
use forebay_board_hal::run;
use forebay_firmware::wire::message::Quality;
use forebay_firmware::{ChannelSpec, Sensor};

#[cfg(feature = "rp2040")]
use embassy_rp::{interrupt::typelevel::TIMER_IRQ_0 as ALARM_IRQ, pac::TIMER};
#[cfg(feature = "rp2350")]
use embassy_rp::{interrupt::typelevel::TIMER0_IRQ_0 as ALARM_IRQ, pac::TIMER0 as TIMER};

#[cfg(feature = "rp2040")]
bind_interrupts!(pub struct Irqs {
    TIMER_IRQ_0 => Alarm;
});
#[cfg(feature = "rp2350")]
bind_interrupts!(pub struct Irqs {
    TIMER0_IRQ_0 => Alarm;
});

/// Of the core: the HAL's choice, from the crystal of 12 MHz.
#[cfg(feature = "rp2040")]
pub const CORE_HZ: u32 = 125_000_000;
#[cfg(feature = "rp2350")]
pub const CORE_HZ: u32 = 150_000_000;

/// Ends a sleep, and does no more: what is due is found by looking at the clock.
pub struct Alarm;

impl Handler<ALARM_IRQ> for Alarm {
    unsafe fn on_interrupt() {
        TIMER.intr().write(|w| w.set_alarm(0, true));
        run::wake();
    }
}

/// Has the main loop woken, `us` from now.
pub fn wake_in(us: u32) {
    // A time that has passed already would wake it after a wrap only.
    let at = counter().wrapping_add(us.max(ALARM_MIN_US));
    TIMER.alarm(0).write_value(at);
}

/// Lets [`Alarm`] happen.
pub fn start_alarm(_: Irqs) {
    TIMER.inte().write(|w| w.set_alarm(0, true));
    // SAFETY: its handler is bound, and shares only what is behind critical sections.
    unsafe { ALARM_IRQ::enable() };
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
    TIMER.timerawl().read()
}

/// A number for a cold start, from the jitter of the ring oscillator.
pub fn random() -> u32 {
    RoscRng.next_u32()
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
