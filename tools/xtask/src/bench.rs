//! `cargo xtask bench`: builds the benches as they are shipped and runs them. Knows
//! no log and no engine: what is measured, and against what, stands in `tools/bench`.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand};

use crate::cargo::{cargo, run as run_command, target_dir};
use crate::report::{Failed, Report};
use crate::workspace::Workspace;

/// Real values to measure the bytes of, where they are at hand.
const VALUES: &str = "../shared/cases/data/machine_temperature.readings.csv";

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Everything that the log must reach, beside a plain file on the same disk.
    ///
    /// Prints a table; ends with an error when something is missed. A full run
    /// writes some 30 GB and takes several minutes, on a disk with 25 GB free.
    Log(LogArgs),
    /// Everything that the engine must reach, beside DuckDB, Bytewax and Flink.
    ///
    /// Prints a table; ends with an error when something is missed. The other
    /// engines are brought from PyPI once and kept in the target folder (1 GB);
    /// Flink also needs a JDK 17. One that cannot be had is named with the reason.
    Engine(EngineArgs),
    /// Everything that the link must reach: clocks, paced lines, many devices.
    ///
    /// Prints a table; ends with an error when something is missed.
    Link(LinkArgs),
    /// Everything that delivery must reach: drain, narrow line, bytes, memory, reconnects.
    ///
    /// Prints a table; ends with an error when something is missed. A full run drains
    /// 1 GB in each payload format and takes half an hour, on a disk with 10 GB free;
    /// it needs Mosquitto, PostgreSQL and root.
    Delivery(DeliveryArgs),
    /// Everything that joins must reach: lookups, pairs by interval, what is held, changes
    /// of a database.
    ///
    /// Prints a table; ends with an error when something is missed. It needs PostgreSQL
    /// and root.
    Joins(JoinsArgs),
    /// Everything that questions to a running agent must reach: rolling averages while
    /// readings come in, rollups, raw readings, PromQL, the start, memory.
    ///
    /// Prints a table; ends with an error when something is missed. A full run writes
    /// some 5 GB and takes a quarter of an hour; PromQL is measured beside Prometheus,
    /// where that is installed.
    Query(QueryArgs),
}

#[derive(Args)]
pub(crate) struct LogArgs {
    /// Where the data goes; removed at the end [default: target/bench].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Small sizes: to see that it runs; says little about memory and restart.
    #[arg(long)]
    quick: bool,
    /// Bytes of the long log [default: 10 GB].
    #[arg(long)]
    backlog_bytes: Option<u64>,
    /// Only this part: sizes, speed, throughput, rate, ack, ring or fill (the long log).
    #[arg(long, value_name = "PART")]
    only: Option<String>,
}

#[derive(Args)]
pub(crate) struct EngineArgs {
    /// Where the data goes; removed at the end [default: bench-engine in the target folder].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Small sizes, and none of the engines that take minutes: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Only this part: rates, flat, pauses, state, checkpoint or try.
    #[arg(long, value_name = "PART")]
    only: Option<String>,
}

#[derive(Args)]
pub(crate) struct LinkArgs {
    /// Where the agent's log goes; removed at the end [default: bench-link in the target folder].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Short runs: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Only this part: clock, paced or fleet.
    #[arg(long, value_name = "PART")]
    only: Option<String>,
}

#[derive(Args)]
pub(crate) struct DeliveryArgs {
    /// Where logs and sinks go; removed at the end [default: bench-delivery in the target folder].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Short runs: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Only this part: drain, shaped, bytes, marks, postgres, reconnect or spread.
    #[arg(long, value_name = "PART")]
    only: Option<String>,
}

#[derive(Args)]
pub(crate) struct JoinsArgs {
    /// Where the data goes; removed at the end [default: bench-joins in the target folder].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Small sizes: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Only this part: lookup, interval, state, memory or capture.
    #[arg(long, value_name = "PART")]
    only: Option<String>,
}

