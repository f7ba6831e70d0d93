//! All kinds of operators behind one face: readings in, timers by watermark,
//! rows out. A new kind is a variant here.

use crate::engine::config::{EngineConfig, Grid, WindowKind, WindowSpec};
use crate::engine::counters::Taken;
use crate::engine::hopping::Hopping;
use crate::engine::route::{DeviceId, SeriesId, SeriesInfo};
use crate::engine::row::{OutRow, StreamId};
use crate::engine::sliding::{RollingAnswer, Sliding};
use crate::engine::tumbling::Tumbling;
use crate::engine::{RollingPick, Rollup};
use crate::units::EventTime;

#[derive(Debug)]
pub(super) enum Operator {
    Tumbling(Tumbling),
    Hopping(Hopping),
    Sliding(Sliding),
}

impl Operator {
    pub(super) fn new(at: usize, spec: &WindowSpec, config: &EngineConfig) -> Self {
        let stream = StreamId::Window(u16::try_from(at).expect("at most WINDOWS_MAX windows"));
        match spec.kind {
            WindowKind::Tumbling(Grid::Fixed { size, offset }) => Self::Tumbling(Tumbling::new(
                stream,
                spec,
                (size, offset),
                config.time.allowed_lateness,
            )),
            WindowKind::Tumbling(Grid::Calendar { .. })
            | WindowKind::Rows { .. }
            | WindowKind::Session { .. } => panic!("the config refuses these kinds"),
            WindowKind::Hopping { size, hop, offset } => Self::Hopping(Hopping::new(
                stream,
                spec,
                (size, hop, offset),
                config.time.allowed_lateness,
            )),
            WindowKind::Sliding { size, bounds } => {
                Self::Sliding(Sliding::new(stream, spec, (size, bounds)))
            }
        }
    }

    pub(super) fn add_series(&mut self, series: &SeriesInfo) {
        match self {
            Self::Tumbling(op) => op.add_series(series),
            Self::Hopping(op) => op.add_series(series),
            Self::Sliding(op) => op.add_series(series),
        }
    }

    /// `None` when the reading is not for this operator.
    pub(super) fn on_reading(
        &mut self,
        series: SeriesId,
        device: DeviceId,
        time: EventTime,
        value: Option<f64>,
        watermark: EventTime,
        out: &mut Vec<OutRow>,
    ) -> Option<Taken> {
        match self {
            Self::Tumbling(op) => op.on_reading(series, device, time, value, watermark, out),
            Self::Hopping(op) => op.on_reading(series, device, time, value, watermark, out),
            Self::Sliding(op) => op.on_reading(series, device, time, value, watermark, out),
        }
    }

    /// The watermarks of these devices are there now.
    pub(super) fn advance(&mut self, moved: &[(DeviceId, EventTime)], out: &mut Vec<OutRow>) {
        match self {
            Self::Tumbling(op) => op.advance(moved, out),
            Self::Hopping(op) => op.advance(moved, out),
            Self::Sliding(op) => op.advance(moved, out),
        }
    }

    pub(super) fn on_idle(
        &mut self,
        device: DeviceId,
        watermark: EventTime,
        out: &mut Vec<OutRow>,
    ) {
        match self {
            Self::Tumbling(op) => op.on_idle(device, watermark, out),
            Self::Hopping(op) => op.on_idle(device, watermark, out),
            Self::Sliding(op) => op.on_idle(device, out),
        }
    }

    pub(super) fn state_rows(&self) -> u64 {
        match self {
            Self::Tumbling(op) => op.state_rows(),
            Self::Hopping(op) => op.state_rows(),
            Self::Sliding(op) => op.state_rows(),
        }
    }

    pub(super) fn rolling(
        &self,
        pick: RollingPick<'_>,
        series: SeriesId,
        watermark: EventTime,
    ) -> Option<RollingAnswer> {
        match self {
            Self::Tumbling(_) | Self::Hopping(_) => None,
            Self::Sliding(op) => {
                let meant = match pick {
                    RollingPick::Name(name) => op.name() == name,
                    RollingPick::Size(size) => op.size() == size,
                };
                meant.then(|| op.answer(series, watermark)).flatten()
            }
        }
    }

    pub(super) fn rollup(&self, name: &str, series: SeriesId) -> Option<Rollup> {
        match self {
            Self::Tumbling(op) => (op.name() == name).then(|| Rollup {
                open: op.open(series),
                last: op.last(series),
            }),
            Self::Hopping(op) => (op.name() == name).then(|| Rollup {
                open: op.open(series),
                last: op.last(series),
            }),
            Self::Sliding(_) => None,
        }
    }
}
