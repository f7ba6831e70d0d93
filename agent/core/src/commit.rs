//! Group commit: collects what all appenders sealed into one batch at a time and
//! moves the durable heads when the store says that the batch is on disk.
//!
//! Holds always: at most one batch is under way, and a head, and what a device may
//! be acked, never passes what the store confirmed. Knows no store: a batch leaves
//! with a token and comes back by it. Rows of a topic that is full are left out and
//! counted here, whoever appends them.

mod held;

use std::collections::{BTreeMap, BTreeSet};

use forebay_wire::ids::Ordinal;

use self::held::Held;
use crate::ledger::Source;
use crate::limits::PENDING_RECORDS_MAX;
use crate::log::appender::Appender;
use crate::log::head::stamp_unsynced;
use crate::log::key::TopicPartition;
use crate::log::topic::READINGS;
use crate::record::{GapRecord, ReadingRecord, Row, Series};
use crate::store::WriteBatch;
use crate::units::{Epoch, Mono, Offset, Span, TopicId};

/// Names a batch on its way to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitToken(pub u64);

#[derive(Debug)]
struct UnderWay {
    token: CommitToken,
    heads: Vec<(TopicPartition, Offset)>,
    sources: BTreeMap<Source, Ordinal>,
    records: usize,
}

/// What became durable with one commit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Durable {
    /// New durable heads, in order of partition.
    pub heads: Vec<(TopicPartition, Offset)>,
    /// First ordinal that is not durable, per device boot that moved.
    pub sources: BTreeMap<Source, Ordinal>,
}

/// The appenders and the batch under way.
#[derive(Debug)]
pub struct GroupCommit {
    epoch: Epoch,
    linger_us: u64,
    appenders: BTreeMap<TopicPartition, Appender>,
    durable: BTreeMap<TopicPartition, Offset>,
    /// First ordinal not yet appended, per boot with unsealed records.
    sources: BTreeMap<Source, Ordinal>,
    meta: BTreeMap<Vec<u8>, Vec<u8>>,
    meta_since: Option<Mono>,
    records: usize,
    held: Held,
    /// Topics that take no more rows, and how many they did not take.
    full: BTreeSet<TopicId>,
    refused: BTreeMap<TopicPartition, u64>,
    under_way: Option<UnderWay>,
    last_token: u64,
}

impl GroupCommit {
    /// Starts from the durable heads that the store was opened with.
    #[must_use]
    pub fn new(epoch: Epoch, linger: Span, heads: BTreeMap<TopicPartition, Offset>) -> Self {
        Self {
            epoch,
            linger_us: linger.0.unsigned_abs(),
            appenders: BTreeMap::new(),
            durable: heads,
            sources: BTreeMap::new(),
            meta: BTreeMap::new(),
            meta_since: None,
            records: 0,
            held: Held::default(),
            full: BTreeSet::new(),
            refused: BTreeMap::new(),
            under_way: None,
            last_token: 0,
        }
    }

    /// First offset of `at` that is not durable.
    #[must_use]
    pub fn head(&self, at: TopicPartition) -> Offset {
        self.durable.get(&at).copied().unwrap_or(Offset(0))
    }

