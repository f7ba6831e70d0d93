//! Rows of another window in order, for lines over them. A row of a window that is
//! there replaces the one before; where its time has moved, it leaves its old place.
//!
//! Memory: the rows that a line to come can reach, 56 bytes each beside the figures of
//! those that are merged. A line looks at all rows in its reach: there are as many of
//! them as inner windows, not as readings.

use std::collections::VecDeque;

use crate::engine::chain::PartId;
use crate::engine::config::Aggregate;
use crate::engine::figures::{Figures, Wants};
use crate::engine::kernel::Fed;
use crate::engine::sliding::{History, Put};
use crate::engine::state;
use crate::engine::tail::Reach;
use crate::engine::value::is_null;
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

/// What a line over inner rows holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Span {
    Time(Reach),
    Last(usize),
}

/// Rows by time; equal times in order of arrival.
#[derive(Debug)]
pub(super) struct InnerRows {
    wants: Wants,
    rows: VecDeque<InnerRow>,
}

#[derive(Debug)]
struct InnerRow {
    time: i64,
    id: PartId,
    value: f64,
    /// All it was made of, where inner windows are merged.
    figures: Option<Box<Figures>>,
    /// Its line is to come.
    pending: bool,
}

impl InnerRows {
    /// Place of the first row that is not before a time.
    fn from(&self, time: i64) -> usize {
        self.rows.partition_point(|row| row.time < time)
    }

    /// Whether the line of a row at the watermark would hold a row that would stand here.
    fn is_reached(&self, span: Span, (at, time): (usize, i64), watermark: i64) -> bool {
        match span {
            Span::Time(reach) => reach.covers(time, watermark),
            Span::Last(n) => self.from(watermark) + 1 - at < n,
        }
    }

    /// Places of the rows in the line of the one here.
    fn inside(&self, span: Span, at: usize) -> std::ops::Range<usize> {
        match span {
            Span::Last(n) => (at + 1).saturating_sub(n)..at + 1,
            Span::Time(reach) => {
                let time = self.rows[at].time;
                let from = self
                    .rows
                    .partition_point(|row| !reach.covers(row.time, time));
                from..self.rows.partition_point(|row| row.time <= time)
            }
        }
    }

    /// The first row at this time whose line is to come.
    fn pending(&self, time: i64) -> usize {
        let from = self.from(time);
        let pending = self.rows.range(from..).position(|row| row.pending);
        from + pending.expect("a line is written once for each row that has one")
    }
}

impl History for InnerRows {
    type Rule = Span;

    fn new(wants: Wants) -> Self {
        Self {
            wants,
            rows: VecDeque::new(),
        }
    }

    fn put(&mut self, span: Span, fed: &Fed<'_>, watermark: i64, again: bool) -> Put {
        let (time, value) = (fed.given.time, fed.given.value);
        let id = fed.part.unwrap_or_default();
        if fed.is_gone {
            let place = self.rows.iter().rposition(|row| row.id == id);
            let gone = place.and_then(|at| self.rows.remove(at));
            return Put::Gone(gone.filter(|row| row.pending).map(|row| row.time));
        }
        // Only what is wanted here, whatever else the source keeps.
        let figures = fed.figures.map(|inner| {
            let mut figures = Figures::new(self.wants);
            figures.merge(inner);
            Box::new(figures)
        });
        let late = time < watermark;
        // Only a row that was out before can replace one.
        let old = if fed.is_revision {
            self.rows.iter().rposition(|row| row.id == id)
        } else {
            None
        };
        if let Some(row) = old.and_then(|at| self.rows.get_mut(at))
            && row.time == time
        {
            (row.value, row.figures) = (value, figures);
            row.pending |= again && !late;
            return Put::Replaced;
        }
        let at = self.rows.partition_point(|row| row.time <= time);
        // Before all of its time: where it was out and is not held any more, it stood
        // before those that are.
        let first = match old.is_none() && fed.is_revision {
            true => self.from(time),
            false => at,
        };
        if late && !self.is_reached(span, (first, time), watermark) {
            return Put::Refused;
        }
        let row = InnerRow {
            time,
            id,
            value,
            figures,
            pending: !late,
        };
        self.rows.insert(at, row);
        let old = old.map(|old| if old < at { old } else { old + 1 });
        match old.and_then(|old| self.rows.remove(old)) {
            Some(old) => Put::Moved(old.pending.then_some(old.time)),
            None => Put::New,
        }
    }

    fn write(&mut self, span: Span, time: i64, aggregates: &[Aggregate], cells: &mut Vec<u64>) {
        let at = self.pending(time);
        self.rows[at].pending = false;
        let mut figures = Figures::new(self.wants);
        for row in self.rows.range(self.inside(span, at)) {
            match &row.figures {
                Some(inner) => figures.merge(inner),
                None if is_null(row.value) => {}
                None => figures.add(row.time, row.value),
            }
        }
        figures.write(aggregates, cells);
    }

    fn prune(&mut self, span: Span, watermark: i64) {
        let gone = match (span, watermark) {
            // No row comes any more.
            (_, i64::MAX) => self.rows.len(),
            (Span::Last(n), _) => self.from(watermark).saturating_sub(n - 1),
            (Span::Time(reach), _) => {
                let is_gone = |row: &InnerRow| !reach.covers(row.time, watermark);
                self.rows.partition_point(is_gone)
            }
        };
        self.rows.drain(..gone);
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        state::put_len(out, self.rows.len());
        for row in &self.rows {
            put_zigzag(out, row.time);
            put_varint(out, row.id.0.into());
            put_zigzag(out, row.id.1);
            state::put_f64(out, row.value);
            state::put_bool(out, row.pending);
            state::put_bool(out, row.figures.is_some());
            if let Some(figures) = &row.figures {
                figures.encode(out);
            }
        }
    }

    fn decode(&mut self, from: &mut Reader<'_>) -> Result<(), Malformed> {
        for _ in 0..state::len(from)? {
            let (time, id) = (from.zigzag()?, (state::u32(from)?, from.zigzag()?));
            let (value, pending) = (state::f64(from)?, state::bool(from)?);
            let figures = match state::bool(from)? {
                true => Some(Box::new(Figures::decode(from, self.wants)?)),
                false => None,
            };
            if self.rows.back().is_some_and(|before| before.time > time) {
                return Err(from.malformed());
            }
            self.rows.push_back(InnerRow {
                time,
                id,
                value,
                figures,
                pending,
            });
        }
        Ok(())
    }
}
