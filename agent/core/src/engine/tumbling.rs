//! Tumbling windows `[start, start + size)`: when they open, close, are revised
//! and become final.
//!
//! A window is in `open` until it is written for its close, then in `closed`
//! until no late reading can change it, then gone. Memory: windows between
//! `W - allowed_lateness` and the newest reading, each about 300 bytes beside
//! the values that percentiles keep. Knows no series names and no devices' times.

use std::collections::VecDeque;

use crate::engine::config::{Aggregate, Emit, WindowSpec};
use crate::engine::counters::Taken;
use crate::engine::figures::{Growing, Wants};
use crate::engine::route::{DeviceId, Routes, SeriesId, SeriesInfo, Slot, Timers};
use crate::engine::row::{Body, OutRow, StreamId, WindowBody};
use crate::units::{EventTime, Span};

/// The operator of one `[[window]]` of this kind.
#[derive(Debug)]
pub(super) struct Tumbling {
    routes: Routes,
    size: i64,
    offset: i64,
    lateness: i64,
    emit: Emit,
    finalize: bool,
    wants: Wants,
    aggregates: Vec<Aggregate>,
    keys: Vec<Windows>,
    timers: Timers,
    due: Vec<Due>,
    woken: Vec<(DeviceId, i64)>,
}

/// The windows of one key, each list by start.
#[derive(Debug, Default)]
struct Windows {
    open: VecDeque<Window>,
    closed: VecDeque<Window>,
    last: Option<OutRow>,
}

#[derive(Debug)]
struct Window {
    start: i64,
    /// Of the next line.
    revision: u32,
    /// Holds a reading that no line tells of yet.
    untold: bool,
    said_final: bool,
    figures: Growing,
}

/// A window that has to be written.
#[derive(Debug, Clone, Copy)]
struct Due {
    start: i64,
    slot: Slot,
    watermark: i64,
    why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Close,
    BecameFinal,
    Idle,
}

impl Tumbling {
    pub(super) fn new(
        stream: StreamId,
        spec: &WindowSpec,
        (size, offset): (Span, Span),
        lateness: Span,
    ) -> Self {
        Self {
            routes: Routes::new(stream, spec),
            size: size.0,
            offset: offset.0,
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
            self.keys.push(Windows::default());
        }
    }

    /// Start of the window that holds a time. No overflow: see
    /// [`crate::limits::EVENT_TIME_MAX`].
    fn start_of(&self, time: EventTime) -> i64 {
        time.0 - (time.0 - self.offset).rem_euclid(self.size)
    }

    fn end_of(&self, start: i64) -> i64 {
        start + self.size
    }

    /// From this watermark on nothing changes the window. Saturates at the end
    /// of time, which is as good as the exact figure: only it is as large.
    fn final_at(&self, start: i64) -> i64 {
        self.end_of(start).saturating_add(self.lateness)
    }

    /// From this watermark on the window leaves `open`.
    fn leaves_at(&self, start: i64) -> i64 {
        match self.emit {
            Emit::OnClose => self.end_of(start),
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
        let start = self.start_of(time);
        if self.final_at(start) <= watermark.0 {
            return Some(Taken::None);
        }
        let late = self.leaves_at(start) <= watermark.0;
        let wants = self.wants;
        let key = &mut self.keys[slot as usize];
        let list = if late { &mut key.closed } else { &mut key.open };
        let (at, window) = window_at(list, start, wants);
        if let Some(x) = value {
            window.figures.add(time, x);
        }
        window.untold = true;
        let timer = if late {
            self.final_at(start)
        } else {
            self.leaves_at(start)
        };
        self.timers.sooner(device, timer);
        if late || self.emit == Emit::EveryUpdate {
            self.write(slot, late, at, watermark.0, false, out);
        }
        Some(Taken::All)
    }

    /// Writes a line for a window at a place in one of the lists.
    fn write(
        &mut self,
        slot: Slot,
        closed: bool,
        at: usize,
        watermark: i64,
        idle: bool,
        out: &mut Vec<OutRow>,
    ) {
        let key = &mut self.keys[slot as usize];
        let window = if closed {
            &mut key.closed[at]
        } else {
            &mut key.open[at]
        };
        let end = window.start + self.size;
        let is_final = !idle && end.saturating_add(self.lateness) <= watermark;
        let row = OutRow {
            head: self.routes.head(slot).clone(),
            body: Body::Window(WindowBody {
                start: EventTime(window.start),
                end: EventTime(end),
                revision: window.revision,
                is_final,
                idle,
                cells: window.figures.cells(&self.aggregates),
            }),
        };
        window.revision += 1;
        window.untold = false;
        window.said_final = is_final;
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
            let as_due = |window: &Window, why| Due {
                start: window.start,
                slot: *slot,
                watermark,
                why,
            };
            let leaving = key.open.iter();
            let leaving = leaving.take_while(|w| self.leaves_at(w.start) <= watermark);
            due.extend(leaving.map(|w| as_due(w, Why::Close)));
            if self.finalize {
                let over = key.closed.iter();
                let over = over.take_while(|w| self.final_at(w.start) <= watermark);
                due.extend(
                    over.filter(|w| !w.said_final)
                        .map(|w| as_due(w, Why::BecameFinal)),
                );
            }
        }
        self.due = due;
    }

