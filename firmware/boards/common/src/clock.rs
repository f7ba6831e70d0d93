//! Microseconds since boot, from a counter of 32 bits. Never wraps, never steered.
//!
//! Always holds: it is asked at least once in each half wrap of the counter, because
//! the main loop never sleeps longer than [`SLEEP_MAX_US`](crate::station::SLEEP_MAX_US).
//! Knows no hardware: the board brings the counter.

use core::cell::Cell;

use forebay_firmware::tick;
use forebay_firmware::wire::ids::Tick;

const COUNTER_BITS: u32 = 32;

/// See the module. Belongs to the main loop; interrupts stamp with the bare counter.
#[derive(Debug)]
pub struct Clock {
    counter: fn() -> u32,
    hz: u32,
    /// Counts since boot when it was last asked.
    last: Cell<u64>,
}

impl Clock {
    /// `counter` counts up `hz` times a second, from about 0 at boot.
    #[must_use]
    pub const fn new(counter: fn() -> u32, hz: u32) -> Self {
        Self {
            counter,
            hz,
            last: Cell::new(0),
        }
    }

    /// Rate of the counter.
    pub fn hz(&self) -> u32 {
        self.hz
    }

    /// Now.
    pub fn now(&self) -> Tick {
        self.to_us(self.counts())
    }

    /// When the counter showed `counter`, less than a wrap ago.
    pub fn at(&self, counter: u32) -> Tick {
        let now = self.counts();
        // The low word of the counts is the counter, so this is its age.
        let age = (now as u32).wrapping_sub(counter);
        self.to_us(now.saturating_sub(age.into()))
    }

    fn to_us(&self, counts: u64) -> Tick {
        if self.hz == 1_000_000 {
            Tick(counts)
        } else {
            tick::to_us(counts, self.hz)
        }
    }

    fn counts(&self) -> u64 {
        let now = tick::extend_polled(self.last.get(), (self.counter)(), COUNTER_BITS);
        self.last.set(now);
        now
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    static COUNTER: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn stamps_from_before_a_wrap_are_in_the_past() {
        let clock = Clock::new(|| COUNTER.load(Ordering::Relaxed), 1_000_000);
        for (name, counter, stamp, now, at) in [
            ("at once", 5, 5, 5, 5),
            ("half way", 1 << 31, 7, 1 << 31, 7),
            (
                "before the wrap",
                u32::MAX,
                u32::MAX - 9,
                0xffff_ffff,
                0xffff_fff6,
            ),
            (
                "over the wrap",
                10,
                u32::MAX - 9,
                0x1_0000_000a,
                0xffff_fff6,
            ),
            ("after it", 20, 15, 0x1_0000_0014, 0x1_0000_000f),
        ] {
            COUNTER.store(counter, Ordering::Relaxed);
            let got = (clock.now(), clock.at(stamp));
            assert_eq!(got, (Tick(now), Tick(at)), "{name}");
        }
    }

    #[test]
    fn other_rates_become_microseconds() {
        let clock = Clock::new(|| 25_000_000, 25_000_000);
        assert_eq!(clock.now(), Tick(1_000_000));
        assert_eq!(clock.hz(), 25_000_000);
    }
}
