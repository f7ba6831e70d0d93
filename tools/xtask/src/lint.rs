//! The checks that read sources only: fmt, clippy, tidy and the links of the
//! documentation, for the main workspace and for the boards' own.

use std::path::PathBuf;

use crate::boards;
use crate::cargo::{cargo, run as run_command};
use crate::firmware::board_args;
use crate::report::{Failed, Report};
use crate::tidy;
use crate::workspace::Workspace;

/// What the boards share, and what a host can test of them.
pub(crate) const BOARD_HOST_PACKAGE: &str = "forebay-board-common";

/// # Errors
/// The first check that fails.
pub(crate) fn run(ws: &Workspace, report: &mut Report) -> Result<(), Failed> {
    tidy::run(ws, report)?;
    for dir in workspaces(ws) {
        let name = format!("fmt {}", shown(ws, &dir));
        report.step(&name, || {
            run_command(cargo(&dir, &["fmt", "--all", "--check"]))
        })?;
    }
    report.step("clippy", || {
        let args = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ];
        run_command(cargo(ws.root(), &args))
    })?;
    report.step("documentation", || {
        let args = [
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ];
        let mut command = cargo(ws.root(), &args);
        // A link from a public page to a private item is plain text there: no harm.
        command.env(
            "RUSTDOCFLAGS",
            "-D warnings -A rustdoc::private_intra_doc_links",
        );
        run_command(command)
    })?;
    report.step("clippy firmware/boards", || clippy_boards(ws))
}

fn clippy_boards(ws: &Workspace) -> Result<(), String> {
    let host = [
        "clippy",
        "-p",
        BOARD_HOST_PACKAGE,
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    run_command(cargo(&ws.boards(), &host))?;
    for board in boards::read(ws)? {
        let mut command = cargo(&ws.boards(), &board_args("clippy", &board));
        for package in board.own_packages() {
            command.args(["-p", package]);
        }
        command.args(["--", "-D", "warnings"]);
        run_command(command)?;
    }
    Ok(())
}

fn workspaces(ws: &Workspace) -> Vec<PathBuf> {
    [ws.root().to_path_buf(), ws.boards()]
        .into_iter()
        .filter(|dir| dir.join("Cargo.toml").is_file())
        .collect()
}

fn shown(ws: &Workspace, dir: &std::path::Path) -> String {
    match dir.strip_prefix(ws.root()) {
        Ok(rest) if rest.as_os_str().is_empty() => "workspace".to_owned(),
        Ok(rest) => rest.display().to_string(),
        Err(_) => dir.display().to_string(),
    }
}
