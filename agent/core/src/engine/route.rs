//! Which readings an operator takes, and under which key it keeps them: dense
//! numbers, so that a reading costs one look-up and no allocation.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::config::{KeySpec, WindowSpec};
use crate::engine::row::{Columns, RowHead, StreamId};

/// A device in the engine, from 0 in order of first sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub(super) u32);

/// A channel of a device in the engine, from 0 in order of first sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub(super) u32);

impl DeviceId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl SeriesId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A series with its names.
#[derive(Debug, Clone)]
pub(super) struct SeriesInfo {
    pub(super) id: SeriesId,
    pub(super) device_id: DeviceId,
    pub(super) device: Arc<str>,
    pub(super) channel: Arc<str>,
}

/// Place of a key's state in its operator.
pub(super) type Slot = u32;
const NOT_TAKEN: Slot = Slot::MAX;

/// The input side of one operator.
#[derive(Debug)]
pub(super) struct Routes {
    stream: StreamId,
    stream_name: Arc<str>,
    columns: Columns,
    channels: Option<BTreeSet<String>>,
    devices: Option<BTreeSet<String>>,
    key: KeySpec,
    slot_of: Vec<Slot>,
    slots_of: Vec<Vec<Slot>>,
    heads: Vec<Arc<RowHead>>,
}

impl Routes {
    pub(super) fn new(stream: StreamId, spec: &WindowSpec) -> Self {
        let set = |names: &Option<Vec<String>>| names.as_ref().map(|n| n.iter().cloned().collect());
        Self {
            stream,
            stream_name: spec.name.as_str().into(),
            columns: Columns::new(&spec.aggregates),
            channels: set(&spec.channels),
            devices: set(&spec.devices),
            key: spec.key,
            slot_of: Vec::new(),
            slots_of: Vec::new(),
            heads: Vec::new(),
        }
    }

    /// Takes note of a series, in the order of their ids; true when it needs a
    /// new slot, whose number is the count of slots before.
    pub(super) fn add(&mut self, series: &SeriesInfo) -> bool {
        assert_eq!(
            self.slot_of.len(),
            series.id.index(),
            "series come in order"
        );
        let device = series.device_id.index();
        if self.slots_of.len() <= device {
            self.slots_of.resize_with(device + 1, Vec::new);
        }
        let takes = |set: &Option<BTreeSet<String>>, name: &str| {
            set.as_ref().is_none_or(|set| set.contains(name))
        };
        if !takes(&self.channels, &series.channel) || !takes(&self.devices, &series.device) {
            self.slot_of.push(NOT_TAKEN);
            return false;
        }
        let shared = match self.key {
            KeySpec { channel: false, .. } => self.slots_of[device].first().copied(),
            KeySpec { channel: true, .. } => None,
        };
        if let Some(slot) = shared {
            self.slot_of.push(slot);
            return false;
        }
        let slot = Slot::try_from(self.heads.len()).expect("fewer slots than series");
        self.slot_of.push(slot);
        let channel = match self.key {
            KeySpec { channel: false, .. } => None,
            KeySpec { channel: true, .. } => Some(&series.channel),
        };
        self.heads.push(RowHead::new(
            self.stream,
            &self.stream_name,
            &series.device,
            channel,
            &self.columns,
        ));
        self.slots_of[device].push(slot);
        true
    }

    pub(super) fn slot(&self, series: SeriesId) -> Option<Slot> {
        let slot = *self.slot_of.get(series.index())?;
        (slot != NOT_TAKEN).then_some(slot)
    }

    pub(super) fn slots_of(&self, device: DeviceId) -> &[Slot] {
        self.slots_of.get(device.index()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn head(&self, slot: Slot) -> &Arc<RowHead> {
        &self.heads[slot as usize]
    }

    /// The order of keys in the output: by device, then channel.
    pub(super) fn key_order(&self, a: Slot, b: Slot) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        let (a, b) = (self.head(a), self.head(b));
        (&a.device, &a.channel).cmp(&(&b.device, &b.channel))
    }

    pub(super) fn name(&self) -> &str {
        &self.stream_name
    }
}

/// When something is due next, per device: a watermark below that costs one
/// comparison.
#[derive(Debug, Default)]
pub(super) struct Timers {
    at: Vec<i64>,
}

impl Timers {
    /// Nothing is due. The end of time is as large, and then all is looked at.
    const NEVER: i64 = i64::MAX;

    pub(super) fn sooner(&mut self, device: DeviceId, at: i64) {
        if self.at.len() <= device.index() {
            self.at.resize(device.index() + 1, Self::NEVER);
        }
        let next = &mut self.at[device.index()];
        *next = at.min(*next);
    }

    /// Whether something is due at this watermark; if so, the timer is off until
    /// it is set again.
    pub(super) fn take_due(&mut self, device: DeviceId, watermark: i64) -> bool {
        match self.at.get_mut(device.index()) {
            Some(at) if *at <= watermark => {
                *at = Self::NEVER;
                true
            }
            Some(_) | None => false,
        }
    }
}
