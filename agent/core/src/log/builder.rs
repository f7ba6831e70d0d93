//! Builds one block of readings, and of what stands beside them, column by column, so that its size is
//! known at every record. A record that might not fit leaves the builder as it
//! was: the block is then sealed, at most some hundred bytes short of full.
//!
//! Bounds: [`BLOCK_RECORDS_MAX`], [`BLOCK_BYTES_MAX`] and
//! [`SERIES_PER_BLOCK_MAX`](crate::limits::SERIES_PER_BLOCK_MAX). Nothing is
//! allocated per reading once the columns have grown to a block's size.

use super::block::{BLOCK_HEAD_BYTES, CODEC_READINGS, GapRecord, ReadingRecord, Series};
use super::bytes::{put_varint, zigzag};
use super::decode::{CLOCK_CORRECTED, CLOCK_TRUSTED, CLOCK_UNTRUSTED, Columns, records_of};
use super::delta::{COLUMNS, Column, DeltaState};
use super::doubles;
use super::head::{Stamp, finish_block};
use super::key::TopicPartition;
pub use super::rows::RowsBuilder;
use super::series::Dictionary;
use super::words::Words;
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_RECORDS_MAX};
use crate::record::{ClockRecord, ClockTrust, Record, TablesRecord, ValueKind};
use crate::units::{Epoch, EventTime, Offset};

const _: () = assert!(
    BLOCK_BYTES_MAX < 1 << 14,
    "a column's length takes two bytes"
);
/// Count of the series; length and encoding of each column; and the first time,
/// whose word changes when the block is sealed.
const PREFIX_BYTES_MAX: usize = 2 + COLUMNS * 3 + 12;
/// What one record adds at the most: kind 2, time, ordinal, tick and value 10 each,
/// uncertainty 5, quality 1, and 2 bytes for each column that goes on in runs. A
/// gap adds kind 1, time 10 and 34 of its own, the clock 2, 10 and 11, tables 2, 10 and 10.
const RECORD_BYTES_WORST: usize = 2 + 4 * 10 + 5 + 1 + 2 * COLUMNS;

/// The record or row does not fit: seal the block and start the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// A readings block under construction.
#[derive(Debug, Clone)]
pub struct ReadingsBuilder {
    dictionary: Dictionary,
    columns: [Words; COLUMNS],
    gaps: Vec<u8>,
    deltas: DeltaState,
    count: u16,
    first: EventTime,
    /// Smallest and largest of readings and gaps, then of what is no event: the clock, and
    /// what is said of tables.
    times: [Option<(EventTime, EventTime)>; 2],
    bytes_max: usize,
}

impl Default for ReadingsBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadingsBuilder {
    #[must_use]
    pub fn new() -> Self {
        Self {
            dictionary: Dictionary::default(),
            columns: Default::default(),
            gaps: Vec::new(),
            deltas: DeltaState::default(),
            count: 0,
            first: EventTime(0),
            times: [None; 2],
            bytes_max: BLOCK_BYTES_MAX,
        }
    }

