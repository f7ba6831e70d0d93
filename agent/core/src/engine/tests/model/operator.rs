//! One window operator of the model. It keeps every item that any of its windows took,
//! and looks at all of them for every line.

use std::collections::BTreeMap;

use super::Key;
use crate::engine::config::{Aggregate, Bounds, Emit, Grid, WindowKind, WindowSpec};
use crate::engine::counters::Taken;

/// A reading, or a row of another operator.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) key: Key,
    /// Of a row that may be revised: its slot there and its start.
    part: Option<(usize, i64)>,
    time: i64,
    /// One value at most, but for rows that are merged.
    values: Vec<(i64, f64)>,
    /// Its line is to come.
    pending: bool,
    arrival: usize,
    /// What takes the row back.
    gone: bool,
}

impl Item {
    pub(super) fn reading(key: Key, time: i64, value: Option<i32>) -> Self {
        Self {
            key,
            part: None,
            time,
            values: value.map(|x| (time, f64::from(x))).into_iter().collect(),
            pending: false,
            arrival: 0,
            gone: false,
        }
    }
}

/// A line that was written.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) key: Key,
    pub(super) time: i64,
    pub(super) window: Option<(i64, i64)>,
    pub(super) revision: u32,
    pub(super) is_final: bool,
    pub(super) idle: bool,
    pub(super) values: Vec<(i64, f64)>,
    /// It only says that the window is final.
    pub(super) only_final: bool,
    /// The window is no more: a session is part of another one now, or all that was in it
    /// has moved on.
    gone: bool,
}

#[derive(Debug)]
struct Window {
    key: Key,
    start: i64,
    end: i64,
    items: Vec<Item>,
    /// Of the next line.
    revision: u32,
    untold: bool,
    closed: bool,
    said_final: bool,
    /// Starts and ends of sessions that were out and are part of this one, and the
    /// revision of the line that takes each back.
    absorbed: Vec<(i64, i64, u32)>,
}

pub(super) struct Operator<'a> {
    spec: &'a WindowSpec,
    lateness: i64,
    windows: Vec<Window>,
    /// Of lines over what came before.
    items: Vec<Item>,
    arrivals: usize,
    slots: Vec<Key>,
    /// Of this step.
    pub(super) out: Vec<Line>,
    pub(super) late_derived: u64,
}

impl<'a> Operator<'a> {
    pub(super) fn new(spec: &'a WindowSpec, lateness: i64) -> Self {
        Self {
            spec,
            lateness,
            windows: Vec::new(),
            items: Vec::new(),
            arrivals: 0,
            slots: Vec::new(),
            out: Vec::new(),
            late_derived: 0,
        }
    }

    pub(super) fn key(&self, device: &'static str, channel: &'static str) -> Key {
        let key = self.spec.key;
        (key.device.then_some(device), key.channel.then_some(channel))
    }

    /// The number of a key, in order of first sight.
    pub(super) fn slot(&mut self, key: Key) -> usize {
        let known = self.slots.iter().position(|one| *one == key);
        known.unwrap_or_else(|| {
            self.slots.push(key);
            self.slots.len() - 1
        })
    }

    /// A row of the source, which has this slot there, as an item here.
    pub(super) fn fed(&self, line: &Line, slot: usize) -> Item {
        let key = self.spec.key;
        let values = if self.spec.merge {
            line.values.clone()
        } else {
            let one = figure(self.spec.value, &line.values).map(|x| (line.time, x));
            one.into_iter().collect()
        };
        Item {
            key: (
                line.key.0.filter(|_| key.device),
                line.key.1.filter(|_| key.channel),
            ),
            part: line.window.map(|(start, _)| (slot, start)),
            time: line.time,
            values: if line.gone { Vec::new() } else { values },
            pending: false,
            arrival: 0,
            gone: line.gone,
        }
    }

    fn final_at(&self, end: i64) -> i64 {
        end.saturating_add(self.lateness)
    }

    /// From when on a window is closed.
    fn leaves_at(&self, end: i64) -> i64 {
        match self.spec.emit {
            Emit::OnClose => end,
            Emit::EveryUpdate | Emit::FinalOnly | Emit::Never => self.final_at(end),
        }
    }

    pub(super) fn take(&mut self, mut item: Item, watermark: i64) -> Taken {
        self.arrivals += 1;
        item.arrival = self.arrivals;
        match &self.spec.kind {
            WindowKind::Sliding { .. } | WindowKind::Rows { .. } => self.take_line(item, watermark),
            WindowKind::Session { gap } => self.take_session(item, gap.0, watermark),
            WindowKind::Tumbling(_) | WindowKind::Hopping { .. } => {
                self.take_windows(item, watermark)
            }
        }
    }

