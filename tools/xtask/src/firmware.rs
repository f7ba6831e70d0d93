//! Builds the boards, holds their images to their budgets, and starts the one
//! that QEMU can run. Knows no board's inside.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::Subcommand as Subcommands;

use crate::boards::{self, Board};
use crate::cargo::{cargo, run as run_command, target_dir};
use crate::elf::{Footprint, footprint};
use crate::icount;
use crate::report::{Failed, Report};
use crate::setup;
use crate::workspace::Workspace;

#[derive(Debug, Clone, Subcommands)]
pub(crate) enum Verb {
    /// Builds the release image of every board.
    Build,
    /// Builds, then prints flash and RAM of each board against its budget.
    Size,
    /// Builds, then counts instructions in QEMU against the budget.
    Icount,
    /// Builds, then runs the QEMU board until Ctrl-C.
    ///
    /// The board's UART is a TCP server on loopback: name `tcp:127.0.0.1:PORT` as a
    /// device port in the agent's config.
    Qemu {
        /// TCP port of the board's UART.
        #[arg(long, default_value_t = 7386)]
        port: u16,
        /// TCP port of QMP, to set the sensor's temperature; none when absent.
        #[arg(long)]
        qmp_port: Option<u16>,
    },
}

/// The board that QEMU models, and the machine's name there.
const QEMU_BOARD: &str = "qemu-mps2-an386";
const QEMU_MACHINE: &str = "mps2-an386";
/// The uid that `config/qemu.toml` names.
const QEMU_UID: &str = "0123456789abcdef";

/// # Errors
/// The build that fails, an image over its budget, or no QEMU.
pub(crate) fn run(verb: &Verb, ws: &Workspace, report: &mut Report) -> Result<(), Failed> {
    let boards = report.step("firmware: build", || build(ws))?;
    match verb {
        Verb::Build => Ok(()),
        Verb::Size => report.step("firmware: size", || size(ws, &boards)),
        Verb::Icount => report.step("firmware: icount", || icount(ws, &boards)),
        Verb::Qemu { port, qmp_port } => {
            report.step("firmware: qemu", || qemu(ws, &boards, *port, *qmp_port))
        }
    }
}

fn build(ws: &Workspace) -> Result<Vec<Board>, String> {
    let boards = boards::read(ws)?;
    for board in &boards {
        run_command(cargo(&ws.boards(), &board_args("build", board)))?;
    }
    Ok(boards)
}

/// The arguments of a cargo verb for one board. Release, as a debug image does
/// not fit the chip.
pub(crate) fn board_args<'a>(verb: &'a str, board: &'a Board) -> [&'a str; 6] {
    [
        verb,
        "--release",
        "--target",
        &board.target,
        "-p",
        &board.name,
    ]
}

/// The release image of a board. All boards share one target folder.
///
/// # Errors
/// When cargo cannot read the boards' workspace.
pub(crate) fn image_path(ws: &Workspace, board: &Board) -> Result<PathBuf, String> {
    Ok(target_dir(&ws.boards())?
        .join(&board.target)
        .join("release")
        .join(&board.name))
}

fn size(ws: &Workspace, boards: &[Board]) -> Result<(), String> {
    let mut over = Vec::new();
    for board in boards {
        let image = image_path(ws, board)?;
        let bytes = std::fs::read(&image).map_err(|e| format!("{}: {e}", image.display()))?;
        let found = footprint(&bytes).map_err(|e| format!("{}: {e}", image.display()))?;
        println!("    {}", line(found, board));
        if !fits(found, board) {
            over.push(board.name.as_str());
        }
    }
    if over.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "over the budget of budgets.toml: {}",
            over.join(", ")
        ))
    }
}

/// Counts in the program of that name beside the board's image.
fn icount(ws: &Workspace, boards: &[Board]) -> Result<(), String> {
    let image = image_path(ws, qemu_board(boards)?)?.with_file_name("icount");
    icount::run(ws, QEMU_BOARD, QEMU_MACHINE, &image)
}

fn fits(found: Footprint, board: &Board) -> bool {
    found.flash_bytes <= board.flash_bytes && found.ram_bytes <= board.ram_bytes + board.ring_bytes
}

fn line(found: Footprint, board: &Board) -> String {
    format!(
        "{:<20} flash {:>6} of {} bytes, RAM {:>6} of {} + {} (ring)",
        board.name,
        found.flash_bytes,
        board.flash_bytes,
        found.ram_bytes,
        board.ram_bytes,
        board.ring_bytes
    )
}

/// The board that tests and `firmware qemu` run.
///
/// # Errors
/// When budgets.toml does not name it.
pub(crate) fn qemu_board(boards: &[Board]) -> Result<&Board, String> {
    boards
        .iter()
        .find(|board| board.name == QEMU_BOARD)
        .ok_or_else(|| format!("budgets.toml does not name {QEMU_BOARD}"))
}

fn qemu(ws: &Workspace, boards: &[Board], port: u16, qmp: Option<u16>) -> Result<(), String> {
    let qemu =
        setup::find("qemu-system-arm").ok_or("no qemu-system-arm: run `cargo xtask setup`")?;
    let board = qemu_board(boards)?;
    let mut command = Command::new(qemu);
    command.args(["-machine", QEMU_MACHINE, "-nographic", "-monitor", "none"]);
    command.args(["-device", "tmp105,id=temp,bus=i2c,address=0x48"]);
    let semihosting = format!("enable=on,target=native,arg=board,arg=uid={QEMU_UID}");
    command.args(["-semihosting-config", &semihosting]);
    command.args([
        "-serial",
        &format!("tcp:127.0.0.1:{port},server=on,wait=off,nodelay=on"),
    ]);
    if let Some(qmp) = qmp {
        command.args([
            "-qmp",
            &format!("tcp:127.0.0.1:{qmp},server=on,wait=off,nodelay=on"),
        ]);
    }
    let image = image_path(ws, board)?;
    command.arg("-kernel").arg(&image);
    println!("    UART on tcp:127.0.0.1:{port}; Ctrl-C ends the board");
    let log = LogPrinter::start(&image)?;
    command.stdout(log.input);
    let ended = run_command(command);
    drop(log.child);
    ended
}

/// What becomes of the board's log, which defmt encodes.
struct LogPrinter {
    input: Stdio,
    /// Ends by itself when QEMU closes its output.
    child: Option<Child>,
}

impl LogPrinter {
    /// `defmt-print` makes text of the log, where it is installed; else nobody
    /// sees it, as its bytes are no text.
    fn start(image: &Path) -> Result<Self, String> {
        let Some(program) = setup::find("defmt-print") else {
            println!("    the board's log is not shown: `cargo install defmt-print` decodes it");
            return Ok(Self {
                input: Stdio::null(),
                child: None,
            });
        };
        let mut child = Command::new(program)
            .arg("-e")
            .arg(image)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| format!("defmt-print did not start: {error}"))?;
        let input = child.stdin.take().expect("its stdin was asked to be piped");
        Ok(Self {
            input: input.into(),
            child: Some(child),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_hold_at_the_edge() {
        let board = Board {
            name: "a".to_owned(),
            target: "t".to_owned(),
            flash_bytes: 100,
            ram_bytes: 10,
            ring_bytes: 5,
        };
        for (name, flash_bytes, ram_bytes, good) in [
            ("below", 99, 14, true),
            ("at", 100, 15, true),
            ("flash above", 101, 15, false),
            ("ram above", 100, 16, false),
        ] {
            let found = Footprint {
                flash_bytes,
                ram_bytes,
            };
            assert_eq!(fits(found, &board), good, "{name}");
        }
    }
}
