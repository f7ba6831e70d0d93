//! The newest readings of one key in time order, with the figures of the part
//! that a cursor covers. Moving the cursor puts readings in and takes them out
//! exactly, one by one, so figures never drift and cost what the cursor passes.
//!
//! Memory: what windows that end at the watermark or later reach, at most
//! [`TAIL_READINGS_MAX`](crate::limits::TAIL_READINGS_MAX) readings; 16 bytes each, and a few bits to a few bytes
//! where full chunks lie between the ends of the window. No step moves or reads
//! more than a few chunks and the heads of all. Knows no windows and no watermark
//! but those it is asked for.

mod cursor;
mod inside;
mod list;
mod pack;
mod peaks;
mod state;
#[cfg(test)]
mod tests;

use crate::engine::config::{Aggregate, Bounds};
use crate::engine::figures::{Wants, cell};
use crate::num::order::{Extent, place};

use self::inside::Inside;
use self::list::{List, Place, Shift};
use self::peaks::Peaks;

/// The readings that belong to a window that ends at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    pub(super) size: i64,
    pub(super) bounds: Bounds,
}

impl Reach {
    /// Whether the window that ends at `at` reaches back to `time`.
    #[inline]
    pub(super) fn covers(self, time: i64, at: i64) -> bool {
        let oldest = at.saturating_sub(self.size);
        match self.bounds {
            Bounds::HalfOpen => time > oldest,
            Bounds::Closed => time >= oldest,
        }
    }
}

/// The readings of one key, by time; equal times in order of arrival.
#[derive(Debug)]
pub(super) struct Tail {
    list: List,
    /// Readings before it are gone: nothing reaches them any more.
    floor: Place,
    /// The cursor covers `from` up to before `to`. `from` is in its one form where
    /// a reading is covered, `to` stands in the chunk of the last one covered.
    from: Place,
    to: Place,
    /// Readings in the list, those of them before `floor`, and those covered.
    held: usize,
    dead: usize,
    covered: usize,
    /// Time of the cursor: the window that ends there is covered.
    until: i64,
    watermark: i64,
    inside: Inside,
    peaks: Option<Peaks>,
    /// Time of the newest reading that left early.
    truncated: Option<i64>,
    restoring: Option<Box<state::Restoring>>,
}

impl Tail {
    pub(super) fn new(wants: Wants) -> Self {
        let peaks = wants.low || wants.high;
        Self {
            list: List::default(),
            floor: Place::default(),
            from: Place::default(),
            to: Place::default(),
            held: 0,
            dead: 0,
            covered: 0,
            until: i64::MIN,
            watermark: i64::MIN,
            inside: Inside::new(wants),
            peaks: peaks.then(Peaks::new),
            truncated: None,
            restoring: None,
        }
    }

    /// Readings held.
    pub(super) fn len(&self) -> usize {
        self.held - self.dead
    }

    /// Whether the window at the cursor lacks readings that left early.
    pub(super) fn is_truncated(&self, reach: Reach) -> bool {
        self.truncated
            .is_some_and(|time| reach.covers(time, self.until))
    }

    /// Puts a reading with a value in, behind all of its time.
    #[inline]
    pub(super) fn insert(&mut self, time: i64, x: f64, reach: Reach) {
        // Nearly always it is the newest, and the cursor comes to it later.
        let is_newest = self.list.newest().is_none_or(|newest| newest <= time);
        if is_newest && time > self.until && reach.covers(time, self.watermark) {
            self.list.push(time, x);
            self.held += 1;
        } else {
            self.insert_among(time, x, reach);
        }
    }

    #[inline(never)]
    fn insert_among(&mut self, time: i64, x: f64, reach: Reach) {
        let last_chunk = self.to.chunk;
        self.normalize();
        let mut cut = None;
        let at = self.list.insert(time, x, &mut |shift| {
            if matches!(shift, Shift::Cut(_)) {
                cut = Some(shift);
            }
        });
        self.held += 1;
        if let Some(cut) = cut {
            self.shift(cut);
        }
        let at = at.unwrap_or_else(|| self.list.last());
        // What stood at the end stands before the new reading now.
        self.normalize();
        let before_to = time <= self.until;
        let covered = before_to && reach.covers(time, self.until);
        let dead = !reach.covers(time, self.watermark);
        at.came(dead, &mut self.floor);
        at.came(before_to && !covered, &mut self.from);
        at.came(before_to, &mut self.to);
        self.dead += usize::from(dead);
        if covered {
            self.covered += 1;
            self.inside.put(x);
        }
        self.drop_chunks();
        self.to = self.list.behind(self.to);
        if cut.is_some() || self.to.chunk != last_chunk || at.chunk == self.to.chunk {
            self.peaks_anew();
        } else if let Some(peaks) = &mut self.peaks {
            peaks.put_among(x, covered, at.chunk == self.from.chunk);
        }
    }

