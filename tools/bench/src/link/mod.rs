//! What the link must reach: the gateway's model of device clocks, lines at their rate
//! with losses, and what many devices cost the agent. Started by `cargo xtask bench link`.

mod agent;
mod board;
mod clock;
mod fleet;
mod paced;

use std::path::PathBuf;

use clap::ValueEnum;

use crate::table::{self, Head, Row};

const HEAD: Head = ["", "line", "measured", "of the must", "must reach", ""];

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Errors of the clock model, simulated.
    Clock,
    /// Lines at their rate that lose frames.
    Paced,
    /// What 200 devices cost the agent.
    Fleet,
}

#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Args {
    /// Where the agent's log goes, on the disk that counts; removed at the end.
    #[arg(long, default_value = "target/bench-link")]
    dir: PathBuf,
    /// The program that is measured.
    #[arg(long, default_value = "target/dist/forebay")]
    forebay: PathBuf,
    /// Short runs: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Only these parts.
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
}

/// Runs all parts and prints the table; whether everything was reached.
pub(crate) fn run(args: &Args) -> Result<bool, String> {
    table::measured_in(&args.dir, &HEAD, || measure(args))
}

fn measure(args: &Args) -> Result<Vec<Row>, String> {
    let is_asked = |part| args.only.is_empty() || args.only.contains(&part);
    let mut rows = Vec::new();
    if is_asked(Part::Clock) {
        rows.extend(clock::run(args.quick));
    }
    if is_asked(Part::Paced) {
        for load in paced::LOADS {
            rows.push(paced::run(load, &args.forebay, &args.dir, args.quick)?);
        }
    }
    if is_asked(Part::Fleet) {
        rows.extend(fleet::run(&args.forebay, &args.dir, args.quick)?);
    }
    Ok(rows)
}

/// A row with what is measured, and the most that it may be.
fn row(
    what: String,
    under: String,
    measured: String,
    limit: Option<(f64, f64)>,
    must: String,
) -> Row {
    let ratio = limit.map(|(value, most)| value / most);
    Row {
        what,
        under,
        measured,
        beside: ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        must,
        reached: ratio.map(|ratio| ratio <= 1.0),
    }
}
