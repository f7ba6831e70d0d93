//! A stream as a stream of changes, for readers beside the log: rows from an offset on,
//! up to the durable head, and a wait where there are none yet.
//!
//! Holds always: a row is given once per place that is asked for, in order of its
//! partition, and only when it is durable; what was removed or lost between is told.
//! Bound: [`FOLLOWERS_MAX`](crate::limits::FOLLOWERS_MAX) at a time,
//! [`FOLLOW_LINES_MAX`] rows and about [`FOLLOW_BYTES_MAX`] of an answer, one read of the
//! log; who takes no answer asks for no more. Knows no socket and no names.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::limits::{FOLLOW_BYTES_MAX, FOLLOW_LINES_MAX, FOLLOW_WAIT_MAX_US, PARTITIONS_MAX};
use crate::live::figure;
use crate::log::block::{Block, Body, ReadingRecord, Record, Series};
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::walk::{Met, Walk};
use crate::record::{GapRecord, gap_name, quality_name};
use crate::units::{Mono, Offset, PartitionId, Span, TopicId};
use crate::utc::time_value;

/// Where a reader begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowFrom {
    /// With the first row that is kept.
    Beginning,
    /// With what comes from now on.
    Now,
    /// At these offsets; in other partitions with the first row.
    At(BTreeMap<PartitionId, Offset>),
}

impl FollowFrom {
    /// Reads `beginning`, `now`, an offset of partition 0, or `0:12,1:7`.
    ///
    /// # Errors
    /// What is expected instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "beginning" => return Ok(Self::Beginning),
            "now" => return Ok(Self::Now),
            _ => {}
        }
        let wrong = || {
            format!(
                "\"{text}\" is no place in a stream: beginning, now, an offset such as 120, or \
                 an offset per partition such as 0:120,1:7"
            )
        };
        let mut at = BTreeMap::new();
        for part in text.split(',') {
            let (partition, offset) = part.split_once(':').unwrap_or(("0", part));
            let partition: u16 = partition.parse().map_err(|_| wrong())?;
            let offset: u64 = offset.parse().map_err(|_| wrong())?;
            let is_new = at.insert(PartitionId(partition), Offset(offset)).is_none();
            // One more than devices have: rows that cross them may stand apart.
            if usize::from(partition) > PARTITIONS_MAX || !is_new {
                return Err(wrong());
            }
        }
        Ok(Self::At(at))
    }
}

/// A place as [`FollowFrom::parse`] reads it.
#[must_use]
pub fn place_text(at: &BTreeMap<PartitionId, Offset>) -> String {
    let parts = at
        .iter()
        .map(|(partition, offset)| format!("{}:{}", partition.0, offset.0));
    parts.collect::<Vec<_>>().join(",")
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowRequest {
    /// A stream by its name on the wire, or a window, join or table of the config.
    pub stream: String,
    /// Of a topic of changes only those of this table.
    pub table: Option<String>,
    /// The topic that an answer before was of: it is read to its end, also when the name
    /// stands for another one by now.
    pub topic: Option<TopicId>,
    pub from: FollowFrom,
    /// Rows of the answer, 1 to [`FOLLOW_LINES_MAX`].
    pub lines_max: usize,
    /// How long to wait for a row, up to [`FOLLOW_WAIT_MAX_US`].
    pub wait: Span,
}

/// The stream that a request is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowOf {
    pub topic: TopicId,
    /// Its name on the wire.
    pub stream: String,
    pub table: Option<String>,
    /// What the name stands for by now, and where to go on there.
    pub moved: Option<(TopicId, String, BTreeMap<PartitionId, Offset>)>,
}

/// What a follower wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowNext {
    Fetch(TopicPartition, Offset),
    /// A read is under way, or nothing more is durable.
    Wait,
    /// The answer is complete.
    Done,
}

