//! What was applied of all partitions of all gateways.
//!
//! Always holds: an offset of an epoch is admitted once, as long as the marks of
//! each admitted message are stored together with its rows: a state loaded from
//! the stored marks goes on where the last transaction ended. Bounds:
//! UPSTREAM_PARTITIONS_MAX, UPSTREAM_RANGES_MAX, ACK_MARKS_MAX per log.

use std::collections::BTreeMap;

use super::history::{EpochRun, History, Verdict};
use super::keys::{Source, mark_key, mark_value};
use super::ranges::OffsetRange;
use crate::limits::{ACK_MARKS_MAX, UPSTREAM_PARTITIONS_MAX, UPSTREAM_RANGES_MAX};
use crate::payload::{AckMark, GatewayName, MessageId, StreamName};
use crate::units::{EpochNonce, LogId, PartitionId};

/// A mark to store, or with `None` to remove, in the transaction of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkWrite {
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

/// What may be held, all gateways together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    partitions: usize,
    ranges: usize,
}

type Log = BTreeMap<(StreamName, PartitionId), History>;

/// See the module's text.
#[derive(Debug)]
pub struct UpstreamState {
    logs: BTreeMap<(GatewayName, LogId), Log>,
    partitions: usize,
    ranges: usize,
    bounds: Bounds,
}

impl Default for UpstreamState {
    fn default() -> Self {
        Self {
            logs: BTreeMap::new(),
            partitions: 0,
            ranges: 0,
            bounds: Bounds {
                partitions: UPSTREAM_PARTITIONS_MAX,
                ranges: UPSTREAM_RANGES_MAX,
            },
        }
    }
}

impl UpstreamState {
    /// The state that the stored marks describe.
    ///
    /// # Errors
    /// With the partition whose marks contradict each other.
    pub fn load(marks: impl IntoIterator<Item = (Source, EpochRun)>) -> Result<Self, Source> {
        let mut runs: BTreeMap<Source, Vec<EpochRun>> = BTreeMap::new();
        for (source, run) in marks {
            runs.entry(source).or_default().push(run);
        }
        let mut state = Self::default();
        for (source, runs) in runs {
            let history = History::from_runs(runs).ok_or_else(|| source.clone())?;
            state.partitions += 1;
            state.ranges += history.range_count();
            let log = state.logs.entry((source.gateway, source.log_id));
            let place = (source.stream, source.partition);
            log.or_default().insert(place, history);
        }
        Ok(state)
    }

    /// Judges a message and, when it is taken, remembers it. The marks must be
    /// stored in one transaction with what the verdict calls fresh. Of offsets that
    /// are `missing` only those are fresh that were applied in no epoch.
    pub fn admit(
        &mut self,
        id: &MessageId,
        range: OffsetRange,
        missing: bool,
    ) -> (Verdict, Vec<MarkWrite>) {
        let log_key = (id.gateway.clone(), id.log_id);
        let place = (id.stream.clone(), id.partition);
        let log = self.logs.get_mut(&log_key);
        let Some(history) = log.and_then(|log| log.get_mut(&place)) else {
            return self.admit_first(id, range);
        };
        let before = history.range_count();
        // A message adds at most one range, or one run with one range.
        let full = self.ranges >= self.bounds.ranges;
        if full && history.adds_range(id.epoch, range) {
            return (Verdict::Beyond, Vec::new());
        }
        let (verdict, change) = if missing {
            history.admit_missing(id.epoch, range)
        } else {
            history.admit(id.epoch, range)
        };
        self.ranges = self.ranges + history.range_count() - before;
        let source = Source::of(id);
        let write = |epoch| MarkWrite {
            key: mark_key(&source, epoch),
            value: history.run(epoch).map(mark_value),
        };
        let writes = change.removed.into_iter().chain(change.stored);
        (verdict, writes.map(write).collect())
    }

    /// The first message of a partition.
    fn admit_first(&mut self, id: &MessageId, range: OffsetRange) -> (Verdict, Vec<MarkWrite>) {
        let log_key = (id.gateway.clone(), id.log_id);
        let known = self.logs.get(&log_key).map_or(0, BTreeMap::len);
        let full = self.partitions >= self.bounds.partitions
            || self.ranges >= self.bounds.ranges
            || known >= ACK_MARKS_MAX;
        if full {
            return (Verdict::Full, Vec::new());
        }
        let mut history = History::default();
        let (verdict, _) = history.admit(id.epoch, range);
        self.partitions += 1;
        self.ranges += 1;
        let write = MarkWrite {
            key: mark_key(&Source::of(id), id.epoch),
            value: history.run(id.epoch).map(mark_value),
        };
        let place = (id.stream.clone(), id.partition);
        self.logs.entry(log_key).or_default().insert(place, history);
        (verdict, vec![write])
    }

    /// Up to where each partition of a log is applied, at most ACK_MARKS_MAX.
    #[must_use]
    pub fn marks(&self, gateway: &GatewayName, log_id: LogId) -> Vec<AckMark> {
        let log = self.logs.get(&(gateway.clone(), log_id));
        let histories = log.into_iter().flatten();
        let mark = |((stream, partition), history): (&(StreamName, PartitionId), &History)| {
            Some(AckMark {
                stream: stream.clone(),
                partition: *partition,
                epoch: history.epoch()?,
                nonce: EpochNonce::UNKNOWN,
                next: history.next(),
                runs: Vec::new(),
            })
        };
        histories.filter_map(mark).collect()
    }

