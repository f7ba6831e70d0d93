//! The least that a join can be: a loop over the same readings that finds what belongs
//! together, and does nothing else. No watermark, no order of arrival, no state that is
//! kept.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::sync::Arc;

use super::feed;
use super::limits::TABLE_ROWS;
use crate::data::Dice;
use crate::sys;

/// A reading by its names, as one comes in from outside.
struct Named {
    device: Arc<str>,
    is_left: bool,
    time: i64,
    value: f64,
}

fn readings(devices: usize, count: usize) -> Vec<Named> {
    let names: Vec<Arc<str>> = (0..devices).map(|n| feed::device(n).into()).collect();
    let mut dice = Dice(devices as u64);
    let one = |n: usize| Named {
        device: Arc::clone(&names[(dice.next() >> 16) as usize % devices]),
        is_left: n.is_multiple_of(2),
        time: n as i64 * feed::SECOND / (2 * devices) as i64,
        value: n as f64 / 100.0,
    };
    (0..count).map(one).collect()
}

/// Readings per second, each looked up by its device in a hash map of texts.
pub(super) fn lookups_per_s(rounds: usize) -> Result<f64, String> {
    let table: HashMap<Arc<str>, Arc<str>> = (0..TABLE_ROWS)
        .map(|n| (feed::device(n).into(), feed::row(n).into()))
        .collect();
    let readings = readings(TABLE_ROWS, feed::CHUNK);
    let mut found: Vec<(i64, f64, Option<Arc<str>>)> = Vec::with_capacity(feed::BATCH);
    best(rounds, || {
        for batch in readings.chunks(feed::BATCH) {
            found.clear();
            for reading in batch {
                let row = table.get(&reading.device).cloned();
                found.push((reading.time, reading.value, row));
            }
            black_box(&found);
        }
    })
}

/// Readings per second, each paired with those of the other side in a queue per device.
pub(super) fn intervals_per_s(devices: usize, reach: i64, rounds: usize) -> Result<f64, String> {
    type Sides = [VecDeque<(i64, f64)>; 2];
    let readings = readings(devices, feed::CHUNK);
    let mut pairs: Vec<(i64, f64, f64)> = Vec::with_capacity(feed::BATCH);
    best(rounds, || {
        let mut by_device: HashMap<Arc<str>, Sides> = HashMap::new();
        for batch in readings.chunks(feed::BATCH) {
            pairs.clear();
            for reading in batch {
                let sides = by_device.entry(Arc::clone(&reading.device)).or_default();
                let own = usize::from(reading.is_left);
                let other = &mut sides[1 - own];
                while other
                    .front()
                    .is_some_and(|(time, _)| *time < reading.time - reach)
                {
                    other.pop_front();
                }
                for (time, value) in other.iter() {
                    pairs.push((reading.time.max(*time), *value, reading.value));
                }
                sides[own].push_back((reading.time, reading.value));
            }
            black_box(&pairs);
        }
    })
}

fn best(rounds: usize, mut run: impl FnMut()) -> Result<f64, String> {
    let mut least = f64::MAX;
    for _ in 0..rounds.max(2) {
        let before = sys::thread_cpu_s()?;
        run();
        least = least.min(sys::thread_cpu_s()? - before);
    }
    Ok(feed::CHUNK as f64 / least)
}
