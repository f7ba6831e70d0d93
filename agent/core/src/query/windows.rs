//! Tumbling windows over readings, and one window over them: exact figures, whatever the
//! order in which readings come.
//!
//! Bound: the windows asked for, and one more per channel; where there are more, whole
//! windows are left out from one end, and that is told.

use std::ops::Range;

use super::figures::{Figures, window_start};
use super::scan::Fold;
use crate::log::block::{ReadingRecord, Series};
use crate::units::{EventTime, Span};

/// What is wanted of windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowsWant {
    /// Longer than 0, on the grid of the epoch.
    pub size: Span,
    /// Half-open; begins and ends with windows.
    pub range: Range<EventTime>,
    /// Over all channels; at least 1.
    pub windows_max: usize,
    /// Which windows are kept where there are more.
    pub newest_first: bool,
}

/// See the module.
#[derive(Debug)]
pub struct WindowsFold {
    want: WindowsWant,
    range: (EventTime, EventTime),
    /// Of each channel its windows with a reading, in order of start.
    windows: Vec<Vec<(EventTime, Figures)>>,
    /// Where the last reading went.
    last: Vec<usize>,
    count: usize,
    left_out: bool,
}

/// Windows by their starts.
#[derive(Debug)]
pub struct WindowsGot {
    /// Of each channel those with a reading.
    pub windows: Vec<Vec<(EventTime, Figures)>>,
    /// The part of the range that is complete.
    pub covered: Range<EventTime>,
    /// There are windows outside of it.
    pub left_out: bool,
}

impl WindowsFold {
    /// Windows of so many channels.
    #[must_use]
    pub fn new(channels: usize, want: WindowsWant) -> Self {
        Self {
            range: (want.range.start, want.range.end),
            want,
            windows: vec![Vec::new(); channels],
            last: vec![0; channels],
            count: 0,
            left_out: false,
        }
    }

    #[must_use]
    pub fn finish(mut self) -> WindowsGot {
        self.trim();
        WindowsGot {
            windows: self.windows,
            covered: self.range.0..self.range.1,
            left_out: self.left_out,
        }
    }

    fn trim(&mut self) {
        let most = self.want.windows_max.max(1);
        if self.count <= most {
            return;
        }
        let starts = self.windows.iter().flatten().map(|(start, _)| start.0);
        let mut starts: Vec<i64> = starts.collect();
        starts.sort_unstable();
        self.range = if self.want.newest_first {
            let cut = starts[starts.len() - 1 - most];
            let is_first = starts.last() == Some(&cut);
            let next = cut.saturating_add(self.want.size.0);
            (EventTime(if is_first { cut } else { next }), self.range.1)
        } else {
            let cut = starts[most];
            let is_first = starts.first() == Some(&cut);
            let next = cut.saturating_add(self.want.size.0);
            (self.range.0, EventTime(if is_first { next } else { cut }))
        };
        let (start, end) = self.range;
        for windows in &mut self.windows {
            windows.retain(|(at, _)| *at >= start && *at < end);
        }
        let before = self.count;
        self.count = self.windows.iter().map(Vec::len).sum();
        self.left_out |= self.count < before;
    }
}

impl Fold for WindowsFold {
    fn range(&self) -> (EventTime, EventTime) {
        self.range
    }

    fn take(&mut self, channel: usize, _: &Series, record: &ReadingRecord, value: Option<f64>) {
        let start = window_start(record.time, self.want.size);
        let windows = &mut self.windows[channel];
        let last = self.last[channel];
        if let Some((at, figures)) = windows.get_mut(last)
            && *at == start
        {
            return figures.add(value);
        }
        let place = windows.partition_point(|(at, _)| *at < start);
        if windows.get(place).is_none_or(|(at, _)| *at != start) {
            windows.insert(place, (start, Figures::default()));
            self.count += 1;
        }
        windows[place].1.add(value);
        self.last[channel] = place;
        if self.count > self.want.windows_max.max(1).saturating_mul(2) {
            self.trim();
        }
    }
}

/// One window over the readings of one channel.
#[derive(Debug)]
pub struct WholeFold {
    range: (EventTime, EventTime),
    figures: Figures,
}

impl WholeFold {
    #[must_use]
    pub fn new(range: (EventTime, EventTime)) -> Self {
        Self {
            range,
            figures: Figures::default(),
        }
    }

    #[must_use]
    pub fn finish(self) -> Figures {
        self.figures
    }
}

impl Fold for WholeFold {
    fn range(&self) -> (EventTime, EventTime) {
        self.range
    }

    fn take(&mut self, _: usize, _: &Series, _: &ReadingRecord, value: Option<f64>) {
        self.figures.add(value);
    }
}
