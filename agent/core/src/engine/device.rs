//! The devices and series that the engine has met: names to numbers, the
//! watermark and activity of each device, its counters.
//!
//! Bound: [`SERIES_MAX`] series and as many devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::config::{IdleAfter, TimeRules};
use crate::engine::counters::Counters;
use crate::engine::identity::{ReadingId, Seen};
use crate::engine::route::{DeviceId, SeriesId, SeriesInfo};
use crate::engine::row::{Body, Columns, OutRow, RowHead, StreamId};
use crate::limits::SERIES_MAX;
use crate::units::{EventTime, Span};

/// Least time of silence before a device counts as idle, where the config says "auto".
const IDLE_AFTER_MIN_US: i64 = 60_000_000;
/// Intervals that the usual one is the median of.
const INTERVALS_KEPT: usize = 8;

/// Why a reading stands aside of all windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aside {
    LateAll,
    Future,
    /// Its time is none that the engine can calculate with.
    Range,
}

#[derive(Debug)]
pub(super) struct Devices {
    by_name: BTreeMap<Arc<str>, DeviceId>,
    devices: Vec<Device>,
    series: Vec<SeriesInfo>,
    out_of_order: Span,
    idle_after: IdleAfter,
    /// Floor of all watermarks, also of devices first seen later.
    floor: EventTime,
    no_columns: Columns,
    stream_names: [Arc<str>; 2],
}

/// When a device was last heard, on the gateway's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// Never, or its silence was noticed already.
    Silent,
    /// Before the clock first said anything.
    Unclocked,
    At(EventTime),
}

#[derive(Debug)]
struct Device {
    series: BTreeMap<Arc<str>, SeriesId>,
    watermark: EventTime,
    newest: Option<EventTime>,
    /// Last intervals between readings of growing time, us.
    intervals: [i64; INTERVALS_KEPT],
    intervals_seen: usize,
    activity: Activity,
    seen: Seen,
    counters: Counters,
}

impl Devices {
    pub(super) fn new(rules: &TimeRules) -> Self {
        Self {
            by_name: BTreeMap::new(),
            devices: Vec::new(),
            series: Vec::new(),
            out_of_order: rules.out_of_order,
            idle_after: rules.idle_after,
            floor: EventTime(i64::MIN),
            no_columns: Columns::new(&[]),
            stream_names: ["late".into(), "quarantine".into()],
        }
    }

    pub(super) fn id(&self, device: &str) -> Option<DeviceId> {
        self.by_name.get(device).copied()
    }

    pub(super) fn find(&self, device: &str, channel: &str) -> Option<SeriesId> {
        self.devices[self.id(device)?.index()]
            .series
            .get(channel)
            .copied()
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
        self.by_name.insert(name.into(), id);
        self.devices.push(Device::new(self.floor));
        Some(id)
    }

    /// A new series; `None` when there are too many.
    pub(super) fn add(&mut self, device: &str, channel: &str) -> Option<SeriesInfo> {
        if self.series.len() >= SERIES_MAX {
            return None;
        }
        let device_id = self.known_or_new(device)?;
        let (name, _) = self.by_name.get_key_value(device)?;
        let info = SeriesInfo {
            id: SeriesId(number(self.series.len())),
            device_id,
            device: name.clone(),
            channel: channel.into(),
        };
        let known = &mut self.devices[device_id.index()].series;
        known.insert(info.channel.clone(), info.id);
        self.series.push(info.clone());
        Some(info)
    }

    pub(super) fn of(&self, series: SeriesId) -> DeviceId {
        self.series[series.index()].device_id
    }

    pub(super) fn watermark(&self, device: DeviceId) -> EventTime {
        self.devices[device.index()].watermark
    }

    fn device_mut(&mut self, series: SeriesId) -> &mut Device {
        let device = self.of(series);
        &mut self.devices[device.index()]
    }

    pub(super) fn is_new(&mut self, series: SeriesId, id: ReadingId) -> bool {
        self.device_mut(series).seen.insert(id)
    }

    pub(super) fn counters_mut(&mut self, series: SeriesId) -> &mut Counters {
        &mut self.device_mut(series).counters
    }

