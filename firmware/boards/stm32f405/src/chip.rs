//! What only the STM32F405 has: its clocks, its registers for the cause of a reset, its
//! timer, its number, its random numbers, its temperature.

use embassy_stm32::gpio::{Level, OutputOpenDrain, Pin, Pull, Speed};
use embassy_stm32::interrupt::typelevel::{Handler, Interrupt, TIM2};
use embassy_stm32::pac::adc::vals::SampleTime;
use embassy_stm32::pac::adccommon::vals::Adcpre;
use embassy_stm32::pac::iwdg::vals::{Key, Pr};
use embassy_stm32::rcc::{
    AHBPrescaler, APBPrescaler, Hse, HseMode, Pll, PllMul, PllPDiv, PllPreDiv, PllQDiv, PllSource,
    Sysclk,
};
use embassy_stm32::time::Hertz;
use embassy_stm32::{Config, Peri, bind_interrupts, pac};
use forebay_board_common::{die, identity, station};
use forebay_board_hal::run;
use forebay_firmware::wire::message::{Quality, ResetCause};
use forebay_firmware::{ChannelSpec, Sensor};

/// The board's crystal. Another one needs another divisor `PLL_M`.
const CRYSTAL_HZ: u32 = 8_000_000;
const PLL_M: u32 = 8;
const PLL_N: u32 = 336;
const PLL_P: u32 = 2;
const PLL_Q: u32 = 7;
/// Core and bus.
pub const CORE_HZ: u32 = CRYSTAL_HZ / PLL_M * PLL_N / PLL_P;
/// What TIM2 counts with: a timer runs at twice the rate of a bus that is divided.
const TIMER_CLOCK_HZ: u32 = CORE_HZ / 4 * 2;
const _: () = assert!(CORE_HZ == 168_000_000 && CRYSTAL_HZ.is_multiple_of(PLL_M));
// USB and the random numbers need exactly this.
const _: () = assert!(CRYSTAL_HZ / PLL_M * PLL_N == 48_000_000 * PLL_Q);
const _: () = assert!(TIMER_CLOCK_HZ.is_multiple_of(crate::TIMER_HZ));

/// All clocks from the crystal: the oscillator inside is off by more than a UART bears.
pub fn settings() -> Config {
    let mut config = Config::default();
    config.rcc.hse = Some(Hse {
        freq: Hertz(CRYSTAL_HZ),
        mode: HseMode::Oscillator,
    });
    config.rcc.pll_src = PllSource::HSE;
    config.rcc.pll = Some(Pll {
        prediv: PllPreDiv::from_bits(PLL_M as u8),
        mul: PllMul::from_bits(PLL_N as u16),
        divp: Some(PllPDiv::DIV2),
        divq: Some(PllQDiv::from_bits(PLL_Q as u8)),
        divr: None,
    });
    config.rcc.sys = Sysclk::PLL1_P;
    config.rcc.ahb_pre = AHBPrescaler::DIV1;
    config.rcc.apb1_pre = APBPrescaler::DIV4;
    config.rcc.apb2_pre = APBPrescaler::DIV2;
    config
}

bind_interrupts!(pub struct Irqs {
    TIM2 => Alarm;
});

/// The place of the timer that wakes the core.
const ALARM: usize = 0;
const ALARM_MIN_US: u32 = 20;

/// Ends a sleep, and does no more: what is due is found by looking at the clock.
pub struct Alarm;

impl Handler<TIM2> for Alarm {
    unsafe fn on_interrupt() {
        // A zero clears; ones leave the others.
        pac::TIM2.sr().write(|w| {
            w.0 = u32::MAX;
            w.set_ccif(ALARM, false);
        });
        run::wake();
    }
}

/// Gives what is used here its clock, in the state that the reset has left it in. The HAL
/// could do it, one by one with a count of users each, for 200 bytes of flash apiece.
pub fn start_clocks() {
    let clocks = pac::RCC;
    clocks.ahb2enr().modify(|w| w.set_rngen(true));
    clocks.apb1enr().modify(|w| w.set_tim2en(true));
    clocks.apb2enr().modify(|w| {
        w.set_adc1en(true);
        w.set_usart1en(true);
    });
    pac::FLASH.acr().modify(|w| {
        w.set_prften(true);
        w.set_icen(true);
        w.set_dcen(true);
    });
}

/// Has the counter go, at a megahertz.
pub fn start_counter() {
    let timer = pac::TIM2;
    timer
        .psc()
        .write_value((TIMER_CLOCK_HZ / crate::TIMER_HZ - 1) as u16);
    timer.arr().write_value(u32::MAX);
    // Takes the prescaler over.
    timer.egr().write(|w| w.set_ug(true));
    timer.cr1().modify(|w| w.set_cen(true));
}

/// Microseconds, in 32 bits.
pub fn counter() -> u32 {
    pac::TIM2.cnt().read()
}

/// Has the main loop woken, `us` from now.
pub fn wake_in(us: u32) {
    // A time that has passed already would wake it after a wrap only.
    let at = counter().wrapping_add(us.max(ALARM_MIN_US));
    pac::TIM2.ccr(ALARM).write_value(at);
}

/// Lets [`Alarm`] happen.
pub fn start_alarm(_: Irqs) {
    pac::TIM2.dier().write(|w| w.set_ccie(ALARM, true));
    // SAFETY: its handler is bound, and shares only what is behind critical sections.
    unsafe { TIM2::enable() };
}

