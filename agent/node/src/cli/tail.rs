//! `forebay tail`: the last lines of readings or of any stream of a running agent, then
//! those that come, for people: names and units, filters, a line each.
//!
//! Bound: one answer, [`BACK_MAX`] records back for the last lines, and bars of
//! [`SERIES_MAX`] channels. Knows no log: [`super::follow`] asks, as it does for `watch`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use forebay_core::follow::FollowFrom;
use forebay_core::limits::{FOLLOW_LINES_MAX, FOLLOW_WAIT_MAX_US};
use forebay_core::query::Query;
use forebay_core::units::{Offset, PartitionId, Span};
use forebay_core::utc;
use serde_json::{Value, json};

use super::follow::Follower;
use super::query::{Listed, Target};
use crate::agent::questions;
use crate::exit::{Exit, Failure};
use crate::shell::output::{self, Form, figure};
use crate::shell::{colour, gone, sheets, spark, width};

/// The stream of readings.
const READINGS: &str = "readings";
/// Records of a partition that are searched backwards for the last lines.
const BACK_MAX: u64 = 262_144;
/// By how much more is searched when that was not enough.
const BACK_GROWS: u64 = 8;
/// Channels whose bars are drawn.
const SERIES_MAX: usize = 1024;
/// Names of devices and units are asked for again no sooner.
const NAMES_AGAIN: Duration = Duration::from_secs(2);
/// Names that a sentence has.
const NAMES_SHOWN_MAX: usize = 10;
/// Columns of a time with microseconds.
const TIME_WIDTH: usize = 27;
const VALUE_WIDTH: usize = 12;
/// What a row of results has beside its figures.
const BESIDE: [&str; 8] = [
    "stream", "device", "channel", "start", "end", "time", "revision", "final",
];

/// Shows the last readings, or rows of a stream, and those that come
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  forebay tail --device boiler
  forebay tail temp_1m -n 5
  forebay tail late --no-follow --json

Ctrl-C ends it. An agent that is started again is waited for. Figures of a program's own, with
the place in the stream behind each change: forebay watch.
Exit code: 0; 1 when the agent does not know the stream; 3 when nobody answers at the start.")]
pub(super) struct TailArgs {
    /// readings, a window, join or table of the config, or a stream such as late
    #[arg(default_value = READINGS)]
    stream: String,
    /// Begin with so many of the last lines, 0 to 10000
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=10_000))]
    lines: u16,
    /// Only of this device: its name from the config, or its uid
    #[arg(long)]
    device: Option<String>,
    /// Only of this channel
    #[arg(long)]
    channel: Option<String>,
    /// Draw the last values of the channel behind each reading
    #[arg(long)]
    spark: bool,
    /// End with the last lines
    #[arg(long)]
    no_follow: bool,
    #[command(flatten)]
    listed: Listed,
}

/// Runs the command.
pub(super) fn run(args: &TailArgs) -> ExitCode {
    match follow(args) {
        Ok(()) => Exit::Ok.into(),
        Err(End::Said(failure)) => output::failed(&failure),
        Err(End::Output(error)) => output::unwritten(&error),
    }
}

