//! Tumbling windows as columns: from the rows that a window of the config has written, or
//! from the readings.
//!
//! Holds always: of several rows of one window the one with the largest revision counts;
//! windows are in order of start, and those that may still change come last. Bound:
//! [`READ_ROWS_MAX`] windows. Knows no log.

use std::collections::BTreeMap;

use super::figures::Figures;
use super::line::{self, WindowLine};
use super::packed;
use super::plan::PlanWindow;
use super::scan::RowFold;
use crate::engine::config::Aggregate;
use crate::limits::READ_ROWS_MAX;
use crate::live::ChannelKey;
use crate::units::{EventTime, Span};
use crate::utc::TimeReader;

/// Where the figures of a rollup come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RollupSource {
    /// The rows of this stream, and readings where it has none yet.
    Stream(String),
    Readings,
}

impl RollupSource {
    /// As answers name it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Stream(name) => name,
            Self::Readings => "readings",
        }
    }
}

/// Windows of one channel with a reading in them, in order of start. A figure that there
/// is not is NaN.
#[derive(Debug, Clone, PartialEq)]
pub struct RollupColumns {
    pub key: ChannelKey,
    /// us since 1970; ends are after the last microsecond.
    pub starts: Vec<i64>,
    pub ends: Vec<i64>,
    /// Readings with a value.
    pub count: Vec<u64>,
    pub mean: Vec<f64>,
    pub min: Vec<f64>,
    pub max: Vec<f64>,
    pub sum: Vec<f64>,
    /// What else rows say, by name.
    pub others: Vec<(String, Vec<f64>)>,
    /// Windows from this one on may still change.
    pub preliminary_from: usize,
}

impl RollupColumns {
    #[must_use]
    pub fn new(key: ChannelKey) -> Self {
        Self {
            key,
            starts: Vec::new(),
            ends: Vec::new(),
            count: Vec::new(),
            mean: Vec::new(),
            min: Vec::new(),
            max: Vec::new(),
            sum: Vec::new(),
            others: Vec::new(),
            preliminary_from: 0,
        }
    }

    /// Windows in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Leaves the first `len` windows.
    pub fn truncate(&mut self, len: usize) {
        self.starts.truncate(len);
        self.ends.truncate(len);
        self.count.truncate(len);
        let named = [&mut self.mean, &mut self.min, &mut self.max, &mut self.sum];
        let others = self.others.iter_mut().map(|(_, column)| column);
        for column in named.into_iter().chain(others) {
            column.truncate(len);
        }
        self.preliminary_from = self.preliminary_from.min(len);
    }

    /// Leaves the windows behind the first `count`.
    pub fn skip(&mut self, count: usize) {
        let count = count.min(self.len());
        self.starts.drain(..count);
        self.ends.drain(..count);
        self.count.drain(..count);
        let named = [&mut self.mean, &mut self.min, &mut self.max, &mut self.sum];
        let others = self.others.iter_mut().map(|(_, column)| column);
        for column in named.into_iter().chain(others) {
            column.drain(..count);
        }
        self.preliminary_from = self.preliminary_from.saturating_sub(count);
    }

    fn push(&mut self, start: EventTime, size: Span, figures: &Figures) {
        let values = figures.values();
        let or_nan = |value: Option<f64>| value.unwrap_or(f64::NAN);
        self.starts.push(start.0);
        self.ends.push(start.0.saturating_add(size.0));
        self.count.push(values.count);
        self.mean.push(or_nan(values.mean));
        self.min.push(or_nan(values.min));
        self.max.push(or_nan(values.max));
        self.sum.push(or_nan(values.sum));
        for (_, column) in &mut self.others {
            column.push(f64::NAN);
        }
    }
}

/// The columns of windows over readings: those that begin before `watermark` minus their
/// size are over, all others are preliminary.
#[must_use]
pub fn rollup_of(
    key: ChannelKey,
    windows: &[(EventTime, Figures)],
    size: Span,
    watermark: EventTime,
) -> RollupColumns {
    let mut out = RollupColumns::new(key);
    out.append(windows, size, |end| end <= watermark);
    out
}

impl RollupColumns {
    /// Appends windows over readings that begin behind all that are there; `is_final` says
    /// by their end which cannot change any more.
    pub fn append(
        &mut self,
        windows: &[(EventTime, Figures)],
        size: Span,
        is_final: impl Fn(EventTime) -> bool,
    ) {
        for (start, figures) in windows {
            let end = EventTime(start.0.saturating_add(size.0));
            let all_before = self.preliminary_from == self.len();
            self.push(*start, size, figures);
            if all_before && is_final(end) {
                self.preliminary_from = self.len();
            }
        }
    }
}

/// The newest row of each window.
#[derive(Debug)]
struct Rows {
    prefix: Vec<u8>,
    /// In order of start.
    lines: Vec<(i64, u64)>,
    ends: Vec<i64>,
    /// Figures of each line, one after the other.
    figures: Vec<f64>,
}

/// See the module: takes the rows of some channels out of a stream.
#[derive(Debug)]
pub struct RollupFold {
    range: (EventTime, EventTime),
    /// By the lines' prefixes.
    places: BTreeMap<Vec<u8>, usize>,
    keys: Vec<ChannelKey>,
    rows: Vec<Rows>,
    figures: Vec<Aggregate>,
    labels: Vec<Vec<u8>>,
    times: TimeReader,
    scratch: Vec<f64>,
    count: usize,
    /// Lines of these channels that do not read, and windows beyond the bound.
    unread: u64,
    too_much: bool,
}

