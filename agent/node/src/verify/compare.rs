//! One partition of one stream: rows as they are made beside rows as they stand.
//!
//! Holds always: the first difference stays, and after it nothing more is compared.
//! Where all readings are there, a row is compared with the one at its offset; where
//! the oldest are gone, with the next one of those that cannot depend on them.

use forebay_core::log::key::TopicPartition;
use forebay_core::units::{EventTime, Offset};
use forebay_core::utc;
use serde_json::Value;

use super::stored::StoredRows;
use crate::store::LogReader;

/// Which rows of a stream can be told where readings before some time are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Those that begin so many microseconds after it.
    Reaches(i64),
    /// None.
    Never,
}

/// How rows are put side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// By offset.
    Offset,
    /// In order, those that begin at this time or later; others are not compared.
    Order(i64),
    Not,
}

impl Side {
    /// The same of a stream whose rows begin at some time.
    pub(super) fn from(self, begins: Option<EventTime>) -> Self {
        match (self, begins) {
            (side, None) | (side @ Self::Not, Some(_)) => side,
            (Self::Offset, Some(from)) => Self::Order(from.0),
            (Self::Order(at), Some(from)) => Self::Order(at.max(from.0)),
        }
    }
}

impl Rule {
    /// For a log whose readings are all there from `tells_from` on, and a topic that
    /// took all its rows or not.
    pub(super) fn at(self, tells_from: Option<EventTime>, whole: bool) -> Side {
        match (self, tells_from) {
            (_, None) if whole => Side::Offset,
            (_, None) => Side::Order(i64::MIN),
            (Self::Reaches(reach), Some(from)) => Side::Order(from.0.saturating_add(reach)),
            (Self::Never, Some(_)) => Side::Not,
        }
    }
}

/// A row that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub offset: Offset,
    /// `None`: no row stands there.
    pub stands: Option<Vec<u8>>,
    /// `None`: no row is made.
    pub made: Option<Vec<u8>>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Compare {
    at: TopicPartition,
    name: String,
    side: Side,
    stored: StoredRows,
    /// Rows before it had been made when the agent stopped.
    kept: Option<Offset>,
    head: Offset,
    same: u64,
    pending: u64,
    unknown: u64,
    stopped: bool,
    difference: Option<Difference>,
}

impl Compare {
    /// Rows of `at` from `first` on; its next offset is `head`, and those before `kept`
    /// must be there.
    pub(super) fn new(
        (at, name): (TopicPartition, String),
        side: Side,
        first: Option<Offset>,
        (kept, head): (Option<Offset>, Offset),
    ) -> Self {
        Self {
            at,
            name,
            side,
            stored: StoredRows::new(at, first.unwrap_or_default(), head),
            kept,
            head,
            same: 0,
            pending: 0,
            unknown: 0,
            stopped: false,
            difference: None,
        }
    }

    pub(super) fn at(&self) -> TopicPartition {
        self.at
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn same(&self) -> u64 {
        self.same
    }

    /// Rows that are made and do not stand yet.
    pub(super) fn pending(&self) -> u64 {
        self.pending
    }

    pub(super) fn unknown(&self) -> u64 {
        self.unknown
    }

    pub(super) fn difference(&self) -> Option<&Difference> {
        self.difference.as_ref()
    }

    /// Nothing more is compared.
    pub(super) fn is_over(&self) -> bool {
        self.stopped || self.difference.is_some()
    }

    /// What comes now cannot be told.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Takes a row that was made.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(super) fn on_row(
        &mut self,
        offset: Offset,
        line: &[u8],
        reader: &mut LogReader,
    ) -> Result<(), String> {
        if self.is_over() {
            return Ok(());
        }
        match self.side {
            Side::Offset => self.by_offset(offset, line, reader),
            Side::Order(from) if begins(line) >= from => self.in_order(line, from, reader),
            Side::Order(_) | Side::Not => {
                self.unknown += 1;
                Ok(())
            }
        }
    }

    fn by_offset(
        &mut self,
        offset: Offset,
        line: &[u8],
        reader: &mut LogReader,
    ) -> Result<(), String> {
        while self
            .stored
            .peek(reader)?
            .is_some_and(|(at, _)| *at < offset)
        {
            self.stored.pop();
        }
        match self.stored.peek(reader)? {
            Some((at, stands)) if *at == offset => {
                if stands == line {
                    self.same += 1;
                } else {
                    let stands = Some(stands.clone());
                    self.differs(offset, stands, Some(line));
                }
                self.stored.pop();
            }
            // Removed, or lost.
            Some(_) => self.unknown += 1,
            None if offset < self.head => self.unknown += 1,
            None => self.pending += 1,
        }
        Ok(())
    }

    /// A topic that was full has fewer rows, and the oldest of it may be removed: what
    /// does not stand is passed over, what stands has to come.
    fn in_order(&mut self, line: &[u8], from: i64, reader: &mut LogReader) -> Result<(), String> {
        self.pass(from, reader)?;
        match self.stored.peek(reader)? {
            Some((_, stands)) if stands == line => {
                self.same += 1;
                self.stored.pop();
            }
            Some((at, stands)) if is_same_row(stands, line) => {
                let (at, stands) = (*at, stands.clone());
                self.differs(at, Some(stands), Some(line));
            }
            Some(_) | None => self.pending += 1,
        }
        Ok(())
    }

    /// Passes rows that stand and cannot be told.
    fn pass(&mut self, from: i64, reader: &mut LogReader) -> Result<(), String> {
        let is_before = |(_, line): &(Offset, Vec<u8>)| begins(line) < from;
        while self.stored.peek(reader)?.is_some_and(is_before) {
            self.stored.pop();
            self.unknown += 1;
        }
        Ok(())
    }

    /// All rows have been made.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(super) fn finish(&mut self, reader: &mut LogReader) -> Result<(), String> {
        if self.is_over() || self.side == Side::Not {
            return Ok(());
        }
        if let Side::Order(from) = self.side {
            self.pass(from, reader)?;
        }
        if let Some((offset, stands)) = self.stored.peek(reader)?.cloned() {
            self.differs(offset, Some(stands), None);
        } else if self.kept.is_some_and(|kept| kept > self.head) {
            self.differs(self.head, None, None);
        }
        Ok(())
    }

    fn differs(&mut self, offset: Offset, stands: Option<Vec<u8>>, made: Option<&[u8]>) {
        self.difference = Some(Difference {
            offset,
            stands,
            made: made.map(<[u8]>::to_vec),
        });
    }
}

/// Event time at which a row begins: its window's start, or its reading's time.
fn begins(line: &[u8]) -> i64 {
    let row: Value = serde_json::from_slice(line).unwrap_or_default();
    let time = match (&row["start"], &row["time"]) {
        (Value::Null, time) => time,
        (start, _) => start,
    };
    let parsed = time.as_str().and_then(utc::parse);
    parsed
        .map(|time| time.0)
        .or(time.as_i64())
        .unwrap_or(i64::MIN)
}

/// Whether two rows say of the same window, reading or pair what may be different figures.
fn is_same_row(one: &[u8], other: &[u8]) -> bool {
    let identity = |line: &[u8]| {
        let row: Value = serde_json::from_slice(line).unwrap_or_default();
        let names = [
            "device", "channel", "start", "end", "time", "revision", "final", "reason", "key",
            "left", "right", "diff",
        ];
        names.map(|name| row[name].clone())
    };
    identity(one) == identity(other)
}
