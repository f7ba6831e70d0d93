//! The way of a query through the log: which place to read next, and what of the blocks
//! that come is handed to a fold. Blocks come from whoever drives it: the store's Fetch,
//! or a reader beside the storage thread.
//!
//! Holds always: a record is handed on once, and none that lies outside of the plan;
//! readings whose time nobody knows are left out, as they would be shown as of 1970. Bound:
//! what the fold holds. Knows no store.

use std::collections::VecDeque;

use forebay_wire::ids::DeviceUid;

use super::plan::PlanRead;
use crate::live::{ChannelKey, figure};
use crate::log::block::{Block, Body, GapRecord, ReadingRecord, Record, Series};
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::pick::{each_row, pick};
use crate::units::{EventTime, Offset};

/// What is made of the readings of some channels.
pub trait Fold {
    /// Times that matter still, half-open: what lies outside is not handed over, and what
    /// is known to hold nothing else is not read.
    fn range(&self) -> (EventTime, EventTime);

    /// Takes a reading of the channel at this place of the keys; no value: the sensor gave
    /// none.
    fn take(&mut self, channel: usize, series: &Series, record: &ReadingRecord, value: Option<f64>);

    /// Whether gaps of the devices are wanted.
    fn wants_gaps(&self) -> bool {
        false
    }

    /// Takes a gap of a device that has a channel among the keys.
    fn gap(&mut self, _gap: &GapRecord) {}
}

/// What reads the log by a plan, until it has all.
pub trait Asks {
    /// What is left to be read.
    fn way(&mut self) -> &mut Way;

    /// Event times that matter still, half-open.
    fn times(&self) -> (EventTime, EventTime);

    /// Takes blocks of the current read; gives where to go on behind them.
    fn take(&mut self, blocks: &[StoredBlock]) -> Option<Offset>;

    /// The next read of the log, up to before the second offset; `None` when all is there.
    /// The same until its blocks are taken.
    fn next_fetch(&mut self) -> Option<(TopicPartition, Offset, Offset)> {
        let times = self.times();
        let read = self.way().next(times)?;
        Some((read.at, read.first, read.end))
    }

    /// Takes what that read brought, in order. Nothing: nothing of it is there.
    fn on_blocks(&mut self, blocks: &[StoredBlock]) {
        let next = self.take(blocks);
        self.way().go_on(next);
    }

    /// The same from a reader who knows that all before `next` was read.
    fn on_read(&mut self, blocks: &[StoredBlock], next: Offset) {
        self.take(blocks);
        self.way().go_on(Some(next));
    }
}

/// Reads that are left of a plan.
#[derive(Debug, Clone)]
pub struct Way {
    reads: VecDeque<PlanRead>,
    from_the_end: bool,
}

impl Way {
    fn next(&mut self, range: (EventTime, EventTime)) -> Option<PlanRead> {
        loop {
            let read = if self.from_the_end {
                self.reads.back()
            } else {
                self.reads.front()
            };
            let read = *read?;
            let (min, max) = read.times;
            if read.first < read.end && max >= range.0 && min < range.1 {
                return Some(read);
            }
            self.skip();
        }
    }

    fn skip(&mut self) {
        if self.from_the_end {
            self.reads.pop_back();
        } else {
            self.reads.pop_front();
        }
    }

    /// All of the read before `next` is done; all of it where that is not known.
    fn go_on(&mut self, next: Option<Offset>) {
        let read = if self.from_the_end {
            self.reads.back_mut()
        } else {
            self.reads.front_mut()
        };
        let Some(read) = read else {
            return;
        };
        match next.filter(|next| *next < read.end) {
            // Past its begin in any case: a place is not asked for twice.
            Some(next) => read.first = next.max(Offset(read.first.0 + 1)),
            None => self.skip(),
        }
    }

    fn current(&self) -> Option<PlanRead> {
        let read = if self.from_the_end {
            self.reads.back()
        } else {
            self.reads.front()
        };
        read.copied()
    }
}

/// A fold of the readings of some channels.
#[derive(Debug)]
pub struct Scan<F> {
    /// In order, each with its place among the keys that were asked for.
    keys: Vec<(ChannelKey, usize)>,
    way: Way,
    fold: F,
}

impl<F: Fold> Scan<F> {
    /// A scan of `reads` for these channels; `from_the_end`: the last read comes first.
    #[must_use]
    pub fn new(
        keys: impl IntoIterator<Item = ChannelKey>,
        reads: impl IntoIterator<Item = PlanRead>,
        from_the_end: bool,
        fold: F,
    ) -> Self {
        let keys = keys.into_iter().enumerate();
        let mut keys: Vec<_> = keys.map(|(place, key)| (key, place)).collect();
        keys.sort();
        Self {
            keys,
            way: Way {
                reads: reads.into_iter().collect(),
                from_the_end,
            },
            fold,
        }
    }

