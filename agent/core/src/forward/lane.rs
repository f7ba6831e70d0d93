//! One way through a partition: where it stands, and what of the log was read ahead for
//! it.
//!
//! Holds always: what waits stands in order and behind the cursor. Bound: one read of
//! the log and READ_AHEAD_BLOCKS. Knows no marks: its place says where it may go.

use std::collections::VecDeque;

use super::trouble::Trouble;
use crate::log::key::StoredBlock;
use crate::units::{EventTime, Offset};

/// The log is read on while no more blocks than this wait.
pub(super) const READ_AHEAD_BLOCKS: usize = 4;

/// Which of the ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneId {
    /// From the mark on.
    Backlog,
    /// What came since the connection, where that goes first.
    Live,
    /// One block again, to see whether the receiver misses it.
    Probe,
    /// Dead letters once more.
    Retry,
}

/// In the order in which they are asked for something to hand over.
pub(super) const LANES: [LaneId; 4] = [LaneId::Live, LaneId::Probe, LaneId::Retry, LaneId::Backlog];

/// What waits to go out.
#[derive(Debug)]
pub(super) struct Waiting {
    pub first: Offset,
    /// Offset after its last record.
    pub end: Offset,
    /// `None`: no record of these offsets can be read.
    pub stored: Option<Stored>,
}

/// A block that was read.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub block: StoredBlock,
    /// Largest event time inside.
    pub newest: EventTime,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lane {
    /// Whether it is used at all.
    pub open: bool,
    /// Nothing below is of its concern.
    pub start: Offset,
    /// Nothing from here on is; `None`: up to the durable head.
    pub until: Option<Offset>,
    /// Next offset to give out.
    pub cursor: Offset,
    pub waiting: VecDeque<Waiting>,
    /// With this head the log had nothing whole to give.
    pub starved_at: Option<Offset>,
    /// Counts the times that it went back: an answer from before moves no mark.
    pub rewinds: u64,
    pub trouble: Trouble,
    /// Highest offset that this process ever handed over on it.
    pub reached: Offset,
}

impl Lane {
    pub(super) fn closed() -> Self {
        Self {
            open: false,
            start: Offset(0),
            until: None,
            cursor: Offset(0),
            waiting: VecDeque::new(),
            starved_at: None,
            rewinds: 0,
            trouble: Trouble::default(),
            reached: Offset(0),
        }
    }

    /// Goes on from `to`: what is on its way counts no more.
    pub(super) fn rewind(&mut self, to: Offset) {
        self.cursor = to;
        self.waiting.clear();
        self.starved_at = None;
        self.rewinds += 1;
    }

    /// Covers `[start, until)` from now on. What is on its way still counts.
    pub(super) fn open(&mut self, start: Offset, until: Option<Offset>) {
        (self.open, self.start, self.until) = (true, start, until);
        (self.cursor, self.starved_at) = (start, None);
        self.waiting.clear();
    }

    /// Is used no more; what is on its way may still be answered.
    pub(super) fn close(&mut self) {
        self.open = false;
        self.waiting.clear();
    }

    /// Moves the cursor up to `to`, past what waits below.
    pub(super) fn pass(&mut self, to: Offset) {
        self.cursor = self.cursor.max(to);
        while self.waiting.front().is_some_and(|w| w.end <= self.cursor) {
            self.waiting.pop_front();
        }
    }

    /// Whether something waits to go out, and may.
    pub(super) fn is_ready(&self) -> bool {
        self.open && !self.waiting.is_empty() && self.trouble.waits_until().is_none()
    }

    /// Where the log is to be read on, if it is.
    pub(super) fn next_read(&self) -> Offset {
        self.waiting
            .back()
            .map_or(self.cursor, |w| w.end.max(self.cursor))
    }
}
