//! Result rows and their JSON lines. A row is a value of its own: it can be
//! kept, sent to another thread and written later. Knows no window arithmetic.

use std::io::Write;
use std::sync::Arc;

use crate::engine::config::Aggregate;
use crate::units::EventTime;
use crate::utc;

/// Which output stream a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamId {
    /// The window at this place in the config.
    Window(u16),
    /// Readings that every window refused.
    Late,
    /// Readings that were set aside.
    Quarantine,
}

/// One figure of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell {
    /// No value to make it of.
    Null,
    Count(u64),
    Number(f64),
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Self::Null, Self::Number)
    }
}

/// Figures that a row holds without an allocation.
const CELLS_INLINE: usize = 6;

/// The figures of a row, in the order of the window's aggregates.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cells {
    inline: [Cell; CELLS_INLINE],
    len: u8,
    /// All of them when there are more than [`CELLS_INLINE`].
    spilled: Vec<Cell>,
}

impl Cells {
    pub(super) fn new() -> Self {
        Self {
            inline: [Cell::Null; CELLS_INLINE],
            len: 0,
            spilled: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, cell: Cell) {
        let at = usize::from(self.len);
        if at < CELLS_INLINE {
            self.inline[at] = cell;
            self.len += 1;
            return;
        }
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline);
        }
        self.spilled.push(cell);
    }

    pub(super) fn as_slice(&self) -> &[Cell] {
        if self.spilled.is_empty() {
            &self.inline[..usize::from(self.len)]
        } else {
            &self.spilled
        }
    }
}

/// What all rows of one key of one stream share.
#[derive(Debug, PartialEq, Eq)]
pub struct RowHead {
    pub stream: StreamId,
    pub stream_name: Arc<str>,
    pub device: Arc<str>,
    /// `None` where the window takes all channels of the device together.
    pub channel: Option<Arc<str>>,
    pub aggregates: Arc<[Aggregate]>,
    /// The line up to the first time.
    prefix: Vec<u8>,
    /// `,"count":` and so on, one per aggregate.
    labels: Arc<[String]>,
}

impl RowHead {
    pub(super) fn new(
        stream: StreamId,
        stream_name: &Arc<str>,
        device: &Arc<str>,
        channel: Option<&Arc<str>>,
        columns: &Columns,
    ) -> Arc<Self> {
        let mut prefix = b"{\"stream\":".to_vec();
        write_text(stream_name, &mut prefix);
        prefix.extend_from_slice(b",\"device\":");
        write_text(device, &mut prefix);
        if let Some(channel) = channel {
            prefix.extend_from_slice(b",\"channel\":");
            write_text(channel, &mut prefix);
        }
        Arc::new(Self {
            stream,
            stream_name: stream_name.clone(),
            device: device.clone(),
            channel: channel.cloned(),
            aggregates: columns.aggregates.clone(),
            prefix,
            labels: columns.labels.clone(),
        })
    }
}

/// The aggregates of a window with their JSON labels.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    pub(super) aggregates: Arc<[Aggregate]>,
    labels: Arc<[String]>,
}

impl Columns {
    pub(super) fn new(aggregates: &[Aggregate]) -> Self {
        Self {
            labels: aggregates.iter().map(|a| format!(",\"{a}\":")).collect(),
            aggregates: aggregates.into(),
        }
    }
}

/// What kind of line a row is, with what only that kind has.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Body {
    Window(WindowBody),
    /// A rolling line for the reading at this time.
    Rolling {
        time: EventTime,
        cells: Cells,
    },
    /// A reading that was refused or set aside.
    Aside {
        time: EventTime,
        value: Option<f64>,
        reason: &'static str,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct WindowBody {
    pub(super) start: EventTime,
    pub(super) end: EventTime,
    pub(super) revision: u32,
    pub(super) is_final: bool,
    /// Written because the device fell silent, not because the window closed.
    pub(super) idle: bool,
    pub(super) cells: Cells,
}

/// One result line.
#[derive(Debug, Clone, PartialEq)]
pub struct OutRow {
    pub(super) head: Arc<RowHead>,
    pub(super) body: Body,
}

