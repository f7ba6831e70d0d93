//! Hopping windows `[start, start + size)` at every multiple of the hop: sums of
//! panes, tumbling pieces as long as the greatest common divisor of size and
//! hop. A reading goes into one pane, whatever the number of windows over it;
//! a window reads its panes, never the readings again. Hops may be longer than
//! the size, and the size need be no multiple of the hop.
//!
//! Memory: the panes between `W - size - allowed_lateness` and the newest
//! reading that hold any, and a revision number per window that was written and
//! can still change. Knows no series names and no devices' times.

use std::collections::{BTreeMap, VecDeque};

use crate::engine::config::{Aggregate, Emit, WindowSpec};
use crate::engine::counters::Taken;
use crate::engine::figures::{Growing, Wants};
use crate::engine::grid::Grid;
use crate::engine::route::{DeviceId, Routes, SeriesId, SeriesInfo, Slot, Timers};
use crate::engine::row::{Body, OutRow, StreamId, WindowBody};
use crate::limits::{EVENT_TIME_MAX, WINDOW_SPAN_MAX};
use crate::units::{EventTime, Span};

/// The operator of one `[[window]]` of this kind.
#[derive(Debug)]
pub(super) struct Hopping {
    routes: Routes,
    grid: Grid,
    lateness: i64,
    emit: Emit,
    finalize: bool,
    wants: Wants,
    aggregates: Vec<Aggregate>,
    keys: Vec<Panes>,
    timers: Timers,
    due: Vec<Due>,
    woken: Vec<(DeviceId, i64)>,
}

/// The state of one key.
#[derive(Debug)]
struct Panes {
    /// By start.
    panes: VecDeque<Pane>,
    /// Windows that leave at or before this watermark have left.
    left_to: i64,
    /// Windows that were written and may be again, by start.
    told: BTreeMap<i64, Told>,
    last: Option<OutRow>,
}

#[derive(Debug)]
struct Pane {
    start: i64,
    /// Holds a reading that no line for idleness tells of.
    untold: bool,
    figures: Growing,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    /// Of the next line.
    revision: u32,
    said_final: bool,
}

/// A window that has to be written.
#[derive(Debug, Clone, Copy)]
struct Due {
    start: i64,
    slot: Slot,
    watermark: i64,
    idle: bool,
}

impl Hopping {
    pub(super) fn new(
        stream: StreamId,
        spec: &WindowSpec,
        (size, hop, offset): (Span, Span, Span),
        lateness: Span,
    ) -> Self {
        Self {
            routes: Routes::new(stream, spec),
            grid: Grid::new(size, hop, offset),
            lateness: lateness.0,
            emit: spec.emit,
            finalize: spec.finalize,
            wants: Wants::of(&spec.aggregates),
            aggregates: spec.aggregates.clone(),
            keys: Vec::new(),
            timers: Timers::default(),
            due: Vec::new(),
            woken: Vec::new(),
        }
    }

    pub(super) fn add_series(&mut self, series: &SeriesInfo) {
        if self.routes.add(series) {
            self.keys.push(Panes {
                panes: VecDeque::new(),
                left_to: i64::MIN,
                told: BTreeMap::new(),
                last: None,
            });
        }
    }

    /// From this watermark on nothing changes the window; see
    /// [`super::tumbling::Tumbling`] for why it may saturate.
    fn final_at(&self, start: i64) -> i64 {
        (start + self.grid.size).saturating_add(self.lateness)
    }

