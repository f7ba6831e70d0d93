//! The light by which a person finds the board: on while the device runs, blinking
//! while it is asked to show itself. Knows no pin.

use forebay_firmware::wire::ids::Tick;

/// Half a period of blinking.
pub const BLINK_US: u64 = 125_000;

/// See the module.
#[derive(Debug, Default)]
pub struct Blink {
    since_us: u64,
    until_us: u64,
}

impl Blink {
    /// Blinks from now on, for `seconds`; 0 ends it.
    pub fn start(&mut self, now: Tick, seconds: u8) {
        self.since_us = now.0;
        self.until_us = now.0.saturating_add(u64::from(seconds) * 1_000_000);
    }

    /// Whether the light is on at `now`.
    #[must_use]
    pub fn is_on(&self, now: Tick) -> bool {
        now.0 >= self.until_us || self.half_periods(now) % 2 == 1
    }

    /// When to ask again; `None` while nothing changes.
    #[must_use]
    pub fn next_deadline(&self, now: Tick) -> Option<Tick> {
        let next = self.since_us + (self.half_periods(now) + 1) * BLINK_US;
        (now.0 < self.until_us).then_some(Tick(next.min(self.until_us)))
    }

    fn half_periods(&self, now: Tick) -> u64 {
        now.0.saturating_sub(self.since_us) / BLINK_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_blinks_for_as_long_as_asked_and_stays_on() {
        let mut blink = Blink::default();
        assert!(blink.is_on(Tick(0)));
        assert_eq!(blink.next_deadline(Tick(0)), None);
        let start = Tick(1_000);
        blink.start(start, 1);
        let (mut now, mut changes, mut on) = (start, 0, true);
        while let Some(next) = blink.next_deadline(now) {
            changes += usize::from(blink.is_on(now) != on);
            on = blink.is_on(now);
            assert!(next > now);
            now = next;
        }
        assert_eq!((changes, now), (8, Tick(1_001_000)));
        assert!(blink.is_on(now));
    }

    #[test]
    fn zero_seconds_end_it() {
        let mut blink = Blink::default();
        blink.start(Tick(5), 200);
        assert!(!blink.is_on(Tick(5)));
        blink.start(Tick(6), 0);
        assert!(blink.is_on(Tick(6)));
        assert_eq!(blink.next_deadline(Tick(6)), None);
    }
}
