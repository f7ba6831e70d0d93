//! When each gateway is told something: at once, but not more often than an
//! interval, and what was marked last is always told.
//!
//! Bound: one entry per gateway that was ever marked. Reads no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use forebay_core::payload::GatewayName;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Schedule {
    interval: Duration,
    told: BTreeMap<GatewayName, Instant>,
    queue: BTreeSet<(Instant, GatewayName)>,
    queued: BTreeSet<GatewayName>,
}

impl Schedule {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            told: BTreeMap::new(),
            queue: BTreeSet::new(),
            queued: BTreeSet::new(),
        }
    }

    /// There is something to tell.
    pub(super) fn mark(&mut self, gateway: &GatewayName, now: Instant) {
        if self.queued.insert(gateway.clone()) {
            let told = self.told.get(gateway);
            let due = told.map_or(now, |told| now.max(*told + self.interval));
            self.queue.insert((due, gateway.clone()));
        }
    }

    /// The gateway to tell now. It counts as told.
    pub(super) fn next(&mut self, now: Instant) -> Option<GatewayName> {
        let (due, _) = self.queue.first()?;
        if *due > now {
            return None;
        }
        let (_, gateway) = self.queue.pop_first()?;
        self.queued.remove(&gateway);
        self.told.insert(gateway.clone(), now);
        Some(gateway)
    }

    /// Any gateway that is still to be told, due or not.
    pub(super) fn pop(&mut self) -> Option<GatewayName> {
        let (_, gateway) = self.queue.pop_first()?;
        self.queued.remove(&gateway);
        Some(gateway)
    }

    /// When [`Schedule::next`] has something again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.queue.first().map(|(due, _)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_at_once_then_at_most_once_per_interval_and_the_last_always() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let a = GatewayName::new("a").unwrap();
        let b = GatewayName::new("b").unwrap();
        let mut schedule = Schedule::new(Duration::from_millis(100));
        assert_eq!(schedule.due(), None);
        schedule.mark(&a, at(0));
        schedule.mark(&a, at(1));
        assert_eq!(schedule.due(), Some(at(0)));
        assert_eq!(schedule.next(at(2)), Some(a.clone()));
        assert_eq!(schedule.next(at(2)), None);
        schedule.mark(&a, at(50));
        schedule.mark(&b, at(60));
        assert_eq!(schedule.next(at(60)), Some(b));
        assert_eq!(schedule.due(), Some(at(102)));
        assert_eq!(schedule.next(at(101)), None);
        assert_eq!(schedule.next(at(102)), Some(a.clone()));
        schedule.mark(&a, at(103));
        assert_eq!(schedule.pop(), Some(a.clone()));
        assert_eq!(schedule.pop(), None);
        schedule.mark(&a, at(900));
        assert_eq!(schedule.next(at(900)), Some(a));
    }
}
