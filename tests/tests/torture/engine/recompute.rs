//! What must stand in the derived topics of a log: told by a fresh engine from the
//! readings and the changes of tables that stand there, and from nothing else. Shares only the engine with the
//! agent: neither how it reads, nor what it keeps, nor how it starts. With more than one
//! partition, what crosses devices is left to `forebay verify`.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_core::change::Change;
use forebay_core::changes::CHANGES_AT;
use forebay_core::engine::config::EngineConfig;
use forebay_core::engine::row::{Rows, StreamId};
use forebay_core::engine::{Batch, Engine};
use forebay_core::exchange::{EXCHANGE_AT, Split};
use forebay_core::live::figure;
use forebay_core::log::block::Body;
use forebay_core::log::decode::decode;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::{LATE, QUARANTINE, READINGS};
use forebay_core::record::{ClockTrust, Record, Series};
use forebay_core::topics::{TopicTable, stream_name, streams};
use forebay_core::units::{Offset, PartitionId, TopicId};
use forebay_node::config::Config;
use forebay_node::store::LogReader;

const READ_BYTES: usize = 1 << 20;

/// Rows as their topic has them.
type Lines = Vec<Vec<u8>>;

/// What the windows that are computed must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The first of those of the log: it was killed before the others were durable.
    Prefix,
    /// All of those of the log.
    All,
}

/// What a log holds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) readings: u64,
    /// What the gateway's clock said.
    pub(super) clocks: u64,
    pub(super) rows: u64,
    /// Rows that the log does not have yet.
    pub(super) missing: u64,
}

/// Compares the rows of a stopped agent's log with what comes of its readings.
///
/// # Errors
/// The first row that is another, or one too many or, with [`Reach::All`], too few.
pub(super) fn check(dir: &Path, config: &Config, reach: Reach) -> Result<Found, String> {
    let mut reader = LogReader::open(dir).map_err(|error| error.to_string())?;
    if let Some(loss) = reader.losses.first() {
        return Err(format!(
            "a loss is reported where nothing was damaged: {loss:?}"
        ));
    }
    let table = TopicTable::restore(&reader.meta, &reader.heads);
    let topics: BTreeMap<String, TopicId> =
        table.windows().map(|(topic, name)| (name, topic)).collect();
    let mut found = Found::default();
    let partitions = reader.heads.keys().filter(|at| at.topic == READINGS);
    let partitions: Vec<PartitionId> = partitions.map(|at| at.partition).collect();
    let is_split = config.agent.partitions > 1;
    let whole = &config.engine;
    let split = Split::of(whole).filter(|_| is_split);
    let mut known = vec![EXCHANGE_AT, CHANGES_AT];
    if let Some(split) = &split {
        let of_partitions = |at: &usize| split.by_device_of.contains(at);
        let crossing = (0..streams(whole)).filter(|at| !of_partitions(at));
        let crossing = crossing.filter_map(|at| topics.get(stream_name(whole, at)));
        known.extend(crossing.map(|topic| TopicPartition {
            topic: *topic,
            partition: PartitionId(0),
        }));
    }
    let config = split.as_ref().map_or(whole, |split| &split.by_device);
    let changes = lines(&mut reader, CHANGES_AT)?;
    let changes: Result<Vec<Change>, _> = changes.iter().map(|line| Change::parse(line)).collect();
    let changes = changes.map_err(|error| format!("a change: {error:?}"))?;
    for partition in partitions {
        let fresh = recompute(&mut reader, config, &changes, partition)?;
        found.readings += fresh.readings;
        found.clocks += fresh.clocks;
        for (stream, want) in fresh.lines.iter().enumerate() {
            let (name, topic) = match stream.checked_sub(streams(config)) {
                None => {
                    let name = stream_name(config, stream);
                    (name, topics.get(name).copied())
                }
                Some(0) => ("late", Some(LATE)),
                Some(_) => ("quarantine", Some(QUARANTINE)),
            };
            let Some(topic) = topic else {
                // Killed before its name was durable: so is no row.
                missing(&mut found, name, partition, want.len(), reach)?;
                continue;
            };
            let at = TopicPartition { topic, partition };
            known.push(at);
            let got = lines(&mut reader, at)?;
            compare(name, partition, &got, want)?;
            found.rows += got.len() as u64;
            missing(&mut found, name, partition, want.len() - got.len(), reach)?;
        }
    }
    let strange = |at: &&TopicPartition| {
        at.topic != READINGS && !known.contains(at) && reader.heads[at] > Offset(0)
    };
    match reader.heads.keys().find(strange) {
        Some(at) => Err(format!("{at:?} holds rows of no reading")),
        None => Ok(found),
    }
}

fn missing(
    found: &mut Found,
    name: &str,
    partition: PartitionId,
    count: usize,
    reach: Reach,
) -> Result<(), String> {
    found.missing += count as u64;
    if reach == Reach::All && count > 0 {
        return Err(format!("{name}/{}: {count} rows are missing", partition.0));
    }
    Ok(())
}

