//! The newest durable reading of every channel: what an operator looks at first.
//! Dense by series; bound: [`LIVE_SERIES_MAX`] channels per partition, one more is
//! computed and stored like all others but not shown here.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_wire::ids::DeviceUid;
use forebay_wire::message::Quality;

use crate::limits::{CHANNEL_NAME_BYTES_MAX, LIVE_SERIES_MAX, META_VALUE_BYTES_MAX};
use crate::log::bytes::{Malformed, Reader, put_text, put_varint, put_zigzag};
use crate::record::{Figure, ReadingRecord, Series};
use crate::units::EventTime;

/// Channels whose readings, and whose names, are kept as one value.
const PAGE_ROWS: usize = 32;
/// Longest reading and longest names of one.
const NEWEST_BYTES_MAX: usize = 10 + 1 + 8 + 10;
const NAMES_BYTES_MAX: usize = 8 + 2 + 255 + 255;
const NAMES_PER_PAGE: usize = 8;
const _: () = assert!(PAGE_ROWS * NEWEST_BYTES_MAX <= META_VALUE_BYTES_MAX);
const _: () = assert!(NAMES_PER_PAGE * NAMES_BYTES_MAX <= META_VALUE_BYTES_MAX);
const _: () = assert!(CHANNEL_NAME_BYTES_MAX <= 255);
/// Flag beside the quality: there is a value.
const HAS_VALUE: u8 = 0x80;

/// The figure that a reading stands for, see [`Figure::to_f64`]. `None` when it
/// has no value.
#[must_use]
pub fn figure(series: &Series, record: &ReadingRecord) -> Option<f64> {
    let figure = Figure {
        value: record.value,
        kind: series.kind,
    };
    figure.to_f64().filter(|_| record.quality == Quality::Ok)
}

/// A channel of a device, whatever the boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelKey {
    pub uid: DeviceUid,
    pub channel: Arc<str>,
}

/// The newest reading of a channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    pub unit: Arc<str>,
    pub time: EventTime,
    /// `None` when the sensor reported a fault.
    pub value: Option<f64>,
    pub quality: Quality,
    /// Readings since the log begins.
    pub count: u64,
}

/// Place of a channel in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveIndex(Option<usize>);

impl LiveIndex {
    /// The place as a number that can be kept; `None` of a channel that is not shown.
    #[must_use]
    pub fn number(self) -> Option<usize> {
        self.0
    }

    /// The same from that number; one of no channel shows nothing.
    #[must_use]
    pub fn of_number(number: Option<usize>) -> Self {
        Self(number)
    }
}

/// All channels of one partition.
#[derive(Debug, Clone, Default)]
pub struct LiveTable {
    index: BTreeMap<ChannelKey, usize>,
    rows: Vec<Live>,
    /// Pages with a reading since they were taken.
    changed: Vec<bool>,
    /// Channels whose names were taken.
    named: usize,
    /// Readings since the start of channels that found no place.
    not_shown: u64,
}

/// Pages that changed, by number.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LiveChanges {
    pub names: Vec<(u32, Vec<u8>)>,
    pub rows: Vec<(u32, Vec<u8>)>,
}

impl LiveTable {
    /// The place of a series' channel, made when it is new.
    pub fn intern(&mut self, series: &Series) -> LiveIndex {
        let key = ChannelKey {
            uid: series.uid,
            channel: series.name.clone(),
        };
        if let Some(index) = self.index.get(&key) {
            return LiveIndex(Some(*index));
        }
        if self.is_full() {
            return LiveIndex(None);
        }
        self.rows.push(Live {
            unit: series.unit.clone(),
            time: EventTime(i64::MIN),
            value: None,
            quality: Quality::Ok,
            count: 0,
        });
        let index = self.rows.len() - 1;
        self.index.insert(key, index);
        self.changed.resize(index / PAGE_ROWS + 1, false);
        self.changed[index / PAGE_ROWS] = true;
        LiveIndex(Some(index))
    }

    /// Takes a reading of the channel at `index`.
    pub fn update(&mut self, index: LiveIndex, value: Option<f64>, record: &ReadingRecord) {
        let Some(index) = index.0 else {
            self.not_shown += u64::from(self.is_full());
            return;
        };
        let Some(row) = self.rows.get_mut(index) else {
            return;
        };
        self.changed[index / PAGE_ROWS] = true;
        row.count += 1;
        if record.time >= row.time {
            (row.time, row.value, row.quality) = (record.time, value, record.quality);
        }
    }

    /// Bytes that [`LiveTable::take_changes`] would give, about.
    #[must_use]
    pub fn changed_bytes(&self) -> u64 {
        let pages = self.changed.iter().filter(|changed| **changed).count();
        let names = self.rows.len() - self.named;
        (pages * PAGE_ROWS * 18 + names * 30) as u64
    }

