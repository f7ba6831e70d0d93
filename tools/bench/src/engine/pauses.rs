//! How long one update of a rolling window takes, at its slowest.

use std::time::Instant;

use super::feed::{Feed, SECOND, Shape, pipeline, sliding};
use super::limits::Sizes;
use super::rates::{Running, SLIDING};

/// Of one shape of values, ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pauses {
    pub(super) shape: Shape,
    pub(super) median: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

impl Pauses {
    pub(super) fn ratio(&self) -> f64 {
        self.p999 / self.median
    }
}

/// Each update of a window that holds this many readings, for each shape.
pub(super) fn run(inside: u64, sizes: &Sizes) -> Result<Vec<Pauses>, String> {
    let saw = Shape::Saw { readings: inside };
    let shapes = [Shape::Wandering, Shape::Rising, Shape::Falling, saw];
    shapes
        .iter()
        .map(|shape| of(*shape, inside, sizes))
        .collect()
}

fn of(shape: Shape, inside: u64, sizes: &Sizes) -> Result<Pauses, String> {
    let interval = SECOND / 1_000;
    let config = pipeline(vec![sliding(inside as i64 * interval, &SLIDING)]);
    let mut running = Running::warm(&config, 1, interval, 0)?;
    let feed = Feed::new(&mut running.engine, 1, interval)?;
    running.feed = feed.shaped(shape);
    for batch in running.feed.batches(inside as usize + 10_000, 1_000) {
        running.step(&batch);
    }
    let mut took = Vec::with_capacity(sizes.updates);
    while took.len() < sizes.updates {
        for batch in running.feed.batches(10_000, 1) {
            let started = Instant::now();
            running.step(&batch);
            took.push(started.elapsed().as_nanos() as f64);
        }
    }
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    Ok(Pauses {
        shape,
        median: at(0.5),
        p999: at(0.999),
        max: at(1.0),
    })
}
