//! Rollups: from the rows of a window of the config where there is one that says the same,
//! and from the readings where it has no row yet.

use std::ops::Range;

use forebay_core::limits::QUERY_LINES_MAX;
use forebay_core::query::{
    Plan, PlanRead, PlanRows, RollupColumns, RollupFold, RollupSaid, RollupSource, RowFold as _,
    RowsScan, Scan, WindowsFold, WindowsGot, WindowsWant, rollup_of,
};
use forebay_core::units::{EventTime, Span};
use serde_json::Value;

use super::drive::drive;
use super::pool::Stopped;
use super::{ReadError, RollupGot, RollupWant};
use crate::store::{KeyHash, LogReads, RowsOf};

/// Windows of some length, of the channels of a plan.
#[derive(Debug, Clone, Copy)]
struct Windows {
    size: Span,
    /// Most of them over all channels.
    max: usize,
    /// Which are kept where there are more.
    newest_first: bool,
}

/// # Errors
/// When the disk does not give what is needed, or it is too much.
pub(super) fn rollup(
    log: &LogReads,
    plan: Plan,
    want: &RollupWant,
    stopped: &Stopped,
) -> Result<RollupGot, ReadError> {
    let windows = Windows {
        size: want.size,
        max: want.rows_max,
        newest_first: false,
    };
    answer(log, plan, windows, stopped)
}

/// The newest windows of the one channel of a plan, as an operator is told of them.
///
/// # Errors
/// As [`rollup`].
pub(super) fn said(
    log: &LogReads,
    plan: Plan,
    size: Span,
    stopped: &Stopped,
) -> Result<Value, ReadError> {
    let none = || ReadError::Wrong(String::from("no channel is asked for"));
    let channel = plan.channels.first().cloned().ok_or_else(none)?;
    let start = plan.range.start;
    let windows = Windows {
        size,
        max: QUERY_LINES_MAX,
        newest_first: true,
    };
    let got = answer(log, plan, windows, stopped)?;
    let said = RollupSaid {
        channel: &channel,
        size,
        columns: got.columns.first().ok_or_else(none)?,
        source: &got.source,
        behind: got.behind,
        complete_from: got.complete_from.filter(|from| *from > start),
    };
    Ok(said.answer())
}

fn answer(
    log: &LogReads,
    mut plan: Plan,
    want: Windows,
    stopped: &Stopped,
) -> Result<RollupGot, ReadError> {
    match plan.rows.take() {
        Some(rows) if rows.window.is_some() => from_rows(log, plan, rows, want, stopped),
        Some(_) | None => from_readings(log, plan, want, stopped),
    }
}

fn from_readings(
    log: &LogReads,
    plan: Plan,
    want: Windows,
    stopped: &Stopped,
) -> Result<RollupGot, ReadError> {
    let read = read_windows(log, &plan, plan.range.clone(), want, stopped)?;
    let columns = plan.channels.iter().zip(&read.got.windows);
    let columns = columns.map(|(channel, windows)| {
        rollup_of(channel.key.clone(), windows, want.size, channel.watermark)
    });
    Ok(RollupGot {
        columns: columns.collect(),
        source: RollupSource::Readings,
        complete_from: plan.complete_from,
        left_out: read.got.left_out,
        covered: read.got.covered,
        behind: plan.behind,
        missing: read.missing,
    })
}

/// Windows over the readings of a part of the range.
struct Read {
    got: WindowsGot,
    missing: u64,
}

fn read_windows(
    log: &LogReads,
    plan: &Plan,
    range: Range<EventTime>,
    want: Windows,
    stopped: &Stopped,
) -> Result<Read, ReadError> {
    let fold = WindowsFold::new(
        plan.channels.len(),
        WindowsWant {
            size: want.size,
            range,
            windows_max: want.max,
            newest_first: want.newest_first,
        },
    );
    let keys = plan.channels.iter().map(|channel| channel.key.clone());
    let reads = plan.reads.iter().copied();
    let mut scan = Scan::new(keys, reads, want.newest_first, fold);
    let missing = drive(log, &mut scan, None, stopped)?;
    Ok(Read {
        got: scan.finish().finish(),
        missing,
    })
}

