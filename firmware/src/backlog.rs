//! Everything produced and not yet acked, in ordinal order: first the spans that
//! are gone from the front of the ring, then the ring. It is the retransmit buffer:
//! a reading leaves when it is acked or overwritten, and what was overwritten is
//! said in its place, so that the gateway can count every ordinal.
//!
//! Invariant: produced = acked + waiting + the sum of gaps, after every call.
//! Bound: the ring and the spans of [`crate::front`]. Knows no frames and no clock.

use forebay_wire::ids::{Ordinal, Tick};
use forebay_wire::message::{GapReason, Reading};

use crate::front::{FrontGaps, Moved, Span};
use crate::ring::{Ring, Slot};

/// What stands at the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Reading(Reading),
    Gap {
        reason: GapReason,
        count: u64,
        first_tick: Tick,
        last_tick: Tick,
    },
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Backlog<const N: usize> {
    ring: Ring<N>,
    front: FrontGaps,
    /// First ordinal that is not acked.
    base: u64,
    /// Next ordinal to be given out.
    produced: u64,
    /// Next ordinal to be sent, and its element counted from the oldest; 0 while
    /// the ordinal is in front of the ring.
    cursor: u64,
    cursor_index: usize,
    /// Ordinal after the last that was ever sent.
    sent_end: u64,
    /// So many times in a row all gaps of the front were sent, and no reading since.
    fronts_sent: u8,
    acked: u64,
    waiting: u64,
    /// Most that ever waited at once.
    high: u64,
    gaps: [u64; GapReason::ALL.len()],
}

impl<const N: usize> Backlog<N> {
    pub(crate) const fn new() -> Self {
        Backlog {
            ring: Ring::new(),
            front: FrontGaps::new(),
            base: 0,
            produced: 0,
            cursor: 0,
            cursor_index: 0,
            sent_end: 0,
            fronts_sent: 0,
            acked: 0,
            waiting: 0,
            high: 0,
            gaps: [0; GapReason::ALL.len()],
        }
    }

    /// Ordinals given out so far; the next reading gets this one.
    pub(crate) fn produced(&self) -> Ordinal {
        Ordinal(self.produced)
    }

    /// First ordinal that is not acked.
    pub(crate) fn base(&self) -> Ordinal {
        Ordinal(self.base)
    }

    /// Next ordinal to be sent.
    pub(crate) fn cursor(&self) -> Ordinal {
        Ordinal(self.cursor)
    }

    /// Ordinal after the last that was ever sent: below it, it is sent again.
    pub(crate) fn sent_end(&self) -> Ordinal {
        Ordinal(self.sent_end)
    }

    /// Readings acked.
    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    /// Readings in the ring.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Most readings that were ever in the ring.
    pub(crate) fn high(&self) -> u64 {
        self.high
    }

    /// Readings lost, by reason.
    pub(crate) fn gaps(&self) -> [u64; GapReason::ALL.len()] {
        self.gaps
    }

    /// Elements for which there is room.
    #[cfg(feature = "spill")]
    pub(crate) fn room(&self) -> usize {
        N - self.ring.len()
    }

    /// Tick of the newest element.
    #[cfg(feature = "spill")]
    pub(crate) fn newest_tick(&self) -> Tick {
        match self.ring.get(self.ring.len().wrapping_sub(1)) {
            Some(Slot::Reading(reading)) => reading.tick,
            Some(Slot::Lost { tick, .. }) => tick,
            None => Tick(0),
        }
    }

    /// Gives `reading` its ordinal and keeps it, at the cost of the oldest if full.
    pub(crate) fn push(&mut self, reading: Reading) -> Ordinal {
        let ordinal = Ordinal(self.produced);
        self.produced += 1;
        self.waiting += 1;
        self.push_slot(Slot::Reading(reading));
        self.high = self.high.max(self.waiting);
        ordinal
    }

    /// Gives `count` readings their ordinals that were lost before they came here.
    pub(crate) fn push_lost(&mut self, reason: GapReason, count: u32, tick: Tick) {
        if count == 0 {
            return;
        }
        self.produced += u64::from(count);
        self.gaps[reason as usize] += u64::from(count);
        let last = self.ring.len().wrapping_sub(1);
        // A marker that was sent stays as it is: its frame may be acked as it was.
        if let Some(Slot::Lost {
            reason: before,
            count: so_far,
            tick,
        }) = self.ring.get(last)
            && before == reason
            && self.cursor_index <= last
            && let Some(count) = so_far.checked_add(count)
        {
            self.ring.replace(
                last,
                Slot::Lost {
                    reason,
                    count,
                    tick,
                },
            );
        } else {
            self.push_slot(Slot::Lost {
                reason,
                count,
                tick,
            });
        }
    }

