//! One answer, three forms: a table for people, JSON, and CSV with columns that stay.
//!
//! A command gives a [`Sheet`]: where the rows are in the answer, and what its columns
//! are. Columns of CSV are only ever added at the end. Knows no command.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::colour::{self, Tone};
use super::{csv, width};
use crate::exit::{Exit, Failure};

/// How an answer is to be printed.
#[derive(Debug, Clone, Copy, Args, Default)]
pub struct Output {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print CSV (RFC 4180); the columns stay the same: agent/node/docs/shell.md
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For a person.
    Text,
    Json,
    Csv,
}

impl Output {
    #[must_use]
    pub fn form(self) -> Form {
        match (self.json, self.csv) {
            (true, _) => Form::Json,
            (false, true) => Form::Csv,
            (false, false) => Form::Text,
        }
    }
}

/// Where the figure of a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// In the row, by a pointer of JSON such as `/gaps/total`.
    Row(&'static str),
    /// In the answer around the rows: the same in each row.
    Answer(&'static str),
}

/// How a figure is shown to a person. CSV has it as the answer has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text, at the left.
    Text,
    /// A word that says how something does.
    State,
    /// A number with at most three decimals.
    Figure,
    /// A whole number.
    Count,
    /// Bytes, in the largest unit that keeps a digit before the point.
    Bytes,
    /// RFC 3339, in UTC.
    Time,
    /// `yes` or `NO`.
    Flag,
    /// JSON as it is.
    Json,
}

/// A column of a sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name in CSV.
    pub name: &'static str,
    pub at: At,
    pub kind: Kind,
    /// Its head for a person; `None` where it is left to CSV and JSON.
    pub shown: Option<&'static str>,
    /// What it says, with its unit, for the page of the manual.
    pub about: &'static str,
}

/// A column that has the same name for people and in CSV.
#[must_use]
pub const fn column(name: &'static str, at: At, kind: Kind, about: &'static str) -> Column {
    Column {
        name,
        at,
        kind,
        shown: Some(name),
        about,
    }
}

impl Column {
    /// The same, in CSV only.
    #[must_use]
    pub const fn hidden(mut self) -> Self {
        self.shown = None;
        self
    }

    /// The same, under another head for people.
    #[must_use]
    pub const fn head(mut self, head: &'static str) -> Self {
        self.shown = Some(head);
        self
    }

    fn value<'a>(&self, answer: &'a Value, row: &'a Value) -> &'a Value {
        static NULL: Value = Value::Null;
        let found = match self.at {
            At::Row(place) => row.pointer(place),
            At::Answer(place) => answer.pointer(place),
        };
        found.unwrap_or(&NULL)
    }
}

/// What a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sheet {
    /// The command, for the page of the manual.
    pub command: &'static str,
    /// Where the list of rows is, a pointer of JSON; the answer is the only row where
    /// there is no list.
    pub rows: &'static str,
    pub columns: &'static [Column],
    /// What a person reads when there is no row.
    pub empty: &'static str,
}

