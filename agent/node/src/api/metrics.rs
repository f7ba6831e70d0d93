//! Metrics in Prometheus's text form, made of the status answer and what the system says
//! of this process by one table, [`table`]. The list of them in
//! `agent/node/docs/metrics.md` is made of the same table; a test compares.
//!
//! Holds always: a metric is there by its name and help even where nothing has a figure
//! for it, unless it has no sample at all; labels are names that the config, the log or
//! devices bound. Knows no agent.

mod coverage;
mod from;
mod process;
mod table;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use serde_json::Value;

pub use self::coverage::{Coverage, coverage};
use self::from::samples;
pub use self::process::Process;
pub use self::table::{AGENT, RECEIVER, Table};
use self::table::{Kind, Metric};

/// What a scrape is told.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics of an agent or a receiver with this status, in the order of its table.
#[must_use]
pub fn render(table: &Table, status: &Value, process: &Process) -> String {
    let mut out = String::new();
    for metric in table.metrics() {
        let rows: Vec<_> = metric
            .sources
            .iter()
            .flat_map(|source| samples(status, source))
            .collect();
        if rows.is_empty() {
            continue;
        }
        head(&mut out, metric.name, metric.help, metric.kind);
        for (labels, value) in rows {
            sample(&mut out, metric.name, &labels, value);
        }
    }
    for (name, help, kind, value) in process.metrics() {
        head(&mut out, name, help, kind);
        sample(&mut out, name, &[], value);
    }
    let version = [("version", env!("CARGO_PKG_VERSION").to_owned())];
    head(&mut out, BUILD_INFO.0, BUILD_INFO.1, Kind::Gauge);
    sample(&mut out, BUILD_INFO.0, &version, 1.0);
    out
}

const BUILD_INFO: (&str, &str) = ("forebay_build_info", "Which version runs; always 1.");

fn head(out: &mut String, name: &str, help: &str, kind: Kind) {
    // Writing to a String cannot fail.
    let _ = write!(out, "# HELP {name} ");
    escape(out, help, false);
    let _ = writeln!(out, "\n# TYPE {name} {}", kind.name());
}

fn sample(out: &mut String, name: &str, labels: &[(&str, String)], value: f64) {
    out.push_str(name);
    for (at, (label, text)) in labels.iter().enumerate() {
        out.push(if at == 0 { '{' } else { ',' });
        out.push_str(label);
        out.push_str("=\"");
        escape(out, text, true);
        out.push('"');
    }
    if !labels.is_empty() {
        out.push('}');
    }
    // As Rust writes it, a figure reads back as the same one.
    let _ = writeln!(out, " {value}");
}

fn escape(out: &mut String, text: &str, quotes: bool) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

/// The page of the manual.
#[must_use]
pub fn page() -> String {
    let mut out = String::from(
        "# Metrics\n\n\
         What `GET /metrics` gives, for a Prometheus to scrape: of an agent (`[api]` in its config) \
         and of a receiver (`[upstream_api]`). \
         Written by `agent/node/src/api/metrics/table.rs`; `cargo test -p forebay` compares, and \
         `FOREBAY_WRITE_DOCS=1 cargo test -p forebay docs` writes it. Readings themselves are \
         no metrics: Prometheus asks for them at `/api/v1/query`. Times are seconds, sizes bytes.\n\n\
         ## Of an agent\n\n\
         Counters of devices, of their gaps and of what was dropped are kept in the log and go \
         on over restarts; all others begin at 0 with the process. `device` is its name from the \
         config, or its uid.\n\n",
    );
    section(&mut out, &AGENT, "forebay status --json");
    out.push_str(
        "\n## Of a receiver\n\n\
         Counters are kept with the sink and go on over restarts, but for what came and was not \
         applied since the last commit before a kill. `device` is a uid.\n\n",
    );
    section(
        &mut out,
        &RECEIVER,
        "forebay upstream status --ledger --json",
    );
    out.push_str("\n## Of each process\n\n| metric | type | labels | what |\n|---|---|---|---|\n");
    for (name, help, kind) in Process::ABOUT {
        let kind = kind.name();
        let _ = writeln!(out, "| `{name}` | {kind} | | {help} |");
    }
    let (name, help) = BUILD_INFO;
    let _ = writeln!(out, "| `{name}` | gauge | `version` | {help} |");
    out
}

fn section(out: &mut String, table: &Table, status: &str) {
    let _ = writeln!(
        out,
        "| metric | type | labels | what | member of `{status}` |\n|---|---|---|---|---|"
    );
    for metric in table.metrics() {
        line(out, metric);
    }
    out.push_str("\nNumbers of the status that no metric shows, and why:\n\n");
    out.push_str("| member | why |\n|---|---|\n");
    for (path, why) in table.not_metrics {
        let _ = writeln!(out, "| `{}` | {why} |", dotted(path));
    }
}

fn line(out: &mut String, metric: &Metric) {
    let mut labels: Vec<&str> = Vec::new();
    for (label, _) in metric.sources.iter().flat_map(|source| source.labels) {
        if !labels.contains(label) {
            labels.push(label);
        }
    }
    let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
    let sources = metric.sources.iter();
    let sources: Vec<String> = sources.map(|s| format!("`{}`", dotted(s.path))).collect();
    let _ = writeln!(
        out,
        "| `{}` | {} | {} | {} | {} |",
        metric.name,
        metric.kind.name(),
        labels.join(", "),
        metric.help,
        sources.join(", "),
    );
}

/// `/devices/*/lost` as `devices[].lost`.
fn dotted(path: &str) -> String {
    let path = path.trim_start_matches('/');
    path.replace("/*", "[]").replace('/', ".")
}
