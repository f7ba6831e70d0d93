//! Which parts make which rows of the table.

use super::feed::{SECOND, Source};
use super::limits::{
    CHANGE_P99_MS_MAX, CHANGES_PER_S_MIN, INTERVALS_PER_S_MIN, KEYS, LOOKUPS_PER_S_MIN, TABLE_ROWS,
};
use super::rates::{self, REACH, Rate};
use super::{Args, Part, capture, held, plain};
use crate::sys;
use crate::table::Row;

pub(super) fn measure(args: &Args) -> Result<Vec<Row>, String> {
    let is_asked = |part| args.only.is_empty() || args.only.contains(&part);
    let mut rows = Vec::new();
    // First, as the rest stays on one core.
    for (part, to_rows) in [
        (
            Part::Capture,
            of_capture as fn(&Args) -> Result<Vec<Row>, String>,
        ),
        (Part::Lookup, of_lookups),
        (Part::Interval, of_intervals),
        (Part::State, of_states),
        (Part::Memory, of_weights),
    ] {
        if !is_asked(part) {
            continue;
        }
        if part != Part::Capture {
            sys::pin_to_one_core()?;
        }
        let more = to_rows(args)?;
        for row in &more {
            println!(
                "{part:?}: {}, {}: {} {}",
                row.what, row.under, row.measured, row.beside
            );
        }
        rows.extend(more);
    }
    Ok(rows)
}

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

fn millions(rate: f64) -> String {
    format!("{:.2} M/s", rate / 1e6)
}

fn at_least(row: Row, rate: f64, least: f64) -> Row {
    Row {
        must: format!(">= {}", millions(least)),
        reached: Some(rate >= least),
        ..row
    }
}

fn rated(what: &str, under: &str, rate: Rate, peer: (&str, f64), least: f64) -> Row {
    let measured = format!(
        "{}, written as lines {}, {:.2} rows each",
        millions(rate.readings_per_s),
        millions(rate.written_per_s),
        rate.rows
    );
    let (name, theirs) = peer;
    let row = Row {
        beside: format!(
            "{name}: {}, ratio {:.2}",
            millions(theirs),
            rate.readings_per_s / theirs
        ),
        ..told(what, under, measured)
    };
    at_least(row, rate.readings_per_s, least)
}

fn of_lookups(args: &Args) -> Result<Vec<Row>, String> {
    let rounds = args.sizes().rounds;
    let theirs = plain::lookups_per_s(rounds)?;
    let of = |source, name: &str| -> Result<Row, String> {
        let rate = rates::lookup(source, rounds)?;
        let under = format!("{TABLE_ROWS} rows {name}");
        let peer = ("hash map", theirs);
        Ok(rated("lookup join", &under, rate, peer, LOOKUPS_PER_S_MIN))
    };
    Ok(vec![
        of(Source::Config, "of the config")?,
        of(Source::Database, "of a database, known batch by batch")?,
    ])
}

fn of_intervals(args: &Args) -> Result<Vec<Row>, String> {
    let rounds = args.sizes().rounds;
    let theirs = plain::intervals_per_s(KEYS, REACH, rounds)?;
    let rate = rates::interval(REACH, rounds)?;
    let under = format!("{KEYS} keys, both within {} s", REACH / SECOND);
    let peer = ("queues in a hash map", theirs);
    let row = rated("interval join", &under, rate, peer, INTERVALS_PER_S_MIN);
    Ok(vec![row])
}

fn of_states(_: &Args) -> Result<Vec<Row>, String> {
    let states = held::states()?.into_iter();
    let row = |state: held::State| {
        let under = format!(
            "{KEYS} keys, {} held before, {} rows out",
            state.before, state.rows
        );
        Row {
            must: "0 rows".into(),
            reached: Some(state.after == 0 && state.rows > 0),
            ..told(
                &format!("held after the end of time, {}", state.name),
                &under,
                format!("{} rows", state.after),
            )
        }
    };
    Ok(states.map(row).collect())
}

fn of_weights(_: &Args) -> Result<Vec<Row>, String> {
    let weights = held::weights()?.into_iter();
    let row = |weight: held::Weight| {
        told(
            &format!("memory per held row, {} join", weight.name),
            &format!("{} rows held of {KEYS} keys", weight.held),
            format!("{:.1} bytes", weight.bytes_each),
        )
    };
    Ok(weights.map(row).collect())
}

fn of_capture(args: &Args) -> Result<Vec<Row>, String> {
    let capture::Captured {
        p50_ms,
        p99_ms,
        max_ms,
        changes_per_s,
        database_per_s,
        changes,
        singles,
    } = capture::run(args)?;
    let way = told(
        "PostgreSQL change to row of a join, p99",
        &format!("{singles} changes, one at a time"),
        format!("{p99_ms:.1} ms (p50 {p50_ms:.1}, max {max_ms:.1})"),
    );
    let rate = told(
        "PostgreSQL changes to rows of a join",
        &format!("{changes} changes"),
        format!("{:.1} k/s", changes_per_s / 1e3),
    );
    Ok(vec![
        Row {
            must: format!("< {CHANGE_P99_MS_MAX} ms"),
            reached: Some(p99_ms < CHANGE_P99_MS_MAX),
            ..way
        },
        Row {
            beside: format!("the database itself: {:.1} k/s", database_per_s / 1e3),
            must: format!(">= {:.0} k/s", CHANGES_PER_S_MIN / 1e3),
            reached: Some(changes_per_s >= CHANGES_PER_S_MIN),
            ..rate
        },
    ])
}
