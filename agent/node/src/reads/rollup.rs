//! Rollups: from the rows of a window of the config where there is one that says the same,
//! and from the readings where it has no row yet.

use std::ops::Range;

use forebay_core::query::{
    Plan, PlanRows, RollupColumns, RollupFold, RollupSource, RowsScan, Scan, WindowsFold,
    WindowsGot, WindowsWant, rollup_of,
};
use forebay_core::units::{EventTime, Span};

use super::drive::drive;
use super::pool::Stopped;
use super::{ReadError, RollupGot, RollupWant};
use crate::store::{KeyHash, LogReads};

/// # Errors
/// When the disk does not give what is needed, or it is too much.
pub(super) fn rollup(
    log: &LogReads,
    mut plan: Plan,
    want: &RollupWant,
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
    want: &RollupWant,
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
    want: &RollupWant,
    stopped: &Stopped,
) -> Result<Read, ReadError> {
    let fold = WindowsFold::new(
        plan.channels.len(),
        WindowsWant {
            size: want.size,
            range,
            windows_max: want.rows_max,
            newest_first: false,
        },
    );
    let keys = plan.channels.iter().map(|channel| channel.key.clone());
    let mut scan = Scan::new(keys, plan.reads.iter().copied(), false, fold);
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
    want: &RollupWant,
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
    let hashes: Vec<_> = fold.row_keys().map(KeyHash::of).collect();
    let mut scan = RowsScan::new(rows.reads.iter().copied(), fold);
    let mut missing = drive(log, &mut scan, Some(&hashes), stopped)?;
    let columns = scan.finish().finish().ok_or_else(too_much)?;
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
    let (covered, left_out) = limit(&mut out, plan.range, want.rows_max, want.size);
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

/// Leaves so many windows over all channels, whole ones by their start.
fn limit(
    columns: &mut [RollupColumns],
    range: Range<EventTime>,
    rows_max: usize,
    size: Span,
) -> (Range<EventTime>, bool) {
    let count: usize = columns.iter().map(RollupColumns::len).sum();
    if count <= rows_max {
        return (range, false);
    }
    let starts = columns
        .iter()
        .flat_map(|columns| columns.starts.iter().copied());
    let mut starts: Vec<i64> = starts.collect();
    starts.sort_unstable();
    let cut = starts[rows_max];
    let is_first = starts.first() == Some(&cut);
    let end = if is_first {
        cut.saturating_add(size.0)
    } else {
        cut
    };
    for columns in columns {
        columns.truncate(columns.starts.partition_point(|start| *start < end));
    }
    let left_out = starts.last().is_some_and(|last| *last >= end);
    (range.start..range.end.min(EventTime(end)), left_out)
}

fn too_much() -> ReadError {
    ReadError::TooMuch(String::from(
        "there are more windows than one answer takes: ask for a shorter range",
    ))
}
