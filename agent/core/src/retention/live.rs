//! How many block bytes of each partition are not sealed yet. Holds always: what
//! was added and not yet sealed, to within one step per partition. Bound:
//! [`LIVE_STEPS_MAX`] steps per partition.

use std::collections::{BTreeMap, VecDeque};

use crate::limits::LIVE_STEPS_MAX;
use crate::units::{Offset, PartitionId};

/// Commits that together have fewer bytes are one step.
const STEP_BYTES: u64 = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// Offset after the step and bytes in it, in order.
    steps: BTreeMap<PartitionId, VecDeque<(Offset, u64)>>,
    bytes: u64,
}

impl Live {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records up to `end` take `bytes` more.
    pub(super) fn add(&mut self, partition: PartitionId, end: Offset, bytes: u64) {
        self.bytes += bytes;
        let steps = self.steps.entry(partition).or_default();
        let is_long = steps.len() >= LIVE_STEPS_MAX;
        match steps.back_mut() {
            Some(last) if last.1 < STEP_BYTES || is_long => {
                *last = (end.max(last.0), last.1 + bytes);
            }
            Some(_) | None => steps.push_back((end, bytes)),
        }
    }

    /// Records below `end` are sealed.
    pub(super) fn sealed(&mut self, partition: PartitionId, end: Offset) {
        let Some(steps) = self.steps.get_mut(&partition) else {
            return;
        };
        while let Some((_, bytes)) = steps.pop_front_if(|(step, _)| *step <= end) {
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_does_not_count() {
        const A: PartitionId = PartitionId(0);
        const B: PartitionId = PartitionId(1);
        let mut live = Live::default();
        for n in 1..=4 {
            live.add(A, Offset(n * 10), STEP_BYTES);
        }
        live.add(B, Offset(5), 7);
        for (name, partition, end, want) in [
            ("nothing", A, 9, 4 * STEP_BYTES + 7),
            ("the first", A, 10, 3 * STEP_BYTES + 7),
            ("inside the third", A, 29, 2 * STEP_BYTES + 7),
            ("another partition", B, 5, 2 * STEP_BYTES),
            ("all", A, 1000, 0),
        ] {
            live.sealed(partition, Offset(end));
            assert_eq!(live.bytes(), want, "{name}");
        }
    }

    #[test]
    fn steps_are_bounded() {
        let mut live = Live::default();
        for n in 0..2 * LIVE_STEPS_MAX as u64 {
            live.add(PartitionId(0), Offset(n), STEP_BYTES);
        }
        assert_eq!(live.steps[&PartitionId(0)].len(), LIVE_STEPS_MAX);
        assert_eq!(live.bytes(), 2 * LIVE_STEPS_MAX as u64 * STEP_BYTES);
    }
}
