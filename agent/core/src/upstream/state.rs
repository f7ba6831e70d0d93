//! What was applied of all partitions of all gateways.
//!
//! Always holds: an offset of an epoch is admitted once, as long as the marks of
//! each admitted message are stored together with its rows: a state loaded from
//! the stored marks goes on where the last transaction ended. Bounds:
//! UPSTREAM_PARTITIONS_MAX, UPSTREAM_RANGES_MAX, ACK_MARKS_MAX per log.

use std::collections::BTreeMap;

use super::batch::{EntryWrite, Table};
use super::history::{Change, History, Verdict};
use super::keys::{Source, mark_key, mark_value};
use super::log::{Log, Place};
use super::ranges::OffsetRange;
use super::run::{Opening, Run};
use crate::limits::{
    ACK_MARKS_MAX, ACK_OPENINGS_MAX, ACK_RUNS_MAX, ACK_RUNS_PER_MARK_MAX, UPSTREAM_PARTITIONS_MAX,
    UPSTREAM_RANGES_MAX,
};
use crate::payload::{AckMark, AckRun, GatewayName, MessageId};
use crate::units::{LogId, Offset};

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    pub verdict: Verdict,
    /// To be written in one transaction with what the verdict calls fresh.
    pub marks: Vec<EntryWrite>,
    /// Its opening is the first sign of a second disk of its log.
    pub is_clone: bool,
}

impl Admitted {
    fn refused(verdict: Verdict) -> Self {
        Self {
            verdict,
            marks: Vec::new(),
            is_clone: false,
        }
    }
}

