//! Readings as metrics, and what an edge node remembers of each.
//!
//! Always holds: a metric of data has an alias and no name, one of a birth both. Bound:
//! DATA_METRIC_BYTES_MAX each. Knows no topic and no message.

use std::sync::Arc;

use forebay_wire::message::Quality;

use super::proto::{
    BOOLEAN, DOUBLE, INT32, Metric, PropertyKind, PropertySet, PropertyValue, STRING, Value,
};
use crate::record::{Figure, ReadingRecord, Series};
use crate::units::EventTime;

/// Most bytes that one metric of data takes in a payload.
pub(super) const DATA_METRIC_BYTES_MAX: usize = 96;
/// Values of the property `Quality`; good ones do not say it.
const BAD: u32 = 0;
const STALE: u32 = 500;

/// What is remembered of a channel.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) name: Arc<str>,
    pub(super) unit: Arc<str>,
    pub(super) alias: u64,
    /// Of the newest reading.
    last: Option<Last>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    time: EventTime,
    value: Option<f64>,
    quality: Quality,
}

/// A time as Sparkplug says it; before 1970 there is none.
pub(super) fn millis(time: EventTime) -> u64 {
    u64::try_from(time.0.div_euclid(1000)).unwrap_or(0)
}

impl Known {
    pub(super) fn new(series: &Series, alias: u64) -> Self {
        Self {
            name: Arc::clone(&series.name),
            unit: Arc::clone(&series.unit),
            alias,
            last: None,
        }
    }

    /// Whether readings of `series` are this metric's as it was announced.
    pub(super) fn is(&self, series: &Series) -> bool {
        self.name == series.name && self.unit == series.unit
    }

    /// What a birth says of it: the newest value that is known.
    pub(super) fn of_birth(&self, now: EventTime) -> Metric {
        let mut properties = PropertySet::default();
        if !self.unit.is_empty() {
            let unit = PropertyKind::Text(self.unit.to_string());
            push(&mut properties, "engUnit", STRING, unit);
        }
        let value = self.last.and_then(|last| last.value);
        if let Some(last) = self.last {
            push_quality(&mut properties, last.quality);
        }
        Metric {
            name: Some(self.name.to_string()),
            alias: Some(self.alias),
            timestamp: Some(millis(self.last.map_or(now, |last| last.time))),
            datatype: Some(DOUBLE),
            is_null: value.is_none().then_some(true),
            properties: said(properties),
            value: value.map(Value::Double),
            ..Metric::default()
        }
    }

    /// A reading as data; `historical`: it is not what is now.
    pub(super) fn of_reading(
        &mut self,
        series: &Series,
        reading: &ReadingRecord,
        historical: bool,
    ) -> Metric {
        let figure = Figure {
            value: reading.value,
            kind: series.kind,
        };
        let value = (reading.quality == Quality::Ok)
            .then(|| figure.to_f64())
            .flatten();
        let is_newer = |last: Last| last.time <= reading.time;
        if self.last.is_none_or(is_newer) {
            self.last = Some(Last {
                time: reading.time,
                value,
                quality: reading.quality,
            });
        }
        let mut properties = PropertySet::default();
        push_quality(&mut properties, reading.quality);
        if reading.is_unsynced() {
            let unsynced = PropertyKind::Boolean(true);
            push(&mut properties, "unsynced", BOOLEAN, unsynced);
        }
        Metric {
            alias: Some(self.alias),
            timestamp: Some(millis(reading.time)),
            is_historical: historical.then_some(true),
            is_null: value.is_none().then_some(true),
            properties: said(properties),
            value: value.map(Value::Double),
            ..Metric::default()
        }
    }
}

fn push(properties: &mut PropertySet, key: &str, datatype: u32, value: PropertyKind) {
    properties.keys.push(key.to_owned());
    properties.values.push(PropertyValue {
        datatype: Some(datatype),
        value: Some(value),
    });
}

fn push_quality(properties: &mut PropertySet, quality: Quality) {
    let code = match quality {
        Quality::Ok => return,
        Quality::Stale => STALE,
        Quality::Saturated
        | Quality::BusError
        | Quality::CrcError
        | Quality::Implausible
        | Quality::WarmingUp => BAD,
    };
    push(properties, "Quality", INT32, PropertyKind::Int(code));
}

/// `None` where there is nothing to say.
fn said(properties: PropertySet) -> Option<PropertySet> {
    (!properties.keys.is_empty()).then_some(properties)
}
