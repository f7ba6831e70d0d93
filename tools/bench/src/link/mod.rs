//! What the link must reach: the gateway's model of device clocks, lines at their rate
//! with losses, and what many devices cost the agent. Started by `cargo xtask bench link`.

mod clock;

use clap::ValueEnum;

use crate::table::{self, Head};

const HEAD: Head = ["", "line", "measured", "of the most", "must reach", ""];

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Errors of the clock model, simulated.
    Clock,
}

#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Args {
    /// Short runs: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Only these parts.
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
}

/// Runs all parts and prints the table; whether everything was reached.
pub(crate) fn run(args: &Args) -> Result<bool, String> {
    let is_asked = |part| args.only.is_empty() || args.only.contains(&part);
    let mut rows = Vec::new();
    if is_asked(Part::Clock) {
        rows.extend(clock::run(args.quick));
    }
    println!("\n{}", table::text(&HEAD, &rows));
    Ok(rows.iter().all(|row| row.reached != Some(false)))
}
