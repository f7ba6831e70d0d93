//! Readings whose time is not known yet: they wait for the record that says by how much
//! the clock was wrong.
//!
//! Holds always: they come out in the order of the log, once. A clock is put right within
//! the opening of the log in which it was wrong, so what is met of a later one says that
//! theirs will never be known. Bound: [`PARKED_READINGS_MAX`]. Knows no engine.

use crate::limits::PARKED_READINGS_MAX;
use crate::record::ReadingRecord;
use crate::units::{Epoch, EventTime, Span};

/// A reading that waits; `K` is what its series is to whoever takes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waiting<K> {
    pub known: K,
    pub reading: ReadingRecord,
    pub value: Option<f64>,
}

/// See the module.
#[derive(Debug)]
pub struct Parked<K> {
    /// Of the readings that wait.
    epoch: Epoch,
    waiting: Vec<Waiting<K>>,
}

impl<K> Default for Parked<K> {
    fn default() -> Self {
        Self {
            epoch: Epoch(0),
            waiting: Vec::new(),
        }
    }
}

impl<K> Parked<K> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Those that wait, and the opening of the log that they are of.
    #[must_use]
    pub fn waiting(&self) -> (Epoch, &[Waiting<K>]) {
        (self.epoch, &self.waiting)
    }

    /// The same from both.
    #[must_use]
    pub fn restore(epoch: Epoch, waiting: Vec<Waiting<K>>) -> Self {
        Self { epoch, waiting }
    }

    /// Keeps a reading; gives it back when there are too many.
    ///
    /// # Errors
    /// The reading, beyond [`PARKED_READINGS_MAX`].
    pub fn park(&mut self, epoch: Epoch, reading: Waiting<K>) -> Result<(), Waiting<K>> {
        if self.waiting.len() >= PARKED_READINGS_MAX {
            return Err(reading);
        }
        self.epoch = epoch;
        self.waiting.push(reading);
        Ok(())
    }

    /// Those of which something of `epoch` says that their time will never be known.
    pub fn take_lost(&mut self, epoch: Epoch) -> Vec<Waiting<K>> {
        if self.waiting.is_empty() || self.epoch == epoch {
            return Vec::new();
        }
        std::mem::take(&mut self.waiting)
    }

    /// All of them, with their times put right.
    pub fn release(&mut self, step: Span) -> Vec<Waiting<K>> {
        let mut waiting = std::mem::take(&mut self.waiting);
        for Waiting { reading, .. } in &mut waiting {
            reading.time = EventTime(reading.time.0.saturating_add(step.0));
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use forebay_wire::ids::{Ordinal, Tick};
    use forebay_wire::message::Quality;

    use super::*;
    use crate::record::UNSYNCED_US;

    fn waiting(n: u64) -> Waiting<()> {
        let reading = ReadingRecord {
            series: 0,
            ordinal: Ordinal(n),
            tick: Tick(n),
            time: EventTime(n as i64),
            uncertainty_us: UNSYNCED_US,
            value: 1,
            quality: Quality::Ok,
        };
        Waiting {
            known: (),
            reading,
            value: Some(1.0),
        }
    }

    fn times(of: &[Waiting<()>]) -> Vec<i64> {
        of.iter().map(|waiting| waiting.reading.time.0).collect()
    }

    #[test]
    fn they_come_out_once_in_order_and_moved() {
        let mut parked = Parked::default();
        for n in [3, 1, 2] {
            assert_eq!(parked.park(Epoch(4), waiting(n)), Ok(()));
        }
        assert_eq!(parked.take_lost(Epoch(4)), [], "the same opening");
        assert_eq!(times(&parked.release(Span(10))), [13, 11, 12]);
        assert_eq!(parked.release(Span(10)), []);
    }

    #[test]
    fn a_later_opening_says_that_they_are_lost() {
        let mut parked = Parked::default();
        assert_eq!(parked.park(Epoch(4), waiting(1)), Ok(()));
        assert_eq!(times(&parked.take_lost(Epoch(5))), [1]);
        assert!(parked.is_empty());
    }

    #[test]
    fn they_are_bounded() {
        let mut parked = Parked::default();
        for n in 0..=PARKED_READINGS_MAX as u64 {
            let kept = parked.park(Epoch(1), waiting(n)).is_ok();
            assert_eq!(kept, n < PARKED_READINGS_MAX as u64, "{n}");
        }
        assert_eq!(parked.len(), PARKED_READINGS_MAX);
    }
}
