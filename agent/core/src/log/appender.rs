//! Gives records their offsets and cuts them into blocks: one appender per
//! partition of a topic. Knows no disk: sealed blocks leave by `take_sealed`.
//!
//! Holds always: offsets have no gap, and a block is sealed when it is full, when
//! its first record has waited for the linger, or on request.

use super::block::{GapRecord, ReadingRecord, Row, Series};
use super::builder::{Full, ReadingsBuilder, RowsBuilder};
use super::key::{BlockKey, StoredBlock, TopicPartition};

use crate::record::{ClockRecord, TablesRecord};
use crate::units::{Epoch, Mono, Offset};

/// What fills a block.
#[derive(Debug)]
enum Builder {
    Readings(ReadingsBuilder),
    Rows(RowsBuilder),
}

impl Builder {
    fn len(&self) -> usize {
        match self {
            Self::Readings(builder) => builder.len(),
            Self::Rows(builder) => builder.len(),
        }
    }

    fn seal(&mut self, at: TopicPartition, base: Offset, epoch: Epoch) -> Vec<u8> {
        match self {
            Self::Readings(builder) => builder.seal(at, base, epoch),
            Self::Rows(builder) => builder.seal(at, base, epoch),
        }
    }
}

/// Appends to one partition.
#[derive(Debug)]
pub struct Appender {
    at: TopicPartition,
    epoch: Epoch,
    builder: Builder,
    /// Offset of the builder's first record.
    base: Offset,
    /// When the builder's first record came.
    since: Option<Mono>,
    sealed: Vec<StoredBlock>,
}

impl Appender {
    /// Appends readings from `next` on.
    #[must_use]
    pub fn readings(at: TopicPartition, epoch: Epoch, next: Offset) -> Self {
        Self::new(at, epoch, next, Builder::Readings(ReadingsBuilder::new()))
    }

    /// Appends rows from `next` on.
    #[must_use]
    pub fn rows(at: TopicPartition, epoch: Epoch, next: Offset) -> Self {
        Self::new(at, epoch, next, Builder::Rows(RowsBuilder::default()))
    }

    fn new(at: TopicPartition, epoch: Epoch, base: Offset, builder: Builder) -> Self {
        Self {
            at,
            epoch,
            builder,
            base,
            since: None,
            sealed: Vec::new(),
        }
    }

    /// Offset that the next record takes.
    #[must_use]
    pub fn next(&self) -> Offset {
        Offset(self.base.0 + self.builder.len() as u64)
    }

    /// When the first unsealed record came.
    #[must_use]
    pub fn since(&self) -> Option<Mono> {
        self.since
    }

    #[must_use]
    pub fn has_sealed(&self) -> bool {
        !self.sealed.is_empty()
    }

    /// Appends a reading.
    pub fn push_reading(&mut self, series: &Series, record: &ReadingRecord, now: Mono) {
        self.push(now, |builder| match builder {
            Builder::Readings(builder) => builder.push_reading(series, record),
            Builder::Rows(_) => unreachable!("readings go to a readings topic"),
        });
    }

    /// Appends a gap.
    pub fn push_gap(&mut self, gap: &GapRecord, now: Mono) {
        self.push(now, |builder| match builder {
            Builder::Readings(builder) => builder.push_gap(gap),
            Builder::Rows(_) => unreachable!("gaps go to a readings topic"),
        });
    }

    /// Appends what the clock said.
    pub fn push_clock(&mut self, clock: &ClockRecord, now: Mono) {
        self.push(now, |builder| match builder {
            Builder::Readings(builder) => builder.push_clock(clock),
            Builder::Rows(_) => unreachable!("the clock goes to a readings topic"),
        });
    }

    /// Appends how far tables are known.
    pub fn push_tables(&mut self, tables: &TablesRecord, now: Mono) {
        self.push(now, |builder| match builder {
            Builder::Readings(builder) => builder.push_tables(tables),
            Builder::Rows(_) => unreachable!("what is said of tables goes to a readings topic"),
        });
    }

    /// Appends a result row.
    pub fn push_row(&mut self, row: &Row, now: Mono) {
        self.push(now, |builder| match builder {
            Builder::Rows(builder) => builder.push(row),
            Builder::Readings(_) => unreachable!("rows go to a derived topic"),
        });
    }

    fn push(&mut self, now: Mono, mut push: impl FnMut(&mut Builder) -> Result<(), Full>) {
        if push(&mut self.builder).is_err() {
            self.seal();
            push(&mut self.builder).expect("one record fits an empty block");
        }
        self.since.get_or_insert(now);
    }

    /// Closes the open block, if it holds anything.
    pub fn seal(&mut self) {
        let next = self.next();
        if next == self.base {
            return;
        }
        let key = BlockKey {
            at: self.at,
            base: self.base,
            chunk: 0,
        };
        let bytes = self.builder.seal(self.at, self.base, self.epoch);
        self.sealed.push(StoredBlock { key, bytes });
        (self.base, self.since) = (next, None);
    }

    /// Sealed blocks in order; they are forgotten here.
    pub fn take_sealed(&mut self) -> impl Iterator<Item = StoredBlock> + '_ {
        self.sealed.drain(..)
    }
}
