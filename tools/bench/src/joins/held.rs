//! What joins hold: nothing after the end of time, and how many bytes per row before.

use forebay_core::change::ChangeOp;
use forebay_core::engine::config::{EngineConfig, JoinType};
use forebay_core::engine::row::Rows;
use forebay_core::engine::{Batch, Engine};
use forebay_core::units::EventTime;

use super::feed::{self, Feed, SECOND, START, Source};
use super::limits::KEYS;
use crate::memory;

/// Every kind of join, with a name and its pipeline.
fn kinds() -> Vec<(String, EngineConfig, &'static [&'static str])> {
    let types = [
        ("inner", JoinType::Inner),
        ("left", JoinType::Left),
        ("full", JoinType::Full),
    ];
    let mut kinds = Vec::new();
    for (name, join_type) in types {
        let interval = feed::interval(SECOND, join_type);
        kinds.push((
            format!("interval, {name}"),
            interval,
            &["left", "right"][..],
        ));
        let tables = feed::foreign_key(join_type);
        kinds.push((format!("table-table, {name}"), tables, &[][..]));
        if join_type != JoinType::Full {
            let lookup = feed::lookup(Source::Database, join_type);
            kinds.push((format!("lookup, {name}"), lookup, &["t"][..]));
        }
    }
    kinds
}

/// Rows held by a join over 10,000 keys.
#[derive(Debug)]
pub(super) struct State {
    pub(super) name: String,
    /// Before the end of time.
    pub(super) before: u64,
    /// After it.
    pub(super) after: u64,
    /// Rows that came out in all.
    pub(super) rows: usize,
}

/// Of each kind of join, a reading per series, or a row per key, and then the end.
pub(super) fn states() -> Result<Vec<State>, String> {
    kinds().into_iter().map(state).collect()
}

fn state((name, config, channels): (String, EngineConfig, &[&str])) -> Result<State, String> {
    let mut engine = Engine::new(&config);
    let mut rows = Rows::new();
    if name.starts_with("lookup") {
        feed::fill_table(&mut engine, KEYS);
    }
    if channels.is_empty() {
        rows_of_tables(&mut engine, &mut rows);
    } else {
        let mut feed = Feed::new(&mut engine, KEYS, channels)?;
        let count = feed.series_count();
        for batch in feed.batches(count) {
            engine.on_batch(&batch, &mut rows);
        }
    }
    let before = engine.state_rows();
    engine.finish(&mut rows);
    Ok(State {
        name,
        before,
        after: engine.state_rows(),
        rows: rows.len(),
    })
}

fn rows_of_tables(engine: &mut Engine, rows: &mut Rows) {
    for n in 0..KEYS {
        let machine = format!("{{\"id\":\"m{n}\",\"plant\":\"p{n}\"}}");
        let plant = format!("{{\"id\":\"p{n}\"}}");
        for (table, key, row) in [
            ("machines", format!("m{n}"), machine),
            ("plants", format!("p{n}"), plant),
        ] {
            let change = feed::change(table, ChangeOp::Insert, &key, START, Some(&row));
            engine.on_change(&change, rows);
        }
    }
}

/// Bytes on the heap per row that a join holds, of 10,000 keys with some rows each.
#[derive(Debug)]
pub(super) struct Weight {
    pub(super) name: &'static str,
    pub(super) held: u64,
    pub(super) bytes_each: f64,
}

/// Rows of each key.
const PER_KEY: usize = 20;

pub(super) fn weights() -> Result<Vec<Weight>, String> {
    let long = 3_600 * SECOND;
    [
        (
            "interval",
            feed::interval(long, JoinType::Left),
            &["left"][..],
        ),
        (
            "lookup",
            feed::lookup(Source::Database, JoinType::Left),
            &["t"][..],
        ),
    ]
    .into_iter()
    .map(|(name, config, channels)| weight(name, &config, channels))
    .collect()
}

fn weight(name: &'static str, config: &EngineConfig, channels: &[&str]) -> Result<Weight, String> {
    let mut engine = Engine::new(config);
    let mut feed = Feed::new(&mut engine, KEYS, channels)?;
    let mut rows = Rows::new();
    // What a series costs by itself is not counted, nor what a first batch leaves behind.
    let mut warm = Batch::new();
    let (series, _, value) = feed.next();
    warm.push(series, EventTime(feed.now()), Some(value), None);
    engine.on_batch(&warm, &mut rows);
    let held_before = engine.state_rows();
    let before = memory::start();
    for _ in 0..PER_KEY {
        for batch in feed.batches(KEYS) {
            engine.on_batch(&batch, &mut rows);
            rows.clear();
        }
    }
    let after = memory::stop();
    let held = engine.state_rows() - held_before;
    Ok(Weight {
        name,
        held,
        bytes_each: (after - before) as f64 / held as f64,
    })
}
