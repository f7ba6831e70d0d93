//! What a block expects of its next record. A word of a column says only how a
//! record differs from that, so that a steady device costs almost nothing.
//! Encoder and decoder step the same state; each rule stands here, once for each.
//!
//! Bound: [`SERIES_PER_BLOCK_MAX`](crate::limits::SERIES_PER_BLOCK_MAX) series and
//! as many sources. All sums are modulo 2^64: any words decode to some record.

use forebay_wire::ids::{BootId, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

use super::bytes::{unzigzag, zigzag};
use crate::record::{QUALITIES, ReadingRecord};
use crate::units::EventTime;

/// Columns of a readings payload, in byte-table order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Kind = 0,
    Time = 1,
    Ordinal = 2,
    Tick = 3,
    Uncertainty = 4,
    Quality = 5,
    Value = 6,
}

pub(super) const COLUMNS: usize = 7;

impl Column {
    pub(super) const ALL: [Self; COLUMNS] = [
        Self::Kind,
        Self::Time,
        Self::Ordinal,
        Self::Tick,
        Self::Uncertainty,
        Self::Quality,
        Self::Value,
    ];
    /// Those in which a gap, the clock and what is said of tables have no word.
    pub(super) const OF_READINGS: [Self; 5] = [
        Self::Ordinal,
        Self::Tick,
        Self::Uncertainty,
        Self::Quality,
        Self::Value,
    ];
}

/// Words of column `kind`: the expected series, a gap, series n as n + 2, the clock, or how
/// far tables are known.
const KIND_EXPECTED: u64 = 0;
const KIND_GAP: u64 = 1;
const KIND_SERIES: u64 = 2;
const KIND_CLOCK: u64 = 130;
const KIND_TABLES: u64 = 131;

const _: () = assert!(KIND_CLOCK == KIND_SERIES + crate::limits::SERIES_PER_BLOCK_MAX as u64);

/// One boot of one device in this block.
#[derive(Debug, Clone)]
struct Source {
    uid: DeviceUid,
    boot: BootId,
    is_seen: bool,
    /// Expected next.
    ordinal: u64,
    /// Of its last reading; 0 before the first.
    tick: u64,
    time: i64,
    /// Its tick stood still while event time went on: an import has no ticks.
    is_frozen: bool,
    uncertainty_us: u32,
}

/// How many readings of a series came, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    None,
    One,
    More,
}

#[derive(Debug, Clone)]
struct SeriesState {
    source: usize,
    seen: Seen,
    time: i64,
    /// Time between its last two readings.
    step: i64,
    quality: Quality,
    /// Last value of quality ok.
    value: i64,
    /// The series that came after it the last time.
    follower: Option<usize>,
}

/// State that encoder and decoder step alike.
#[derive(Debug, Clone, Default)]
pub(super) struct DeltaState {
    sources: Vec<Source>,
    series: Vec<SeriesState>,
    /// Series of the last reading.
    previous: Option<usize>,
    /// The first series that no reading was of.
    fresh: usize,
    /// Of the last record.
    time: i64,
    /// Last known time between two readings of one series.
    step: i64,
    /// Of the last reading.
    uncertainty_us: u32,
}

/// A word of a column breaks the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadWord(pub(super) Column);

/// What column `kind` says of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gap,
    Clock,
    Tables,
    Reading { series: usize },
}

impl Kind {
    /// Whether the word of column `kind` is that of a reading.
    pub(super) fn is_reading(word: u64) -> bool {
        !matches!(word, KIND_GAP | KIND_CLOCK | KIND_TABLES)
    }

    pub(super) fn series(self) -> Option<usize> {
        match self {
            Self::Reading { series } => Some(series),
            Self::Gap | Self::Clock | Self::Tables => None,
        }
    }
}

impl DeltaState {
    pub(super) fn clear(&mut self) {
        let (mut sources, mut series) = (
            std::mem::take(&mut self.sources),
            std::mem::take(&mut self.series),
        );
        sources.clear();
        series.clear();
        *self = Self {
            sources,
            series,
            ..Self::default()
        };
    }

    /// Starts from `time`: the head's smallest, which all others are near.
    pub(super) fn start(&mut self, time: EventTime) {
        self.time = time.0;
    }

