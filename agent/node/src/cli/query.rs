//! `forebay query` and `forebay status`: asks the running agent over its local
//! socket and shows the answer, as a table, JSON or CSV.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use forebay_core::query::{ChannelName, ChannelQuery, Query, TimeRange};
use forebay_core::units::{EventTime, Span};
use serde_json::Value;

use super::{CONFIG_DEFAULT, show};
use crate::agent::questions;
use crate::config::Config;
use crate::config::duration;
use crate::exit::Failure;
use crate::local;
use crate::shell::output::{self, Csv, Form, Sheet};
use crate::shell::{sheets, when};
use crate::upstream;

/// Which running process to ask.
#[derive(Debug, Clone, Args)]
pub(super) struct Target {
    /// Config of the running agent: names its socket
    #[arg(long, value_name = "FILE", default_value = CONFIG_DEFAULT)]
    config: PathBuf,
    /// The agent's socket, instead of a config
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print the answer as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Target {
    pub(super) fn socket(&self) -> Result<PathBuf, Failure> {
        if let Some(socket) = &self.socket {
            return Ok(socket.clone());
        }
        let config =
            Config::load(&self.config).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(match config.upstream {
            // A config of a receiver only: that is who is meant.
            Some(upstream) if config.agent.gateway.is_none() => upstream.socket,
            Some(_) | None => config.query.socket,
        })
    }

    pub(super) fn ask(&self, request: &Value) -> Result<Value, Failure> {
        local::ask(&self.socket()?, request)
    }
}

/// Which running process to ask, and how to show a table of its answer.
#[derive(Debug, Clone, Args)]
pub(super) struct Listed {
    #[command(flatten)]
    pub(super) target: Target,
    #[command(flatten)]
    csv: Csv,
}

impl Listed {
    pub(super) fn form(&self) -> Form {
        self.csv.form(self.target.json)
    }

