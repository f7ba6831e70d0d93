//! The figures of a rolling window as of a time, from what a sliding window of the
//! pipeline holds anyway. Asking changes nothing that a row or the state would show.

use super::Engine;
use super::config::{Bounds, KeySpec, Source};
use super::value;
use crate::units::{EventTime, Span};

/// Figures of a rolling window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rolling {
    /// Readings with a value.
    pub count: u64,
    pub mean: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub sum: Option<f64>,
}

impl Engine {
    /// The figures of `(time - size, time]` of a channel, where a sliding window of that
    /// size holds all of its readings in it: over readings, by device and channel, with
    /// both ends among its figures. `time` is not before the device's watermark. `None`
    /// also where readings of the device were set aside, or have left early for want of
    /// room: then only the log knows.
    pub fn rolling(
        &mut self,
        (device, channel): (&str, &str),
        size: Span,
        time: EventTime,
    ) -> Option<Rolling> {
        let series = self.devices.find(device, channel)?;
        let id = self.devices.id(device)?;
        if self.devices.counters_of(id).future > 0 || self.devices.watermark(id) > time.0 {
            return None;
        }
        let cells = self.operators.iter_mut().find_map(|operator| {
            let by_channel = operator.stream.key == KeySpec::DEVICE_CHANNEL;
            let reach = operator.reach()?;
            let is_it = reach.size == size.0
                && reach.bounds == Bounds::HalfOpen
                && by_channel
                && operator.source() == Source::Readings;
            let slot = operator.plain_slot(series.index()).filter(|_| is_it)?;
            operator.figures_at(slot, time.0)
        })?;
        let [count, mean, min, max, sum] = cells;
        let figure = |bits: u64| value::option(f64::from_bits(bits));
        Some(Rolling {
            count,
            mean: figure(mean),
            min: figure(min),
            max: figure(max),
            sum: figure(sum),
        })
    }
}
