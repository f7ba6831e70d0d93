//! `forebay table`: the tables of a running agent, their rows now or at a time, and
//! what became of one row.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use forebay_core::query::Query;
use forebay_core::units::EventTime;
use serde_json::Value;

use super::query::{Target, parse_time};
use super::show::number;
use crate::agent::questions;
use crate::table::columns;
use crate::terminal::{fail, print_line};

#[derive(Debug, Subcommand)]
pub(super) enum TableVerb {
    /// Lists the tables: where they come from, how many rows, how far they are known
    #[command(after_help = "\
Example:
  forebay table ls --config gateway.toml

What the states of a source mean: agent/node/docs/tables.md.")]
    Ls(Target),
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
Exit code: 0; 1 when there is no such table, or the agent does not answer.")]
pub(super) struct ShowArgs {
    /// Name of the table
    #[arg(value_name = "TABLE")]
    table: String,
    /// Only the row of this key; of several columns a JSON list of texts
    #[arg(long)]
    key: Option<String>,
    /// The rows that held then, RFC 3339 or microseconds since 1970
    #[arg(long, value_parser = parse_time, value_name = "TIME", allow_negative_numbers = true)]
    at: Option<EventTime>,
    #[command(flatten)]
    target: Target,
}

/// Shows all changes of one row that the log keeps
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay table history sites --key d1 --json

Exit code: 0; 1 when there is no such table, or the agent does not answer.")]
pub(super) struct HistoryArgs {
    /// Name of the table
    #[arg(value_name = "TABLE")]
    table: String,
    /// Key of the row; of several columns a JSON list of texts
    #[arg(long)]
    key: String,
    #[command(flatten)]
    target: Target,
}

/// Asks and shows.
pub(super) fn run(verb: &TableVerb) -> ExitCode {
    let (target, query) = match verb {
        TableVerb::Ls(target) => (target, Query::Tables),
        TableVerb::Show(ShowArgs {
            table,
            key,
            at,
            target,
        }) => {
            let query = Query::Table {
                table: table.clone(),
                key: key.clone(),
                at: *at,
            };
            (target, query)
        }
        TableVerb::History(HistoryArgs { table, key, target }) => {
            let query = Query::TableHistory {
                table: table.clone(),
                key: key.clone(),
            };
            (target, query)
        }
    };
    match target.ask(&questions::write(&query)) {
        Ok(answer) if target.json => print_line(&answer.to_string()),
        Ok(answer) => show(&answer),
        Err(text) => fail(&text),
    }
}

/// Prints an answer to any of them.
pub(super) fn show(answer: &Value) -> ExitCode {
    print_line(&text(answer))
}

fn text(answer: &Value) -> String {
    let list = |name: &str| answer[name].as_array();
    if let Some(tables) = list("tables") {
        return tables_text(tables);
    }
    let (head, rows): (&[&str], Vec<Vec<String>>) = match (list("rows"), list("history")) {
        (Some(rows), _) => (
            &["key", "since", "row"],
            rows.iter()
                .map(|row| vec![cell(&row["key"]), cell(&row["time"]), cell(&row["row"])])
                .collect(),
        ),
        (None, changes) => (
            &["time", "op", "row", "position"],
            changes.into_iter().flatten().map(change_cells).collect(),
        ),
    };
    if rows.is_empty() {
        return String::from("no row");
    }
    let head = head.iter().map(|name| (*name).to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let mut out = left(&all);
    if answer["more"].as_bool() == Some(true) {
        out.push_str("\n(more are left out)");
    }
    out
}

fn tables_text(tables: &[Value]) -> String {
    if tables.is_empty() {
        return String::from("the config has no table");
    }
    let head = ["table", "source", "state", "rows", "changes", "known until"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(tables.iter().map(|table| {
        let source = &table["source"];
        vec![
            cell(&table["table"]),
            cell(&source["kind"]),
            cell(&source["state"]),
            number(&table["rows"]),
            number(&table["changes"]),
            cell(&table["watermark"]),
        ]
    }));
    let mut out = columns(&rows);
    for table in tables {
        let source = &table["source"];
        for name in ["why", "last_error"] {
            if let Some(text) = source[name].as_str() {
                out.push_str(&format!("\n{}: {text}", cell(&table["table"])));
            }
        }
    }
    out
}

fn change_cells(change: &Value) -> Vec<String> {
    let after = &change["after"];
    let row = if after.is_null() {
        &change["before"]
    } else {
        after
    };
    vec![
        cell(&change["time"]),
        cell(&change["op"]),
        cell(row),
        cell(&change["position"]),
    ]
}

/// A text as it is, anything else as JSON; a dash for nothing.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::from("-"),
        Value::String(text) => text.clone(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    }
}

/// Columns that all begin at the left: what stands in rows has no figure's width.
fn left(rows: &[Vec<String>]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
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
        let shown = text(&answer);
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
        assert_eq!(text(&json!({ "tables": [] })), "the config has no table");
    }

    #[test]
    fn rows_and_changes_are_shown_as_they_are() {
        let rows = json!({ "table": "sites", "more": true, "rows": [
            { "key": "d1", "time": "2026-03-01T00:00:00Z", "row": { "building": "north" } },
        ]});
        assert_eq!(
            text(&rows),
            "key  since                 row\n\
             d1   2026-03-01T00:00:00Z  {\"building\":\"north\"}\n\
             (more are left out)"
        );
        let history = json!({ "table": "sites", "key": "d1", "history": [
            { "op": "insert", "time": "t1", "after": { "b": 1 }, "position": "7" },
            { "op": "delete", "time": "t2", "before": { "b": 1 } },
        ]});
        assert_eq!(
            text(&history),
            "time  op      row      position\n\
             t1    insert  {\"b\":1}  7\n\
             t2    delete  {\"b\":1}  -"
        );
        assert_eq!(text(&json!({ "history": [] })), "no row");
    }
}
