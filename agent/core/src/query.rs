//! Questions of operators, answered from the durable log: a job walks the blocks
//! that the time index names and folds them into an answer. Figures are exact and
//! the same ones that the engine computes over the same readings.
//!
//! Bound: [`QUERIES_MAX`](crate::limits::QUERIES_MAX) jobs, [`QUERY_LINES_MAX`] lines each. Knows no socket.

pub mod tables;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use forebay_wire::ids::DeviceUid;
use serde_json::{Value, json};

use crate::derive::Derive;
use crate::follow::FollowRequest;
use crate::layout::Stretch;
use crate::limits::QUERY_LINES_MAX;
use crate::live::{ChannelKey, Live, figure};
use crate::log::block::{Block, Body, ReadingRecord, Record, Series};
use crate::log::decode::decode;
use crate::log::key::StoredBlock;
use crate::num::moments::Moments;
use crate::readers::Readers;
use crate::record::quality_name;
use crate::units::{EventTime, Offset, PartitionId, Span};
use crate::utc::time_value;

/// Names that operators gave to devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(pub BTreeMap<DeviceUid, String>);

impl Names {
    /// The device that `text` names: a given name, or sixteen hex digits.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<DeviceUid> {
        let named = self.0.iter().find(|(_, name)| *name == text);
        named.map(|(uid, _)| *uid).or_else(|| parse_uid(text))
    }

    /// What to call a device.
    #[must_use]
    pub fn name(&self, uid: DeviceUid) -> String {
        self.0.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

/// Reads a uid as it is written: sixteen hex digits.
#[must_use]
pub fn parse_uid(text: &str) -> Option<DeviceUid> {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = is_hex.then(|| u64::from_str_radix(text, 16).ok())??;
    Some(DeviceUid(value.to_be_bytes()))
}

/// Names a question of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u64);

/// One question.
#[derive(Debug, Clone, PartialEq)]
pub enum Query {
    /// How the agent is doing.
    Status,
    /// Records that no broker takes.
    DeadLetters,
    /// Sends these once more: of one destination, or of all.
    RetryDeadLetters { destination: Option<String> },
    /// The tables: where they come from and how many rows they have.
    Tables,
    /// Rows of a table, those that hold now or that held `at` a time.
    Table {
        table: String,
        key: Option<String>,
        at: Option<EventTime>,
    },
    /// What became of a row.
    TableHistory { table: String, key: String },
    /// The window that ends at the channel's newest reading.
    Rolling { channel: ChannelName, size: Span },
    /// Tumbling windows of `size` that overlap the range.
    Rollup {
        channel: ChannelName,
        size: Span,
        range: TimeRange,
    },
    /// The readings themselves, the newest [`QUERY_LINES_MAX`] of the range.
    Readings {
        channel: ChannelName,
        range: TimeRange,
    },
    /// Rows of a stream from a place on, or a wait for them.
    Follow(FollowRequest),
    /// All derived streams, with their states.
    Views,
    /// Builds a window's rows anew beside those that stand, and goes over to them.
    RebuildView {
        name: String,
        /// Rows before this event time are left out.
        from: Option<EventTime>,
    },
    /// Lets the rows of a stream go that nothing writes any more.
    DropView { stream: String },
}

/// A channel as an operator names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelName {
    /// Given name or uid.
    pub device: String,
    pub channel: String,
}

/// `[from, to)`; open ends reach as far as the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeRange {
    pub from: Option<EventTime>,
    pub to: Option<EventTime>,
}

impl TimeRange {
    fn ends(self) -> (EventTime, EventTime) {
        (
            self.from.unwrap_or(EventTime(i64::MIN)),
            self.to.unwrap_or(EventTime(i64::MAX)),
        )
    }
}

/// The answer: a JSON object, or a sentence that says what to ask instead.
pub type Answer = Result<Value, String>;

/// Folds readings into an answer.
#[derive(Debug)]
enum Fold {
    Rolling {
        size: Span,
        figures: Figures,
    },
    Rollup {
        size: Span,
        windows: BTreeMap<EventTime, Figures>,
    },
    Readings {
        lines: VecDeque<Value>,
        more: bool,
    },
}

/// A question being answered.
#[derive(Debug)]
pub struct Job {
    /// Where readings of the device stand that were not looked at yet, in order.
    spans: VecDeque<Stretch>,
    channel: ChannelKey,
    device: String,
    live: Live,
    /// Event time below which nothing is expected any more.
    watermark: EventTime,
    range: (EventTime, EventTime),
    /// Durable readings that were not indexed yet when it was asked.
    behind: u64,
    /// From this event time on nothing that came was removed; `None` when nothing was.
    complete_from: Option<EventTime>,
    fold: Fold,
}

