//! Readings per second in memory, and how the cost of one changes with the number of
//! series and the size of windows.

use std::hint::black_box;

use forebay_core::engine::config::{Aggregate, EngineConfig};
use forebay_core::engine::row::Rows;
use forebay_core::engine::{Batch, Engine};

use super::feed::{BATCH, Feed, MINUTE, SECOND, pipeline, sliding, tumbling};
use super::limits::Sizes;
use crate::sys;

pub(super) const TUMBLING: [Aggregate; 4] = [
    Aggregate::Count,
    Aggregate::Mean,
    Aggregate::Min,
    Aggregate::Max,
];
pub(super) const SLIDING: [Aggregate; 2] = [Aggregate::Mean, Aggregate::Max];
const P95: Aggregate = Aggregate::Percentile(95);

/// What an engine is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Tumbling,
    Sliding,
    /// Both in one pipeline, each with p95 more.
    BothRanked,
}

impl Task {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tumbling => "tumbling 1 min: count, mean, min, max",
            Self::Sliding => "sliding 60 s: mean, max",
            Self::BothRanked => "both, each with p95",
        }
    }

    pub(super) fn config(self, size: i64) -> EngineConfig {
        pipeline(match self {
            Self::Tumbling => vec![tumbling(size, &TUMBLING)],
            Self::Sliding => vec![sliding(size, &SLIDING)],
            Self::BothRanked => vec![
                tumbling(size, &[&TUMBLING[..], &[P95]].concat()),
                sliding(size, &[&SLIDING[..], &[P95]].concat()),
            ],
        })
    }
}

/// An engine with what feeds it.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) engine: Engine,
    pub(super) feed: Feed,
    pub(super) rows: Rows,
}

impl Running {
    /// One that has seen this many readings.
    pub(super) fn warm(
        config: &EngineConfig,
        series: usize,
        interval: i64,
        readings: usize,
    ) -> Result<Self, String> {
        let mut engine = Engine::new(config);
        let feed = Feed::new(&mut engine, series, interval)?;
        let mut running = Self {
            engine,
            feed,
            rows: Rows::new(),
        };
        let mut left = readings;
        while left > 0 {
            let now = left.min(CHUNK);
            for batch in running.feed.batches(now, BATCH) {
                running.step(&batch);
            }
            left -= now;
        }
        Ok(running)
    }

    pub(super) fn step(&mut self, batch: &Batch) {
        self.rows.clear();
        self.engine.on_batch(black_box(batch), &mut self.rows);
        black_box(&self.rows);
    }

    /// Nanoseconds per reading: the median of some rounds.
    pub(super) fn ns_each(&mut self, sizes: &Sizes) -> Result<f64, String> {
        let mut rounds = Vec::new();
        for _ in 0..sizes.rounds {
            let batches = self.feed.batches(CHUNK, BATCH);
            let before = sys::thread_cpu_s()?;
            for batch in &batches {
                self.step(batch);
            }
            rounds.push((sys::thread_cpu_s()? - before) * 1e9 / CHUNK as f64);
        }
        Ok(median(&mut rounds))
    }
}

/// Readings that are made at once, so that making them is in no figure.
const CHUNK: usize = 500 * BATCH;

pub(super) fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Readings per second of a task over so many series at 1 Hz.
pub(super) fn rate(task: Task, series: usize, sizes: &Sizes) -> Result<f64, String> {
    let warm_up = CHUNK.max(70 * series);
    let mut running = Running::warm(&task.config(MINUTE), series, SECOND, warm_up)?;
    Ok(1e9 / running.ns_each(sizes)?)
}

/// Series over which the cost must be flat.
pub(super) const SERIES: [usize; 4] = [10, 100, 1_000, 10_000];
/// Windows over which it must be, s.
pub(super) const WINDOWS_S: [i64; 4] = [1, 60, 3_600, 86_400];
/// Series of these windows, at 10 Hz.
const WINDOW_SERIES: usize = 10;
const WINDOW_INTERVAL: i64 = SECOND / 10;

/// Nanoseconds per reading by number of series.
pub(super) fn by_series(task: Task, sizes: &Sizes) -> Result<Vec<f64>, String> {
    let ns = |series: &usize| Ok(1e9 / rate(task, *series, sizes)?);
    SERIES.iter().map(ns).collect()
}

/// Nanoseconds per reading by size of the window, each full before it counts.
pub(super) fn by_window(task: Task, sizes: &Sizes) -> Result<Vec<f64>, String> {
    let ns = |seconds: &i64| {
        let full = seconds.min(&sizes.window_s_max) * SECOND / WINDOW_INTERVAL;
        let warm_up = CHUNK.max(full as usize * WINDOW_SERIES);
        let config = task.config(seconds * SECOND);
        let mut running = Running::warm(&config, WINDOW_SERIES, WINDOW_INTERVAL, warm_up)?;
        running.ns_each(sizes)
    };
    WINDOWS_S.iter().map(ns).collect()
}