/// Why it ends.
enum End {
    Said(Failure),
    Output(io::Error),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Said(failure)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

fn follow(args: &TailArgs) -> Result<(), End> {
    let target = &args.listed.target;
    let names = Names::ask(target)?;
    let mut follower = Follower::new(target, &args.stream, FollowFrom::Now, true);
    let now = follower.answer(1, Span(0))?;
    let heads = follower.next.clone();
    follower.done(&now);
    let mut shown = Shown::new(args, names, &follower.stream);
    shown.head()?;
    let last = last_lines(args, &shown, &follower, &heads)?;
    if last.is_empty()
        && let Some(text) = shown.names.unmet(args)
    {
        // What is not there yet may come.
        let _ = writeln!(io::stderr(), "forebay: {text}");
    }
    for row in last {
        shown.line(&row)?;
    }
    if args.no_follow {
        return Ok(());
    }
    gone::end_when_unread();
    loop {
        let answer = follower.answer(FOLLOW_LINES_MAX, Span(FOLLOW_WAIT_MAX_US))?;
        shown.names.refresh(target, &answer);
        for gap in answer["gaps"].as_array().into_iter().flatten() {
            shown.gap(gap)?;
        }
        for change in answer["changes"].as_array().into_iter().flatten() {
            follower.gave(change);
            if let Some(row) = shown.row(change) {
                shown.line(&row)?;
            }
        }
        if let Some(name) = follower.done(&answer) {
            let _ = writeln!(io::stderr(), "forebay: the stream goes on as {name}");
        }
    }
}

/// The last lines before `heads` that pass the filters, oldest first.
fn last_lines(
    args: &TailArgs,
    shown: &Shown<'_>,
    follower: &Follower<'_>,
    heads: &BTreeMap<PartitionId, Offset>,
) -> Result<Vec<Value>, Failure> {
    let wanted = usize::from(args.lines);
    let mut back = u64::from(args.lines).saturating_mul(2).max(64);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    loop {
        let begins = |head: &Offset| Offset(head.0.saturating_sub(back));
        let starts: BTreeMap<_, _> = heads.iter().map(|(at, head)| (*at, begins(head))).collect();
        let is_all = back >= BACK_MAX || starts.values().all(|start| start.0 == 0);
        let mut last = read_between(shown, follower.clone(), starts, heads, wanted)?;
        if last.len() >= wanted || is_all {
            // Partitions come one after the other.
            if heads.len() > 1 {
                last.make_contiguous().sort_by_key(time_of);
            }
            return Ok(last.into());
        }
        back = back.saturating_mul(BACK_GROWS).min(BACK_MAX);
    }
}

/// Of what stands between `starts` and `heads`, the last of each partition that pass.
fn read_between(
    shown: &Shown<'_>,
    mut follower: Follower<'_>,
    starts: BTreeMap<PartitionId, Offset>,
    heads: &BTreeMap<PartitionId, Offset>,
    wanted: usize,
) -> Result<VecDeque<Value>, Failure> {
    follower.seek(starts);
    let mut last = VecDeque::new();
    let is_behind = |next: &BTreeMap<PartitionId, Offset>| {
        heads.iter().any(|(at, head)| next.get(at) < Some(head))
    };
    while is_behind(&follower.next) {
        let before = follower.next.clone();
        let answer = follower.answer(FOLLOW_LINES_MAX, Span(0))?;
        for change in answer["changes"].as_array().into_iter().flatten() {
            let at = change["partition"]
                .as_u64()
                .and_then(|at| u16::try_from(at).ok());
            let head = at.and_then(|at| heads.get(&PartitionId(at)));
            // What came since is shown when it is followed.
            if head.is_none_or(|head| change["offset"].as_u64() >= Some(head.0)) {
                continue;
            }
            last.extend(shown.row(change));
        }
        let rows: &mut VecDeque<Value> = &mut last;
        if rows.len() > wanted {
            if heads.len() > 1 {
                rows.make_contiguous().sort_by_key(time_of);
            }
            rows.drain(..rows.len() - wanted);
        }
        follower.done(&answer);
        if follower.next == before {
            break;
        }
    }
    Ok(last)
}

/// Event time of a row; 0 where it has none.
fn time_of(row: &Value) -> i64 {
    let texts = ["time", "end", "start"].map(|name| row[name].as_str());
    let time = texts.into_iter().flatten().find_map(utc::parse);
    time.map_or(0, |time| time.0)
}

/// Names of devices, and units of their channels, as the agent's status has them.
#[derive(Debug, Default)]
struct Names {
    devices: BTreeMap<String, String>,
    units: BTreeMap<(String, String), String>,
    asked: Option<Instant>,
}

impl Names {
    fn ask(target: &Target) -> Result<Self, Failure> {
        let status = target.ask(&questions::write(&Query::Status))?;
        Ok(Self::of(&status))
    }

