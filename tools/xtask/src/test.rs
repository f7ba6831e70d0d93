//! `cargo xtask test`: what CI runs, in the order in which it fails fastest.
//!
//! Nothing is compiled twice for one profile: tests build in the dev profile
//! for the whole workspace at once, and the one release build is the binary
//! that a user gets, which the real-part tests start.

use std::path::PathBuf;

use crate::cargo::{Counts, cargo, run as run_command, run_tests, target_dir};
use crate::report::{Failed, Report};
use crate::workspace::Workspace;
use crate::{boards, firmware, lint, setup};

/// # Errors
/// The first step that fails; the counts so far are printed all the same.
pub(crate) fn run(ws: &Workspace, report: &mut Report) -> Result<(), Failed> {
    let mut counts = Counts::default();
    let result = steps(ws, report, &mut counts);
    report.say_times();
    if result.is_err() {
        // A step without tests of its own failed: the closing line must say so.
        counts.failed = counts.failed.max(1);
    }
    println!("{} passed, {} failed", counts.passed, counts.failed);
    result
}

fn steps(ws: &Workspace, report: &mut Report, counts: &mut Counts) -> Result<(), Failed> {
    setup::run(ws, report)?;
    lint::run(ws, report)?;
    firmware::run(&firmware::Verb::Size, ws, report)?;
    firmware::run(&firmware::Verb::Icount, ws, report)?;
    report.step("build: release binary", || {
        run_command(cargo(ws.root(), &["build", "--release"]))
    })?;
    report.step("build: tests", || {
        run_command(cargo(ws.root(), &["test", "--workspace", "--no-run"]))
    })?;
    report.step("test: what boards share", || {
        let args = ["test", "-p", lint::BOARD_HOST_PACKAGE];
        run_tests(cargo(&ws.boards(), &args), counts)
    })?;
    // What is built already is named to the tests, which else build it themselves.
    let (binary, image) = report.step("build: where it is", || built_parts(ws))?;
    for (name, args) in TESTS {
        report.step(name, || {
            let mut command = cargo(ws.root(), &["test", "--workspace", "--no-fail-fast"]);
            command
                .args(args)
                .env("FOREBAY_BIN", &binary)
                .env("FOREBAY_QEMU_ELF", &image);
            run_tests(command, counts)
        })?;
    }
    Ok(())
}

fn built_parts(ws: &Workspace) -> Result<(PathBuf, PathBuf), String> {
    let binary = target_dir(ws.root())?.join("release/forebay");
    let boards = boards::read(ws)?;
    let image = firmware::image_path(ws, firmware::qemu_board(&boards)?)?;
    Ok((binary, image))
}

/// `--workspace` stays in each, so that all share one build.
const TESTS: [(&str, &[&str]); 3] = [
    ("test: unit and property", &["--lib", "--bins"]),
    ("test: documentation", &["--doc"]),
    ("test: world and real parts", &["--test", "*"]),
];
