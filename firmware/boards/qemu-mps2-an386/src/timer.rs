//! CMSDK timers: timer 0 as the free-running counter, timer 1 as the alarm that
//! ends a sleep.
//!
//! Always holds: the counter wraps each 2^32 / 25 MHz = 171.8 s, so whoever
//! extends it to 64 bits looks at least every 85 s. Counting interrupts instead
//! would lose some in QEMU; the counter itself is right.

use crate::reg::{CLOCK_HZ, Reg};

/// Counts for each microsecond.
pub const COUNTS_PER_US: u32 = CLOCK_HZ / 1_000_000;
/// Longest sleep; half a wrap of the counter must be longer.
pub const SLEEP_MAX_US: u32 = 1_000_000;
const _: () = assert!(SLEEP_MAX_US as u64 * (COUNTS_PER_US as u64) < 1 << 31);

const ENABLE: u32 = 1;
const INTERRUPT_ENABLE: u32 = 1 << 3;

struct Timer {
    ctrl: Reg,
    value: Reg,
    reload: Reg,
    status: Reg,
}

impl Timer {
    /// # Safety
    /// A CMSDK APB timer stands at `base`.
    const unsafe fn at(base: usize) -> Self {
        // SAFETY: its four registers, as promised by the caller.
        let (ctrl, value) = unsafe { (Reg::at(base), Reg::at(base + 4)) };
        // SAFETY: as above.
        let (reload, status) = unsafe { (Reg::at(base + 8), Reg::at(base + 12)) };
        Self {
            ctrl,
            value,
            reload,
            status,
        }
    }
}

// SAFETY: timer 0 of the AN386 image (`info mtree`: 0x40000000, cmsdk-apb-timer).
static COUNTER: Timer = unsafe { Timer::at(0x4000_0000) };
// SAFETY: timer 1 of the AN386 image (`info mtree`: 0x40001000, cmsdk-apb-timer).
static ALARM: Timer = unsafe { Timer::at(0x4000_1000) };

/// Starts the counter from 0.
pub fn start() {
    COUNTER.ctrl.write(0);
    COUNTER.reload.write(u32::MAX);
    COUNTER.ctrl.write(ENABLE);
}

/// The counter, counting up; also called from interrupts.
pub fn counter() -> u32 {
    // The hardware counts down.
    !COUNTER.value.read()
}

/// Raises an interrupt once, `us` from now, at most [`SLEEP_MAX_US`].
pub fn wake_in(us: u32) {
    let counts = us.clamp(1, SLEEP_MAX_US) * COUNTS_PER_US;
    ALARM.ctrl.write(0);
    ALARM.status.write(1);
    ALARM.reload.write(counts);
    ALARM.ctrl.write(ENABLE | INTERRUPT_ENABLE);
}

/// Ends the sleep, and does no more: what is due is found by looking at the clock.
pub extern "C" fn on_alarm() {
    ALARM.ctrl.write(0);
    ALARM.status.write(1);
}
