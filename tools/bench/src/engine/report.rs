//! Which parts make which rows of the table.

use super::limits::TRY_ROWS_PER_S_MIN;
use super::{Args, Part, trial};
use crate::table::Row;

pub(super) fn measure(args: &Args) -> Result<Vec<Row>, String> {
    let is_asked = |part| args.only.is_empty() || args.only.contains(&part);
    let mut rows = Vec::new();
    if is_asked(Part::Try) {
        rows.extend(of_trial(&trial::run(args)?));
    }
    Ok(rows)
}

fn millions(rate: f64) -> String {
    format!("{:.2} M/s", rate / 1e6)
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