    fn write_due(&mut self, out: &mut Vec<OutRow>) {
        if self.due.is_empty() {
            return;
        }
        let mut due = std::mem::take(&mut self.due);
        // All windows of an operator are equally long: the order of starts is the
        // order of ends.
        due.sort_unstable_by(|a, b| {
            a.start
                .cmp(&b.start)
                .then_with(|| self.routes.key_order(a.slot, b.slot))
        });
        for one in due.drain(..) {
            match one.why {
                Why::Close => self.close_first(one, out),
                Why::BecameFinal => {
                    let closed = &self.keys[one.slot as usize].closed;
                    if let Ok(at) = closed.binary_search_by_key(&one.start, |w| w.start) {
                        self.write(one.slot, true, at, one.watermark, false, out);
                    }
                }
                Why::Idle => {
                    let open = &self.keys[one.slot as usize].open;
                    if let Ok(at) = open.binary_search_by_key(&one.start, |w| w.start) {
                        self.write(one.slot, false, at, one.watermark, true, out);
                    }
                }
            }
        }
        self.due = due;
    }

    /// The first open window of a key leaves `open`.
    fn close_first(&mut self, due: Due, out: &mut Vec<OutRow>) {
        let tells = match self.emit {
            // What idleness told already is not told again.
            Emit::OnClose | Emit::FinalOnly => self.keys[due.slot as usize].open[0].untold,
            Emit::EveryUpdate => false,
        };
        if tells {
            self.write(due.slot, false, 0, due.watermark, false, out);
        }
        let stays = self.final_at(due.start) > due.watermark;
        let key = &mut self.keys[due.slot as usize];
        if let Some(window) = key.open.pop_front().filter(|_| stays) {
            key.closed.push_back(window);
        }
    }

    /// Also sets the device's timer anew.
    fn drop_final(&mut self, device: DeviceId, watermark: i64) {
        for at in 0..self.routes.slots_of(device).len() {
            let slot = self.routes.slots_of(device)[at] as usize;
            while let Some(start) = self.keys[slot].closed.front().map(|w| w.start) {
                let final_at = self.final_at(start);
                if final_at > watermark {
                    self.timers.sooner(device, final_at);
                    break;
                }
                self.keys[slot].closed.pop_front();
            }
            if let Some(start) = self.keys[slot].open.front().map(|w| w.start) {
                let leaves_at = self.leaves_at(start);
                self.timers.sooner(device, leaves_at);
            }
        }
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
        for slot in self.routes.slots_of(device) {
            let open = self.keys[*slot as usize].open.iter();
            self.due.extend(open.filter(|w| w.untold).map(|window| Due {
                start: window.start,
                slot: *slot,
                watermark: watermark.0,
                why: Why::Idle,
            }));
        }
        self.write_due(out);
    }

    /// Windows held.
    pub(super) fn state_rows(&self) -> u64 {
        let held = |key: &Windows| key.open.len() + key.closed.len();
        self.keys.iter().map(held).sum::<usize>() as u64
    }

    pub(super) fn name(&self) -> &str {
        self.routes.name()
    }

    /// The last line written for the series' key.
    pub(super) fn last(&self, series: SeriesId) -> Option<OutRow> {
        self.keys[self.routes.slot(series)? as usize].last.clone()
    }

    /// The newest window that is still open, as if it were written now.
    pub(super) fn open(&self, series: SeriesId) -> Option<OutRow> {
        let slot = self.routes.slot(series)?;
        let window = self.keys[slot as usize].open.back()?;
        Some(OutRow {
            head: self.routes.head(slot).clone(),
            body: Body::Window(WindowBody {
                start: EventTime(window.start),
                end: EventTime(self.end_of(window.start)),
                revision: window.revision,
                is_final: false,
                idle: false,
                cells: window.figures.clone().cells(&self.aggregates),
            }),
        })
    }
}

/// The window that starts there, made when there is none, with its place.
fn window_at(list: &mut VecDeque<Window>, start: i64, wants: Wants) -> (usize, &mut Window) {
    // Nearly always it is the newest one.
    let found = match list.back() {
        Some(newest) if newest.start == start => Ok(list.len() - 1),
        Some(newest) if newest.start > start => list.binary_search_by_key(&start, |w| w.start),
        Some(_) | None => Err(list.len()),
    };
    let at = match found {
        Ok(at) => at,
        Err(at) => {
            list.insert(
                at,
                Window {
                    start,
                    revision: 0,
                    untold: false,
                    said_final: false,
                    figures: Growing::new(wants),
                },
            );
            at
        }
    };
    (at, &mut list[at])
}
