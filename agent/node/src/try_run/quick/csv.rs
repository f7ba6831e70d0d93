//! CSV lines whose cells stand without quotes and without spaces around them.

use forebay_core::engine::identity::ReadingId;
use forebay_core::limits::EVENT_TIME_MAX;
use forebay_core::units::EventTime;
use forebay_core::utc::TimeReader;
use memchr::memchr;

use super::super::line::{Column, Header};
use super::names::{Known, Names};
use super::{Plain, decimal, without_return};

/// More columns go the long way.
const CELLS_MAX: usize = 16;

pub(super) fn read(
    header: &Header,
    line: &[u8],
    names: &mut Names,
    times: &mut TimeReader,
) -> Option<Plain> {
    let line = without_return(line);
    if header.is_usual() {
        usual(line, names, times)
    } else {
        any(header, line, names, times)
    }
}

/// `device,channel,time,value`
#[inline]
fn usual(line: &[u8], names: &mut Names, times: &mut TimeReader) -> Option<Plain> {
    let (known, used) = match names.guess(line) {
        Some(guessed) => guessed,
        None => usual_names(line, names)?,
    };
    let rest = &line[used..];
    let end = memchr(b',', rest)?;
    Some(Plain {
        series: names.series(known),
        time: time(&rest[..end], times)?,
        value: value(&rest[end + 1..])?,
        id: None,
    })
}

fn usual_names(line: &[u8], names: &mut Names) -> Option<(Known, usize)> {
    let device = memchr(b',', line)?;
    let channel = device + 1 + memchr(b',', &line[device + 1..])?;
    let head = &line[..=channel];
    let known = names.find(&line[..device], &line[device + 1..channel], Some(head))?;
    Some((known, head.len()))
}

/// Columns in any order, some of which mean nothing here.
fn any(header: &Header, line: &[u8], names: &mut Names, times: &mut TimeReader) -> Option<Plain> {
    // A cell that means nothing may hold anything.
    if !line.is_ascii() || memchr(b'"', line).is_some() {
        return None;
    }
    let mut cells: [&[u8]; CELLS_MAX] = [&[]; CELLS_MAX];
    let mut count = 0;
    for cell in line.split(|b| *b == b',') {
        *cells.get_mut(count)? = cell;
        count += 1;
    }
    if count != header.len() {
        return None;
    }
    let cell = |column| header.place(column).map_or(&[][..], |at| cells[at]);
    let id = match (cell(Column::Boot), cell(Column::Seq)) {
        (b"", b"") => None,
        (boot, seq) => Some(ReadingId {
            boot: whole(decimal::unsigned(boot)?, boot)?,
            seq: whole(decimal::unsigned(seq)?, seq)?,
        }),
    };
    let known = names.find(cell(Column::Device), cell(Column::Channel), None)?;
    Some(Plain {
        series: names.series(known),
        time: time(cell(Column::Time), times)?,
        value: value(cell(Column::Value))?,
        id,
    })
}

/// The number, when it is all of the cell.
fn whole<T>((number, len): (T, usize), cell: &[u8]) -> Option<T> {
    (len == cell.len()).then_some(number)
}

#[inline]
fn time(cell: &[u8], times: &mut TimeReader) -> Option<EventTime> {
    if cell.get(4) == Some(&b'-') {
        return times.read(cell);
    }
    let us = whole(decimal::signed(cell)?, cell)?;
    (us.unsigned_abs() <= EVENT_TIME_MAX.unsigned_abs()).then_some(EventTime(us))
}

/// A value; none where the cell is empty.
#[inline]
fn value(cell: &[u8]) -> Option<Option<f64>> {
    if cell.is_empty() {
        return Some(None);
    }
    whole(decimal::decimal(cell)?, cell).map(Some)
}
