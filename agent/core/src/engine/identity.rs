//! Which readings of a device were seen, by boot and sequence number, as runs:
//! a stream without holes is one run, whatever its length. Knows no time.
//!
//! Bound: [`IDENTITY_RUNS_MAX`] runs per device; beyond that the oldest hole of
//! the device's first boot is closed, so what fills it later counts as seen.

use std::collections::BTreeMap;

use crate::limits::IDENTITY_RUNS_MAX;
use crate::log::bytes::{Malformed, Reader, put_varint};

/// The identity of a reading on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadingId {
    pub boot: u64,
    pub seq: u64,
}

/// What was seen of one device: first of a run to its last, by boot.
#[derive(Debug, Default)]
pub(super) struct Seen {
    runs: BTreeMap<ReadingId, u64>,
}

impl Seen {
    /// Notes an identity; false when it was seen before.
    pub(super) fn insert(&mut self, id: ReadingId) -> bool {
        let before = self
            .runs
            .range(..=id)
            .next_back()
            .map(|(f, last)| (*f, *last));
        let joins = match before {
            Some((first, last)) if first.boot == id.boot => {
                if id.seq <= last {
                    return false;
                }
                (last + 1 == id.seq).then_some(first)
            }
            Some(_) | None => None,
        };
        let first = joins.unwrap_or(id);
        let next = id.seq.checked_add(1).map(|seq| ReadingId { seq, ..id });
        let last = next
            .and_then(|next| self.runs.remove(&next))
            .unwrap_or(id.seq);
        self.runs.insert(first, last);
        if self.runs.len() > IDENTITY_RUNS_MAX {
            self.close_oldest_hole();
        }
        true
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.runs.len() as u64);
        for (first, last) in &self.runs {
            put_varint(out, first.boot);
            put_varint(out, first.seq);
            put_varint(out, *last);
        }
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut runs = BTreeMap::new();
        for _ in 0..from.varint()? {
            let (boot, seq) = (from.varint()?, from.varint()?);
            runs.insert(ReadingId { boot, seq }, from.varint()?);
        }
        Ok(Self { runs })
    }

    fn close_oldest_hole(&mut self) {
        let mut oldest = self.runs.iter().map(|(first, last)| (*first, *last));
        let (Some((a, _)), Some((b, last))) = (oldest.next(), oldest.next()) else {
            return;
        };
        self.runs.remove(&b);
        if a.boot == b.boot {
            self.runs.insert(a, last);
        } else {
            // A boot that is over for so long is forgotten.
            self.runs.remove(&a);
            self.runs.insert(b, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_set(ids in prop::collection::vec((0_u64..3, prop_oneof![0_u64..30, Just(u64::MAX), Just(u64::MAX - 1)]), 0..200)) {
            let (mut seen, mut set) = (Seen::default(), BTreeSet::new());
            for (boot, seq) in ids {
                prop_assert_eq!(seen.insert(ReadingId { boot, seq }), set.insert((boot, seq)));
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        for (name, holes, seen_as_new) in [
            ("limit - 1", IDENTITY_RUNS_MAX - 1, true),
            ("limit", IDENTITY_RUNS_MAX, true),
            ("limit + 1", IDENTITY_RUNS_MAX + 1, false),
        ] {
            let mut seen = Seen::default();
            for n in 0..holes as u64 {
                assert!(
                    seen.insert(ReadingId {
                        boot: 1,
                        seq: 2 * n
                    }),
                    "{name}"
                );
            }
            assert!(seen.runs.len() <= IDENTITY_RUNS_MAX, "{name}");
            assert_eq!(
                seen.insert(ReadingId { boot: 1, seq: 1 }),
                seen_as_new,
                "{name}"
            );
        }
    }
}