/// See the module.
#[derive(Debug)]
pub struct Follow {
    of: FollowOf,
    first: BTreeMap<PartitionId, Offset>,
    next: BTreeMap<PartitionId, Offset>,
    /// Rows of each partition in this answer: none starves behind another.
    taken: BTreeMap<PartitionId, usize>,
    lines_max: usize,
    bytes: usize,
    lines: Vec<Value>,
    gaps: Vec<Value>,
    is_fetching: bool,
    due: Mono,
}

impl Follow {
    /// Starts to answer; `heads` are the durable heads of the topic's partitions.
    ///
    /// # Errors
    /// When a place is past the end of the stream.
    pub fn start(
        request: &FollowRequest,
        of: FollowOf,
        heads: &BTreeMap<PartitionId, Offset>,
        now: Mono,
    ) -> Result<Self, String> {
        let next = match &request.from {
            FollowFrom::Beginning => BTreeMap::new(),
            FollowFrom::Now => heads.clone(),
            FollowFrom::At(at) => at.clone(),
        };
        for (partition, offset) in &next {
            let head = heads.get(partition).copied().unwrap_or_default();
            if *offset > head {
                return Err(format!(
                    "{} has rows up to offset {} in partition {}, none at {}",
                    of.stream, head.0, partition.0, offset.0
                ));
            }
        }
        let wait_us = request.wait.0.clamp(0, FOLLOW_WAIT_MAX_US);
        Ok(Self {
            of,
            first: next.clone(),
            next,
            taken: BTreeMap::new(),
            lines_max: request.lines_max.clamp(1, FOLLOW_LINES_MAX),
            bytes: 0,
            lines: Vec::new(),
            gaps: Vec::new(),
            is_fetching: false,
            due: Mono(now.0.saturating_add(wait_us.unsigned_abs())),
        })
    }

    #[must_use]
    pub fn topic(&self) -> TopicId {
        self.of.topic
    }

    /// When it is answered though nothing came.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        (!self.is_fetching).then_some(self.due)
    }

    /// What is wanted with these durable heads.
    pub fn next(&mut self, heads: &BTreeMap<PartitionId, Offset>, now: Mono) -> FollowNext {
        if self.is_fetching {
            return FollowNext::Wait;
        }
        let share = self.lines_max.div_ceil(heads.len().max(1));
        let is_full = self.lines.len() >= self.lines_max || self.bytes >= FOLLOW_BYTES_MAX;
        let behind = heads.iter().find(|(partition, head)| {
            let taken = self.taken.get(partition).copied().unwrap_or_default();
            self.place(**partition) < **head && taken < share
        });
        match behind.filter(|_| !is_full) {
            Some((partition, _)) => {
                self.is_fetching = true;
                let at = TopicPartition {
                    topic: self.of.topic,
                    partition: *partition,
                };
                FollowNext::Fetch(at, self.place(*partition))
            }
            None if self.has_news() || now >= self.due => FollowNext::Done,
            None => FollowNext::Wait,
        }
    }

    /// Whether an answer says anything.
    fn has_news(&self) -> bool {
        !self.lines.is_empty() || !self.gaps.is_empty() || self.of.moved.is_some()
    }

    fn place(&self, partition: PartitionId) -> Offset {
        self.next.get(&partition).copied().unwrap_or_default()
    }

    /// Takes what a read of a partition brought, below its durable head.
    pub fn on_fetched(&mut self, at: TopicPartition, blocks: &[StoredBlock], head: Offset) {
        self.is_fetching = false;
        let from = self.place(at.partition);
        let mut walk = Walk::new(at, from);
        walk.on_fetched(blocks, head, |met| match met {
            Met::Hole { first, end } => self.on_hole(at.partition, first, end),
            Met::Block { block, records, .. } => self.on_block(at.partition, block, records),
        });
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= self.lines_max || self.bytes >= FOLLOW_BYTES_MAX
    }

    fn on_hole(&mut self, partition: PartitionId, first: Offset, end: Offset) {
        if self.is_full() || self.place(partition) != first {
            return;
        }
        self.gaps.push(json!({
            "partition": partition.0, "first": first.0, "end": end.0,
        }));
        self.next.insert(partition, end);
    }

    fn on_block(&mut self, partition: PartitionId, block: &Block, records: std::ops::Range<usize>) {
        for index in records {
            let offset = Offset(block.base.0 + index as u64);
            // What is left of it is read with the next answer.
            if self.is_full() || self.place(partition) > offset {
                return;
            }
            let change = match &block.body {
                Body::Rows(rows) => change_of_row(&rows[index].line, self.of.table.as_deref()),
                Body::Readings { series, records } => change_of_record(series, &records[index]),
            };
            self.next.insert(partition, Offset(offset.0 + 1));
            if let Some((op, line)) = change {
                *self.taken.entry(partition).or_default() += 1;
                self.bytes += line.len();
                self.lines.push(json!({
                    "partition": partition.0, "offset": offset.0, "op": op, "line": line,
                }));
            }
        }
    }

    /// The answer, with the place from which the next one goes on.
    #[must_use]
    pub fn finish(mut self, heads: &BTreeMap<PartitionId, Offset>) -> Value {
        let mut behind = 0;
        for (partition, head) in heads {
            let next = self.next.entry(*partition).or_default();
            behind += head.0.saturating_sub(next.0);
        }
        let mut answer = json!({
            "stream": self.of.stream,
            "topic": self.of.topic.0,
            "from": place_text(&self.first),
            "changes": self.lines,
            "next": place_text(&self.next),
            "behind": behind,
        });
        if !self.gaps.is_empty() {
            answer["gaps"] = json!(self.gaps);
        }
        if let Some((topic, stream, next)) = self.of.moved.filter(|_| behind == 0) {
            answer["moved"] = json!({
                "stream": stream, "topic": topic.0, "next": place_text(&next),
            });
        }
        answer
    }
}

