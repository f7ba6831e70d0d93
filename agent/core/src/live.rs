//! The newest durable reading of every channel: what an operator looks at first.
//! Dense by series; bound: [`LIVE_SERIES_MAX`] channels per partition, one more is
//! computed and stored like all others but not shown here.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_wire::ids::DeviceUid;
use forebay_wire::message::Quality;

use crate::limits::LIVE_SERIES_MAX;
use crate::record::{Figure, ReadingRecord, Series};
use crate::units::EventTime;

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

/// All channels of one partition.
#[derive(Debug, Clone, Default)]
pub struct LiveTable {
    index: BTreeMap<ChannelKey, usize>,
    rows: Vec<Live>,
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
        if self.rows.len() >= LIVE_SERIES_MAX {
            return LiveIndex(None);
        }
        self.rows.push(Live {
            unit: series.unit.clone(),
            time: EventTime(i64::MIN),
            value: None,
            quality: Quality::Ok,
            count: 0,
        });
        self.index.insert(key, self.rows.len() - 1);
        LiveIndex(Some(self.rows.len() - 1))
    }

    /// Takes a reading of the channel at `index`.
    pub fn update(&mut self, index: LiveIndex, value: Option<f64>, record: &ReadingRecord) {
        let Some(row) = index.0.and_then(|index| self.rows.get_mut(index)) else {
            return;
        };
        row.count += 1;
        if record.time >= row.time {
            (row.time, row.value, row.quality) = (record.time, value, record.quality);
        }
    }

    #[must_use]
    pub fn get(&self, key: &ChannelKey) -> Option<&Live> {
        self.rows.get(*self.index.get(key)?)
    }

    /// Channels in order of device and name.
    pub fn iter(&self) -> impl Iterator<Item = (&ChannelKey, &Live)> {
        self.index
            .iter()
            .filter_map(|(key, index)| Some((key, self.rows.get(*index)?)))
    }
}
