//! Windows over event time: a pure function of the readings it is given, and of
//! the control lines between them. Equal input gives equal rows, byte for byte,
//! in any batches; any order of arrival inside the out-of-order bound gives the
//! same final rows.
//!
//! Each reading gets one verdict, moves its device's watermark, and goes through
//! the operators in config order. Memory is bounded by the number of series and
//! by what their windows hold. Knows no clock, no log and no text format.

mod calendar;
pub mod config;
pub mod counters;
mod device;
mod figures;
mod grid;
mod hopping;
pub mod identity;
mod operator;
mod route;
pub mod row;
mod sliding;
mod tail;
mod tumbling;
pub mod value;

use std::fmt;

use crate::engine::config::EngineConfig;
use crate::engine::counters::{Counters, Verdict, Votes};
use crate::engine::device::{Aside, Devices};
use crate::engine::identity::ReadingId;
use crate::engine::operator::Operator;
use crate::engine::row::OutRow;
use crate::limits::{EVENT_TIME_MAX, SERIES_MAX, SERIES_NAME_BYTES_MAX};
use crate::units::{EventTime, Span};

pub use self::route::{DeviceId, SeriesId};
pub use self::sliding::RollingAnswer;

/// A reading as the engine takes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineReading {
    pub series: SeriesId,
    /// `None`: its identity was judged before, or it has none.
    pub id: Option<ReadingId>,
    pub time: EventTime,
    /// `None`: the sensor reports a fault. It moves time on and is in no figure.
    pub value: Option<f64>,
}

/// Which rolling window is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollingPick<'a> {
    Name(&'a str),
    /// The first one of this size.
    Size(Span),
}

/// A tumbling or hopping window of one series, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollup {
    /// The newest window, still open.
    pub open: Option<OutRow>,
    /// The last line written.
    pub last: Option<OutRow>,
}

/// A series that the engine does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesError {
    /// There are [`SERIES_MAX`] already.
    TooMany,
    /// A name is empty or longer than [`SERIES_NAME_BYTES_MAX`].
    BadName,
}

impl fmt::Display for SeriesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "more than {SERIES_MAX} series"),
            Self::BadName => write!(
                f,
                "device and channel need names of 1 to {SERIES_NAME_BYTES_MAX} bytes"
            ),
        }
    }
}

impl std::error::Error for SeriesError {}

/// All windows of a pipeline.
#[derive(Debug)]
pub struct Engine {
    operators: Vec<Operator>,
    devices: Devices,
    future_guard: Span,
    /// The gateway's clock as the input told it; never goes back.
    now: Option<EventTime>,
    counters: Counters,
}

impl Engine {
    /// An engine that has seen nothing.
    ///
    /// # Panics
    /// When there are more windows than [`crate::limits::WINDOWS_MAX`], which the
    /// config refuses.
    #[must_use]
    pub fn new(config: &EngineConfig) -> Self {
        let operators = config.windows.iter().enumerate();
        Self {
            operators: operators
                .map(|(at, spec)| Operator::new(at, spec, config))
                .collect(),
            devices: Devices::new(&config.time),
            future_guard: config.time.future_guard,
            now: None,
            counters: Counters::default(),
        }
    }

    /// The id of a series, the same at every call. Ids count up from 0.
    ///
    /// # Errors
    /// When the series is not known yet and cannot be taken.
    pub fn series(&mut self, device: &str, channel: &str) -> Result<SeriesId, SeriesError> {
        if let Some(id) = self.devices.find(device, channel) {
            return Ok(id);
        }
        let fits = |name: &str| (1..=SERIES_NAME_BYTES_MAX).contains(&name.len());
        if !fits(device) || !fits(channel) {
            return Err(SeriesError::BadName);
        }
        let info = self
            .devices
            .add(device, channel)
            .ok_or(SeriesError::TooMany)?;
        self.operators
            .iter_mut()
            .for_each(|op| op.add_series(&info));
        Ok(info.id)
    }

    /// The id of a series that was seen before.
    #[must_use]
    pub fn find_series(&self, device: &str, channel: &str) -> Option<SeriesId> {
        self.devices.find(device, channel)
    }

    /// Takes one reading; its rows are appended to `out`.
    pub fn on_reading(
        &mut self,
        series: SeriesId,
        time: EventTime,
        value: Option<f64>,
        out: &mut Vec<OutRow>,
    ) {
        self.on(
            EngineReading {
                series,
                id: None,
                time,
                value,
            },
            out,
        );
    }

