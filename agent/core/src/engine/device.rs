//! The devices and series that the engine has met: names to numbers, the watermark
//! and activity of each device, its counters. First pass over a batch: what sets a
//! reading aside, and how far each one moves its device's watermark.
//!
//! Bound: [`SERIES_MAX`] series and as many devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::batch::Batch;
use crate::engine::config::{IdleAfter, TimeRules};
use crate::engine::counters::{Counters, Exceptions};
use crate::engine::identity::Seen;
use crate::engine::least::Least;
use crate::engine::route::{DeviceId, Series, SeriesId};
use crate::engine::row::{Aside, Kind, Row, Rows, Says, SeriesNames, StreamId};
use crate::engine::state::{self, Pages, StateError, StateReader, StateWriter};
use crate::engine::table::Tables;
use crate::limits::{EVENT_TIME_MAX, SERIES_MAX};
use crate::log::bytes::{Malformed, Reader, put_text, put_varint, put_zigzag};
use crate::units::{EventTime, Span};

/// Least time of silence before a device counts as idle, where the config says "auto".
const IDLE_AFTER_MIN_US: i64 = 60_000_000;
/// Intervals that the usual one is the median of.
const INTERVALS_KEPT: usize = 8;

#[derive(Debug)]
pub(super) struct Devices {
    by_name: BTreeMap<Arc<str>, DeviceId>,
    names: Vec<Arc<str>>,
    devices: Vec<Device>,
    series: Vec<Series>,
    by_channel: Vec<BTreeMap<Arc<str>, SeriesId>>,
    out_of_order: Span,
    idle_after: IdleAfter,
    /// Floor of all watermarks, also of devices first seen later.
    floor: i64,
    /// No device falls idle before this time of the clock; `None` when all are.
    soonest: Option<i64>,
    /// Watermark over all devices; never goes back.
    all: i64,
    /// Watermarks of the devices that were seen and are not idle, where some operator
    /// crosses devices.
    least: Option<Least>,
    total: Exceptions,
    pages: Pages,
    /// Series and devices whose names are kept in the state.
    kept_series: usize,
    kept_names: usize,
}

/// When a device was last heard, on the gateway's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// Never, or its silence was noticed already.
    Silent,
    /// Before the clock first said anything.
    Unclocked,
    At(i64),
}

#[derive(Debug)]
struct Device {
    watermark: i64,
    /// Largest time seen; the smallest integer before the first.
    newest: i64,
    activity: Activity,
    /// Last intervals between readings of growing time, us.
    intervals: [i64; INTERVALS_KEPT],
    intervals_seen: u64,
    counters: Exceptions,
    seen: Seen,
}

/// What one reading did to its device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    pub(super) device: DeviceId,
    /// Operators see it: it is no duplicate, and its time can be right.
    pub(super) is_seen: bool,
    /// Watermark before and after.
    pub(super) before: i64,
    pub(super) after: i64,
}

/// A batch with what the first pass found.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) batch: &'a Batch,
    pub(super) moves: &'a [Move],
    /// Watermark over all devices after each reading; empty when no operator asks.
    pub(super) all: &'a [i64],
    pub(super) series: &'a [Series],
    pub(super) tables: &'a Tables,
    /// The gateway's clock, us.
    pub(super) now: Option<i64>,
}

/// Room of the first pass.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) moves: Vec<Move>,
    pub(super) all: Vec<i64>,
}

impl Devices {
    /// `crossed`: some operator crosses devices.
    pub(super) fn new(rules: &TimeRules, crossed: bool) -> Self {
        Self {
            by_name: BTreeMap::new(),
            names: Vec::new(),
            devices: Vec::new(),
            series: Vec::new(),
            by_channel: Vec::new(),
            out_of_order: rules.out_of_order,
            idle_after: rules.idle_after,
            floor: i64::MIN,
            soonest: None,
            all: i64::MIN,
            least: crossed.then(Least::default),
            total: Exceptions::default(),
            pages: Pages::default(),
            kept_series: 0,
            kept_names: 0,
        }
    }

    pub(super) fn id(&self, device: &str) -> Option<DeviceId> {
        self.by_name.get(device).copied()
    }

    pub(super) fn find(&self, device: &str, channel: &str) -> Option<SeriesId> {
        let channels = self.by_channel.get(self.id(device)?.index())?;
        channels.get(channel).copied()
    }

