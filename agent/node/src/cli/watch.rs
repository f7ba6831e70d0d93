//! `forebay watch`: follows a stream of a running agent as changes, along the durable
//! head.
//!
//! Holds always: each change is shown once, in the order of its partition, after the
//! place that was asked for; what was removed or lost between is said. An agent that is
//! started again is followed on. Bound: one answer; what is not taken from us is not
//! asked for. Knows no log.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use forebay_core::follow::{FollowFrom, FollowRequest, place_text};
use forebay_core::limits::{FOLLOW_LINES_MAX, FOLLOW_WAIT_MAX_US};
use forebay_core::query::Query;
use forebay_core::units::{Offset, PartitionId, Span, TopicId};
use serde_json::{Value, json};

use super::query::Target;
use crate::agent::questions;
use crate::shell::output;
use crate::terminal::fail;

/// Pause before an agent that does not answer any more is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// Follows a window, join, table or topic of a running agent as a stream of changes
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  forebay watch temp_1m
  forebay watch temp_1m --from beginning --json
  forebay watch changes --table sites --from 0:120

A change is a row with + (insert), ~ (a later revision of a row) or - (delete). With --json each
line has partition, offset and next: the place from which --from goes on behind it. Readings and
rows that retention has removed, or that are lost, are told as a gap.
Exit code: 0; 1 when the agent does not know the stream; 3 when nobody answers at the start.")]
pub(super) struct WatchArgs {
    /// Window, join, table, or a stream by its name on the wire, such as late
    stream: String,
    /// beginning, now, an offset, or an offset per partition such as 0:120,1:7
    #[arg(long, value_name = "PLACE", default_value = "now", value_parser = FollowFrom::parse)]
    from: FollowFrom,
    /// Of changes only those of this table
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// End after so many changes
    #[arg(long, value_name = "N")]
    rows: Option<u64>,
    /// End when all that is durable has been shown
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    target: Target,
}

/// Where a reader is.
struct Reader {
    request: FollowRequest,
    /// Behind what was shown last.
    next: BTreeMap<PartitionId, Offset>,
    stream: String,
    shown: u64,
    rows_max: u64,
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: &WatchArgs) -> ExitCode {
    let wait = if args.once { 0 } else { FOLLOW_WAIT_MAX_US };
    let mut reader = Reader {
        request: FollowRequest {
            stream: args.stream.clone(),
            table: args.table.clone(),
            topic: None,
            from: args.from.clone(),
            lines_max: FOLLOW_LINES_MAX,
            wait: Span(wait),
        },
        next: match &args.from {
            FollowFrom::At(at) => at.clone(),
            FollowFrom::Beginning | FollowFrom::Now => BTreeMap::new(),
        },
        stream: String::new(),
        shown: 0,
        rows_max: args.rows.unwrap_or(u64::MAX),
        json: args.target.json,
    };
    let mut told = false;
    while reader.shown < reader.rows_max {
        reader.request.lines_max = reader.most();
        let question = questions::write(&Query::Follow(reader.request.clone()));
        let answer = match args.target.ask(&question) {
            Ok(answer) => answer,
            // It was there: it may be started again.
            Err(failure) if reader.request.topic.is_some() && !args.once => {
                if !told {
                    let _ = fail(&format!("{failure}; it is asked again each second"));
                }
                told = true;
                std::thread::sleep(AGAIN);
                continue;
            }
            Err(failure) => return output::failed(&failure),
        };
        told = false;
        match reader.show(&answer) {
            Ok(()) => {}
            // Who read us has enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Err(error) => return fail(&error.to_string()),
        }
        if args.once && answer["behind"] == json!(0) && answer.get("moved").is_none() {
            break;
        }
    }
    ExitCode::SUCCESS
}

impl Reader {
    fn most(&self) -> usize {
        let left = self.rows_max - self.shown;
        usize::try_from(left).map_or(FOLLOW_LINES_MAX, |left| left.min(FOLLOW_LINES_MAX))
    }

    /// Shows an answer and moves behind it.
    fn show(&mut self, answer: &Value) -> io::Result<()> {
        let mut out = io::stdout().lock();
        self.stream = String::from(answer["stream"].as_str().unwrap_or_default());
        self.go_on(answer["from"].as_str());
        for gap in answer["gaps"].as_array().into_iter().flatten() {
            let line = self.gap_line(gap);
            writeln!(out, "{line}")?;
        }
        for change in answer["changes"].as_array().into_iter().flatten() {
            let line = self.change_line(change);
            writeln!(out, "{line}")?;
            self.shown += 1;
        }
        self.go_on(answer["next"].as_str());
        let topic = answer["topic"]
            .as_u64()
            .and_then(|topic| u16::try_from(topic).ok());
        self.request.topic = topic.map(TopicId);
        if let Some(moved) = answer.get("moved") {
            let name = moved["stream"].as_str().unwrap_or_default();
            if self.json {
                writeln!(out, "{}", json!({ "stream": self.stream, "moved": name }))?;
            } else {
                writeln!(out, "# {} goes on as {name}", self.stream)?;
            }
            self.go_on(moved["next"].as_str());
            let topic = moved["topic"]
                .as_u64()
                .and_then(|topic| u16::try_from(topic).ok());
            self.request.topic = topic.map(TopicId);
        }
        out.flush()
    }

    fn go_on(&mut self, next: Option<&str>) {
        if let Some(Ok(FollowFrom::At(at))) = next.map(FollowFrom::parse) {
            self.request.from = FollowFrom::At(at.clone());
            self.next = at;
        }
    }

    /// A change as one line; the row stands in it as it stands in the log.
    fn change_line(&mut self, change: &Value) -> String {
        let number = |name: &str| change[name].as_u64().unwrap_or_default();
        let (partition, offset) = (number("partition"), number("offset"));
        let line = change["line"].as_str().unwrap_or_default();
        let op = change["op"].as_str().unwrap_or_default();
        let at = PartitionId(u16::try_from(partition).unwrap_or_default());
        self.next.insert(at, Offset(offset + 1));
        if self.json {
            let next = place_text(&self.next);
            let stream = json!(self.stream);
            return format!(
                "{{\"stream\":{stream},\"partition\":{partition},\"offset\":{offset},\
                 \"next\":\"{next}\",\"op\":\"{op}\",\"row\":{line}}}"
            );
        }
        let sign = match op {
            "update" => '~',
            "delete" => '-',
            "gap" => '!',
            _ => '+',
        };
        format!("{sign} {line}")
    }

    fn gap_line(&self, gap: &Value) -> String {
        let number = |name: &str| gap[name].as_u64().unwrap_or_default();
        let (partition, first, end) = (number("partition"), number("first"), number("end"));
        if self.json {
            let stream = &self.stream;
            return json!({ "stream": stream, "partition": partition, "op": "missing",
                "first": first, "end": end })
            .to_string();
        }
        format!(
            "! partition {partition}, offsets {first} to {}: removed by retention, or lost",
            end.saturating_sub(1)
        )
    }
}
