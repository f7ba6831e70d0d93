//! `forebay log export`: records as a file for other programs. A file takes its name
//! only when it is whole.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::scan::{Filters, Flow, Item};
use super::show::tell_lost;
use super::{Opened, Target};
use crate::export::{Cell, Format, LINE_COLUMNS, Output, READING_COLUMNS, Table, begin};
use crate::progress::Progress;
use crate::terminal::print_line;

/// Writes records as CSV, NDJSON or Parquet
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay log export --data-dir /var/lib/forebay --output readings.parquet

What it writes of readings as CSV or NDJSON, `forebay ingest` reads.")]
pub(in crate::cli) struct ExportArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    filters: Filters,
    /// How to write; without it, as the output's name ends, or CSV
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// File to write; - is stdout
    #[arg(long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

/// What was written.
#[derive(Debug, Default)]
struct Written {
    records: u64,
    /// Gaps are no readings: they are counted.
    gaps: u64,
}

/// Why an export ends early.
enum Stop {
    Said(String),
    /// Whoever read standard output has seen enough.
    Closed,
}

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Said(text)
    }
}

pub(super) fn run(args: &ExportArgs) -> Result<ExitCode, String> {
    let mut opened = args.target.open()?;
    let readings = args.filters.are_readings(&opened)?;
    let columns = if readings {
        READING_COLUMNS
    } else {
        LINE_COLUMNS
    };
    let output = Output::new(&args.output);
    let cannot =
        |error: io::Error| format!("{}: cannot be written: {error}", args.output.display());
    let out = output.open().map_err(cannot)?;
    let done = begin(args.format(), columns, out)
        .map_err(|error| stopped(error, &args.output))
        .and_then(|table| write_all(args, &mut opened, table));
    let (written, lost) = match done {
        Ok(done) => done,
        Err(stop) => {
            output.give_up();
            return match stop {
                Stop::Closed => Ok(ExitCode::SUCCESS),
                Stop::Said(text) => Err(text),
            };
        }
    };
    output.finish().map_err(cannot)?;
    if !output.is_stdout() {
        say(args, &written);
    }
    Ok(tell_lost(&opened, &lost))
}

fn write_all(
    args: &ExportArgs,
    opened: &mut Opened,
    mut table: Box<dyn Table>,
) -> Result<(Written, Vec<forebay_core::store::Loss>), Stop> {
    let mut written = Written::default();
    let bytes = args.filters.bytes(opened)?;
    let progress = Progress::bytes(Some(bytes)).shown(!args.target.json);
    let mut failed = None;
    let scanned = args
        .filters
        .scan(opened, &mut |bytes| progress.set(bytes), &mut |item| {
            let done = match item {
                Item::Gap(..) => {
                    written.gaps += 1;
                    return Ok(Flow::GoOn);
                }
                // What the clock said, and how far tables were known, is the log's own affair.
                Item::Clock(..) | Item::Tables(..) => return Ok(Flow::GoOn),
                Item::Reading(reading) => reading.write(table.as_mut()),
                Item::Row(row, partition, offset) => table.row(&[
                    Cell::Unsigned(partition.0.into()),
                    Cell::Unsigned(offset.0),
                    Cell::Time(row.time),
                    Cell::Json(&row.line),
                ]),
            };
            written.records += 1;
            Ok(match done {
                Ok(()) => Flow::GoOn,
                Err(error) => {
                    failed = Some(error);
                    Flow::Stop
                }
            })
        })?;
    let finished = match failed {
        Some(error) => Err(error),
        None => table.finish(),
    };
    finished.map_err(|error| stopped(error, &args.output))?;
    Ok((written, scanned.lost))
}

fn stopped(error: io::Error, output: &Path) -> Stop {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Stop::Closed;
    }
    Stop::Said(format!("{}: cannot be written: {error}", output.display()))
}

impl ExportArgs {
    fn format(&self) -> Format {
        let end = self.output.extension().and_then(|end| end.to_str());
        self.format.unwrap_or(match end {
            Some("ndjson" | "jsonl" | "json") => Format::Ndjson,
            Some("parquet") => Format::Parquet,
            Some(_) | None => Format::Csv,
        })
    }
}

fn say(args: &ExportArgs, written: &Written) {
    let Written { records, gaps } = written;
    let output = args.output.display();
    if args.target.json {
        let summary = json!({
            "output": output.to_string(),
            "records": records,
            "gaps_left_out": gaps,
        });
        print_line(&summary.to_string());
    } else {
        let gaps = match gaps {
            0 => String::new(),
            gaps => format!("; {gaps} declared gaps are no readings and were left out"),
        };
        print_line(&format!("{output}: {records} records{gaps}"));
    }
}