    /// Registers the next series.
    pub(super) fn add_series(&mut self, uid: DeviceUid, boot: BootId) {
        // Series of one device mostly come together: the last source first.
        let known = |s: &Source| s.uid == uid && s.boot == boot;
        let source = self.sources.iter().rposition(known).unwrap_or_else(|| {
            self.sources.push(Source {
                uid,
                boot,
                is_seen: false,
                ordinal: 0,
                tick: 0,
                time: 0,
                is_frozen: false,
                uncertainty_us: 0,
            });
            self.sources.len() - 1
        });
        self.series.push(SeriesState {
            source,
            seen: Seen::None,
            time: 0,
            step: 0,
            quality: Quality::Ok,
            value: 0,
            follower: None,
        });
    }

    /// The series of which the next reading is expected.
    #[inline]
    pub(super) fn expected(&self) -> usize {
        let follower = self.previous.and_then(|p| self.series[p].follower);
        follower.unwrap_or(self.fresh)
    }

    fn follow(&mut self, index: usize) {
        if let Some(previous) = self.previous {
            self.series[previous].follower = Some(index);
        }
        self.previous = Some(index);
        self.fresh = self.fresh.max(index + 1);
    }

    /// Words of a gap's kind and time.
    pub(super) fn encode_gap(&mut self, time: EventTime) -> (u64, u64) {
        (KIND_GAP, self.encode_time(time))
    }

    /// Words of the clock's kind and time.
    pub(super) fn encode_clock(&mut self, time: EventTime) -> (u64, u64) {
        (KIND_CLOCK, self.encode_time(time))
    }

    /// Words of the kind and time of what is said of tables.
    pub(super) fn encode_tables(&mut self, time: EventTime) -> (u64, u64) {
        (KIND_TABLES, self.encode_time(time))
    }

    fn encode_time(&mut self, time: EventTime) -> u64 {
        let word = zigzag(time.0.wrapping_sub(self.time));
        self.time = time.0;
        word
    }

    /// The time of a record that is no reading.
    pub(super) fn decode_time(&mut self, time: u64) -> EventTime {
        self.time = self.time.wrapping_add(unzigzag(time));
        EventTime(self.time)
    }

    pub(super) fn decode_kind(&mut self, word: u64) -> Result<Kind, BadWord> {
        let index = match word {
            KIND_EXPECTED => self.expected(),
            KIND_GAP => return Ok(Kind::Gap),
            KIND_CLOCK => return Ok(Kind::Clock),
            KIND_TABLES => return Ok(Kind::Tables),
            _ => usize::try_from(word - KIND_SERIES).unwrap_or(usize::MAX),
        };
        if index >= self.series.len() {
            return Err(BadWord(Column::Kind));
        }
        self.follow(index);
        Ok(Kind::Reading { series: index })
    }

    /// The words of a reading, by column.
    #[inline]
    pub(super) fn encode(&mut self, index: usize, reading: &ReadingRecord) -> [u64; COLUMNS] {
        let is_expected = self.expected() == index;
        self.follow(index);
        let time = self.expected_time(index);
        self.note_time(index, reading.time.0);
        let series = &mut self.series[index];
        let source = &mut self.sources[series.source];
        let uncertainty = source.expected_uncertainty(self.uncertainty_us);
        let mut words = [0; COLUMNS];
        words[Column::Kind as usize] = if is_expected {
            KIND_EXPECTED
        } else {
            index as u64 + KIND_SERIES
        };
        words[Column::Time as usize] = zigzag(reading.time.0.wrapping_sub(time));
        words[Column::Ordinal as usize] =
            zigzag(reading.ordinal.0.wrapping_sub(source.ordinal) as i64);
        let tick = source.expected_tick(reading.time.0);
        words[Column::Tick as usize] = zigzag(reading.tick.0.wrapping_sub(tick) as i64);
        words[Column::Uncertainty as usize] =
            zigzag(i64::from(reading.uncertainty_us) - i64::from(uncertainty));
        words[Column::Quality as usize] = if reading.quality == series.quality {
            0
        } else {
            reading.quality as u64 + 1
        };
        words[Column::Value as usize] = zigzag(
            reading
                .value
                .wrapping_sub(series.expected_value(reading.quality)),
        );
        series.note(reading);
        source.note(reading);
        self.uncertainty_us = reading.uncertainty_us;
        words
    }

