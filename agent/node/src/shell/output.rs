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

/// The same for commands that have `--json` of their own.
#[derive(Debug, Clone, Copy, Args, Default)]
pub struct Csv {
    /// Print CSV (RFC 4180); the columns stay the same: agent/node/docs/shell.md
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

impl Csv {
    #[must_use]
    pub fn form(self, json: bool) -> Form {
        Output {
            json,
            csv: self.csv,
        }
        .form()
    }
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
    /// A time between samples, us.
    Period,
    /// How many elements a list has; CSV has that, too.
    Length,
    /// Hex digits, of which a person reads the first.
    Hash,
    /// This word where it is true, else nothing.
    Mark(&'static str),
}

/// Characters of a hash that are shown.
const HASH_SHOWN: usize = 8;

/// A column of a sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name in CSV.
    pub name: &'static str,
    pub at: At,
    pub kind: Kind,
    /// Its head for a person; `None` where it is left to CSV and JSON.
    pub shown: Option<&'static str>,
    /// What stands for a member that is not there.
    pub missing: &'static str,
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
        missing: "",
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

    /// The same, with a word for a member that is not there.
    #[must_use]
    pub const fn missing(mut self, word: &'static str) -> Self {
        self.missing = word;
        self
    }

    /// The cell of CSV.
    fn raw(&self, answer: &Value, row: &Value) -> String {
        let value = self.value(answer, row);
        match value.as_array().filter(|_| self.kind == Kind::Length) {
            Some(list) => list.len().to_string(),
            None if value.is_null() => self.missing.to_owned(),
            None => raw(value),
        }
    }

