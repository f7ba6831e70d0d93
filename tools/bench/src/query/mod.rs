//! What questions to a running agent must reach: rolling averages while readings come in,
//! rollups, raw readings and PromQL over a day, the start, and the memory of an hour. The
//! agent is the program as it is shipped; it is asked as any client asks it. Started by
//! `cargo xtask bench query`.

mod agent;
mod ask;
mod fleet;
mod http;
mod limits;
mod load;
mod overtime;
mod prepared;
mod rolling;
mod rss;
mod start;

use std::path::PathBuf;

use clap::ValueEnum;

use self::limits::Sizes;
use crate::table::{self, Head, Row};

const HEAD: Head = ["", "asked of", "measured", "of the must", "must reach", ""];

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Rolling averages while readings come in.
    Rolling,
    /// Minutes of a day, of ten series.
    Rollups,
    /// An hour of raw readings.
    Raw,
    /// PromQL over a day.
    Overtime,
    /// From exec to ready.
    Start,
    /// Memory of an hour with the page.
    Rss,
}

#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Args {
    /// Where the logs go, on the disk that counts; removed at the end.
    #[arg(long, default_value = "target/bench-query")]
    dir: PathBuf,
    /// The program that is measured.
    #[arg(long, default_value = "target/dist/forebay")]
    forebay: PathBuf,
    /// Short runs and small logs: to see that it runs.
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
    table::measured_in(&args.dir, &HEAD, || measure(args))
}

/// Gives the rows of a part.
type Measure = fn(&Args) -> Result<Vec<Row>, String>;

fn measure(args: &Args) -> Result<Vec<Row>, String> {
    let is_asked = |part| args.only.is_empty() || args.only.contains(&part);
    let mut rows = Vec::new();
    let parts: [(Part, Measure); 6] = [
        (Part::Rolling, rolling::run),
        (Part::Rollups, ask::rollups),
        (Part::Raw, ask::raw),
        (Part::Overtime, overtime::run),
        (Part::Start, start::run),
        (Part::Rss, rss::run),
    ];
    for (part, to_rows) in parts {
        if !is_asked(part) {
            continue;
        }
        rows.extend(to_rows(args)?);
    }
    Ok(rows)
}

/// A row that is only told; also at once, as the table comes late.
fn told(what: &str, under: &str, measured: String) -> Row {
    println!("{what}, {under}: {measured}");
    Row {
        what: what.into(),
        under: under.into(),
        measured,
        beside: String::new(),
        must: String::new(),
        reached: None,
    }
}

/// The same with the most that it may be, ms.
fn within(row: Row, ms: f64, most: f64) -> Row {
    Row {
        beside: format!("{:.2}", ms / most),
        must: format!("<= {most} ms"),
        reached: Some(ms <= most),
        ..row
    }
}
