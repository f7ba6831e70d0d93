//! `forebay log check`: reads everything and names what cannot be read.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::{Opened, Target};
use crate::exit::Exit;
use crate::progress::Progress;
use crate::shell::output::{self, Csv};
use crate::shell::sheets;
use crate::store::{Damage, Report};

/// Reads the whole log and names everything that cannot be read
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay log check --data-dir /var/lib/forebay

Exit code: 0 when all of it reads; 4 when something does not; 2 when it cannot be looked into.")]
pub(in crate::cli) struct CheckArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    csv: Csv,
}

pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, String> {
    let mut opened = args.target.open()?;
    let report = read_all(&mut opened, !args.target.json)?;
    let form = args.csv.form(args.target.json);
    let said = |_: &Value| text(&opened, &report);
    let printed = output::answer(form, &sheets::LOG_DAMAGES, &json(&opened, &report), said);
    Ok(if is_intact(&opened, &report) {
        printed
    } else {
        Exit::Found.into()
    })
}

/// Checks, with a bar where one is wanted.
pub(super) fn read_all(opened: &mut Opened, bar: bool) -> Result<Report, String> {
    let parts = opened.reader.parts();
    let bytes = parts.iter().map(|part| part.bytes).sum();
    let progress = Progress::bytes(Some(bytes)).shown(bar);
    let report = opened.reader.check(&mut |bytes| progress.set(bytes));
    report.map_err(|error| error.to_string())
}

/// Whether everything that the log says it holds can be read.
pub(super) fn is_intact(opened: &Opened, report: &Report) -> bool {
    report.damages.is_empty() && opened.reader.notes.is_empty()
}

fn damage_text(opened: &Opened, damage: &Damage) -> String {
    let place = match &damage.bytes {
        None => String::new(),
        Some(bytes) if bytes.is_empty() => format!(" after byte {}", bytes.start),
        Some(bytes) => format!(" bytes {} to {}", bytes.start, bytes.end - 1),
    };
    let lost: Vec<String> = damage
        .lost
        .iter()
        .map(|loss| opened.loss_text(loss))
        .collect();
    let lost = if lost.is_empty() {
        String::from("; no record is lost by it")
    } else {
        format!(": {}", lost.join("; "))
    };
    format!("{}{place}: {}{lost}", damage.path.display(), damage.what)
}

/// What a person reads.
pub(super) fn text(opened: &Opened, report: &Report) -> String {
    let dir = opened.reader.data_dir.display();
    let Report {
        blocks, records, ..
    } = report;
    let is_named = |note: &&String| {
        let mut damages = report.damages.iter();
        damages.any(|damage| note.starts_with(&damage.path.display().to_string()))
    };
    let notes = opened.reader.notes.iter();
    let mut lines: Vec<String> = notes.filter(|note| !is_named(note)).cloned().collect();
    lines.extend(
        report
            .damages
            .iter()
            .map(|damage| damage_text(opened, damage)),
    );
    if report.damages_left_out > 0 {
        lines.push(format!("and {} more", report.damages_left_out));
    }
    let holes = report.holes.iter();
    lines.extend(holes.map(|hole| {
        let hole = opened.loss_text(hole);
        format!("{hole}: lost earlier, and the log says so")
    }));
    lines.push(if is_intact(opened, report) {
        format!("{dir}: intact: {records} records in {blocks} blocks were read")
    } else {
        format!(
            "{dir}: damaged: {records} records in {blocks} blocks read, what is named above does \
             not; to bring back all that can be read: forebay log repair --data-dir {dir}"
        )
    });
    lines.join("\n")
}

/// The same as data.
pub(super) fn json(opened: &Opened, report: &Report) -> Value {
    let losses = |losses: &[forebay_core::store::Loss]| -> Value {
        losses.iter().map(|loss| opened.loss_json(loss)).collect()
    };
    let damages = report.damages.iter().map(|damage| {
        json!({
            "file": damage.path.display().to_string(),
            "bytes": damage.bytes.as_ref().map(|bytes| [bytes.start, bytes.end]),
            "what": damage.what,
            "lost": losses(&damage.lost),
        })
    });
    json!({
        "data_dir": opened.reader.data_dir.display().to_string(),
        "intact": is_intact(opened, report),
        "blocks": report.blocks,
        "records": report.records,
        "damages": damages.collect::<Value>(),
        "damages_left_out": report.damages_left_out,
        "holes": losses(&report.holes),
        "notes": opened.reader.notes,
    })
}
