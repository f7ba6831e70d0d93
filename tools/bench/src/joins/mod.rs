//! What joins must reach: readings per second on one core, each beside a plain loop that
//! does no more than the pairing; what is held; and the way of a change from a
//! PostgreSQL of its own to a row of a join. Started by `cargo xtask bench joins`.
//!
//! Times in memory are those of the processor, not of the wall.

mod capture;
mod feed;
mod held;
mod limits;
mod plain;
mod rates;
mod report;

use std::path::PathBuf;

use clap::ValueEnum;

use self::limits::Sizes;
use crate::table::{self, Head};

const HEAD: Head = ["", "input", "measured", "beside", "must reach", ""];

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Readings with the row of a table, beside a hash map.
    Lookup,
    /// Pairs of readings by key and time, beside queues in a hash map.
    Interval,
    /// What every join holds after the end of time.
    State,
    /// Bytes per row that is held.
    Memory,
    /// From a change in PostgreSQL to a row of a join.
    Capture,
}

#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Args {
    /// Where the data goes; removed at the end.
    #[arg(long, default_value = "target/bench-joins")]
    dir: PathBuf,
    /// The program that is measured.
    #[arg(long, default_value = "target/dist/forebay")]
    forebay: PathBuf,
    /// Small sizes: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Only these parts.
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
}

impl Args {
    fn sizes(&self) -> Sizes {
        if self.quick {
            Sizes::QUICK
        } else {
            Sizes::FULL
        }
    }
}

/// Runs all parts and prints the table; whether everything was reached.
pub(crate) fn run(args: &Args) -> Result<bool, String> {
    table::measured_in(&args.dir, &HEAD, || report::measure(args))
}
