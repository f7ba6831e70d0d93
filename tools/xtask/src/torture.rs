//! `cargo xtask torture`: the tests that cut the power, kill, damage, fill the disk
//! spoil the cables and lie as a broker, with as many rounds as asked. Knows no store: it runs the tests that CI
//! runs, so that a replay is the same build.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use clap::{Args, Subcommand};

use crate::cargo::cargo;
use crate::report::{Failed, Report};
use crate::workspace::Workspace;

/// Rows of the table start with it.
const ROW: &str = "torture: ";
/// What the tests are told in.
const ROUNDS_VAR: &str = "FOREBAY_TORTURE_ROUNDS";
const SEED_VAR: &str = "FOREBAY_TORTURE_SEED";
const SINK_VAR: &str = "FOREBAY_TORTURE_SINK";
const PROTOCOL_VAR: &str = "FOREBAY_TORTURE_PROTOCOL";
const JOBS_VAR: &str = "FOREBAY_TORTURE_JOBS";
/// The tests of the engine; all others are the log's.
const ENGINE_PART: &str = "engine::";
/// The test of the link, and of delivery, that has rounds.
const ROUNDS_PART: &str = "rounds::";

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Power cuts, kills, damage and a full disk under the log.
    ///
    /// Each power cut counts as one round; kills and the others follow in
    /// proportion: 300 rounds are 300 cuts and 1,000 kills.
    Log(LogArgs),
    /// Devices on bad cables, resets, unplugs and kill -9: what was produced is upstream,
    /// or declared lost, once.
    Link(LinkArgs),
    /// A broker that lies, forgets and refuses, and kill -9 of agent and receiver: what
    /// was produced is upstream once, or declared lost.
    ///
    /// Each round is one random schedule of faults with devices, agent and receiver of
    /// its own; several run at once.
    Delivery(DeliveryArgs),
    /// kill -9 in the middle of ingest: derived topics stay equal to the byte.
    ///
    /// Each kill counts as one round; after it, all windows of the log are computed
    /// anew, without anything that the agent kept, and compared.
    Engine(EngineArgs),
}

#[derive(Args)]
pub(crate) struct LinkArgs {
    /// Runs, each with eight devices and the next seed.
    #[arg(long, default_value_t = 20)]
    rounds: u64,
    /// The first seed; a failure names the one to replay.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
pub(crate) struct DeliveryArgs {
    /// Schedules, each with the next seed.
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// The first seed; a failure names the one to replay.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the receiver puts rows.
    #[arg(long, default_value = "embedded", value_parser = ["embedded", "files", "postgres"])]
    sink: String,
    /// What agent and receiver speak.
    #[arg(long, default_value = "5", value_parser = ["5", "3.1.1"])]
    protocol: String,
    /// Rounds at the same time: most of one is waiting.
    #[arg(long, default_value_t = 12)]
    jobs: u64,
}

#[derive(Args)]
pub(crate) struct EngineArgs {
    /// Kills to make.
    #[arg(long, default_value_t = 500)]
    rounds: u64,
    /// The first seed; a failure names the one to replay.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
pub(crate) struct LogArgs {
    /// Power cuts to make.
    #[arg(long, default_value_t = 300)]
    rounds: u64,
    /// The first seed; a failure names the one to replay.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only one part: power, agent, kill, points, damage or full.
    #[arg(long, value_name = "PART")]
    only: Option<String>,
}

/// # Errors
/// A round that went wrong: what, where and how to replay it was printed.
pub(crate) fn run(ws: &Workspace, report: &mut Report, verb: &Verb) -> Result<(), Failed> {
    let run = Run::of(verb);
    println!("seed {}, {} rounds", run.seed, run.rounds);
    report.step("torture", || {
        let mut test = vec!["test", "--workspace", "--test", run.target, "--quiet"];
        test.extend(run.part.as_deref());
        let mut command = cargo(ws.root(), &test);
        command
            .args(["--", "--nocapture", "--test-threads=1"])
            .args(run.skipped.map(|skipped| format!("--skip={skipped}")))
            .env(ROUNDS_VAR, run.rounds.to_string())
            .env(SEED_VAR, run.seed.to_string())
            .envs(run.more);
        let rows = rows_of(command)?;
        println!("\n{}", table(&rows));
        Ok(())
    })
}

/// Which tests, and what they are told.
struct Run {
    target: &'static str,
    part: Option<String>,
    skipped: Option<&'static str>,
    rounds: u64,
    seed: u64,
    more: Vec<(&'static str, String)>,
}

impl Run {
    fn of(verb: &Verb) -> Self {
        match verb {
            Verb::Log(LogArgs { rounds, seed, only }) => Self {
                target: "torture",
                part: only.as_ref().map(|part| format!("{part}::")),
                skipped: Some(ENGINE_PART),
                rounds: *rounds,
                seed: *seed,
                more: Vec::new(),
            },
            Verb::Engine(EngineArgs { rounds, seed }) => Self {
                target: "torture",
                part: Some(ENGINE_PART.to_owned()),
                skipped: None,
                rounds: *rounds,
                seed: *seed,
                more: Vec::new(),
            },
            Verb::Link(LinkArgs { rounds, seed }) => Self {
                target: "link",
                part: Some(ROUNDS_PART.to_owned()),
                skipped: None,
                rounds: *rounds,
                seed: *seed,
                more: Vec::new(),
            },
            Verb::Delivery(args) => Self {
                target: "delivery",
                part: Some(ROUNDS_PART.to_owned()),
                skipped: None,
                rounds: args.rounds,
                seed: args.seed,
                more: vec![
                    (SINK_VAR, args.sink.clone()),
                    (PROTOCOL_VAR, args.protocol.clone()),
                    (JOBS_VAR, args.jobs.to_string()),
                ],
            },
        }
    }
}

/// Runs the tests, passes on what they print, and keeps the rows.
fn rows_of(mut command: Command) -> Result<Vec<String>, String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    let out = child.stdout.take().ok_or("the child has no output")?;
    let mut rows = Vec::new();
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        println!("{line}");
        rows.extend(line.strip_prefix(ROW).map(str::to_owned));
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() {
        Ok(rows)
    } else {
        Err(format!(
            "the tests ended with {status}; the replay is named above"
        ))
    }
}

/// The rows, their names in one column.
fn table(rows: &[String]) -> String {
    let split = |row: &String| match row.split_once(": ") {
        Some((part, what)) => (part.to_owned(), what.to_owned()),
        None => (row.clone(), String::new()),
    };
    let rows: Vec<_> = rows.iter().map(split).collect();
    let width = rows.iter().map(|(part, _)| part.len()).max().unwrap_or(0);
    let line = |(part, what): &(String, String)| format!("{part:<width$}  {what}\n");
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_columns() {
        let rows = ["power: 3 cuts", "kill: 10 kills: none lost", "odd"].map(str::to_owned);
        assert_eq!(
            table(&rows),
            "power  3 cuts\nkill   10 kills: none lost\nodd    \n"
        );
        assert_eq!(table(&[]), "");
    }
}
