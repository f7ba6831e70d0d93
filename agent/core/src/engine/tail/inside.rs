//! What is inside a window, as values go in and come out again: moments and
//! ranks. Knows no times.

use crate::engine::figures::{Wants, nearest_rank};
use crate::limits::EXACT_RANKS_MAX;
use crate::num::moments::Moments;
use crate::num::order::{at_place, place};
use crate::num::sketch::Sketch;
use crate::num::sorted::Sorted;

/// Values up to which they are kept in order, once they are: twice what an exact
/// answer needs, so that a window about that size does not sort again and again.
const SORTED_MAX: usize = 2 * EXACT_RANKS_MAX;

#[derive(Debug)]
pub(super) struct Inside {
    pub(super) moments: Moments,
    ranks: Option<Box<Ranks>>,
}

/// Which of the two answers depends on what is inside alone: see [`Inside::rank`].
#[derive(Debug)]
struct Ranks {
    /// Of all values, always.
    sketch: Sketch,
    /// `None` since there were more than [`SORTED_MAX`].
    sorted: Option<Sorted>,
}

impl Inside {
    pub(super) fn new(wants: Wants) -> Self {
        let ranks = || Ranks {
            sketch: Sketch::default(),
            sorted: Some(Sorted::default()),
        };
        Self {
            moments: Moments::new(wants.squares),
            ranks: wants.ranks.then(|| Box::new(ranks())),
        }
    }

    /// Puts a value in.
    #[inline]
    pub(super) fn put(&mut self, x: f64) {
        self.moments.add(x);
        if let Some(ranks) = self.ranks.as_deref_mut().filter(|_| !x.is_nan()) {
            ranks.put(x);
        }
    }

    /// Takes a value out that was put in.
    #[inline]
    pub(super) fn take(&mut self, x: f64) {
        self.moments.sub(x);
        if let Some(ranks) = self.ranks.as_deref_mut().filter(|_| !x.is_nan()) {
            ranks.take(x);
        }
    }

    /// Values with a rank: all but NaN.
    fn ranked(&self) -> u64 {
        self.moments.count() - self.moments.nan_count()
    }

    /// Whether a rank needs all values again, see [`Inside::sort`].
    pub(super) fn is_unsorted(&self) -> bool {
        let sorted = self.ranks.as_deref().map(|ranks| ranks.sorted.is_some());
        sorted == Some(false) && self.ranked() <= EXACT_RANKS_MAX as u64
    }

    /// All values that are inside.
    pub(super) fn sort(&mut self, values: Vec<i64>) {
        if let Some(ranks) = self.ranks.as_deref_mut() {
            ranks.sorted = Some(Sorted::of(values));
        }
    }

    /// A percentile: exact up to [`EXACT_RANKS_MAX`] values, then from the sketch.
    pub(super) fn rank(&self, p: u8) -> Option<f64> {
        let n = self.ranked();
        if n == 0 {
            return (self.moments.nan_count() > 0).then_some(f64::NAN);
        }
        let k = nearest_rank(n, p);
        let ranks = self.ranks.as_deref()?;
        match &ranks.sorted {
            Some(sorted) if n <= EXACT_RANKS_MAX as u64 => {
                sorted.at_rank(usize::try_from(k).ok()?).map(at_place)
            }
            Some(_) | None => ranks.sketch.at_rank(k),
        }
    }
}

impl Ranks {
    fn put(&mut self, x: f64) {
        self.sketch.add(x);
        if let Some(sorted) = &mut self.sorted {
            sorted.add(place(x));
            if sorted.len() > SORTED_MAX {
                self.sorted = None;
            }
        }
    }

    fn take(&mut self, x: f64) {
        self.sketch.sub(x);
        if let Some(sorted) = &mut self.sorted {
            let was_inside = sorted.sub(place(x));
            assert!(was_inside, "a value was taken out that was never put in");
        }
    }
}