    /// The counters of every device that sent anything, by name.
    pub(super) fn counters(&self) -> impl Iterator<Item = (&str, Counters)> {
        self.by_name
            .iter()
            .map(|(name, id)| (&**name, self.devices[id.index()].counters))
            .filter(|(_, counters)| counters.readings > 0)
    }

    /// A reading came, in order or late: moves the watermark, which is returned.
    pub(super) fn saw(
        &mut self,
        device: DeviceId,
        time: EventTime,
        now: Option<EventTime>,
    ) -> EventTime {
        let bound = self.out_of_order.0;
        let device = &mut self.devices[device.index()];
        device.activity = now.map_or(Activity::Unclocked, Activity::At);
        if device.newest.is_none_or(|newest| time > newest) {
            if let Some(newest) = device.newest {
                device.intervals[device.intervals_seen % INTERVALS_KEPT] = time.0 - newest.0;
                device.intervals_seen += 1;
            }
            device.newest = Some(time);
            let by_time = EventTime(time.0.saturating_sub(bound));
            device.watermark = device.watermark.max(by_time);
        }
        device.watermark
    }

    /// Raises the floor of one device or of all; the watermarks that moved.
    pub(super) fn raise_floor(
        &mut self,
        device: Option<&str>,
        time: EventTime,
    ) -> Vec<(DeviceId, EventTime)> {
        let one = match device {
            None => {
                self.floor = self.floor.max(time);
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
            if one.is_none_or(|one| one == id) && device.watermark < time {
                device.watermark = time;
                moved.push((id, time));
            }
        }
        moved
    }

    /// Devices that are silent for too long since this moment, with their watermarks.
    pub(super) fn fallen_idle(&mut self, now: EventTime) -> Vec<(DeviceId, EventTime)> {
        let mut idle = Vec::new();
        for (id, device) in numbered(&mut self.devices) {
            let patience = match self.idle_after {
                IdleAfter::After(span) => span.0,
                IdleAfter::Auto => device.usual_silence(),
            };
            match device.activity {
                Activity::Silent => {}
                // Silent from now on, as far as the clock knows.
                Activity::Unclocked => device.activity = Activity::At(now),
                Activity::At(heard) if now.0.saturating_sub(heard.0) >= patience => {
                    device.activity = Activity::Silent;
                    idle.push((id, device.watermark));
                }
                Activity::At(_) => {}
            }
        }
        idle
    }

    /// A line for a reading that stands aside.
    pub(super) fn aside(
        &self,
        series: SeriesId,
        time: EventTime,
        value: Option<f64>,
        why: Aside,
    ) -> OutRow {
        let info = &self.series[series.index()];
        let (stream, name, reason) = match why {
            Aside::LateAll => (StreamId::Late, 0, "late_all"),
            Aside::Future => (StreamId::Quarantine, 1, "future"),
            Aside::Range => (StreamId::Quarantine, 1, "range"),
        };
        OutRow {
            head: RowHead::new(
                stream,
                &self.stream_names[name],
                &info.device,
                Some(&info.channel),
                &self.no_columns,
            ),
            body: Body::Aside {
                time,
                value,
                reason,
            },
        }
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).expect("at most SERIES_MAX")
}

fn numbered(devices: &mut [Device]) -> impl Iterator<Item = (DeviceId, &mut Device)> {
    (0..).map(DeviceId).zip(devices)
}

impl Device {
    fn new(floor: EventTime) -> Self {
        Self {
            series: BTreeMap::new(),
            watermark: floor,
            newest: None,
            intervals: [0; INTERVALS_KEPT],
            intervals_seen: 0,
            activity: Activity::Silent,
            seen: Seen::default(),
            counters: Counters::default(),
        }
    }

    /// Three times the median of the last intervals, at least a minute.
    fn usual_silence(&self) -> i64 {
        let mut kept = self.intervals;
        let kept = &mut kept[..self.intervals_seen.min(INTERVALS_KEPT)];
        kept.sort_unstable();
        let median = kept.get(kept.len() / 2).copied().unwrap_or(0);
        median.saturating_mul(3).max(IDLE_AFTER_MIN_US)
    }
}
