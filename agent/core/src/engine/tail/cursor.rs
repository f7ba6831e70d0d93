//! How the cursor moves, and how readings leave that nothing reaches any more.

use super::list::{Place, Shift};
use super::{Reach, Tail};

impl Tail {
    /// Moves the cursor.
    pub(in crate::engine) fn move_to(&mut self, until: i64, reach: Reach) {
        if until < self.until {
            self.move_back(until);
            self.reach_back(reach);
            self.to = self.list.behind(self.to);
            self.peaks_anew();
        } else {
            self.move_on(until);
        }
        self.leave_behind(reach);
        self.open_ahead();
    }

    fn move_on(&mut self, until: i64) {
        self.until = until;
        loop {
            let to = self.list.normal(self.to);
            let Some((time, x)) = self.list.get(to) else {
                break;
            };
            if time > until {
                break;
            }
            self.inside.put(x);
            self.covered += 1;
            if let Some(peaks) = &mut self.peaks {
                peaks.put(x, to.at == 0);
            }
            self.to = to.next();
        }
    }

    /// Readings at the old end of the window leave it.
    fn leave_behind(&mut self, reach: Reach) {
        while self.covered > 0 {
            let from = self.first();
            let Some((time, x)) = self.list.get(from) else {
                break;
            };
            if reach.covers(time, self.until) {
                break;
            }
            self.uncover(x);
            self.from = from.next();
        }
        if self.covered == 0 {
            self.nothing_covered();
        }
    }

    fn nothing_covered(&mut self) {
        self.from = self.list.normal(self.to);
        if let Some(peaks) = &mut self.peaks {
            peaks.moved_chunk();
        }
    }

    fn uncover(&mut self, x: f64) {
        self.inside.take(x);
        self.covered -= 1;
    }

    /// The oldest place covered, in its one form.
    #[inline]
    pub(super) fn first(&mut self) -> Place {
        let from = self.list.normal(self.from);
        if from.chunk != self.from.chunk {
            self.from = from;
            if let Some(peaks) = &mut self.peaks {
                peaks.moved_chunk();
            }
        }
        from
    }

    /// Readings at the new end of the window leave it again.
    fn move_back(&mut self, until: i64) {
        self.until = until;
        self.normalize();
        while let Some((at, time, x)) = self.last_before() {
            if time <= until {
                break;
            }
            if at >= self.from {
                self.uncover(x);
            } else {
                self.from = at;
            }
            self.to = at;
        }
    }

    /// The last reading before the cursor.
    fn last_before(&mut self) -> Option<(Place, i64, f64)> {
        let at = self.list.before(self.to).filter(|at| *at >= self.floor)?;
        let (time, x) = self.list.get(at)?;
        Some((at, time, x))
    }

    /// Readings older than those covered come in again.
    fn reach_back(&mut self, reach: Reach) {
        let floor = self.list.normal(self.floor);
        self.from = self.list.normal(self.from);
        let mut came = false;
        while let Some(at) = self.list.before(self.from).filter(|at| *at >= floor) {
            let Some((time, x)) = self.list.get(at) else {
                break;
            };
            if !reach.covers(time, self.until) {
                break;
            }
            self.inside.put(x);
            self.covered += 1;
            self.from = at;
            came = true;
        }
        if let Some(peaks) = self.peaks.as_mut().filter(|_| came) {
            peaks.moved_chunk();
        }
    }

    /// Chunks that the cursor has left behind its newest end are packed, and the next
    /// one at its oldest end is opened before it is needed: one of both at a time,
    /// and not when the ends enter chunks, which costs something as well.
    #[inline]
    fn open_ahead(&mut self) {
        if self.to.chunk > self.from.chunk + 3 {
            self.chores();
        }
    }

    fn chores(&mut self) {
        let next = self.from.chunk + 1;
        let full = self.to.chunk - 2;
        if self.from.at == OPEN_AT && self.list.is_packed(next) {
            self.list.open(next);
        } else if self.to.at == PACK_AT && full > next {
            self.list.pack(full);
        }
    }

    /// Drops what no window that ends at the watermark or later reaches.
    #[inline]
    pub(in crate::engine) fn prune(&mut self, watermark: i64, reach: Reach) {
        if watermark < self.watermark {
            self.forget_dead();
        }
        self.watermark = watermark;
        loop {
            let floor = self.list.normal(self.floor);
            match self.list.get(floor) {
                Some((time, _)) if !reach.covers(time, watermark) => self.drop_first(floor),
                Some(_) | None => break,
            }
        }
    }

    /// A watermark goes back where it came of a clock that did not hold: what is gone
    /// stays gone, and readings may come before it.
    #[cold]
    fn forget_dead(&mut self) {
        self.normalize();
        let gone = self.floor.at;
        if self.dead > 0 {
            self.list.forget_first(gone);
            for (_, place) in self.places() {
                place.at -= if place.chunk == 0 { gone } else { 0 };
            }
            self.held -= self.dead;
            self.dead = 0;
        }
        self.to = self.list.behind(self.to);
        self.peaks_anew();
    }

    /// The oldest readings leave although windows to come reach them.
    pub(in crate::engine) fn drop_oldest(&mut self, count: usize) {
        for _ in 0..count {
            let floor = self.list.normal(self.floor);
            let Some((time, _)) = self.list.get(floor) else {
                break;
            };
            self.truncated = self.truncated.max(Some(time));
            self.drop_first(floor);
        }
    }

    /// Drops the reading at the floor.
    fn drop_first(&mut self, floor: Place) {
        if self.covered > 0 && self.first() == floor {
            if let Some((_, x)) = self.list.get(floor) {
                self.uncover(x);
            }
            self.from = floor.next();
        }
        if self.list.normal(self.to) == floor {
            self.to = floor.next();
        }
        if self.covered == 0 {
            self.nothing_covered();
        }
        self.floor = floor.next();
        self.dead += 1;
        self.drop_chunks();
    }

    /// Drops the first chunks, where nothing in them is reached any more.
    #[inline]
    pub(super) fn drop_chunks(&mut self) {
        while let Some(first) = self.list.chunks.front()
            && (self.floor.chunk > 0 || self.floor.at >= first.len())
        {
            self.drop_chunk(first.len());
        }
    }

    fn drop_chunk(&mut self, len: usize) {
        let is_last = self.list.chunks.len() == 1;
        self.normalize();
        self.list.pop();
        self.held -= len;
        self.dead -= len;
        if is_last {
            for (_, place) in self.places() {
                *place = Place::default();
            }
        } else {
            self.shift(Shift::Popped);
        }
        self.to = self.list.behind(self.to);
        if let Some(peaks) = self.peaks.as_mut().filter(|_| self.covered == 0) {
            peaks.forget();
        }
    }
}

/// Where in its chunk the oldest end opens the next one, and the newest end packs.
const OPEN_AT: usize = 64;
const PACK_AT: usize = 32;