/// What may be held, all gateways together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    partitions: usize,
    ranges: usize,
}

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
    /// Puts partitions there as the marks that are stored describe them.
    ///
    /// # Errors
    /// With the partition whose marks contradict each other.
    pub fn load(&mut self, marks: impl IntoIterator<Item = (Source, Run)>) -> Result<(), Source> {
        let mut marks = marks.into_iter().peekable();
        while let Some((source, run)) = marks.next() {
            let mut runs = vec![run];
            while let Some((_, run)) = marks.next_if(|(next, _)| *next == source) {
                runs.push(run);
            }
            let history = History::from_runs(runs).ok_or_else(|| source.clone())?;
            if self.history(&source).is_some() {
                return Err(source);
            }
            self.partitions += 1;
            self.ranges += history.range_count();
            let log = self.logs.entry((source.gateway, source.log_id));
            log.or_default()
                .restore((source.stream, source.partition), history);
        }
        Ok(())
    }

    /// Forgets a gateway, to load it anew.
    pub fn forget(&mut self, gateway: &GatewayName) {
        let logs = self.logs_of(gateway).map(|(key, _)| key.clone());
        for key in logs.collect::<Vec<_>>() {
            let log = self.logs.remove(&key).unwrap_or_default();
            self.partitions -= log.len();
            let ranges = log.partitions().map(|(_, history)| history.range_count());
            self.ranges -= ranges.sum::<usize>();
        }
    }

    fn logs_of(
        &self,
        gateway: &GatewayName,
    ) -> impl Iterator<Item = (&(GatewayName, LogId), &Log)> {
        let from = (gateway.clone(), LogId([0; 16]));
        let to = (gateway.clone(), LogId([0xff; 16]));
        self.logs.range(from..=to)
    }

    /// Judges a message and, when it is taken, remembers it. Of offsets that are
    /// `missing` only those are fresh that were applied in no opening.
    pub fn admit(&mut self, id: &MessageId, range: OffsetRange, missing: bool) -> Admitted {
        let log_key = (id.gateway.clone(), id.log_id);
        let place = (id.stream.clone(), id.partition);
        let opening = opening(id);
        let Some(log) = self.logs.get_mut(&log_key) else {
            return self.admit_first(id, range);
        };
        let is_forked = log.is_forked();
        let Some(history) = log.get_mut(&place) else {
            return self.admit_first(id, range);
        };
        let before = history.range_count();
        // A message adds at most one range, or one run with one range.
        let full = self.ranges >= self.bounds.ranges;
        if full && history.adds_range(opening, range) {
            return Admitted::refused(Verdict::Beyond);
        }
        let (verdict, change) = if missing {
            history.admit_missing(opening, range, is_forked)
        } else {
            history.admit(opening, range)
        };
        self.ranges = self.ranges + history.range_count() - before;
        let marks = writes(&Source::of(id), history, change);
        let is_clone = verdict != Verdict::Beyond && log.note(opening);
        Admitted {
            verdict,
            marks,
            is_clone,
        }
    }

    /// The first message of a partition.
    fn admit_first(&mut self, id: &MessageId, range: OffsetRange) -> Admitted {
        let log_key = (id.gateway.clone(), id.log_id);
        let known = self.logs.get(&log_key).map_or(0, Log::len);
        let full = self.partitions >= self.bounds.partitions
            || self.ranges >= self.bounds.ranges
            || known >= ACK_MARKS_MAX;
        if full {
            return Admitted::refused(Verdict::Full);
        }
        let mut history = History::default();
        let (verdict, change) = history.admit(opening(id), range);
        self.partitions += 1;
        self.ranges += 1;
        let marks = writes(&Source::of(id), &history, change);
        let log = self.logs.entry(log_key).or_default();
        log.insert((id.stream.clone(), id.partition), history);
        Admitted {
            verdict,
            marks,
            is_clone: log.note(opening(id)),
        }
    }

    /// Up to where each partition of a log is applied, at most ACK_MARKS_MAX.
    #[must_use]
    pub fn marks(&self, gateway: &GatewayName, log_id: LogId) -> Vec<AckMark> {
        let Some(log) = self.logs.get(&(gateway.clone(), log_id)) else {
            return Vec::new();
        };
        // Of a forked log no mark is told without its runs: one disk would take what
        // the other has sent for its own.
        let mut room = ACK_RUNS_MAX;
        let mark = |((stream, partition), history): (&Place, &History)| {
            let highest = history.opening()?;
            let runs = if log.is_forked() {
                ack_runs(history)
            } else {
                Vec::new()
            };
            room = room.checked_sub(runs.len())?;
            Some(AckMark {
                stream: stream.clone(),
                partition: *partition,
                epoch: highest.epoch,
                nonce: highest.nonce,
                next: history.next(),
                runs,
            })
        };
        log.partitions().filter_map(mark).collect()
    }

    /// Whether disks of the log went separate ways.
    #[must_use]
    pub fn is_forked(&self, gateway: &GatewayName, log_id: LogId) -> bool {
        let log = self.logs.get(&(gateway.clone(), log_id));
        log.is_some_and(Log::is_forked)
    }

    /// Logs of which disks went separate ways.
    pub fn forked(&self) -> impl Iterator<Item = (&GatewayName, LogId)> {
        let forked = self.logs.iter().filter(|(_, log)| log.is_forked());
        forked.map(|((gateway, log_id), _)| (gateway, *log_id))
    }

    /// What was applied of a partition.
    #[must_use]
    pub fn history(&self, source: &Source) -> Option<&History> {
        let log = self.logs.get(&(source.gateway.clone(), source.log_id))?;
        log.get(&(source.stream.clone(), source.partition))
    }

    /// The first hole of a partition, as [`History::hole`] says.
    #[must_use]
    pub fn hole(&self, source: &Source) -> (Offset, Offset) {
        let log = self.logs.get(&(source.gateway.clone(), source.log_id));
        let place = (source.stream.clone(), source.partition);
        let hole = log.and_then(|log| Some(log.get(&place)?.hole(log.is_forked())));
        hole.unwrap_or((Offset(0), Offset(0)))
    }

    /// The first hole of each partition that has one, of all gateways or of one, as
    /// [`History::hole`] says.
    pub fn holes(&self, gateway: Option<&GatewayName>) -> Vec<(Source, Offset, Offset)> {
        let mut out = Vec::new();
        let mut of_log = |((gateway, log_id), log): (&(GatewayName, LogId), &Log)| {
            for ((stream, partition), history) in log.partitions() {
                let (from, until) = history.hole(log.is_forked());
                if from < until {
                    let source = Source {
                        gateway: gateway.clone(),
                        log_id: *log_id,
                        stream: stream.clone(),
                        partition: *partition,
                    };
                    out.push((source, from, until));
                }
            }
        };
        match gateway {
            Some(gateway) => self.logs_of(gateway).for_each(&mut of_log),
            None => self.logs.iter().for_each(&mut of_log),
        }
        out
    }

    /// Partitions known.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions
    }
}

fn opening(id: &MessageId) -> Opening {
    Opening {
        epoch: id.epoch,
        nonce: id.nonce,
    }
}

fn writes(source: &Source, history: &History, change: Change) -> Vec<EntryWrite> {
    let write = |opening| EntryWrite {
        table: Table::Marks,
        key: mark_key(source, opening),
        value: history.run(opening).map(mark_value),
    };
    let writes = change.removed.into_iter().chain(change.stored);
    writes.map(write).collect()
}

