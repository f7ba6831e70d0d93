//! What the engine must reach, in memory and through `forebay try`, each beside other
//! engines on the same data in the same run. Started by `cargo xtask bench engine`.
//!
//! Times are those of the processor, not of the wall, so that a busy machine tells
//! the same as an idle one, but for its caches.

mod beside;
mod feed;
mod held;
mod limits;
mod oracle;
mod pauses;
mod peers;
mod rates;
mod report;
mod trial;
mod windows;

use std::path::PathBuf;

use clap::ValueEnum;

use self::limits::Sizes;
use crate::table::{self, Head};

const HEAD: Head = ["", "input", "measured", "beside", "must reach", ""];

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Readings per second in memory, beside DuckDB.
    Rates,
    /// Cost of a reading over numbers of series and sizes of windows.
    Flat,
    /// The slowest updates of a rolling window.
    Pauses,
    /// Bytes per series and window.
    State,
    /// Time that checkpoints add.
    Checkpoint,
    /// Means of a window that rolls on and on, against fractions of big integers.
    Oracle,
    /// `forebay try` over a CSV file, beside DuckDB, Bytewax and Flink.
    Try,
}

#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Args {
    /// Where the data goes; removed at the end.
    #[arg(long, default_value = "target/bench-engine")]
    dir: PathBuf,
    /// Where the other engines are kept, from one run to the next.
    #[arg(long, default_value = "target/bench-peers")]
    peers: PathBuf,
    /// The scripts that run them.
    #[arg(long, default_value = "tools/bench/peers")]
    scripts: PathBuf,
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