    /// The cell for a person.
    fn text(&self, answer: &Value, row: &Value) -> (String, Tone) {
        let value = self.value(answer, row);
        let text = if value.is_null() && !self.missing.is_empty() {
            self.missing.to_owned()
        } else {
            shown_as(self.kind, value)
        };
        let tone = match self.kind {
            Kind::State | Kind::Flag | Kind::Mark(_) => Tone::of(&text),
            Kind::Text
            | Kind::Figure
            | Kind::Count
            | Kind::Bytes
            | Kind::Time
            | Kind::Json
            | Kind::Period
            | Kind::Length
            | Kind::Hash => Tone::Plain,
        };
        (text, tone)
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
        let cells = cells.map(|column| column.raw(answer, row));
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
            let cells = shown.iter().map(|column| column.text(answer, row));
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
        Kind::Figure | Kind::Count | Kind::Bytes | Kind::Period | Kind::Length => true,
        Kind::Text
        | Kind::State
        | Kind::Time
        | Kind::Flag
        | Kind::Json
        | Kind::Hash
        | Kind::Mark(_) => false,
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
    match kind {
        Kind::Mark(word) if *value == true => word.to_owned(),
        Kind::Mark(_) => String::new(),
        _ if value.is_null() => String::from("-"),
        Kind::Figure => figure(value),
        Kind::Period => period(value),
        Kind::Length => value
            .as_array()
            .map_or_else(|| String::from("-"), |list| list.len().to_string()),
        Kind::Hash => width::clean(&raw(value)).chars().take(HASH_SHOWN).collect(),
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

/// From here on a figure is shown by its power of ten: three decimals would say nothing of
/// it, or it has hundreds of digits.
const FIGURE_MIN: f64 = 0.001;
const FIGURE_MAX: f64 = 1e15;

/// A figure with at most three decimals; a dash for none.
#[must_use]
pub fn figure(value: &Value) -> String {
    if value.is_u64() || value.is_i64() {
        return value.to_string();
    }
    match value.as_f64() {
        // Zero has no sign.
        Some(0.0) => String::from("0"),
        Some(figure) if !(FIGURE_MIN..FIGURE_MAX).contains(&figure.abs()) => {
            format!("{figure:.3e}")
        }
        Some(figure) if figure.fract() == 0.0 => format!("{figure:.0}"),
        Some(figure) => format!("{figure:.3}"),
        None => String::from("-"),
    }
}

/// A time between samples as a person would write it.
fn period(value: &Value) -> String {
    match value.as_u64() {
        None => String::from("-"),
        Some(us) if us % 1_000_000 == 0 => format!("{} s", us / 1_000_000),
        Some(us) if us % 1000 == 0 => format!("{} ms", us / 1000),
        Some(us) => format!("{us} us"),
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

/// Each figure of an answer with its name, for a sheet of figures: the members from
/// outside in, joined by points. An element of a list stands by its name, or its place.
#[must_use]
pub fn figures(answer: &Value) -> Value {
    let mut out = Vec::new();
    flatten("", answer, &mut out);
    serde_json::json!({ "figures": out })
}

/// Members that name an element of a list, the first that there is.
const NAMES: [&str; 9] = [
    "name",
    "device",
    "channel",
    "topic",
    "table",
    "stream",
    "code",
    "port",
    "partition",
];

fn flatten(path: &str, value: &Value, out: &mut Vec<Value>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                flatten(&below(name), value, out);
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                let named = NAMES.iter().filter_map(|name| value.get(*name));
                let named = named.map(raw).find(|name| !name.is_empty());
                let name = match (named, value["partition"].as_u64()) {
                    // Each partition of a stream is an element.
                    (Some(name), Some(number)) if value.get("stream").is_some() => {
                        format!("{name}/{number}")
                    }
                    (Some(name), _) => name,
                    (None, _) => at.to_string(),
                };
                flatten(&below(&name), value, out);
            }
        }
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push(serde_json::json!({ "figure": path, "value": value }));
        }
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

/// A line on standard output, there at once.
///
/// # Errors
/// What the output says: [`unwritten`] knows what it means.
pub fn put(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
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
    let _ = writeln!(io::stderr(), "forebay: {}", said(&failure.text));
    failure.exit.into()
}

/// A sentence on the lines that it has. Names in it may come from devices.
fn said(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(width::clean).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sentence_keeps_its_lines_and_steers_no_terminal() {
        assert_eq!(
            said("no \u{202e}a\x1b[2J:\n  b"),
            "no \u{fffd}a\u{fffd}[2J:\n  b"
        );
    }

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
    fn an_answer_is_flattened_by_names() {
        let answer = json!({
            "gateway": "gw", "nothing": null,
            "devices": [{ "device": "a", "gaps": { "total": 2 } }],
            "heads": [{ "stream": "readings", "partition": 0, "head": 5 }],
            "list": [true, "x"],
        });
        let figures = figures(&answer);
        let list = figures["figures"].as_array().expect("a list").iter();
        let lines: Vec<String> = list
            .map(|figure| format!("{}={}", raw(&figure["figure"]), raw(&figure["value"])))
            .collect();
        assert_eq!(
            lines.join(" "),
            "gateway=gw devices.a.device=a devices.a.gaps.total=2 heads.readings/0.stream=readings \
             heads.readings/0.partition=0 heads.readings/0.head=5 list.0=true list.1=x"
        );
    }

    #[test]
    fn figures_of_any_size_say_what_they_are() {
        for (value, want) in [
            (0.001, "0.001"),
            (0.0009, "9.000e-4"),
            (-2.5e-6, "-2.500e-6"),
            (f64::MIN_POSITIVE, "2.225e-308"),
            (5e-324, "4.941e-324"),
            (999_999_999_999_999.0, "999999999999999"),
            (999_999_999_999_999.5, "999999999999999.500"),
            (1e15, "1.000e15"),
            (-f64::MAX, "-1.798e308"),
        ] {
            assert_eq!(figure(&json!(value)), want, "{value:e}");
        }
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
            (json!(u64::MAX), "18446744073709551615", "17179869184.0 GiB"),
            (json!(0.0), "0", "0 B"),
            (json!(-0.0), "0", "0 B"),
        ] {
            assert_eq!(figure(&value), as_figure, "{value}");
            assert_eq!(bytes(&value), as_bytes, "{value}");
        }
    }
}
