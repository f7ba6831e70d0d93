//! `forebay alarms`: what is wrong with a running agent, and where to read what to do.
//! Decides nothing: the agent judges.

use std::process::ExitCode;

use clap::Args;
use forebay_core::query::Query;
use serde_json::{Value, json};

use super::query::Target;
use crate::agent::questions;
use crate::exit::Exit;
use crate::shell::output::{At, Column, Kind, Sheet, column};
use crate::terminal::print_line;

/// Shows what is wrong with a running agent, and what to do
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay alarms
  forebay alarms --strict && echo all is well

Ends with 4 when an alarm is `failed`: what the gateway is there for does not happen; with
--strict also when one is `degraded`. What each code means: agent/node/docs/alarms.md.")]
pub(super) struct AlarmsArgs {
    /// End with 4 when there is any alarm
    #[arg(long)]
    strict: bool,
    /// Print CSV (RFC 4180)
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    target: Target,
}

const COLUMNS: [Column; 7] = [
    column(
        "severity",
        At::Row("/severity"),
        Kind::State,
        "degraded: something is wrong; failed: what the gateway is there for does not happen",
    ),
    column(
        "code",
        At::Row("/code"),
        Kind::Text,
        "which alarm: a section of agent/node/docs/alarms.md",
    ),
    column(
        "subject",
        At::Row("/subject"),
        Kind::Text,
        "device, port, topic, destination or source",
    ),
    column(
        "since",
        At::Row("/since"),
        Kind::Time,
        "since when it is so, by the gateway's clock",
    ),
    column(
        "age_us",
        At::Row("/age_us"),
        Kind::Count,
        "for how long, us, by its monotonic clock",
    )
    .hidden(),
    column(
        "text",
        At::Row("/text"),
        Kind::Text,
        "what is wrong and what to do",
    ),
    column(
        "runbook",
        At::Row("/runbook"),
        Kind::Text,
        "where the runbook is about it",
    )
    .hidden(),
];

/// What is printed.
pub(crate) const SHEET: Sheet = Sheet {
    command: "forebay alarms",
    rows: "/alarms",
    columns: &COLUMNS,
    empty: "no alarm",
};

/// What of a status is of alarms.
#[must_use]
pub(crate) fn of_status(status: &Value) -> Value {
    json!({
        "health": status["health"],
        "alarms": status["alarms"],
        "left_out": status["alarms_left_out"],
    })
}

/// Asks and shows.
pub(super) fn run(args: &AlarmsArgs) -> ExitCode {
    let status = match args.target.ask(&questions::write(&Query::Status)) {
        Ok(status) => status,
        Err(failure) => return crate::shell::output::failed(&failure),
    };
    let answer = of_status(&status);
    let text = match (args.target.json, args.csv) {
        (true, _) => answer.to_string(),
        (false, true) => SHEET.csv(&answer).trim_end().to_owned(),
        (false, false) => text(&answer),
    };
    print_line(&text);
    exit(&answer, args.strict).into()
}

fn exit(answer: &Value, strict: bool) -> Exit {
    match answer["health"].as_str() {
        Some("failed") => Exit::Found,
        Some("degraded") if strict => Exit::Found,
        Some(_) | None => Exit::Ok,
    }
}

fn text(answer: &Value) -> String {
    let mut out = SHEET.text(answer);
    let more = answer["left_out"].as_u64().unwrap_or_default();
    if more > 0 {
        out.push_str(&format!("\nand {more} more"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(health: &str) -> Value {
        of_status(&json!({
            "health": health,
            "alarms_left_out": 3,
            "alarms": [{
                "code": "port-lost", "severity": "degraded", "subject": "/dev/ttyUSB0",
                "since": "2026-03-01T00:00:00Z", "age_us": 7, "text": "gone, see cable",
                "runbook": "alarms.md#port-lost",
            }],
        }))
    }

    #[test]
    fn an_alarm_is_a_line_with_what_to_do() {
        let shown = text(&answer("degraded"));
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].starts_with("severity"), "{shown}");
        assert!(lines[1].ends_with("gone, see cable"), "{shown}");
        assert_eq!(lines[2], "and 3 more");
        let csv = SHEET.csv(&answer("degraded"));
        assert_eq!(
            csv.lines().nth(1),
            Some(
                "degraded,port-lost,/dev/ttyUSB0,2026-03-01T00:00:00Z,7,\"gone, see cable\",\
                 alarms.md#port-lost"
            )
        );
        assert_eq!(text(&of_status(&json!({ "alarms": [] }))), "no alarm");
    }

    #[test]
    fn the_exit_code_says_how_bad_it_is() {
        for (health, strict, want) in [
            ("ok", false, Exit::Ok),
            ("ok", true, Exit::Ok),
            ("degraded", false, Exit::Ok),
            ("degraded", true, Exit::Found),
            ("failed", false, Exit::Found),
            ("failed", true, Exit::Found),
        ] {
            assert_eq!(exit(&answer(health), strict), want, "{health} {strict}");
        }
    }
}
