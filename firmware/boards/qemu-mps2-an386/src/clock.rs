//! Microseconds since boot, from the timer's counter. Never wraps, never steered.
//!
//! Always holds: it is asked at least once in each wrap of the counter (171.8 s),
//! because the main loop never sleeps longer than [`timer::SLEEP_MAX_US`].

use core::cell::Cell;

use forebay_firmware::tick;
use forebay_firmware::wire::ids::Tick;

use crate::reg::CLOCK_HZ;
use crate::timer;

const COUNTER_BITS: u32 = 32;

/// See the module. Belongs to the main loop; interrupts stamp with the bare counter.
#[derive(Debug, Default)]
pub struct Clock {
    /// Counts since boot when it was last asked.
    last: Cell<u64>,
}

impl Clock {
    /// Starts the counter: this is tick 0.
    pub fn start() -> Self {
        timer::start();
        Self::default()
    }

    /// Now.
    pub fn now(&self) -> Tick {
        tick::to_us(self.counts(), CLOCK_HZ)
    }

    /// When the counter showed `counter`, less than a wrap ago.
    pub fn at(&self, counter: u32) -> Tick {
        let now = self.counts();
        // The low word of the counts is the counter, so this is its age.
        let age = (now as u32).wrapping_sub(counter);
        tick::to_us(now.saturating_sub(age.into()), CLOCK_HZ)
    }

    fn counts(&self) -> u64 {
        let now = tick::extend_polled(self.last.get(), timer::counter(), COUNTER_BITS);
        self.last.set(now);
        now
    }
}
