//! `cargo xtask <verb>`: how everything here is built, tested and measured.
//!
//! Owns the order of the steps and nothing that they check. A step that fails
//! ends the run; its name and its time are printed either way. Keeps nothing
//! outside the clone except rustup targets and packages of the system.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool speaks on stdout")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod boards;
mod cargo;
mod elf;
mod firmware;
mod flash;
mod icount;
mod lint;
mod npm;
mod page;
mod python;
mod report;
mod setup;
mod sim;
mod test;
mod tidy;
mod torture;
mod uf2;
mod workspace;

use report::{Failed, Report};
use workspace::Workspace;

/// Builds, tests and measures Forebay.
///
/// Works from any folder inside the clone, without a terminal. The first step
/// that fails ends the run with a non-zero status and its name.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask test                 everything that CI runs: set-up, lints, all tests
  cargo xtask lint                 tidy, fmt, clippy, documentation only
  cargo xtask tidy --list          the rules that tidy holds, one a line
  cargo xtask sim --seed 77        the world of one seed, as a failed test names it
  cargo xtask torture log          300 power cuts, 1,000 kills, damage, full disks
  cargo xtask bench log            what the log must reach, beside a plain file
  cargo xtask firmware size        flash and RAM of each board against its budget
  cargo xtask firmware icount      instructions of a frame and of each interrupt
  cargo xtask firmware qemu        the QEMU board, its UART on TCP port 7386
  cargo xtask firmware flash --board rp2040-usb
                                   onto the board that is plugged in";

#[derive(Subcommand)]
enum Verb {
    /// Set-up, then lints, then every test; closes with `N passed, N failed`.
    Test,
    /// Installs what the tests need: rustup targets, QEMU, Mosquitto.
    Setup,
    /// tidy, fmt --check, clippy -D warnings and the links of the documentation.
    Lint,
    /// The rules of the source tree that no compiler checks.
    Tidy {
        /// Print each rule with what it holds, and check nothing.
        #[arg(long)]
        list: bool,
    },
    /// Runs worlds by their seeds: the whole system with faults, in one process.
    ///
    /// A world test that fails prints the seed; this replays it, byte for byte.
    Sim {
        /// The first seed.
        #[arg(long)]
        seed: u64,
        /// How many seeds from there on.
        #[arg(long, default_value_t = 1)]
        count: u64,
    },
    /// Power cuts, kills, damage and full disks, as many as asked.
    #[command(subcommand)]
    Torture(torture::Verb),
    /// Measures, in release builds; the program as `--profile dist` makes it.
    #[command(subcommand)]
    Bench(bench::Verb),
    /// Brings the outside part of the page (uPlot) from npm into the clone.
    Page {
        /// Only say whether what stands in the clone is what npm has.
        #[arg(long)]
        check: bool,
    },
    /// Builds, sizes and runs the boards under firmware/boards.
    #[command(subcommand)]
    Firmware(firmware::Verb),
}

/// The whole command: reads the arguments, prints, says how it ended.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let ws = Workspace::here();
    let mut report = Report::default();
    match run(&cli.verb, &ws, &mut report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            report.say_failed(&failed);
            ExitCode::FAILURE
        }
    }
}

fn run(verb: &Verb, ws: &Workspace, report: &mut Report) -> Result<(), Failed> {
    match verb {
        Verb::Test => test::run(ws, report),
        Verb::Setup => setup::run(ws, report),
        Verb::Lint => lint::run(ws, report),
        Verb::Tidy { list: true } => {
            tidy::print_rules();
            Ok(())
        }
        Verb::Tidy { list: false } => tidy::run(ws, report),
        Verb::Sim { seed, count } => sim::run(ws, report, *seed, *count),
        Verb::Bench(verb) => bench::run(ws, report, verb),
        Verb::Page { check } => page::run(ws, report, *check),
        Verb::Torture(verb) => torture::run(ws, report, verb),
        Verb::Firmware(verb) => firmware::run(verb, ws, report),
    }
}
