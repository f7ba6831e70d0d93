//! The RAM of a spill: the newest readings, and how many wait in the store. Knows no
//! store and no ring but its own.
//!
//! Invariant: ordinals = waiting + the sum of gaps, after every call.

use forebay_wire::ids::Tick;
use forebay_wire::message::{GapReason, Reading};

use crate::ring::{Ring, Slot};
use crate::spill::limits::TAIL;

/// See the module. All zero bits at the start, as [`crate::Device::unstarted`] is.
#[derive(Debug)]
pub(crate) struct Tail {
    /// A store is there.
    pub(crate) on: bool,
    /// Failures of the store in a row.
    pub(crate) failures: u8,
    ring: Ring<TAIL>,
    /// Ordinals in the store.
    stored: u64,
    /// Ordinals in store and tail, and what they are.
    ordinals: u64,
    waiting: u64,
    gaps: [u64; GapReason::ALL.len()],
}

/// How many ordinals an element stands for.
fn ordinals(slot: Slot) -> u64 {
    match slot {
        Slot::Reading(_) => 1,
        Slot::Lost { count, .. } => u64::from(count),
    }
}

impl Tail {
    pub(crate) const fn new() -> Self {
        Tail {
            on: false,
            failures: 0,
            ring: Ring::new(),
            stored: 0,
            ordinals: 0,
            waiting: 0,
            gaps: [0; GapReason::ALL.len()],
        }
    }

    pub(crate) fn ordinals(&self) -> u64 {
        self.ordinals
    }

    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    pub(crate) fn gaps(&self) -> [u64; GapReason::ALL.len()] {
        self.gaps
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.ring.len() == TAIL
    }

    pub(crate) fn oldest(&self) -> Option<Slot> {
        self.ring.get(0)
    }

    /// The readings up to the first gap, oldest first.
    pub(crate) fn readings(&self) -> impl Iterator<Item = Reading> {
        self.ring.readings_from(0).map_while(|reading| reading)
    }

    /// Adds an element; with no room, the newest readings become a gap.
    pub(crate) fn push(&mut self, slot: Slot) {
        self.count_in(slot);
        if self.is_full() {
            self.push_over(slot);
        } else {
            let evicted = self.ring.push(slot);
            debug_assert_eq!(evicted, None, "there was room");
        }
    }

    fn count_in(&mut self, slot: Slot) {
        self.ordinals += ordinals(slot);
        match slot {
            Slot::Reading(_) => self.waiting += 1,
            Slot::Lost { reason, count, .. } => self.gaps[reason as usize] += u64::from(count),
        }
    }

    fn push_over(&mut self, slot: Slot) {
        let last = TAIL - 1;
        let Some(before) = self.ring.get(last) else {
            return;
        };
        let tick = match before {
            Slot::Reading(reading) => reading.tick,
            Slot::Lost { tick, .. } => tick,
        };
        // 4 billion readings later it would be full again; then it stays.
        let count = ordinals(before) + ordinals(slot);
        for gone in [before, slot] {
            self.take_from(gone);
        }
        self.gaps[GapReason::RingFull as usize] += count;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let reason = GapReason::RingFull;
        self.ring.replace(
            last,
            Slot::Lost {
                reason,
                count,
                tick,
            },
        );
    }

    fn take_from(&mut self, slot: Slot) {
        match slot {
            Slot::Reading(_) => self.waiting -= 1,
            Slot::Lost { reason, count, .. } => self.gaps[reason as usize] -= u64::from(count),
        }
    }

    /// The oldest of the tail goes to the ring, with nothing stored before it.
    pub(crate) fn pop(&mut self) -> Option<Slot> {
        debug_assert_eq!(self.stored, 0, "the store's come first");
        let slot = self.ring.pop_front()?;
        self.ordinals -= ordinals(slot);
        self.take_from(slot);
        Some(slot)
    }

    /// The oldest `elements` are in the store now.
    pub(crate) fn moved_to_store(&mut self, elements: usize) {
        for _ in 0..elements {
            self.stored += self.ring.pop_front().map_or(0, ordinals);
        }
    }

    /// One element of the store went back.
    pub(crate) fn came_back(&mut self, slot: Slot) {
        let count = ordinals(slot);
        self.ordinals -= count;
        self.stored -= count;
        match slot {
            Slot::Reading(_) => self.uncount(None, 1),
            Slot::Lost { reason, count, .. } => self.uncount(Some(reason), u64::from(count)),
        }
    }

    /// `count` ordinals of the store cannot be read any more; what they were is not
    /// known.
    pub(crate) fn vanished(&mut self, count: u64) {
        self.ordinals -= count;
        self.stored -= count;
        self.uncount(None, count);
    }

    /// Takes `count` from where it most likely belongs and the rest from elsewhere: what
    /// vanished may have been of another kind. With all back, all is zero.
    fn uncount(&mut self, reason: Option<GapReason>, mut count: u64) {
        let mut take = |from: &mut u64| {
            let taken = count.min(*from);
            *from -= taken;
            count -= taken;
        };
        if let Some(reason) = reason {
            take(&mut self.gaps[reason as usize]);
        }
        take(&mut self.waiting);
        self.gaps.iter_mut().for_each(take);
    }

    /// Whether the sums close; for tests.
    #[cfg(test)]
    pub(crate) fn closes(&self) -> bool {
        self.ordinals == self.waiting + self.gaps.iter().sum::<u64>()
    }
}

/// A gap's marker of `count` ordinals; more than one holds is cut, as the caller takes
/// the rest anew.
pub(crate) fn lost(count: u64, tick: Tick) -> Slot {
    Slot::Lost {
        reason: GapReason::RingFull,
        count: u32::try_from(count).unwrap_or(u32::MAX),
        tick,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_wire::ids::ChannelNo;
    use forebay_wire::message::Quality;

    fn reading(value: i32) -> Slot {
        Slot::Reading(Reading {
            channel: ChannelNo(0),
            tick: Tick(value as u64),
            value,
            quality: Quality::Ok,
        })
    }

    #[test]
    fn beyond_its_room_the_newest_become_one_gap() {
        for (name, more, waiting, lost) in [
            ("limit - 1", TAIL - 1, TAIL - 1, 0),
            ("limit", TAIL, TAIL, 0),
            ("limit + 1", TAIL + 1, TAIL - 1, 2),
            ("limit + 9", TAIL + 9, TAIL - 1, 10),
        ] {
            let mut tail = Tail::new();
            (0..more).for_each(|value| tail.push(reading(value as i32)));
            assert_eq!(tail.waiting(), waiting as u64, "{name}");
            assert_eq!(tail.gaps()[0], lost, "{name}");
            assert_eq!(tail.ordinals(), more as u64, "{name}");
            assert!(tail.closes(), "{name}");
        }
    }

    #[test]
    fn sums_close_when_a_gap_of_another_reason_vanishes() {
        let mut tail = Tail::new();
        let isr = Slot::Lost {
            reason: GapReason::IsrFull,
            count: 5,
            tick: Tick(9),
        };
        tail.push(reading(1));
        tail.push(isr);
        tail.push(reading(2));
        tail.moved_to_store(3);
        assert_eq!((tail.stored(), tail.len()), (7, 0));
        // The gap and a reading are gone; the last comes back.
        tail.vanished(6);
        assert!(tail.closes());
        tail.came_back(reading(2));
        assert!(tail.closes());
        assert_eq!(
            (tail.ordinals(), tail.waiting(), tail.gaps()),
            (0, 0, [0; 4])
        );
    }
}
