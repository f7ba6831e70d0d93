//! The newest readings of one key in order, for windows of the last n. Of equal times
//! the one that arrived first is the earlier. A reading without a value has a place in
//! the order and is in no figure.
//!
//! Memory: 24 bytes per reading that a line to come can reach: the last n before the
//! watermark, and what is not before it.

use std::collections::VecDeque;

use crate::engine::config::Aggregate;
use crate::engine::figures::{Figures, Wants};
use crate::engine::kernel::Fed;
use crate::engine::sliding::{History, Put};
use crate::engine::state;
use crate::engine::value::is_null;
use crate::log::bytes::{Malformed, Reader, put_zigzag};

/// The last n readings.
#[derive(Debug)]
pub(super) struct LastRows {
    wants: Wants,
    /// By time; equal times in order of arrival.
    readings: VecDeque<OneRow>,
}

#[derive(Debug, Clone, Copy)]
struct OneRow {
    time: i64,
    /// NULL where there is none.
    value: f64,
    /// Its line is to come.
    pending: bool,
}

impl LastRows {
    /// Place of the first reading that is not before a time.
    fn from(&self, time: i64) -> usize {
        self.readings.partition_point(|r| r.time < time)
    }

    fn figures(&self, at: usize, n: usize) -> Figures {
        let mut figures = Figures::new(self.wants);
        for reading in self.readings.range((at + 1).saturating_sub(n)..=at) {
            if !is_null(reading.value) {
                figures.add(reading.time, reading.value);
            }
        }
        figures
    }
}

impl History for LastRows {
    /// n
    type Rule = usize;

    fn new(wants: Wants) -> Self {
        Self {
            wants,
            readings: VecDeque::new(),
        }
    }

    fn put(&mut self, n: usize, fed: &Fed<'_>, watermark: i64, _again: bool) -> Put {
        let (time, value) = (fed.given.time, fed.given.value);
        let at = match self.readings.back() {
            Some(newest) if newest.time > time => self.readings.partition_point(|r| r.time <= time),
            Some(_) | None => self.readings.len(),
        };
        let late = time < watermark;
        // The first line still to come is that of the first reading at the watermark or
        // later, known or not.
        let first_line = if late { self.from(watermark) + 1 } else { at };
        if first_line - at >= n {
            return Put::Refused;
        }
        let reading = OneRow {
            time,
            value,
            pending: !late,
        };
        self.readings.insert(at, reading);
        Put::New
    }

    fn write(&mut self, n: usize, time: i64, aggregates: &[Aggregate], cells: &mut Vec<u64>) {
        let from = self.from(time);
        let pending = self.readings.range(from..).position(|r| r.pending);
        let at = from + pending.expect("a line is written once for each reading that has one");
        self.readings[at].pending = false;
        self.figures(at, n).write(aggregates, cells);
    }

    fn prune(&mut self, n: usize, watermark: i64) {
        let needed = match watermark {
            // No reading comes any more.
            i64::MAX => self.readings.len(),
            _ => self.from(watermark).saturating_sub(n - 1),
        };
        self.readings.drain(..needed);
    }

    fn len(&self) -> usize {
        self.readings.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        state::put_len(out, self.readings.len());
        for reading in &self.readings {
            put_zigzag(out, reading.time);
            state::put_f64(out, reading.value);
            state::put_bool(out, reading.pending);
        }
    }

    fn decode(&mut self, from: &mut Reader<'_>) -> Result<(), Malformed> {
        for _ in 0..state::len(from)? {
            self.readings.push_back(OneRow {
                time: from.zigzag()?,
                value: state::f64(from)?,
                pending: state::bool(from)?,
            });
        }
        let times = || self.readings.iter().map(|r| r.time);
        if !times().is_sorted() {
            return Err(from.malformed());
        }
        Ok(())
    }
}
