//! The command line: one verb per command, each with an example in its help.
//! Decides nothing; the verbs do.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::check::{self, CheckArgs};
use crate::config::reference;
use crate::demo::{self, DemoArgs};
use crate::ingest_cmd::{self, IngestArgs};
use crate::mqtt::settings::broker_files;
use crate::try_run::{self, TryArgs};
use crate::upstream::{self, UpstreamArgs};
use crate::verify::{self, VerifyArgs};

mod checkpoint;
mod device;
mod forward;
mod ledger;
mod log;
mod query;
mod replay;
mod run;
mod selftest;
mod show;
mod table;
mod view;
mod watch;

/// Config that commands read unless told otherwise.
const CONFIG_DEFAULT: &str = "forebay.toml";

/// Keeps sensor readings, computes windows over them and sends them on
#[derive(Debug, Parser)]
#[command(name = "forebay", version, after_help = "Start with: forebay demo")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(DemoArgs),
    Run(run::RunArgs),
    /// Receives what gateways forward and applies each reading once
    Upstream(UpstreamArgs),
    /// Asks a running agent for rolling averages, rollups and readings
    #[command(subcommand)]
    Query(query::QueryVerb),
    Watch(watch::WatchArgs),
    /// Works with the derived streams of a running agent
    #[command(subcommand)]
    View(view::ViewVerb),
    Status(query::StatusArgs),
    Ingest(IngestArgs),
    /// Shows what no broker takes, and sends it again
    #[command(subcommand)]
    Forward(forward::ForwardVerb),
    /// Works with the log of a stopped agent
    #[command(subcommand)]
    Log(log::LogVerb),
    /// Shows the tables of a running agent
    #[command(subcommand)]
    Table(table::TableVerb),
    Try(TryArgs),
    Verify(VerifyArgs),
    Replay(replay::ReplayArgs),
    Selftest(selftest::SelftestArgs),
    /// Moves the state of a stopped agent's windows to a file and back
    #[command(subcommand)]
    Checkpoint(checkpoint::CheckpointVerb),
    /// Checks a config, or shows every key of one
    #[command(subcommand)]
    Config(ConfigVerb),
    /// Works with the devices of a running agent, or makes some
    #[command(subcommand)]
    Device(device::DeviceVerb),
}

#[derive(Debug, Subcommand)]
enum ConfigVerb {
    Check(CheckArgs),
    /// Prints a config with every key, its default and what it does
    #[command(after_help = "Example:\n  forebay config reference > reference.toml")]
    Reference,
}

/// Runs what the command line asks for.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Demo(args) => demo::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Upstream(args) => upstream::run(&args),
        Verb::Query(verb) => query::run(&verb),
        Verb::Watch(args) => watch::run(&args),
        Verb::View(verb) => view::run(&verb),
        Verb::Status(args) => query::status(&args),
        Verb::Log(verb) => log::run(&verb),
        Verb::Forward(verb) => forward::run(&verb),
        Verb::Table(verb) => table::run(&verb),
        Verb::Ingest(args) => ingest_cmd::run(&args),
        Verb::Try(args) => try_run::run(&args),
        Verb::Verify(args) => verify::run(&args),
        Verb::Replay(args) => replay::run(&args),
        Verb::Selftest(args) => selftest::run(&args),
        Verb::Checkpoint(verb) => checkpoint::run(&verb),
        Verb::Config(ConfigVerb::Check(args)) => check::run(&args, broker_files),
        Verb::Config(ConfigVerb::Reference) => {
            let _ = io::stdout().write_all(reference().as_bytes());
            ExitCode::SUCCESS
        }
        Verb::Device(verb) => device::run(&verb),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Every command without subcommands.
    fn leaves(command: clap::Command) -> Vec<clap::Command> {
        let below: Vec<_> = command.get_subcommands().cloned().collect();
        if below.is_empty() {
            return vec![command];
        }
        below.into_iter().flat_map(leaves).collect()
    }

    #[test]
    fn every_command_shows_an_example() {
        Cli::command().debug_assert();
        for mut command in leaves(Cli::command()) {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example"), "{}: {help}", command.get_name());
        }
    }

    #[test]
    fn a_negative_threshold_is_refused_as_one() {
        let line = "forebay device set boiler --channel temperature --threshold -1";
        let error = Cli::try_parse_from(line.split(' ')).map(|_| ());
        let said = error.map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("must be a number of 0 or more")));
    }

    #[test]
    fn every_command_says_what_it_does_in_the_list_above_it() {
        for command in leaves(Cli::command()) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }
}
