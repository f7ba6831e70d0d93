//! What the rules of joins say, as slow and obvious as can be: everything that ever came
//! is kept and looked at again at every step. What each kind of join does with it:
//! `model/kinds.rs`.

mod kinds;

use std::collections::BTreeMap;

use self::kinds::{Join, Line};
use super::{Change, Step};
use crate::engine::config::{EngineConfig, IdleAfter};

/// A reading as it came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    pub(super) device: &'static str,
    pub(super) channel: &'static str,
    pub(super) time: i64,
    pub(super) value: Option<i32>,
}

#[derive(Clone, Copy, PartialEq)]
enum Heard {
    Never,
    BeforeTheClock,
    At(i64),
    Idle,
}

struct Device {
    newest: Option<i64>,
    floor: i64,
    heard: Heard,
}

/// All that is known at a moment.
pub(super) struct World<'a> {
    config: &'a EngineConfig,
    devices: BTreeMap<&'static str, Device>,
    floor: i64,
    now: Option<i64>,
    all: i64,
    /// In order of the log.
    changes: Vec<Change>,
    /// Largest time of each table.
    newest: Vec<i64>,
}

/// What can be asked of the world.
impl World<'_> {
    /// Of a device, or of all.
    fn watermark(&self, scope: Option<&str>) -> i64 {
        let Some(device) = scope.and_then(|name| self.devices.get(name)) else {
            return if scope.is_none() {
                self.all
            } else {
                self.floor
            };
        };
        let bound = self.config.time.out_of_order.0;
        let by_time = device.newest.map_or(i64::MIN, |t| t.saturating_sub(bound));
        by_time.max(device.floor).max(self.floor)
    }

    /// Nothing of a table with a smaller time is still expected.
    fn known_until(&self, table: usize) -> i64 {
        let spec = &self.config.tables[table];
        if spec.is_static {
            return i64::MAX;
        }
        let seen = self.newest[table].max(self.now.unwrap_or(i64::MIN));
        seen.saturating_sub(spec.out_of_order.0).max(self.floor)
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

    /// The least of those that are active; of none the largest; never back.
    fn move_all(&mut self) {
        let active = |d: &Device| matches!(d.heard, Heard::At(_) | Heard::BeforeTheClock);
        let of = |name: &&str| self.watermark(Some(name));
        let least = self.devices.iter().filter(|(_, d)| active(d));
        let least = least.map(|(name, _)| of(name)).min();
        let heard = self.devices.iter().filter(|(_, d)| d.newest.is_some());
        let largest = heard.map(|(name, _)| of(name)).max();
        let all = least.or(largest).unwrap_or(self.floor);
        self.all = self.all.max(all).max(self.floor);
    }

    fn device(&mut self, name: &'static str) -> &mut Device {
        self.devices.entry(name).or_insert(Device {
            newest: None,
            floor: i64::MIN,
            heard: Heard::Never,
        })
    }

    /// The scopes that fall silent now.
    fn silent(&mut self, now: i64) -> Vec<Option<&'static str>> {
        let IdleAfter::After(patience) = self.config.time.idle_after else {
            panic!("the model knows a fixed patience only");
        };
        let mut silent: Vec<Option<&'static str>> = Vec::new();
        for (name, device) in &mut self.devices {
            match device.heard {
                Heard::BeforeTheClock => device.heard = Heard::At(now),
                Heard::At(heard) if now - heard >= patience.0 => {
                    device.heard = Heard::Idle;
                    silent.push(Some(name));
                }
                Heard::At(_) | Heard::Never | Heard::Idle => {}
            }
        }
        if !silent.is_empty() {
            self.move_all();
            let active = |d: &Device| matches!(d.heard, Heard::At(_) | Heard::BeforeTheClock);
            if !self.devices.values().any(active) {
                silent.push(None);
            }
        }
        silent
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
                devices: BTreeMap::new(),
                floor: i64::MIN,
                now: None,
                all: i64::MIN,
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
        self.world.device(reading.device);
        let guard = self.world.config.time.future_guard.0;
        if self.world.now.is_some_and(|now| reading.time > now + guard) {
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
        let heard = self.world.now.map_or(Heard::BeforeTheClock, Heard::At);
        let known = self.world.device(reading.device);
        known.newest = known.newest.max(Some(reading.time));
        known.heard = heard;
        self.world.move_all();
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
        let guard = self.world.config.time.future_guard.0;
        if self.world.now.is_none_or(|now| change.time <= now + guard) {
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
        let now = self.world.now.map_or(time, |now| now.max(time));
        self.world.now = Some(now);
        let silent = self.world.silent(now);
        self.end_step(&silent);
    }

    fn watermark(&mut self, device: Option<&'static str>, time: i64) {
        match device {
            None => self.world.floor = self.world.floor.max(time),
            Some(name) => {
                let known = self.world.device(name);
                known.floor = known.floor.max(time);
            }
        }
        self.world.move_all();
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
