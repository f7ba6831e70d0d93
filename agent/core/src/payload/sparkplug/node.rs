//! One connection of an edge node after another: births before data, numbers without a
//! hole, and births again when a host asks.
//!
//! Always holds: a node's birth is the first message of a connection and has number 0; a
//! device's birth with all of its metrics comes before its data, and again when it has a
//! metric more; each message has the number after the one before it, 255 is followed by 0.
//! Bound: SPARKPLUG_DEVICES_MAX devices, SPARKPLUG_METRICS_MAX metrics in all and
//! SPARKPLUG_METRICS_PER_DEVICE_MAX each: one more, and the births begin anew. Knows no
//! broker: what it gives out is to be sent in its order, or the connection dropped.

use std::collections::{BTreeMap, BTreeSet};

use forebay_wire::ids::DeviceUid;
use prost::Message;

use super::metrics::{DATA_METRIC_BYTES_MAX, Known, millis};
use super::names::{NodeId, SparkplugMessage, bd_seq};
use super::proto::{BOOLEAN, Metric, Payload, Value};
use crate::limits::{
    CONTROL_BYTES_MAX, SPARKPLUG_DEVICES_MAX, SPARKPLUG_METRICS_MAX,
    SPARKPLUG_METRICS_PER_DEVICE_MAX,
};
use crate::record::{Record, Series};
use crate::units::EventTime;

/// The metric by which a host asks for births.
const REBIRTH: &str = "Node Control/Rebirth";
/// Bytes of a payload beside its metrics, at most.
const PAYLOAD_HEAD_BYTES: usize = 32;

/// How a block is to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Sending {
    pub now: EventTime,
    /// It is not what is now: a host keeps it as history.
    pub historical: bool,
    /// Longest payload of data; births may be longer.
    pub bytes_max: usize,
}

/// See the module.
#[derive(Debug)]
pub struct EdgeNode {
    id: NodeId,
    /// The attempt that became this connection.
    attempt: u64,
    /// Number of the next message.
    seq: u8,
    devices: BTreeMap<DeviceUid, Vec<Known>>,
    metrics: usize,
    /// The node's own birth is to come.
    unborn: bool,
    /// Devices whose births are to come.
    births: BTreeSet<DeviceUid>,
}

impl EdgeNode {
    #[must_use]
    pub fn new(id: NodeId) -> Self {
        Self {
            id,
            attempt: 0,
            seq: 0,
            devices: BTreeMap::new(),
            metrics: 0,
            unborn: true,
            births: BTreeSet::new(),
        }
    }

    #[must_use]
    pub fn id(&self) -> &NodeId {
        &self.id
    }

    /// A connection is up, the one whose last will is [`NodeId::death`] of `attempt`, and
    /// commands are subscribed to.
    pub fn on_connected(&mut self, attempt: u64) {
        self.attempt = attempt;
        self.start_over();
    }

    /// A message came; births follow when it is a host's command to say them again.
    pub fn on_message(&mut self, topic: &str, payload: &[u8]) {
        if topic == self.id.command_topic() && is_rebirth(payload) {
            self.start_over();
        }
    }

    /// All births are said again: something that was said did not arrive, say.
    pub fn start_over(&mut self) {
        self.unborn = true;
        self.births = self.devices.keys().copied().collect();
    }

    /// The next birth that is to be sent before any data.
    pub fn next_birth(&mut self, now: EventTime) -> Option<SparkplugMessage> {
        if self.unborn {
            self.unborn = false;
            return Some(self.node_birth(now));
        }
        let uid = self.births.pop_first()?;
        Some(self.device_birth(uid, now))
    }

    /// Messages for the readings of a block, with the births that are due before them; gaps
    /// and clocks have no place in Sparkplug. Empty when there is none.
    ///
    /// # Panics
    /// When a reading is of none of `series`.
    pub fn of_readings(
        &mut self,
        series: &[Series],
        records: &[Record],
        sending: &Sending,
    ) -> Vec<SparkplugMessage> {
        let aliases = self.announce(series, records);
        let mut out = Vec::new();
        while let Some(birth) = self.next_birth(sending.now) {
            out.push(birth);
        }
        for uid in devices_of(series, records) {
            let metrics = self.metrics_of(uid, (series, &aliases), records, sending);
            let room = sending.bytes_max.saturating_sub(PAYLOAD_HEAD_BYTES);
            let most = (room / DATA_METRIC_BYTES_MAX).max(1);
            for part in metrics.chunks(most) {
                let topic = self.id.device_topic("DDATA", uid);
                out.push(self.numbered(topic, part.to_vec(), sending.now));
            }
        }
        out
    }