/// What a row is as a change, with its line; `None` where it is of another table.
fn change_of_row(line: &[u8], table: Option<&str>) -> Option<(String, String)> {
    let text = String::from_utf8_lossy(line).into_owned();
    let row: Value = serde_json::from_slice(line).unwrap_or_default();
    let of = row.get("table").and_then(Value::as_str);
    let is_heartbeat = row.get("op").and_then(Value::as_str) == Some("heartbeat");
    if table.is_some() && (of != table || is_heartbeat) {
        return None;
    }
    let op = match (of, row.get("op").and_then(Value::as_str)) {
        (Some(_), Some(op)) => op,
        (None | Some(_), None | Some(_)) => {
            let revision = row.get("revision").and_then(Value::as_u64).unwrap_or(0);
            match row.get("diff").and_then(Value::as_i64) {
                Some(diff) if diff < 0 => "delete",
                None if revision > 0 => "update",
                Some(_) | None => "insert",
            }
        }
    };
    Some((String::from(op), text))
}

/// A reading or a gap; what only steers engines is no change.
fn change_of_record(series: &[Series], record: &Record) -> Option<(String, String)> {
    let (op, line) = match record {
        Record::Reading(reading) => {
            let series = series.get(usize::from(reading.series))?;
            ("insert", reading_line(series, reading))
        }
        Record::Gap(gap) => ("gap", gap_line(gap)),
        Record::Clock(_) | Record::Tables(_) => return None,
    };
    Some((String::from(op), line.to_string()))
}

fn reading_line(series: &Series, reading: &ReadingRecord) -> Value {
    let value = figure(series, reading);
    let time = (!reading.is_unsynced()).then(|| time_value(reading.time));
    let mut line = json!({
        "device": series.uid.to_string(),
        "channel": &*series.name,
        "time": time,
        "value": value,
        "boot": series.boot.0,
        "ordinal": reading.ordinal.0,
    });
    if value.is_none() {
        line["quality"] = json!(quality_name(reading.quality));
    }
    line
}

fn gap_line(gap: &GapRecord) -> Value {
    json!({
        "device": gap.uid.to_string(),
        "boot": gap.boot.0,
        "first": gap.first.0,
        "count": gap.count,
        "reason": gap_name(gap.reason),
    })
}

#[cfg(test)]
mod tests;