    /// Takes readings in order; the rows are the same as one by one.
    pub fn on_batch(&mut self, readings: &[EngineReading], out: &mut Vec<OutRow>) {
        readings.iter().for_each(|reading| self.on(*reading, out));
    }

    /// Takes one reading with its identity.
    pub fn on(&mut self, reading: EngineReading, out: &mut Vec<OutRow>) {
        let verdict = self.judge(reading, out);
        self.counters.count(verdict);
        self.devices.counters_mut(reading.series).count(verdict);
    }

    fn judge(&mut self, reading: EngineReading, out: &mut Vec<OutRow>) -> Verdict {
        let EngineReading {
            series,
            id,
            time,
            value,
        } = reading;
        if id.is_some_and(|id| !self.devices.is_new(series, id)) {
            return Verdict::Duplicate;
        }
        if let Some(reason) = self.too_far(time) {
            out.push(self.devices.aside(series, time, value, reason));
            return Verdict::Future;
        }
        let device = self.devices.of(series);
        let before = self.devices.watermark(device);
        let after = self.devices.saw(device, time, self.now);
        let mut votes = Votes::default();
        for operator in &mut self.operators {
            if let Some(taken) = operator.on_reading(series, device, time, value, before, out) {
                votes.vote(taken);
            }
            // Before the next operator: rows come in the order of the operators.
            operator.advance(&[(device, after)], out);
        }
        let verdict = votes.verdict();
        if verdict == Verdict::LateAll {
            out.push(self.devices.aside(series, time, value, Aside::LateAll));
        }
        verdict
    }

    /// Why a time cannot be right, if so.
    fn too_far(&self, time: EventTime) -> Option<Aside> {
        if time.0.unsigned_abs() > EVENT_TIME_MAX.unsigned_abs() {
            return Some(Aside::Range);
        }
        let limit = self.now?.0.saturating_add(self.future_guard.0);
        (time.0 > limit).then_some(Aside::Future)
    }

    /// Nothing with a smaller time is still expected of a device, or of all,
    /// also of those first seen later. Never goes back.
    pub fn on_watermark(&mut self, device: Option<&str>, time: EventTime, out: &mut Vec<OutRow>) {
        let moved = self.devices.raise_floor(device, time);
        self.advance(&moved, out);
    }

    /// The gateway's clock says this: drives the future guard and idleness. A
    /// step back is not followed.
    pub fn on_clock(&mut self, time: EventTime, out: &mut Vec<OutRow>) {
        let now = self.now.map_or(time, |now| now.max(time));
        self.now = Some(now);
        let idle = self.devices.fallen_idle(now);
        for operator in &mut self.operators {
            for (device, watermark) in &idle {
                operator.on_idle(*device, *watermark, out);
            }
        }
    }

    /// The input is over: everything closes.
    pub fn finish(&mut self, out: &mut Vec<OutRow>) {
        self.on_watermark(None, EventTime(i64::MAX), out);
    }

    fn advance(&mut self, moved: &[(DeviceId, EventTime)], out: &mut Vec<OutRow>) {
        for operator in &mut self.operators {
            operator.advance(moved, out);
        }
    }

    /// The verdicts over all devices.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The verdicts per device, by name.
    pub fn device_counters(&self) -> impl Iterator<Item = (&str, Counters)> {
        self.devices.counters()
    }

    /// Rows held by windows.
    #[must_use]
    pub fn state_rows(&self) -> u64 {
        self.operators.iter().map(Operator::state_rows).sum()
    }

    /// Nothing with a smaller time is still expected of this device. `None` when
    /// it is not known or has sent nothing yet.
    #[must_use]
    pub fn watermark(&self, device: &str) -> Option<EventTime> {
        let at = self.devices.watermark(self.devices.id(device)?);
        (at.0 > i64::MIN).then_some(at)
    }

    /// What a rolling window says of a series now. `None` when there is no such
    /// window or no reading in it.
    #[must_use]
    pub fn rolling(&self, pick: RollingPick<'_>, series: SeriesId) -> Option<RollingAnswer> {
        let watermark = self.devices.watermark(self.devices.of(series));
        self.operators
            .iter()
            .find_map(|op| op.rolling(pick, series, watermark))
    }

    /// A tumbling or hopping window of a series now, by its name. `None` when there is no
    /// such window.
    #[must_use]
    pub fn rollup(&self, name: &str, series: SeriesId) -> Option<Rollup> {
        self.operators.iter().find_map(|op| op.rollup(name, series))
    }
}

#[cfg(test)]
mod tests;
