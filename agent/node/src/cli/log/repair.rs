//! `forebay log repair`: brings back every block that can be read.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::check::{is_intact, json as report_json, read_all, text};
use super::{Target, open};
use crate::exit::Exit;
use crate::shell::output::{self, Csv};
use crate::shell::sheets;
use crate::store::{quarantined, repair};

/// Brings back every readable block; moves what was damaged to quarantine
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay log repair --data-dir /var/lib/forebay

Nothing is deleted: what it replaces stands in quarantine/ in the data directory.
Exit code: 0 when all of the log reads afterwards; 4 when something still does not; 2
when it could not be repaired.")]
pub(in crate::cli) struct RepairArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    csv: Csv,
}

pub(super) fn run(args: &RepairArgs) -> Result<ExitCode, String> {
    let bar = !args.target.json;
    let (data_dir, names, settings) = args.target.find()?;
    let mut opened = open(&data_dir, names.clone())?;
    let before = read_all(&mut opened, bar)?;
    let is_whole = is_intact(&opened, &before) && before.holes.is_empty();
    // What stands aside may have what is missing, or was to be seen to.
    let sound = is_whole && quarantined(&data_dir) == 0;
    let repaired = if sound {
        // It holds the lock.
        drop(opened);
        None
    } else {
        let done = repair(&data_dir, opened.reader, &before, settings);
        Some(done.map_err(|error| error.to_string())?)
    };
    let mut opened = open(&data_dir, names)?;
    let after = read_all(&mut opened, bar)?;
    let repaired = repaired.unwrap_or_default();
    let mut said = report_json(&opened, &after);
    said["repaired"] = json!(repaired.done);
    said["records_brought_back"] = json!(repaired.brought_back);
    let form = args.csv.form(args.target.json);
    let printed = output::answer(form, &sheets::LOG_DAMAGES, &said, |_| {
        let mut lines = repaired.done;
        if sound {
            lines.push(String::from("there was nothing to repair"));
        }
        if repaired.brought_back > 0 {
            lines.push(format!(
                "{} records came back from quarantine; what had been computed or sent past \
                 them is not done again",
                repaired.brought_back
            ));
        }
        lines.push(text(&opened, &after));
        lines.join("\n")
    });
    Ok(if is_intact(&opened, &after) {
        printed
    } else {
        Exit::Found.into()
    })
}
