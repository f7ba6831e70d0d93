//! What the rules of windows say, as slow and obvious as can be: who is given what, and
//! the order of lines. What one window operator does: `model/operator.rs`.

mod operator;

use std::collections::BTreeMap;

use self::operator::{Item, Line, Operator};
use super::Given;
use super::times::{Scope, Times};
use crate::engine::config::{Aggregate, Emit, EngineConfig, Source, WindowKind};
use crate::engine::counters::Taken;
use crate::engine::row::{Cell, Kind, RowView, StreamId};

/// The columns that are in a key.
pub(super) type Key = (Option<&'static str>, Option<&'static str>);

/// What the rules say, by looking at everything again at every step.
pub(super) struct Model<'a> {
    config: &'a EngineConfig,
    times: Times<'a>,
    operators: Vec<Operator<'a>>,
    pub(super) out: Vec<String>,
    pub(super) late_partial: u64,
}

type Watermarks = BTreeMap<Scope, i64>;

impl<'a> Model<'a> {
    pub(super) fn new(config: &'a EngineConfig) -> Self {
        let operators = config.windows.iter();
        Self {
            config,
            times: Times::new(&config.time),
            operators: operators
                .map(|spec| Operator::new(spec, config.time.allowed_lateness.0))
                .collect(),
            out: Vec::new(),
            late_partial: 0,
        }
    }

    pub(super) fn reading(&mut self, given: Given) {
        let (device, channel, time, value) = given;
        self.times.meet(device);
        self.register(device, channel);
        if self.times.is_future(time) {
            self.out
                .push(format!("quarantine {device} {channel} {time}"));
            return;
        }
        let before = self.times.watermarks();
        self.times.hear(device, time);
        let mut verdicts = Vec::new();
        for at in 0..self.operators.len() {
            if self.config.windows[at].from == Source::Readings {
                let spec = &self.config.windows[at];
                let takes = spec.channels.as_ref();
                if takes.is_none_or(|channels| channels.iter().any(|c| c == channel)) {
                    let item = Item::reading(self.operators[at].key(device, channel), time, value);
                    let scope = item.key.0;
                    verdicts.push(self.operators[at].take(item, before[&scope]));
                }
            }
            self.turn(at, &before);
        }
        verdicts.retain(|taken| *taken != Taken::Nothing);
        let none = verdicts.iter().filter(|v| **v == Taken::None).count();
        let late_all = none > 0 && none == verdicts.len();
        let partly = verdicts.iter().any(|v| *v != Taken::All);
        self.late_partial += u64::from(partly && !late_all);
        self.end_step();
        if late_all {
            self.out.push(format!("late {device} {channel} {time}"));
        }
    }

    /// What an operator does in a step beside taking a reading: it takes the rows of its
    /// source as if the watermarks had not moved, then they have.
    fn turn(&mut self, at: usize, before: &Watermarks) {
        let spec = &self.config.windows[at];
        let (before, after) = (self.passed_on(at, before), self.times.watermarks());
        let after = self.passed_on(at, &after);
        if let Source::Window(from) = spec.from {
            let from = usize::from(from);
            let lines = self.operators[from].out.clone();
            // That a window is final changes no figure.
            for line in lines.into_iter().filter(|line| !line.only_final) {
                let takes = spec.channels.as_ref().zip(line.key.1);
                if takes.is_some_and(|(channels, one)| channels.iter().all(|c| c != one)) {
                    continue;
                }
                let slot = self.operators[from].slot(line.key);
                let item = self.operators[at].fed(&line, slot);
                let scope = item.key.0;
                let taken = self.operators[at].take(item, before[&scope]);
                self.operators[at].late_derived += u64::from(taken == Taken::None);
            }
        }
        self.operators[at].advance(&after);
        self.put_in_order(at);
    }

    /// Watermarks as sources pass them on: to lines they are behind by the longest that
    /// what they read, directly or not, may hold rows back to write only what is final.
    fn passed_on(&self, at: usize, watermarks: &Watermarks) -> Watermarks {
        let mut chain = vec![&self.config.windows[at]];
        while let Source::Window(source) = chain[chain.len() - 1].from {
            chain.push(&self.config.windows[usize::from(source)]);
        }
        let (mut lag, mut held) = (0, 0);
        for window in chain.iter().rev() {
            let is_line = matches!(
                window.kind,
                WindowKind::Sliding { .. } | WindowKind::Rows { .. }
            );
            if is_line {
                lag = held;
            }
            if window.emit == Emit::FinalOnly {
                held = lag + self.config.time.allowed_lateness.0;
            }
        }
        let passed = |at: i64| {
            if at == i64::MAX {
                at
            } else {
                at.saturating_sub(lag)
            }
        };
        watermarks
            .iter()
            .map(|(scope, at)| (*scope, passed(*at)))
            .collect()
    }