    fn push_slot(&mut self, slot: Slot) {
        let sent = self.ring_start() < self.sent_end;
        if let Some(evicted) = self.ring.push(slot) {
            self.evicted(evicted, sent);
        }
    }

    /// The oldest element left the ring unacked; `sent`: it had been sent before.
    fn evicted(&mut self, slot: Slot, sent: bool) {
        self.cursor_index = self.cursor_index.saturating_sub(1);
        let gap = match slot {
            Slot::Reading(reading) => {
                self.waiting -= 1;
                self.gaps[GapReason::RingFull as usize] += 1;
                let (first_tick, last_tick) = (reading.tick, reading.tick);
                Span {
                    reason: GapReason::RingFull,
                    count: 1,
                    first_tick,
                    last_tick,
                    sent,
                }
            }
            Slot::Lost {
                reason,
                count,
                tick,
            } => Span {
                reason,
                count: u64::from(count),
                first_tick: tick,
                last_tick: tick,
                sent: false,
            },
        };
        let moved = self.front.push(gap);
        self.count_moved(moved);
    }

    /// The counts by reason follow, so that they stay what the gateway is told.
    fn count_moved(&mut self, moved: Option<Moved>) {
        if let Some(Moved { from, to, count }) = moved {
            self.gaps[from as usize] -= count;
            self.gaps[to as usize] += count;
        }
    }

    /// What is to be sent next; `None` when all is sent.
    pub(crate) fn at_cursor(&self) -> Option<Item> {
        if let Some((span, before)) = self.front.at(self.cursor - self.base) {
            let Span {
                reason,
                count,
                first_tick,
                last_tick,
                ..
            } = *span;
            return Some(Item::Gap {
                reason,
                count: count - before,
                first_tick,
                last_tick,
            });
        }
        Some(match self.ring.get(self.cursor_index)? {
            Slot::Reading(reading) => Item::Reading(reading),
            Slot::Lost {
                reason,
                count,
                tick,
            } => {
                let next = match self.ring.get(self.cursor_index + 1) {
                    Some(Slot::Reading(reading)) => reading.tick,
                    Some(Slot::Lost { tick, .. }) => tick,
                    None => tick,
                };
                Item::Gap {
                    reason,
                    count: u64::from(count),
                    first_tick: tick.min(next),
                    last_tick: tick.max(next),
                }
            }
        })
    }

    /// Moves the cursor behind the item there; it counts as sent.
    pub(crate) fn advance(&mut self) {
        let gap_of_front = self.cursor < self.ring_start();
        self.step();
        if !gap_of_front {
            self.fronts_sent = 0;
        } else if self.cursor >= self.ring_start() {
            self.fronts_sent = self.fronts_sent.saturating_add(1);
        }
        self.sent_end = self.sent_end.max(self.cursor);
    }

    /// Sends readings from the cursor on, as long as the next item is one and `take`
    /// takes it. Much cheaper than looking at each and advancing.
    pub(crate) fn send_readings(&mut self, mut take: impl FnMut(&Reading) -> bool) {
        if self.cursor < self.ring_start() {
            return;
        }
        let mut sent = 0;
        for reading in self.ring.readings_from(self.cursor_index) {
            match reading {
                Some(reading) if take(&reading) => sent += 1,
                Some(_) | None => break,
            }
        }
        self.cursor_index += sent;
        self.cursor += sent as u64;
        if sent > 0 {
            self.fronts_sent = 0;
        }
        self.sent_end = self.sent_end.max(self.cursor);
    }

    fn step(&mut self) {
        if let Some((span, before)) = self.front.at_mut(self.cursor - self.base) {
            // Said to be lost now, whatever was sent before.
            span.sent = false;
            self.cursor += span.count - before;
            return;
        }
        match self.ring.get(self.cursor_index) {
            None => return,
            Some(Slot::Reading(_)) => self.cursor += 1,
            Some(Slot::Lost { count, .. }) => self.cursor += u64::from(count),
        }
        self.cursor_index += 1;
    }

    /// Back to the first ordinal that is not acked.
    pub(crate) fn rewind(&mut self) {
        self.cursor = self.base;
        self.cursor_index = 0;
        // The gap is sent again because it was not acked, not because of a new one.
        self.fronts_sent = 0;
    }