    /// Asks and shows.
    pub(super) fn show(
        &self,
        request: &Value,
        sheet: &Sheet,
        text: impl FnOnce(&Value) -> String,
    ) -> ExitCode {
        match self.target.ask(request) {
            Ok(answer) => output::answer(self.form(), sheet, &answer, text),
            Err(failure) => output::failed(&failure),
        }
    }
}

/// Shows how a running agent is doing
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay status --config gateway.toml --json
  forebay status --ledger

A receiver's socket or config may be given as well.
In the ledger, all that a device produced in all its boots is readings, gaps, lost (trimmed or
damaged before it was counted) or missing (it waits on the device, or is on its way). Behind
`boot` stands what the device itself says of the boot that it is in.")]
pub(super) struct StatusArgs {
    /// What became of all that each device produced, and whether the sums close
    #[arg(long)]
    ledger: bool,
    #[command(flatten)]
    listed: Listed,
}

/// What is asked of which channel.
#[derive(Debug, Clone, Args)]
pub(super) struct Channel {
    /// Device: its name from the config, or its uid
    #[arg(long)]
    device: String,
    /// Channel of the device, such as temperature
    #[arg(long)]
    channel: String,
    #[command(flatten)]
    listed: Listed,
}

impl Channel {
    fn name(&self) -> ChannelName {
        ChannelName {
            device: self.device.clone(),
            channel: self.channel.clone(),
        }
    }
}

/// A range of event time.
#[derive(Debug, Clone, Args)]
pub(super) struct Range {
    /// First time (included): RFC 3339, -15m for 15 minutes ago, or microseconds since 1970
    #[arg(long, value_parser = when::parse, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<EventTime>,
    /// Last time (not included), as in --from, or now
    #[arg(long, value_parser = when::parse, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<EventTime>,
}

#[derive(Debug, Subcommand)]
pub(super) enum QueryVerb {
    /// The rolling average that ends at the channel's newest reading
    #[command(after_help = "\
Example:
  forebay query rolling --device boiler --channel temperature --window 60s")]
    Rolling {
        #[command(flatten)]
        channel: Channel,
        /// Length of the window
        #[arg(long, value_parser = parse_size, default_value = "60s", value_name = "DURATION")]
        window: Span,
    },
    /// Count, mean, min and max per window of the clock
    #[command(after_help = "\
Example:
  forebay query rollup --device boiler --channel temperature --window 1m --from -1h --csv")]
    Rollup {
        #[command(flatten)]
        channel: Channel,
        /// Length of the windows
        #[arg(long, value_parser = parse_size, default_value = "60s", value_name = "DURATION")]
        window: Span,
        #[command(flatten)]
        range: Range,
    },
    /// The readings themselves
    #[command(after_help = "\
Example:
  forebay query readings --device boiler --channel temperature --from -15m --to now --json")]
    Readings {
        #[command(flatten)]
        channel: Channel,
        #[command(flatten)]
        range: Range,
    },
}

fn parse_size(text: &str) -> Result<Span, String> {
    let span = duration::parse(text).map_err(|error| error.to_string())?;
    match span.0 {
        ..=0 => Err(String::from("must be longer than 0, for example 60s")),
        us if us > questions::SIZE_US_MAX => Err(String::from("must be at most 3660d")),
        _ => Ok(span),
    }
}

/// Asks and shows.
pub(super) fn run(command: &QueryVerb) -> ExitCode {
    let asked = |range: &Range| TimeRange {
        from: range.from,
        to: range.to,
    };
    let (channel, query, sheet, text): (_, _, _, fn(&Value) -> String) = match command {
        QueryVerb::Rolling { channel, window } => (
            channel,
            ChannelQuery::Rolling { size: *window },
            &sheets::ROLLING,
            show::rolling,
        ),
        QueryVerb::Rollup {
            channel,
            window,
            range,
        } => (
            channel,
            ChannelQuery::Rollup {
                size: *window,
                range: asked(range),
            },
            &sheets::ROLLUP,
            show::rollup,
        ),
        QueryVerb::Readings { channel, range } => (
            channel,
            ChannelQuery::Readings {
                range: asked(range),
            },
            &sheets::READINGS,
            show::readings,
        ),
    };
    let range = match command {
        QueryVerb::Rolling { .. } => None,
        QueryVerb::Rollup { range, .. } | QueryVerb::Readings { range, .. } => Some(range),
    };
    let checked = range.map_or(Ok(()), |range| when::check_range(range.from, range.to));
    if let Err(text) = checked {
        return output::failed(&Failure::usage(text));
    }
    let query = Query::Channel(channel.name(), query);
    channel.listed.show(&questions::write(&query), sheet, text)
}

/// Asks how the agent, or the receiver, is doing.
pub(super) fn status(args: &StatusArgs) -> ExitCode {
    let mut request = questions::write(&Query::Status);
    request["ledger"] = args.ledger.into();
    let form = args.listed.form();
    match args.listed.target.ask(&request) {
        Ok(answer) => {
            // An agent is one gateway; a receiver has some.
            let is_agent = answer.get("gateway").is_some();
            match (is_agent, args.ledger) {
                (true, false) => show_figures(form, &answer, show::status),
                (true, true) => output::answer(form, &sheets::LEDGER, &answer, super::ledger::text),
                (false, false) => show_figures(form, &answer, upstream::status_text),
                (false, true) => upstream::show_ledger(form, &answer),
            }
        }
        Err(failure) => output::failed(&failure),
    }
}

fn show_figures(form: Form, answer: &Value, text: fn(&Value) -> String) -> ExitCode {
    match form {
        Form::Csv => output::print(&sheets::FIGURES.csv(&output::figures(answer))),
        Form::Text | Form::Json => output::answer(form, &sheets::FIGURES, answer, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_at_their_limits() {
        for (text, good) in [
            ("0s", false),
            ("-1s", false),
            ("1us", true),
            ("3660d", true),
            ("316224000000001us", false),
            ("9999999w", false),
        ] {
            assert_eq!(parse_size(text).is_ok(), good, "{text}");
        }
    }
}
