//! Result rows as columns hold them, and their JSON lines. A row is 48 bytes and its
//! cells, or what a join has put together; names are looked up when it is written. Knows
//! no window arithmetic.

use std::sync::Arc;

use crate::engine::config::{Aggregate, KeySpec};
use crate::engine::joined::{JoinedRow, JoinedView, SideShape};
use crate::engine::route::{Series, Slot};
use crate::engine::value::{self, NULL};
use crate::json::{write_number, write_text, write_unsigned};
use crate::units::EventTime;
use crate::utc;

/// Which output stream a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamId {
    /// The window at this place in the config.
    Window(u16),
    /// The join at this place in the config.
    Join(u16),
    /// Readings that every window and join refused.
    Late,
    /// Readings that were set aside.
    Quarantine,
}

/// What kind of line a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of a window with start and end.
    Window,
    /// Of one reading, at `end`, over what came before it.
    Line,
    /// A reading that was refused or set aside.
    Aside(Aside),
    /// Of a join, at `end`.
    Joined,
}

/// Why a reading stands aside of all windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aside {
    LateAll,
    Future,
    /// Its time is none that the engine can calculate with.
    Range,
    /// Its time comes from a clock that was wrong, nobody knows by how much.
    Clock,
}

impl Aside {
    fn reason(self) -> &'static str {
        match self {
            Self::LateAll => "late_all",
            Self::Future => "future",
            Self::Range => "range",
            Self::Clock => "clock",
        }
    }
}

/// What a row of a window says to those that read its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    /// What is in the window now.
    Figures,
    /// Only that it is final: its figures are out already.
    OnlyFinal,
    /// That the window is no more: another one has absorbed it, or all that was in it has
    /// moved on.
    Gone,
}

/// One result row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Place in its batch of the reading that caused it.
    pub cause: u32,
    pub stream: StreamId,
    pub(super) kind: Kind,
    pub(super) says: Says,
    pub(super) is_final: bool,
    /// Written because the device fell silent, not because the window closed.
    pub(super) idle: bool,
    /// Readings were left out for want of room.
    pub(super) truncated: bool,
    /// Key in the stream's operator; of an aside its series.
    pub(super) slot: Slot,
    pub(super) revision: u32,
    /// Its first cell; of a join the place of what it says.
    pub(super) cells: u32,
    /// First microsecond of its window; of a line the same as `end`.
    pub(super) start: i64,
    pub(super) end: i64,
}

impl Row {
    /// Event time of the row: its reading's, or the last microsecond of its window.
    #[must_use]
    pub fn time(&self) -> EventTime {
        match self.kind {
            Kind::Window => EventTime(self.end.saturating_sub(1)),
            Kind::Line | Kind::Aside(_) | Kind::Joined => EventTime(self.end),
        }
    }
}

/// Rows with their cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) cells: Vec<u64>,
    pub(super) joined: Vec<JoinedRow>,
}

impl Rows {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows without their figures.
    #[must_use]
    pub fn as_slice(&self) -> &[Row] {
        &self.rows
    }

    /// Forgets the rows and keeps the room.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.cells.clear();
        self.joined.clear();
    }

    /// Where the next row's cells begin.
    pub(super) fn next_cells(&self) -> u32 {
        u32::try_from(self.cells.len()).expect("rows are taken before there are 2^32 cells")
    }

    /// Place of what the next row of a join says.
    pub(super) fn next_joined(&self) -> u32 {
        u32::try_from(self.joined.len()).expect("rows are taken before there are 2^32")
    }

    /// Appends a row of a join.
    pub(super) fn push_joined(&mut self, stream: StreamId, cause: u32, time: i64, of: JoinedRow) {
        let cells = self.next_joined();
        self.joined.push(of);
        self.rows.push(Row {
            cause,
            stream,
            kind: Kind::Joined,
            says: Says::Figures,
            is_final: true,
            idle: false,
            truncated: false,
            slot: 0,
            revision: 0,
            cells,
            start: time,
            end: time,
        });
    }

    /// Appends rows of another list, cells included.
    pub(super) fn append(&mut self, other: &mut Self) {
        let (cells, joined) = (self.next_cells(), self.next_joined());
        self.cells.append(&mut other.cells);
        self.joined.append(&mut other.joined);
        self.rows.extend(other.rows.drain(..).map(|row| Row {
            cells: row.cells
                + match row.kind {
                    Kind::Joined => joined,
                    Kind::Window | Kind::Line | Kind::Aside(_) => cells,
                },
            ..row
        }));
    }
}

