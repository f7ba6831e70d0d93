//! How long the receiver may be silent about what the broker has acked, before
//! one block is sent again to see whether it was lost on the way.
//!
//! Holds always: between two probes lies at least FORWARD_STALL_MIN_US, and twice
//! as long each time up to FORWARD_STALL_MAX_US, so that a receiver that is away
//! for a week costs a few messages. Knows no clock.

use crate::limits::{FORWARD_STALL_MAX_US, FORWARD_STALL_MIN_US};
use crate::units::Mono;

/// See the module.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Patience {
    /// Since when something waits for the receiver's word.
    since: Option<Mono>,
    probes: u32,
}

impl Patience {
    /// Something waits, or nothing does any more.
    pub(super) fn note(&mut self, waits: bool, now: Mono) {
        if waits {
            self.since.get_or_insert(now);
        } else {
            *self = Self::default();
        }
    }

    /// The receiver has said something new. True when it had been probed: it has
    /// lost what came between, or has come back.
    pub(super) fn on_progress(&mut self, now: Mono) -> bool {
        let probed = self.probes > 0;
        *self = Self {
            since: Some(now),
            probes: 0,
        };
        probed
    }

    /// The wait begins anew: the receiver has just come.
    pub(super) fn restart(&mut self, now: Mono) {
        *self = Self {
            since: self.since.map(|_| now),
            probes: 0,
        };
    }

    /// When to probe.
    pub(super) fn due(&self) -> Option<Mono> {
        let doubled = FORWARD_STALL_MIN_US.saturating_mul(1 << self.probes.min(32));
        let wait = doubled.min(FORWARD_STALL_MAX_US);
        self.since.map(|since| Mono(since.0.saturating_add(wait)))
    }

    pub(super) fn probed(&mut self, now: Mono) {
        self.probes += 1;
        self.since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_come_at_twice_the_distance_each_up_to_the_cap() {
        let mut patience = Patience::default();
        assert_eq!(patience.due(), None);
        patience.note(true, Mono(5));
        patience.note(true, Mono(99));
        assert_eq!(patience.due(), Some(Mono(5 + FORWARD_STALL_MIN_US)));
        let mut waits = Vec::new();
        let mut now = Mono(5);
        for _ in 0..40 {
            let due = patience.due().expect("something waits");
            waits.push(due.0 - now.0);
            now = due;
            patience.probed(now);
        }
        assert_eq!(waits[..3], [1, 2, 4].map(|n| n * FORWARD_STALL_MIN_US));
        assert_eq!(waits[39], FORWARD_STALL_MAX_US);
        assert!(patience.on_progress(now));
        assert_eq!(patience.due(), Some(Mono(now.0 + FORWARD_STALL_MIN_US)));
        assert!(!patience.on_progress(now));
        patience.note(false, now);
        assert_eq!(patience.due(), None);
    }
}