/// The watchdog's own oscillator, which may be off by a half: it waits 5 to 15 s.
const WATCHDOG_HZ: u32 = 32_000;
const WATCHDOG_DIVISOR: u32 = 64;
const WATCHDOG_COUNTS: u32 =
    station::WATCHDOG_US / 1_000 * (WATCHDOG_HZ / 1_000) / WATCHDOG_DIVISOR;
const _: () = assert!(WATCHDOG_COUNTS <= 0x1000);

/// Starts the watchdog, which waits while a probe holds the core.
pub fn start_watchdog() {
    pac::DBGMCU.apb1fzr().modify(|w| w.set_iwdg(true));
    let watchdog = pac::IWDG;
    watchdog.kr().write(|w| w.set_key(Key::ENABLE));
    watchdog.pr().write(|w| w.set_pr(Pr::DIVIDE_BY64));
    watchdog
        .rlr()
        .write(|w| w.set_rl(WATCHDOG_COUNTS as u16 - 1));
    watchdog.kr().write(|w| w.set_key(Key::START));
    feed();
}

/// Has the watchdog wait anew.
pub fn feed() {
    pac::IWDG.kr().write(|w| w.set_key(Key::RESET));
}

/// Why the chip was reset; forgets it, as the register gathers causes. Each reset also
/// pulls the pin, and each power-on is also an undervoltage.
pub fn reset_cause() -> ResetCause {
    let register = pac::RCC.csr();
    let found = register.read();
    register.modify(|w| w.set_rmvf(true));
    if found.porrstf() {
        ResetCause::PowerOn
    } else if found.borrstf() {
        ResetCause::Brownout
    } else if found.wdgrstf() || found.wwdgrstf() {
        ResetCause::Watchdog
    } else if found.sftrstf() {
        ResetCause::Software
    } else if found.padrstf() {
        ResetCause::Pin
    } else {
        ResetCause::Unknown
    }
}

/// Looks for a random number; one is ready after 40 of 48 MHz.
const RANDOM_LOOKS_MAX: u32 = 10_000;

/// A number for a cold start, from analogue noise. 0 when the generator has failed; the
/// caller has what memory held at power-on beside it.
pub fn random() -> u32 {
    pac::RNG.cr().modify(|w| w.set_rngen(true));
    // The first is not to be used.
    next_random().and_then(|_| next_random()).unwrap_or(0)
}

fn next_random() -> Option<u32> {
    for _ in 0..RANDOM_LOOKS_MAX {
        let state = pac::RNG.sr().read();
        if state.seis() || state.ceis() {
            return None;
        }
        if state.drdy() {
            return Some(pac::RNG.dr().read());
        }
    }
    None
}

/// Of the number that the factory wrote into the chip.
pub fn uid() -> [u8; 8] {
    identity::fold_uid(embassy_stm32::uid::uid())
}

/// A released line of the I2C bus, with the chip's own pull-up.
pub fn open_drain<'a>(pin: Peri<'a, impl Pin>) -> OutputOpenDrain<'a> {
    OutputOpenDrain::new_pull(pin, Level::High, Speed::Low, Pull::Up)
}

/// Where the factory has written what the converter shows at 30 degC, and behind it at 110.
const CALIBRATION: *const u16 = 0x1fff_7a2c as *const u16;

/// The converter's channel for the chip's temperature.
const SENSOR: u8 = 16;
/// Converted in 24 us, at a quarter of the bus and 492 clocks; after this it is broken.
const MEASURE_MAX_US: u32 = 200;

/// The chip's temperature.
pub struct Die {
    calibration: [u16; 2],
    period_us: u32,
}

impl Die {
    /// Switches sensor and converter on; they need 10 us.
    pub fn new(period_us: u32) -> Self {
        pac::ADC123_COMMON.ccr().modify(|w| {
            w.set_adcpre(Adcpre::DIV4);
            w.set_tsvrefe(true);
        });
        let adc = pac::ADC1;
        adc.smpr1()
            .modify(|w| w.set_smp(usize::from(SENSOR) - 10, SampleTime::CYCLES480));
        adc.sqr3().modify(|w| w.set_sq(0, SENSOR));
        adc.cr2().modify(|w| w.set_adon(true));
        let calibration = [0, 1].map(|word| {
            // SAFETY: two half words of system memory, which all these chips have.
            unsafe { CALIBRATION.wrapping_add(word).read_volatile() }
        });
        Self {
            calibration,
            period_us,
        }
    }
}

impl Sensor for Die {
    fn spec(&self) -> ChannelSpec {
        die::spec(self.period_us)
    }

    fn read(&mut self) -> Result<i32, Quality> {
        let adc = pac::ADC1;
        adc.cr2().modify(|w| w.set_swstart(true));
        let begun = counter();
        while !adc.sr().read().eoc() {
            if counter().wrapping_sub(begun) > MEASURE_MAX_US {
                return Err(Quality::Stale);
            }
        }
        // Reading it makes room for the next.
        let raw = adc.dr().read().data();
        let [at_30, at_110] = self.calibration;
        die::stm32f4_tenths(raw, at_30, at_110).ok_or(Quality::Implausible)
    }
}