    /// The device of that name, made when there is none; `None` when there are too
    /// many.
    fn known_or_new(&mut self, name: &str) -> Option<DeviceId> {
        if let Some(id) = self.id(name) {
            return Some(id);
        }
        if self.devices.len() >= SERIES_MAX {
            return None;
        }
        let id = DeviceId(number(self.devices.len()));
        let name: Arc<str> = name.into();
        self.by_name.insert(name.clone(), id);
        self.names.push(name);
        self.devices.push(Device::new(self.floor));
        self.by_channel.push(BTreeMap::new());
        self.pages.touch(id.index());
        Some(id)
    }

    /// A new series; `None` when there are too many.
    pub(super) fn add(&mut self, device: &str, channel: &str) -> Option<&Series> {
        if self.series.len() >= SERIES_MAX {
            return None;
        }
        let device_id = self.known_or_new(device)?;
        let names = SeriesNames::new(&self.names[device_id.index()], channel);
        let id = SeriesId(number(self.series.len()));
        self.by_channel[device_id.index()].insert(names.channel.clone(), id);
        self.series.push(Series {
            id,
            device: device_id,
            names,
        });
        self.series.last()
    }

    pub(super) fn series(&self) -> &[Series] {
        &self.series
    }

    pub(super) fn watermark(&self, device: DeviceId) -> i64 {
        self.devices[device.index()].watermark
    }

    pub(super) fn all(&self) -> i64 {
        self.all
    }

    /// The verdicts of a device.
    pub(super) fn counters_of(&self, device: DeviceId) -> Counters {
        self.devices[device.index()].counters.counters()
    }

    /// The verdicts over all devices.
    pub(super) fn total(&self) -> Counters {
        self.total.counters()
    }

    /// The counters of every device that sent anything, by name.
    pub(super) fn counters(&self) -> impl Iterator<Item = (&str, Counters)> {
        self.by_name
            .iter()
            .map(|(name, id)| (&**name, self.devices[id.index()].counters.counters()))
            .filter(|(_, counters)| counters.readings > 0)
    }

    /// Notes how one reading ended that operators saw.
    pub(super) fn count(&mut self, series: SeriesId, note: impl Fn(&mut Exceptions)) {
        let device = self.series[series.index()].device;
        note(&mut self.total);
        note(&mut self.devices[device.index()].counters);
    }

    /// The first pass. `now`: what the gateway's clock said last. Readings that are set
    /// aside leave a row.
    pub(super) fn pass(
        &mut self,
        batch: &Batch,
        (now, guard): (Option<EventTime>, Span),
        passed: &mut Passed,
        out: &mut Rows,
    ) {
        passed.moves.clear();
        passed.all.clear();
        let latest = now.map_or(EVENT_TIME_MAX, |now| {
            now.0.saturating_add(guard.0).min(EVENT_TIME_MAX)
        });
        let heard = now.map_or(Activity::Unclocked, |now| Activity::At(now.0));
        self.note_active(now);
        self.total.readings += batch.len() as u64;
        for (index, (series, time)) in batch.series.iter().zip(&batch.time).enumerate() {
            let (series, time) = (*series, *time);
            let id = self.series[series.index()].device;
            let device = &mut self.devices[id.index()];
            device.counters.readings += 1;
            self.pages.touch(id.index());
            let before = device.watermark;
            let identity = batch.id.get(index).copied().flatten();
            let is_new = identity.is_none_or(|id| device.seen.insert(id));
            let is_seen = is_new && time <= latest && time >= -EVENT_TIME_MAX;
            if is_seen {
                device.saw(time, heard, self.out_of_order.0);
            } else {
                self.set_aside(batch, index, is_new, out);
            }
            let after = self.devices[id.index()].watermark;
            passed.moves.push(Move {
                device: id,
                is_seen,
                before,
                after,
            });
            if let Some(least) = &mut self.least {
                if is_seen {
                    least.set(id.index(), after);
                    self.all = self.all.max(least.least());
                }
                passed.all.push(self.all);
            }
        }
    }

    #[cold]
    fn set_aside(&mut self, batch: &Batch, index: usize, is_new: bool, out: &mut Rows) {
        let series = batch.series[index];
        if !is_new {
            return self.count(series, |counters| counters.duplicate += 1);
        }
        let why = if batch.time[index].unsigned_abs() > EVENT_TIME_MAX.unsigned_abs() {
            Aside::Range
        } else {
            Aside::Future
        };
        self.count(series, |counters| counters.future += 1);
        aside(batch, index, why, out);
    }

