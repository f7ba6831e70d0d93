//! The short way of a line to its reading: lines in the form that nearly all have,
//! from bytes to numbers without an allocation. `None` for every other line, good or
//! bad: the whole parser then says what it is.
//!
//! Always: where the short way gives a reading, the whole parser gives the same one.

mod csv;
mod decimal;
mod json;
mod names;

use forebay_core::engine::SeriesId;
use forebay_core::engine::identity::ReadingId;
use forebay_core::units::EventTime;
use forebay_core::utc::TimeReader;

use super::line::Header;
use names::Names;

/// A reading whose series is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Plain {
    pub(super) series: SeriesId,
    pub(super) time: EventTime,
    pub(super) value: Option<f64>,
    pub(super) id: Option<ReadingId>,
}

/// What is remembered from line to line of one input.
#[derive(Debug, Default)]
pub(super) struct Quick {
    names: Names,
    times: TimeReader,
}

impl Quick {
    pub(super) fn json(&mut self, line: &[u8]) -> Option<Plain> {
        json::read(line, &mut self.names, &mut self.times)
    }

    pub(super) fn csv(&mut self, header: &Header, line: &[u8]) -> Option<Plain> {
        csv::read(header, line, &mut self.names, &mut self.times)
    }

    /// Lines of this series may go the short way from now on.
    pub(super) fn learn(&mut self, device: &str, channel: &str, series: SeriesId) {
        self.names.learn(device, channel, series);
    }
}

/// One `\r` at the end belongs to the line's end.
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