/// One figure of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell {
    /// No value to make it of.
    Null,
    Count(u64),
    Number(f64),
}

impl Cell {
    fn of(aggregate: Aggregate, bits: u64) -> Self {
        if aggregate == Aggregate::Count {
            Self::Count(bits)
        } else if bits == NULL.to_bits() {
            Self::Null
        } else {
            Self::Number(f64::from_bits(bits))
        }
    }
}

/// What all rows of one stream share.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) name: Arc<str>,
    pub(super) key: KeySpec,
    /// In line order; behind `shown` those that only a reader of the stream asked for.
    pub(super) aggregates: Box<[Aggregate]>,
    pub(super) shown: usize,
    /// What stands on the sides of a join, left and right.
    pub(super) sides: [SideShape; 2],
    /// `{"stream":` and the name.
    prefix: Vec<u8>,
    /// `,"count":` and so on, one per aggregate that is shown.
    labels: Box<[String]>,
}

impl Stream {
    pub(super) fn new(name: &str, key: KeySpec, aggregates: &[Aggregate], shown: usize) -> Self {
        let mut prefix = b"{\"stream\":".to_vec();
        write_text(name, &mut prefix);
        let shown_ones = aggregates.iter().take(shown);
        Self {
            name: name.into(),
            key,
            aggregates: aggregates.into(),
            shown,
            sides: [SideShape::READING; 2],
            prefix,
            labels: shown_ones.map(|a| format!(",\"{a}\":")).collect(),
        }
    }

    /// The stream of a join.
    pub(super) fn of_join(name: &str, sides: [SideShape; 2]) -> Self {
        Self {
            sides,
            ..Self::new(name, KeySpec::NONE, &[], 0)
        }
    }
}

/// The names of a series, and how they stand in a line.
#[derive(Debug, Clone)]
pub(super) struct SeriesNames {
    pub(super) device: Arc<str>,
    pub(super) channel: Arc<str>,
    /// `,"device":` with the name, then the same of the channel.
    json: Box<[u8]>,
    channel_at: u32,
}

impl SeriesNames {
    pub(super) fn new(device: &Arc<str>, channel: &str) -> Self {
        let mut json = b",\"device\":".to_vec();
        write_text(device, &mut json);
        let channel_at = json.len();
        json.extend_from_slice(b",\"channel\":");
        write_text(channel, &mut json);
        Self {
            device: device.clone(),
            channel: channel.into(),
            json: json.into(),
            channel_at: u32::try_from(channel_at).expect("names have at most 255 bytes"),
        }
    }

    /// The name of the device with its quotes.
    pub(super) fn device_json(&self) -> &[u8] {
        &self.json[b",\"device\":".len()..self.channel_at as usize]
    }

    /// The names that are in the key, each behind a comma.
    pub(super) fn json(&self, key: KeySpec) -> &[u8] {
        let at = self.channel_at as usize;
        match (key.device, key.channel) {
            (true, true) => &self.json,
            (true, false) => &self.json[..at],
            (false, true) => &self.json[at..],
            (false, false) => &[],
        }
    }
}

/// A row with its names and figures.
#[derive(Debug, Clone, Copy)]
pub struct RowView<'a> {
    pub(super) row: &'a Row,
    pub(super) stream: &'a Stream,
    /// A series of its key, where it has one.
    pub(super) names: Option<&'a SeriesNames>,
    /// The columns of tables in its key.
    pub(super) columns: &'a [Arc<str>],
    /// Those that are shown.
    pub(super) cells: &'a [u64],
    /// Of a join.
    pub(super) joined: Option<&'a JoinedRow>,
    pub(super) series: &'a [Series],
}

