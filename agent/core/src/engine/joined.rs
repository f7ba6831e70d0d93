//! What rows of joins say: their sides as numbers and shared texts, and the JSON of them.
//! Nothing is written out before a row is. Bound: a row of a join is 160 bytes beside the
//! texts that it shares with tables. Knows no kind of join.

use std::sync::Arc;

use crate::engine::config::KeySpec;
use crate::engine::route::{Series, SeriesId};
use crate::engine::row::write_value;
use crate::json::{write_text, write_unsigned};
use crate::units::EventTime;
use crate::utc;

/// One row of a join.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct JoinedRow {
    pub(super) key: JoinKey,
    pub(super) mark: Mark,
    pub(super) left: Side,
    pub(super) right: Side,
}

/// What was equal on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum JoinKey {
    /// The device of a series.
    Device(SeriesId),
    /// As text.
    Text(Arc<str>),
    /// Nothing: a null, which nothing is equal to.
    #[default]
    Null,
}

/// What a row says behind its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mark {
    #[default]
    None,
    /// It did not wait until its table was known.
    Stale,
    /// It found nothing before its device fell silent.
    Idle,
    /// It is there from now on.
    Added,
    /// It is not there any more.
    Removed,
}

/// What stands on one side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Side {
    #[default]
    Null,
    Reading {
        series: SeriesId,
        time: i64,
        /// Bits of a double, [`crate::engine::value::NULL`] where there is none.
        value: u64,
    },
    Window(WindowSide),
    /// A row of a table, as JSON.
    Row(Arc<str>),
}

/// A row of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WindowSide {
    /// A series of its key.
    pub(super) series: SeriesId,
    /// Its columns from tables, `,"name":value` each.
    pub(super) columns: Option<Arc<str>>,
    pub(super) start: i64,
    pub(super) end: i64,
    /// A count, or the bits of a double.
    pub(super) value: u64,
}

/// What all rows of a join have on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SideShape {
    /// Names that it has.
    pub(super) key: KeySpec,
    /// Its value is a count.
    pub(super) counts: bool,
}

impl SideShape {
    /// Of readings, and of rows of tables, which have a shape of their own.
    pub(super) const READING: Self = Self {
        key: KeySpec::DEVICE_CHANNEL,
        counts: false,
    };
}

impl JoinedRow {
    /// The device that is its key.
    pub(super) fn device<'a>(&self, series: &'a [Series]) -> Option<&'a str> {
        match self.key {
            JoinKey::Device(of) => Some(&*series[of.index()].names.device),
            JoinKey::Text(_) | JoinKey::Null => None,
        }
    }
}

/// A row of a join with what it takes to write it.
#[derive(Debug, Clone, Copy)]
pub(super) struct JoinedView<'a> {
    pub(super) joined: &'a JoinedRow,
    pub(super) sides: &'a [SideShape; 2],
    pub(super) series: &'a [Series],
}

impl JoinedView<'_> {
    /// Appends all behind the name of the stream but the last brace; gives where that
    /// ends which says what row it is.
    pub(super) fn write(&self, time: EventTime, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(b",\"time\":");
        let from = out.len();
        utc::write_json(time, out);
        let written = (time.0, from..out.len());
        out.extend_from_slice(b",\"key\":");
        match &self.joined.key {
            JoinKey::Device(series) => {
                out.extend_from_slice(self.series[series.index()].names.device_json());
            }
            JoinKey::Text(key) => write_text(key, out),
            JoinKey::Null => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(match self.joined.mark {
            Mark::None => b"",
            Mark::Stale => b",\"stale\":true",
            Mark::Idle => b",\"reason\":\"idle\"",
            Mark::Added => b",\"diff\":1",
            Mark::Removed => b",\"diff\":-1",
        });
        out.extend_from_slice(b",\"left\":");
        self.side(&self.joined.left, self.sides[0], &written, out);
        let identity = out.len();
        out.extend_from_slice(b",\"right\":");
        self.side(&self.joined.right, self.sides[1], &written, out);
        // Which row of a table it found is what it says of the reading.
        let is_left = matches!(self.joined.left, Side::Reading { .. } | Side::Window(_));
        let is_row = matches!(self.joined.right, Side::Row(_) | Side::Null);
        if is_left && is_row {
            identity
        } else {
            out.len()
        }
    }

    /// `written`: a time, and where it stands already.
    fn side(
        &self,
        side: &Side,
        shape: SideShape,
        written: &(i64, std::ops::Range<usize>),
        out: &mut Vec<u8>,
    ) {
        match side {
            Side::Null => out.extend_from_slice(b"null"),
            Side::Row(row) => out.extend_from_slice(row.as_bytes()),
            Side::Reading {
                series,
                time,
                value,
            } => {
                out.push(b'{');
                self.names(*series, shape.key, out);
                out.extend_from_slice(b",\"time\":");
                if *time == written.0 {
                    out.extend_from_within(written.1.clone());
                } else {
                    utc::write_json(EventTime(*time), out);
                }
                out.extend_from_slice(b",\"value\":");
                write_value(f64::from_bits(*value), out);
                out.push(b'}');
            }
            Side::Window(of) => self.window(of, shape, out),
        }
    }

    fn window(&self, of: &WindowSide, shape: SideShape, out: &mut Vec<u8>) {
        out.push(b'{');
        let first = out.len();
        self.names(of.series, shape.key, out);
        let columns = of.columns.as_deref().unwrap_or("");
        let is_first = out.len() == first;
        out.extend_from_slice(
            columns
                .get(usize::from(is_first)..)
                .unwrap_or("")
                .as_bytes(),
        );
        if out.len() > first {
            out.push(b',');
        }
        if of.start == of.end {
            // A line, which is over the time before it.
            out.extend_from_slice(b"\"time\":");
            utc::write_json(EventTime(of.end), out);
        } else {
            out.extend_from_slice(b"\"start\":");
            utc::write_json(EventTime(of.start), out);
            out.extend_from_slice(b",\"end\":");
            utc::write_json(EventTime(of.end), out);
        }
        out.extend_from_slice(b",\"value\":");
        if shape.counts {
            write_unsigned(of.value, out);
        } else {
            write_value(f64::from_bits(of.value), out);
        }
        out.push(b'}');
    }

    /// The names without the first comma.
    fn names(&self, series: SeriesId, key: KeySpec, out: &mut Vec<u8>) {
        let json = self.series[series.index()].names.json(key);
        out.extend_from_slice(json.get(1..).unwrap_or(&[]));
    }
}
