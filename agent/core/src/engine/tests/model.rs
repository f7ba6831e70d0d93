//! What the rules of time say, as slow and obvious as can be.

use std::collections::BTreeMap;

use super::Given;
use crate::engine::config::{Bounds, EngineConfig, Grid, WindowKind};
use crate::engine::row::{Cell, Kind, RowView, StreamId};
use crate::units::Span;

/// Starts of all windows over a time.
fn starts(kind: &WindowKind, time: i64) -> Vec<i64> {
    let (size, hop, offset) = match kind {
        WindowKind::Tumbling(Grid::Fixed { size, offset }) => (size.0, size.0, offset.0),
        WindowKind::Hopping { size, hop, offset } => (size.0, hop.0, offset.0),
        WindowKind::Tumbling(Grid::Calendar { .. })
        | WindowKind::Sliding { .. }
        | WindowKind::Rows { .. }
        | WindowKind::Session { .. } => return Vec::new(),
    };
    let near = (time - size..=time).filter(|s| (s - offset).rem_euclid(hop) == 0);
    near.filter(|s| *s + size > time).collect()
}

fn size_of(kind: &WindowKind) -> i64 {
    match kind {
        WindowKind::Tumbling(Grid::Fixed { size, .. })
        | WindowKind::Hopping { size, .. }
        | WindowKind::Sliding { size, .. } => size.0,
        WindowKind::Tumbling(Grid::Calendar { .. })
        | WindowKind::Rows { .. }
        | WindowKind::Session { .. } => 0,
    }
}

/// What the rules say, by looking at everything again at every step.
pub(super) struct Model<'a> {
    config: &'a EngineConfig,
    /// Per device: largest time seen.
    newest: BTreeMap<&'static str, i64>,
    /// Per operator: accepted readings in order of arrival, with the starts of the
    /// windows that took them.
    held: Vec<Vec<(Given, Vec<i64>)>>,
    /// Per operator: lines that are out, by (end, start, device, channel) with revisions.
    told: Vec<BTreeMap<Key, u32>>,
    /// Per operator: rolling lines to come.
    pending: Vec<Vec<(i64, &'static str, &'static str)>>,
    pub(super) out: Vec<String>,
    pub(super) late_partial: u64,
}

type Key = (i64, i64, &'static str, &'static str);

impl<'a> Model<'a> {
    pub(super) fn new(config: &'a EngineConfig) -> Self {
        let n = config.windows.len();
        Self {
            config,
            newest: BTreeMap::new(),
            held: vec![Vec::new(); n],
            told: vec![BTreeMap::new(); n],
            pending: vec![Vec::new(); n],
            out: Vec::new(),
            late_partial: 0,
        }
    }

    fn watermark(&self, device: &str) -> i64 {
        let newest = self.newest.get(device).copied().unwrap_or(i64::MIN);
        newest.saturating_sub(self.config.time.out_of_order.0)
    }

    pub(super) fn reading(&mut self, given: Given) {
        let (device, channel, time, _) = given;
        let before = self.watermark(device);
        let newest = self.newest.entry(device).or_insert(time);
        *newest = time.max(*newest);
        let after = self.watermark(device);
        let (mut refused, mut takers, mut partly) = (0, 0, false);
        for (at, spec) in self.config.windows.iter().enumerate() {
            match spec.kind.clone() {
                WindowKind::Tumbling { .. } | WindowKind::Hopping { .. } => {
                    let ends = |s: &i64| s + size_of(&spec.kind);
                    let lateness = self.config.time.allowed_lateness.0;
                    let mut over = starts(&spec.kind, time);
                    takers += usize::from(!over.is_empty());
                    let all = over.len();
                    over.retain(|s| ends(s) + lateness > before);
                    refused += usize::from(over.is_empty() && all > 0);
                    partly |= over.len() < all;
                    if !over.is_empty() {
                        self.held[at].push((given, over.clone()));
                    }
                    for start in over.iter().filter(|s| ends(s) <= before) {
                        self.tell(at, (ends(start), *start, device, channel), before);
                    }
                }
                WindowKind::Sliding { size, bounds } => {
                    takers += 1;
                    partly |= time < before;
                    // Some line at before or later would reach back to it.
                    if !reaches(time, before.max(time), size, bounds) {
                        refused += 1;
                    } else {
                        self.held[at].push((given, Vec::new()));
                        if time >= before {
                            self.pending[at].push((time, device, channel));
                        }
                    }
                }
                WindowKind::Rows { .. } | WindowKind::Session { .. } => {}
            }
            self.advance(at, Some(device), after);
        }
        self.late_partial += u64::from(partly && refused < takers);
        if refused > 0 && refused == takers {
            self.out.push(format!("late {device} {channel} {time}"));
        }
    }