    /// The reading that `words` stand for; its series is already known, and
    /// `value` is given where its column is not one of words.
    pub(super) fn decode(
        &mut self,
        index: usize,
        words: [u64; COLUMNS],
        value: Option<i64>,
    ) -> Result<ReadingRecord, BadWord> {
        let word = |column: Column| words[column as usize];
        let time = self.expected_time(index);
        let time = time.wrapping_add(unzigzag(word(Column::Time)));
        self.note_time(index, time);
        let series = &mut self.series[index];
        let source = &mut self.sources[series.source];
        let uncertainty = i64::from(source.expected_uncertainty(self.uncertainty_us))
            .wrapping_add(unzigzag(word(Column::Uncertainty)));
        let quality = match word(Column::Quality) {
            0 => series.quality,
            code => quality_from(code - 1).ok_or(BadWord(Column::Quality))?,
        };
        let ordinal = unzigzag(word(Column::Ordinal)) as u64;
        let tick = unzigzag(word(Column::Tick)) as u64;
        let expected = series.expected_value(quality);
        let reading = ReadingRecord {
            series: index as u16,
            ordinal: Ordinal(source.ordinal.wrapping_add(ordinal)),
            tick: Tick(source.expected_tick(time).wrapping_add(tick)),
            time: EventTime(time),
            uncertainty_us: u32::try_from(uncertainty).map_err(|_| BadWord(Column::Uncertainty))?,
            value: value.unwrap_or(expected.wrapping_add(unzigzag(word(Column::Value)))),
            quality,
        };
        series.note(&reading);
        source.note(&reading);
        self.uncertainty_us = reading.uncertainty_us;
        Ok(reading)
    }

    #[inline]
    fn expected_time(&self, index: usize) -> i64 {
        let series = &self.series[index];
        match series.seen {
            Seen::None => self.time,
            Seen::One => series.time.wrapping_add(self.step),
            Seen::More => series.time.wrapping_add(series.step),
        }
    }

    #[inline]
    fn note_time(&mut self, index: usize, time: i64) {
        let series = &mut self.series[index];
        match series.seen {
            Seen::None => series.seen = Seen::One,
            Seen::One | Seen::More => {
                series.seen = Seen::More;
                series.step = time.wrapping_sub(series.time);
                self.step = series.step;
            }
        }
        series.time = time;
        self.time = time;
    }
}

impl SeriesState {
    /// A fault has no value: it is written as it is, and the next good value
    /// refers to the last good one.
    #[inline]
    fn expected_value(&self, quality: Quality) -> i64 {
        if quality == Quality::Ok {
            self.value
        } else {
            0
        }
    }

    #[inline]
    fn note(&mut self, reading: &ReadingRecord) {
        self.quality = reading.quality;
        if reading.quality == Quality::Ok {
            self.value = reading.value;
        }
    }
}

impl Source {
    /// A device's tick and event time run alike.
    #[inline]
    fn expected_tick(&self, time: i64) -> u64 {
        if self.is_frozen {
            return self.tick;
        }
        self.tick.wrapping_add(time.wrapping_sub(self.time) as u64)
    }

    #[inline]
    fn expected_uncertainty(&self, last_us: u32) -> u32 {
        if self.is_seen {
            self.uncertainty_us
        } else {
            last_us
        }
    }

    #[inline]
    fn note(&mut self, reading: &ReadingRecord) {
        if self.is_seen && reading.tick.0 != self.tick {
            self.is_frozen = false;
        } else if self.is_seen && reading.time.0 != self.time {
            self.is_frozen = true;
        }
        self.is_seen = true;
        self.ordinal = reading.ordinal.0.wrapping_add(1);
        self.tick = reading.tick.0;
        self.time = reading.time.0;
        self.uncertainty_us = reading.uncertainty_us;
    }
}

fn quality_from(code: u64) -> Option<Quality> {
    let index = usize::try_from(code).ok()?;
    QUALITIES.get(index).map(|(quality, _)| *quality)
}