impl Sheet {
    fn rows<'a>(&self, answer: &'a Value) -> &'a [Value] {
        match answer.pointer(self.rows) {
            Some(Value::Array(rows)) => rows,
            Some(row) => std::slice::from_ref(row),
            None => &[],
        }
    }

    /// The names of the columns, as the first record of CSV.
    #[must_use]
    pub fn csv_head(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        csv::record(&names)
    }

    /// One row as a record of CSV.
    #[must_use]
    pub fn csv_record(&self, answer: &Value, row: &Value) -> String {
        let cells = self.columns.iter();
        let cells = cells.map(|column| raw(column.value(answer, row)));
        csv::record(&cells.collect::<Vec<_>>())
    }

    /// The answer as CSV.
    #[must_use]
    pub fn csv(&self, answer: &Value) -> String {
        let mut out = self.csv_head();
        for row in self.rows(answer) {
            out.push_str(&self.csv_record(answer, row));
        }
        out
    }

    /// The answer as a table for a person, without a line end behind it.
    #[must_use]
    pub fn text(&self, answer: &Value) -> String {
        self.painted(answer, colour::on())
    }

    fn painted(&self, answer: &Value, colours: bool) -> String {
        let rows = self.rows(answer);
        if rows.is_empty() {
            return self.empty.to_owned();
        }
        let shown = self.columns.iter().filter(|column| column.shown.is_some());
        let shown: Vec<&Column> = shown.collect();
        let mut table = Table::default();
        table.head(shown.iter().map(|column| {
            let head = column.shown.unwrap_or_default();
            (head, is_figure(column.kind))
        }));
        for row in rows {
            let cells = shown.iter().map(|column| {
                let value = column.value(answer, row);
                let text = shown_as(column.kind, value);
                let tone = match column.kind {
                    Kind::State | Kind::Flag => Tone::of(&text),
                    Kind::Text
                    | Kind::Figure
                    | Kind::Count
                    | Kind::Bytes
                    | Kind::Time
                    | Kind::Json => Tone::Plain,
                };
                (text, tone)
            });
            table.row(cells);
        }
        table.text(colours)
    }

    /// The columns of CSV, for the page of the manual.
    #[must_use]
    pub fn page(&self) -> String {
        let mut out = format!("\n## {}\n\n| column | what |\n|---|---|\n", self.command);
        for column in self.columns {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "| `{}` | {} |", column.name, column.about);
        }
        out
    }
}

fn is_figure(kind: Kind) -> bool {
    match kind {
        Kind::Figure | Kind::Count | Kind::Bytes => true,
        Kind::Text | Kind::State | Kind::Time | Kind::Flag | Kind::Json => false,
    }
}

/// A value as CSV has it: texts as they are, nothing for null, anything else as JSON.
fn raw(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    }
}

/// A value as a person reads it; a dash for none.
#[must_use]
pub fn shown_as(kind: Kind, value: &Value) -> String {
    if value.is_null() {
        return String::from("-");
    }
    match kind {
        Kind::Figure => figure(value),
        Kind::Bytes => bytes(value),
        Kind::Flag => match value.as_bool() {
            Some(true) => String::from("yes"),
            Some(false) => String::from("NO"),
            None => width::clean(&raw(value)),
        },
        Kind::Text | Kind::State | Kind::Count | Kind::Time | Kind::Json => {
            width::clean(&raw(value))
        }
    }
}

/// A figure with at most three decimals; a dash for none.
#[must_use]
pub fn figure(value: &Value) -> String {
    match value.as_f64() {
        Some(figure) if figure.fract() == 0.0 && figure.abs() < 1e15 => format!("{figure:.0}"),
        Some(figure) => format!("{figure:.3}"),
        None => String::from("-"),
    }
}

/// Bytes in the largest unit that keeps a digit before the point; a dash for none.
#[must_use]
pub fn bytes(value: &Value) -> String {
    let whole = value.as_f64().map(|bytes| bytes as u64);
    let Some(bytes) = value.as_u64().or(whole) else {
        return String::from("-");
    };
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((name, shift)) => format!("{:.1} {name}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// Cells in columns, two spaces apart: texts begin and figures end at the same place.
#[derive(Debug, Clone, Default)]
pub struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<(String, Tone)>>,
}

impl Table {
    /// Heads of the columns, and which of them hold figures.
    pub fn head<'a>(&mut self, heads: impl IntoIterator<Item = (&'a str, bool)>) {
        let heads: Vec<(&str, bool)> = heads.into_iter().collect();
        self.right = heads.iter().map(|(_, right)| *right).collect();
        self.row(heads.iter().map(|(head, _)| (*head, Tone::Head)));
    }

    /// A row; texts in it are on one line.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = (S, Tone)>) {
        let cells = cells.into_iter();
        self.rows
            .push(cells.map(|(text, tone)| (text.into(), tone)).collect());
    }

    /// The lines, without spaces at their ends.
    #[must_use]
    pub fn text(&self, colours: bool) -> String {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|(text, _)| width::of(text)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..count).map(width).collect();
        let lines = self.rows.iter().map(|row| self.line(row, &widths, colours));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn line(&self, row: &[(String, Tone)], widths: &[usize], colours: bool) -> String {
        let mut out = String::new();
        let mut spaces = 0;
        for (column, (text, tone)) in row.iter().enumerate() {
            let free = widths[column].saturating_sub(width::of(text));
            let (before, after) = match self.right.get(column) {
                Some(true) => (free, 0),
                Some(false) | None => (0, free),
            };
            spaces += before;
            if !text.is_empty() {
                let _ = write!(out, "{:spaces$}{}", "", tone.paint(text, colours));
                spaces = 0;
            } else {
                spaces += width::of(text);
            }
            spaces += after + 2;
        }
        out
    }
}