    /// What was applied of a partition.
    #[must_use]
    pub fn history(&self, source: &Source) -> Option<&History> {
        let log = self.logs.get(&(source.gateway.clone(), source.log_id))?;
        log.get(&(source.stream.clone(), source.partition))
    }

    /// All partitions known.
    pub fn sources(&self) -> impl Iterator<Item = Source> {
        self.logs.iter().flat_map(|((gateway, log_id), log)| {
            log.keys().map(move |(stream, partition)| Source {
                gateway: gateway.clone(),
                log_id: *log_id,
                stream: stream.clone(),
                partition: *partition,
            })
        })
    }

    /// Partitions known.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Epoch, Offset};

    fn id(gateway: &str, partition: u16, epoch: u32, first: u64, last: u64) -> MessageId {
        MessageId {
            gateway: GatewayName::new(gateway).unwrap(),
            log_id: LogId([1; 16]),
            epoch: Epoch(epoch),
            nonce: EpochNonce::UNKNOWN,
            stream: StreamName::new("readings").unwrap(),
            partition: PartitionId(partition),
            first: Offset(first),
            last: Offset(last),
        }
    }

    fn admit(state: &mut UpstreamState, id: &MessageId) -> Verdict {
        let range = OffsetRange::inclusive(id.first, id.last).unwrap();
        state.admit(id, range, false).0
    }

    fn taken(verdict: &Verdict) -> bool {
        match verdict {
            Verdict::Apply { .. } => true,
            Verdict::Beyond | Verdict::Full => false,
        }
    }

    #[test]
    fn each_part_of_the_identity_tells_two_messages_apart() {
        let base = id("a", 0, 1, 0, 9);
        let mut state = UpstreamState::default();
        assert!(taken(&admit(&mut state, &base)));
        let mut others = vec![
            id("b", 0, 1, 0, 9),
            id("a", 1, 1, 0, 9),
            id("a", 0, 2, 0, 9),
        ];
        others.push(MessageId {
            log_id: LogId([2; 16]),
            ..base.clone()
        });
        others.push(MessageId {
            stream: StreamName::new("minute").unwrap(),
            ..base.clone()
        });
        for other in &others {
            let Verdict::Apply { fresh, duplicates } = admit(&mut state, other) else {
                panic!("{other:?}");
            };
            assert_eq!((fresh.len(), duplicates), (1, 0), "{other:?}");
        }
        let Verdict::Apply { fresh, duplicates } = admit(&mut state, &base) else {
            panic!("the first again");
        };
        assert_eq!((fresh.len(), duplicates), (0, 10));
        // A second epoch is the same partition.
        assert_eq!(state.partitions(), 5);
    }

    #[test]
    fn partitions_at_the_limit() {
        let mut state = UpstreamState::default();
        state.bounds.partitions = 3;
        for (partition, fits) in [(0, true), (1, true), (2, true), (3, false)] {
            let verdict = admit(&mut state, &id("a", partition, 1, 0, 9));
            assert_eq!(taken(&verdict), fits, "{partition}");
        }
        assert!(taken(&admit(&mut state, &id("a", 2, 1, 10, 19))));
    }

    #[test]
    fn partitions_of_one_log_at_the_limit() {
        let mut state = UpstreamState::default();
        let max = u16::try_from(ACK_MARKS_MAX).unwrap();
        for (partition, fits) in (0..max).map(|p| (p, true)).chain([(max, false)]) {
            let verdict = admit(&mut state, &id("a", partition, 1, 0, 9));
            assert_eq!(taken(&verdict), fits, "{partition}");
        }
        assert!(taken(&admit(&mut state, &id("b", max, 1, 0, 9))));
    }

    #[test]
    fn ranges_of_all_at_the_limit() {
        let mut state = UpstreamState::default();
        state.bounds.ranges = 3;
        for (name, id, fits) in [
            ("first", id("a", 0, 1, 0, 0), true),
            ("second", id("a", 0, 1, 2, 2), true),
            ("third", id("b", 0, 1, 0, 0), true),
            ("one too many", id("a", 0, 1, 4, 4), false),
            ("also as a new partition", id("c", 0, 1, 4, 4), false),
            ("a duplicate is still known", id("a", 0, 1, 2, 2), true),
            ("a hole is still filled", id("a", 0, 1, 1, 1), true),
            ("which makes room", id("a", 0, 1, 4, 4), true),
        ] {
            assert_eq!(taken(&admit(&mut state, &id)), fits, "{name}");
        }
    }

    #[test]
    fn marks_say_how_far_all_is_applied() {
        let mut state = UpstreamState::default();
        admit(&mut state, &id("a", 7, 1, 0, 9));
        admit(&mut state, &id("a", 7, 2, 10, 19));
        admit(&mut state, &id("a", 8, 2, 5, 9));
        admit(&mut state, &id("b", 1, 1, 0, 3));
        let marks = state.marks(&GatewayName::new("a").unwrap(), LogId([1; 16]));
        let short: Vec<_> = marks
            .iter()
            .map(|mark| (mark.partition.0, mark.epoch.0, mark.next.0))
            .collect();
        assert_eq!(short, [(7, 2, 20), (8, 2, 0)]);
        assert_eq!(
            state.marks(&GatewayName::new("a").unwrap(), LogId([2; 16])),
            []
        );
    }
}
