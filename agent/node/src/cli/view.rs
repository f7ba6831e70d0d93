//! `forebay view`: the derived streams of a running agent: what there is, what may go, and
//! what is to be made anew.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use forebay_core::query::Query;
use forebay_core::units::EventTime;
use serde_json::Value;

use super::query::{Listed, Target};
use crate::agent::questions;
use crate::shell::{output, sheets, when};
use crate::terminal::print_line;

/// Works with the derived streams of a running agent
#[derive(Debug, Clone, Subcommand)]
pub(super) enum ViewVerb {
    Ls(LsArgs),
    Rebuild(RebuildArgs),
    Drop(DropArgs),
}

/// Shows all derived streams, and how far those are that are being built
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay view ls --config gateway.toml

State: live; building (a new or changed section of the config, or one that is built anew: it
takes the place of the one before when it has caught up); standing (nothing writes it any more);
dropped (its rows go).")]
pub(super) struct LsArgs {
    #[command(flatten)]
    listed: Listed,
}

/// Builds the rows of a window or join anew, beside those that stand, while the agent runs
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  forebay view rebuild temp_1m
  forebay view rebuild temp_1m --from 2026-03-01T00:00:00Z

The new rows go to a stream of their own, temp_1m.1 for the first time; temp_1m stands for it
when it has caught up. With --from rows that end before that time are left out; readings are read
from the first one that is kept all the same. A stopped agent: forebay replay --view.")]
pub(super) struct RebuildArgs {
    /// The window or join
    name: String,
    /// Event time from which rows are made: RFC 3339, -1h for an hour ago, or microseconds since 1970
    #[arg(long, value_parser = when::parse, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<EventTime>,
    #[command(flatten)]
    target: Target,
}

/// Removes the rows of a stream that nothing writes any more
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay view drop temp_1m.1

The name is that of the stream, as view ls shows it. What is sealed goes at once, the rest when
it is sealed.")]
pub(super) struct DropArgs {
    /// The stream
    stream: String,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
pub(super) fn run(verb: &ViewVerb) -> ExitCode {
    let (target, query) = match verb {
        ViewVerb::Ls(args) => {
            let request = questions::write(&Query::Views);
            return args.listed.show(&request, &sheets::VIEWS, text);
        }
        ViewVerb::Rebuild(args) => {
            let (name, from) = (args.name.clone(), args.from);
            (&args.target, Query::RebuildView { name, from })
        }
        ViewVerb::Drop(args) => {
            let stream = args.stream.clone();
            (&args.target, Query::DropView { stream })
        }
    };
    match target.ask(&questions::write(&query)) {
        Ok(answer) if target.json => print_line(&answer.to_string()),
        Ok(answer) => print_line(&said(verb, &answer)),
        Err(failure) => output::failed(&failure),
    }
}

fn said(verb: &ViewVerb, answer: &Value) -> String {
    let stream = answer["stream"].as_str().unwrap_or_default();
    match verb {
        ViewVerb::Ls(_) => text(answer),
        ViewVerb::Rebuild(args) => {
            format!("{stream} is being built: {} stands for it then", args.name)
        }
        ViewVerb::Drop(_) => format!("{stream}: {} rows go", answer["rows"]),
    }
}

/// All views as a table.
fn text(answer: &Value) -> String {
    let mut out = sheets::VIEWS.text(answer);
    if let Some(building) = answer
        .get("building")
        .filter(|building| !building.is_null())
    {
        let behind = building["readings_behind"].as_u64();
        let behind = behind.map_or_else(
            || String::from("waits until the live streams have caught up"),
            |behind| format!("{behind} of {} readings to go", building["readings"]),
        );
        out.push_str(&format!("\nbuilding: {behind}"));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn views_are_shown_with_their_states() {
        let answer = json!({
            "views": [
                { "stream": "w", "view": "w", "state": "standing", "rows": 12, "bytes": 3456,
                  "definition": "6b1a1fa018fa06b0", "topic": 16 },
                { "stream": "w.1", "view": "w", "state": "building", "rows": 0, "bytes": 0,
                  "definition": "6b1a1fa018fa06b0", "topic": 17 },
            ],
            "building": { "readings_behind": 5, "readings": 40 },
        });
        assert_eq!(
            text(&answer),
            "stream  view  state     rows  bytes  definition\n\
             w       w     standing    12   3456  6b1a1fa0\n\
             w.1     w     building     0      0  6b1a1fa0\n\
             building: 5 of 40 readings to go"
        );
        let waits = json!({ "views": [], "building": { "readings_behind": null } });
        assert!(text(&waits).ends_with("waits until the live streams have caught up"));
    }
}
