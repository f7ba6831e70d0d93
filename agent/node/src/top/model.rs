//! What the live view shows, and what keys do to it.
//!
//! Holds always: what is shown is the last answer that was handed in, or, while paused,
//! the last one before. Bound: [`CHANNELS_MAX`] channels with [`SPARK_VALUES`] values
//! each, and [`FILTER_CHARS_MAX`] of a filter. Knows no clock, no terminal and no socket.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use forebay_core::units::EventTime;
use forebay_core::utc;
use serde_json::Value;

use crate::shell::spark::SPARK_VALUES;

/// Channels that are kept; of a gateway with more those that pass the filter come first.
pub const CHANNELS_MAX: usize = 20_000;
/// Channels whose rolling mean is asked for each time: as many as a screen has lines.
pub const ROLLING_MAX: usize = 120;
/// Characters of a filter.
pub const FILTER_CHARS_MAX: usize = 64;
/// Answers over which a rate is taken.
const RATE_ANSWERS: usize = 10;

/// Device (its uid) and channel.
pub type Key = (String, String);

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Press {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C, or nobody is there any more.
    Interrupt,
    /// The terminal has another size.
    Resize,
}

/// What the rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    #[default]
    Device,
    Channel,
    Value,
    Rate,
    Age,
}

impl Sort {
    const ALL: [Self; 5] = [
        Self::Device,
        Self::Channel,
        Self::Value,
        Self::Rate,
        Self::Age,
    ];

    /// Its name, as the head of the column.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Channel => "channel",
            Self::Value => "last",
            Self::Rate => "rate",
            Self::Age => "age",
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self);
        Self::ALL[(at.unwrap_or_default() + 1) % Self::ALL.len()]
    }
}

/// One channel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    pub device: String,
    pub channel: String,
    pub unit: String,
    pub value: Option<f64>,
    /// `ok`, or why there is no value.
    pub quality: String,
    /// Readings per second; `None` before there are two answers.
    pub rate: Option<f64>,
    /// Since the newest reading's time, us.
    pub age: Option<i64>,
    /// Rolling mean, where it was asked for.
    pub rolling: Option<f64>,
    /// Newest values, oldest first.
    pub recent: VecDeque<Option<f64>>,
    counts: VecDeque<(i64, u64)>,
}