    /// Raises the floor of one device or of all: each device whose watermark moved, with
    /// that before and after.
    pub(super) fn raise_floor(
        &mut self,
        device: Option<&str>,
        time: EventTime,
    ) -> Vec<(u32, i64, i64)> {
        let one = match device {
            None => {
                self.floor = self.floor.max(time.0);
                self.all = self.all.max(time.0);
                None
            }
            // Also one that is to be heard later.
            Some(name) => match self.known_or_new(name) {
                Some(id) => Some(id),
                None => return Vec::new(),
            },
        };
        let mut moved = Vec::new();
        for (id, device) in numbered(&mut self.devices) {
            if one.is_none_or(|one| one == id) && device.watermark < time.0 {
                moved.push((id.0, device.watermark, time.0));
                device.watermark = time.0;
                self.pages.touch(id.index());
                if let Some(least) = self.least.as_mut().filter(|_| device.is_active()) {
                    least.set(id.index(), time.0);
                }
            }
        }
        self.raise_all();
        moved
    }

    /// Devices that are silent for too long at this moment, with their watermarks.
    pub(super) fn fallen_idle(&mut self, now: EventTime) -> Vec<(u32, i64)> {
        let mut idle = Vec::new();
        let rule = self.idle_after;
        for (id, device) in numbered(&mut self.devices) {
            match device.activity {
                Activity::Silent => continue,
                // Silent from now on, as far as the clock knows.
                Activity::Unclocked => device.activity = Activity::At(now.0),
                Activity::At(_) if device.due(rule).is_some_and(|at| at <= now.0) => {
                    device.activity = Activity::Silent;
                    idle.push((id.0, device.watermark));
                    if let Some(least) = &mut self.least {
                        least.remove(id.index());
                    }
                }
                Activity::At(_) => continue,
            }
            self.pages.touch(id.index());
        }
        if !idle.is_empty() {
            self.raise_all();
        }
        idle
    }

    /// Whether some device was heard and none is active.
    pub(super) fn all_silent(&self) -> bool {
        let heard = |device: &Device| device.newest > i64::MIN;
        self.devices.iter().any(heard) && !self.devices.iter().any(Device::is_active)
    }

    fn raise_all(&mut self) {
        let Some(least) = &self.least else {
            return;
        };
        let of_active = if least.is_empty() {
            // All are idle: the largest.
            let heard = self.devices.iter().filter(|d| d.newest > i64::MIN);
            heard.map(|device| device.watermark).max()
        } else {
            Some(least.least())
        };
        self.all = self.all.max(of_active.unwrap_or(self.floor));
    }

    /// A device was heard: it falls idle so much later at the earliest.
    fn note_active(&mut self, now: Option<EventTime>) {
        let least = match self.idle_after {
            IdleAfter::After(span) => span.0,
            IdleAfter::Auto => IDLE_AFTER_MIN_US,
        };
        let due = now.map_or(i64::MIN, |now| now.0.saturating_add(least));
        self.soonest = Some(self.soonest.map_or(due, |soonest| soonest.min(due)));
    }

    /// See [`super::Engine::next_idle`]. All devices are looked at only when one may be due.
    pub(super) fn next_idle(&mut self, now: EventTime) -> Option<EventTime> {
        if self.soonest.is_some_and(|soonest| soonest <= now.0) {
            let devices = self.devices.iter();
            let due = devices.filter_map(|device| device.due(self.idle_after));
            self.soonest = due.min();
        }
        self.soonest.map(EventTime)
    }

    /// Watermarks past this time came of a clock that was wrong: their devices are as if
    /// they had sent nothing yet.
    pub(super) fn forget_after(&mut self, latest: i64) {
        for (id, device) in numbered(&mut self.devices) {
            if device.watermark <= latest || device.newest == i64::MIN {
                continue;
            }
            device.watermark = self.floor;
            device.newest = i64::MIN;
            device.intervals_seen = 0;
            self.pages.touch(id.index());
            if let Some(least) = &mut self.least {
                least.remove(id.index());
            }
            device.activity = Activity::Silent;
        }
        if self.all > latest {
            self.all = self.floor;
            self.raise_all();
        }
    }

    /// Who was heard on a clock that does not hold any more is active as of the next one.
    pub(super) fn forget_clock(&mut self) {
        for (id, device) in numbered(&mut self.devices) {
            if let Activity::At(_) = device.activity {
                device.activity = Activity::Unclocked;
                self.soonest = Some(i64::MIN);
                self.pages.touch(id.index());
            }
        }
    }
}

