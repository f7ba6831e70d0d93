//! The three kinds of joins, each over all that ever came.

use std::collections::BTreeMap;

use super::{Reading, World};
use crate::engine::config::{JoinColumn, JoinKind, JoinSource, JoinSpec, JoinType};
use crate::engine::filter::Filter;
use crate::engine::tests::joins::Change;
use crate::json::{write_number, write_text};
use crate::units::EventTime;
use crate::utc;

/// A line with what puts it in order within its step.
#[derive(Debug, Clone)]
pub(in crate::engine::tests::joins) struct Line {
    order: (i64, String, Vec<(u8, i64)>, u8),
    text: String,
}

impl Line {
    pub(super) fn text(self) -> String {
        self.text
    }
}

/// A reading on one side of an interval join.
#[derive(Debug, Clone)]
struct Item {
    reading: Reading,
    is_left: bool,
    matched: bool,
    told: bool,
}

/// A reading that waits for a table.
#[derive(Debug, Clone)]
struct Wait {
    reading: Reading,
    arrived: Option<i64>,
}

type View = BTreeMap<(u8, &'static str), (Option<&'static str>, Option<&'static str>, i64)>;

pub(super) struct Join<'a> {
    spec: &'a JoinSpec,
    items: Vec<Item>,
    waits: Vec<Wait>,
    view: View,
    lines: Vec<Line>,
}

impl<'a> Join<'a> {
    pub(super) fn new(spec: &'a JoinSpec) -> Self {
        Self {
            spec,
            items: Vec::new(),
            waits: Vec::new(),
            view: View::new(),
            lines: Vec::new(),
        }
    }

    fn has(&self, column: JoinColumn) -> bool {
        self.spec.on.contains(&column)
    }

    fn key(&self, reading: Reading) -> String {
        let text = |column: &JoinColumn| match column {
            JoinColumn::Device => reading.device,
            JoinColumn::Channel | JoinColumn::Column(_) => reading.channel,
        };
        match &self.spec.on[..] {
            [one] => text(one).to_owned(),
            all => format!("{:?}", all.iter().map(text).collect::<Vec<_>>()).replace(", ", ","),
        }
    }

    fn table(&self, left: bool) -> usize {
        let from = if left {
            self.spec.left.from
        } else {
            self.spec.right.from
        };
        match from {
            JoinSource::Table(table) => usize::from(table),
            JoinSource::Readings | JoinSource::Window(_) => panic!("no table"),
        }
    }

    /// Whether it came late; nothing where it is not of this join.
    pub(super) fn reading(&mut self, reading: Reading, world: &World<'_>) -> Option<bool> {
        let of_side = |filter: &Option<Filter>| {
            let value = reading.value.map(f64::from);
            filter
                .as_ref()
                .is_none_or(|f| f.takes(reading.device, reading.channel, value))
        };
        let left = of_side(&self.spec.left.filter);
        match self.spec.kind {
            JoinKind::Table => None,
            JoinKind::Lookup { .. } => {
                if !left {
                    return None;
                }
                if reading.time < world.times.watermark(Some(reading.device)) {
                    return Some(true);
                }
                let wait = Wait {
                    reading,
                    arrived: world.times.now,
                };
                match reading.time < world.known_until(self.table(false)) {
                    true => self.look_up(&wait, false, world),
                    false => self.waits.push(wait),
                }
                Some(false)
            }
            JoinKind::Interval { .. } => {
                let right = of_side(&self.spec.right.filter);
                if !left && !right {
                    return None;
                }
                if reading.time < world.times.watermark(self.scope(reading)) {
                    return Some(true);
                }
                for is_left in [true, false] {
                    if if is_left { left } else { right } {
                        self.pair(reading, is_left);
                    }
                }
                Some(false)
            }
        }
    }

