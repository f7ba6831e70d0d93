//! Between interrupts and the sleeping main loop: that there is something to do.

use core::sync::atomic::{AtomicBool, Ordering};

static WOKEN: AtomicBool = AtomicBool::new(false);

/// To be called from an interrupt that has brought work.
pub fn wake() {
    WOKEN.store(true, Ordering::Relaxed);
}

/// Sleeps until [`wake`], or not at all when it was called since the last sleep.
/// Interrupts without work for the loop do not end it.
pub fn sleep() {
    while !woken_or_wait() {}
}

fn woken_or_wait() -> bool {
    critical_section::with(|_| {
        let woken = WOKEN.load(Ordering::Relaxed);
        WOKEN.store(false, Ordering::Relaxed);
        if !woken {
            // Interrupts are masked, so that none can slip in before the sleep; one
            // that is pending ends it all the same, and runs when the mask goes.
            cortex_m::asm::wfi();
        }
        woken
    })
}