    /// Brings all places to their one form.
    fn normalize(&mut self) {
        self.first();
        for place in self.places() {
            let (list, place) = place;
            *place = list.normal(*place);
        }
    }

    fn places(&mut self) -> [(&List, &mut Place); 3] {
        let list = &self.list;
        [
            (list, &mut self.floor),
            (list, &mut self.from),
            (list, &mut self.to),
        ]
    }

    fn shift(&mut self, shift: Shift) {
        self.places()
            .into_iter()
            .for_each(|(_, place)| shift.apply(place));
    }

    /// Smallest and largest are found anew when they are asked for.
    fn peaks_anew(&mut self) {
        if let Some(peaks) = &mut self.peaks {
            peaks.part_anew(&mut self.list, self.to);
        }
    }

    /// Moves the cursor and appends the figures of the window that ends there, in
    /// config order.
    pub(super) fn figures_at(
        &mut self,
        until: i64,
        reach: Reach,
        aggregates: &[Aggregate],
        cells: &mut Vec<u64>,
    ) {
        self.move_to(until, reach);
        self.write(aggregates, cells);
    }
}

/// What [`Tail::look`] gives.
const LOOKED: [Aggregate; 5] = [
    Aggregate::Count,
    Aggregate::Mean,
    Aggregate::Min,
    Aggregate::Max,
    Aggregate::Sum,
];

impl Tail {
    /// The figures of the window that ends at `until`, which is not before the watermark,
    /// as cells: count, mean, min, max and sum. The cursor goes back to where it was, so
    /// that nobody sees that somebody has looked. `None` where readings of the window have
    /// left early.
    pub(super) fn look(&mut self, until: i64, reach: Reach) -> Option<[u64; 5]> {
        let before = self.until;
        let mut cells = Vec::with_capacity(LOOKED.len());
        self.figures_at(until, reach, &LOOKED, &mut cells);
        let is_truncated = self.is_truncated(reach);
        self.move_to(before, reach);
        cells.try_into().ok().filter(|_| !is_truncated)
    }
}

/// The k-th smallest of what is covered needs all of it in order again.
#[cold]
fn sort(inside: &mut Inside, list: &List, from: Place, to: Place) {
    let mut places = Vec::new();
    list.each(from, to, |(_, x)| {
        if !x.is_nan() {
            places.push(place(x));
        }
    });
    inside.sort(places);
}

impl Tail {
    fn write(&mut self, aggregates: &[Aggregate], cells: &mut Vec<u64>) {
        if self.inside.is_unsorted() {
            sort(&mut self.inside, &self.list, self.from, self.to);
        }
        let extent = match &mut self.peaks {
            Some(peaks) if self.covered > 0 => peaks.extent(&mut self.list, self.from, self.to),
            Some(_) | None => Extent::NONE,
        };
        let moments = &self.inside.moments;
        let or_nan = |x: Option<f64>| x.or_else(|| (moments.nan_count() > 0).then_some(f64::NAN));
        for aggregate in aggregates {
            let figure = match aggregate {
                Aggregate::Count => {
                    cells.push(moments.count());
                    continue;
                }
                Aggregate::Sum => moments.sum(),
                Aggregate::Mean => moments.mean(),
                Aggregate::Min => or_nan(extent.ends().map(|(low, _)| low)),
                Aggregate::Max => or_nan(extent.ends().map(|(_, high)| high)),
                Aggregate::First => self.end_value(true),
                Aggregate::Last => self.end_value(false),
                Aggregate::Variance => moments.variance(true),
                Aggregate::Stddev => moments.stddev(true),
                Aggregate::VariancePop => moments.variance(false),
                Aggregate::StddevPop => moments.stddev(false),
                Aggregate::Percentile(p) => self.inside.rank(*p),
            };
            cells.push(cell(figure));
        }
    }

    /// The first or the last value that is covered.
    fn end_value(&self, first: bool) -> Option<f64> {
        let last = || self.list.before(self.to);
        let at = if first { Some(self.from) } else { last() };
        let (_, x) = self.list.peek(at.filter(|_| self.covered > 0)?)?;
        Some(x)
    }
}