impl Job {
    /// Starts to answer `query` about a device from what the readers have read.
    ///
    /// # Errors
    /// When the log holds nothing of that channel, with what it does hold.
    pub fn start(
        query: &Query,
        (uid, names): (DeviceUid, &Names),
        readers: &Readers,
        (behind, newest_removed): (u64, impl Fn(PartitionId) -> EventTime),
    ) -> Result<Self, String> {
        let stage = readers.stage(uid);
        let (name, fold, range) = fold_of(query);
        let channel = ChannelKey {
            uid,
            channel: Arc::from(name.channel.as_str()),
        };
        let device = names.name(uid);
        let Some(live) = stage.live.get(&channel) else {
            return Err(unknown_channel(&channel, &device, stage));
        };
        let spans = readers.spans(uid);
        let removed = spans
            .iter()
            .map(|span| newest_removed(span.partition))
            .max();
        let removed = removed.filter(|newest| newest.0 > i64::MIN);
        Ok(Self {
            complete_from: removed.map(|newest| EventTime(newest.0.saturating_add(1))),
            spans: spans.into(),
            range: fold.range(range, live.time),
            device,
            live: live.clone(),
            watermark: stage.watermark(uid),
            channel,
            behind,
            fold,
        })
    }

    /// The next read of the log; `None` when the answer is complete.
    pub fn next_fetch(&mut self, readers: &Readers) -> Option<(PartitionId, Offset)> {
        while let Some(span) = self.spans.front() {
            let index = readers.index(span.partition);
            let run = index.and_then(|index| index.next_run(span.first, self.range));
            match run.filter(|(first, _)| *first < span.end) {
                Some((first, _)) => return Some((span.partition, first)),
                None => drop(self.spans.pop_front()),
            }
        }
        None
    }

    /// Takes blocks that a read from `from` brought.
    pub fn on_blocks(&mut self, from: Offset, blocks: &[StoredBlock]) {
        let Some(span) = self.spans.front().copied() else {
            return;
        };
        // Past `from` in any case, so that an unreadable place is not asked for twice.
        let mut cursor = Offset(from.0 + 1);
        for stored in blocks.iter().filter(|stored| stored.key.base < span.end) {
            if let Ok(block) = decode(stored.key, &stored.bytes) {
                // Blocks are merged now and then: one may begin before what is asked.
                self.on_block(&block, from.max(span.first)..span.end);
                cursor = cursor.max(block.end());
            }
        }
        if let Some(span) = self.spans.front_mut() {
            span.first = cursor;
        }
    }

    fn on_block(&mut self, block: &Block, offsets: std::ops::Range<Offset>) {
        let Body::Readings { series, records } = &block.body else {
            return;
        };
        let ours = |s: &Series| s.uid == self.channel.uid && s.name == self.channel.channel;
        let ours: Vec<bool> = series.iter().map(ours).collect();
        for (offset, record) in (block.base.0..).map(Offset).zip(records) {
            match record {
                Record::Reading(reading)
                    if ours[usize::from(reading.series)] && offsets.contains(&offset) =>
                {
                    self.on_reading(&series[usize::from(reading.series)], reading);
                }
                Record::Reading(_) | Record::Gap(_) | Record::Clock(_) | Record::Tables(_) => {}
            }
        }
    }

    fn on_reading(&mut self, series: &Series, reading: &ReadingRecord) {
        let (start, end) = self.range;
        // A time that nobody trusted is none: it would be shown as 1970.
        if reading.is_unsynced() || reading.time < start || reading.time >= end {
            return;
        }
        let value = figure(series, reading);
        match &mut self.fold {
            Fold::Rolling { figures, .. } => figures.add(value),
            Fold::Rollup { size, windows } => {
                let start = window_start(reading.time, *size);
                windows.entry(start).or_default().add(value);
                if windows.len() > QUERY_LINES_MAX {
                    windows.pop_first();
                }
            }
            Fold::Readings { lines, more } => {
                if lines.len() == QUERY_LINES_MAX {
                    lines.pop_front();
                    *more = true;
                }
                lines.push_back(reading_line(series, reading, value));
            }
        }
    }
}

/// What is made of the records that a query asks for: the channel, what is kept of them, and
/// the range where it has one.
fn fold_of(query: &Query) -> (&ChannelName, Fold, Option<(EventTime, EventTime)>) {
    match query {
        Query::Status
        | Query::DeadLetters
        | Query::RetryDeadLetters { .. }
        | Query::Follow(_)
        | Query::Views
        | Query::RebuildView { .. }
        | Query::DropView { .. }
        | Query::Tables
        | Query::Table { .. }
        | Query::TableHistory { .. } => {
            unreachable!("no job answers it")
        }
        Query::Rolling { channel, size } => {
            let figures = Figures::default();
            (
                channel,
                Fold::Rolling {
                    size: *size,
                    figures,
                },
                None,
            )
        }
        Query::Rollup {
            channel,
            size,
            range,
        } => {
            let windows = BTreeMap::new();
            (
                channel,
                Fold::Rollup {
                    size: *size,
                    windows,
                },
                Some(range.ends()),
            )
        }
        Query::Readings { channel, range } => {
            let (lines, more) = (VecDeque::new(), false);
            (channel, Fold::Readings { lines, more }, Some(range.ends()))
        }
    }
}