impl Row {
    /// Takes a channel of a status; `at` is when it was asked, by any steady clock, us.
    fn take(&mut self, channel: &Value, at: i64, now: EventTime) {
        self.unit = text(channel, "unit");
        self.value = channel["value"].as_f64();
        self.quality = text(channel, "quality");
        let time = channel["time"].as_str().and_then(utc::parse);
        self.age = time.map(|time| now.0.saturating_sub(time.0));
        let count = channel["count"].as_u64().unwrap_or_default();
        let is_new = self.counts.back().is_none_or(|(_, last)| *last != count);
        if is_new {
            self.recent.push_back(self.value);
            if self.recent.len() > SPARK_VALUES {
                self.recent.pop_front();
            }
        }
        // An agent that was started again counts anew.
        if self.counts.back().is_some_and(|(_, last)| *last > count) {
            self.counts.clear();
        }
        self.counts.push_back((at, count));
        if self.counts.len() > RATE_ANSWERS {
            self.counts.pop_front();
        }
        self.rate = self.counts.front().and_then(|(first, from)| {
            let seconds = at.saturating_sub(*first) as f64 / 1e6;
            (seconds > 0.0).then(|| (count - from) as f64 / seconds)
        });
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Top {
    /// The newest answer that is shown.
    pub status: Value,
    /// Why there is none since.
    pub trouble: Option<String>,
    /// Lines of whoever shows this, above the keys.
    pub extra: Vec<String>,
    /// Length of the rolling window, as a person writes it.
    pub window: String,
    /// What stands first on the screen.
    pub title: String,
    pub sort: Sort,
    pub is_reversed: bool,
    pub filter: String,
    pub is_typing: bool,
    pub is_paused: bool,
    pub is_help: bool,
    /// The first row that is shown.
    pub scroll: usize,
    rows: BTreeMap<Key, Row>,
    /// Channels of the status that have no row.
    left_out: usize,
    /// Rows that a screen has room for.
    page: usize,
}

impl Top {
    #[must_use]
    pub fn new(title: &str, window: &str) -> Self {
        Self {
            title: title.to_owned(),
            window: window.to_owned(),
            page: ROLLING_MAX,
            ..Self::default()
        }
    }

    /// Takes a status that was asked `at`, by a steady clock in us; `now` is what the
    /// computer's clock says.
    pub fn on_status(&mut self, status: Value, at: i64, now: EventTime) {
        self.trouble = None;
        if self.is_paused {
            return;
        }
        let mut before = std::mem::take(&mut self.rows);
        self.left_out = 0;
        let filter = Filter::new(&self.filter);
        for (device, channel) in channels_of(&status, |texts| filter.passes(texts)) {
            if self.rows.len() >= CHANNELS_MAX {
                self.left_out += 1;
                continue;
            }
            let key = (text(device, "uid"), text(channel, "channel"));
            let mut row = before.remove(&key).unwrap_or_default();
            row.device = text(device, "device");
            row.channel.clone_from(&key.1);
            row.take(channel, at, now);
            self.rows.insert(key, row);
        }
        self.status = status;
    }

    /// Takes the rolling mean of a channel.
    pub fn on_rolling(&mut self, key: &Key, mean: Option<f64>) {
        if let Some(row) = self.rows.get_mut(key).filter(|_| !self.is_paused) {
            row.rolling = mean;
        }
    }

    /// Nobody answers.
    pub fn on_trouble(&mut self, text: String) {
        self.trouble = Some(text);
    }

    /// Does what a key asks for; `false` ends the view.
    pub fn on_press(&mut self, press: Press) -> bool {
        if self.is_typing && self.type_filter(press) {
            return true;
        }
        if self.is_help && press != Press::Interrupt && press != Press::Resize {
            // Any key closes it.
            self.is_help = false;
            return true;
        }
        match press {
            Press::Interrupt | Press::Char('q' | 'Q') => return false,
            Press::Char('s') => {
                self.sort = self.sort.next();
                self.scroll = 0;
            }
            Press::Char('r') => self.is_reversed = !self.is_reversed,
            Press::Char('p' | ' ') => self.is_paused = !self.is_paused,
            Press::Char('h' | '?') => self.is_help = true,
            Press::Char('/' | 'f') => self.is_typing = true,
            Press::Escape => self.set_filter(String::new()),
            Press::Up | Press::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            Press::Down | Press::Char('j') => self.scroll += 1,
            Press::PageUp => self.scroll = self.scroll.saturating_sub(self.page),
            Press::PageDown => self.scroll += self.page,
            Press::Home => self.scroll = 0,
            Press::End => self.scroll = usize::MAX,
            Press::Char(_) | Press::Enter | Press::Backspace | Press::Resize => {}
        }
        self.clamp();
        true
    }

    /// Whether the key was one of the filter.
    fn type_filter(&mut self, press: Press) -> bool {
        match press {
            Press::Char(c) => {
                if self.filter.chars().count() < FILTER_CHARS_MAX && !c.is_control() {
                    let longer = format!("{}{c}", self.filter);
                    self.set_filter(longer);
                }
            }
            Press::Backspace => {
                let mut shorter = self.filter.clone();
                shorter.pop();
                self.set_filter(shorter);
            }
            Press::Enter => self.is_typing = false,
            Press::Escape => {
                self.is_typing = false;
                self.set_filter(String::new());
            }
            Press::Up
            | Press::Down
            | Press::PageUp
            | Press::PageDown
            | Press::Home
            | Press::End
            | Press::Interrupt
            | Press::Resize => return false,
        }
        true
    }

    fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.scroll = 0;
    }

    /// A screen has room for so many rows.
    pub fn set_page(&mut self, rows: usize) {
        self.page = rows.max(1);
        self.clamp();
    }

    fn clamp(&mut self) {
        let last = self.shown().len().saturating_sub(self.page);
        self.scroll = self.scroll.min(last);
    }

    /// Rows that pass the filter, in order.
    #[must_use]
    pub fn shown(&self) -> Vec<(&Key, &Row)> {
        let filter = Filter::new(&self.filter);
        let passes = |row: &Row| filter.passes([&row.device, &row.channel, &row.unit]);
        let rows = self.rows.iter().filter(|(_, row)| passes(row));
        let mut rows: Vec<(&Key, &Row)> = rows.collect();
        rows.sort_by(|(_, a), (_, b)| {
            let order = self.order(a, b);
            if self.is_reversed {
                order.reverse()
            } else {
                order
            }
        });
        rows
    }

    fn order(&self, a: &Row, b: &Row) -> Ordering {
        let by_name = || (&a.device, &a.channel).cmp(&(&b.device, &b.channel));
        // The largest first: that is what somebody looks for.
        let large = |a: Option<f64>, b: Option<f64>| {
            let key = |value: Option<f64>| value.unwrap_or(f64::NEG_INFINITY);
            key(b).total_cmp(&key(a))
        };
        match self.sort {
            Sort::Device => by_name(),
            Sort::Channel => a.channel.cmp(&b.channel).then_with(by_name),
            Sort::Value => large(a.value, b.value).then_with(by_name),
            Sort::Rate => large(a.rate, b.rate).then_with(by_name),
            Sort::Age => b.age.cmp(&a.age).then_with(by_name),
        }
    }

    /// Channels on the screen: those whose rolling mean is worth asking for, with the
    /// device's name.
    #[must_use]
    pub fn on_screen(&self) -> Vec<(Key, String)> {
        let rows = self.shown().into_iter().skip(self.scroll);
        let rows = rows.take(self.page.min(ROLLING_MAX));
        rows.map(|(key, row)| (key.clone(), row.device.clone()))
            .collect()
    }

    /// How many channels are kept.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.rows.len()
    }

    /// How many there are beside them.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

/// A text that rows are looked for by, whatever its case.
struct Filter(String);

impl Filter {
    fn new(text: &str) -> Self {
        Self(text.to_lowercase())
    }

    fn passes(&self, texts: [&str; 3]) -> bool {
        let has = |text: &&str| text.to_lowercase().contains(&self.0);
        self.0.is_empty() || texts.iter().any(has)
    }
}

fn text(of: &Value, name: &str) -> String {
    of[name].as_str().unwrap_or_default().to_owned()
}

/// Channels of a status with their devices: those first whose texts pass.
fn channels_of(
    status: &Value,
    passes: impl Fn([&str; 3]) -> bool,
) -> impl Iterator<Item = (&Value, &Value)> {
    let devices = status["devices"].as_array().into_iter().flatten();
    let all = devices.flat_map(|device| {
        let channels = device["channels"].as_array().into_iter().flatten();
        channels.map(move |channel| (device, channel))
    });
    let (first, others): (Vec<_>, Vec<_>) = all.partition(|(device, channel)| {
        let texts = [&device["device"], &channel["channel"], &channel["unit"]];
        passes(texts.map(|text| text.as_str().unwrap_or_default()))
    });
    first.into_iter().chain(others)
}

#[cfg(test)]
mod tests;