impl OutRow {
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.head.stream
    }

    #[must_use]
    pub fn head(&self) -> &RowHead {
        &self.head
    }

    /// Event time of the row: its reading's, or the last microsecond of its window.
    #[must_use]
    pub fn time(&self) -> EventTime {
        match &self.body {
            Body::Window(window) => EventTime(window.end.0 - 1),
            Body::Rolling { time, .. } | Body::Aside { time, .. } => *time,
        }
    }

    /// Start and end of a tumbling window's row.
    #[must_use]
    pub fn window(&self) -> Option<(EventTime, EventTime)> {
        match &self.body {
            Body::Window(window) => Some((window.start, window.end)),
            Body::Rolling { .. } | Body::Aside { .. } => None,
        }
    }

    /// The figures with their names, in line order.
    pub fn cells(&self) -> impl Iterator<Item = (Aggregate, Cell)> {
        let cells = match &self.body {
            Body::Window(window) => window.cells.as_slice(),
            Body::Rolling { cells, .. } => cells.as_slice(),
            Body::Aside { .. } => &[],
        };
        self.head
            .aggregates
            .iter()
            .copied()
            .zip(cells.iter().copied())
    }

    /// Appends the JSON object, without a newline. Gives how many of its bytes say
    /// which line it is: two lines of one stream that begin with the same ones say the
    /// same of the same window, from what may be more or fewer readings.
    ///
    /// # Panics
    /// Never: a `Vec` takes all bytes.
    pub fn write_json(&self, out: &mut Vec<u8>) -> usize {
        let before = out.len();
        out.extend_from_slice(&self.head.prefix);
        let identity;
        match &self.body {
            Body::Window(window) => {
                out.extend_from_slice(b",\"start\":");
                utc::write_json(window.start, out);
                out.extend_from_slice(b",\"end\":");
                utc::write_json(window.end, out);
                write!(
                    out,
                    ",\"revision\":{},\"final\":{}",
                    window.revision, window.is_final
                )
                .expect("a Vec takes all bytes");
                if window.idle {
                    out.extend_from_slice(b",\"reason\":\"idle\"");
                }
                identity = out.len();
                self.write_cells(&window.cells, out);
            }
            Body::Rolling { time, cells } => {
                out.extend_from_slice(b",\"time\":");
                utc::write_json(*time, out);
                identity = out.len();
                self.write_cells(cells, out);
            }
            Body::Aside {
                time,
                value,
                reason,
            } => {
                out.extend_from_slice(b",\"time\":");
                utc::write_json(*time, out);
                out.extend_from_slice(b",\"value\":");
                write_cell((*value).into(), out);
                out.extend_from_slice(b",\"reason\":");
                write_text(reason, out);
                identity = out.len();
            }
        }
        out.push(b'}');
        identity - before
    }

    fn write_cells(&self, cells: &Cells, out: &mut Vec<u8>) {
        for (label, cell) in self.head.labels.iter().zip(cells.as_slice()) {
            out.extend_from_slice(label.as_bytes());
            write_cell(*cell, out);
        }
    }
}

fn write_cell(cell: Cell, out: &mut Vec<u8>) {
    match cell {
        Cell::Null => out.extend_from_slice(b"null"),
        Cell::Count(n) => write!(out, "{n}").expect("a Vec takes all bytes"),
        Cell::Number(x) => write_number(x, out),
    }
}

/// Appends a double in the shortest form that reads back to the same bits; what
/// JSON has no number for becomes a text.
///
/// # Panics
/// Never: a `Vec` takes all bytes.
pub fn write_number(x: f64, out: &mut Vec<u8>) {
    if x.is_finite() {
        write!(out, "{x:?}").expect("a Vec takes all bytes");
    } else if x.is_nan() {
        out.extend_from_slice(b"\"NaN\"");
    } else if x > 0.0 {
        out.extend_from_slice(b"\"Infinity\"");
    } else {
        out.extend_from_slice(b"\"-Infinity\"");
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(&mut *out, text).expect("text is JSON and a Vec takes all bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_to_the_same_bits() {
        for (x, want) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (21.48, "21.48"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e16, "1e16"),
            (1e-7, "1e-7"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e308"),
            (f64::NAN, "\"NaN\""),
            (f64::INFINITY, "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            let mut out = Vec::new();
            write_number(x, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), want);
        }
    }

    #[test]
    fn any_number_of_cells_is_kept() {
        for len in [0, CELLS_INLINE - 1, CELLS_INLINE, CELLS_INLINE + 1, 64] {
            let mut cells = Cells::new();
            let want: Vec<Cell> = (0..len as u64).map(Cell::Count).collect();
            want.iter().for_each(|cell| cells.push(*cell));
            assert_eq!(cells.as_slice(), want, "{len}");
        }
    }
}
