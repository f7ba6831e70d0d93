//! Group commit: collects what all appenders sealed into one batch at a time and
//! moves the durable heads when the store says that the batch is on disk.
//!
//! Holds always: at most one batch is under way, and a head, and what a device may
//! be acked, never passes what the store confirmed. Knows no store: a batch leaves
//! with a token and comes back by it. Rows of a topic that is full are left out and
//! counted here, whoever appends them.

mod held;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use forebay_wire::ids::Ordinal;

use self::held::Held;
use crate::ledger::Source;
use crate::limits::PENDING_RECORDS_MAX;
use crate::log::appender::Appender;
use crate::log::head::stamp_unsynced;
use crate::log::key::TopicPartition;
use crate::log::topic::{EXCHANGE, READINGS};
use crate::record::{ClockRecord, GapRecord, ReadingRecord, Row, Series, TablesRecord};
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
    /// When a batch is due at the latest for what does not wait for the linger.
    hurried: Option<Mono>,
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
            hurried: None,
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

    /// The durable head of what is read here and written elsewhere.
    pub fn set_head(&mut self, at: TopicPartition, head: Offset) {
        self.durable.insert(at, head);
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

    /// Appends a reading once more: its ack waits for nothing here.
    pub fn exchange(&mut self, at: TopicPartition, series: &Series, r: &ReadingRecord, now: Mono) {
        self.appender(at).push_reading(series, r, now);
        self.records += 1;
    }

    /// Appends what the clock says.
    pub fn clock(&mut self, at: TopicPartition, clock: &ClockRecord, now: Mono) {
        self.appender(at).push_clock(clock, now);
        self.records += 1;
    }

    /// Appends how far tables are known, and lets the batch leave at once: the changes have
    /// waited for others before.
    pub fn tables(&mut self, at: TopicPartition, tables: &TablesRecord, now: Mono) {
        self.appender(at).push_tables(tables, now);
        self.records += 1;
        self.hurry(now);
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

    /// Whether a topic takes no rows now.
    #[must_use]
    pub fn is_full(&self, topic: TopicId) -> bool {
        self.full.contains(&topic)
    }

    /// Rows that full topics did not take since the last call.
    pub fn take_refused(&mut self) -> BTreeMap<TopicPartition, u64> {
        std::mem::take(&mut self.refused)
    }

    /// Lets a batch be due at this time, or after the linger where that is sooner: for what
    /// others wait for.
    pub fn hurry(&mut self, until: Mono) {
        self.hurried = Some(self.hurried.map_or(until, |at| at.min(until)));
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
            if at.topic == READINGS || at.topic == EXCHANGE {
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
        self.hurried = None;
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
            .chain(self.hurried)
            .min()
    }
}