/// The figures that every query of a window gives.
#[derive(Debug)]
struct Figures {
    moments: Moments,
    ends: Option<(f64, f64)>,
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            moments: Moments::new(false),
            ends: None,
        }
    }
}

impl Figures {
    fn add(&mut self, value: Option<f64>) {
        let Some(value) = value else {
            return;
        };
        self.moments.add(value);
        let (min, max) = self.ends.unwrap_or((value, value));
        self.ends = Some((min.min(value), max.max(value)));
    }

    /// Appends count, mean, min and max to a line.
    fn write(&self, line: &mut Value) {
        line["count"] = json!(self.moments.count());
        line["mean"] = json!(self.moments.mean());
        line["min"] = json!(self.ends.map(|(min, _)| min));
        line["max"] = json!(self.ends.map(|(_, max)| max));
    }
}

impl Fold {
    /// The half-open range of event times that matters.
    fn range(
        &self,
        asked: Option<(EventTime, EventTime)>,
        newest: EventTime,
    ) -> (EventTime, EventTime) {
        let (start, end) = asked.unwrap_or((EventTime(i64::MIN), EventTime(i64::MAX)));
        match self {
            // (newest - size, newest], as the engine's rolling windows.
            Self::Rolling { size, .. } => (
                EventTime(newest.0.saturating_sub(size.0).saturating_add(1)),
                EventTime(newest.0.saturating_add(1)),
            ),
            // A window that overlaps the range is given whole.
            Self::Rollup { size, .. } => (
                window_start(start, *size),
                EventTime(
                    window_start(EventTime(end.0.saturating_sub(1)), *size)
                        .0
                        .saturating_add(size.0),
                ),
            ),
            Self::Readings { .. } => (start, end),
        }
    }
}

/// Start of the tumbling window of `size` on the epoch grid that holds `time`;
/// the first time of all where it would lie before that.
fn window_start(time: EventTime, size: Span) -> EventTime {
    EventTime(time.0.saturating_sub(time.0.rem_euclid(size.0)))
}

fn reading_line(series: &Series, reading: &ReadingRecord, value: Option<f64>) -> Value {
    let mut line = json!({
        "time": time_value(reading.time),
        "value": value,
        "boot": series.boot.0,
        "ordinal": reading.ordinal.0,
        "uncertainty_us": reading.uncertainty_us,
    });
    if value.is_none() {
        line["quality"] = json!(quality_name(reading.quality));
    }
    line
}

fn unknown_channel(key: &ChannelKey, device: &str, stage: &Derive) -> String {
    let names: Vec<&str> = stage
        .live
        .iter()
        .filter(|(other, _)| other.uid == key.uid)
        .map(|(other, _)| &*other.channel)
        .collect();
    if names.is_empty() {
        format!("the log holds no reading of device \"{device}\"")
    } else {
        format!(
            "device \"{device}\" has no channel \"{}\": it has {}",
            key.channel,
            names.join(", ")
        )
    }
}

impl Job {
    /// The answer, once [`Job::next_fetch`] has nothing more.
    #[must_use]
    pub fn finish(self) -> Value {
        let mut answer = json!({
            "device": self.device,
            "channel": &*self.channel.channel,
            "unit": &*self.live.unit,
        });
        if self.behind > 0 {
            answer["readings_not_read_yet"] = json!(self.behind);
        }
        if let Some(from) = self.complete_from.filter(|from| *from > self.range.0) {
            answer["complete_from"] = time_value(from);
        }
        match self.fold {
            Fold::Rolling { size, figures } => {
                answer["time"] = time_value(self.live.time);
                answer["window_us"] = json!(size.0);
                figures.write(&mut answer);
                answer["preliminary"] = json!(self.live.time >= self.watermark);
            }
            Fold::Rollup { size, windows } => {
                let lines = windows.iter().map(|(start, figures)| {
                    let end = EventTime(start.0.saturating_add(size.0));
                    let mut line = json!({ "start": time_value(*start), "end": time_value(end) });
                    figures.write(&mut line);
                    line["preliminary"] = json!(end > self.watermark);
                    line
                });
                answer["size_us"] = json!(size.0);
                answer["windows"] = lines.collect();
            }
            Fold::Readings { lines, more } => {
                answer["readings"] = lines.into_iter().collect();
                answer["older_left_out"] = json!(more);
            }
        }
        answer
    }
}
