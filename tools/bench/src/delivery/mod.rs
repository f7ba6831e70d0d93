//! Measures delivery: how fast a backlog is from the log to committed upstream, how much
//! of a narrow line it fills, bytes per reading, memory of marks, PostgreSQL, reconnects.
//! Started by `cargo xtask bench delivery`.
//!
//! What is measured is the program as it is shipped, with its defaults, behind the
//! Mosquitto of the system. All of it shares the machine: with two cores, agent, broker
//! and receiver take each other's time, and processor seconds say more than readings per
//! second.
//!
//! What it has shown: marks that are written before the next message leaves hold an agent
//! to 600 messages a second; an ack timeout from the hand-over ends a connection of large
//! messages on a narrow line again and again; a broker gets hundreds of megabytes ahead of
//! a receiver that parses; and the user properties of a message are most of what a
//! compact one of a few readings costs.

mod backlog;
mod bytes;
mod drain;
mod limits;
mod line;
mod marks;
mod peers;
pub(crate) mod postgres;
pub(crate) mod process;
mod reconnect;
pub(crate) mod rig;
mod shaped;
mod spread;
mod tap;

use std::path::PathBuf;

use clap::ValueEnum;

use crate::table::{self, Head, Row};
use limits::Sizes;
use rig::Payload;

const HEAD: Head = ["", "under", "measured", "beside", "must reach", ""];

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// A backlog from the log to committed, on loopback.
    Drain,
    /// The same over a shaped line.
    Shaped,
    /// Bytes per reading on the wire.
    Bytes,
    /// Memory of a receiver's marks.
    Marks,
    /// Rows per second into PostgreSQL.
    Postgres,
    /// From CONNACK to the first of the backlog.
    Reconnect,
    /// Agents after a broker's restart.
    Spread,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Where logs and sinks go; removed at the end.
    #[arg(long, default_value = "target/bench-delivery")]
    dir: PathBuf,
    /// The program that is measured.
    #[arg(long, default_value = "target/dist/forebay")]
    forebay: PathBuf,
    /// Short runs: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Bytes of the backlog that is drained.
    #[arg(long)]
    backlog_bytes: Option<u64>,
    /// Only these parts.
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// Only these payload formats.
    #[arg(long, value_name = "FORMAT")]
    payload: Vec<Payload>,
}

/// Runs all parts and prints the table; whether everything was reached.
pub(crate) fn run(args: &Args) -> Result<bool, String> {
    table::measured_in(&args.dir, &HEAD, || measure(args))
}

fn measure(args: &Args) -> Result<Vec<Row>, String> {
    let is_asked = |part| args.only.is_empty() || args.only.contains(&part);
    let mut sizes = if args.quick {
        Sizes::QUICK
    } else {
        Sizes::FULL
    };
    sizes.backlog_bytes = args.backlog_bytes.unwrap_or(sizes.backlog_bytes);
    let payloads: &[Payload] = match args.payload.is_empty() {
        true => &Payload::ALL,
        false => &args.payload,
    };
    // Mosquitto does not read its config relative to itself.
    let dir = std::path::absolute(&args.dir).map_err(|error| error.to_string())?;
    let forebay = &args.forebay;
    let mut rows = Vec::new();
    for part in Part::value_variants() {
        if !is_asked(*part) {
            continue;
        }
        println!("{part:?}");
        let measured = match part {
            Part::Drain => drain::run(forebay, &dir.join("drain"), sizes, payloads),
            Part::Shaped => shaped::run(forebay, &dir.join("shaped"), sizes, payloads),
            Part::Bytes => bytes::run(forebay, &dir.join("bytes"), payloads),
            Part::Marks => marks::run(args.quick),
            Part::Postgres => postgres::run(forebay, &dir.join("postgres"), sizes),
            Part::Reconnect => reconnect::run(forebay, &dir.join("reconnect"), sizes),
            Part::Spread => Ok(spread::run()),
        };
        let measured = measured.map_err(|error| format!("{part:?}: {error}"))?;
        rows.extend(measured);
    }
    Ok(rows)
}

/// A row with what is measured, and the most that it may be, or the least where so said.
fn row(
    what: String,
    under: String,
    measured: String,
    limit: Option<(f64, f64, bool)>,
    must: String,
) -> Row {
    let reached = limit.map(|(value, limit, is_least)| match is_least {
        true => value >= limit,
        false => value <= limit,
    });
    Row {
        what,
        under,
        measured,
        beside: String::new(),
        must,
        reached,
    }
}
