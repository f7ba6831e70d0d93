//! Reads blocks back. Checks the CRC first, then every length and index, so that
//! bytes of any kind give an error with a position and never a panic.

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::limits::SCALE_MAX;
use forebay_wire::message::Quality;

use super::block::{
    BLOCK_HEAD_BYTES, Block, BlockError, BlockFault, Body, CODEC_READINGS, CODEC_ROWS, GapRecord,
    ReadingRecord, Record, Row, Series, ValueKind,
};
use super::builder::{COLUMNS, Column, DeltaState, KIND_DOUBLE};
use super::bytes::{Malformed, Reader};
pub use super::head::{decode_head, self_key};
use super::key::BlockKey;
use crate::limits::SERIES_PER_BLOCK_MAX;
use crate::record::{GAPS, GapReason, QUALITIES};
use crate::units::EventTime;

/// Reads a whole block.
///
/// # Errors
/// As [`decode_head`], and when the payload breaks the byte table.
pub fn decode(key: BlockKey, bytes: &[u8]) -> Result<Block, BlockError> {
    let head = decode_head(key, bytes)?;
    let mut reader = Reader::new(&bytes[BLOCK_HEAD_BYTES..]);
    let count = usize::from(head.count);
    let body = match bytes[3] {
        CODEC_READINGS => read_readings(&mut reader, count),
        CODEC_ROWS => read_rows(&mut reader, count),
        _ => Err(Malformed { position: 0 }),
    };
    let body = body.map_err(|at| BlockError {
        key,
        fault: BlockFault::Malformed {
            position: BLOCK_HEAD_BYTES + at.position,
        },
    })?;
    Ok(Block {
        at: key.at,
        base: key.base,
        epoch: head.epoch,
        body,
    })
}

fn read_rows(reader: &mut Reader<'_>, count: usize) -> Result<Body, Malformed> {
    let mut rows = Vec::with_capacity(count);
    let mut time = 0_i64;
    for _ in 0..count {
        time = time.wrapping_add(reader.zigzag()?);
        let len = usize::try_from(reader.varint()?).map_err(|_| reader.malformed())?;
        rows.push(Row {
            time: EventTime(time),
            line: reader.take(len)?.to_vec(),
        });
    }
    end_of(reader)?;
    Ok(Body::Rows(rows))
}

fn end_of(reader: &Reader<'_>) -> Result<(), Malformed> {
    if reader.is_at_end() {
        Ok(())
    } else {
        Err(reader.malformed())
    }
}

fn read_readings(reader: &mut Reader<'_>, count: usize) -> Result<Body, Malformed> {
    let (series, mut deltas) = read_series(reader)?;
    let mut columns: [Reader<'_>; COLUMNS] = std::array::from_fn(|_| Reader::new(&[]));
    for column in &mut columns {
        let len = usize::try_from(reader.varint()?).map_err(|_| reader.malformed())?;
        *column = Reader::new(reader.take(len)?);
    }
    end_of(reader)?;
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        let record = read_record(&mut columns, &mut deltas)?;
        if let Record::Reading(r) = &record
            && !r.has_figure(&series[usize::from(r.series)])
        {
            return Err(columns[Column::Value as usize].malformed());
        }
        records.push(record);
    }
    columns.iter().try_for_each(end_of)?;
    Ok(Body::Readings { series, records })
}

fn read_series(reader: &mut Reader<'_>) -> Result<(Vec<Series>, DeltaState), Malformed> {
    let count = reader.varint()?;
    if count > SERIES_PER_BLOCK_MAX as u64 {
        return Err(reader.malformed());
    }
    let mut deltas = DeltaState::default();
    let mut out = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let series = Series {
            uid: DeviceUid(reader.array()?),
            boot: boot(reader)?,
            channel: ChannelNo(reader.byte()?),
            kind: kind_from(reader.byte()?).ok_or(reader.malformed())?,
            name: Arc::from(reader.text()?),
            unit: Arc::from(reader.text()?),
        };
        deltas.add_series(series.uid, series.boot);
        out.push(series);
    }
    Ok((out, deltas))
}

fn boot(reader: &mut Reader<'_>) -> Result<BootId, Malformed> {
    let raw = reader.varint()?;
    u32::try_from(raw)
        .map(BootId)
        .map_err(|_| reader.malformed())
}

fn kind_from(byte: u8) -> Option<ValueKind> {
    match byte {
        0..=SCALE_MAX => Some(ValueKind::Scaled { scale: byte }),
        KIND_DOUBLE => Some(ValueKind::Double),
        _ => None,
    }
}

fn read_record(
    columns: &mut [Reader<'_>; COLUMNS],
    deltas: &mut DeltaState,
) -> Result<Record, Malformed> {
    let kind = columns[Column::Kind as usize].varint()?;
    deltas.time = deltas
        .time
        .wrapping_add(columns[Column::Time as usize].zigzag()?);
    let time = EventTime(deltas.time);
    if kind == 0 {
        return read_gap(&mut columns[Column::Gap as usize], time).map(Record::Gap);
    }
    let bad_kind = columns[Column::Kind as usize].malformed();
    let index = usize::try_from(kind - 1).map_err(|_| bad_kind)?;
    let (source, last_value) = *deltas.series.get(index).ok_or(bad_kind)?;
    let state = &mut deltas.sources[source];
    let ordinal = columns[Column::Ordinal as usize].zigzag()?;
    let tick = columns[Column::Tick as usize].zigzag()?;
    state.ordinal = state.ordinal.wrapping_add(ordinal as u64);
    state.tick = state.tick.wrapping_add(tick as u64);
    let (ordinal, tick) = (Ordinal(state.ordinal), Tick(state.tick));
    let uncertainty = &mut columns[Column::Uncertainty as usize];
    let wide = i64::from(deltas.uncertainty).wrapping_add(uncertainty.zigzag()?);
    deltas.uncertainty = u32::try_from(wide).map_err(|_| uncertainty.malformed())?;
    let values = &mut columns[Column::Value as usize];
    let value = last_value.wrapping_add(values.zigzag()?);
    deltas.series[index].1 = value;
    let qualities = &mut columns[Column::Quality as usize];
    let code = qualities.byte()?;
    Ok(Record::Reading(ReadingRecord {
        series: index as u16,
        ordinal,
        tick,
        time,
        uncertainty_us: deltas.uncertainty,
        value,
        quality: quality_from(code).ok_or(qualities.malformed())?,
    }))
}

fn read_gap(reader: &mut Reader<'_>, time: EventTime) -> Result<GapRecord, Malformed> {
    Ok(GapRecord {
        uid: DeviceUid(reader.array()?),
        boot: boot(reader)?,
        first: Ordinal(reader.varint()?),
        count: reader.varint()?,
        reason: gap_reason_from(reader.byte()?).ok_or(reader.malformed())?,
        time,
    })
}

fn quality_from(code: u8) -> Option<Quality> {
    QUALITIES
        .get(usize::from(code))
        .map(|(quality, _)| *quality)
}

fn gap_reason_from(code: u8) -> Option<GapReason> {
    GAPS.get(usize::from(code)).map(|(reason, _)| *reason)
}