    fn of(status: &Value) -> Self {
        let mut names = Self {
            asked: Some(Instant::now()),
            ..Self::default()
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for device in status["devices"].as_array().into_iter().flatten() {
            let uid = text(&device["uid"]);
            for channel in device["channels"].as_array().into_iter().flatten() {
                let key = (uid.clone(), text(&channel["channel"]));
                names.units.insert(key, text(&channel["unit"]));
            }
            names.devices.insert(uid, text(&device["device"]));
        }
        names
    }

    /// That nothing has come of the device or the channel that is asked for, and what there
    /// is instead.
    fn unmet(&self, args: &TailArgs) -> Option<String> {
        let list = |names: BTreeSet<&str>| match names.len() {
            0 => String::from("there is none"),
            count => {
                let shown: Vec<&str> = names.into_iter().take(NAMES_SHOWN_MAX).collect();
                let more = match count.saturating_sub(shown.len()) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("there are {}{more}", shown.join(", "))
            }
        };
        let asked = args.device.as_deref();
        let is_it =
            |(uid, name): &(&String, &String)| asked.is_none_or(|d| d == *uid || d == *name);
        let found: Vec<&str> = self
            .devices
            .iter()
            .filter(is_it)
            .map(|(uid, _)| &**uid)
            .collect();
        if let (Some(device), true) = (asked, found.is_empty()) {
            let names = self.devices.values().map(String::as_str).collect();
            return Some(format!(
                "nothing has come of a device \"{device}\": {}",
                list(names)
            ));
        }
        let channel = args.channel.as_deref()?;
        let of_it = self.units.keys().filter(|(uid, _)| found.contains(&&**uid));
        let names: BTreeSet<&str> = of_it.map(|(_, name)| name.as_str()).collect();
        if names.contains(channel) {
            return None;
        }
        Some(format!(
            "nothing has come of a channel \"{channel}\": {}",
            list(names)
        ))
    }

    /// Asks again when an answer names a channel that was not there before.
    fn refresh(&mut self, target: &Target, answer: &Value) {
        if self.asked.is_some_and(|at| at.elapsed() < NAMES_AGAIN) {
            return;
        }
        let changes = answer["changes"].as_array().into_iter().flatten();
        let rows = changes.filter_map(|change| change["line"].as_str());
        let mut rows = rows.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_new = |row: Value| {
            let key = (row["device"].as_str(), row["channel"].as_str());
            let (Some(device), Some(channel)) = key else {
                return false;
            };
            let key = (device.to_owned(), channel.to_owned());
            !self.units.contains_key(&key) && !self.devices.values().any(|name| name == device)
        };
        if rows.any(is_new) {
            // Without an answer uids stand for names.
            let asked = Self::ask(target);
            self.asked = Some(Instant::now());
            if let Ok(names) = asked {
                *self = names;
            }
        }
    }
}

/// How lines are shown, and what of.
struct Shown<'a> {
    args: &'a TailArgs,
    form: Form,
    names: Names,
    stream: String,
    are_readings: bool,
    /// Widest device and channel so far.
    widths: [usize; 2],
    recent: BTreeMap<(String, String), Vec<f64>>,
}

impl<'a> Shown<'a> {
    fn new(args: &'a TailArgs, names: Names, stream: &str) -> Self {
        Self {
            args,
            form: args.listed.form(),
            names,
            stream: stream.to_owned(),
            are_readings: stream == READINGS,
            widths: [0; 2],
            recent: BTreeMap::new(),
        }
    }

    fn head(&self) -> io::Result<()> {
        let sheet = match self.are_readings {
            true => &sheets::TAILED,
            false => &sheets::CHANGES,
        };
        match self.form {
            Form::Csv => output::put(sheet.csv_head().trim_end()),
            Form::Text | Form::Json => Ok(()),
        }
    }

    /// A change as a row with names, where it passes the filters.
    fn row(&self, change: &Value) -> Option<Value> {
        let line = change["line"].as_str()?;
        let mut row: Value = serde_json::from_str(line).ok()?;
        let uid = row["device"].as_str().unwrap_or_default().to_owned();
        let name = self.names.devices.get(&uid).unwrap_or(&uid).clone();
        let channel = row["channel"].as_str().unwrap_or_default().to_owned();
        let is_asked = |asked: &Option<String>, is: &[&String]| {
            asked.as_ref().is_none_or(|asked| is.contains(&asked))
        };
        if !is_asked(&self.args.device, &[&uid, &name])
            || !is_asked(&self.args.channel, &[&channel])
        {
            return None;
        }
        for member in ["partition", "offset", "op"] {
            row[member] = change[member].clone();
        }
        // The row as it stands in the log, for programs.
        row["line"] = line.into();
        if row["device"].is_string() {
            row["device"] = name.into();
        }
        if self.are_readings {
            let unit = self.names.units.get(&(uid.clone(), channel));
            row["unit"] = json!(unit);
            row["uid"] = uid.into();
        }
        Some(row)
    }

