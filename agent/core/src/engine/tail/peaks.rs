//! Smallest and largest of what a cursor covers, with a bounded worst case: in the
//! chunk of its oldest reading the extents of all that is left from each reading
//! on, and one extent of all behind that. When the former are used up, a chunk is
//! gone through and the heads of the others are read, never all readings.

use super::list::{List, Place};
use crate::num::order::Extent;

#[derive(Debug)]
pub(super) struct Peaks {
    /// Of the readings from place `base + i` on, up to that of `base + stack.len()`,
    /// in the chunk of the oldest one.
    stack: Vec<Extent>,
    base: usize,
    /// Of all covered behind those.
    rest: Extent,
    /// Of the covered part of the newest one's chunk.
    part: Extent,
    stale: bool,
}

impl Peaks {
    pub(super) fn new() -> Self {
        Self {
            stack: Vec::new(),
            base: 0,
            rest: Extent::NONE,
            part: Extent::NONE,
            stale: true,
        }
    }

    /// A reading is covered that is the newest one.
    #[inline]
    pub(super) fn put(&mut self, x: f64, begins_chunk: bool) {
        if begins_chunk {
            self.part = Extent::NONE;
        }
        if !x.is_nan() {
            self.rest.add(x);
            self.part.add(x);
        }
    }

    /// A reading came among others, not into the chunk of the newest one covered.
    pub(super) fn put_among(&mut self, x: f64, is_covered: bool, is_first_chunk: bool) {
        // The places behind it are others now.
        self.stale |= is_first_chunk;
        if is_covered && !x.is_nan() {
            self.rest.add(x);
        }
    }

    /// Nothing that is kept here holds any more.
    pub(super) fn forget(&mut self) {
        self.stale = true;
        self.part = Extent::NONE;
    }

    /// Of the readings from `from` up to before `to`, both in their one form.
    #[inline]
    pub(super) fn extent(&mut self, list: &mut List, from: Place, to: Place) -> Extent {
        if from >= to {
            self.stale = true;
            return Extent::NONE;
        }
        if !self.stale
            && let Some(left) = self.stack.get(from.at.wrapping_sub(self.base))
        {
            return left.joined(self.rest);
        }
        self.turn(list, from, to);
        self.stack[0].joined(self.rest)
    }

    /// The oldest reading's chunk is another one, or its stack is used up.
    pub(super) fn moved_chunk(&mut self) {
        self.stale = true;
    }

    #[inline(never)]
    fn turn(&mut self, list: &mut List, from: Place, to: Place) {
        let held = list.open(from.chunk);
        let end = if from.chunk == to.chunk {
            to.at
        } else {
            held.len()
        };
        let covered = &held[from.at..end];
        self.base = from.at;
        self.stack.resize(covered.len(), Extent::NONE);
        let mut left = Extent::NONE;
        for (extent, (_, x)) in self.stack.iter_mut().zip(covered).rev() {
            if !x.is_nan() {
                left.add(*x);
            }
            *extent = left;
        }
        self.rest = Extent::NONE;
        if from.chunk < to.chunk {
            self.rest = list.extent(from.chunk + 1..to.chunk).joined(self.part);
        }
        self.stale = false;
    }

    /// Makes the extent of the newest chunk's part anew, after steps back.
    pub(super) fn part_anew(&mut self, list: &mut List, to: Place) {
        self.forget();
        if to.at > 0 {
            let held = list.open(to.chunk);
            for (_, x) in held[..to.at].iter().filter(|(_, x)| !x.is_nan()) {
                self.part.add(*x);
            }
        }
    }
}