    /// From this watermark on the window is closed, as far as lines go.
    fn leaves_at(&self, start: i64) -> i64 {
        match self.emit {
            Emit::OnClose => start + self.grid.size,
            Emit::EveryUpdate | Emit::FinalOnly => self.final_at(start),
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
        let at = self.grid.pane_of(time.0);
        let (mut starts, newest) = (self.grid.starts_over(at), self.grid.last_start(at));
        let oldest = starts.next()?;
        if self.final_at(newest) <= watermark.0 {
            return Some(Taken::None);
        }
        let wants = self.wants;
        let key = &mut self.keys[slot as usize];
        // What was due up to here is written; a late reading now writes for itself.
        key.left_to = watermark.0;
        let pane = pane_at(&mut key.panes, at, wants);
        if let Some(x) = value {
            pane.figures.add(time, x);
        }
        pane.untold = true;
        for start in std::iter::once(oldest).chain(starts) {
            let left = self.leaves_at(start) <= watermark.0;
            if self.final_at(start) <= watermark.0 {
                continue;
            }
            if left || self.emit == Emit::EveryUpdate {
                self.write(slot, start, watermark.0, false, out);
            }
            let timer = if left {
                self.final_at(start)
            } else {
                self.leaves_at(start)
            };
            self.timers.sooner(device, timer);
            if !left && self.emit != Emit::EveryUpdate {
                // All windows from here on are open, and later.
                break;
            }
        }
        let whole = self.final_at(oldest) > watermark.0;
        Some(if whole { Taken::All } else { Taken::Some })
    }

    /// The figures of a window, from its panes.
    fn figures(&self, slot: Slot, start: i64) -> Growing {
        let panes = &self.keys[slot as usize].panes;
        let from = panes.partition_point(|pane| pane.start < start);
        let mut figures = Growing::new(self.wants);
        for pane in panes
            .range(from..)
            .take_while(|p| p.start < start + self.grid.size)
        {
            figures.merge(&pane.figures);
        }
        figures
    }

    fn write(&mut self, slot: Slot, start: i64, watermark: i64, idle: bool, out: &mut Vec<OutRow>) {
        let is_final = !idle && self.final_at(start) <= watermark;
        let mut figures = self.figures(slot, start);
        let key = &mut self.keys[slot as usize];
        let told = key.told.get(&start).copied();
        let revision = told.map_or(0, |t| t.revision);
        let row = OutRow {
            head: self.routes.head(slot).clone(),
            body: Body::Window(WindowBody {
                start: EventTime(start),
                end: EventTime(start + self.grid.size),
                revision,
                is_final,
                idle,
                cells: figures.cells(&self.aggregates),
            }),
        };
        if is_final {
            key.told.remove(&start);
        } else {
            let next = Told {
                revision: revision + 1,
                said_final: is_final,
            };
            key.told.insert(start, next);
        }
        key.last = Some(row.clone());
        out.push(row);
    }

    /// Writes what the watermarks of these devices have closed, by end, start
    /// and key, and drops what is final.
    pub(super) fn advance(&mut self, moved: &[(DeviceId, EventTime)], out: &mut Vec<OutRow>) {
        let mut woken = std::mem::take(&mut self.woken);
        for (device, watermark) in moved {
            if self.timers.take_due(*device, watermark.0) {
                woken.push((*device, watermark.0));
                self.collect_due(*device, watermark.0);
            }
        }
        self.write_due(out);
        for (device, watermark) in woken.drain(..) {
            self.drop_final(device, watermark);
        }
        self.woken = woken;
    }

    fn collect_due(&mut self, device: DeviceId, watermark: i64) {
        let mut due = std::mem::take(&mut self.due);
        for slot in self.routes.slots_of(device) {
            let key = &self.keys[*slot as usize];
            let as_due = |start| Due {
                start,
                slot: *slot,
                watermark,
                idle: false,
            };
            let tells = |start: i64| match self.emit {
                Emit::OnClose | Emit::FinalOnly => {
                    !key.told.contains_key(&start) || self.is_untold(key, start)
                }
                Emit::EveryUpdate => false,
            };
            let mut next = self.first_after(key.left_to);
            let from = key
                .panes
                .partition_point(|p| self.grid.last_start(p.start) < next);
            for pane in key.panes.range(from..) {
                let leaving = self.grid.starts_from(pane.start, next);
                for start in leaving.take_while(|s| self.leaves_at(*s) <= watermark) {
                    next = start + self.grid.hop;
                    if tells(start) {
                        due.push(as_due(start));
                    }
                }
            }
            if self.finalize {
                let over = key.told.iter().filter(|(start, told)| {
                    !told.said_final
                        && self.leaves_at(**start) <= key.left_to
                        && self.final_at(**start) <= watermark
                });
                due.extend(over.map(|(start, _)| as_due(*start)));
            }
        }
        self.due = due;
    }

    /// Start of the first window that leaves after a watermark.
    fn first_after(&self, watermark: i64) -> i64 {
        let length = match self.emit {
            Emit::OnClose => self.grid.size,
            Emit::EveryUpdate | Emit::FinalOnly => self.grid.size.saturating_add(self.lateness),
        };
        // No window starts beyond; the grid can be calculated up to there.
        let edge = EVENT_TIME_MAX + 2 * WINDOW_SPAN_MAX;
        let before = watermark.saturating_sub(length).clamp(-edge, edge);
        self.grid.last_start(before) + self.grid.hop
    }

    fn is_untold(&self, key: &Panes, start: i64) -> bool {
        let from = key.panes.partition_point(|pane| pane.start < start);
        let mut over = key
            .panes
            .range(from..)
            .take_while(|p| p.start < start + self.grid.size);
        over.any(|pane| pane.untold)
    }

    fn write_due(&mut self, out: &mut Vec<OutRow>) {
        if self.due.is_empty() {
            return;
        }
        let mut due = std::mem::take(&mut self.due);
        due.sort_unstable_by(|a, b| {
            a.start
                .cmp(&b.start)
                .then_with(|| self.routes.key_order(a.slot, b.slot))
        });
        for one in due.drain(..) {
            self.write(one.slot, one.start, one.watermark, one.idle, out);
        }
        self.due = due;
    }

    /// Also sets the device's timer anew.
    fn drop_final(&mut self, device: DeviceId, watermark: i64) {
        for at in 0..self.routes.slots_of(device).len() {
            let slot = self.routes.slots_of(device)[at] as usize;
            self.keys[slot].left_to = watermark;
            while let Some(start) = self.keys[slot].panes.front().map(|p| p.start) {
                let gone_at = self.final_at(self.grid.last_start(start));
                if gone_at > watermark {
                    self.timers.sooner(device, gone_at);
                    break;
                }
                self.keys[slot].panes.pop_front();
            }
            while let Some((start, _)) = self.keys[slot].told.first_key_value() {
                let final_at = self.final_at(*start);
                if final_at > watermark {
                    self.timers.sooner(device, final_at);
                    break;
                }
                self.keys[slot].told.pop_first();
            }
            if let Some(next) = self.next_close(&self.keys[slot]) {
                self.timers.sooner(device, next);
            }
        }
    }

    /// The watermark at which the next window leaves.
    fn next_close(&self, key: &Panes) -> Option<i64> {
        let next = self.first_after(key.left_to);
        let from = key
            .panes
            .partition_point(|p| self.grid.last_start(p.start) < next);
        let mut starts = self.grid.starts_from(key.panes.get(from)?.start, next);
        starts.next().map(|start| self.leaves_at(start))
    }

    /// A device fell silent: what it has open is written without its watermark
    /// moving.
    pub(super) fn on_idle(
        &mut self,
        device: DeviceId,
        watermark: EventTime,
        out: &mut Vec<OutRow>,
    ) {
        if self.emit != Emit::OnClose {
            return;
        }
        let mut due = std::mem::take(&mut self.due);
        for slot in self.routes.slots_of(device) {
            let key = &mut self.keys[*slot as usize];
            let untold = key.panes.iter_mut().filter(|pane| pane.untold);
            let mut next = i64::MIN;
            for pane in untold {
                pane.untold = false;
                for start in self.grid.starts_from(pane.start, next) {
                    next = start + self.grid.hop;
                    if start + self.grid.size > watermark.0 {
                        due.push(Due {
                            start,
                            slot: *slot,
                            watermark: watermark.0,
                            idle: true,
                        });
                    }
                }
            }
        }
        self.due = due;
        self.write_due(out);
    }

    /// Panes held.
    pub(super) fn state_rows(&self) -> u64 {
        self.keys.iter().map(|key| key.panes.len()).sum::<usize>() as u64
    }

    pub(super) fn name(&self) -> &str {
        self.routes.name()
    }

    /// The last line written for the series' key.
    pub(super) fn last(&self, series: SeriesId) -> Option<OutRow> {
        self.keys[self.routes.slot(series)? as usize].last.clone()
    }

    /// The newest window that holds a reading, as if it were written now.
    pub(super) fn open(&self, series: SeriesId) -> Option<OutRow> {
        let slot = self.routes.slot(series)?;
        let key = &self.keys[slot as usize];
        let start = self.grid.last_start(key.panes.back()?.start);
        if self.leaves_at(start) <= key.left_to {
            return None;
        }
        Some(OutRow {
            head: self.routes.head(slot).clone(),
            body: Body::Window(WindowBody {
                start: EventTime(start),
                end: EventTime(start + self.grid.size),
                revision: key.told.get(&start).map_or(0, |t| t.revision),
                is_final: false,
                idle: false,
                cells: self.figures(slot, start).cells(&self.aggregates),
            }),
        })
    }
}

/// The pane that starts there, made when there is none.
fn pane_at(panes: &mut VecDeque<Pane>, start: i64, wants: Wants) -> &mut Pane {
    let found = match panes.back() {
        Some(newest) if newest.start == start => Ok(panes.len() - 1),
        Some(newest) if newest.start > start => panes.binary_search_by_key(&start, |p| p.start),
        Some(_) | None => Err(panes.len()),
    };
    let at = match found {
        Ok(at) => at,
        Err(at) => {
            let figures = Growing::new(wants);
            panes.insert(
                at,
                Pane {
                    start,
                    untold: false,
                    figures,
                },
            );
            at
        }
    };
    &mut panes[at]
}
