//! Readings as columns, one set per channel, in order of time.
//!
//! Holds always: where not all readings of the range fit, whole times are left out from
//! one end of it, never one of two readings of the same time; the part of the range that
//! is complete is told. Bound: twice the rows asked for, and [`GAPS_SHOWN_MAX`] gaps.
//! Knows no log.

use std::ops::Range;

use forebay_wire::ids::{BootId, DeviceUid, Ordinal};
use forebay_wire::message::Quality;

use super::scan::Fold;
use crate::limits::{GAPS_SHOWN_MAX, SAME_TIME_ROWS_MAX};
use crate::live::ChannelKey;
use crate::log::block::{GapRecord, ReadingRecord, Series};
use crate::record::GapReason;
use crate::units::EventTime;

/// Readings of one channel, in order of time; of equal times in no certain order.
#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    pub key: ChannelKey,
    /// Event times, us since 1970.
    pub times: Vec<i64>,
    /// NaN where the sensor gave none.
    pub values: Vec<f64>,
    /// Where it was asked for.
    pub detail: Option<Detail>,
}

/// What else a reading says, as columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detail {
    pub boot: Vec<BootId>,
    pub ordinal: Vec<Ordinal>,
    pub uncertainty_us: Vec<u32>,
    pub quality: Vec<Quality>,
}

/// Readings of a device that will never come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapShown {
    pub uid: DeviceUid,
    pub boot: BootId,
    pub first: Ordinal,
    pub count: u64,
    pub reason: GapReason,
    /// When it ended.
    pub time: EventTime,
}

/// What is wanted of readings.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnsWant {
    pub range: Range<EventTime>,
    pub detail: bool,
    pub gaps: bool,
    /// Over all channels; at least 1.
    pub rows_max: usize,
    /// Which readings are kept where there are more.
    pub newest_first: bool,
}

/// Columns, and what they lack.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnsGot {
    /// One per key, in the order of the keys.
    pub columns: Vec<Columns>,
    pub gaps: Vec<GapShown>,
    /// The part of the range of which all is there.
    pub covered: Range<EventTime>,
    /// There are more readings outside of it.
    pub left_out: bool,
}

/// More readings of one time than an answer takes beside what was asked for:
/// [`SAME_TIME_ROWS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMuch;

/// See the module.
#[derive(Debug)]
pub struct ColumnsFold {
    want: ColumnsWant,
    /// Times that can still be in the answer.
    range: (EventTime, EventTime),
    columns: Vec<Columns>,
    rows: usize,
    gaps: Vec<GapShown>,
    left_out: bool,
    /// Rows at which it is looked for what is too much.
    trim_at: usize,
    /// More than [`SAME_TIME_ROWS_MAX`] readings of one time.
    too_much: bool,
}

impl ColumnsFold {
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = ChannelKey>, want: ColumnsWant) -> Self {
        let columns = keys.into_iter().map(|key| Columns {
            key,
            times: Vec::new(),
            values: Vec::new(),
            detail: want.detail.then(Detail::default),
        });
        Self {
            range: (want.range.start, want.range.end),
            columns: columns.collect(),
            rows: 0,
            gaps: Vec::new(),
            left_out: false,
            trim_at: want.rows_max.max(1).saturating_mul(2),
            too_much: false,
            want: ColumnsWant {
                rows_max: want.rows_max.max(1),
                ..want
            },
        }
    }

    /// Drops what is too much already, with the rest of its time.
    fn trim(&mut self) {
        if self.rows <= self.want.rows_max {
            return;
        }
        let times = self.columns.iter().flat_map(|c| c.times.iter().copied());
        let mut times: Vec<i64> = times.collect();
        let count = times.len();
        let (start, end) = self.range;
        // The first time that does not fit whole, and the last that does, if any.
        self.range = if self.want.newest_first {
            let (_, cut, rest) = times.select_nth_unstable(count - 1 - self.want.rows_max);
            let kept = rest.iter().copied().filter(|time| time > cut).min();
            (EventTime(kept.map_or(*cut, |_| cut.saturating_add(1))), end)
        } else {
            let (rest, cut, _) = times.select_nth_unstable(self.want.rows_max);
            let kept = rest.iter().copied().any(|time| time < *cut);
            let cut = *cut;
            (
                start,
                EventTime(if kept { cut } else { cut.saturating_add(1) }),
            )
        };
        let range = self.range;
        let before = self.rows;
        for columns in &mut self.columns {
            columns.retain(range);
        }
        self.rows = self.columns.iter().map(|c| c.times.len()).sum();
        self.left_out |= self.rows < before;
        let most = self.want.rows_max;
        self.trim_at = most.max(self.rows).saturating_mul(2);
        if self.rows > most.saturating_add(SAME_TIME_ROWS_MAX) {
            self.too_much = true;
            // Nothing more is read.
            self.range = (EventTime(0), EventTime(0));
        }
    }

    /// The answer.
    ///
    /// # Errors
    /// More readings of one time than an answer takes.
    pub fn finish(mut self) -> Result<ColumnsGot, TooMuch> {
        self.trim();
        self.columns.iter_mut().for_each(Columns::sort);
        let (start, end) = self.range;
        self.gaps.retain(|gap| gap.time >= start && gap.time < end);
        self.gaps
            .sort_by_key(|gap| (gap.time, gap.uid, gap.boot, gap.first));
        if self.too_much {
            return Err(TooMuch);
        }
        Ok(ColumnsGot {
            columns: self.columns,
            gaps: self.gaps,
            covered: start..end,
            left_out: self.left_out,
        })
    }
}