    /// Makes room for the metrics of these readings, and gives the place of each series'
    /// metric in its device.
    fn announce(&mut self, series: &[Series], records: &[Record]) -> Vec<usize> {
        let is_read = read_series(series.len(), records);
        let wanted = || series.iter().zip(&is_read).filter(|(_, is_read)| **is_read);
        if !wanted().all(|(series, _)| self.find_or_add(series).is_some()) {
            // Too much is known; of one block there is always room.
            self.devices.clear();
            self.metrics = 0;
            self.start_over();
        }
        let places = series.iter().zip(&is_read);
        places
            .map(|(series, is_read)| {
                let place = is_read.then(|| self.find_or_add(series)).flatten();
                place.unwrap_or_default()
            })
            .collect()
    }

    /// Place of the metric of `series` in its device; `None` when there is no room.
    fn find_or_add(&mut self, series: &Series) -> Option<usize> {
        let known = self.devices.get(&series.uid);
        if let Some(at) = known.and_then(|known| known.iter().position(|known| known.is(series))) {
            return Some(at);
        }
        // A unit that has changed is said in a birth as well.
        let renamed = known.and_then(|known| known.iter().position(|k| k.name == series.name));
        let count = known.map_or(0, Vec::len);
        let is_full = self.metrics >= SPARKPLUG_METRICS_MAX
            || count >= SPARKPLUG_METRICS_PER_DEVICE_MAX
            || (count == 0 && self.devices.len() >= SPARKPLUG_DEVICES_MAX);
        if renamed.is_none() && is_full {
            return None;
        }
        self.births.insert(series.uid);
        let known = self.devices.entry(series.uid).or_default();
        if let Some(at) = renamed {
            known[at] = Known::new(series, known[at].alias);
            return Some(at);
        }
        self.metrics += 1;
        known.push(Known::new(series, self.metrics as u64));
        Some(known.len() - 1)
    }

    fn metrics_of(
        &mut self,
        uid: DeviceUid,
        (series, places): (&[Series], &[usize]),
        records: &[Record],
        sending: &Sending,
    ) -> Vec<Metric> {
        let Some(known) = self.devices.get_mut(&uid) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for record in records {
            let Record::Reading(reading) = record else {
                continue;
            };
            let index = usize::from(reading.series);
            let of = &series[index];
            if of.uid == uid {
                let known = &mut known[places[index]];
                out.push(known.of_reading(of, reading, sending.historical));
            }
        }
        out
    }

    fn node_birth(&mut self, now: EventTime) -> SparkplugMessage {
        self.seq = 0;
        let metrics = vec![
            bd_seq(self.attempt, Some(millis(now))),
            Metric {
                name: Some(REBIRTH.to_owned()),
                timestamp: Some(millis(now)),
                datatype: Some(BOOLEAN),
                value: Some(Value::Boolean(false)),
                ..Metric::default()
            },
        ];
        self.numbered(self.id.topic("NBIRTH"), metrics, now)
    }

    fn device_birth(&mut self, uid: DeviceUid, now: EventTime) -> SparkplugMessage {
        let known = self.devices.get(&uid).into_iter().flatten();
        let metrics = known.map(|known| known.of_birth(now)).collect();
        self.numbered(self.id.device_topic("DBIRTH", uid), metrics, now)
    }

    fn numbered(
        &mut self,
        topic: String,
        metrics: Vec<Metric>,
        now: EventTime,
    ) -> SparkplugMessage {
        let payload = Payload {
            timestamp: Some(millis(now)),
            metrics,
            seq: Some(u64::from(self.seq)),
        };
        self.seq = self.seq.wrapping_add(1);
        SparkplugMessage {
            topic,
            payload: payload.encode_to_vec(),
        }
    }
}

/// Which series have readings here.
fn read_series(series: usize, records: &[Record]) -> Vec<bool> {
    let mut out = vec![false; series];
    for record in records {
        if let Record::Reading(reading) = record {
            out[usize::from(reading.series)] = true;
        }
    }
    out
}

/// Devices with readings here, in the order in which they come.
fn devices_of(series: &[Series], records: &[Record]) -> Vec<DeviceUid> {
    let mut out: Vec<DeviceUid> = Vec::new();
    for record in records {
        if let Record::Reading(reading) = record {
            let uid = series[usize::from(reading.series)].uid;
            if out.last() != Some(&uid) && !out.contains(&uid) {
                out.push(uid);
            }
        }
    }
    out
}

/// Whether a payload asks for births; one that cannot be read asks for nothing.
fn is_rebirth(payload: &[u8]) -> bool {
    if payload.len() > CONTROL_BYTES_MAX {
        return false;
    }
    let asks = |metric: &Metric| {
        metric.name.as_deref() == Some(REBIRTH) && metric.value == Some(Value::Boolean(true))
    };
    Payload::decode(payload).is_ok_and(|payload| payload.metrics.iter().any(asks))
}
