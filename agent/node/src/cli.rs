//! The command line: one verb per command, each with an example in its help.
//! Decides nothing; the verbs do.

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum as _};

use crate::api::openapi;
use crate::config::check::{self, CheckArgs};
use crate::config::reference;
use crate::demo::{self, DemoArgs};
use crate::exit::Exit;
use crate::ingest_cmd::{self, IngestArgs};
use crate::mqtt::settings::broker_files;
use crate::shell::colour::ColorWhen;
use crate::shell::output;
use crate::try_run::{self, TryArgs};
use crate::upstream::{self, UpstreamArgs};
use crate::verify::{self, VerifyArgs};

mod alarms;
mod checkpoint;
mod device;
mod doctor;
mod follow;
mod forward;
mod heap;
mod ledger;
mod log;
mod pages;
mod query;
mod replay;
mod run;
mod selftest;
mod show;
mod table;
mod tail;
mod top;
mod view;
mod watch;

/// Config that commands read unless told otherwise.
const CONFIG_DEFAULT: &str = "forebay.toml";

/// Keeps sensor readings, computes windows over them and sends them on
#[derive(Debug, Parser)]
#[command(name = "forebay", version, after_help = after_help())]
struct Cli {
    /// When to use colours
    #[arg(long, value_enum, global = true, value_name = "WHEN", default_value_t)]
    color: ColorWhen,
    #[command(subcommand)]
    verb: Verb,
}

fn after_help() -> String {
    format!("Start with: forebay demo\n\n{}", Exit::help())
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
    Top(top::TopArgs),
    Tail(tail::TailArgs),
    Watch(watch::WatchArgs),
    /// Works with the derived streams of a running agent
    #[command(subcommand)]
    View(view::ViewVerb),
    Status(query::StatusArgs),
    Alarms(alarms::AlarmsArgs),
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
    Doctor(doctor::DoctorArgs),
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
    Completions(pages::CompletionsArgs),
    Man(pages::ManArgs),
    /// Prints the OpenAPI document of the HTTP API
    #[command(after_help = "Example:\n  forebay openapi > openapi.json")]
    Openapi,
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
    heap::keep_small();
    let cli = parse();
    cli.color.set();
    match cli.verb {
        Verb::Demo(args) => demo::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Upstream(args) => upstream::run(&args),
        Verb::Query(verb) => query::run(&verb),
        Verb::Top(args) => top::run(&args),
        Verb::Tail(args) => tail::run(&args),
        Verb::Watch(args) => watch::run(&args),
        Verb::View(verb) => view::run(&verb),
        Verb::Status(args) => query::status(&args),
        Verb::Alarms(args) => alarms::run(&args),
        Verb::Log(verb) => log::run(&verb),
        Verb::Forward(verb) => forward::run(&verb),
        Verb::Table(verb) => table::run(&verb),
        Verb::Ingest(args) => ingest_cmd::run(&args),
        Verb::Try(args) => try_run::run(&args),
        Verb::Verify(args) => verify::run(&args),
        Verb::Replay(args) => replay::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Selftest(args) => selftest::run(&args),
        Verb::Checkpoint(verb) => checkpoint::run(&verb),
        Verb::Config(ConfigVerb::Check(args)) => check::run(&args, broker_files),
        Verb::Config(ConfigVerb::Reference) => output::print(&reference()),
        Verb::Device(verb) => device::run(&verb),
        Verb::Completions(args) => pages::completions(&args, Cli::command()),
        Verb::Man(args) => pages::man(&args, Cli::command()),
        Verb::Openapi => output::print(&openapi::text()),
    }
}

/// Reads the command line. What `--color` says holds for what clap itself prints, too;
/// it honours NO_COLOR and CLICOLOR_FORCE by itself.
fn parse() -> Cli {
    let args = std::env::args_os().skip(1);
    let args = args.map(|arg| arg.to_string_lossy().into_owned());
    let colour = match colour_asked(args) {
        Some(ColorWhen::Always) => clap::ColorChoice::Always,
        Some(ColorWhen::Never) => clap::ColorChoice::Never,
        Some(ColorWhen::Auto) | None => clap::ColorChoice::Auto,
    };
    let matches = Cli::command().color(colour).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// What the command line says of colours, before it is read as a whole.
fn colour_asked(args: impl Iterator<Item = String>) -> Option<ColorWhen> {
    let mut asked = None;
    let mut is_next = false;
    for arg in args.take_while(|arg| arg != "--") {
        let value = match arg.strip_prefix("--color=") {
            Some(value) => Some(value),
            None => is_next.then_some(arg.as_str()),
        };
        is_next = arg == "--color";
        if let Some(value) = value {
            asked = ColorWhen::from_str(value, false).ok();
        }
    }
    asked
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

    /// Commands with `--json` whose answer is what was done, or is no table.
    const DOES: [&str; 14] = [
        "checkpoint export",
        "checkpoint import",
        "config check",
        "demo",
        "device identify",
        "device reboot",
        "device set",
        "device sim",
        "forward retry",
        "ingest",
        "log export",
        "top",
        "view drop",
        "view rebuild",
    ];
    /// Commands without: they run, write files, or print what has a form of its own.
    const RUNS: [&str; 8] = [
        "completions",
        "config reference",
        "man",
        "openapi",
        "run",
        "try",
        "upstream",
        "upstream export",
    ];

    /// Every command that may be run, by its words.
    fn named(command: &clap::Command, words: &str) -> Vec<(String, clap::Command)> {
        let below = command.get_subcommands().flat_map(|below| {
            let words = format!("{words} {}", below.get_name());
            named(below, words.trim())
        });
        let mut all: Vec<_> = below.collect();
        if all.is_empty() || !command.is_subcommand_required_set() {
            all.push((words.to_owned(), command.clone()));
        }
        all
    }

    #[test]
    fn every_query_has_a_table_json_and_csv() {
        let all = named(&Cli::command(), "");
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        for known in DOES.iter().chain(&RUNS) {
            assert!(names.contains(known), "{known} is no command");
        }
        let mut wrong = Vec::new();
        for (name, command) in &all {
            let has = |long: &str| {
                command
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some(long))
            };
            let want = if DOES.contains(&name.as_str()) {
                (true, false)
            } else if RUNS.contains(&name.as_str()) {
                (false, false)
            } else {
                (true, true)
            };
            if (has("json"), has("csv")) != want {
                wrong.push(format!("{name}: json {}, csv {}", has("json"), has("csv")));
            }
        }
        assert_eq!(wrong, [""; 0]);
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
    fn colours_are_asked_for_before_or_behind_the_verb() {
        for (line, want) in [
            ("status", None),
            ("--color always status", Some(ColorWhen::Always)),
            ("status --color=never", Some(ColorWhen::Never)),
            ("status --color", None),
            ("status --color blue", None),
            ("status -- --color=never", None),
        ] {
            let asked = colour_asked(line.split(' ').map(String::from));
            assert_eq!(asked, want, "{line}");
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
