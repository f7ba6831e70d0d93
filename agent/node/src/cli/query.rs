//! `forebay query` and `forebay status`: asks the running agent over its local
//! socket and shows the answer, as a table or as JSON.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use forebay_core::query::{ChannelName, Query, TimeRange};
use forebay_core::units::{EventTime, Span};
use serde_json::Value;

use super::CONFIG_DEFAULT;
use crate::agent::questions;
use crate::config::Config;
use crate::config::duration;
use crate::local;
use crate::terminal::{fail, print_line};
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
    pub(super) fn socket(&self) -> Result<PathBuf, String> {
        if let Some(socket) = &self.socket {
            return Ok(socket.clone());
        }
        let config = Config::load(&self.config).map_err(|error| error.to_string())?;
        Ok(match config.upstream {
            // A config of a receiver only: that is who is meant.
            Some(upstream) if config.agent.gateway.is_none() => upstream.socket,
            Some(_) | None => config.query.socket,
        })
    }

    pub(super) fn ask(&self, request: &Value) -> Result<Value, String> {
        local::ask(&self.socket()?, request)
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
    target: Target,
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
    target: Target,
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
    /// First time, RFC 3339 or microseconds since 1970 (included)
    #[arg(long, value_parser = parse_time, value_name = "TIME")]
    from: Option<EventTime>,
    /// Last time (not included)
    #[arg(long, value_parser = parse_time, value_name = "TIME")]
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
  forebay query rollup --device boiler --channel temperature --window 1m --from 2026-03-01T00:00:00Z")]
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
  forebay query readings --device boiler --channel temperature --from 2026-03-01T00:00:00Z --json")]
    Readings {
        #[command(flatten)]
        channel: Channel,
        #[command(flatten)]
        range: Range,
    },
}

fn parse_size(text: &str) -> Result<Span, String> {
    let span = duration::parse(text).map_err(|error| error.to_string())?;
    if span.0 > 0 {
        Ok(span)
    } else {
        Err(String::from("must be longer than 0, for example 60s"))
    }
}

pub(super) fn parse_time(text: &str) -> Result<EventTime, String> {
    let micros = text.parse().ok().map(EventTime);
    micros
        .or_else(|| forebay_core::utc::parse(text))
        .ok_or_else(|| String::from("must be a time such as 2026-03-01T00:00:00Z"))
}

/// Asks and shows.
pub(super) fn run(command: &QueryVerb) -> ExitCode {
    let (channel, query) = match command {
        QueryVerb::Rolling { channel, window } => (
            channel,
            Query::Rolling {
                channel: channel.name(),
                size: *window,
            },
        ),
        QueryVerb::Rollup {
            channel,
            window,
            range,
        } => (
            channel,
            Query::Rollup {
                channel: channel.name(),
                size: *window,
                range: TimeRange {
                    from: range.from,
                    to: range.to,
                },
            },
        ),
        QueryVerb::Readings { channel, range } => (
            channel,
            Query::Readings {
                channel: channel.name(),
                range: TimeRange {
                    from: range.from,
                    to: range.to,
                },
            },
        ),
    };
    match channel.target.ask(&questions::write(&query)) {
        Ok(answer) if channel.target.json => print_line(&answer.to_string()),
        Ok(answer) => show(&query, &answer),
        Err(text) => fail(&text),
    }
}

/// Asks how the agent, or the receiver, is doing.
pub(super) fn status(args: &StatusArgs) -> ExitCode {
    let mut request = questions::write(&Query::Status);
    request["ledger"] = args.ledger.into();
    match args.target.ask(&request) {
        Ok(answer) if args.target.json => print_line(&answer.to_string()),
        Ok(answer) => {
            // An agent is one gateway; a receiver has some.
            let is_agent = answer.get("gateway").is_some();
            match (is_agent, args.ledger) {
                (true, false) => super::show::status(&answer),
                (true, true) => print_line(&super::ledger::text(&answer)),
                (false, false) => print_line(&upstream::status_text(&answer)),
                (false, true) => print_line(&upstream::ledger_text(&answer["ledger"])),
            }
        }
        Err(text) => fail(&text),
    }
}

fn show(query: &Query, answer: &Value) -> ExitCode {
    match query {
        Query::Status => super::show::status(answer),
        Query::DeadLetters | Query::RetryDeadLetters { .. } => super::forward::show(answer),
        Query::Tables | Query::Table { .. } | Query::TableHistory { .. } => {
            super::table::show(answer)
        }
        Query::Rolling { .. } => super::show::rolling(answer),
        Query::Rollup { .. } => super::show::rollup(answer),
        Query::Readings { .. } => super::show::readings(answer),
        Query::Views => print_line(&super::view::text(answer)),
        Query::Follow(_) | Query::RebuildView { .. } | Query::DropView { .. } => {
            print_line(&answer.to_string())
        }
    }
}
