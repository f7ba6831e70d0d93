//! `forebay log show`: the records themselves.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Args;
use forebay_core::record::{ClockTrust, gap_name, quality_name, trust_name};
use forebay_core::utc::time_value;
use serde_json::{Value, json};

use super::scan::{Filters, Flow, Item};
use super::{Opened, Target, time_text};
use crate::exit::Exit;
use crate::shell::output::{Csv, Form};
use crate::shell::{sheets, width};
use crate::terminal::fail;

/// Shows records
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay log show --data-dir /var/lib/forebay --device boiler --from 2026-03-01T00:00:00Z")]
pub(in crate::cli) struct ShowArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    filters: Filters,
    /// Most records that are shown; 0 for all
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: u64,
    #[command(flatten)]
    csv: Csv,
}

pub(super) fn run(args: &ShowArgs) -> Result<ExitCode, String> {
    let mut opened = args.target.open()?;
    let names = opened.names.clone();
    let stdout = io::stdout();
    let mut out = BufWriter::new(stdout.lock());
    let (mut shown, mut more, mut closed) = (0, false, false);
    let form = args.csv.form(args.target.json);
    if form == Form::Csv {
        closed = write!(out, "{}", sheets::LOG_RECORDS.csv_head()).is_err();
    }
    let scanned = args.filters.scan(&mut opened, &mut |_| {}, &mut |item| {
        if args.limit > 0 && shown == args.limit {
            more = true;
            return Ok(Flow::Stop);
        }
        shown += 1;
        let device = match item {
            Item::Gap(gap, _) => names.name(gap.uid),
            Item::Reading(_) | Item::Clock(..) | Item::Tables(..) | Item::Row(..) => String::new(),
        };
        let line = match form {
            Form::Json => json_line(item, &device).to_string() + "\n",
            Form::Text => width::clean(&text_line(item, &device)) + "\n",
            Form::Csv => {
                let mut record = json_line(item, &device);
                record["kind"] = kind(item).into();
                sheets::LOG_RECORDS.csv_record(&Value::Null, &record)
            }
        };
        // A reader that went away, as `head` does, has seen enough.
        closed |= out.write_all(line.as_bytes()).is_err();
        Ok(if closed { Flow::Stop } else { Flow::GoOn })
    })?;
    let _ = out.flush();
    if more {
        eprintln!("forebay: more records match: --limit 0 shows all");
    }
    Ok(tell_lost(&opened, &scanned.lost))
}

/// Says what could not be read on the way.
pub(super) fn tell_lost(opened: &Opened, lost: &[forebay_core::store::Loss]) -> ExitCode {
    for loss in lost {
        fail(&format!(
            "{} cannot be read; see: forebay log check",
            opened.loss_text(loss)
        ));
    }
    let exit = if lost.is_empty() {
        Exit::Ok
    } else {
        Exit::Found
    };
    exit.into()
}

fn kind(item: &Item<'_>) -> &'static str {
    match item {
        Item::Reading(_) => "reading",
        Item::Gap(..) => "gap",
        Item::Clock(..) => "clock",
        Item::Tables(..) => "tables",
        Item::Row(..) => "row",
    }
}

fn text_line(item: &Item<'_>, device: &str) -> String {
    match item {
        Item::Reading(reading) => {
            let value = match reading.value {
                Some(value) => format!("{value} {}", reading.unit),
                None => String::from(quality_name(reading.quality)),
            };
            format!(
                "{}/{:<10} {:<28} {} {}  {}  (boot {}, ordinal {})",
                reading.partition.0,
                reading.offset.0,
                time_text(reading.time),
                reading.device,
                reading.channel,
                value.trim_end(),
                reading.boot.0,
                reading.ordinal.0
            )
        }
        Item::Gap(gap, offset) => format!(
            "gap {:<8} {:<28} {device}  {} readings lost before the log: {}  (boot {}, ordinal {})",
            offset.0,
            time_text(gap.time),
            gap.count,
            gap_name(gap.reason),
            gap.boot.0,
            gap.first.0
        ),
        Item::Clock(clock, partition, offset) => format!(
            "{}/{:<10} {:<28} the gateway's clock, {}",
            partition.0,
            offset.0,
            time_text(clock.now),
            match clock.trust {
                ClockTrust::No => String::from("not trusted"),
                ClockTrust::Yes => String::from("trusted"),
                ClockTrust::Since(step) =>
                    format!("trusted from here on: {} us later than it said", step.0),
            }
        ),
        Item::Tables(tables, partition, offset) => format!(
            "{}/{:<10} {:<28} tables, known by the changes below offset {}",
            partition.0,
            offset.0,
            time_text(tables.time),
            tables.upto.0
        ),
        Item::Row(row, partition, offset) => format!(
            "{}/{:<10} {}",
            partition.0,
            offset.0,
            String::from_utf8_lossy(&row.line)
        ),
    }
}

fn json_line(item: &Item<'_>, device: &str) -> Value {
    match item {
        Item::Reading(reading) => json!({
            "partition": reading.partition.0,
            "offset": reading.offset.0,
            "time": time_value(reading.time),
            "device": reading.device,
            "uid": reading.uid.to_string(),
            "channel": reading.channel,
            "value": reading.value,
            "unit": reading.unit,
            "quality": quality_name(reading.quality),
            "boot": reading.boot.0,
            "ordinal": reading.ordinal.0,
            "uncertainty_us": reading.uncertainty_us,
        }),
        Item::Gap(gap, offset) => json!({
            "offset": offset.0,
            "time": time_value(gap.time),
            "device": device,
            "uid": gap.uid.to_string(),
            "gap": gap_name(gap.reason),
            "boot": gap.boot.0,
            "first": gap.first.0,
            "count": gap.count,
        }),
        Item::Clock(clock, partition, offset) => json!({
            "partition": partition.0,
            "offset": offset.0,
            "time": time_value(clock.now),
            "clock": trust_name(clock.trust),
            "step_us": match clock.trust {
                ClockTrust::No | ClockTrust::Yes => None,
                ClockTrust::Since(step) => Some(step.0),
            },
        }),
        Item::Tables(tables, partition, offset) => json!({
            "partition": partition.0,
            "offset": offset.0,
            "time": time_value(tables.time),
            "tables_upto": tables.upto.0,
        }),
        Item::Row(row, partition, offset) => {
            let text = String::from_utf8_lossy(&row.line);
            let row = serde_json::from_str(&text).unwrap_or_else(|_| json!(text));
            json!({ "partition": partition.0, "offset": offset.0, "row": row })
        }
    }
}