impl RollupFold {
    /// Takes rows of windows that end in `range`, half-open, and one behind.
    #[must_use]
    pub fn new(keys: Vec<ChannelKey>, window: &PlanWindow, range: (EventTime, EventTime)) -> Self {
        let prefixes: Vec<_> = keys
            .iter()
            .map(|key| line::prefix(&window.name, key))
            .collect();
        let rows = prefixes.iter().map(|prefix| Rows {
            prefix: prefix.clone(),
            lines: Vec::new(),
            ends: Vec::new(),
            figures: Vec::new(),
        });
        Self {
            range,
            rows: rows.collect(),
            places: prefixes.into_iter().zip(0..).collect(),
            keys,
            labels: line::labels(&window.figures),
            figures: window.figures.clone(),
            times: TimeReader::default(),
            scratch: Vec::new(),
            count: 0,
            unread: 0,
            too_much: false,
        }
    }

    /// Columns per key in the order of the keys; `None` where there are more windows than
    /// an answer takes.
    #[must_use]
    pub fn finish(self) -> Option<Vec<RollupColumns>> {
        let figures = &self.figures;
        let columns = self.keys.into_iter().zip(self.rows);
        let columns = columns.map(|(key, rows)| rows.columns(key, figures));
        (!self.too_much).then(|| columns.collect())
    }

    /// Lines of these channels that did not read.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.unread
    }

    fn place(&self, line: &[u8]) -> Option<usize> {
        if let [one] = &*self.rows {
            return line.starts_with(&one.prefix).then_some(0);
        }
        self.places.get(line::row_key(line)?).copied()
    }

    /// How the rows that it takes begin: what [`row_key`](super::row_key) gives of them,
    /// in the order of the keys.
    pub fn row_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.rows.iter().map(|rows| &*rows.prefix)
    }

    /// What is said of packed rows that it reads: others say other figures.
    #[must_use]
    pub fn note(&self) -> Vec<u8> {
        packed::note_of(&self.labels)
    }

    /// Takes a packed row of the key at this place of the keys.
    pub fn take_packed(&mut self, place: usize, time: EventTime, row: &[u8]) {
        let count = self.labels.len();
        let is_inside = time >= self.range.0 && time < self.range.1;
        let Some(rows) = self.rows.get_mut(place).filter(|_| is_inside) else {
            return;
        };
        let read = packed::read_packed(time, row, count, &mut self.scratch);
        let Ok(read) = read else {
            self.unread += 1;
            return;
        };
        self.count += usize::from(rows.take(read, &self.scratch));
        self.check_count();
    }

    fn check_count(&mut self) {
        if self.count > READ_ROWS_MAX {
            self.too_much = true;
            self.range = (EventTime(0), EventTime(0));
        }
    }
}

impl RowFold for RollupFold {
    fn range(&self) -> (EventTime, EventTime) {
        self.range
    }

    fn take(&mut self, _: EventTime, line: &[u8]) {
        let Some(place) = self.place(line) else {
            return;
        };
        let rows = &mut self.rows[place];
        let rest = &line[rows.prefix.len()..];
        match line::read(rest, &self.labels, &mut self.times, &mut self.scratch) {
            Some(read) => {
                self.count += usize::from(rows.take(read, &self.scratch));
            }
            None => self.unread += 1,
        }
        self.check_count();
    }
}

impl Rows {
    /// Takes a line; true when its window is new.
    fn take(&mut self, line: WindowLine, figures: &[f64]) -> bool {
        let (start, width) = (line.start.0, figures.len());
        let place = match self.lines.last() {
            Some((last, _)) if *last >= start => self.lines.partition_point(|(s, _)| *s < start),
            Some(_) | None => self.lines.len(),
        };
        match self.lines.get_mut(place) {
            Some((at, revision)) if *at == start => {
                if line.revision >= *revision {
                    *revision = line.revision;
                    self.ends[place] = line.end.0;
                    self.figures[place * width..(place + 1) * width].copy_from_slice(figures);
                }
                false
            }
            Some(_) | None => {
                self.lines.insert(place, (start, line.revision));
                self.ends.insert(place, line.end.0);
                let at = place * width;
                self.figures.splice(at..at, figures.iter().copied());
                true
            }
        }
    }

    fn columns(self, key: ChannelKey, names: &[Aggregate]) -> RollupColumns {
        let mut out = RollupColumns::new(key);
        let count = self.lines.len();
        let width = names.len();
        out.starts = self.lines.iter().map(|(start, _)| *start).collect();
        out.ends = self.ends;
        out.count = vec![0; count];
        for column in [&mut out.mean, &mut out.min, &mut out.max, &mut out.sum] {
            *column = vec![f64::NAN; count];
        }
        for (at, name) in names.iter().enumerate() {
            let values = self.figures.iter().skip(at).step_by(width.max(1)).copied();
            match name {
                // Written as a whole number, and far below 2^53.
                Aggregate::Count => out.count = values.map(|value| value as u64).collect(),
                Aggregate::Mean => out.mean = values.collect(),
                Aggregate::Min => out.min = values.collect(),
                Aggregate::Max => out.max = values.collect(),
                Aggregate::Sum => out.sum = values.collect(),
                Aggregate::First
                | Aggregate::Last
                | Aggregate::Variance
                | Aggregate::Stddev
                | Aggregate::VariancePop
                | Aggregate::StddevPop
                | Aggregate::Percentile(_) => out.others.push((name.to_string(), values.collect())),
            }
        }
        out
    }
}