    /// All durable heads, in order of partition.
    pub fn heads(&self) -> impl Iterator<Item = (TopicPartition, Offset)> + '_ {
        self.durable.iter().map(|(at, head)| (*at, *head))
    }

    /// Offset that the next record of `at` takes.
    #[must_use]
    pub fn next(&self, at: TopicPartition) -> Offset {
        self.appenders
            .get(&at)
            .map_or(self.head(at), Appender::next)
    }

    /// Whether more records may be appended now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let under_way = self.under_way.as_ref().map_or(0, |batch| batch.records);
        self.records + under_way < PENDING_RECORDS_MAX
    }

    /// Whether readers of the log may make more rows: they leave half of the room to
    /// what comes from outside.
    #[must_use]
    pub fn has_room_for_rows(&self) -> bool {
        let under_way = self.under_way.as_ref().map_or(0, |batch| batch.records);
        self.records + under_way < PENDING_RECORDS_MAX / 2
    }

    /// Appends a reading.
    pub fn reading(&mut self, at: TopicPartition, series: &Series, r: &ReadingRecord, now: Mono) {
        let source = Source {
            uid: series.uid,
            boot: series.boot,
        };
        self.release(source, now);
        self.appender(at).push_reading(series, r, now);
        self.note(source, Ordinal(r.ordinal.0 + 1));
    }

    /// Appends a gap.
    pub fn gap(&mut self, at: TopicPartition, gap: &GapRecord, now: Mono) {
        let source = Source {
            uid: gap.uid,
            boot: gap.boot,
        };
        self.release(source, now);
        self.append_gap(at, gap, now);
    }

    /// Appends the gap of readings that were rejected, after a moment in which it
    /// grows with those that follow.
    pub fn reject(&mut self, at: TopicPartition, gap: &GapRecord, now: Mono) {
        if let Some((at, before)) = self.held.push(at, gap, now) {
            self.append_gap(at, &before, now);
        }
    }

    /// Appends all gaps that wait: what is given from now on comes after them.
    pub fn release_all(&mut self, now: Mono) {
        for (at, gap) in self.held.take_all() {
            self.append_gap(at, &gap, now);
        }
    }

    /// The order of one device's ordinals stays.
    fn release(&mut self, source: Source, now: Mono) {
        if let Some((at, gap)) = self.held.take(source) {
            self.append_gap(at, &gap, now);
        }
    }

    fn append_gap(&mut self, at: TopicPartition, gap: &GapRecord, now: Mono) {
        self.appender(at).push_gap(gap, now);
        let source = Source {
            uid: gap.uid,
            boot: gap.boot,
        };
        self.note(source, Ordinal(gap.first.0 + gap.count));
    }

    /// Appends a result row; false when its topic is full: it is counted.
    pub fn row(&mut self, at: TopicPartition, row: &Row, now: Mono) -> bool {
        if self.full.contains(&at.topic) {
            *self.refused.entry(at).or_default() += 1;
            return false;
        }
        self.appender(at).push_row(row, now);
        self.records += 1;
        true
    }

    /// From now on these topics take no rows.
    pub fn set_full(&mut self, topics: BTreeSet<TopicId>) {
        self.full = topics;
    }

    /// Rows that full topics did not take since the last call.
    pub fn take_refused(&mut self) -> BTreeMap<TopicPartition, u64> {
        std::mem::take(&mut self.refused)
    }

    /// Lets a batch be due after the linger, also when nothing is given for it.
    pub fn wake(&mut self, now: Mono) {
        self.meta_since.get_or_insert(now);
    }

    /// Sets a meta entry with the next batch; the last value of a key counts.
    pub fn meta(&mut self, key: Vec<u8>, value: Vec<u8>, now: Mono) {
        self.meta.insert(key, value);
        self.meta_since.get_or_insert(now);
    }

    fn note(&mut self, source: Source, next: Ordinal) {
        self.records += 1;
        self.sources.insert(source, next);
    }

    fn appender(&mut self, at: TopicPartition) -> &mut Appender {
        let (epoch, next) = (self.epoch, self.head(at));
        self.appenders.entry(at).or_insert_with(|| {
            if at.topic == READINGS {
                Appender::readings(at, epoch, next)
            } else {
                Appender::rows(at, epoch, next)
            }
        })
    }

    /// Whether [`GroupCommit::poll`] would give a batch now.
    #[must_use]
    pub fn is_due(&self, now: Mono) -> bool {
        self.under_way.is_none() && self.due().is_some_and(|due| due <= now)
    }

    /// The next batch when one is due and none is under way. All that was given
    /// before is in it or in an earlier one.
    pub fn poll(&mut self, now: Mono) -> Option<(CommitToken, WriteBatch)> {
        if !self.is_due(now) {
            return None;
        }
        self.release_all(now);
        let mut batch = WriteBatch::default();
        let mut heads = Vec::new();
        for (at, appender) in &mut self.appenders {
            appender.seal();
            if appender.has_sealed() {
                let durable = self.durable.get(at).map_or(0, |head| head.0);
                batch.blocks.extend(appender.take_sealed().map(|mut block| {
                    let unsynced = block.key.base.0 - durable;
                    let unsynced = u32::try_from(unsynced).unwrap_or(u32::MAX);
                    stamp_unsynced(&mut block.bytes, unsynced);
                    block
                }));
                heads.push((*at, appender.next()));
            }
        }
        batch.meta = std::mem::take(&mut self.meta).into_iter().collect();
        self.meta_since = None;
        self.last_token += 1;
        let token = CommitToken(self.last_token);
        self.under_way = Some(UnderWay {
            token,
            heads,
            sources: std::mem::take(&mut self.sources),
            records: std::mem::take(&mut self.records),
        });
        Some((token, batch))
    }

    /// The store has made the batch durable.
    ///
    /// # Panics
    /// When `token` is not the batch under way: the store answers each once.
    pub fn committed(&mut self, token: CommitToken) -> Durable {
        let done = self.under_way.take().expect("a batch is under way");
        assert_eq!(done.token, token, "the store answered another batch");
        self.durable.extend(done.heads.iter().copied());
        Durable {
            heads: done.heads,
            sources: done.sources,
        }
    }

    /// When [`GroupCommit::poll`] has something, unless a batch is under way.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        self.due().filter(|_| self.under_way.is_none())
    }

    /// Whether everything given is durable.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.under_way.is_none() && self.due().is_none()
    }

    fn due(&self) -> Option<Mono> {
        let linger = |since: Mono| Mono(since.0 + self.linger_us);
        let full = |a: &Appender| a.has_sealed().then_some(Mono(0));
        let appenders = self.appenders.values();
        appenders
            .filter_map(|a| full(a).or(a.since().map(linger)))
            .chain(self.meta_since.map(linger))
            .chain(self.held.due())
            .min()
    }
}

