//! Rows of a stream by event time, as they stand in the log.
//!
//! Holds always: where not all fit, whole times are left out at the later end, and the
//! part of the range that is complete is told. Bound: twice the rows asked for, and
//! [`READ_BYTES_MAX`] of their lines.

use std::ops::Range;
use std::sync::Arc;

use super::scan::RowFold;
use crate::limits::{READ_BYTES_MAX, SAME_TIME_ROWS_MAX};
use crate::units::EventTime;

/// Rows of a stream in order of event time; of equal times in the order of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsGot {
    pub times: Vec<EventTime>,
    /// JSON objects.
    pub lines: Vec<Arc<[u8]>>,
    /// The part of the range of which all is there.
    pub covered: Range<EventTime>,
    /// There are more rows behind it.
    pub left_out: bool,
}

/// See the module.
#[derive(Debug)]
pub struct RowsFold {
    range: (EventTime, EventTime),
    rows: Vec<(EventTime, Arc<[u8]>)>,
    rows_max: usize,
    bytes: usize,
    trim_at: usize,
    left_out: bool,
    too_much: bool,
}

impl RowsFold {
    #[must_use]
    pub fn new(range: Range<EventTime>, rows_max: usize) -> Self {
        let rows_max = rows_max.max(1);
        Self {
            range: (range.start, range.end),
            rows: Vec::new(),
            rows_max,
            bytes: 0,
            trim_at: rows_max.saturating_mul(2),
            left_out: false,
            too_much: false,
        }
    }

    fn trim(&mut self) {
        // Stable: of equal times as they came.
        self.rows.sort_by_key(|(time, _)| *time);
        let mut most = self.rows_max;
        if self.bytes > READ_BYTES_MAX {
            let mut sum = 0;
            let fits = self.rows.iter().take_while(|(_, line)| {
                sum += line.len();
                sum <= READ_BYTES_MAX
            });
            most = most.min(fits.count().max(1));
        }
        let Some((cut, _)) = self.rows.get(most) else {
            return;
        };
        let cut = *cut;
        let mut kept = self.rows.partition_point(|(time, _)| *time < cut);
        let mut end = cut;
        if kept == 0 {
            kept = self.rows.partition_point(|(time, _)| *time <= cut);
            end = EventTime(cut.0.saturating_add(1));
        }
        self.range.1 = end;
        self.left_out |= kept < self.rows.len();
        self.rows.truncate(kept);
        self.bytes = self.rows.iter().map(|(_, line)| line.len()).sum();
        self.trim_at = self.rows_max.max(kept).saturating_mul(2);
        let bytes_max = READ_BYTES_MAX.saturating_mul(2);
        if kept > self.rows_max.saturating_add(SAME_TIME_ROWS_MAX) || self.bytes > bytes_max {
            self.too_much = true;
            self.range = (EventTime(0), EventTime(0));
        }
    }

    /// The rows; `None` where more are of one time than an answer takes.
    #[must_use]
    pub fn finish(mut self) -> Option<RowsGot> {
        self.rows.sort_by_key(|(time, _)| *time);
        self.trim();
        let (times, lines) = self.rows.into_iter().unzip();
        (!self.too_much).then_some(RowsGot {
            times,
            lines,
            covered: self.range.0..self.range.1,
            left_out: self.left_out,
        })
    }
}

impl RowFold for RowsFold {
    fn range(&self) -> (EventTime, EventTime) {
        self.range
    }

    fn take(&mut self, time: EventTime, line: &[u8]) {
        self.bytes += line.len();
        self.rows.push((time, line.into()));
        if self.rows.len() > self.trim_at || self.bytes > READ_BYTES_MAX.saturating_mul(2) {
            self.trim();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_an_answer_are_bounded() {
        const LINE: usize = 1024 * 1024;
        let count = READ_BYTES_MAX / LINE;
        for (more, kept) in [(-1, count), (0, count), (1, count - 1)] {
            let mut fold = RowsFold::new(EventTime(0)..EventTime(1000), 1000);
            let mut line = vec![b'x'; LINE + 1];
            for n in 0..count {
                let is_last = n + 1 == count;
                let more = if is_last { more } else { 0 };
                line.resize(LINE.checked_add_signed(more).unwrap(), b'x');
                fold.take(EventTime(n as i64), &line);
            }
            let got = fold.finish().expect("no two rows of one time");
            assert_eq!(got.lines.len(), kept, "{more}");
            assert_eq!(got.left_out, kept < count, "{more}");
            let end = if kept < count { kept as i64 } else { 1000 };
            assert_eq!(got.covered, EventTime(0)..EventTime(end), "{more}");
        }
    }

    #[test]
    fn one_time_may_have_so_many_bytes_and_no_more() {
        const LINE: usize = 1024 * 1024;
        let most = 2 * READ_BYTES_MAX / LINE;
        for (count, is_answered) in [(most - 1, true), (most, true), (most + 1, false)] {
            let mut fold = RowsFold::new(EventTime(0)..EventTime(1000), 1000);
            let line = vec![b'x'; LINE];
            (0..count).for_each(|_| fold.take(EventTime(5), &line));
            let got = fold.finish();
            assert_eq!(got.is_some(), is_answered, "{count}");
            if let Some(got) = got {
                assert_eq!(got.lines.len(), count);
            }
        }
    }
}
