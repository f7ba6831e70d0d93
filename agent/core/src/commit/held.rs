//! Gaps of rejected readings that wait a moment, so that many become one: a device
//! that goes on sending to a full log must not fill what is left with gaps.
//!
//! Holds always: per device boot one run of ordinals without a hole. Bound: one gap
//! per boot that is connected.

use std::collections::BTreeMap;

use crate::ledger::Source;
use crate::log::key::TopicPartition;
use crate::record::GapRecord;
use crate::units::Mono;

/// How long a gap waits for the next one, us. Until then its ordinals are not acked.
const HOLD_US: u64 = 1_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Held {
    gaps: BTreeMap<Source, (TopicPartition, GapRecord)>,
    since: Option<Mono>,
}

impl Held {
    /// Takes a gap; gives back the one before it when they are no run.
    pub(super) fn push(
        &mut self,
        at: TopicPartition,
        gap: &GapRecord,
        now: Mono,
    ) -> Option<(TopicPartition, GapRecord)> {
        let source = Source {
            uid: gap.uid,
            boot: gap.boot,
        };
        self.since.get_or_insert(now);
        let held = self.gaps.get_mut(&source);
        match held {
            Some((_, held)) if held.first.0 + held.count == gap.first.0 => {
                held.count += gap.count;
                held.time = gap.time;
                None
            }
            Some(_) | None => self.gaps.insert(source, (at, *gap)),
        }
    }

    /// The gap of one boot, before something else of it is appended.
    pub(super) fn take(&mut self, source: Source) -> Option<(TopicPartition, GapRecord)> {
        self.gaps.remove(&source)
    }

    /// All of them, in order of device.
    pub(super) fn take_all(&mut self) -> Vec<(TopicPartition, GapRecord)> {
        self.since = None;
        std::mem::take(&mut self.gaps).into_values().collect()
    }

    /// When they have waited long enough.
    pub(super) fn due(&self) -> Option<Mono> {
        let since = self.since.filter(|_| !self.gaps.is_empty())?;
        Some(Mono(since.0.saturating_add(HOLD_US)))
    }
}