#[cfg(test)]
mod tests {
    use forebay_wire::ids::{BootId, DeviceUid};

    use super::*;
    use crate::log::block::{Body, Record};
    use crate::log::decode::{decode, decode_head};
    use crate::log::key::StoredBlock;
    use crate::record::GapReason;
    use crate::units::{EventTime, PartitionId, TopicId};

    const AT: TopicPartition = TopicPartition {
        topic: TopicId(16),
        partition: PartitionId(0),
    };

    fn row() -> Row {
        Row {
            time: EventTime(1),
            line: b"{}".to_vec(),
        }
    }

    fn commit() -> GroupCommit {
        GroupCommit::new(Epoch(1), Span(20), BTreeMap::from([(AT, Offset(5))]))
    }

    fn durable_below(block: &StoredBlock) -> Offset {
        let head = decode_head(block.key, &block.bytes).expect("a block");
        head.durable_below()
    }

    #[test]
    fn a_batch_is_due_when_the_linger_is_over_and_not_before() {
        let mut commit = commit();
        assert_eq!(commit.next_deadline(), None);
        commit.row(AT, &row(), Mono(100));
        assert_eq!(commit.next_deadline(), Some(Mono(120)));
        for (now, due) in [(119, false), (120, true)] {
            assert_eq!(commit.poll(Mono(now)).is_some(), due, "{now}");
        }
    }

    #[test]
    fn a_full_block_does_not_wait() {
        let mut commit = commit();
        let line = vec![b'x'; 4000];
        let big = Row {
            time: EventTime(1),
            line,
        };
        commit.row(AT, &big, Mono(100));
        assert_eq!(commit.next_deadline(), Some(Mono(120)));
        commit.row(AT, &big, Mono(100));
        assert!(commit.poll(Mono(100)).is_some());
    }