/// Prints an answer in its form; `text` is what a person reads.
pub fn answer(
    form: Form,
    sheet: &Sheet,
    answer: &Value,
    text: impl FnOnce(&Value) -> String,
) -> ExitCode {
    match form {
        Form::Text => print(&(text(answer) + "\n")),
        Form::Json => print(&format!("{answer}\n")),
        Form::Csv => print(&sheet.csv(answer)),
    }
}

/// Prints to standard output. A reader that went away, as `head` does, has seen enough.
pub fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Exit::Ok.into(),
        Err(error) => unwritten(&error),
    }
}

/// What it means that standard output takes no more.
pub fn unwritten(error: &io::Error) -> ExitCode {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Exit::Ok.into();
    }
    failed(&format!("standard output: {error}").into())
}

/// Says on standard error why a command ends, and gives its exit code.
pub fn failed(failure: &Failure) -> ExitCode {
    // When even this cannot be written, the exit code remains.
    let _ = writeln!(io::stderr(), "forebay: {}", failure.text);
    failure.exit.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SHEET: Sheet = Sheet {
        command: "device ls",
        rows: "/devices",
        columns: &[
            column("gateway", At::Answer("/gateway"), Kind::Text, "who").hidden(),
            column("device", At::Row("/name"), Kind::Text, "name"),
            column("value", At::Row("/newest/value"), Kind::Figure, "figure"),
            column("used_bytes", At::Row("/bytes"), Kind::Bytes, "bytes").head("used"),
            column("closes", At::Row("/closes"), Kind::Flag, "sums"),
        ],
        empty: "no device",
    };

    fn devices() -> Value {
        json!({ "gateway": "gw", "devices": [
            { "name": "温度,a", "newest": { "value": 1.5 }, "bytes": 2048, "closes": true },
            { "name": "b\x1b[2J", "newest": { "value": null }, "closes": false },
        ] })
    }

    #[test]
    fn a_table_is_for_people() {
        assert_eq!(
            SHEET.painted(&devices(), false),
            "device  value     used  closes\n\
             温度,a  1.500  2.0 KiB  yes\n\
             b\u{fffd}[2J       -        -  NO"
        );
        let painted = SHEET.painted(&devices(), true);
        assert!(painted.contains("\x1b[32myes\x1b[0m"), "{painted}");
        assert!(painted.contains("\x1b[1;31mNO\x1b[0m"), "{painted}");
        assert_eq!(SHEET.painted(&json!({ "devices": [] }), false), "no device");
    }

    #[test]
    fn csv_has_all_columns_as_they_are() {
        assert_eq!(
            SHEET.csv(&devices()),
            "gateway,device,value,used_bytes,closes\n\
             gw,\"温度,a\",1.5,2048,true\n\
             gw,b\x1b[2J,,,false\n"
        );
        assert_eq!(
            SHEET.csv(&json!({})),
            "gateway,device,value,used_bytes,closes\n"
        );
    }

    #[test]
    fn an_answer_may_be_its_only_row() {
        let sheet = Sheet { rows: "", ..SHEET };
        let row = json!({ "name": "x", "gateway": "gw" });
        assert_eq!(sheet.csv(&row).lines().nth(1), Some("gw,x,,,"));
    }

    #[test]
    fn figures_and_bytes_are_short() {
        for (value, as_figure, as_bytes) in [
            (json!(null), "-", "-"),
            (json!(3), "3", "3 B"),
            (json!(1023), "1023", "1023 B"),
            (json!(1024), "1024", "1.0 KiB"),
            (json!(1.0625), "1.062", "1 B"),
            (json!(8_u64 << 30), "8589934592", "8.0 GiB"),
        ] {
            assert_eq!(figure(&value), as_figure, "{value}");
            assert_eq!(bytes(&value), as_bytes, "{value}");
        }
    }
}
