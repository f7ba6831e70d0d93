//! The newest readings of one key in time order, with the figures of the part
//! that a cursor covers. Moving the cursor on puts readings in and takes them
//! out exactly, one by one.
//!
//! Memory: 16 bytes per reading younger than `W - size`, and as much again at
//! most for each of smallest and largest, where they are asked for.

use std::cmp::Ordering;
use std::collections::VecDeque;

use crate::engine::config::{Aggregate, Bounds};
use crate::engine::figures::{Figures, View, Wants, nth};
use crate::engine::state;
use crate::limits::EXACT_RANKS_MAX;
use crate::log::bytes::{Malformed, Reader, put_zigzag};
use crate::num::moments::Moments;
use crate::num::sketch::Sketch;

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
    lows: Option<Peaks>,
    highs: Option<Peaks>,
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
            lows: wants.low.then(|| Peaks::new(Ordering::Less)),
            highs: wants.high.then(|| Peaks::new(Ordering::Greater)),
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
        for peaks in [&mut self.lows, &mut self.highs].into_iter().flatten() {
            peaks.put(time, x);
        }
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
        self.forget_peaks(at, reach);
        self.cursor = at;
    }

    /// The figures of the window that ends at `at`.
    pub(super) fn figures_at(
        &mut self,
        at: i64,
        reach: Reach,
        aggregates: &[Aggregate],
        cells: &mut Vec<u64>,
    ) {
        if at < self.cursor {
            let mut figures = self.scan(at, reach, Wants::of(aggregates));
            return figures.write(aggregates, cells);
        }
        self.move_to(at, reach);
        let inside = self.values.range(self.head..self.tail);
        let ranked = self.moments.count() - self.moments.nan_count();
        let exact = ranked <= EXACT_RANKS_MAX as u64;
        if exact && self.sketch.is_some() {
            self.scratch.clear();
            self.scratch
                .extend(inside.map(|(_, x)| *x).filter(|x| !x.is_nan()));
        }
        let end = |at: Option<usize>| at.and_then(|at| self.values.get(at)).map(|(_, x)| *x);
        let some = self.head < self.tail;
        View {
            moments: &self.moments,
            low: self.lows.as_ref().and_then(Peaks::first),
            high: self.highs.as_ref().and_then(Peaks::first),
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
        .write(aggregates, cells);
    }

    /// The same without the cursor, reading by reading.
    pub(super) fn scan(&self, at: i64, reach: Reach, wants: Wants) -> Figures {
        let mut figures = Figures::new(wants);
        let from = self
            .values
            .partition_point(|(time, _)| !reach.covers(*time, at));
        for (time, x) in self
            .values
            .range(from..)
            .take_while(|(time, _)| *time <= at)
        {
            figures.add(*time, *x);
        }
        figures
    }

    /// Appends the readings.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        state::put_len(out, self.values.len());
        for (time, x) in &self.values {
            put_zigzag(out, *time);
            state::put_f64(out, *x);
        }
    }

    /// Reads them into a tail that is empty.
    pub(super) fn decode(&mut self, from: &mut Reader<'_>) -> Result<(), Malformed> {
        for _ in 0..state::len(from)? {
            let (time, x) = (from.zigzag()?, state::f64(from)?);
            if self.newest().is_some_and(|newest| newest > time) {
                return Err(from.malformed());
            }
            self.values.push_back((time, x));
        }
        Ok(())
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
        self.forget_peaks(watermark, reach);
    }

    fn forget_peaks(&mut self, at: i64, reach: Reach) {
        for peaks in [&mut self.lows, &mut self.highs].into_iter().flatten() {
            peaks.forget(at, reach);
        }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::config::AGGREGATE_NAMES;

    fn all() -> Vec<Aggregate> {
        let named = AGGREGATE_NAMES.iter().map(|(_, a)| *a);
        named
            .chain([1, 50, 99].map(Aggregate::Percentile))
            .collect()
    }

    fn value() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => (-300_i32..300).prop_map(|n| f64::from(n) / 10.0),
            1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
            1 => prop_oneof![Just(-0.0), Just(0.0), Just(1e300), Just(5e-324)],
        ]
    }

    proptest! {
        #[test]
        fn the_cursor_says_what_a_scan_says(
            steps in prop::collection::vec((0_i64..60, value(), 0_u8..4), 1..80),
            size in 1_i64..30,
            closed: bool,
        ) {
            let bounds = if closed { Bounds::Closed } else { Bounds::HalfOpen };
            let reach = Reach { size, bounds };
            let aggregates = all();
            let wants = Wants::of(&aggregates);
            let mut tail = Tail::new(wants);
            let mut watermark = i64::MIN;
            for (time, x, what) in steps {
                if what == 0 {
                    watermark = watermark.max(time - 20);
                    tail.prune(watermark, reach);
                }
                if reach.covers(time, watermark) {
                    tail.insert(time, x, reach);
                }
                // Only windows that end at the watermark or later are asked for.
                let at = time.max(watermark);
                let (mut got, mut want) = (Vec::new(), Vec::new());
                tail.scan(at, reach, wants).write(&aggregates, &mut want);
                tail.figures_at(at, reach, &aggregates, &mut got);
                prop_assert_eq!(got, want);
            }
        }
    }

    #[test]
    fn percentiles_change_over_and_back_at_the_limit() {
        let reach = Reach {
            size: EXACT_RANKS_MAX as i64 + 1,
            bounds: Bounds::HalfOpen,
        };
        let p99 = [Aggregate::Percentile(99)];
        let mut tail = Tail::new(Wants::of(&p99));
        let at = |tail: &mut Tail, at: i64| {
            let mut cells = Vec::new();
            tail.figures_at(at, reach, &p99, &mut cells);
            f64::from_bits(cells[0])
        };
        for n in 0..=EXACT_RANKS_MAX as i64 {
            tail.insert(n, 1000.0 + n as f64, reach);
        }
        let last = EXACT_RANKS_MAX as i64;
        for (name, end, held) in [
            ("limit", last - 1, EXACT_RANKS_MAX),
            ("limit + 1", last, EXACT_RANKS_MAX + 1),
            ("limit again", last + 1, EXACT_RANKS_MAX),
        ] {
            let oldest = if end > last { 1.0 } else { 0.0 };
            let want = 1000.0 + oldest + (held as f64 * 0.99).ceil() - 1.0;
            let got = at(&mut tail, end);
            assert_eq!(
                got == want,
                held <= EXACT_RANKS_MAX,
                "{name}: {got} for {want}"
            );
            assert!((got - want).abs() < want * 0.01, "{name}: {got} for {want}");
        }
    }
}
