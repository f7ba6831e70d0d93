//! The newest readings of one key in time order, with the figures of the part
//! that a cursor covers. Moving the cursor on puts readings in and takes them
//! out exactly, one by one.
//!
//! Memory: 16 bytes per reading younger than `W - size`, and as much again at
//! most for each of smallest and largest.

use std::cmp::Ordering;
use std::collections::VecDeque;

use crate::engine::config::{Aggregate, Bounds};
use crate::engine::figures::{Growing, View, Wants, nth};
use crate::engine::row::Cells;
use crate::limits::EXACT_RANKS_MAX;
use crate::num::moments::Moments;
use crate::num::sketch::Sketch;
use crate::units::EventTime;

/// The readings that end at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    pub(super) size: i64,
    pub(super) bounds: Bounds,
}

impl Reach {
    /// Whether the window that ends at `at` reaches back to `time`.
    pub(super) fn covers(self, time: i64, at: i64) -> bool {
        let oldest = at.saturating_sub(self.size);
        match self.bounds {
            Bounds::HalfOpen => time > oldest,
            Bounds::Closed => time >= oldest,
        }
    }
}

/// Readings with a value, by time; equal times in order of arrival.
#[derive(Debug)]
pub(super) struct Tail {
    values: VecDeque<(i64, f64)>,
    /// `values[head..tail]` is what the cursor covers.
    head: usize,
    tail: usize,
    cursor: i64,
    moments: Moments,
    /// Those that can still become the smallest (largest), by time.
    lows: Peaks,
    highs: Peaks,
    sketch: Option<Sketch>,
    scratch: Vec<f64>,
}

impl Tail {
    pub(super) fn new(wants: Wants) -> Self {
        Self {
            values: VecDeque::new(),
            head: 0,
            tail: 0,
            cursor: i64::MIN,
            moments: Moments::new(wants.squares),
            lows: Peaks::new(Ordering::Less),
            highs: Peaks::new(Ordering::Greater),
            sketch: wants.ranks.then(Sketch::default),
            scratch: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Time of the newest reading.
    pub(super) fn newest(&self) -> Option<i64> {
        self.values.back().map(|(time, _)| *time)
    }

    /// Puts a reading in, wherever its time is.
    pub(super) fn insert(&mut self, time: i64, x: f64, reach: Reach) {
        let at = match self.values.back() {
            Some((newest, _)) if *newest > time => self.values.partition_point(|(t, _)| *t <= time),
            Some(_) | None => self.values.len(),
        };
        self.values.insert(at, (time, x));
        if time > self.cursor {
            return;
        }
        self.tail += 1;
        if reach.covers(time, self.cursor) {
            self.put(time, x);
        } else {
            self.head += 1;
        }
    }

    fn put(&mut self, time: i64, x: f64) {
        self.moments.add(x);
        if x.is_nan() {
            return;
        }
        self.lows.put(time, x);
        self.highs.put(time, x);
        if let Some(sketch) = &mut self.sketch {
            sketch.add(x);
        }
    }

    fn take(&mut self, x: f64) {
        self.moments.sub(x);
        if let Some(sketch) = self.sketch.as_mut().filter(|_| !x.is_nan()) {
            sketch.sub(x);
        }
    }

    /// Moves the cursor to `at`, which is not before where it is.
    fn move_to(&mut self, at: i64, reach: Reach) {
        while let Some((time, x)) = self.values.get(self.tail).copied().filter(|v| v.0 <= at) {
            self.put(time, x);
            self.tail += 1;
        }
        while self.head < self.tail && !reach.covers(self.values[self.head].0, at) {
            let (_, x) = self.values[self.head];
            self.take(x);
            self.head += 1;
        }
        self.lows.forget(at, reach);
        self.highs.forget(at, reach);
        self.cursor = at;
    }

    /// The figures of the window that ends at `at`.
    pub(super) fn figures_at(&mut self, at: i64, reach: Reach, aggregates: &[Aggregate]) -> Cells {
        if at < self.cursor {
            return self
                .scan(at, reach, Wants::of(aggregates))
                .cells(aggregates);
        }
        self.move_to(at, reach);
        let inside = self.values.range(self.head..self.tail);
        let exact = self.tail - self.head <= EXACT_RANKS_MAX;
        if exact && self.sketch.is_some() {
            self.scratch.clear();
            self.scratch
                .extend(inside.map(|(_, x)| *x).filter(|x| !x.is_nan()));
        }
        let end = |at: Option<usize>| at.and_then(|at| self.values.get(at)).map(|(_, x)| *x);
        let some = self.head < self.tail;
        View {
            moments: &self.moments,
            low: self.lows.first(),
            high: self.highs.first(),
            first: end(some.then_some(self.head)),
            last: end(self.tail.checked_sub(1).filter(|_| some)),
            rank: &mut |k| {
                if exact {
                    nth(&mut self.scratch, k)
                } else {
                    self.sketch.as_ref().and_then(|s| s.at_rank(k))
                }
            },
        }
        .cells(aggregates)
    }

    /// The same without the cursor, reading by reading.
    pub(super) fn scan(&self, at: i64, reach: Reach, wants: Wants) -> Growing {
        let mut figures = Growing::new(wants);
        let from = self
            .values
            .partition_point(|(time, _)| !reach.covers(*time, at));
        for (time, x) in self
            .values
            .range(from..)
            .take_while(|(time, _)| *time <= at)
        {
            figures.add(EventTime(*time), *x);
        }
        figures
    }

    /// Drops what no window that ends at the watermark or later reaches.
    pub(super) fn prune(&mut self, watermark: i64, reach: Reach) {
        while let Some((time, x)) = self.values.front().copied() {
            if reach.covers(time, watermark) {
                break;
            }
            self.values.pop_front();
            if self.head > 0 {
                self.head -= 1;
                self.tail -= 1;
            } else if self.tail > 0 {
                self.take(x);
                self.tail -= 1;
            }
        }
        self.lows.forget(watermark, reach);
        self.highs.forget(watermark, reach);
    }
}

/// A monotonic queue: what is younger and better makes the older useless.
#[derive(Debug)]
struct Peaks {
    /// By time; the best first.
    queue: VecDeque<(i64, f64)>,
    better: Ordering,
}

impl Peaks {
    fn new(better: Ordering) -> Self {
        Self {
            queue: VecDeque::new(),
            better,
        }
    }

    fn put(&mut self, time: i64, x: f64) {
        let better = self.better;
        let beats = |a: f64, b: f64| a.total_cmp(&b) == better || a.total_cmp(&b).is_eq();
        let mut at = match self.queue.back() {
            Some((newest, _)) if *newest > time => self.queue.partition_point(|(t, _)| *t <= time),
            Some(_) | None => self.queue.len(),
        };
        if self
            .queue
            .get(at)
            .is_some_and(|(_, younger)| beats(*younger, x))
        {
            return;
        }
        while at > 0 && beats(x, self.queue[at - 1].1) {
            at -= 1;
            self.queue.remove(at);
        }
        self.queue.insert(at, (time, x));
    }

    fn forget(&mut self, at: i64, reach: Reach) {
        while self
            .queue
            .front()
            .is_some_and(|(time, _)| !reach.covers(*time, at))
        {
            self.queue.pop_front();
        }
    }

    fn first(&self) -> Option<f64> {
        self.queue.front().map(|(_, x)| *x)
    }
}