/// What the openings of which something came last have. A merged run says nothing: what
/// others in it have is not its own. The lowest ranges of each: the others join these
/// when the holes between are filled.
fn ack_runs(history: &History) -> Vec<AckRun> {
    let newest = history.newest(ACK_OPENINGS_MAX).into_iter();
    let single = newest.filter(|run| run.others.is_none() && run.last == run.opening.epoch);
    let ranges = single.flat_map(|run| {
        let ranges = run.seen.as_slice().iter().take(ACK_RUNS_PER_MARK_MAX);
        (0..).zip(ranges).map(|(place, range)| {
            let ack = AckRun {
                epoch: run.opening.epoch,
                nonce: run.opening.nonce,
                first: range.start(),
                next: range.end(),
            };
            (place, ack)
        })
    });
    let mut ranges: Vec<(u32, AckRun)> = ranges.collect();
    ranges.sort_by_key(|(place, _)| *place);
    ranges.truncate(ACK_RUNS_PER_MARK_MAX);
    let mut runs: Vec<_> = ranges.into_iter().map(|(_, run)| run).collect();
    runs.sort_by_key(|run| (run.epoch, run.nonce, run.first));
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::StreamName;
    use crate::units::{Epoch, EpochNonce, PartitionId};

    fn id(gateway: &str, partition: u16, epoch: u32, first: u64, last: u64) -> MessageId {
        MessageId {
            gateway: GatewayName::new(gateway).unwrap(),
            log_id: LogId([1; 16]),
            epoch: Epoch(epoch),
            nonce: EpochNonce(u64::from(epoch) + 100),
            stream: StreamName::new("readings").unwrap(),
            partition: PartitionId(partition),
            first: Offset(first),
            last: Offset(last),
        }
    }

    fn admit(state: &mut UpstreamState, id: &MessageId) -> Verdict {
        let range = OffsetRange::inclusive(id.first, id.last).unwrap();
        state.admit(id, range, false).verdict
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

    /// Disks of one log that went separate ways: a backup of its opening 1 is
    /// restored after opening 2.
    #[test]
    fn of_a_forked_log_each_opening_has_marks_of_its_own() {
        let mut state = UpstreamState::default();
        let forked = |mut id: MessageId| {
            id.nonce = EpochNonce(7);
            id
        };
        let gateway = GatewayName::new("a").unwrap();
        let log_id = LogId([1; 16]);
        for (name, id, is_clone) in [
            ("opening 1", id("a", 0, 1, 0, 9), false),
            ("opening 2", id("a", 0, 2, 10, 29), false),
            (
                "opening 2 of the backup",
                forked(id("a", 0, 2, 8, 11)),
                true,
            ),
            ("and again", forked(id("a", 0, 2, 14, 15)), false),
            ("another partition", forked(id("a", 1, 2, 0, 5)), false),
        ] {
            let range = OffsetRange::inclusive(id.first, id.last).unwrap();
            let admitted = state.admit(&id, range, false);
            assert_eq!(admitted.is_clone, is_clone, "{name}");
            let Verdict::Apply { fresh, .. } = admitted.verdict else {
                panic!("{name}");
            };
            assert_eq!(fresh, [range], "{name}");
        }
        assert_eq!(state.forked().collect::<Vec<_>>(), [(&gateway, log_id)]);
        let marks = state.marks(&gateway, log_id);
        let runs = |mark: &AckMark| {
            let runs = mark.runs.iter();
            let runs = runs.map(|run| (run.epoch.0, run.nonce.0, run.first.0, run.next.0));
            runs.collect::<Vec<_>>()
        };
        assert_eq!(
            runs(&marks[0]),
            [
                (1, 101, 0, 10),
                (2, 7, 8, 12),
                (2, 7, 14, 16),
                (2, 102, 10, 30)
            ]
        );
        assert_eq!(
            runs(&marks[1]),
            [(2, 7, 0, 6)],
            "also where nothing collides"
        );
        // Its own hole is a hole.
        let holes = state.holes(Some(&gateway));
        let holes: Vec<_> = holes.iter().map(|(_, a, b)| (a.0, b.0)).collect();
        assert_eq!(holes, [(12, 14)]);
        state.forget(&gateway);
        assert_eq!((state.partitions(), state.ranges), (0, 0));
    }

    #[test]
    fn runs_of_one_mark_and_of_all_at_their_limits() {
        let mut state = UpstreamState::default();
        let gateway = GatewayName::new("a").unwrap();
        let partitions = ACK_RUNS_MAX / ACK_RUNS_PER_MARK_MAX + 1;
        for partition in 0..u16::try_from(partitions).unwrap() {
            for n in 0..=ACK_RUNS_PER_MARK_MAX as u64 {
                let mut id = id("a", partition, 1, 10 * n, 10 * n + 5);
                admit(&mut state, &id);
                id.nonce = EpochNonce(7);
                admit(&mut state, &id);
            }
        }
        let marks = state.marks(&gateway, LogId([1; 16]));
        assert_eq!(marks.len(), partitions - 1);
        for mark in &marks {
            assert_eq!(mark.runs.len(), ACK_RUNS_PER_MARK_MAX);
            // The lowest of both: those that grow when holes are filled.
            let firsts: Vec<_> = mark.runs.iter().map(|run| run.first.0).collect();
            assert_eq!(firsts, [0, 10, 20, 30, 0, 10, 20, 30]);
        }
    }
}
