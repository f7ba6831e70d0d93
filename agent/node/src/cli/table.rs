//! `forebay table`: the tables of a running agent, their rows now or at a time, and
//! what became of one row.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use forebay_core::query::Query;
use forebay_core::units::EventTime;
use serde_json::Value;

use super::query::Listed;
use crate::agent::questions;
use crate::shell::output::Sheet;
use crate::shell::{sheets, when, width};

#[derive(Debug, Subcommand)]
pub(super) enum TableVerb {
    /// Lists the tables: where they come from, how many rows, how far they are known
    #[command(after_help = "\
Example:
  forebay table ls --config gateway.toml

What the states of a source mean: agent/node/docs/tables.md.")]
    Ls(Listed),
    Show(ShowArgs),
    History(HistoryArgs),
}

/// Shows the rows of a table, as they are or as they were
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay table show sites
  forebay table show sites --key d1 --at 2026-03-01T00:00:00Z

As they were: as far back as the log keeps the topic `changes`.
Exit code: 0; 1 when there is no such table; 3 when the agent does not answer.")]
pub(super) struct ShowArgs {
    /// Name of the table
    #[arg(value_name = "TABLE")]
    table: String,
    /// Only the row of this key; of several columns a JSON list of texts
    #[arg(long)]
    key: Option<String>,
    /// The rows that held then: RFC 3339, -15m for 15 minutes ago, or microseconds since 1970
    #[arg(long, value_parser = when::parse, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<EventTime>,
    #[command(flatten)]
    listed: Listed,
}

/// Shows all changes of one row that the log keeps
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay table history sites --key d1 --json

Exit code: 0; 1 when there is no such table; 3 when the agent does not answer.")]
pub(super) struct HistoryArgs {
    /// Name of the table
    #[arg(value_name = "TABLE")]
    table: String,
    /// Key of the row; of several columns a JSON list of texts
    #[arg(long)]
    key: String,
    #[command(flatten)]
    listed: Listed,
}

/// Asks and shows.
pub(super) fn run(verb: &TableVerb) -> ExitCode {
    type Text = fn(&Value) -> String;
    let (listed, query, sheet, text): (_, _, &Sheet, Text) = match verb {
        TableVerb::Ls(listed) => (listed, Query::Tables, &sheets::TABLES, tables),
        TableVerb::Show(args) => {
            let query = Query::Table {
                table: args.table.clone(),
                key: args.key.clone(),
                at: args.at,
            };
            (&args.listed, query, &sheets::TABLE_ROWS, rows)
        }
        TableVerb::History(args) => {
            let query = Query::TableHistory {
                table: args.table.clone(),
                key: args.key.clone(),
            };
            (&args.listed, query, &sheets::TABLE_HISTORY, history)
        }
    };
    listed.show(&questions::write(&query), sheet, text)
}

/// The tables, and below them what is wrong with their sources.
fn tables(answer: &Value) -> String {
    let mut out = sheets::TABLES.text(answer);
    for table in answer["tables"].as_array().into_iter().flatten() {
        let name = table["table"].as_str().unwrap_or("-");
        for member in ["why", "last_error"] {
            if let Some(text) = table["source"][member].as_str() {
                out.push_str(&format!("\n{}: {}", name, width::clean(text)));
            }
        }
    }
    out
}

fn rows(answer: &Value) -> String {
    with_more(answer, sheets::TABLE_ROWS.text(answer))
}

/// A change has one row for a person: the one after it, or else the one before.
fn history(answer: &Value) -> String {
    let mut shown = answer.clone();
    for change in shown["history"].as_array_mut().into_iter().flatten() {
        if change["after"].is_null() {
            change["after"] = change["before"].take();
        }
    }
    with_more(answer, sheets::TABLE_HISTORY.text(&shown))
}

fn with_more(answer: &Value, mut out: String) -> String {
    if answer["more"].as_bool() == Some(true) {
        out.push_str("\n(more are left out)");
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_stand_in_columns_with_what_is_wrong_below() {
        let answer = json!({ "tables": [
            {
                "table": "sites", "rows": 12, "changes": 40, "watermark": "2026-03-01T00:00:00Z",
                "source": { "kind": "file", "state": "waiting", "why": "s.ndjson: No such file" },
            },
            {
                "table": "limits", "rows": 2, "changes": 2, "watermark": "always",
                "source": { "kind": "config", "state": "streaming" },
            },
        ]});
        let shown = tables(&answer);
        let lines: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[1],
            [
                "sites",
                "file",
                "waiting",
                "12",
                "40",
                "2026-03-01T00:00:00Z"
            ]
        );
        assert_eq!(
            lines[2],
            ["limits", "config", "streaming", "2", "2", "always"]
        );
        assert_eq!(shown.lines().last(), Some("sites: s.ndjson: No such file"));
        let none = tables(&json!({ "tables": [] }));
        assert_eq!(none, "the config has no table");
    }

    #[test]
    fn rows_and_changes_are_shown_as_they_are() {
        let rows = json!({ "table": "sites", "more": true, "rows": [
            { "key": "d1", "time": "2026-03-01T00:00:00Z", "row": { "building": "north" } },
        ]});
        assert_eq!(
            super::rows(&rows),
            "key  since                 row\n\
             d1   2026-03-01T00:00:00Z  {\"building\":\"north\"}\n\
             (more are left out)"
        );
        let history = json!({ "table": "sites", "key": "d1", "history": [
            { "op": "insert", "time": "t1", "after": { "b": 1 }, "position": "7" },
            { "op": "delete", "time": "t2", "before": { "b": 1 } },
        ]});
        assert_eq!(
            super::history(&history),
            "time  op      row      position\n\
             t1    insert  {\"b\":1}  7\n\
             t2    delete  {\"b\":1}  -"
        );
        assert_eq!(super::history(&json!({ "history": [] })), "no row");
    }
}