/// Appends a row for a reading that stands aside.
pub(super) fn aside(batch: &Batch, index: usize, why: Aside, out: &mut Rows) {
    let stream = match why {
        Aside::LateAll => StreamId::Late,
        Aside::Future | Aside::Range | Aside::Clock => StreamId::Quarantine,
    };
    let cells = out.next_cells();
    out.cells.push(batch.value[index].to_bits());
    out.rows.push(Row {
        cause: number(index),
        stream,
        kind: Kind::Aside(why),
        says: Says::Figures,
        is_final: false,
        idle: false,
        truncated: false,
        slot: batch.series[index].0,
        revision: 0,
        cells,
        start: batch.time[index],
        end: batch.time[index],
    });
}

fn number(n: usize) -> u32 {
    u32::try_from(n).expect("at most SERIES_MAX")
}

fn numbered(devices: &mut [Device]) -> impl Iterator<Item = (DeviceId, &mut Device)> {
    (0..).map(DeviceId).zip(devices)
}

impl Device {
    fn new(floor: i64) -> Self {
        Self {
            watermark: floor,
            newest: i64::MIN,
            activity: Activity::Silent,
            intervals: [0; INTERVALS_KEPT],
            intervals_seen: 0,
            counters: Exceptions::default(),
            seen: Seen::default(),
        }
    }

    fn is_active(&self) -> bool {
        self.activity != Activity::Silent
    }

    /// A reading came, in order or late.
    #[inline]
    fn saw(&mut self, time: i64, heard: Activity, bound: i64) {
        self.activity = heard;
        if time <= self.newest {
            return;
        }
        if self.newest > i64::MIN {
            self.intervals[self.intervals_seen as usize % INTERVALS_KEPT] = time - self.newest;
            self.intervals_seen += 1;
        }
        self.newest = time;
        self.watermark = self.watermark.max(time.saturating_sub(bound));
    }

    /// When its silence has been too long, unless it is heard again; as soon as the clock
    /// says anything where it has not since.
    fn due(&self, rule: IdleAfter) -> Option<i64> {
        let patience = match rule {
            IdleAfter::After(span) => span.0,
            IdleAfter::Auto => self.usual_silence(),
        };
        match self.activity {
            Activity::Silent => None,
            Activity::Unclocked => Some(i64::MIN),
            Activity::At(heard) => Some(heard.saturating_add(patience)),
        }
    }

    /// Three times the median of the last intervals, at least a minute.
    fn usual_silence(&self) -> i64 {
        let mut kept = self.intervals;
        let count = usize::try_from(self.intervals_seen).unwrap_or(usize::MAX);
        let kept = &mut kept[..count.min(INTERVALS_KEPT)];
        kept.sort_unstable();
        let median = kept.get(kept.len() / 2).copied().unwrap_or(0);
        median.saturating_mul(3).max(IDLE_AFTER_MIN_US)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_zigzag(out, self.watermark);
        put_zigzag(out, self.newest);
        match self.activity {
            Activity::Silent => out.push(0),
            Activity::Unclocked => out.push(1),
            Activity::At(heard) => {
                out.push(2);
                put_zigzag(out, heard);
            }
        }
        put_varint(out, self.intervals_seen);
        self.intervals.iter().for_each(|us| put_zigzag(out, *us));
        encode_counters(&self.counters, out);
        self.seen.encode(out);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (watermark, newest) = (from.zigzag()?, from.zigzag()?);
        let activity = match from.byte()? {
            0 => Activity::Silent,
            1 => Activity::Unclocked,
            2 => Activity::At(from.zigzag()?),
            _ => return Err(from.malformed()),
        };
        let intervals_seen = from.varint()?;
        let mut intervals = [0; INTERVALS_KEPT];
        for us in &mut intervals {
            *us = from.zigzag()?;
        }
        Ok(Self {
            watermark,
            newest,
            activity,
            intervals,
            intervals_seen,
            counters: decode_counters(from)?,
            seen: Seen::decode(from)?,
        })
    }
}

fn encode_counters(counters: &Exceptions, out: &mut Vec<u8>) {
    put_varint(out, counters.readings);
    put_varint(out, counters.late_all);
    put_varint(out, counters.late_partial);
    put_varint(out, counters.future);
    put_varint(out, counters.duplicate);
}

fn decode_counters(from: &mut Reader<'_>) -> Result<Exceptions, Malformed> {
    Ok(Exceptions {
        readings: from.varint()?,
        late_all: from.varint()?,
        late_partial: from.varint()?,
        future: from.varint()?,
        duplicate: from.varint()?,
    })
}

