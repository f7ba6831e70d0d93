//! Rolling windows: a line for each reading over what came in the time before
//! it. The line is written once, when the watermark has passed the reading, so
//! it does not depend on the order of arrival, and is never revised. A late
//! reading has no line of its own but counts in those still to come.
//!
//! Memory: see [`crate::engine::tail`], and 8 bytes per line to come.

use std::collections::VecDeque;

use crate::engine::config::{Aggregate, Bounds, Emit, WindowSpec};
use crate::engine::counters::Taken;
use crate::engine::figures::Wants;
use crate::engine::route::{DeviceId, Routes, SeriesId, SeriesInfo, Slot, Timers};
use crate::engine::row::{Body, Cell, OutRow, StreamId};
use crate::engine::tail::{Reach, Tail};
use crate::units::{EventTime, Span};

/// The operator of one `[[window]]` of this kind.
#[derive(Debug)]
pub(super) struct Sliding {
    routes: Routes,
    reach: Reach,
    emit: Emit,
    wants: Wants,
    aggregates: Vec<Aggregate>,
    keys: Vec<Rolling>,
    timers: Timers,
    due: Vec<(i64, Slot)>,
}

#[derive(Debug)]
struct Rolling {
    tail: Tail,
    /// Times of readings whose line is to come, ascending.
    lines: VecDeque<i64>,
}

/// What a rolling window says right now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RollingAnswer {
    /// Time of the newest reading, at which the window ends.
    pub time: EventTime,
    pub count: u64,
    pub mean: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// The watermark has not passed `time`: readings may still join.
    pub preliminary: bool,
}

impl Sliding {
    pub(super) fn new(stream: StreamId, spec: &WindowSpec, (size, bounds): (Span, Bounds)) -> Self {
        Self {
            routes: Routes::new(stream, spec),
            reach: Reach {
                size: size.0,
                bounds,
            },
            emit: spec.emit,
            wants: Wants::of(&spec.aggregates),
            aggregates: spec.aggregates.clone(),
            keys: Vec::new(),
            timers: Timers::default(),
            due: Vec::new(),
        }
    }

    pub(super) fn add_series(&mut self, series: &SeriesInfo) {
        if self.routes.add(series) {
            self.keys.push(Rolling {
                tail: Tail::new(self.wants),
                lines: VecDeque::new(),
            });
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
        let slot = self.routes.slot(series)?;
        let late = time.0 < watermark.0;
        if late && !self.reach.covers(time.0, watermark.0) {
            return Some(Taken::None);
        }
        let key = &mut self.keys[slot as usize];
        key.tail.prune(watermark.0, self.reach);
        if let Some(x) = value {
            key.tail.insert(time.0, x, self.reach);
        }
        if late {
            return Some(Taken::Some);
        }
        match self.emit {
            Emit::EveryUpdate => self.write(slot, time, out),
            Emit::OnClose | Emit::FinalOnly => {
                let at = match key.lines.back() {
                    Some(newest) if *newest > time.0 => key.lines.partition_point(|t| *t <= time.0),
                    Some(_) | None => key.lines.len(),
                };
                key.lines.insert(at, time.0);
                // Due at the first watermark that is larger.
                self.timers.sooner(device, time.0.saturating_add(1));
            }
        }
        Some(Taken::All)
    }

    fn write(&mut self, slot: Slot, time: EventTime, out: &mut Vec<OutRow>) {
        let tail = &mut self.keys[slot as usize].tail;
        let cells = tail.figures_at(time.0, self.reach, &self.aggregates);
        out.push(OutRow {
            head: self.routes.head(slot).clone(),
            body: Body::Rolling { time, cells },
        });
    }

    /// Writes the lines that the watermarks of these devices have passed, by
    /// time and key.
    pub(super) fn advance(&mut self, moved: &[(DeviceId, EventTime)], out: &mut Vec<OutRow>) {
        for (device, watermark) in moved {
            if self.timers.take_due(*device, watermark.0) {
                self.collect_due(*device, watermark.0);
            }
        }
        self.write_due(out);
        for (device, watermark) in moved {
            // Readings go as new ones come; at the end of time none comes.
            if *watermark == EventTime(i64::MAX) {
                self.prune(*device, *watermark);
            }
        }
    }

    /// Takes the lines with time < `before` out of their keys.
    fn collect_due(&mut self, device: DeviceId, before: i64) {
        for slot in self.routes.slots_of(device) {
            let lines = &mut self.keys[*slot as usize].lines;
            while let Some(time) = lines.pop_front_if(|time| *time < before) {
                self.due.push((time, *slot));
            }
            if let Some(next) = lines.front() {
                self.timers.sooner(device, next.saturating_add(1));
            }
        }
    }

    fn write_due(&mut self, out: &mut Vec<OutRow>) {
        let mut due = std::mem::take(&mut self.due);
        due.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| self.routes.key_order(a.1, b.1)));
        for (time, slot) in due.drain(..) {
            self.write(slot, EventTime(time), out);
        }
        self.due = due;
    }

    fn prune(&mut self, device: DeviceId, watermark: EventTime) {
        for slot in self.routes.slots_of(device) {
            self.keys[*slot as usize]
                .tail
                .prune(watermark.0, self.reach);
        }
    }

    /// A device fell silent: the lines that wait for its watermark are written.
    pub(super) fn on_idle(&mut self, device: DeviceId, out: &mut Vec<OutRow>) {
        self.collect_due(device, i64::MAX);
        self.write_due(out);
    }

    /// Readings held.
    pub(super) fn state_rows(&self) -> u64 {
        self.keys.iter().map(|key| key.tail.len()).sum::<usize>() as u64
    }

    pub(super) fn name(&self) -> &str {
        self.routes.name()
    }

    pub(super) fn size(&self) -> Span {
        Span(self.reach.size)
    }

    /// What is known now, whether the watermark has passed it or not.
    pub(super) fn answer(&self, series: SeriesId, watermark: EventTime) -> Option<RollingAnswer> {
        let tail = &self.keys[self.routes.slot(series)? as usize].tail;
        let time = tail.newest()?;
        let wanted = [
            Aggregate::Count,
            Aggregate::Mean,
            Aggregate::Min,
            Aggregate::Max,
        ];
        let cells = tail
            .scan(time, self.reach, Wants::of(&wanted))
            .cells(&wanted);
        let number = |at: usize| match cells.as_slice()[at] {
            Cell::Number(x) => Some(x),
            Cell::Null | Cell::Count(_) => None,
        };
        let count = match cells.as_slice()[0] {
            Cell::Count(n) => n,
            Cell::Null | Cell::Number(_) => 0,
        };
        Some(RollingAnswer {
            time: EventTime(time),
            count,
            mean: number(1),
            min: number(2),
            max: number(3),
            preliminary: time >= watermark.0,
        })
    }
}
