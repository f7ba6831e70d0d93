//! Builds one block column by column, so that its size is known exactly at
//! every record. A record that might not fit leaves the builder as it was: the
//! block is then sealed, at most some hundred bytes short of full.

use forebay_wire::ids::{BootId, DeviceUid};
use forebay_wire::limits::{QUANTITY_BYTES_MAX, UNIT_BYTES_MAX};

use super::block::{
    BLOCK_HEAD_BYTES, CODEC_READINGS, CODEC_ROWS, GapRecord, ReadingRecord, Row, Series, ValueKind,
};
use super::bytes::{put_text, put_varint, put_zigzag};
use super::head::encode_block;
use super::key::{BlockKey, TopicPartition};
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_RECORDS_MAX, SERIES_PER_BLOCK_MAX};
use crate::units::{Epoch, EventTime, Offset};

/// Columns of a readings payload, in byte-table order.
pub(super) const COLUMNS: usize = 8;
/// Length prefixes of the columns and the dictionary, at the most.
const PREFIX_BYTES_MAX: usize = (COLUMNS + 1) * 2;
const _: () = assert!(
    BLOCK_BYTES_MAX < 1 << 14,
    "a column's length takes two bytes"
);

/// Columns' worst for one record: kind 2, time 10, ordinal 10, tick 10,
/// uncertainty 5, value 10, quality 1; or a gap's 45.
const RECORD_BYTES_WORST: usize = 48;
/// Longest dictionary entry: uid 8, boot 5, channel 1, scale 1, two texts.
const SERIES_BYTES_WORST: usize = 8 + 5 + 2 + 1 + QUANTITY_BYTES_MAX + 1 + UNIT_BYTES_MAX;

/// Byte of a series whose values are doubles; one of scaled values has its scale there.
pub(super) const KIND_DOUBLE: u8 = 0x80;