    /// What changed since the last call.
    pub fn take_changes(&mut self) -> LiveChanges {
        let mut out = LiveChanges::default();
        let first = self.named / NAMES_PER_PAGE;
        if self.named < self.rows.len() {
            let mut keys = vec![None; self.rows.len()];
            self.index
                .iter()
                .for_each(|(key, index)| keys[*index] = Some(key));
            let pages = keys
                .chunks(NAMES_PER_PAGE)
                .zip(self.rows.chunks(NAMES_PER_PAGE));
            out.names = pages
                .zip(0_u32..)
                .skip(first)
                .map(|((keys, rows), page)| (page, names_bytes(keys, rows)))
                .collect();
        }
        self.named = self.rows.len();
        let pages = self.rows.chunks(PAGE_ROWS).zip(&mut self.changed);
        for ((rows, changed), page) in pages.zip(0_u32..) {
            if std::mem::take(changed) {
                out.rows.push((page, rows_bytes(rows)));
            }
        }
        out
    }

    /// The table of which these are all pages, in order; `None` when they do not read.
    #[must_use]
    pub fn restore<'a>(
        names: impl Iterator<Item = &'a [u8]>,
        rows: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Self> {
        let mut out = Self::default();
        let mut keys = Vec::new();
        for page in names {
            read_names(page, &mut keys).ok()?;
        }
        for page in rows {
            read_rows(page, &mut out.rows).ok()?;
        }
        if out.rows.len() != keys.len() || keys.len() > LIVE_SERIES_MAX {
            return None;
        }
        for (index, (key, unit)) in keys.into_iter().enumerate() {
            out.rows[index].unit = unit;
            out.index.insert(key, index);
        }
        out.changed = vec![false; out.rows.len().div_ceil(PAGE_ROWS)];
        out.named = out.rows.len();
        (out.index.len() == out.rows.len()).then_some(out)
    }

    /// Whether there may be channels that it does not show.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.rows.len() >= LIVE_SERIES_MAX
    }

    /// Readings since the start of such channels.
    #[must_use]
    pub fn not_shown(&self) -> u64 {
        self.not_shown
    }

    #[must_use]
    pub fn get(&self, key: &ChannelKey) -> Option<&Live> {
        self.rows.get(*self.index.get(key)?)
    }

    /// Channels of one device, by name.
    pub fn of_device(&self, uid: DeviceUid) -> impl Iterator<Item = (&ChannelKey, &Live)> {
        let first = ChannelKey {
            uid,
            channel: Arc::from(""),
        };
        let ours = self.index.range(first..);
        ours.take_while(move |(key, _)| key.uid == uid)
            .filter_map(|(key, index)| Some((key, self.rows.get(*index)?)))
    }

    /// Channels in order of device and name.
    pub fn iter(&self) -> impl Iterator<Item = (&ChannelKey, &Live)> {
        self.index
            .iter()
            .filter_map(|(key, index)| Some((key, self.rows.get(*index)?)))
    }
}

fn names_bytes(keys: &[Option<&ChannelKey>], rows: &[Live]) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, row) in keys.iter().zip(rows) {
        let key = key.expect("each row has a key");
        out.extend_from_slice(&key.uid.0);
        put_text(&mut out, &key.channel);
        put_text(&mut out, &row.unit);
    }
    out
}

fn read_names(page: &[u8], out: &mut Vec<(ChannelKey, Arc<str>)>) -> Result<(), Malformed> {
    let mut reader = Reader::new(page);
    while !reader.is_at_end() {
        let key = ChannelKey {
            uid: DeviceUid(reader.array()?),
            channel: Arc::from(reader.text()?),
        };
        out.push((key, Arc::from(reader.text()?)));
    }
    Ok(())
}

fn rows_bytes(rows: &[Live]) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows {
        put_zigzag(&mut out, row.time.0);
        let flag = row.value.map_or(0, |_| HAS_VALUE);
        out.push(row.quality as u8 | flag);
        if let Some(value) = row.value {
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        put_varint(&mut out, row.count);
    }
    out
}