fn from_rows(
    log: &LogReads,
    plan: Plan,
    rows: PlanRows,
    want: Windows,
    stopped: &Stopped,
) -> Result<RollupGot, ReadError> {
    let Some(window) = &rows.window else {
        return from_readings(log, plan, want, stopped);
    };
    let keys: Vec<_> = plan
        .channels
        .iter()
        .map(|channel| channel.key.clone())
        .collect();
    // The time of a row is the last microsecond of its window.
    let fold = RollupFold::new(keys, window, (plan.range.start, plan.range.end));
    let (fold, mut missing) = read_rows(log, fold, &rows.reads, stopped)?;
    let columns = fold.finish().ok_or_else(too_much)?;
    let last = columns.iter().map(|columns| columns.ends.last().copied());
    // What each channel has no row of yet; the earliest of all is read.
    let from = last
        .map(|end| end.map_or(plan.range.start, EventTime))
        .min();
    let from = from.unwrap_or(plan.range.start).max(plan.range.start);
    let mut out = columns;
    for (columns, channel) in out.iter_mut().zip(&plan.channels) {
        let over = |end: &&i64| end.saturating_add(window.lateness.0) <= channel.watermark.0;
        columns.preliminary_from = columns.ends.iter().take_while(over).count();
    }
    if from < plan.range.end {
        let read = read_windows(log, &plan, from..plan.range.end, want, stopped)?;
        missing += read.missing;
        for (columns, windows) in out.iter_mut().zip(&read.got.windows) {
            let behind = columns.ends.last().copied().unwrap_or(i64::MIN);
            let first = windows.partition_point(|(start, _)| start.0 < behind);
            columns.append(&windows[first..], want.size, |_| false);
        }
    }
    let (covered, left_out) = limit(&mut out, plan.range, want);
    Ok(RollupGot {
        columns: out,
        source: RollupSource::Stream(rows.stream),
        complete_from: plan.complete_from,
        left_out,
        covered,
        behind: plan.behind,
        missing,
    })
}

/// Takes the rows from where they stand by key, and others from their blocks; gives how
/// many records were not there.
fn read_rows(
    log: &LogReads,
    mut fold: RollupFold,
    reads: &[PlanRead],
    stopped: &Stopped,
) -> Result<(RollupFold, u64), ReadError> {
    let keys: Vec<Vec<u8>> = fold.row_keys().map(<[u8]>::to_vec).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let hashes: Vec<_> = keys.iter().map(|key| KeyHash::of(key)).collect();
    let note = fold.note();
    let mut missing = 0;
    for read in reads {
        let mut next = read.first;
        while next < read.end {
            if stopped.is_set() {
                return Err(ReadError::Stopped);
            }
            let (from, to) = fold.range();
            let what = RowsOf {
                at: read.at,
                range: next..read.end,
                times: from..to,
                keys: &keys,
                note: &note,
            };
            let part = log.read_keyed(&what, &mut |place, time, row| {
                fold.take_packed(place, time, row);
            });
            let part = part.map_err(|error| ReadError::Disk(error.to_string()))?;
            let rest = part.rest.into_iter().map(|range| PlanRead {
                first: range.start,
                end: range.end,
                ..*read
            });
            let mut scan = RowsScan::new(rest, fold);
            missing += drive(log, &mut scan, Some(&hashes), stopped)?;
            fold = scan.finish();
            next = part.next;
        }
    }
    Ok((fold, missing))
}

/// Leaves so many windows over all channels, whole ones by their start.
fn limit(
    columns: &mut [RollupColumns],
    range: Range<EventTime>,
    want: Windows,
) -> (Range<EventTime>, bool) {
    let count: usize = columns.iter().map(RollupColumns::len).sum();
    if count <= want.max {
        return (range, false);
    }
    let starts = columns
        .iter()
        .flat_map(|columns| columns.starts.iter().copied());
    let mut starts: Vec<i64> = starts.collect();
    starts.sort_unstable();
    let next = |start: i64| start.saturating_add(want.size.0);
    // Of equal starts all are left, or none but where nothing else is there.
    let kept = if want.newest_first {
        let cut = starts[starts.len() - 1 - want.max];
        let is_last = starts.last() == Some(&cut);
        let first = if is_last { cut } else { next(cut) };
        range.start.max(EventTime(first))..range.end
    } else {
        let cut = starts[want.max];
        let is_first = starts.first() == Some(&cut);
        let end = if is_first { next(cut) } else { cut };
        range.start..range.end.min(EventTime(end))
    };
    for columns in &mut *columns {
        let before = |limit: EventTime| move |start: &i64| *start < limit.0;
        columns.truncate(columns.starts.partition_point(before(kept.end)));
        columns.skip(columns.starts.partition_point(before(kept.start)));
    }
    let left: usize = columns.iter().map(RollupColumns::len).sum();
    (kept, left < count)
}

fn too_much() -> ReadError {
    ReadError::TooMuch(String::from(
        "there are more windows than one answer takes: ask for a shorter range",
    ))
}