fn kind_byte(kind: ValueKind) -> u8 {
    match kind {
        ValueKind::Scaled { scale } => scale,
        ValueKind::Double => KIND_DOUBLE,
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Column {
    Kind = 0,
    Ordinal = 1,
    Time = 2,
    Tick = 3,
    Uncertainty = 4,
    Value = 5,
    Quality = 6,
    Gap = 7,
}

/// Last ordinal and tick of one (device, boot) inside the block: what deltas refer to.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceState {
    pub uid: DeviceUid,
    pub boot: BootId,
    pub ordinal: u64,
    pub tick: u64,
}

/// State that encoder and decoder step alike.
#[derive(Debug, Clone, Default)]
pub(super) struct DeltaState {
    pub sources: Vec<SourceState>,
    /// Index into `sources` and the last value, per series.
    pub series: Vec<(usize, i64)>,
    pub time: i64,
    pub uncertainty: u32,
}

impl DeltaState {
    /// Registers the next series.
    pub(super) fn add_series(&mut self, uid: DeviceUid, boot: BootId) {
        let known = |s: &SourceState| s.uid == uid && s.boot == boot;
        let source = self.sources.iter().position(known).unwrap_or_else(|| {
            self.sources.push(SourceState {
                uid,
                boot,
                ordinal: 0,
                tick: 0,
            });
            self.sources.len() - 1
        });
        self.series.push((source, 0));
    }
}

/// The record or row does not fit: seal the block and start the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// A readings block under construction.
#[derive(Debug, Clone)]
pub struct ReadingsBuilder {
    dictionary: Vec<u8>,
    known: Vec<Series>,
    columns: [Vec<u8>; COLUMNS],
    deltas: DeltaState,
    count: u16,
    times: Option<(EventTime, EventTime)>,
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
            dictionary: Vec::new(),
            known: Vec::new(),
            columns: Default::default(),
            deltas: DeltaState::default(),
            count: 0,
            times: None,
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

    /// Bytes of the sealed block, exact but for at most a few bytes of prefixes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(Vec::len).sum();
        BLOCK_HEAD_BYTES + PREFIX_BYTES_MAX + self.dictionary.len() + columns
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
        let index = self.intern(series)?;
        self.put_reading(index, reading);
        self.note_record(reading.time);
        Ok(())
    }

    /// Adds a gap.
    ///
    /// # Errors
    /// [`Full`] when it does not fit; the builder is then unchanged.
    pub fn push_gap(&mut self, gap: &GapRecord) -> Result<(), Full> {
        self.has_room(0)?;
        put_varint(&mut self.columns[Column::Kind as usize], 0);
        self.put_time(gap.time);
        let out = &mut self.columns[Column::Gap as usize];
        out.extend_from_slice(&gap.uid.0);
        put_varint(out, u64::from(gap.boot.0));
        put_varint(out, gap.first.0);
        put_varint(out, gap.count);
        out.push(gap.reason as u8);
        self.note_record(gap.time);
        Ok(())
    }

    /// Turns what was built into bytes and leaves an empty builder.
    ///
    /// # Panics
    /// When nothing was pushed: a block holds at least one record.
    pub fn seal(&mut self, at: TopicPartition, base: Offset, epoch: Epoch) -> Vec<u8> {
        let done = std::mem::take(self);
        let times = done
            .times
            .expect("a block is sealed only with records in it");
        let mut payload = Vec::with_capacity(done.size_bytes());
        put_varint(&mut payload, done.known.len() as u64);
        payload.extend_from_slice(&done.dictionary);
        for column in &done.columns {
            put_varint(&mut payload, column.len() as u64);
            payload.extend_from_slice(column);
        }
        let key = BlockKey { at, base, chunk: 0 };
        encode_block(key, epoch, CODEC_READINGS, done.count, times, &payload)
    }

    /// Whether a record of any content still fits, with `more` bytes beside it.
    fn has_room(&self, more: usize) -> Result<(), Full> {
        let worst = self.size_bytes() + RECORD_BYTES_WORST + more;
        if self.len() == BLOCK_RECORDS_MAX || worst > BLOCK_BYTES_MAX {
            return Err(Full);
        }
        Ok(())
    }

    fn intern(&mut self, series: &Series) -> Result<usize, Full> {
        if let Some(index) = self.known.iter().position(|known| known == series) {
            return Ok(index);
        }
        self.has_room(SERIES_BYTES_WORST)?;
        if self.known.len() == SERIES_PER_BLOCK_MAX {
            return Err(Full);
        }
        self.known.push(series.clone());
        self.deltas.add_series(series.uid, series.boot);
        let out = &mut self.dictionary;
        out.extend_from_slice(&series.uid.0);
        put_varint(out, u64::from(series.boot.0));
        out.push(series.channel.0);
        out.push(kind_byte(series.kind));
        put_text(out, &series.name);
        put_text(out, &series.unit);
        Ok(self.known.len() - 1)
    }

    fn put_reading(&mut self, index: usize, reading: &ReadingRecord) {
        put_varint(&mut self.columns[Column::Kind as usize], index as u64 + 1);
        self.put_time(reading.time);
        let (source, last_value) = self.deltas.series[index];
        let state = &mut self.deltas.sources[source];
        let ordinal = reading.ordinal.0.wrapping_sub(state.ordinal) as i64;
        let tick = reading.tick.0.wrapping_sub(state.tick) as i64;
        (state.ordinal, state.tick) = (reading.ordinal.0, reading.tick.0);
        put_zigzag(&mut self.columns[Column::Ordinal as usize], ordinal);
        put_zigzag(&mut self.columns[Column::Tick as usize], tick);
        let uncertainty = i64::from(reading.uncertainty_us) - i64::from(self.deltas.uncertainty);
        self.deltas.uncertainty = reading.uncertainty_us;
        put_zigzag(&mut self.columns[Column::Uncertainty as usize], uncertainty);
        let value = reading.value.wrapping_sub(last_value);
        self.deltas.series[index].1 = reading.value;
        put_zigzag(&mut self.columns[Column::Value as usize], value);
        self.columns[Column::Quality as usize].push(reading.quality as u8);
    }

    fn put_time(&mut self, time: EventTime) {
        let delta = time.0.wrapping_sub(self.deltas.time);
        self.deltas.time = time.0;
        put_zigzag(&mut self.columns[Column::Time as usize], delta);
    }

    fn note_record(&mut self, time: EventTime) {
        self.count += 1;
        let (min, max) = self.times.unwrap_or((time, time));
        self.times = Some((min.min(time), max.max(time)));
    }
}

/// A rows block under construction.
#[derive(Debug, Clone, Default)]
pub struct RowsBuilder {
    payload: Vec<u8>,
    count: u16,
    time: i64,
    times: Option<(EventTime, EventTime)>,
}

