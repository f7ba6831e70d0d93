//! How many records of each partition were dropped to make room, kept over
//! restarts. Byte table: `agent/core/docs/space.md`.
//!
//! Holds always: a record is counted at most once, also when the process dies
//! between counting it and removing it, because the place up to which was counted
//! is kept with the count. Bound: one entry per partition of a topic.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::key::TopicPartition;
use crate::store::Loss;
use crate::units::{EventTime, Offset, PartitionId, TopicId};

/// Meta keys: this, topic u16 and partition u16 big-endian.
pub const DROPPED_META_PREFIX: &[u8] = b"dropped/";
const VERSION: u8 = 2;
/// Without what was not confirmed.
const VERSION_1: u8 = 1;

/// Records of one partition that are gone, or never came in, because of room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropCounts {
    /// All below are removed, and counted.
    pub counted_to: u64,
    /// Records that were durable and were removed.
    pub dropped: u64,
    /// Of these, what the broker had not acked.
    pub unsent: u64,
    /// Of these, what had not arrived at each destination that is waited for; what was
    /// not acked among them.
    pub unconfirmed: u64,
    /// Result rows that a full topic did not take. Readings that it did not take
    /// stand in the log as gaps.
    pub refused: u64,
    /// Largest event time of what was removed; the smallest time of all before.
    pub newest: EventTime,
}

impl Default for DropCounts {
    fn default() -> Self {
        Self {
            counted_to: 0,
            dropped: 0,
            unsent: 0,
            unconfirmed: 0,
            refused: 0,
            newest: EventTime(i64::MIN),
        }
    }
}

/// What was dropped of each partition, as meta entries keep it.
#[must_use]
pub fn drop_counts(meta: &[(Vec<u8>, Vec<u8>)]) -> BTreeMap<TopicPartition, DropCounts> {
    Dropped::restore(meta, &[]).counts
}

impl DropCounts {
    fn to_bytes(self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let (unsent, unconfirmed) = (self.unsent, self.unconfirmed);
        for number in [
            self.counted_to,
            self.dropped,
            unsent,
            unconfirmed,
            self.refused,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.newest.0.to_le_bytes());
        out
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first().map(|(v, rest)| (*v, rest))?;
        let (numbers, []) = rest.as_chunks::<8>() else {
            return None;
        };
        let numbers: Vec<u64> = numbers.iter().map(|n| u64::from_le_bytes(*n)).collect();
        let (counted_to, dropped, unsent, unconfirmed, refused, newest) = match numbers[..] {
            [a, b, c, d, e, f] if version == VERSION => (a, b, c, d, e, f),
            [a, b, c, d, e] if version == VERSION_1 => (a, b, c, 0, d, e),
            _ => return None,
        };
        Some(Self {
            counted_to,
            dropped,
            unsent,
            unconfirmed,
            refused,
            newest: EventTime(newest.cast_signed()),
        })
    }

    /// Adds the counts of another partition.
    pub fn add(&mut self, other: &Self) {
        self.dropped += other.dropped;
        self.unsent += other.unsent;
        self.unconfirmed += other.unconfirmed;
        self.refused += other.refused;
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    counts: BTreeMap<TopicPartition, DropCounts>,
    dirty: BTreeSet<TopicPartition>,
    /// What the opening found missing: it was lost, not dropped.
    losses: Vec<Loss>,
}

impl Dropped {
    pub(super) fn restore(meta: &[(Vec<u8>, Vec<u8>)], losses: &[Loss]) -> Self {
        let counts = meta.iter().filter_map(|(key, value)| {
            let at = parse_key(key)?;
            Some((at, DropCounts::parse(value)?))
        });
        Self {
            counts: counts.collect(),
            dirty: BTreeSet::new(),
            losses: losses.to_vec(),
        }
    }

    pub(super) fn of(&self, at: TopicPartition) -> DropCounts {
        self.counts.get(&at).copied().unwrap_or_default()
    }

    /// Sum over the partitions of a topic.
    pub(super) fn of_topic(&self, topic: TopicId) -> DropCounts {
        let mut sum = DropCounts::default();
        let ours = self.counts.iter().filter(|(at, _)| at.topic == topic);
        ours.for_each(|(_, counts)| sum.add(counts));
        sum
    }