    fn on_block(&mut self, block: &Block, offsets: std::ops::Range<Offset>) {
        let Body::Readings { series, records } = &block.body else {
            return;
        };
        let place = |s: &Series| find(&self.keys, s.uid, &s.name);
        let places: Vec<Option<usize>> = series.iter().map(place).collect();
        for (offset, record) in (block.base.0..).map(Offset).zip(records) {
            if !offsets.contains(&offset) {
                continue;
            }
            match record {
                Record::Reading(reading) => {
                    let index = usize::from(reading.series);
                    if let Some(place) = places[index] {
                        self.on_reading(place, &series[index], reading);
                    }
                }
                Record::Gap(gap) => self.on_gap(gap),
                Record::Clock(_) | Record::Tables(_) => {}
            }
        }
    }

    fn on_reading(&mut self, place: usize, series: &Series, reading: &ReadingRecord) {
        let (start, end) = self.fold.range();
        if !reading.is_unsynced() && reading.time >= start && reading.time < end {
            let value = figure(series, reading);
            self.fold.take(place, series, reading, value);
        }
    }

    fn on_gap(&mut self, gap: &GapRecord) {
        let (start, end) = self.fold.range();
        let is_ours = self.keys.iter().any(|(key, _)| key.uid == gap.uid);
        if is_ours && self.fold.wants_gaps() && gap.time >= start && gap.time < end {
            self.fold.gap(gap);
        }
    }

    /// What the fold holds, once there is nothing more to be read.
    #[must_use]
    pub fn finish(self) -> F {
        self.fold
    }
}

impl<F: Fold> Asks for Scan<F> {
    fn way(&mut self) -> &mut Way {
        &mut self.way
    }

    fn times(&self) -> (EventTime, EventTime) {
        self.fold.range()
    }

    fn take(&mut self, blocks: &[StoredBlock]) -> Option<Offset> {
        let read = self.way.current()?;
        let mut next = None;
        for stored in blocks.iter().filter(|stored| stored.key.base < read.end) {
            let (keys, gaps) = (&self.keys, self.fold.wants_gaps());
            match pick(stored, |uid, name| find(keys, uid, name).is_some(), gaps) {
                Ok((head, block)) => {
                    if let Some(block) = block {
                        // Blocks are merged now and then: one may begin before.
                        self.on_block(&block, read.first..read.end);
                    }
                    next = next.max(Some(head.end()));
                }
                // It is skipped, and told as lost where the store finds it.
                Err(_) => next = next.max(Some(Offset(stored.key.base.0 + 1))),
            }
        }
        next
    }
}

/// The place of a channel among the keys.
fn find(keys: &[(ChannelKey, usize)], uid: DeviceUid, channel: &str) -> Option<usize> {
    let found = keys.binary_search_by(|(key, _)| {
        let by_uid = key.uid.cmp(&uid);
        by_uid.then_with(|| (*key.channel).cmp(channel))
    });
    found.ok().map(|at| keys[at].1)
}

/// What is made of the rows of a stream.
pub trait RowFold {
    /// Event times of rows that matter still, half-open.
    fn range(&self) -> (EventTime, EventTime);

    /// Takes a row as it stands in the log.
    fn take(&mut self, time: EventTime, line: &[u8]);
}

/// A fold of the rows of a stream.
#[derive(Debug)]
pub struct RowsScan<F> {
    way: Way,
    fold: F,
}

impl<F: RowFold> RowsScan<F> {
    #[must_use]
    pub fn new(reads: impl IntoIterator<Item = PlanRead>, fold: F) -> Self {
        Self {
            way: Way {
                reads: reads.into_iter().collect(),
                from_the_end: false,
            },
            fold,
        }
    }

    /// Hands the rows of a block on; gives where to go on behind it.
    fn on_block(&mut self, stored: &StoredBlock, read: PlanRead) -> Offset {
        let (fold, base) = (&mut self.fold, stored.key.base.0);
        let (start, end) = fold.range();
        let done = each_row(stored, |index, time, line| {
            let offset = Offset(base + index as u64);
            let is_inside = offset >= read.first && offset < read.end;
            if is_inside && time >= start && time < end {
                fold.take(time, line);
            }
        });
        done.map_or(Offset(base + 1), |head| head.end())
    }

    #[must_use]
    pub fn finish(self) -> F {
        self.fold
    }
}

impl<F: RowFold> Asks for RowsScan<F> {
    fn way(&mut self) -> &mut Way {
        &mut self.way
    }

    fn times(&self) -> (EventTime, EventTime) {
        self.fold.range()
    }

    fn take(&mut self, blocks: &[StoredBlock]) -> Option<Offset> {
        let read = self.way.current()?;
        let inside = blocks.iter().filter(|stored| stored.key.base < read.end);
        inside.map(|stored| self.on_block(stored, read)).max()
    }
}