impl RowsBuilder {
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`Full`] when it does not fit; the builder is then unchanged.
    pub fn push(&mut self, row: &Row) -> Result<(), Full> {
        if self.len() == BLOCK_RECORDS_MAX {
            return Err(Full);
        }
        let before = self.payload.len();
        put_zigzag(&mut self.payload, row.time.0.wrapping_sub(self.time));
        put_varint(&mut self.payload, row.line.len() as u64);
        self.payload.extend_from_slice(&row.line);
        if BLOCK_HEAD_BYTES + self.payload.len() > BLOCK_BYTES_MAX {
            self.payload.truncate(before);
            return Err(Full);
        }
        self.time = row.time.0;
        self.count += 1;
        let (min, max) = self.times.unwrap_or((row.time, row.time));
        self.times = Some((min.min(row.time), max.max(row.time)));
        Ok(())
    }

    /// Turns what was built into bytes and leaves an empty builder.
    ///
    /// # Panics
    /// When nothing was pushed: a block holds at least one record.
    pub fn seal(&mut self, at: TopicPartition, base: Offset, epoch: Epoch) -> Vec<u8> {
        let done = std::mem::take(self);
        let times = done
            .times
            .expect("a block is sealed only with records in it");
        let key = BlockKey { at, base, chunk: 0 };
        encode_block(key, epoch, CODEC_ROWS, done.count, times, &done.payload)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_wire::ids::{ChannelNo, Ordinal, Tick};
    use forebay_wire::message::Quality;
    use proptest::prelude::*;

    use super::super::block::{BLOCK_MAGIC, BLOCK_VERSION, BlockFault, Body, Record};
    use super::super::decode::{decode, decode_head};
    use super::super::head::block_crc;
    use super::*;
    use crate::record::GapReason;
    use crate::units::{PartitionId, TopicId};

    const AT: TopicPartition = TopicPartition {
        topic: TopicId(0),
        partition: PartitionId(3),
    };

    fn series(device: u8, channel: u8) -> Series {
        Series {
            uid: DeviceUid([device; 8]),
            boot: BootId(u32::from(device)),
            channel: ChannelNo(channel),
            kind: ValueKind::Scaled { scale: 2 },
            name: Arc::from("temperature"),
            unit: Arc::from("degC"),
        }
    }

    fn reading(ordinal: u64, time: i64, value: i64) -> ReadingRecord {
        ReadingRecord {
            series: 0,
            ordinal: Ordinal(ordinal),
            tick: Tick(ordinal.wrapping_mul(1000)),
            time: EventTime(time),
            uncertainty_us: 50,
            value,
            quality: Quality::Ok,
        }
    }

    fn key(base: u64) -> BlockKey {
        BlockKey {
            at: AT,
            base: Offset(base),
            chunk: 0,
        }
    }

    #[test]
    fn a_steady_series_costs_few_bytes() {
        let mut builder = ReadingsBuilder::new();
        let series = series(1, 0);
        let mut count = 0_usize;
        for n in 0..BLOCK_RECORDS_MAX as u64 {
            let time = 1_700_000_000_000_000 + n as i64 * 100_000;
            if builder
                .push_reading(&series, &reading(n, time, 2100 + n as i64 % 3))
                .is_ok()
            {
                count += 1;
            }
        }
        assert_eq!(count, BLOCK_RECORDS_MAX);
        let bytes = builder.seal(AT, Offset(0), Epoch(1));
        assert!(bytes.len() < 11 * count, "{} for {count}", bytes.len());
    }

    #[test]
    fn the_record_limit_is_exact() {
        let mut rows = RowsBuilder::default();
        let row = Row {
            time: EventTime(0),
            line: b"{}".to_vec(),
        };
        for _ in 0..BLOCK_RECORDS_MAX {
            assert_eq!(rows.push(&row), Ok(()));
        }
        assert_eq!(rows.push(&row), Err(Full));
        assert_eq!(rows.len(), BLOCK_RECORDS_MAX);
    }

    #[test]
    fn a_row_fits_up_to_the_last_byte() {
        let room = BLOCK_BYTES_MAX - BLOCK_HEAD_BYTES - 1 - 2;
        for (len, fits) in [(room - 1, true), (room, true), (room + 1, false)] {
            let mut rows = RowsBuilder::default();
            let line = vec![b'x'; len];
            let pushed = rows.push(&Row {
                time: EventTime(0),
                line,
            });
            assert_eq!(pushed.is_ok(), fits, "{len}");
            assert_eq!(rows.is_empty(), !fits);
        }
    }

    #[test]
    fn series_are_bounded() {
        let mut builder = ReadingsBuilder::new();
        let mut named = 0;
        for channel in 0..=u8::MAX {
            let mut series = series(1, channel);
            (series.name, series.unit) = (Arc::from("a"), Arc::from(""));
            if builder.push_reading(&series, &reading(0, 0, 0)).is_ok() {
                named += 1;
            }
        }
        assert_eq!(named, SERIES_PER_BLOCK_MAX);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let mut builder = ReadingsBuilder::new();
        for n in 0..20 {
            assert!(
                builder
                    .push_reading(&series(1, 0), &reading(n, n as i64, 5))
                    .is_ok()
            );
        }
        let bytes = builder.seal(AT, Offset(7), Epoch(2));
        assert!(decode(key(7), &bytes).is_ok());
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(key(7), &bad).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(decode(key(7), &bytes[..len]).is_err(), "cut at {len}");
        }
        let moved = decode(key(8), &bytes).map_err(|error| error.fault);
        assert_eq!(moved, Err(BlockFault::OtherPlace { found: key(7) }));
    }

    fn any_record() -> impl Strategy<Value = (u8, u8, Record)> {
        let reading = (
            any::<[u64; 2]>(),
            any::<i64>(),
            any::<u32>(),
            any::<i32>().prop_map(i64::from),
            0..7_usize,
        );
        (0..3_u8, 0..3_u8, any::<bool>(), reading).prop_map(|(device, channel, gap, r)| {
            let ([ordinal, tick], time, uncertainty_us, value, quality) = r;
            let record = if gap {
                Record::Gap(GapRecord {
                    uid: DeviceUid([device; 8]),
                    boot: BootId(uncertainty_us),
                    first: Ordinal(ordinal),
                    count: tick,
                    reason: GapReason::IsrFull,
                    time: EventTime(time),
                })
            } else {
                let qualities = [
                    Quality::Ok,
                    Quality::Stale,
                    Quality::Saturated,
                    Quality::BusError,
                    Quality::CrcError,
                    Quality::Implausible,
                    Quality::WarmingUp,
                ];
                Record::Reading(ReadingRecord {
                    series: 0,
                    ordinal: Ordinal(ordinal),
                    tick: Tick(tick),
                    time: EventTime(time),
                    uncertainty_us,
                    value,
                    quality: qualities[quality],
                })
            };
            (device, channel, record)
        })
    }

    proptest! {
        #[test]
        fn what_was_pushed_comes_back(
            records in proptest::collection::vec(any_record(), 1..300),
            base in 0..u64::MAX / 2,
        ) {
            let mut builder = ReadingsBuilder::new();
            let mut taken = Vec::new();
            for (device, channel, record) in records {
                let pushed = match &record {
                    Record::Reading(r) => builder.push_reading(&series(device, channel), r),
                    Record::Gap(gap) => builder.push_gap(gap),
                };
                if pushed.is_err() {
                    break;
                }
                taken.push((device, channel, record));
            }
            let bytes = builder.seal(AT, Offset(base), Epoch(9));
            prop_assert!(bytes.len() <= BLOCK_BYTES_MAX);
            let block = decode(key(base), &bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let head = decode_head(key(base), &bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(head.end(), block.end());
            let Body::Readings { series: names, records } = block.body else {
                return Err(TestCaseError::fail("rows"));
            };
            prop_assert_eq!(records.len(), taken.len());
            for (got, (device, channel, want)) in records.into_iter().zip(taken) {
                match (got, want) {
                    (Record::Reading(got), Record::Reading(mut want)) => {
                        prop_assert_eq!(&names[usize::from(got.series)], &series(device, channel));
                        want.series = got.series;
                        prop_assert_eq!(got, want);
                    }
                    (got, want) => prop_assert_eq!(got, want),
                }
            }
        }

        #[test]
        fn any_bytes_are_survived(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(key(0), &bytes);
            // And with a CRC that holds, so that the payload reader is reached.
            if bytes.len() >= BLOCK_HEAD_BYTES {
                bytes[..2].copy_from_slice(&BLOCK_MAGIC);
                bytes[2] = BLOCK_VERSION;
                bytes[3] = 1 + bytes[3] % 2;
                let length = bytes.len() as u16;
                bytes[8..10].copy_from_slice(&length.to_le_bytes());
                bytes[10..26].fill(0);
                bytes[12] = AT.partition.0 as u8;
                bytes[26] %= 8;
                bytes[27] = 0;
                let crc = block_crc(&bytes);
                bytes[4..8].copy_from_slice(&crc.to_le_bytes());
                let _ = decode(key(0), &bytes);
            }
        }
    }
}