    /// Lines of one step go by end, start and key.
    fn put_in_order(&mut self, at: usize) {
        if self.config.windows[at].from != Source::Readings {
            let of = |line: &Line| line.window.map_or((line.time, line.time), |(s, e)| (e, s));
            self.operators[at]
                .out
                .sort_by_key(|line| (of(line), line.key));
        }
    }

    /// Slots are numbered in order of first sight of a series.
    fn register(&mut self, device: &'static str, channel: &'static str) {
        for at in 0..self.operators.len() {
            let takes = |at: usize| {
                let channels = self.config.windows[at].channels.as_ref();
                channels.is_none_or(|channels| channels.iter().any(|c| c == channel))
            };
            let (mut comes, mut from) = (takes(at), self.config.windows[at].from);
            while let Source::Window(source) = from {
                comes &= takes(usize::from(source));
                from = self.config.windows[usize::from(source)].from;
            }
            if comes {
                let key = self.operators[at].key(device, channel);
                self.operators[at].slot(key);
            }
        }
    }

    fn end_step(&mut self) {
        for (at, operator) in self.operators.iter_mut().enumerate() {
            let lines = std::mem::take(&mut operator.out);
            let aggregates = &self.config.windows[at].aggregates;
            let words = lines.iter().map(|line| words(at, aggregates, line));
            self.out.extend(words);
        }
    }

    pub(super) fn watermark_line(&mut self, device: Option<&'static str>, time: i64) {
        if let Some(name) = device {
            self.times.meet(name);
        }
        let before = self.times.watermarks();
        self.times.raise(device, time);
        for at in 0..self.operators.len() {
            self.turn(at, &before);
        }
        self.end_step();
    }

    pub(super) fn clock(&mut self, time: i64) {
        let before = self.times.watermarks();
        let silent = self.times.clock(time);
        for at in 0..self.operators.len() {
            self.turn(at, &before);
            self.operators[at].idle(&silent);
            self.put_in_order(at);
        }
        self.end_step();
    }

    pub(super) fn finish(&mut self) {
        self.watermark_line(None, i64::MAX);
    }

    pub(super) fn late_derived(&self) -> u64 {
        self.operators.iter().map(|op| op.late_derived).sum()
    }
}

fn key_words((device, channel): Key) -> String {
    format!("{} {}", device.unwrap_or("*"), channel.unwrap_or("*"))
}

fn words(at: usize, aggregates: &[Aggregate], line: &Line) -> String {
    let key = key_words(line.key);
    let figures = figures(aggregates, &line.values);
    match line.window {
        None => format!("{at} {key} @{} {figures}", line.time),
        Some((start, end)) => format!(
            "{at} {key} {start} {end} r{} {} {} {figures}",
            line.revision, line.is_final, line.idle
        ),
    }
}

/// Figures of values in the order in which they came into the window.
fn figures(aggregates: &[Aggregate], values: &[(i64, f64)]) -> String {
    let words = aggregates.iter().map(|aggregate| {
        if *aggregate == Aggregate::Count {
            return values.len().to_string();
        }
        let figure = operator::figure(*aggregate, values);
        figure.map_or("null".to_owned(), |x| format!("{x:?}"))
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A row in the model's words.
pub(super) fn in_words(row: RowView<'_>) -> String {
    let (device, channel) = (row.device().unwrap_or("*"), row.channel().unwrap_or("*"));
    let cell = |cell: Cell| match cell {
        Cell::Null => "null".to_owned(),
        Cell::Count(n) => n.to_string(),
        Cell::Number(x) => format!("{x:?}"),
    };
    let cells: Vec<String> = row.cells().map(|(_, c)| cell(c)).collect();
    let cells = cells.join(" ");
    let time = row.time().0;
    let StreamId::Window(at) = row.stream() else {
        return format!("{} {device} {channel} {time}", row.stream_name());
    };
    let row = row.row;
    match row.kind {
        Kind::Window => format!(
            "{at} {device} {channel} {} {} r{} {} {} {cells}",
            row.start, row.end, row.revision, row.is_final, row.idle
        ),
        Kind::Line => format!("{at} {device} {channel} @{time} {cells}"),
        Kind::Aside(_) | Kind::Joined => String::new(),
    }
}