    fn take_windows(&mut self, item: Item, watermark: i64) -> Taken {
        let mut over = windows_over(&self.spec.kind, item.time);
        let all = over.len();
        over.retain(|(_, end)| self.final_at(*end) > watermark);
        if all == 0 {
            let touched = self.take_out(&item);
            self.tell_now(item.key, touched, watermark);
            return Taken::Nothing;
        }
        if over.is_empty() {
            return Taken::None;
        }
        let mut touched = self.take_out(&item);
        for (start, end) in &over {
            let found = self.window(item.key, *start);
            let at = found.unwrap_or_else(|| self.add(item.key, (*start, *end)));
            if !item.gone {
                self.windows[at].items.push(item.clone());
            }
            touched.push((*end, *start));
        }
        self.tell_now(item.key, touched, watermark);
        if over.len() == all {
            Taken::All
        } else {
            Taken::Some
        }
    }

    /// Takes the row that this one replaces out of the windows it is in: their ends and
    /// starts.
    fn take_out(&mut self, item: &Item) -> Vec<(i64, i64)> {
        let mut touched = Vec::new();
        for window in self.windows.iter_mut().filter(|w| w.key == item.key) {
            let before = window.items.len();
            let replaced = |old: &Item| item.part.is_some() && old.part == item.part;
            window.items.retain(|old| !replaced(old));
            if window.items.len() < before {
                touched.push((window.end, window.start));
            }
        }
        touched
    }

    fn window(&self, key: Key, start: i64) -> Option<usize> {
        let is = |w: &Window| w.key == key && w.start == start;
        self.windows.iter().position(is)
    }

    fn add(&mut self, key: Key, (start, end): (i64, i64)) -> usize {
        self.windows.push(Window {
            key,
            start,
            end,
            items: Vec::new(),
            revision: 0,
            untold: true,
            closed: false,
            said_final: false,
            absorbed: Vec::new(),
        });
        self.windows.len() - 1
    }

    fn take_session(&mut self, item: Item, gap: i64, watermark: i64) -> Taken {
        let (key, time) = (item.key, item.time);
        let joins = |w: &Window| w.key == key && w.start - gap < time && time < w.end;
        let joined = self.windows.iter().filter(|w| joins(w));
        let end = joined.map(|w| w.end).chain([time + gap]).max();
        let end = end.expect("its own");
        if self.final_at(end) <= watermark {
            return Taken::None;
        }
        let mut touched = self.take_out(&item);
        let (joined, apart): (Vec<Window>, Vec<Window>) = std::mem::take(&mut self.windows)
            .into_iter()
            .partition(joins);
        self.windows = apart;
        let start = joined.iter().map(|w| w.start).chain([time]).min();
        let start = start.expect("its own");
        let at = self.add(key, (start, end));
        let merged = &mut self.windows[at];
        for window in joined {
            touched.retain(|(_, start)| *start != window.start);
            if window.start == start {
                merged.revision = window.revision;
            } else if window.revision > 0 {
                let back = (window.start, window.end, window.revision);
                merged.absorbed.push(back);
            }
            merged.absorbed.extend(window.absorbed);
            merged.items.extend(window.items);
        }
        if !item.gone {
            merged.items.push(item);
        }
        touched.push((end, start));
        self.tell_now(key, touched, watermark);
        Taken::All
    }

    /// Windows whose items changed at this watermark, by end and start: those that are
    /// closed are written, or all of them.
    fn tell_now(&mut self, key: Key, mut touched: Vec<(i64, i64)>, watermark: i64) {
        touched.sort_unstable();
        touched.dedup();
        let mut lines = Vec::new();
        for (end, start) in touched {
            let at = self.window(key, start).expect("it is held");
            let closed = self.leaves_at(end) <= watermark;
            let window = &mut self.windows[at];
            (window.untold, window.said_final) = (true, false);
            window.closed = closed;
            if closed || self.spec.emit == Emit::EveryUpdate {
                lines.extend(self.tell(at, watermark, false));
            }
        }
        self.write(lines);
    }