fn compare(
    name: &str,
    partition: PartitionId,
    got: &[Vec<u8>],
    want: &[Vec<u8>],
) -> Result<(), String> {
    let text = |line: Option<&Vec<u8>>| {
        line.map_or("nothing".into(), |line| {
            String::from_utf8_lossy(line).into_owned()
        })
    };
    for (offset, line) in got.iter().enumerate() {
        if want.get(offset) != Some(line) {
            return Err(format!(
                "{name}/{} offset {offset} of {}: there stands\n  {}\nand must be\n  {}",
                partition.0,
                got.len(),
                text(Some(line)),
                text(want.get(offset)),
            ));
        }
    }
    Ok(())
}

/// A fresh engine that was fed all of a partition.
fn recompute(
    reader: &mut LogReader,
    config: &EngineConfig,
    changes: &[Change],
    partition: PartitionId,
) -> Result<Fresh, String> {
    let at = TopicPartition {
        topic: READINGS,
        partition,
    };
    let mut fresh = Fresh {
        engine: Engine::new(config),
        batch: Batch::new(),
        rows: Rows::new(),
        lines: vec![Vec::new(); streams(config) + 2],
        windows: config.windows.len(),
        applied: 0,
        readings: 0,
        clocks: 0,
    };
    blocks(reader, at, |body| match body {
        Body::Readings { series, records } => {
            for record in records {
                fresh.take(&series, &record, changes)?;
            }
            Ok(())
        }
        Body::Rows(_) => Err("rows among the readings".into()),
    })?;
    fresh.step();
    Ok(fresh)
}

struct Fresh {
    engine: Engine,
    batch: Batch,
    rows: Rows,
    /// Of each window and join, then the late ones and those in quarantine.
    lines: Vec<Lines>,
    windows: usize,
    /// Changes of tables that were applied.
    applied: usize,
    readings: u64,
    clocks: u64,
}

impl Fresh {
    fn take(
        &mut self,
        series: &[Series],
        record: &Record,
        changes: &[Change],
    ) -> Result<(), String> {
        match record {
            Record::Reading(reading) if reading.is_unsynced() => {
                return Err("a recorded reading waits for the clock".into());
            }
            Record::Reading(reading) => {
                let series = &series[usize::from(reading.series)];
                let id = self.engine.series(&series.uid.to_string(), &series.name);
                let id = id.expect("there are few");
                self.readings += 1;
                let value = figure(series, reading);
                self.batch.push(id, reading.time, value, None);
            }
            Record::Gap(_) => {}
            Record::Tables(tables) => {
                self.step();
                let upto = tables.upto.0 as usize;
                let new = changes.get(self.applied..upto.max(self.applied));
                let new = new.ok_or("tables are said to be known beyond their changes")?;
                for change in new {
                    self.engine.on_change(change, &mut self.rows);
                    self.write();
                }
                self.applied += new.len();
            }
            Record::Clock(clock) => {
                self.step();
                match clock.trust {
                    ClockTrust::No => self.engine.on_clock_lost(),
                    ClockTrust::Yes | ClockTrust::Since(_) => {
                        self.engine.on_clock(clock.now, &mut self.rows);
                    }
                }
                self.write();
                self.clocks += 1;
            }
        }
        Ok(())
    }

    fn step(&mut self) {
        self.engine.on_batch(&self.batch, &mut self.rows);
        self.batch.clear();
        self.write();
    }

    fn write(&mut self) {
        let asides = self.lines.len() - 2;
        for row in self.engine.views(&self.rows) {
            let stream = match row.stream() {
                StreamId::Window(index) => usize::from(index),
                StreamId::Join(index) => self.windows + usize::from(index),
                StreamId::Late => asides,
                StreamId::Quarantine => asides + 1,
            };
            let mut line = Vec::new();
            row.write_json(&mut line);
            self.lines[stream].push(line);
        }
        self.rows.clear();
    }
}

fn lines(reader: &mut LogReader, at: TopicPartition) -> Result<Lines, String> {
    let mut out = Vec::new();
    blocks(reader, at, |body| match body {
        Body::Rows(rows) => {
            out.extend(rows.into_iter().map(|row| row.line));
            Ok(())
        }
        Body::Readings { .. } => Err("readings among the rows".into()),
    })?;
    Ok(out)
}

/// All blocks of a partition, without a hole.
fn blocks(
    reader: &mut LogReader,
    at: TopicPartition,
    mut each: impl FnMut(Body) -> Result<(), String>,
) -> Result<(), String> {
    let head = reader.heads.get(&at).copied().unwrap_or(Offset(0));
    let mut next = Offset(0);
    while next < head {
        let mut losses = Vec::new();
        let read = reader.read(at, next, READ_BYTES, |loss| losses.push(loss));
        let read = read.map_err(|error| error.to_string())?;
        if let Some(loss) = losses.first() {
            return Err(format!("{at:?}: {loss:?}"));
        }
        let before = next;
        for stored in read {
            let block = decode(stored.key, &stored.bytes).map_err(|error| error.to_string())?;
            if block.end() <= next {
                continue;
            }
            if block.base != next {
                return Err(format!("{at:?}: a hole before {}", block.base.0));
            }
            next = block.end();
            each(block.body)?;
        }
        if next == before {
            return Err(format!("{at:?}: nothing to read at {}", next.0));
        }
    }
    Ok(())
}
