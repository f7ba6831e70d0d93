//! `forebay watch`: a stream of a running agent as changes, along the durable head, for
//! programs: from any place on, with the place behind each. For people: [`super::tail`].
//! What was removed or lost between is said. Knows no log.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Args;
use forebay_core::follow::{FollowFrom, place_text};
use forebay_core::limits::FOLLOW_WAIT_MAX_US;
use forebay_core::units::Span;
use serde_json::{Value, json};

use super::follow::Follower;
use super::query::Listed;
use crate::exit::Exit;
use crate::shell::output::{self, Form};
use crate::shell::{gone, sheets, width};

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
For people, with names, units and filters: forebay tail.
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
    listed: Listed,
}

/// What is shown of a stream.
struct Reader<'a> {
    follower: Follower<'a>,
    shown: u64,
    form: Form,
}

/// Runs the command.
pub(super) fn run(args: &WatchArgs) -> ExitCode {
    let wait = Span(if args.once { 0 } else { FOLLOW_WAIT_MAX_US });
    let target = &args.listed.target;
    let follower = Follower::new(target, &args.stream, args.from.clone(), !args.once);
    let mut reader = Reader {
        follower: follower.of_table(args.table.as_deref()),
        shown: 0,
        form: args.listed.form(),
    };
    if !args.once {
        gone::end_when_unread();
    }
    let rows_max = args.rows.unwrap_or(u64::MAX);
    if reader.form == Form::Csv
        && let Err(error) = output::put(sheets::CHANGES.csv_head().trim_end())
    {
        return output::unwritten(&error);
    }
    while reader.shown < rows_max {
        let left = usize::try_from(rows_max - reader.shown).unwrap_or(usize::MAX);
        let answer = match reader.follower.answer(left, wait) {
            Ok(answer) => answer,
            Err(failure) => return output::failed(&failure),
        };
        // Who reads us may have enough.
        if let Err(error) = reader.show(&answer) {
            return output::unwritten(&error);
        }
        if args.once && answer["behind"] == json!(0) && answer.get("moved").is_none() {
            break;
        }
    }
    Exit::Ok.into()
}

impl Reader<'_> {
    /// Shows an answer and moves behind it.
    fn show(&mut self, answer: &Value) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for gap in answer["gaps"].as_array().into_iter().flatten() {
            self.gap(gap, &mut out)?;
        }
        for change in answer["changes"].as_array().into_iter().flatten() {
            self.follower.gave(change);
            let line = self.change_line(answer, change);
            writeln!(out, "{line}")?;
            self.shown += 1;
        }
        let stream = self.follower.stream.clone();
        if let Some(name) = self.follower.done(answer) {
            match self.form {
                Form::Json => writeln!(out, "{}", json!({ "stream": stream, "moved": name }))?,
                Form::Text => writeln!(out, "# {stream} goes on as {name}")?,
                Form::Csv => {}
            }
        }
        out.flush()
    }

    /// A change as one line; the row stands in it as it stands in the log.
    fn change_line(&self, answer: &Value, change: &Value) -> String {
        let number = |name: &str| change[name].as_u64().unwrap_or_default();
        let (partition, offset) = (number("partition"), number("offset"));
        let line = change["line"].as_str().unwrap_or_default();
        let op = change["op"].as_str().unwrap_or_default();
        match self.form {
            Form::Json => {
                let next = place_text(&self.follower.next);
                let stream = json!(self.follower.stream);
                format!(
                    "{{\"stream\":{stream},\"partition\":{partition},\"offset\":{offset},\
                     \"next\":\"{next}\",\"op\":\"{op}\",\"row\":{line}}}"
                )
            }
            Form::Csv => {
                let record = sheets::CHANGES.csv_record(answer, change);
                record.trim_end().to_owned()
            }
            Form::Text => {
                let sign = match op {
                    "update" => '~',
                    "delete" => '-',
                    "gap" => '!',
                    _ => '+',
                };
                format!("{sign} {}", width::clean(line))
            }
        }
    }

    /// Says what was removed or lost. Programs that read CSV see it by the offsets.
    fn gap(&self, gap: &Value, out: &mut impl io::Write) -> io::Result<()> {
        let number = |name: &str| gap[name].as_u64().unwrap_or_default();
        let (partition, first, end) = (number("partition"), number("first"), number("end"));
        let last = end.saturating_sub(1);
        match self.form {
            Form::Json => {
                let stream = &self.follower.stream;
                let line = json!({ "stream": stream, "partition": partition, "op": "missing",
                    "first": first, "end": end });
                writeln!(out, "{line}")
            }
            Form::Csv => Ok(()),
            Form::Text => writeln!(
                out,
                "! partition {partition}, offsets {first} to {last}: removed by retention, or lost"
            ),
        }
    }
}
