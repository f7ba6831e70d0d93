//! Measures the log: everything that it must reach, each beside what a plain file
//! on the same disk does in the same run. Started by `cargo xtask bench log`. And the
//! engine, beside other engines: `cargo xtask bench engine`; the link to devices:
//! `cargo xtask bench link`; delivery: `cargo xtask bench delivery`; joins:
//! `cargo xtask bench joins`; and questions: `cargo xtask bench query`.
//!
//! Bound: the disk that `--dir` is on takes the backlog twice over; all of it is
//! removed at the end.
#![allow(clippy::print_stdout, reason = "a command line tool speaks on stdout")]

mod blocks;
mod children;
mod data;
mod delivery;
mod engine;
mod joins;
mod limits;
mod link;
mod memory;
mod parts;
mod query;
mod raw;
mod report;
mod store;
mod sys;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use limits::Sizes;
use parts::{Part, Told};

/// Measures the log and the engine.
#[derive(Parser)]
#[command(name = "forebay-bench")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// All of the log, as a table.
    Log(Args),
    /// All of the engine, as a table.
    Engine(engine::Args),
    /// All of the link, as a table.
    Link(link::Args),
    /// All of delivery, as a table.
    Delivery(delivery::Args),
    /// All of joins, as a table.
    Joins(joins::Args),
    /// All of questions, as a table.
    Query(query::Args),
    /// One part, in this process: figures as `name=value`.
    #[command(hide = true)]
    Part {
        part: Part,
        #[command(flatten)]
        args: Args,
    },
}

#[derive(clap::Args, Debug, Clone)]
struct Args {
    /// Where the data goes, on the disk that is measured.
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Small sizes: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Bytes of the long log.
    #[arg(long)]
    backlog_bytes: Option<u64>,
    /// A CSV file whose last column are the values of a sealed series.
    #[arg(long)]
    values: Option<PathBuf>,
    /// Only these parts.
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
}

impl Args {
    fn told(&self) -> Told {
        let mut sizes = if self.quick {
            Sizes::QUICK
        } else {
            Sizes::FULL
        };
        sizes.backlog_bytes = self.backlog_bytes.unwrap_or(sizes.backlog_bytes);
        Told {
            dir: self.dir.clone(),
            sizes,
            values: self.values.clone(),
        }
    }
}

fn main() -> ExitCode {
    let code = |reached| match reached {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    };
    let done = match Cli::parse().verb {
        Verb::Log(args) => report::run(&args).map(code),
        Verb::Engine(args) => engine::run(&args).map(code),
        Verb::Link(args) => link::run(&args).map(code),
        Verb::Delivery(args) => delivery::run(&args).map(code),
        Verb::Joins(args) => joins::run(&args).map(code),
        Verb::Query(args) => query::run(&args).map(code),
        Verb::Part { part, args } => parts::run(part, &args.told()).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("forebay-bench: {error}");
        ExitCode::FAILURE
    })
}