    /// The lines of a window.
    fn tell(&mut self, at: usize, watermark: i64, idle: bool) -> Vec<Line> {
        let lateness = self.lateness;
        let is_final = |end: i64| !idle && end.saturating_add(lateness) <= watermark;
        let window = &mut self.windows[at];
        let only_final = !std::mem::take(&mut window.untold);
        if window.items.is_empty() && window.revision == 0 {
            return Vec::new();
        }
        window.said_final = is_final(window.end);
        let line = Line {
            key: window.key,
            time: window.end.saturating_sub(1),
            window: Some((window.start, window.end)),
            revision: window.revision,
            is_final: window.said_final,
            idle,
            values: values(window.items.iter()),
            only_final,
            gone: window.items.is_empty(),
        };
        window.revision += 1;
        let back = window
            .absorbed
            .drain(..)
            .map(|(start, end, revision)| Line {
                time: end - 1,
                window: Some((start, end)),
                revision,
                is_final: is_final(end),
                values: Vec::new(),
                only_final: false,
                gone: true,
                ..line.clone()
            });
        back.chain([line.clone()]).collect()
    }

    fn write(&mut self, mut lines: Vec<Line>) {
        lines.sort_by_key(|line| {
            let (start, end) = line.window.unwrap_or((line.time, line.time));
            (end, start, line.key)
        });
        self.out.append(&mut lines);
    }

    /// The watermarks of all scopes are there now.
    pub(super) fn advance(&mut self, watermarks: &BTreeMap<Option<&'static str>, i64>) {
        let mut lines = self.lines_before(|item| watermarks[&item.key.0]);
        for at in 0..self.windows.len() {
            let window = &self.windows[at];
            let (end, watermark) = (window.end, watermarks[&window.key.0]);
            if self.leaves_at(end) > watermark {
                continue;
            }
            let (is_final, out) = (self.final_at(end) <= watermark, window.revision > 0);
            let becomes_final = self.spec.finalize && is_final && out && !window.said_final;
            let untold = window.untold && self.spec.emit != Emit::EveryUpdate && !window.closed;
            if untold || becomes_final {
                lines.extend(self.tell(at, watermark, false));
            }
            self.windows[at].closed = true;
        }
        let lateness = self.lateness;
        let is_final = |w: &Window| w.end.saturating_add(lateness) <= watermarks[&w.key.0];
        self.windows.retain(|w| !(w.closed && is_final(w)));
        self.write(lines);
    }

    /// These scopes fell silent.
    pub(super) fn idle(&mut self, silent: &[Option<&'static str>]) {
        let end_of_time = |item: &Item| match silent.contains(&item.key.0) {
            true => i64::MAX,
            false => i64::MIN,
        };
        let mut lines = self.lines_before(end_of_time);
        if self.spec.emit == Emit::OnClose {
            for at in 0..self.windows.len() {
                let window = &self.windows[at];
                if window.untold && !window.closed && silent.contains(&window.key.0) {
                    lines.extend(self.tell(at, i64::MIN, true));
                }
            }
        }
        self.write(lines);
    }

    fn take_line(&mut self, mut item: Item, watermark: i64) -> Taken {
        let late = item.time < watermark;
        let replaced =
            |old: &Item| old.key == item.key && item.part.is_some() && old.part == item.part;
        let before = self.items.iter().position(replaced);
        if item.gone {
            before.map(|at| self.items.remove(at));
            return Taken::All;
        }
        let same_time = before.filter(|at| self.items[*at].time == item.time);
        let arrival = same_time.map_or(item.arrival, |at| self.items[at].arrival);
        if late && !self.counts_later(&item, arrival, watermark) {
            return Taken::None;
        }
        if let Some(at) = before {
            let old = &mut self.items[at];
            if old.time == item.time {
                old.values = item.values;
                if self.spec.emit == Emit::EveryUpdate && !late {
                    let line = self.line(at);
                    self.write(vec![line]);
                }
                return if late { Taken::Some } else { Taken::All };
            }
            self.items.remove(at);
        }
        let at_once = self.spec.emit == Emit::EveryUpdate;
        item.pending = !late && !at_once;
        self.items.push(item);
        if at_once && !late {
            let line = self.line(self.items.len() - 1);
            self.write(vec![line]);
        }
        if late { Taken::Some } else { Taken::All }
    }

    /// Whether a line for a reading at the watermark could still hold it.
    fn counts_later(&self, item: &Item, arrival: usize, watermark: i64) -> bool {
        match &self.spec.kind {
            WindowKind::Sliding { size, bounds } => reaches(item.time, watermark, size.0, *bounds),
            WindowKind::Rows { n } => {
                let same = self.items.iter().filter(|old| old.key == item.key);
                let after = |i: &Item| (i.time, i.arrival) > (item.time, arrival);
                let between = same.filter(|i| after(i) && i.time < watermark);
                between.count() + 1 < *n as usize
            }
            WindowKind::Tumbling(_) | WindowKind::Hopping { .. } | WindowKind::Session { .. } => {
                panic!("no line")
            }
        }
    }

    /// The line of an item.
    fn line(&self, at: usize) -> Line {
        let item = &self.items[at];
        let mut inside: Vec<&Item> = self.items.iter().filter(|i| i.key == item.key).collect();
        inside.sort_by_key(|i| (i.time, i.arrival));
        match &self.spec.kind {
            WindowKind::Sliding { size, bounds } => {
                inside
                    .retain(|i| i.time <= item.time && reaches(i.time, item.time, size.0, *bounds));
            }
            WindowKind::Rows { n } => {
                let place = inside.iter().position(|i| i.arrival == item.arrival);
                let after = place.expect("it is one of them") + 1;
                inside.truncate(after);
                inside.drain(..after.saturating_sub(*n as usize));
            }
            WindowKind::Tumbling(_) | WindowKind::Hopping { .. } | WindowKind::Session { .. } => {
                panic!("no line")
            }
        }
        Line {
            key: item.key,
            time: item.time,
            window: None,
            revision: 0,
            is_final: true,
            idle: false,
            values: inside.iter().flat_map(|i| i.values.clone()).collect(),
            only_final: false,
            gone: false,
        }
    }

    /// The lines to come before a time of their scope.
    fn lines_before(&mut self, time: impl Fn(&Item) -> i64) -> Vec<Line> {
        let due = |item: &Item| item.pending && item.time < time(item);
        let places = 0..self.items.len();
        let mut places: Vec<usize> = places.filter(|at| due(&self.items[*at])).collect();
        places.sort_by_key(|at| {
            let item = &self.items[*at];
            (item.time, item.key, item.arrival)
        });
        let line = |at: &usize| self.line(*at);
        let lines = places.iter().map(line).collect();
        places.iter().for_each(|at| self.items[*at].pending = false);
        lines
    }
}

/// All values of a window in the order in which figures take them.
fn values<'i>(items: impl Iterator<Item = &'i Item>) -> Vec<(i64, f64)> {
    let mut items: Vec<&Item> = items.collect();
    // Rows of another window by their names, readings as they came.
    items.sort_by_key(|i| (i.time, i.part, i.part.map_or(i.arrival, |_| 0)));
    items.iter().flat_map(|i| i.values.clone()).collect()
}

