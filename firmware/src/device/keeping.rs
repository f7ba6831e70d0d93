//! Where a reading waits: in the ring.

use forebay_wire::ids::{Ordinal, Tick};
use forebay_wire::message::{GapReason, Reading};

use super::{Device, Totals};

impl<const RING: usize, const CHANNELS: usize> Device<RING, CHANNELS> {
    pub(super) fn keep(&mut self, reading: Reading) -> Ordinal {
        self.backlog.push(reading)
    }

    pub(super) fn keep_lost(&mut self, reason: GapReason, count: u32, tick: Tick) {
        self.backlog.push_lost(reason, count, tick);
    }

    pub(super) fn totals(&self) -> Totals {
        Totals {
            produced: self.backlog.produced(),
            waiting: self.backlog.waiting(),
            gaps: self.backlog.gaps(),
        }
    }
}
