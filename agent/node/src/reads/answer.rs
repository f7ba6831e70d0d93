//! Folds the blocks of a plan into answers, on a thread that may block.

use std::ops::Range;

use forebay_core::limits::SAME_TIME_ROWS_MAX;
use forebay_core::query::{
    ColumnsFold, ColumnsWant, Job, Plan, PlanChannel, RowsFold, RowsScan, Scan, WholeFold,
};
use forebay_core::units::Span;
use serde_json::Value;

use super::drive::drive;
use super::pool::Stopped;
use super::{ReadError, ReadingsGot, ReadingsWant, RollingGot, RowsGot, RowsWant};
use crate::store::LogReads;

/// # Errors
/// When the disk does not give what is needed, or it is too much.
pub(super) fn readings(
    log: &LogReads,
    plan: Plan,
    want: &ReadingsWant,
    stopped: &Stopped,
) -> Result<ReadingsGot, ReadError> {
    let fold = ColumnsFold::new(
        want.keys.iter().cloned(),
        ColumnsWant {
            range: plan.range,
            detail: want.detail,
            gaps: true,
            rows_max: want.rows_max,
            newest_first: want.newest_first,
        },
    );
    let keys = want.keys.iter().cloned();
    let mut scan = Scan::new(keys, plan.reads, want.newest_first, fold);
    let missing = drive(log, &mut scan, None, stopped)?;
    let got = scan.finish().finish().map_err(|_| same_time())?;
    Ok(ReadingsGot {
        columns: got.columns,
        gaps: got.gaps,
        complete_from: plan.complete_from,
        left_out: got.left_out,
        covered: got.covered,
        behind: plan.behind,
        missing,
    })
}

/// # Errors
/// As [`readings`].
pub(super) fn rolling(
    log: &LogReads,
    plan: Plan,
    size: Span,
    stopped: &Stopped,
) -> Result<RollingGot, ReadError> {
    let channel = plan.channels.into_iter().next();
    let PlanChannel {
        key,
        device,
        live,
        watermark,
    } = channel.ok_or_else(|| ReadError::Wrong(String::from("no channel is asked for")))?;
    let from_engine = plan.rolling.is_some();
    let (figures, missing) = match plan.rolling {
        Some(rolling) => (rolling.0, 0),
        None => {
            let Range { start, end } = plan.range;
            let fold = WholeFold::new((start, end));
            let mut scan = Scan::new([key.clone()], plan.reads, false, fold);
            let missing = drive(log, &mut scan, None, stopped)?;
            (scan.finish().finish().values(), missing)
        }
    };
    Ok(RollingGot {
        key,
        device,
        unit: live.unit,
        time: live.time,
        size,
        figures,
        preliminary: live.time >= watermark,
        from_engine,
        complete_from: plan.complete_from,
        behind: plan.behind,
        missing,
    })
}

/// # Errors
/// As [`readings`].
pub(super) fn rows(
    log: &LogReads,
    plan: Plan,
    want: &RowsWant,
    stopped: &Stopped,
) -> Result<RowsGot, ReadError> {
    let rows = plan.rows.ok_or(ReadError::Stopped)?;
    let mut scan = RowsScan::new(rows.reads, RowsFold::new(plan.range, want.rows_max));
    let missing = drive(log, &mut scan, None, stopped)?;
    let got = scan.finish().finish().ok_or_else(same_time)?;
    Ok(RowsGot {
        stream: rows.stream,
        times: got.times,
        lines: got.lines,
        complete_from: plan.complete_from,
        left_out: got.left_out,
        covered: got.covered,
        missing,
    })
}

/// # Errors
/// As [`readings`].
pub(super) fn job(log: &LogReads, mut job: Job, stopped: &Stopped) -> Result<Value, ReadError> {
    drive(log, &mut job, None, stopped)?;
    job.finish().map_err(ReadError::TooMuch)
}

fn same_time() -> ReadError {
    ReadError::TooMuch(format!(
        "more than {SAME_TIME_ROWS_MAX} rows have one time: ask for fewer channels"
    ))
}
