//! Pipelines and their input: the same on every machine, readings in order of time.

use forebay_core::change::{Change, ChangeOp};
use forebay_core::engine::config::{
    EngineConfig, JoinColumn, JoinKind, JoinSource, JoinSpec, JoinType, TableSpec,
};
use forebay_core::engine::filter::Filter;
use forebay_core::engine::row::Rows;
use forebay_core::engine::{Batch, Engine, SeriesId};
use forebay_core::units::{EventTime, Span};

use crate::data::Dice;

/// Readings that an engine is given at once: about what a block of the log holds.
pub(super) const BATCH: usize = 1_024;
/// Readings that are made at once, so that making them is in no figure.
pub(super) const CHUNK: usize = 500 * BATCH;
/// 2026-03-01T00:00:00Z.
pub(super) const START: i64 = 1_772_323_200_000_000;
pub(super) const SECOND: i64 = 1_000_000;

pub(super) const TABLE: &str = "sites";

/// How the table of a lookup is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Its rows stand in the config.
    Config,
    /// A database tells that it is known up to now, once per batch.
    Database,
}

/// Readings with the row of their device.
pub(super) fn lookup(source: Source, join_type: JoinType) -> EngineConfig {
    let kind = JoinKind::Lookup { wait: None };
    EngineConfig {
        tables: vec![TableSpec {
            is_static: source == Source::Config,
            out_of_order: Span(0),
            ..TableSpec::new(TABLE, &["device"])
        }],
        joins: vec![JoinSpec {
            join_type,
            ..JoinSpec::new("joined", kind, JoinSource::Readings, JoinSource::Table(0))
        }],
        ..EngineConfig::default()
    }
}

/// Readings of two channels of a device that are at most this far apart.
pub(super) fn interval(reach: i64, join_type: JoinType) -> EngineConfig {
    let kind = JoinKind::Interval {
        lower: Span(-reach),
        upper: Span(reach),
    };
    let mut join = JoinSpec {
        join_type,
        ..JoinSpec::new("joined", kind, JoinSource::Readings, JoinSource::Readings)
    };
    let only = |channel| Filter::parse(&format!("channel = '{channel}'")).ok();
    join.left.filter = only("left");
    join.right.filter = only("right");
    EngineConfig {
        joins: vec![join],
        ..EngineConfig::default()
    }
}

/// Machines with the plant that each stands in.
pub(super) fn foreign_key(join_type: JoinType) -> EngineConfig {
    EngineConfig {
        tables: vec![
            TableSpec::new("machines", &["id"]),
            TableSpec::new("plants", &["id"]),
        ],
        joins: vec![JoinSpec {
            join_type,
            on: vec![JoinColumn::Column("plant".into())],
            ..JoinSpec::new(
                "joined",
                JoinKind::Table,
                JoinSource::Table(0),
                JoinSource::Table(1),
            )
        }],
        ..EngineConfig::default()
    }
}

pub(super) fn device(n: usize) -> String {
    format!("device-{n}")
}

/// What the table says of a device.
pub(super) fn row(n: usize) -> String {
    format!(
        "{{\"device\":\"device-{n}\",\"building\":\"b{}\",\"max\":{}.5}}",
        n % 97,
        n % 1_000
    )
}

pub(super) fn change(
    table: &str,
    op: ChangeOp,
    key: &str,
    time: i64,
    after: Option<&str>,
) -> Change {
    Change {
        table: table.into(),
        op,
        key: key.into(),
        time: EventTime(time),
        before: None,
        after: after.map(Into::into),
        position: None,
    }
}

/// Gives the engine a table of so many rows.
pub(super) fn fill_table(engine: &mut Engine, rows: usize) {
    let mut out = Rows::new();
    for n in 0..rows {
        let time = START - 3_600 * SECOND;
        let change = change(TABLE, ChangeOp::Insert, &device(n), time, Some(&row(n)));
        engine.on_change(&change, &mut out);
        out.clear();
    }
}

/// Readings of some devices, one of each series in turn; a second for a round.
#[derive(Debug)]
pub(super) struct Feed {
    series: Vec<SeriesId>,
    dice: Dice,
    count: u64,
}

impl Feed {
    /// Of so many devices, each with these channels, which the engine is told of. The
    /// devices come in no order, as in life.
    pub(super) fn new(
        engine: &mut Engine,
        devices: usize,
        channels: &[&str],
    ) -> Result<Self, String> {
        let mut dice = Dice(devices as u64);
        let mut series = Vec::new();
        for n in 0..devices {
            for channel in channels {
                let id = engine.series(&device(n), channel);
                series.push(id.map_err(|error| error.to_string())?);
            }
        }
        for at in (1..series.len()).rev() {
            series.swap(at, (dice.next() >> 16) as usize % (at + 1));
        }
        Ok(Self {
            series,
            dice,
            count: 0,
        })
    }

    pub(super) fn series_count(&self) -> usize {
        self.series.len()
    }

    /// Time of the next reading, us.
    pub(super) fn now(&self) -> i64 {
        let all = self.series.len() as u64;
        let (round, at) = (self.count / all, self.count % all);
        START + round as i64 * SECOND + (at * SECOND as u64 / all) as i64
    }

    pub(super) fn next(&mut self) -> (SeriesId, EventTime, f64) {
        let time = self.now();
        let series = self.series[(self.count % self.series.len() as u64) as usize];
        self.count += 1;
        let value = (self.dice.next() >> 16) % 10_000;
        (series, EventTime(time), value as f64 / 100.0)
    }

    /// The next readings, in batches.
    pub(super) fn batches(&mut self, readings: usize) -> Vec<Batch> {
        let counts = (0..readings).step_by(BATCH);
        counts
            .map(|at| {
                let mut batch = Batch::new();
                for _ in at..readings.min(at + BATCH) {
                    let (series, time, value) = self.next();
                    batch.push(series, time, Some(value), None);
                }
                batch
            })
            .collect()
    }
}
