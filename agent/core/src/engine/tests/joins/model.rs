//! What the rules of joins say, as slow and obvious as can be: everything that ever came
//! is kept and looked at again at every step. What each kind of join does with it:
//! `model/kinds.rs`.

mod kinds;

use self::kinds::{Join, Line};
use super::{Change, Step};
use crate::engine::config::EngineConfig;
use crate::engine::tests::times::Times;

/// A reading as it came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    pub(super) device: &'static str,
    pub(super) channel: &'static str,
    pub(super) time: i64,
    pub(super) value: Option<i32>,
}

/// All that is known at a moment.
pub(super) struct World<'a> {
    config: &'a EngineConfig,
    times: Times<'a>,
    /// In order of the log.
    changes: Vec<Change>,
    /// Largest time of each table.
    newest: Vec<i64>,
}

/// What can be asked of the world.
impl World<'_> {
    /// Nothing of a table with a smaller time is still expected.
    fn known_until(&self, table: usize) -> i64 {
        let spec = &self.config.tables[table];
        if spec.is_static {
            return i64::MAX;
        }
        let seen = self.newest[table].max(self.times.now.unwrap_or(i64::MIN));
        seen.saturating_sub(spec.out_of_order.0)
            .max(self.times.floor)
    }

    /// The newest row of a key with a time of `until` or before, and since when it holds;
    /// of equal times the later in the log.
    fn row(&self, table: usize, key: &str, until: i64) -> Option<(&'static str, i64)> {
        let of_key = |c: &&Change| c.table == table && c.key == key && c.time <= until;
        let newest = self.changes.iter().filter(of_key).max_by_key(|c| c.time)?;
        newest.row.map(|row| (row, newest.time))
    }

    fn keys(&self, table: usize) -> Vec<&'static str> {
        let of_table = self.changes.iter().filter(|c| c.table == table);
        let mut keys: Vec<_> = of_table.map(|c| c.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

pub(super) struct Model<'a> {
    world: World<'a>,
    joins: Vec<Join<'a>>,
    pub(super) out: Vec<String>,
    pub(super) late_all: u64,
    pub(super) late_partial: u64,
}

impl<'a> Model<'a> {
    pub(super) fn new(config: &'a EngineConfig) -> Self {
        Self {
            world: World {
                config,
                times: Times::new(&config.time),
                changes: Vec::new(),
                newest: vec![i64::MIN; config.tables.len()],
            },
            joins: config.joins.iter().map(Join::new).collect(),
            out: Vec::new(),
            late_all: 0,
            late_partial: 0,
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Reading(reading) => self.reading(*reading),
            Step::Change(change) => self.change(change),
            Step::Clock(time) => self.clock(*time),
            Step::Watermark(device, time) => self.watermark(*device, *time),
        }
    }

    fn reading(&mut self, reading: Reading) {
        self.world.times.meet(reading.device);
        if self.world.times.is_future(reading.time) {
            let line = aside("quarantine", reading, "future");
            self.out.push(line);
            return;
        }
        // All that is judged is judged by what was known before it.
        let votes: Vec<_> = self
            .joins
            .iter_mut()
            .map(|join| join.reading(reading, &self.world))
            .collect();
        self.world.times.hear(reading.device, reading.time);
        self.end_step(&[]);
        let votes: Vec<bool> = votes.into_iter().flatten().collect();
        let late = votes.iter().filter(|late| **late).count();
        if late > 0 && late == votes.len() {
            self.late_all += 1;
            self.out.push(aside("late", reading, "late_all"));
        } else if late > 0 {
            self.late_partial += 1;
        }
    }

    fn change(&mut self, change: &Change) {
        if !self.world.times.is_future(change.time) {
            let newest = &mut self.world.newest[change.table];
            *newest = change.time.max(*newest);
        }
        if !change.is_heartbeat {
            self.world.changes.push(change.clone());
            for join in &mut self.joins {
                join.change(change, &self.world);
            }
        }
        self.end_step(&[]);
    }

    fn clock(&mut self, time: i64) {
        let silent = self.world.times.clock(time);
        self.end_step(&silent);
    }

    fn watermark(&mut self, device: Option<&'static str>, time: i64) {
        self.world.times.raise(device, time);
        self.end_step(&[]);
    }

    fn end_step(&mut self, silent: &[Option<&'static str>]) {
        for join in &mut self.joins {
            join.settle(&self.world, silent);
            let lines = join.take_lines();
            self.out.extend(lines.into_iter().map(Line::text));
        }
    }

    /// Readings that joins hold.
    pub(super) fn state_rows(&self) -> u64 {
        self.joins.iter().map(|join| join.held(&self.world)).sum()
    }
}

fn aside(stream: &str, reading: Reading, reason: &str) -> String {
    let inside = kinds::reading_json(reading);
    let inside = inside.trim_end_matches('}').trim_start_matches('{');
    format!("{{\"stream\":\"{stream}\",{inside},\"reason\":\"{reason}\"}}")
}
