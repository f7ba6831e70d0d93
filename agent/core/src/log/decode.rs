//! Reads blocks back. Checks the CRC first, then every length and index, so that
//! bytes of any kind give an error with a position and never a panic.

use forebay_wire::ids::{DeviceUid, Ordinal};

use super::block::{
    BLOCK_HEAD_BYTES, Block, BlockError, BlockFault, BlockHead, Body, CODEC_READINGS, CODEC_ROWS,
    GapRecord, Record, Series,
};
use super::bytes::{Malformed, Reader};
use super::delta::{BadWord, COLUMNS, Column, DeltaState, Kind};
use super::doubles::Places;
pub use super::head::{decode_head, self_key};
use super::key::BlockKey;
use super::series::Texts;
use super::words::Encoding;
use super::{pack, rows, series, words};
use crate::record::{ClockRecord, ClockTrust, GAPS, GapReason, TablesRecord, ValueKind};
use crate::units::{EventTime, Offset, Span};

/// What the clock's byte says.
pub(super) const CLOCK_UNTRUSTED: u8 = 0;
pub(super) const CLOCK_TRUSTED: u8 = 1;
pub(super) const CLOCK_CORRECTED: u8 = 2;

/// What reading a block takes beside what it gives, for the next one to have again: a
/// reader meets thousands of blocks each second, and memory that is asked for with each is
/// what it would wait for. Bound: KEPT_WORDS for each column and the texts'.
#[derive(Debug, Clone, Default)]
pub(super) struct Scratch {
    texts: Texts,
    words: [Vec<u64>; COLUMNS],
    deltas: DeltaState,
}

/// Words of a column that are kept room for; a merged block has more.
const KEPT_WORDS: usize = 1024;

impl Scratch {
    /// Before a block and after it: one that did not read leaves words behind.
    fn tidy(&mut self) {
        for words in &mut self.words {
            words.clear();
            if words.capacity() > KEPT_WORDS {
                *words = Vec::new();
            }
        }
    }
}

/// Reads a whole block.
///
/// # Errors
/// As [`decode_head`], and when the payload breaks the byte table.
pub fn decode(key: BlockKey, bytes: &[u8]) -> Result<Block, BlockError> {
    decode_all(key, bytes, &mut Scratch::default()).map(|(_, block)| block)
}

/// Reads a whole block, and what its head says; names and units are shared with those that
/// were read with the same `scratch`.
///
/// # Errors
/// As [`decode`].
pub(super) fn decode_all(
    key: BlockKey,
    bytes: &[u8],
    scratch: &mut Scratch,
) -> Result<(BlockHead, Block), BlockError> {
    let head = decode_head(key, bytes)?;
    let mut reader = Reader::new(bytes);
    let body = reader.take(BLOCK_HEAD_BYTES).and_then(|_| match bytes[3] {
        CODEC_READINGS => read_readings(&mut reader, &head, scratch),
        CODEC_ROWS => rows::read(&mut reader, usize::from(head.count)),
        _ => Err(Malformed { position: 3 }),
    });
    let body = body.map_err(|Malformed { position }| BlockError {
        key,
        fault: BlockFault::Malformed { position },
    })?;
    let block = Block {
        at: key.at,
        base: key.base,
        epoch: head.epoch,
        body,
    };
    Ok((head, block))
}

/// A column as it stands in the block.
#[derive(Debug, Clone, Copy)]
struct Raw<'a> {
    encoding: Encoding,
    bytes: &'a [u8],
    /// In the block.
    position: usize,
}

impl Raw<'_> {
    fn read(&self, count: usize, out: &mut Vec<u64>) -> Result<(), Malformed> {
        words::read(self.bytes, self.encoding, count, out).map_err(|at| Malformed {
            position: self.position + at.position,
        })
    }
}

fn read_raw<'a>(reader: &mut Reader<'a>) -> Result<Raw<'a>, Malformed> {
    let len = usize::try_from(reader.varint()?).map_err(|_| reader.malformed())?;
    if len == 0 {
        return Ok(Raw {
            encoding: Encoding::Varints,
            bytes: &[],
            position: reader.malformed().position,
        });
    }
    let at = reader.malformed();
    let bytes = reader.take(len)?;
    Ok(Raw {
        encoding: Encoding::from_byte(bytes[0]).ok_or(at)?,
        bytes: &bytes[1..],
        position: at.position + 1,
    })
}

fn read_readings(
    reader: &mut Reader<'_>,
    head: &BlockHead,
    scratch: &mut Scratch,
) -> Result<Body, Malformed> {
    scratch.tidy();
    let series = series::read(reader, &mut scratch.texts)?;
    let mut raws = [Raw {
        encoding: Encoding::Varints,
        bytes: &[],
        position: 0,
    }; COLUMNS];
    for raw in &mut raws {
        *raw = read_raw(reader)?;
    }
    let gaps_at = reader.malformed().position;
    let gaps = reader.take(reader.remaining())?;
    let count = usize::from(head.count);
    let (kinds, rest) = scratch.words.split_at_mut(1);
    raws[0].read(count, &mut kinds[0])?;
    let readings = kinds[0].iter().filter(|word| Kind::is_reading(**word));
    let readings = readings.count();
    let mut doubles = None;
    for (index, raw) in raws.iter().enumerate().skip(1) {
        if index == Column::Value as usize && raw.encoding == Encoding::PcoDouble {
            doubles = Some(read_doubles(raw, readings, &series)?);
            continue;
        }
        let count = if index == Column::Time as usize {
            count
        } else {
            readings
        };
        raw.read(count, &mut rest[index - 1])?;
    }
    let columns = Columns {
        words: scratch.words.each_ref().map(Vec::as_slice),
        doubles,
        gaps,
    };
    let records = records_of(&series, &columns, head.time_min, &mut scratch.deltas);
    let records = records.map_err(|bad| match bad {
        BadRecord::Word(BadWord(column)) => Malformed {
            position: raws[column as usize].position,
        },
        BadRecord::Gap(at) => Malformed {
            position: gaps_at + at.position,
        },
    })?;
    scratch.tidy();
    Ok(Body::Readings { series, records })
}