    fn line(&mut self, row: &Value) -> io::Result<()> {
        let line = match (self.form, self.are_readings) {
            (Form::Text, true) if row["op"] == "gap" => self.gap_of_device(row),
            (Form::Text, true) => self.reading(row),
            (Form::Text, false) => self.result(row),
            (Form::Csv, true) if row["op"] == "gap" => return Ok(()),
            (Form::Csv, true) => sheets::TAILED.csv_record(&Value::Null, row),
            (Form::Csv, false) => {
                let answer = json!({ "stream": self.stream });
                sheets::CHANGES.csv_record(&answer, row)
            }
            (Form::Json, true) => {
                let mut row = row.clone();
                if let Some(members) = row.as_object_mut() {
                    members.remove("line");
                }
                row.to_string()
            }
            (Form::Json, false) => format!(
                "{{\"stream\":{},\"partition\":{},\"offset\":{},\"op\":{},\"row\":{}}}",
                json!(self.stream),
                row["partition"],
                row["offset"],
                row["op"],
                row["line"].as_str().unwrap_or_default()
            ),
        };
        output::put(line.trim_end())
    }

    /// Device and channel, in columns that grow.
    fn whose(&mut self, row: &Value) -> String {
        let cells = ["device", "channel"].map(|name| row[name].as_str());
        let mut out = Vec::new();
        for (widest, cell) in self.widths.iter_mut().zip(cells) {
            let cell = width::clean(cell.unwrap_or_default());
            *widest = (*widest).max(width::of(&cell));
            if *widest > 0 {
                out.push(width::left(&cell, *widest));
            }
        }
        out.join("  ")
    }

    fn reading(&mut self, row: &Value) -> String {
        let time = row["time"].as_str().unwrap_or("time not known");
        let whose = self.whose(row);
        let value = match row["value"].as_f64() {
            Some(_) => figure(&row["value"]),
            None => width::clean(row["quality"].as_str().unwrap_or("-")),
        };
        let unit = width::clean(row["unit"].as_str().unwrap_or_default());
        let bars = match self.args.spark {
            true => self.bars(row),
            false => String::new(),
        };
        let value = width::right(&value, VALUE_WIDTH);
        let value = match row["value"].is_null() {
            true => colour::Tone::Bad.paint(&value, colour::on()),
            false => value,
        };
        format!("{time:<TIME_WIDTH$}  {whose}  {value} {unit}  {bars}")
    }

    fn bars(&mut self, row: &Value) -> String {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let key = (text("uid"), text("channel"));
        if self.recent.len() >= SERIES_MAX && !self.recent.contains_key(&key) {
            return String::new();
        }
        let recent = self.recent.entry(key).or_default();
        recent.extend(row["value"].as_f64());
        if recent.len() > spark::SPARK_VALUES {
            recent.remove(0);
        }
        spark::plain(recent)
    }

    fn gap_of_device(&mut self, row: &Value) -> String {
        let device = width::clean(row["device"].as_str().unwrap_or_default());
        let count = row["count"].as_u64().unwrap_or_default();
        let reason = row["reason"].as_str().unwrap_or_default();
        let text = format!("gap: {count} readings of {device} will never come: {reason}");
        colour::Tone::Warn.paint(&text, colour::on())
    }

    /// A row of results: when, whose, and each figure by its name.
    fn result(&mut self, row: &Value) -> String {
        let text = |name: &str| row[name].as_str();
        let time = match (text("start"), text("time")) {
            (Some(start), _) => start,
            (None, Some(time)) => time,
            (None, None) => "-",
        };
        let time = time.to_owned();
        let whose = self.whose(row);
        let own = ["partition", "offset", "op", "line"];
        let members = row.as_object().into_iter().flatten();
        let figures = members
            .filter(|(name, _)| !BESIDE.contains(&name.as_str()) && !own.contains(&name.as_str()));
        let figures = figures.map(|(name, value)| match value {
            Value::Number(_) => format!("{name} {}", figure(value)),
            Value::String(text) => format!("{name} {}", width::clean(text)),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                width::clean(&format!("{name} {value}"))
            }
        });
        let figures = figures.collect::<Vec<_>>().join("  ");
        let note = match (text("op"), row["final"].as_bool()) {
            (Some("update"), _) => "  (revised)",
            (Some("delete"), _) => "  (taken back)",
            (_, Some(false)) => "  (preliminary)",
            (_, Some(true) | None) => "",
        };
        format!("{time:<TIME_WIDTH$}  {whose}  {figures}{note}")
    }