impl Fold for ColumnsFold {
    fn range(&self) -> (EventTime, EventTime) {
        self.range
    }

    fn take(
        &mut self,
        channel: usize,
        series: &Series,
        record: &ReadingRecord,
        value: Option<f64>,
    ) {
        let columns = &mut self.columns[channel];
        columns.times.push(record.time.0);
        columns.values.push(value.unwrap_or(f64::NAN));
        if let Some(detail) = &mut columns.detail {
            detail.boot.push(series.boot);
            detail.ordinal.push(record.ordinal);
            detail.uncertainty_us.push(record.uncertainty_us);
            detail.quality.push(record.quality);
        }
        self.rows += 1;
        if self.rows > self.trim_at {
            self.trim();
        }
    }

    fn wants_gaps(&self) -> bool {
        self.want.gaps
    }

    fn gap(&mut self, gap: &GapRecord) {
        if self.gaps.len() < GAPS_SHOWN_MAX {
            self.gaps.push(GapShown {
                uid: gap.uid,
                boot: gap.boot,
                first: gap.first,
                count: gap.count,
                reason: gap.reason,
                time: gap.time,
            });
        }
    }
}

impl Columns {
    fn retain(&mut self, (start, end): (EventTime, EventTime)) {
        let keep = |time: &i64| *time >= start.0 && *time < end.0;
        if self.times.iter().all(keep) {
            return;
        }
        let kept: Vec<bool> = self.times.iter().map(keep).collect();
        self.each_column(&mut Retain(&kept));
    }

    fn sort(&mut self) {
        if self.times.is_sorted() {
            return;
        }
        let mut order: Vec<u32> = (0..self.times.len() as u32).collect();
        order.sort_by_key(|at| self.times[*at as usize]);
        self.each_column(&mut Order(&order));
    }

    fn each_column(&mut self, change: &mut impl Change) {
        change.apply(&mut self.times);
        change.apply(&mut self.values);
        if let Some(detail) = &mut self.detail {
            change.apply(&mut detail.boot);
            change.apply(&mut detail.ordinal);
            change.apply(&mut detail.uncertainty_us);
            change.apply(&mut detail.quality);
        }
    }
}

/// The same change of every column.
trait Change {
    fn apply<T: Copy>(&mut self, column: &mut Vec<T>);
}

struct Retain<'a>(&'a [bool]);

impl Change for Retain<'_> {
    fn apply<T: Copy>(&mut self, column: &mut Vec<T>) {
        let mut kept = self.0.iter();
        column.retain(|_| kept.next().copied().unwrap_or(false));
    }
}

struct Order<'a>(&'a [u32]);

impl Change for Order<'_> {
    fn apply<T: Copy>(&mut self, column: &mut Vec<T>) {
        *column = self.0.iter().map(|at| column[*at as usize]).collect();
    }
}