/// A figure of values in the order in which they came into the window.
pub(super) fn figure(aggregate: Aggregate, values: &[(i64, f64)]) -> Option<f64> {
    let only = || values.iter().map(|(_, x)| *x);
    match aggregate {
        Aggregate::Count => Some(values.len() as f64),
        Aggregate::Sum => (!values.is_empty()).then(|| only().sum()),
        Aggregate::Min => only().min_by(f64::total_cmp),
        Aggregate::Max => only().max_by(f64::total_cmp),
        // The first of the earliest, and the last of the latest.
        Aggregate::First => values.iter().min_by_key(|(time, _)| *time).map(|v| v.1),
        Aggregate::Last => values.iter().max_by_key(|(time, _)| *time).map(|v| v.1),
        Aggregate::Percentile(p) => {
            let mut sorted: Vec<f64> = only().collect();
            sorted.sort_by(f64::total_cmp);
            let k = (sorted.len() * usize::from(p)).div_ceil(100);
            sorted.get(k.checked_sub(1)?).copied()
        }
        Aggregate::Mean
        | Aggregate::Variance
        | Aggregate::Stddev
        | Aggregate::VariancePop
        | Aggregate::StddevPop => panic!("the model knows exact figures only"),
    }
}

/// Starts and ends of all windows over a time.
fn windows_over(kind: &WindowKind, time: i64) -> Vec<(i64, i64)> {
    let (size, hop, offset) = match kind {
        WindowKind::Tumbling(Grid::Fixed { size, offset }) => (size.0, size.0, offset.0),
        WindowKind::Hopping { size, hop, offset } => (size.0, hop.0, offset.0),
        WindowKind::Tumbling(Grid::Calendar { .. })
        | WindowKind::Sliding { .. }
        | WindowKind::Rows { .. }
        | WindowKind::Session { .. } => panic!("no grid"),
    };
    let near = (time - size..=time).filter(|s| (s - offset).rem_euclid(hop) == 0);
    near.filter(|s| *s + size > time)
        .map(|s| (s, s + size))
        .collect()
}

fn reaches(time: i64, at: i64, size: i64, bounds: Bounds) -> bool {
    match bounds {
        Bounds::HalfOpen => time > at.saturating_sub(size),
        Bounds::Closed => time >= at.saturating_sub(size),
    }
}
