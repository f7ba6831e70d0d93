//! `forebay selftest`: what a buyer runs on their own gateway.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::config::{Config, LogConfig};
use crate::exit::Exit;
use crate::selftest::{self, Plan, PowerCut};
use crate::shell::output::Csv;
use crate::terminal::{fail, parse_duration};

/// Tries the whole way of readings on this gateway and its disk, and says what was lost
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Twenty seconds on the disk of a gateway's data directory:
    forebay selftest --config gateway.toml
  On a bad line, with the agent killed again and again:
    forebay selftest --dir /var/lib/forebay --link-chaos --power-cut --duration 5m
  With a real power cut, and a look at what it left once the power is back:
    forebay selftest --dir /var/lib/forebay --power-cut=pull
    forebay selftest --dir /var/lib/forebay --resume --seen 48213

Simulated devices, a broker and a receiver run in this process, the agent in one of its own,
in a folder forebay-selftest on the disk of the data directory, which is removed at the end. A
running agent and its data are not touched. Ctrl-C ends it and cleans up.

Exit code: 0 when all that was promised was kept, 4 when not, 1 when it could not be told.")]
pub(super) struct SelftestArgs {
    /// Config of the gateway: names its data directory, and how it syncs
    #[arg(long, value_name = "FILE", conflicts_with = "dir", default_value = super::CONFIG_DEFAULT)]
    config: PathBuf,
    /// A folder on the disk to be tested, instead of a config
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Cut the power: kill the agent again and again, or let somebody pull the plug
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "kill")]
    power_cut: Option<How>,
    /// Look at what a pulled plug left
    #[arg(long, conflicts_with_all = ["power_cut", "link_chaos", "duration"])]
    resume: bool,
    /// With --resume: the last number that the screen showed
    #[arg(long, value_name = "N", requires = "resume")]
    seen: Option<u64>,
    /// Where to note what devices saw acked: a file on another disk finds more
    #[arg(long, value_name = "FILE")]
    witness: Option<PathBuf>,
    /// Spoil, drop, double and add bytes on the lines, let them hang, unplug them
    #[arg(long)]
    link_chaos: bool,
    /// How long devices sample; 20s, or 60s with --power-cut
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Seed of values, faults and moments
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one line of JSON at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: Csv,
    /// The agent of a self-test, which ends with it
    #[arg(long, value_name = "FILE", hide = true, exclusive = true)]
    agent: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    /// Kills the agent's process at random moments
    Kill,
    /// Waits for a real power cut
    Pull,
}

/// Runs it.
pub(super) fn run(args: &SelftestArgs) -> ExitCode {
    if let Some(config) = &args.agent {
        // Without it an agent outlives a self-test that is killed: as well as can be.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        return super::run::run(&super::run::RunArgs::of(config.clone()));
    }
    let (data_dir, log) = match place(args) {
        Ok(place) => place,
        Err(text) => {
            fail(&text);
            return Exit::Usage.into();
        }
    };
    let plan = Plan {
        data_dir,
        sync: log.sync,
        power_cut: match args.power_cut {
            None => PowerCut::None,
            Some(How::Kill) => PowerCut::Kill,
            Some(How::Pull) => PowerCut::Pull,
        },
        link_chaos: args.link_chaos,
        duration: args.duration,
        seed: args.seed,
        witness: args.witness.clone(),
        seen: args.seen,
        form: args.csv.form(args.json),
    };
    if args.resume {
        selftest::resume(&plan)
    } else {
        selftest::run(&plan)
    }
}

/// Data directory, and how a gateway keeps its log.
fn place(args: &SelftestArgs) -> Result<(PathBuf, LogConfig), String> {
    let told = |error: crate::config::ConfigError| error.to_string();
    match &args.dir {
        Some(dir) => {
            let usual = Config::from_text(&args.config, "").map_err(told)?;
            Ok((dir.clone(), usual.log))
        }
        None => {
            let config = Config::load(&args.config).map_err(told)?;
            Ok((config.agent.data_dir, config.log))
        }
    }
}