fn read_doubles(raw: &Raw<'_>, count: usize, series: &[Series]) -> Result<Vec<f64>, Malformed> {
    let at = Malformed {
        position: raw.position,
    };
    if series.iter().any(|s| s.kind != ValueKind::Double) {
        return Err(at);
    }
    pack::take(raw.bytes, count).map_err(|_| at)
}

/// Columns of a block, each as long as the kinds say.
#[derive(Debug)]
pub(super) struct Columns<'a> {
    pub(super) words: [&'a [u64]; COLUMNS],
    /// Values, series by series, in the place of the words of that column.
    pub(super) doubles: Option<Vec<f64>>,
    pub(super) gaps: &'a [u8],
}

/// Words that fit their columns and stand for no record; `Gap` also for those of the
/// clock and of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadRecord {
    Word(BadWord),
    Gap(Malformed),
}

/// The records that columns stand for; times refer to `start`. What `deltas` held is
/// forgotten.
///
/// # Errors
/// At the first that cannot be.
pub(super) fn records_of(
    series: &[Series],
    columns: &Columns<'_>,
    start: EventTime,
    deltas: &mut DeltaState,
) -> Result<Vec<Record>, BadRecord> {
    deltas.clear();
    deltas.start(start);
    series.iter().for_each(|s| deltas.add_series(s.uid, s.boot));
    let word_kinds = columns.words[Column::Kind as usize];
    let mut kinds = Vec::with_capacity(word_kinds.len());
    for word in word_kinds {
        kinds.push(deltas.decode_kind(*word).map_err(BadRecord::Word)?);
    }
    let mut values = columns.doubles.as_ref().map(|values| {
        let indices = kinds.iter().filter_map(|kind| kind.series());
        (values, Places::new(series.len(), indices))
    });
    let times = columns.words[Column::Time as usize];
    let mut gaps = Reader::new(columns.gaps);
    let mut reading = 0;
    let mut records = Vec::with_capacity(kinds.len());
    for (kind, time) in kinds.iter().zip(times) {
        let index = match *kind {
            Kind::Reading { series } => series,
            Kind::Gap => {
                let gap = read_gap(&mut gaps, deltas.decode_time(*time));
                records.push(Record::Gap(gap.map_err(BadRecord::Gap)?));
                continue;
            }
            Kind::Clock => {
                let clock = read_clock(&mut gaps, deltas.decode_time(*time));
                records.push(Record::Clock(clock.map_err(BadRecord::Gap)?));
                continue;
            }
            Kind::Tables => {
                let tables = TablesRecord {
                    time: deltas.decode_time(*time),
                    upto: Offset(gaps.varint().map_err(BadRecord::Gap)?),
                };
                records.push(Record::Tables(tables));
                continue;
            }
        };
        let mut words = [0; COLUMNS];
        words[Column::Time as usize] = *time;
        for column in Column::OF_READINGS {
            let column = column as usize;
            // Absent only for values that are doubles.
            words[column] = columns.words[column].get(reading).copied().unwrap_or(0);
        }
        reading += 1;
        let value = values
            .as_mut()
            .map(|(values, places)| values[places.next(index)].to_bits().cast_signed());
        let record = deltas
            .decode(index, words, value)
            .map_err(BadRecord::Word)?;
        if !record.has_figure(&series[index]) {
            return Err(BadRecord::Word(BadWord(Column::Value)));
        }
        records.push(Record::Reading(record));
    }
    if gaps.is_at_end() {
        Ok(records)
    } else {
        Err(BadRecord::Gap(gaps.malformed()))
    }
}

fn read_gap(reader: &mut Reader<'_>, time: EventTime) -> Result<GapRecord, Malformed> {
    Ok(GapRecord {
        uid: DeviceUid(reader.array()?),
        boot: series::read_boot(reader)?,
        first: Ordinal(reader.varint()?),
        count: reader.varint()?,
        reason: gap_reason_from(reader.byte()?).ok_or(reader.malformed())?,
        time,
    })
}

fn read_clock(reader: &mut Reader<'_>, now: EventTime) -> Result<ClockRecord, Malformed> {
    let trust = match reader.byte()? {
        CLOCK_UNTRUSTED => ClockTrust::No,
        CLOCK_TRUSTED => ClockTrust::Yes,
        CLOCK_CORRECTED => ClockTrust::Since(Span(reader.zigzag()?)),
        _ => return Err(reader.malformed()),
    };
    Ok(ClockRecord { now, trust })
}

fn gap_reason_from(code: u8) -> Option<GapReason> {
    GAPS.get(usize::from(code)).map(|(reason, _)| *reason)
}
