//! Readings per second through a join in memory.

use std::hint::black_box;

use forebay_core::change::ChangeOp;
use forebay_core::engine::Engine;
use forebay_core::engine::config::JoinType;
use forebay_core::engine::row::Rows;

use super::feed::{self, CHUNK, Feed, SECOND, Source};
use super::limits::{KEYS, TABLE_ROWS};
use crate::sys;

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    pub(super) readings_per_s: f64,
    /// With the rows as JSON lines, as they go into the log.
    pub(super) written_per_s: f64,
    /// Rows per reading.
    pub(super) rows: f64,
}

/// Readings of 100,000 devices, each with its row of a table.
pub(super) fn lookup(source: Source, rounds: usize) -> Result<Rate, String> {
    let mut engine = Engine::new(&feed::lookup(source, JoinType::Left));
    feed::fill_table(&mut engine, TABLE_ROWS);
    let feed = Feed::new(&mut engine, TABLE_ROWS, &["temperature"])?;
    measure(engine, feed, rounds, |engine, now, rows| {
        if source == Source::Database {
            let heartbeat = feed::change(feed::TABLE, ChangeOp::Heartbeat, "", now, None);
            engine.on_change(&heartbeat, rows);
        }
    })
}

/// Readings of two channels of 10,000 devices, each with those at most so far away.
pub(super) fn interval(reach: i64, rounds: usize) -> Result<Rate, String> {
    let mut engine = Engine::new(&feed::interval(reach, JoinType::Inner));
    let feed = Feed::new(&mut engine, KEYS, &["left", "right"])?;
    measure(engine, feed, rounds, |_, _, _| {})
}

/// How far apart readings may be so that about two pairs come of each.
pub(super) const REACH: i64 = SECOND;

fn measure(
    mut engine: Engine,
    mut feed: Feed,
    rounds: usize,
    between: impl Fn(&mut Engine, i64, &mut Rows),
) -> Result<Rate, String> {
    let mut rows = Rows::new();
    let (mut plain, mut written) = (Vec::new(), Vec::new());
    let mut text = Vec::new();
    let (mut count, mut readings) = (0_u64, 0_u64);
    // The first rounds warm up: all keys have been seen, and the oldest is gone.
    for round in 0..2 * rounds + 3 {
        let writes = round % 2 == 1;
        let mut ns = 0.0;
        let mut now = feed.now();
        for batch in feed.batches(CHUNK) {
            rows.clear();
            text.clear();
            let before = sys::thread_cpu_s()?;
            engine.on_batch(black_box(&batch), &mut rows);
            now += batch.len() as i64 * SECOND / feed.series_count() as i64;
            between(&mut engine, now, &mut rows);
            if writes {
                for row in engine.views(&rows) {
                    row.write_json(&mut text);
                    text.push(b'\n');
                }
            }
            black_box((&rows, &text));
            ns += (sys::thread_cpu_s()? - before) * 1e9;
            count += rows.len() as u64;
            readings += batch.len() as u64;
        }
        if round >= 3 {
            let of = if writes { &mut written } else { &mut plain };
            of.push(ns / CHUNK as f64);
        }
    }
    Ok(Rate {
        readings_per_s: 1e9 / median(&mut plain),
        written_per_s: 1e9 / median(&mut written),
        rows: count as f64 / readings as f64,
    })
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}