    fn advance(&mut self, at: usize, device: Option<&str>, watermark: i64) {
        let mine = |d: &str| device.is_none_or(|one| one == d);
        match self.config.windows[at].kind.clone() {
            kind @ (WindowKind::Tumbling { .. } | WindowKind::Hopping { .. }) => {
                let mut due: Vec<Key> = Vec::new();
                for ((d, channel, ..), over) in &self.held[at] {
                    for start in over {
                        let key = (start + size_of(&kind), *start, *d, *channel);
                        if mine(d) && key.0 <= watermark && !self.told[at].contains_key(&key) {
                            due.push(key);
                        }
                    }
                }
                due.sort_unstable();
                due.dedup();
                due.into_iter()
                    .for_each(|key| self.tell(at, key, watermark));
            }
            WindowKind::Sliding { size, bounds } => {
                let due = |p: &(i64, &str, &str)| mine(p.1) && p.0 < watermark;
                let mut now: Vec<_> = self.pending[at].iter().copied().filter(due).collect();
                self.pending[at].retain(|p| !due(p));
                now.sort_unstable();
                for (time, device, channel) in now {
                    let inside = |g: &&Given| {
                        g.0 == device
                            && g.1 == channel
                            && g.2 <= time
                            && reaches(g.2, time, size, bounds)
                    };
                    let held = self.held[at].iter().map(|(given, _)| given);
                    let figures = figures(held.filter(inside));
                    self.out
                        .push(format!("{at} {device} {channel} {time} {figures}"));
                }
            }
            WindowKind::Rows { .. } | WindowKind::Session { .. } => {}
        }
    }

    fn tell(&mut self, at: usize, key: Key, watermark: i64) {
        let (end, start, device, channel) = key;
        let inside = |(g, over): &&(Given, Vec<i64>)| {
            g.0 == device && g.1 == channel && over.contains(&start)
        };
        let figures = figures(self.held[at].iter().filter(inside).map(|(given, _)| given));
        let revision = self.told[at]
            .entry(key)
            .and_modify(|r| *r += 1)
            .or_insert(0);
        let is_final = end.saturating_add(self.config.time.allowed_lateness.0) <= watermark;
        self.out.push(format!(
            "{at} {device} {channel} {start} {end} {revision} {is_final} {figures}"
        ));
    }

    pub(super) fn finish(&mut self) {
        for at in 0..self.held.len() {
            self.advance(at, None, i64::MAX);
        }
    }
}

fn reaches(time: i64, at: i64, size: Span, bounds: Bounds) -> bool {
    match bounds {
        Bounds::HalfOpen => time > at - size.0,
        Bounds::Closed => time >= at - size.0,
    }
}

fn figures<'a>(readings: impl Iterator<Item = &'a Given>) -> String {
    let mut with: Vec<(i64, f64)> = readings
        .filter_map(|g| Some((g.2, f64::from(g.3?))))
        .collect();
    with.sort_by_key(|(time, _)| *time);
    let values = || with.iter().map(|(_, x)| *x);
    let number = |x: Option<f64>| x.map_or("null".to_owned(), |x| format!("{x:?}"));
    let sum = (!with.is_empty()).then(|| values().sum());
    format!(
        "{} {} {} {} {} {}",
        with.len(),
        number(sum),
        number(values().min_by(f64::total_cmp)),
        number(values().max_by(f64::total_cmp)),
        number(values().next()),
        number(values().next_back()),
    )
}

/// A row in the model's words.
pub(super) fn in_words(row: RowView<'_>) -> String {
    let device = row.device().unwrap_or_default();
    let channel = row.channel().unwrap_or_default();
    let cell = |cell: Cell| match cell {
        Cell::Null => "null".to_owned(),
        Cell::Count(n) => n.to_string(),
        Cell::Number(x) => format!("{x:?}"),
    };
    let cells: Vec<String> = row.cells().map(|(_, c)| cell(c)).collect();
    let cells = cells.join(" ");
    let StreamId::Window(at) = row.stream() else {
        return format!("late {device} {channel} {}", row.time().0);
    };
    let of = row.row;
    match of.kind {
        Kind::Window => format!(
            "{at} {device} {channel} {} {} {} {} {cells}",
            of.start, of.end, of.revision, of.is_final
        ),
        Kind::Line => format!("{at} {device} {channel} {} {cells}", of.end),
        Kind::Aside(_) => String::new(),
    }
}