    /// One that does not look at bytes: for [`ReadingsBuilder::pack`], which alone
    /// knows how short a block gets.
    pub(super) fn unmeasured() -> Self {
        Self {
            bytes_max: usize::MAX,
            ..Self::new()
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the sealed block, at the most.
    #[must_use]
    #[inline]
    pub fn size_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(Words::size_bytes).sum();
        BLOCK_HEAD_BYTES
            + PREFIX_BYTES_MAX
            + self.dictionary.size_bytes()
            + columns
            + self.gaps.len()
    }

    /// Adds a reading of `series`; `reading.series` is set by the builder.
    ///
    /// # Errors
    /// [`Full`] when it does not fit; the builder is then unchanged.
    ///
    /// # Panics
    /// When the value is no number: see [`Figure::double`](crate::record::Figure::double).
    pub fn push_reading(&mut self, series: &Series, reading: &ReadingRecord) -> Result<(), Full> {
        assert!(reading.has_figure(series), "a value that is no number");
        self.has_room(0)?;
        let index = match self.dictionary.find(series, self.deltas.expected()) {
            Some(index) => index,
            None => self.add_series(series)?,
        };
        let words = self.deltas.encode(index, reading);
        for (column, word) in self.columns.iter_mut().zip(words) {
            column.push(word);
        }
        self.note_record(reading.time);
        Ok(())
    }

    /// Adds a gap.
    ///
    /// # Errors
    /// [`Full`] when it does not fit; the builder is then unchanged.
    pub fn push_gap(&mut self, gap: &GapRecord) -> Result<(), Full> {
        self.has_room(0)?;
        let (kind, time) = self.deltas.encode_gap(gap.time);
        self.columns[Column::Kind as usize].push(kind);
        self.columns[Column::Time as usize].push(time);
        let out = &mut self.gaps;
        out.extend_from_slice(&gap.uid.0);
        put_varint(out, u64::from(gap.boot.0));
        put_varint(out, gap.first.0);
        put_varint(out, gap.count);
        out.push(gap.reason as u8);
        self.note_record(gap.time);
        Ok(())
    }

    /// Adds what the clock said.
    ///
    /// # Errors
    /// [`Full`] when it does not fit; the builder is then unchanged.
    pub fn push_clock(&mut self, clock: &ClockRecord) -> Result<(), Full> {
        self.has_room(0)?;
        let (kind, time) = self.deltas.encode_clock(clock.now);
        self.columns[Column::Kind as usize].push(kind);
        self.columns[Column::Time as usize].push(time);
        match clock.trust {
            ClockTrust::No => self.gaps.push(CLOCK_UNTRUSTED),
            ClockTrust::Yes => self.gaps.push(CLOCK_TRUSTED),
            ClockTrust::Since(step) => {
                self.gaps.push(CLOCK_CORRECTED);
                put_varint(&mut self.gaps, zigzag(step.0));
            }
        }
        self.note_time(clock.now, 1);
        Ok(())
    }

    /// Adds how far tables are known.
    ///
    /// # Errors
    /// [`Full`] when it does not fit; the builder is then unchanged.
    pub fn push_tables(&mut self, tables: &TablesRecord) -> Result<(), Full> {
        self.has_room(0)?;
        let (kind, time) = self.deltas.encode_tables(tables.time);
        self.columns[Column::Kind as usize].push(kind);
        self.columns[Column::Time as usize].push(time);
        put_varint(&mut self.gaps, tables.upto.0);
        self.note_time(tables.time, 1);
        Ok(())
    }

    /// Turns what was built into bytes and leaves an empty builder.
    ///
    /// # Panics
    /// When nothing was pushed: a block holds at least one record.
    pub fn seal(&mut self, at: TopicPartition, base: Offset, epoch: Epoch) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size_bytes());
        self.write(&mut out, |words, _, out| words.write(out));
        self.finish(out, at, base, epoch)
            .expect("the builder counts its bytes at each record")
    }

    /// As [`ReadingsBuilder::seal`], with each column in the shortest encoding of
    /// all. `None`, and the builder as it was, when that is too long for a block.
    pub(super) fn pack(
        &mut self,
        at: TopicPartition,
        base: Offset,
        epoch: Epoch,
    ) -> Option<Vec<u8>> {
        let values = self.doubles();
        let mut out = Vec::with_capacity(BLOCK_BYTES_MAX);
        self.write(&mut out, |words, column, out| {
            let start = out.len();
            words.write_packed(out);
            if let Some(values) = values.as_ref().filter(|_| column == Column::Value) {
                doubles::replace_if_shorter(values, out, start);
            }
        });
        self.finish(out, at, base, epoch)
    }

    /// The records as they were pushed, numbered by [`ReadingsBuilder::series`].
    pub(super) fn records(&self) -> Vec<Record> {
        let columns = Columns {
            words: self.columns.each_ref().map(Words::as_slice),
            doubles: None,
            gaps: &self.gaps,
        };
        records_of(
            self.dictionary.series(),
            &columns,
            EventTime(0),
            &mut DeltaState::default(),
        )
        .expect("what was encoded decodes")
    }

    pub(super) fn series(&self) -> &[Series] {
        self.dictionary.series()
    }

    /// The values of all readings, series by series, when all are doubles.
    fn doubles(&self) -> Option<Vec<f64>> {
        let series = self.dictionary.series();
        let is_double = |series: &Series| series.kind == ValueKind::Double;
        if series.is_empty() || !series.iter().all(is_double) {
            return None;
        }
        Some(doubles::by_series(series.len(), &self.records()))
    }

    /// Head space, dictionary, columns and gaps.
    fn write(&mut self, out: &mut Vec<u8>, put: impl Fn(&Words, Column, &mut Vec<u8>)) {
        let (first, min) = (self.first, self.span().0);
        let time = &mut self.columns[Column::Time as usize];
        time.set_first(zigzag(first.0.wrapping_sub(min.0)));
        out.resize(BLOCK_HEAD_BYTES, 0);
        self.dictionary.write(out);
        for column in Column::ALL {
            let start = out.len();
            put(&self.columns[column as usize], column, out);
            put_length_before(out, start);
        }
        out.extend_from_slice(&self.gaps);
        // As it was pushed, in case that the block is not taken.
        let time = &mut self.columns[Column::Time as usize];
        time.set_first(zigzag(first.0));
    }

    fn finish(
        &mut self,
        mut out: Vec<u8>,
        at: TopicPartition,
        base: Offset,
        epoch: Epoch,
    ) -> Option<Vec<u8>> {
        let times = self.span();
        if out.len() > BLOCK_BYTES_MAX {
            return None;
        }
        let stamp = Stamp {
            at,
            base,
            epoch,
            codec: CODEC_READINGS,
            count: self.count,
            times,
        };
        finish_block(&mut out, &stamp);
        self.clear();
        Some(out)
    }

    fn clear(&mut self) {
        self.dictionary.clear();
        self.columns.iter_mut().for_each(Words::clear);
        self.gaps.clear();
        self.deltas.clear();
        (self.count, self.times) = (0, [None; 2]);
    }

    /// Whether a record of any content still fits, with `more` bytes beside it.
    #[inline]
    fn has_room(&self, more: usize) -> Result<(), Full> {
        let worst = self.size_bytes() + RECORD_BYTES_WORST + more;
        if self.len() == BLOCK_RECORDS_MAX || worst > self.bytes_max {
            return Err(Full);
        }
        Ok(())
    }

    fn add_series(&mut self, series: &Series) -> Result<usize, Full> {
        self.has_room(Dictionary::entry_bytes_worst(series))?;
        if self.dictionary.is_full() {
            return Err(Full);
        }
        self.deltas.add_series(series.uid, series.boot);
        Ok(self.dictionary.add(series))
    }

    #[inline]
    fn note_record(&mut self, time: EventTime) {
        self.note_time(time, 0);
    }

    #[inline]
    fn note_time(&mut self, time: EventTime, of: usize) {
        if self.count == 0 {
            self.first = time;
        }
        self.count += 1;
        let (min, max) = self.times[of].unwrap_or((time, time));
        self.times[of] = Some((min.min(time), max.max(time)));
    }

    /// Smallest and largest event time: of what is no event only where there is nothing
    /// else.
    fn span(&self) -> (EventTime, EventTime) {
        let [events, others] = self.times;
        let span = events.or(others);
        span.expect("a block is sealed only with records in it")
    }
}

/// Puts the length of what stands from `start` on before it.
fn put_length_before(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    put_varint(out, length as u64);
    let prefix = out.len() - start - length;
    out[start..].rotate_right(prefix);
}

#[cfg(test)]
mod tests;