/// Keys of the state, before the page.
const TOTAL_KEY: &[u8] = b"t";
const DEVICE_KEY: &[u8] = b"d";
const NAME_KEY: &[u8] = b"n";
const SERIES_KEY: &[u8] = b"s";

impl Devices {
    /// Bytes that the next checkpoint takes, about.
    pub(super) fn changed_bytes(&self) -> usize {
        self.pages.changed() * state::PAGE * 40
    }

    pub(super) fn encode(&mut self, writer: &mut StateWriter<'_>) {
        let mut blob = Vec::new();
        put_zigzag(&mut blob, self.floor);
        put_zigzag(&mut blob, self.all);
        encode_counters(&self.total, &mut blob);
        writer.put(TOTAL_KEY, &blob);
        while let Some(page) = writer.next(&mut self.pages) {
            blob.clear();
            for device in &self.devices[state::of_page(page, self.devices.len())] {
                device.encode(&mut blob);
            }
            writer.put(&key(DEVICE_KEY, page), &blob);
        }
        for page in state::new_pages(self.kept_names, self.names.len()) {
            blob.clear();
            for name in &self.names[state::of_page(page, self.names.len())] {
                put_text(&mut blob, name);
            }
            writer.put(&key(NAME_KEY, page), &blob);
        }
        for page in state::new_pages(self.kept_series, self.series.len()) {
            blob.clear();
            for series in &self.series[state::of_page(page, self.series.len())] {
                put_varint(&mut blob, series.device.0.into());
                put_text(&mut blob, &series.names.channel);
            }
            writer.put(&key(SERIES_KEY, page), &blob);
        }
        (self.kept_names, self.kept_series) = (self.names.len(), self.series.len());
    }

    /// Reads what [`Devices::encode`] wrote into devices that have seen nothing. Gives
    /// the series' devices and channels, which are still to be added, in order.
    pub(super) fn decode(
        &mut self,
        reader: &StateReader,
    ) -> Result<Vec<(Arc<str>, String)>, StateError> {
        reader.each(TOTAL_KEY, |_, from| {
            (self.floor, self.all) = (from.zigzag()?, from.zigzag()?);
            self.total = decode_counters(from)?;
            Ok(())
        })?;
        let mut names: Vec<Arc<str>> = Vec::new();
        reader.each(NAME_KEY, |rest, from| {
            in_order(rest, names.len(), from)?;
            while !from.is_at_end() && names.len() < SERIES_MAX {
                names.push(from.text()?.into());
            }
            Ok(())
        })?;
        reader.each(DEVICE_KEY, |rest, from| {
            in_order(rest, self.devices.len(), from)?;
            while !from.is_at_end() {
                let Some(name) = names.get(self.devices.len()) else {
                    return Err(from.malformed());
                };
                let id = DeviceId(number(self.devices.len()));
                let device = Device::decode(from)?;
                if let Some(least) = self.least.as_mut().filter(|_| device.is_active()) {
                    least.set(id.index(), device.watermark);
                }
                self.devices.push(device);
                self.by_channel.push(BTreeMap::new());
                if self.by_name.insert(name.clone(), id).is_some() {
                    return Err(from.malformed());
                }
            }
            Ok(())
        })?;
        if self.devices.len() != names.len() {
            return Err(StateError {
                key: DEVICE_KEY.to_vec(),
                position: 0,
            });
        }
        let mut series = Vec::new();
        reader.each(SERIES_KEY, |rest, from| {
            in_order(rest, series.len(), from)?;
            while !from.is_at_end() && series.len() < SERIES_MAX {
                let device = from.varint()?;
                let device = usize::try_from(device).ok().and_then(|at| names.get(at));
                let Some(device) = device else {
                    return Err(from.malformed());
                };
                series.push((device.clone(), from.text()?.into()));
            }
            Ok(())
        })?;
        (self.kept_names, self.kept_series) = (names.len(), series.len());
        self.names = names;
        self.soonest = Some(i64::MIN);
        Ok(series)
    }
}

fn key(kind: &[u8], page: u32) -> Vec<u8> {
    [kind, &page.to_be_bytes()].concat()
}

/// Pages come in order and are full, but for the last.
fn in_order(rest: &[u8], read: usize, from: &Reader<'_>) -> Result<(), Malformed> {
    let page = state::page_of(rest, from)? as usize;
    if page * state::PAGE == read {
        Ok(())
    } else {
        Err(from.malformed())
    }
}