    fn scope(&self, reading: Reading) -> Option<&'static str> {
        self.has(JoinColumn::Device).then_some(reading.device)
    }

    fn is_pair(&self, left: i64, right: i64) -> bool {
        let JoinKind::Interval { lower, upper } = self.spec.kind else {
            return false;
        };
        left + lower.0 <= right && right <= left + upper.0
    }

    fn pair(&mut self, reading: Reading, is_left: bool) {
        let mut item = Item {
            reading,
            is_left,
            matched: false,
            told: false,
        };
        let key = self.key(reading);
        let mut pairs = Vec::new();
        for at in 0..self.items.len() {
            let other = &self.items[at];
            let (left, right) = match is_left {
                true => (reading, other.reading),
                false => (other.reading, reading),
            };
            let fits = self.is_pair(left.time, right.time) && self.key(other.reading) == key;
            if other.is_left != is_left && !other.told && fits {
                self.items[at].matched = true;
                item.matched = true;
                pairs.push((left, right));
            }
        }
        self.items.push(item);
        for (left, right) in pairs {
            self.tell(Some(left), Some(right), "");
        }
    }

    fn tell(&mut self, left: Option<Reading>, right: Option<Reading>, mark: &str) {
        let time = left
            .iter()
            .chain(&right)
            .map(|r| r.time)
            .max()
            .expect("one of them");
        let key = self.key(left.or(right).expect("one of them"));
        let place = |of: Option<Reading>| of.map_or((1, 0), |r| (0, r.time));
        let shown = |of: Option<Reading>| of.map_or("null".to_owned(), reading_json);
        self.lines.push(Line {
            order: (time, key.clone(), vec![place(left), place(right)], 0),
            text: line(self.spec, time, &key, mark, (&shown(left), &shown(right))),
        });
    }

    fn look_up(&mut self, wait: &Wait, is_stale: bool, world: &World<'_>) {
        let reading = wait.reading;
        let key = self.key(reading);
        let row = world.row(self.table(false), &key, reading.time);
        if row.is_none() && self.spec.join_type == JoinType::Inner {
            return;
        }
        let mark = if is_stale { ",\"stale\":true" } else { "" };
        let shown = (reading_json(reading), row.map_or("null", |(row, _)| row));
        let names = format!("{} {}", reading.device, reading.channel);
        self.lines.push(Line {
            order: (reading.time, names, Vec::new(), u8::from(is_stale)),
            text: line(self.spec, reading.time, &key, mark, (&shown.0, shown.1)),
        });
    }

    /// All pairs of the newest rows.
    fn view(&self, world: &World<'_>) -> View {
        let (left, right) = (self.table(true), self.table(false));
        let column = match &self.spec.on[..] {
            [JoinColumn::Column(name)] => name.as_str(),
            _ => panic!("one column"),
        };
        let mut view = View::new();
        let mut named = Vec::new();
        for key in world.keys(left) {
            let Some((row, from)) = world.row(left, key, i64::MAX) else {
                continue;
            };
            let to = if column == "id" {
                Some(key.to_owned())
            } else {
                member(row, column)
            };
            let found = to.as_ref().and_then(|to| world.row(right, to, i64::MAX));
            named.extend(to);
            if let Some((other, of_right)) = found {
                view.insert((0, key), (Some(row), Some(other), from.max(of_right)));
            } else if self.spec.join_type != JoinType::Inner {
                view.insert((0, key), (Some(row), None, from));
            }
        }
        if self.spec.join_type == JoinType::Full {
            for key in world.keys(right) {
                let row = world.row(right, key, i64::MAX);
                if let Some((row, from)) = row.filter(|_| !named.iter().any(|n| n == key)) {
                    view.insert((1, key), (None, Some(row), from));
                }
            }
        }
        view
    }

    pub(super) fn change(&mut self, change: &Change, world: &World<'_>) {
        if self.spec.kind != JoinKind::Table {
            return;
        }
        let (before, after) = (std::mem::take(&mut self.view), self.view(world));
        let rows = |of: Option<&(Option<&'static str>, Option<&'static str>, i64)>| {
            of.map(|(left, right, _)| (*left, *right))
        };
        let keys = before
            .keys()
            .chain(after.keys().filter(|k| !before.contains_key(k)));
        for of in keys {
            if rows(before.get(of)) == rows(after.get(of)) {
                continue;
            }
            for (nth, diff, at) in [(0, "-1", before.get(of)), (1, "1", after.get(of))] {
                let Some((left, right, time)) = at else {
                    continue;
                };
                let shown = (left.unwrap_or("null"), right.unwrap_or("null"));
                let mark = format!(",\"diff\":{diff}");
                self.lines.push(Line {
                    order: (0, of.1.to_owned(), vec![(nth, 0)], of.0),
                    text: line(self.spec, change.time.max(*time), of.1, &mark, shown),
                });
            }
        }
        self.view = after;
    }

    /// Whether nothing to come can be in a pair with an item.
    fn is_over(&self, item: &Item, world: &World<'_>) -> bool {
        let JoinKind::Interval { lower, upper } = self.spec.kind else {
            return true;
        };
        let watermark = world.times.watermark(self.scope(item.reading));
        let last = match item.is_left {
            true => item.reading.time + upper.0,
            false => item.reading.time - lower.0,
        };
        watermark > last
    }

    /// What is to be told at the end of a step, when these scopes have fallen silent.
    pub(super) fn settle(&mut self, world: &World<'_>, silent: &[Option<&'static str>]) {
        for at in 0..self.items.len() {
            let item = &self.items[at];
            let is_kept = match self.spec.join_type {
                JoinType::Inner => false,
                JoinType::Left => item.is_left,
                JoinType::Full => true,
            };
            if !is_kept || item.matched || item.told {
                continue;
            }
            let is_idle = silent.contains(&self.scope(item.reading));
            let mark = match (self.is_over(item, world), is_idle) {
                (true, _) => "",
                (false, true) => ",\"reason\":\"idle\"",
                (false, false) => continue,
            };
            let (reading, is_left) = (item.reading, item.is_left);
            self.items[at].told = true;
            match is_left {
                true => self.tell(Some(reading), None, mark),
                false => self.tell(None, Some(reading), mark),
            }
        }
        let JoinKind::Lookup { wait } = self.spec.kind else {
            return;
        };
        let known_until = world.known_until(self.table(false));
        for mut waiting in std::mem::take(&mut self.waits) {
            waiting.arrived = waiting.arrived.or(world.times.now);
            let is_known = waiting.reading.time < known_until || known_until == i64::MAX;
            let waited = |wait: i64| {
                world
                    .times
                    .now
                    .zip(waiting.arrived)
                    .is_some_and(|(now, at)| at + wait <= now)
            };
            if is_known || wait.is_some_and(|wait| waited(wait.0)) {
                self.look_up(&waiting, !is_known, world);
            } else {
                self.waits.push(waiting);
            }
        }
    }

    /// What this step has told, in order.
    pub(super) fn take_lines(&mut self) -> Vec<Line> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.sort_by(|a, b| a.order.cmp(&b.order));
        lines
    }

    pub(super) fn held(&self, world: &World<'_>) -> u64 {
        let items = self
            .items
            .iter()
            .filter(|i| !i.told && !self.is_over(i, world));
        (items.count() + self.waits.len()) as u64
    }
}