    /// Says what was removed or lost between.
    fn gap(&self, gap: &Value) -> io::Result<()> {
        let number = |name: &str| gap[name].as_u64().unwrap_or_default();
        let (partition, first) = (number("partition"), number("first"));
        let last = number("end").saturating_sub(1);
        // Not among the lines, which a program may read.
        writeln!(
            io::stderr(),
            "forebay: partition {partition}, offsets {first} to {last}: removed by retention, or \
             lost"
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Tail {
        #[command(flatten)]
        args: TailArgs,
    }

    fn args(more: &[&str]) -> TailArgs {
        Tail::parse_from([&["tail"], more].concat()).args
    }

    fn names() -> Names {
        Names::of(&json!({ "devices": [{
            "device": "kessel", "uid": "00000000000000ab",
            "channels": [{ "channel": "t", "unit": "degC" }],
        }] }))
    }

    fn reading(device: &str, channel: &str, value: Value) -> Value {
        let line = json!({ "device": device, "channel": channel, "time": "2026-03-01T00:00:00Z",
            "value": value, "boot": 1, "ordinal": 7, "quality": "bus_error" });
        json!({ "partition": 0, "offset": 5, "op": "insert", "line": line.to_string() })
    }

    #[test]
    fn readings_have_names_and_units() {
        let args = args(&["--spark"]);
        let mut shown = Shown::new(&args, names(), READINGS);
        for (name, change, want) in [
            (
                "a value",
                reading("00000000000000ab", "t", json!(21.5)),
                "2026-03-01T00:00:00Z         kessel  t        21.500 degC  ▁",
            ),
            (
                "a higher one",
                reading("00000000000000ab", "t", json!(22)),
                "2026-03-01T00:00:00Z         kessel  t            22 degC  ▁█",
            ),
            (
                "none",
                reading("00000000000000ab", "t", Value::Null),
                "2026-03-01T00:00:00Z         kessel  t     bus_error degC  ▁█",
            ),
        ] {
            let row = shown.row(&change).expect("no filter");
            assert_eq!(shown.reading(&row), want, "{name}");
        }
    }

    #[test]
    fn filters_take_names_and_uids() {
        let change = reading("00000000000000ab", "t", json!(1));
        for (more, passes) in [
            (&["--device", "kessel"][..], true),
            (&["--device", "00000000000000ab"], true),
            (&["--device", "pump"], false),
            (&["--channel", "t", "--device", "kessel"], true),
            (&["--channel", "p"], false),
        ] {
            let args = args(more);
            let shown = Shown::new(&args, names(), READINGS);
            assert_eq!(shown.row(&change).is_some(), passes, "{more:?}");
        }
    }

    #[test]
    fn rows_of_results_name_their_figures() {
        let line = json!({ "stream": "w", "device": "00000000000000ab", "channel": "t",
            "start": "2026-03-01T00:00:00Z", "end": "2026-03-01T00:01:00Z", "revision": 0,
            "final": true, "count": 60, "mean": 1.25, "reason": "idle\x1b" });
        for (op, note) in [
            ("insert", ""),
            ("update", "  (revised)"),
            ("delete", "  (taken back)"),
        ] {
            let change = json!({ "partition": 0, "offset": 5, "op": op, "line": line.to_string() });
            let args = args(&["w"]);
            let mut shown = Shown::new(&args, names(), "w");
            let row = shown.row(&change).expect("no filter");
            let want = "2026-03-01T00:00:00Z         kessel  t  count 60  mean 1.250  \
                        reason idle\u{fffd}";
            assert_eq!(shown.result(&row), format!("{want}{note}"));
        }
    }
}
