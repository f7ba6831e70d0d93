//! Time: SysTick counts the clock in 24 bits, timer 0 counts seconds, timer 1 is the
//! alarm that ends a sleep.
//!
//! SysTick wraps each 1.34 s, and a loop that a busy host holds up for longer would
//! lose a wrap. QEMU's general-purpose timers cannot be read, but for the seconds of
//! their RTC mode, which QEMU counts on whatever the firmware does. Always holds: both
//! are started at once, so that the seconds tell which wrap it is, as long as QEMU is
//! not later with a second than [`LATE_MAX_MS`].

use core::cell::Cell;

use critical_section::Mutex;
use forebay_board_common::station::SLEEP_MAX_US;
use forebay_board_qemu::reg::Block;
use forebay_board_qemu::wake;
use forebay_firmware::tick::extend_polled;

use crate::CLOCK_HZ;

const SYSTICK_BITS: u32 = 24;
const WRAP: u32 = 1 << SYSTICK_BITS;
/// How early a second may seem to come: the time between the starts of both.
const EARLY_MAX_MS: u32 = 10;
/// How late QEMU may be with a second.
pub const LATE_MAX_MS: u32 = WRAP / (CLOCK_HZ / 1_000) - 1_000 - EARLY_MAX_MS;
const _: () = assert!(LATE_MAX_MS >= 300);
const COUNTS_PER_S: u64 = CLOCK_HZ as u64;

// Registers, counted in words.
const CONFIG: usize = 0;
const MODE: usize = 1;
const CONTROL: usize = 3;
const INT_MASK: usize = 6;
const INT_CLEAR: usize = 9;
const LOAD: usize = 10;
/// The second after which the RTC begins anew at 0.
const MATCH: usize = 12;
const VALUE: usize = 18;

const CONFIG_32_BITS: u32 = 0;
const CONFIG_RTC: u32 = 1;
const MODE_ONE_SHOT: u32 = 1;
const ENABLE: u32 = 1;
const TIMEOUT: u32 = 1;

const SYSTICK_CONTROL: usize = 4;
const SYSTICK_RELOAD: usize = 5;
const SYSTICK_VALUE: usize = 6;
/// Counts the processor's clock, without interrupt.
const SYSTICK_RUN: u32 = 0b101;

// SAFETY: the system control space of every Cortex-M3; SysTick stands in it.
static SYSTICK: Block = unsafe { Block::at(0xe000_e000) };
// SAFETY: timer 0 (`info mtree`: 0x40030000, gptm).
static SECONDS: Block = unsafe { Block::at(0x4003_0000) };
// SAFETY: timer 1 (`info mtree`: 0x40031000, gptm).
static ALARM: Block = unsafe { Block::at(0x4003_1000) };

/// The seconds that QEMU had counted at start: a reset does not clear them.
static FIRST_SECOND: Mutex<Cell<u32>> = Mutex::new(Cell::new(0));
/// What the counter was last.
static LAST: Mutex<Cell<u32>> = Mutex::new(Cell::new(0));

/// Starts the counter from about 0.
pub fn start() {
    SECONDS.write(CONTROL, 0);
    SECONDS.write(CONFIG, CONFIG_RTC);
    SECONDS.write(MATCH, u32::MAX);
    SYSTICK.write(SYSTICK_RELOAD, WRAP - 1);
    critical_section::with(|cs| {
        FIRST_SECOND.borrow(cs).set(SECONDS.read(VALUE));
        SYSTICK.write(SYSTICK_VALUE, 0);
        SYSTICK.write(SYSTICK_CONTROL, SYSTICK_RUN);
        SECONDS.write(CONTROL, ENABLE);
    });
}

/// The counter, counting up in 32 bits; also called from interrupts.
pub fn counter() -> u32 {
    critical_section::with(|cs| {
        let second = SECONDS
            .read(VALUE)
            .wrapping_sub(FIRST_SECOND.borrow(cs).get());
        // The hardware counts down.
        let raw = !SYSTICK.read(SYSTICK_VALUE) & (WRAP - 1);
        let earliest = u64::from(second) * COUNTS_PER_S;
        let earliest = earliest.saturating_sub(u64::from(EARLY_MAX_MS * (CLOCK_HZ / 1_000)));
        let mut counts = extend_polled(earliest, raw, SYSTICK_BITS) as u32;
        let last = LAST.borrow(cs);
        // A second that is too late would turn the time back by a wrap.
        if (counts.wrapping_sub(last.get()) as i32) < 0 {
            let age = raw.wrapping_sub(last.get()) & (WRAP - 1);
            counts = last.get().wrapping_add(age);
        }
        last.set(counts);
        counts
    })
}

/// Raises an interrupt once, `us` from now, at most [`SLEEP_MAX_US`].
pub fn wake_in(us: u32) {
    // 12.5 counts for each.
    let counts = us.clamp(1, SLEEP_MAX_US) * (CLOCK_HZ / 500_000) / 2;
    ALARM.write(CONTROL, 0);
    ALARM.write(INT_CLEAR, TIMEOUT);
    ALARM.write(CONFIG, CONFIG_32_BITS);
    ALARM.write(MODE, MODE_ONE_SHOT);
    ALARM.write(LOAD, counts);
    ALARM.write(INT_MASK, TIMEOUT);
    ALARM.write(CONTROL, ENABLE);
}

/// Ends the sleep, and does no more: what is due is found by looking at the clock.
pub extern "C" fn on_alarm() {
    ALARM.write(INT_CLEAR, TIMEOUT);
    wake::wake();
}
