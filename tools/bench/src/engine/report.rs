//! Which parts make which rows of the table.

use super::beside::{self, DuckDb};
use super::held::{self, Checkpoints, When};
use super::limits::{
    CHECKPOINT_SHARE_MAX, FLAT_MAX, PAUSE_RATIO_MAX, PAUSE_READINGS, RANKED_PER_S_MIN,
    SLIDING_PER_S_MIN, STATE_BYTES_MAX, TRY_ROWS_PER_S_MIN, TUMBLING_PER_S_MIN,
};
use super::pauses::{self, Pauses};
use super::rates::{self, Task};
use super::{Args, Part, oracle, trial};
use crate::sys;
use crate::table::Row;

pub(super) fn measure(args: &Args) -> Result<Vec<Row>, String> {
    sys::pin_to_one_core()?;
    let is_asked = |part| args.only.is_empty() || args.only.contains(&part);
    let mut rows = Vec::new();
    for (part, to_rows) in [
        (
            Part::Rates,
            of_rates as fn(&Args) -> Result<Vec<Row>, String>,
        ),
        (Part::Flat, of_flat),
        (Part::Pauses, of_pauses),
        (Part::State, of_state),
        (Part::Checkpoint, of_checkpoints),
        (Part::Oracle, of_oracle),
        (Part::Try, of_try),
    ] {
        if is_asked(part) {
            let more = to_rows(args)?;
            for row in &more {
                println!(
                    "{part:?}: {}, {}: {} {}",
                    row.what, row.under, row.measured, row.beside
                );
            }
            rows.extend(more);
        }
    }
    Ok(rows)
}

/// A row with the least that it may be.
fn at_least(what: &str, under: String, rate: f64, least: f64) -> Row {
    Row {
        what: what.into(),
        under,
        measured: millions(rate),
        beside: String::new(),
        must: format!(">= {}", millions(least)),
        reached: Some(rate >= least),
    }
}

/// A row that tells how large something is.
fn told(what: &str, under: &str, measured: String) -> Row {
    Row {
        what: what.into(),
        under: under.into(),
        measured,
        beside: String::new(),
        must: String::new(),
        reached: None,
    }
}

fn at_most(row: Row, value: f64, most: f64, must: String) -> Row {
    Row {
        must,
        reached: Some(value <= most),
        ..row
    }
}

fn of_rates(args: &Args) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for series in [100, 10_000] {
        let peer = beside::duckdb(series, args);
        for (task, least) in [
            (Task::Tumbling, TUMBLING_PER_S_MIN),
            (Task::Sliding, SLIDING_PER_S_MIN),
            (Task::BothRanked, RANKED_PER_S_MIN),
        ] {
            let rate = rates::rate(task, series, &args.sizes())?;
            rows.push(Row {
                beside: beside_rate(task, rate, &peer),
                ..at_least(task.name(), format!("{series} series"), rate, least)
            });
        }
    }
    Ok(rows)
}

fn beside_rate(task: Task, ours: f64, peer: &Result<DuckDb, String>) -> String {
    let theirs = match (peer, task) {
        (_, Task::BothRanked) => return String::new(),
        (Err(why), _) => return format!("DuckDB: {why}"),
        (Ok(peer), Task::Tumbling) => peer.tumbling,
        (Ok(peer), Task::Sliding) => peer.sliding,
    };
    format!("DuckDB: {}, ratio {:.2}", millions(theirs), ours / theirs)
}

fn of_flat(args: &Args) -> Result<Vec<Row>, String> {
    let sizes = args.sizes();
    let mut rows = Vec::new();
    for task in [Task::Tumbling, Task::Sliding] {
        let by_series = rates::by_series(task, &sizes)?;
        rows.push(flat(task, "10 to 10,000 series", &by_series));
        let by_window = rates::by_window(task, &sizes)?;
        rows.push(flat(task, "windows of 1 s to 24 h, 10 Hz", &by_window));
    }
    Ok(rows)
}

fn flat(task: Task, over: &str, ns: &[f64]) -> Row {
    let (least, most) = ns.iter().fold((f64::MAX, 0.0_f64), |(least, most), ns| {
        (least.min(*ns), most.max(*ns))
    });
    let each: Vec<String> = ns.iter().map(|ns| format!("{ns:.0}")).collect();
    let ratio = most / least;
    let what = format!("cost of a reading, {}", task.name());
    let measured = format!("{} ns, {ratio:.2} times", each.join(", "));
    let must = format!("<= {FLAT_MAX} times");
    at_most(told(&what, over, measured), ratio, FLAT_MAX, must)
}

fn of_pauses(args: &Args) -> Result<Vec<Row>, String> {
    let sizes = args.sizes();
    let mut rows = Vec::new();
    for inside in PAUSE_READINGS {
        if inside > sizes.pause_readings_max {
            let under = format!("{inside} readings inside");
            rows.push(told(
                "rolling update",
                &under,
                "not run with --quick".into(),
            ));
            continue;
        }
        for pauses in pauses::run(inside, &sizes)? {
            rows.push(of_pause(inside, &pauses));
        }
    }
    Ok(rows)
}