    /// `records` in `[first, end)` are being removed, some of them not acked by the broker
    /// and not arrived, and nothing below `kept_from` remains. False when that was counted
    /// before.
    pub(super) fn remove(
        &mut self,
        at: TopicPartition,
        (end, kept_from): (Offset, Offset),
        records: u64,
        behind: Behind,
    ) -> bool {
        let counts = self.counts.entry(at).or_default();
        let is_new = end.0 > counts.counted_to;
        if is_new {
            counts.dropped += records;
            counts.unsent += behind.unsent;
            counts.unconfirmed += behind.unconfirmed;
            counts.counted_to = end.max(kept_from).0;
            self.dirty.insert(at);
        }
        is_new
    }

    /// What is being removed holds event times up to this.
    pub(super) fn reaches(&mut self, at: TopicPartition, time_max: EventTime) {
        let counts = self.counts.entry(at).or_default();
        if time_max > counts.newest {
            counts.newest = time_max;
            self.dirty.insert(at);
        }
    }

    /// The oldest record that is kept is `first`: what is missing below it and was
    /// not counted was removed just before a crash, unless it was lost.
    pub(super) fn kept_from(&mut self, at: TopicPartition, first: Offset, came: Option<Came>) {
        let counts = self.counts.entry(at).or_default();
        let from = counts.counted_to;
        if first.0 <= from {
            return;
        }
        let lost = self.losses.iter().filter(|loss| loss.at == at);
        let lost: u64 = lost
            .map(|loss| {
                let (start, end) = (loss.first.0.max(from), loss.end.0.min(first.0));
                end.saturating_sub(start)
            })
            .sum();
        let records = (first.0 - from).saturating_sub(lost);
        counts.dropped += records;
        let behind = Behind::of(from, first.0, came, records);
        counts.unsent += behind.unsent;
        counts.unconfirmed += behind.unconfirmed;
        counts.counted_to = first.0;
        self.dirty.insert(at);
    }

    /// A full topic did not take `rows`.
    pub(super) fn refuse(&mut self, at: TopicPartition, rows: u64) {
        self.counts.entry(at).or_default().refused += rows;
        self.dirty.insert(at);
    }

    /// Entries to write that changed since the last call.
    pub(super) fn take_entries(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let dirty = std::mem::take(&mut self.dirty);
        let entries = dirty
            .into_iter()
            .map(|at| (key(at), self.of(at).to_bytes()));
        entries.collect()
    }
}

/// How far a partition has come on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Came {
    /// The brokers have all below.
    pub sent: Offset,
    /// All below has arrived for good.
    pub arrived: Offset,
}

/// Records of a range that have not come so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Behind {
    pub unsent: u64,
    pub unconfirmed: u64,
}

impl Behind {
    /// Of `[first, end)`, at most `records`; none where nothing is forwarded.
    pub(super) fn of(first: u64, end: u64, came: Option<Came>, records: u64) -> Self {
        let above = |mark: Offset| end.saturating_sub(first.max(mark.0)).min(records);
        Self {
            unsent: came.map_or(0, |came| above(came.sent)),
            unconfirmed: came.map_or(0, |came| above(came.arrived)),
        }
    }
}

fn key(at: TopicPartition) -> Vec<u8> {
    let mut key = DROPPED_META_PREFIX.to_vec();
    key.extend_from_slice(&at.topic.0.to_be_bytes());
    key.extend_from_slice(&at.partition.0.to_be_bytes());
    key
}