impl<'a> RowView<'a> {
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.row.stream
    }

    /// Place in its batch of the reading that caused it.
    #[must_use]
    pub fn cause(&self) -> usize {
        self.row.cause as usize
    }

    #[must_use]
    pub fn stream_name(&self) -> &'a str {
        &self.stream.name
    }

    /// `None` where the window takes all devices together; of a join where its key is not
    /// the device.
    #[must_use]
    pub fn device(&self) -> Option<&'a str> {
        if let Some(joined) = self.joined {
            return joined.device(self.series);
        }
        let names = self.names.filter(|_| self.stream.key.device);
        names.map(|names| &*names.device)
    }

    /// `None` where the window takes all channels together, and of joins.
    #[must_use]
    pub fn channel(&self) -> Option<&'a str> {
        let names = self.names.filter(|_| self.stream.key.channel);
        names.map(|names| &*names.channel)
    }

    /// See [`Row::time`].
    #[must_use]
    pub fn time(&self) -> EventTime {
        self.row.time()
    }

    /// Start and end of a window's row.
    #[must_use]
    pub fn window(&self) -> Option<(EventTime, EventTime)> {
        let window = self.row.kind == Kind::Window;
        window.then_some((EventTime(self.row.start), EventTime(self.row.end)))
    }

    /// The figures with their names, in line order.
    pub fn cells(&self) -> impl Iterator<Item = (Aggregate, Cell)> + use<'a> {
        let pairs = self.stream.aggregates.iter().zip(self.cells);
        pairs.map(|(aggregate, bits)| (*aggregate, Cell::of(*aggregate, *bits)))
    }

    /// Appends the JSON object, without a newline. Gives how many of its bytes say
    /// which line it is: two lines of one stream that begin with the same ones say the
    /// same of the same window, from what may be more or fewer readings; of a join, of
    /// the same left side.
    ///
    /// # Panics
    /// Never: a `Vec` takes all bytes.
    pub fn write_json(&self, out: &mut Vec<u8>) -> usize {
        let before = out.len();
        out.extend_from_slice(&self.stream.prefix);
        if let Some(names) = self.names {
            out.extend_from_slice(names.json(self.stream.key));
        }
        for column in self.columns {
            out.extend_from_slice(column.as_bytes());
        }
        let identity;
        match self.row.kind {
            Kind::Window => {
                out.extend_from_slice(b",\"start\":");
                utc::write_json(EventTime(self.row.start), out);
                out.extend_from_slice(b",\"end\":");
                utc::write_json(EventTime(self.row.end), out);
                out.extend_from_slice(b",\"revision\":");
                write_unsigned(self.row.revision.into(), out);
                out.extend_from_slice(if self.row.is_final {
                    b",\"final\":true"
                } else {
                    b",\"final\":false"
                });
                if self.row.idle {
                    out.extend_from_slice(b",\"reason\":\"idle\"");
                }
                identity = out.len();
                self.write_cells(out);
            }
            Kind::Line => {
                out.extend_from_slice(b",\"time\":");
                utc::write_json(EventTime(self.row.end), out);
                identity = out.len();
                self.write_cells(out);
            }
            Kind::Aside(why) => {
                out.extend_from_slice(b",\"time\":");
                utc::write_json(EventTime(self.row.end), out);
                out.extend_from_slice(b",\"value\":");
                let bits = self.cells.first().copied().unwrap_or(NULL.to_bits());
                write_value(f64::from_bits(bits), out);
                out.extend_from_slice(b",\"reason\":");
                write_text(why.reason(), out);
                identity = out.len();
            }
            Kind::Joined => {
                identity = self.joined.map_or(out.len(), |joined| {
                    let (stream, series) = (self.stream, self.series);
                    let view = JoinedView {
                        joined,
                        sides: &stream.sides,
                        series,
                    };
                    view.write(EventTime(self.row.end), out)
                });
            }
        }
        out.push(b'}');
        identity - before
    }

    fn write_cells(&self, out: &mut Vec<u8>) {
        if self.row.truncated {
            out.extend_from_slice(b",\"truncated\":true");
        }
        let columns = self.stream.labels.iter().zip(&self.stream.aggregates);
        for ((label, aggregate), bits) in columns.zip(self.cells) {
            out.extend_from_slice(label.as_bytes());
            if *aggregate == Aggregate::Count {
                write_unsigned(*bits, out);
            } else {
                write_value(f64::from_bits(*bits), out);
            }
        }
    }
}

pub(super) fn write_value(x: f64, out: &mut Vec<u8>) {
    match value::option(x) {
        Some(x) => write_number(x, out),
        None => out.extend_from_slice(b"null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_small() {
        assert!(size_of::<Row>() <= 48, "{}", size_of::<Row>());
    }
}