fn line(spec: &JoinSpec, time: i64, key: &str, mark: &str, sides: (&str, &str)) -> String {
    let mut out = format!("{{\"stream\":\"{}\",\"time\":", spec.name).into_bytes();
    utc::write_json(EventTime(time), &mut out);
    out.extend_from_slice(b",\"key\":");
    write_text(key, &mut out);
    let out = String::from_utf8(out).expect("JSON is UTF-8");
    format!("{out}{mark},\"left\":{},\"right\":{}}}", sides.0, sides.1)
}

pub(super) fn reading_json(reading: Reading) -> String {
    let (device, channel) = (reading.device, reading.channel);
    let mut out =
        format!("{{\"device\":\"{device}\",\"channel\":\"{channel}\",\"time\":").into_bytes();
    utc::write_json(EventTime(reading.time), &mut out);
    out.extend_from_slice(b",\"value\":");
    match reading.value {
        Some(value) => write_number(f64::from(value), &mut out),
        None => out.extend_from_slice(b"null"),
    }
    out.push(b'}');
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// A text of a row, found without a reader of JSON.
fn member(row: &str, column: &str) -> Option<String> {
    let (_, rest) = row.split_once(&format!("\"{column}\":\""))?;
    rest.split_once('"').map(|(text, _)| text.to_owned())
}