#[derive(Args)]
pub(crate) struct QueryArgs {
    /// Where the logs go; removed at the end [default: bench-query in the target folder].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Short runs and small logs: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Only this part: rolling, rollups, raw, overtime, start or rss.
    #[arg(long, value_name = "PART")]
    only: Option<String>,
}

/// # Errors
/// Something was missed, or could not be measured.
pub(crate) fn run(ws: &Workspace, report: &mut Report, verb: &Verb) -> Result<(), Failed> {
    report.step("bench", || match verb {
        Verb::Log(args) => log(ws, args),
        Verb::Engine(args) => engine(ws, args),
        Verb::Link(args) => link(ws, args),
        Verb::Delivery(args) => delivery(ws, args),
        Verb::Joins(args) => joins(ws, args),
        Verb::Query(args) => query(ws, args),
    })
}

fn bench(ws: &Workspace, what: &str) -> Command {
    let mut command = cargo(ws.root(), &["run", "--release", "--quiet"]);
    command.args(["--package", "forebay-bench", "--", what]);
    command
}

fn log(ws: &Workspace, args: &LogArgs) -> Result<(), String> {
    let mut command = bench(ws, "log");
    let dir = args
        .dir
        .clone()
        .unwrap_or_else(|| ws.root().join("target/bench"));
    command.arg("--dir").arg(dir);
    if let Some(bytes) = args.backlog_bytes {
        command.args(["--backlog-bytes", &bytes.to_string()]);
    }
    let values = ws.root().join(VALUES);
    if values.is_file() {
        command.arg("--values").arg(values);
    }
    run_parts(command, args.quick, args.only.as_deref())
}

fn engine(ws: &Workspace, args: &EngineArgs) -> Result<(), String> {
    let target = target_dir(ws.root())?;
    let mut command = of_the_binary(ws, "engine", args.dir.as_deref())?;
    command
        .arg("--peers")
        .arg(target.join("bench-peers"))
        .arg("--scripts")
        .arg(ws.root().join("tools/bench/peers"));
    run_parts(command, args.quick, args.only.as_deref())
}

fn link(ws: &Workspace, args: &LinkArgs) -> Result<(), String> {
    let command = of_the_binary(ws, "link", args.dir.as_deref())?;
    run_parts(command, args.quick, args.only.as_deref())
}

fn delivery(ws: &Workspace, args: &DeliveryArgs) -> Result<(), String> {
    let command = of_the_binary(ws, "delivery", args.dir.as_deref())?;
    run_parts(command, args.quick, args.only.as_deref())
}

fn joins(ws: &Workspace, args: &JoinsArgs) -> Result<(), String> {
    let command = of_the_binary(ws, "joins", args.dir.as_deref())?;
    run_parts(command, args.quick, args.only.as_deref())
}

fn query(ws: &Workspace, args: &QueryArgs) -> Result<(), String> {
    let command = of_the_binary(ws, "query", args.dir.as_deref())?;
    run_parts(command, args.quick, args.only.as_deref())
}

/// A bench that measures the program as it stays on a gateway, which is built first.
fn of_the_binary(ws: &Workspace, part: &str, dir: Option<&Path>) -> Result<Command, String> {
    let build = [
        "build",
        "--profile",
        "dist",
        "--quiet",
        "--package",
        "forebay",
    ];
    run_command(cargo(ws.root(), &build))?;
    let target = target_dir(ws.root())?;
    let own = target.join(format!("bench-{part}"));
    let mut command = bench(ws, part);
    command.arg("--dir").arg(dir.unwrap_or(&own));
    command.arg("--forebay").arg(target.join("dist/forebay"));
    Ok(command)
}

fn run_parts(mut command: Command, quick: bool, only: Option<&str>) -> Result<(), String> {
    if quick {
        command.arg("--quick");
    }
    if let Some(part) = only {
        command.args(["--only", part]);
    }
    run_command(command)
}