    #[test]
    fn the_head_moves_only_when_the_store_confirms_and_one_batch_is_under_way() {
        let mut commit = commit();
        commit.row(AT, &row(), Mono(0));
        let (token, batch) = commit.poll(Mono(20)).expect("due");
        assert_eq!(batch.blocks[0].key.base, Offset(5));
        assert_eq!(durable_below(&batch.blocks[0]), Offset(5));
        commit.row(AT, &row(), Mono(20));
        assert!(commit.poll(Mono(1000)).is_none(), "one at a time");
        assert_eq!((commit.head(AT), commit.next(AT)), (Offset(5), Offset(7)));
        assert_eq!(commit.committed(token).heads, [(AT, Offset(6))]);
        assert_eq!(commit.head(AT), Offset(6));
        assert!(!commit.is_idle());
        let (token, batch) = commit.poll(Mono(1000)).expect("the second");
        assert_eq!(durable_below(&batch.blocks[0]), Offset(6));
        commit.committed(token);
        assert!(commit.is_idle());
    }

    #[test]
    fn pending_records_are_bounded() {
        let mut commit = commit();
        for n in 0..PENDING_RECORDS_MAX {
            assert!(commit.has_room(), "{n}");
            commit.row(AT, &row(), Mono(0));
        }
        assert!(!commit.has_room());
        let (token, _) = commit.poll(Mono(20)).expect("due");
        assert!(!commit.has_room(), "under way still counts");
        commit.committed(token);
        assert!(commit.has_room());
    }

    fn gap(first: u64, count: u64) -> GapRecord {
        GapRecord {
            uid: DeviceUid([7; 8]),
            boot: BootId(1),
            first: Ordinal(first),
            count,
            reason: GapReason::LogFull,
            time: EventTime(first as i64),
        }
    }

    fn gaps_of(batch: &WriteBatch) -> Vec<(u64, u64)> {
        let blocks = batch.blocks.iter();
        let bodies = blocks.map(|b| decode(b.key, &b.bytes).expect("a block").body);
        let records = bodies.flat_map(|body| match body {
            Body::Readings { records, .. } => records,
            Body::Rows(_) => Vec::new(),
        });
        let gaps = records.filter_map(|record| match record {
            Record::Gap(gap) => Some((gap.first.0, gap.count)),
            Record::Reading(_) => None,
        });
        gaps.collect()
    }

    #[test]
    fn rejected_readings_become_few_gaps_in_the_order_of_ordinals() {
        const READINGS_AT: TopicPartition = TopicPartition {
            topic: READINGS,
            partition: PartitionId(0),
        };
        let mut commit = commit();
        commit.reject(READINGS_AT, &gap(0, 5), Mono(0));
        commit.reject(READINGS_AT, &gap(5, 5), Mono(400_000));
        assert_eq!(commit.next_deadline(), Some(Mono(1_000_000)), "they wait");
        assert!(!commit.is_idle());
        assert!(commit.poll(Mono(999_999)).is_none());
        let (token, batch) = commit.poll(Mono(1_000_000)).expect("due");
        assert_eq!(gaps_of(&batch), [(0, 10)]);
        let source = Source {
            uid: DeviceUid([7; 8]),
            boot: BootId(1),
        };
        let durable = commit.committed(token);
        assert_eq!(durable.sources, BTreeMap::from([(source, Ordinal(10))]));
        // A hole in between, and a gap that the device declares.
        commit.reject(READINGS_AT, &gap(10, 1), Mono(0));
        commit.reject(READINGS_AT, &gap(12, 1), Mono(0));
        commit.gap(READINGS_AT, &gap(13, 2), Mono(0));
        commit.reject(READINGS_AT, &gap(15, 1), Mono(0));
        let (_, batch) = commit.poll(Mono(20)).expect("a gap is due");
        assert_eq!(gaps_of(&batch), [(10, 1), (12, 1), (13, 2), (15, 1)]);
    }

    #[test]
    fn rows_of_a_full_topic_are_counted_and_left_out() {
        let mut commit = commit();
        commit.set_full(BTreeSet::from([AT.topic]));
        assert!(!commit.row(AT, &row(), Mono(0)));
        assert!(!commit.row(AT, &row(), Mono(0)));
        assert_eq!(commit.next(AT), Offset(5));
        assert_eq!(commit.take_refused(), BTreeMap::from([(AT, 2)]));
        commit.set_full(BTreeSet::new());
        assert!(commit.row(AT, &row(), Mono(0)));
        assert_eq!(commit.take_refused(), BTreeMap::new());
    }
}