fn of_pause(inside: u64, pauses: &Pauses) -> Row {
    let Pauses {
        median,
        p999,
        max,
        shape,
    } = *pauses;
    let measured = format!(
        "{:.1} times ({median:.0}, {p999:.0} ns; max {max:.0})",
        pauses.ratio()
    );
    let under = format!("{inside} readings inside, {}", shape.name());
    let row = told("rolling update, p99.9 over median", &under, measured);
    let must = format!("<= {PAUSE_RATIO_MAX} times");
    at_most(row, pauses.ratio(), PAUSE_RATIO_MAX, must)
}

fn of_oracle(args: &Args) -> Result<Vec<Row>, String> {
    let judged = oracle::run(args.sizes().slides)?;
    let under = format!(
        "{} million slides, {} means judged, {} with a glitch inside",
        judged.slides / 1_000_000,
        judged.judged,
        judged.with_glitch
    );
    let measured = format!("{} wrong", judged.wrong);
    Ok(vec![Row {
        must: "none".into(),
        reached: Some(judged.wrong == 0),
        ..told("rolling mean against big fractions", &under, measured)
    }])
}

fn of_state(_: &Args) -> Result<Vec<Row>, String> {
    let must = || format!("<= {STATE_BYTES_MAX} bytes");
    let tumbling = held::tumbling_bytes()?;
    let (sliding, each) = held::sliding_bytes()?;
    let of_tumbling = told(
        "state per series and window",
        "tumbling, 10,000 series",
        format!("{tumbling:.0} bytes"),
    );
    let of_sliding = told(
        "state per series and window",
        "sliding over one reading, 10,000 series",
        format!("{sliding:.0} bytes; {each:.1} per reading more"),
    );
    Ok(vec![
        at_most(of_tumbling, tumbling, STATE_BYTES_MAX, must()),
        at_most(of_sliding, sliding, STATE_BYTES_MAX, must()),
    ])
}

fn of_checkpoints(args: &Args) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (name, windows) in held::checkpointed() {
        for when in [When::Behind, When::Live] {
            let done = held::checkpoints(windows.clone(), when, &args.sizes())?;
            rows.push(of_checkpoint(name, when, &done));
        }
    }
    Ok(rows)
}

fn of_checkpoint(name: &str, when: When, done: &Checkpoints) -> Row {
    let under = match when {
        When::Behind => "catching up",
        When::Live => "live",
    };
    let measured = format!(
        "{:.1} % ({:.0} ns; {} of {:.1} ms and {:.2} MB in {:.1} M readings)",
        done.added() * 100.0,
        done.plain_ns,
        done.count,
        done.each_ms,
        done.bytes / 1e6,
        done.readings as f64 / 1e6,
    );
    let row = told(&format!("added by checkpoints, {name}"), under, measured);
    match when {
        When::Behind => {
            let must = format!("<= {:.0} %", CHECKPOINT_SHARE_MAX * 100.0);
            at_most(row, done.added(), CHECKPOINT_SHARE_MAX, must)
        }
        // Each is written for a handful of readings, by a processor that idles.
        When::Live => row,
    }
}

fn millions(rate: f64) -> String {
    format!("{:.2} M/s", rate / 1e6)
}

fn of_try(args: &Args) -> Result<Vec<Row>, String> {
    Ok(of_trial(&trial::run(args)?))
}

fn of_trial(trial: &trial::Trial) -> Vec<Row> {
    let input = format!(
        "{:.1} M rows of CSV, {} windows",
        trial.rows as f64 / 1e6,
        trial.windows
    );
    let mut rows = vec![Row {
        what: "forebay try, rows per second".into(),
        under: input,
        measured: millions(trial.ours),
        beside: String::new(),
        must: format!(">= {}", millions(TRY_ROWS_PER_S_MIN)),
        reached: Some(trial.ours >= TRY_ROWS_PER_S_MIN),
    }];
    for (peer, result) in &trial.peers {
        let (measured, beside, reached) = match result {
            Ok(result) => (
                format!("{:.1} times", trial.ours / result.rows_per_s),
                format!(
                    "{} {}: {}",
                    peer.name(),
                    result.version,
                    millions(result.rows_per_s)
                ),
                None,
            ),
            // Whose windows are wrong must not be overlooked; that one cannot be had is told.
            Err(why) => (
                "-".to_owned(),
                format!("{}: {why}", peer.name()),
                why.starts_with("WRONG").then_some(false),
            ),
        };
        rows.push(Row {
            what: "  the same windows as".into(),
            under: String::new(),
            measured,
            beside,
            must: String::new(),
            reached,
        });
    }
    rows
}
