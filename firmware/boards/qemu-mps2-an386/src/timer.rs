//! CMSDK timers: timer 0 as the free-running counter, timer 1 as the alarm that
//! ends a sleep.
//!
//! Always holds: the counter wraps each 2^32 / 25 MHz = 171.8 s, so whoever
//! extends it to 64 bits looks at least every 85 s. Counting interrupts instead
//! would lose some in QEMU; the counter itself is right.

use forebay_board_common::station::SLEEP_MAX_US;
use forebay_board_qemu::reg::Block;
use forebay_board_qemu::wake;

use crate::CLOCK_HZ;

/// Counts for each microsecond.
pub const COUNTS_PER_US: u32 = CLOCK_HZ / 1_000_000;
// Half a wrap of the counter must be longer than the longest sleep.
const _: () = assert!(SLEEP_MAX_US as u64 * (COUNTS_PER_US as u64) < 1 << 31);

const CTRL: usize = 0;
const VALUE: usize = 1;
const RELOAD: usize = 2;
const INT_STATUS: usize = 3;

const ENABLE: u32 = 1;
const INTERRUPT_ENABLE: u32 = 1 << 3;

// SAFETY: timer 0 of the AN386 image (`info mtree`: 0x40000000, cmsdk-apb-timer).
static COUNTER: Block = unsafe { Block::at(0x4000_0000) };
// SAFETY: timer 1 of the AN386 image (`info mtree`: 0x40001000, cmsdk-apb-timer).
static ALARM: Block = unsafe { Block::at(0x4000_1000) };

/// Starts the counter from 0.
pub fn start() {
    COUNTER.write(CTRL, 0);
    COUNTER.write(RELOAD, u32::MAX);
    COUNTER.write(CTRL, ENABLE);
}

/// The counter, counting up; also called from interrupts.
pub fn counter() -> u32 {
    // The hardware counts down.
    !COUNTER.read(VALUE)
}

/// Raises an interrupt once, `us` from now, at most [`SLEEP_MAX_US`].
pub fn wake_in(us: u32) {
    let counts = us.clamp(1, SLEEP_MAX_US) * COUNTS_PER_US;
    ALARM.write(CTRL, 0);
    ALARM.write(INT_STATUS, 1);
    ALARM.write(RELOAD, counts);
    ALARM.write(CTRL, ENABLE | INTERRUPT_ENABLE);
}

/// Ends the sleep, and does no more: what is due is found by looking at the clock.
pub extern "C" fn on_alarm() {
    ALARM.write(CTRL, 0);
    ALARM.write(INT_STATUS, 1);
    wake::wake();
}