    /// Ordinal of the oldest element in the ring.
    fn ring_start(&self) -> u64 {
        self.base + self.front.count()
    }

    /// To be called before a gap is sent. With more produced than the line carries,
    /// the next readings are overwritten while their gap is being sent, and nothing
    /// but gaps would ever be sent. So the third time in a row an eighth of the ring
    /// goes along: those readings would be lost in any case. Once or twice a slow
    /// device overwrites one just then too, and would lose them for nothing.
    pub(crate) fn shed_when_overrun(&mut self) {
        let overrun = self.fronts_sent >= 2 && self.cursor < self.ring_start();
        if !overrun || self.ring.len() < N {
            return;
        }
        for _ in 0..N.div_ceil(8) {
            let sent = self.ring_start() < self.sent_end;
            if let Some(slot) = self.ring.pop_front() {
                self.evicted(slot, sent);
            }
        }
    }

    /// Channels of the readings between the first not acked and the cursor.
    pub(crate) fn channels_on_the_way(&self) -> u32 {
        let sent = (0..self.cursor_index).filter_map(|index| self.ring.get(index));
        sent.fold(0, |channels, slot| match slot {
            Slot::Reading(reading) => channels | 1 << reading.channel.0,
            Slot::Lost { .. } => channels,
        })
    }

    /// Everything below `next` is acked: frees it. Returns the channels whose
    /// readings left the ring, as a bit set. `next` beyond what was produced counts
    /// as all of it.
    pub(crate) fn release(&mut self, next: Ordinal) -> u32 {
        let next = next.0.min(self.produced);
        let mut channels = 0;
        while self.base < next {
            if self.front.is_empty() {
                channels |= self.release_ring(next - self.base);
            } else {
                self.release_front(next - self.base);
            }
        }
        if self.cursor < self.base {
            self.rewind();
        }
        self.sent_end = self.sent_end.max(self.base);
        channels
    }

    fn release_front(&mut self, most: u64) {
        let Some(taken) = self.front.take(most) else {
            return;
        };
        if taken.sent {
            self.gaps[taken.reason as usize] -= taken.count;
            self.acked += taken.count;
        }
        self.base += taken.count;
    }

    fn release_ring(&mut self, most: u64) -> u32 {
        let slot = self
            .ring
            .get(0)
            .expect("base < produced, so something stands in the ring");
        match slot {
            Slot::Lost {
                reason,
                count,
                tick,
            } if u64::from(count) > most => {
                let left = u32::try_from(u64::from(count) - most).expect("less than count");
                self.ring.replace(
                    0,
                    Slot::Lost {
                        reason,
                        count: left,
                        tick,
                    },
                );
                self.base += most;
                0
            }
            Slot::Lost { count, .. } => {
                self.pop();
                self.base += u64::from(count);
                0
            }
            Slot::Reading(reading) => {
                self.pop();
                self.base += 1;
                self.acked += 1;
                self.waiting -= 1;
                1 << reading.channel.0
            }
        }
    }

    fn pop(&mut self) {
        self.ring.pop_front();
        self.cursor_index = self.cursor_index.saturating_sub(1);
    }

    /// The gateway lost what it had acked from `next` on: those ordinals come back
    /// as a gap, for their readings are gone here too.
    pub(crate) fn forget_acks(&mut self, next: Ordinal) {
        let count = self.base.saturating_sub(next.0);
        if count == 0 {
            return;
        }
        let lost = count.min(self.acked);
        self.acked -= lost;
        self.gaps[GapReason::PowerLoss as usize] += lost;
        let last_tick = match self.at_base() {
            Some(tick) => tick,
            None => Tick(0),
        };
        let gap = Span {
            reason: GapReason::PowerLoss,
            count,
            first_tick: Tick(0),
            last_tick,
            sent: false,
        };
        // What was lost before is a gap already, and counted as one.
        let moved = self.front.push_first(gap).map(|moved| Moved {
            count: lost,
            ..moved
        });
        self.count_moved(moved);
        self.base -= count;
        self.rewind();
    }

    fn at_base(&self) -> Option<Tick> {
        if let Some(span) = self.front.first() {
            return Some(span.first_tick);
        }
        self.ring.get(0).map(|slot| match slot {
            Slot::Reading(reading) => reading.tick,
            Slot::Lost { tick, .. } => tick,
        })
    }
}

#[cfg(test)]
mod tests;
