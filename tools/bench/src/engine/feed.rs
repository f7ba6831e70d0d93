//! Readings for an engine in memory: the same on every machine, in order of time, one
//! of each series in turn, values of two decimals that wander.

use forebay_core::engine::config::{
    Aggregate, Bounds, EngineConfig, Grid, TimeRules, WindowKind, WindowSpec,
};
use forebay_core::engine::{Batch, Engine, SeriesId};
use forebay_core::units::{EventTime, Span};

use crate::data::Dice;

/// Readings that an engine is given at once: about what a block of the log holds.
pub(super) const BATCH: usize = 1_024;
/// 2026-03-01T00:00:00Z.
const START: i64 = 1_772_323_200_000_000;

pub(super) const SECOND: i64 = 1_000_000;
pub(super) const MINUTE: i64 = 60 * SECOND;

/// A pipeline of these windows.
pub(super) fn pipeline(windows: Vec<WindowSpec>) -> EngineConfig {
    EngineConfig {
        time: TimeRules::default(),
        windows,
        ..EngineConfig::default()
    }
}

pub(super) fn tumbling(size: i64, aggregates: &[Aggregate]) -> WindowSpec {
    let grid = Grid::Fixed {
        size: Span(size),
        offset: Span(0),
    };
    WindowSpec {
        aggregates: aggregates.to_vec(),
        ..WindowSpec::new("tumbling", WindowKind::Tumbling(grid))
    }
}

pub(super) fn sliding(size: i64, aggregates: &[Aggregate]) -> WindowSpec {
    let kind = WindowKind::Sliding {
        size: Span(size),
        bounds: Bounds::HalfOpen,
    };
    WindowSpec {
        aggregates: aggregates.to_vec(),
        ..WindowSpec::new("sliding", kind)
    }
}

/// How values go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Wandering,
    /// Each is larger than the one before.
    Rising,
    Falling,
    /// Falls for as long as the window, then jumps up: what makes a queue of
    /// candidates for the largest long, and then throws all of it away.
    Saw {
        readings: u64,
    },
}

impl Shape {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wandering => "wandering",
            Self::Rising => "rising",
            Self::Falling => "falling",
            Self::Saw { .. } => "falling, then a jump",
        }
    }
}

/// Gives readings of some series.
#[derive(Debug)]
pub(super) struct Feed {
    series: Vec<SeriesId>,
    /// 0.01 of the unit.
    values: Vec<i64>,
    shape: Shape,
    /// Between two readings of a series, us.
    interval: i64,
    dice: Dice,
    count: u64,
}

impl Feed {
    /// Of as many devices, one channel each, which the engine is told of.
    pub(super) fn new(engine: &mut Engine, series: usize, interval: i64) -> Result<Self, String> {
        let add = |n| engine.series(&format!("device-{n}"), "temperature");
        let ids: Result<Vec<_>, _> = (0..series).map(add).collect();
        Ok(Self {
            series: ids.map_err(|error| error.to_string())?,
            values: vec![2_150; series],
            shape: Shape::Wandering,
            interval,
            dice: Dice(series as u64),
            count: 0,
        })
    }

    pub(super) fn shaped(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    pub(super) fn next(&mut self) -> (SeriesId, EventTime, f64) {
        let all = self.series.len() as u64;
        let (round, at) = (self.count / all, (self.count % all) as usize);
        let time = START + round as i64 * self.interval + at as i64 * self.interval / all as i64;
        self.count += 1;
        let value = &mut self.values[at];
        *value = match self.shape {
            Shape::Wandering => *value + (self.dice.next() >> 16) as i64 % 41 - 20,
            Shape::Rising => round as i64,
            Shape::Falling => -(round as i64),
            Shape::Saw { readings } => -((round % readings) as i64),
        };
        (self.series[at], EventTime(time), *value as f64 / 100.0)
    }

    /// The next readings, in batches of this size.
    pub(super) fn batches(&mut self, readings: usize, each: usize) -> Vec<Batch> {
        let full = |count: usize| {
            let mut batch = Batch::new();
            for _ in 0..count {
                let (series, time, value) = self.next();
                batch.push(series, time, Some(value), None);
            }
            batch
        };
        let counts = (0..readings)
            .step_by(each)
            .map(|at| each.min(readings - at));
        counts.map(full).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_come_in_order_and_the_same_each_time() {
        let given = || {
            let mut engine = Engine::new(&pipeline(vec![tumbling(MINUTE, &[Aggregate::Mean])]));
            let mut feed = Feed::new(&mut engine, 3, SECOND).unwrap();
            (0..300).map(|_| feed.next()).collect::<Vec<_>>()
        };
        let readings = given();
        assert_eq!(readings, given());
        assert!(readings.is_sorted_by_key(|(_, time, _)| *time));
        assert_eq!(readings[3].1.0 - readings[0].1.0, SECOND);
        assert_ne!(readings[0].0, readings[1].0);
    }

    #[test]
    fn a_saw_falls_and_jumps() {
        let mut engine = Engine::new(&pipeline(Vec::new()));
        let saw = Shape::Saw { readings: 3 };
        let mut feed = Feed::new(&mut engine, 1, SECOND).unwrap().shaped(saw);
        let values: Vec<f64> = (0..5).map(|_| feed.next().2).collect();
        assert_eq!(values, [-0.0, -0.01, -0.02, -0.0, -0.01]);
    }

    #[test]
    fn batches_hold_all_readings() {
        let mut engine = Engine::new(&pipeline(Vec::new()));
        let mut feed = Feed::new(&mut engine, 2, SECOND).unwrap();
        let lengths: Vec<usize> = feed.batches(10, 4).iter().map(Batch::len).collect();
        assert_eq!(lengths, [4, 4, 2]);
    }
}