fn parse_key(key: &[u8]) -> Option<TopicPartition> {
    let rest: &[u8; 4] = key.strip_prefix(DROPPED_META_PREFIX)?.try_into().ok()?;
    let [a, b, c, d] = *rest;
    Some(TopicPartition {
        topic: TopicId(u16::from_be_bytes([a, b])),
        partition: PartitionId(u16::from_be_bytes([c, d])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: TopicPartition = TopicPartition {
        topic: TopicId(0x0102),
        partition: PartitionId(3),
    };

    #[test]
    fn the_bytes_are_these_and_read_back() {
        let mut dropped = Dropped::default();
        let behind = Behind {
            unsent: 4,
            unconfirmed: 7,
        };
        dropped.remove(AT, (Offset(10), Offset(12)), 9, behind);
        dropped.refuse(AT, 0x0506);
        dropped.reaches(AT, EventTime(-2));
        dropped.reaches(AT, EventTime(-3));
        let entries = dropped.take_entries();
        let value = [
            [2].as_slice(),
            &12_u64.to_le_bytes(),
            &9_u64.to_le_bytes(),
            &4_u64.to_le_bytes(),
            &7_u64.to_le_bytes(),
            &[6, 5, 0, 0, 0, 0, 0, 0],
            &(-2_i64).to_le_bytes(),
        ]
        .concat();
        assert_eq!(entries, [(b"dropped/\x01\x02\x00\x03".to_vec(), value)]);
        assert_eq!(dropped.take_entries(), []);
        let again = Dropped::restore(&entries, &[]);
        assert_eq!(again.of(AT), dropped.of(AT));
    }

    #[test]
    fn an_entry_without_what_was_not_confirmed_still_reads() {
        let numbers = [12_u64, 9, 4, 6, 5].map(u64::to_le_bytes).concat();
        let counts = DropCounts::parse(&[&[1][..], &numbers].concat()).unwrap();
        assert_eq!(
            (counts.counted_to, counts.dropped, counts.unsent),
            (12, 9, 4)
        );
        assert_eq!(
            (counts.unconfirmed, counts.refused, counts.newest),
            (0, 6, EventTime(5))
        );
    }

    #[test]
    fn anything_else_is_as_if_nothing_had_been_counted() {
        let good = DropCounts::default().to_bytes();
        for cut in [0, 1, 8, good.len() - 1] {
            assert_eq!(DropCounts::parse(&good[..cut]), None, "{cut}");
        }
        let mut newer = good.clone();
        newer[0] = 3;
        assert_eq!(DropCounts::parse(&newer), None);
        assert_eq!(DropCounts::parse(&[good, vec![0; 8]].concat()), None);
        for key in [&b"dropped/"[..], b"dropped/123", b"dropped/12345", b"x"] {
            assert_eq!(parse_key(key), None);
        }
    }

    #[test]
    fn a_record_is_counted_once_whatever_a_crash_left() {
        // Counted and removed; the entry was written or not, the file was removed or not.
        for (name, entry_written, first_kept, want) in [
            ("neither", false, 0, 100),
            ("entry only", true, 0, 100),
            ("file only", false, 100, 100),
            ("both", true, 100, 100),
        ] {
            let came = Came {
                sent: Offset(70),
                arrived: Offset(60),
            };
            let behind = Behind::of(0, 100, Some(came), 100);
            let mut before = Dropped::default();
            before.remove(AT, (Offset(100), Offset(100)), 100, behind);
            let meta = before.take_entries();
            let meta = if entry_written { &meta[..] } else { &[] };
            let mut after = Dropped::restore(meta, &[]);
            after.kept_from(AT, Offset(first_kept), Some(came));
            if first_kept == 0 {
                // It is still there, and removed again.
                after.remove(AT, (Offset(100), Offset(100)), 100, behind);
            }
            let counts = after.of(AT);
            assert_eq!((counts.dropped, counts.unsent), (want, 30), "{name}");
            assert_eq!(counts.unconfirmed, 40, "{name}");
        }
    }

    #[test]
    fn what_was_lost_is_not_dropped() {
        let loss = Loss {
            at: AT,
            first: Offset(20),
            end: Offset(50),
        };
        let mut dropped = Dropped::restore(&[], &[loss]);
        dropped.kept_from(AT, Offset(40), None);
        assert_eq!(dropped.of(AT).dropped, 20);
        dropped.kept_from(AT, Offset(60), None);
        assert_eq!(dropped.of(AT).dropped, 30);
        assert_eq!(dropped.of(AT).unsent, 0, "nothing is forwarded");
    }
}