/// Rows without their units.
fn read_rows(page: &[u8], out: &mut Vec<Live>) -> Result<(), Malformed> {
    let mut reader = Reader::new(page);
    while !reader.is_at_end() {
        let time = EventTime(reader.zigzag()?);
        let flags = reader.byte()?;
        let quality = Quality::from_byte(flags & !HAS_VALUE).ok_or_else(|| reader.malformed())?;
        let value = if flags & HAS_VALUE == 0 {
            None
        } else {
            Some(f64::from_bits(u64::from_le_bytes(reader.array()?)))
        };
        out.push(Live {
            unit: Arc::from(""),
            time,
            value,
            quality,
            count: reader.varint()?,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use forebay_wire::ids::{BootId, ChannelNo, Ordinal, Tick};

    use super::*;
    use crate::record::ValueKind;

    fn series(n: usize) -> Series {
        Series {
            uid: DeviceUid((n as u64 / 3).to_be_bytes()),
            boot: BootId(1),
            channel: ChannelNo(0),
            kind: ValueKind::Scaled { scale: 0 },
            name: Arc::from(format!("c{}", n % 3)),
            unit: Arc::from("x".repeat(n % 5)),
        }
    }

    fn feed(table: &mut LiveTable, n: usize, quality: Quality) {
        let series = series(n);
        let record = ReadingRecord {
            series: 0,
            ordinal: Ordinal(0),
            tick: Tick(0),
            time: EventTime(n as i64 * 1_000_000_007 - 5),
            uncertainty_us: 0,
            value: n as i64,
            quality,
        };
        let at = table.intern(&series);
        table.update(at, figure(&series, &record), &record);
    }

    #[test]
    fn what_was_kept_comes_back_and_only_changes_are_kept() {
        let mut table = LiveTable::default();
        let (mut names, mut rows) = (BTreeMap::new(), BTreeMap::new());
        let mut keep = |table: &mut LiveTable| {
            let bytes = table.changed_bytes();
            let changes = table.take_changes();
            let count = (changes.names.len(), changes.rows.len());
            assert_eq!(bytes > 0, count != (0, 0));
            names.extend(changes.names);
            rows.extend(changes.rows);
            let of = |pages: &BTreeMap<u32, Vec<u8>>| pages.values().cloned().collect::<Vec<_>>();
            let (names, rows) = (of(&names), of(&rows));
            let again = LiveTable::restore(
                names.iter().map(Vec::as_slice),
                rows.iter().map(Vec::as_slice),
            );
            let again = again.expect("it reads");
            assert!(table.iter().eq(again.iter()));
            count
        };
        assert_eq!(keep(&mut table), (0, 0));
        (0..PAGE_ROWS).for_each(|n| feed(&mut table, n, Quality::Ok));
        assert_eq!(keep(&mut table), (PAGE_ROWS / NAMES_PER_PAGE, 1));
        feed(&mut table, 3, Quality::BusError);
        assert_eq!(keep(&mut table), (0, 1), "names stay");
        feed(&mut table, PAGE_ROWS, Quality::Stale);
        assert_eq!(keep(&mut table), (1, 1), "a new page of each");
        assert_eq!(keep(&mut table), (0, 0), "nothing new");
    }

    #[test]
    fn channels_have_a_place_up_to_the_limit_and_readings_beyond_it_are_counted() {
        let mut table = LiveTable::default();
        (0..LIVE_SERIES_MAX - 1).for_each(|n| feed(&mut table, n, Quality::Ok));
        for (name, n, want) in [
            ("limit - 1", 0, (LIVE_SERIES_MAX - 1, false, 0)),
            ("limit", LIVE_SERIES_MAX - 1, (LIVE_SERIES_MAX, true, 0)),
            ("limit + 1", LIVE_SERIES_MAX, (LIVE_SERIES_MAX, true, 1)),
            (
                "the same again",
                LIVE_SERIES_MAX,
                (LIVE_SERIES_MAX, true, 2),
            ),
            ("one with a place", 7, (LIVE_SERIES_MAX, true, 2)),
        ] {
            feed(&mut table, n, Quality::Ok);
            let is = (table.iter().count(), table.is_full(), table.not_shown());
            assert_eq!(is, want, "{name}");
        }
        let mut muted = LiveTable::default();
        let series = series(0);
        let record = ReadingRecord {
            series: 0,
            ordinal: Ordinal(0),
            tick: Tick(0),
            time: EventTime(0),
            uncertainty_us: 0,
            value: 0,
            quality: Quality::Ok,
        };
        muted.update(
            LiveIndex::of_number(None),
            figure(&series, &record),
            &record,
        );
        assert_eq!(
            muted.not_shown(),
            0,
            "one that shows nothing leaves nothing out"
        );
    }

    #[test]
    fn pages_that_do_not_read_are_no_table() {
        let mut table = LiveTable::default();
        (0..9).for_each(|n| feed(&mut table, n, Quality::Ok));
        let LiveChanges { names, rows } = table.take_changes();
        let restore = |names: &[Vec<u8>], rows: &[Vec<u8>]| {
            let (names, rows) = (names.iter(), rows.iter());
            LiveTable::restore(names.map(Vec::as_slice), rows.map(Vec::as_slice)).is_some()
        };
        let names: Vec<_> = names.into_iter().map(|(_, page)| page).collect();
        let rows: Vec<_> = rows.into_iter().map(|(_, page)| page).collect();
        assert!(restore(&names, &rows));
        assert!(!restore(&names[..1], &rows), "fewer names");
        assert!(!restore(&names, &[]), "no rows");
        let twice = [&names[..], &names[..]].concat();
        assert!(
            !restore(&twice, &[&rows[..], &rows[..]].concat()),
            "a channel twice"
        );
        for cut in 1..rows[0].len() {
            assert!(!restore(&names, &[rows[0][..cut].to_vec()]), "{cut}");
        }
    }
}
