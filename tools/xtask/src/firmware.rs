//! Builds the boards, holds their images to their budgets, and starts the one
//! that QEMU can run. Knows no board's inside.

use std::path::PathBuf;
use std::process::Command;

use clap::Subcommand as Subcommands;

use crate::boards::{self, Board};
use crate::cargo::{cargo, run as run_command, target_dir};
use crate::elf::{Footprint, build_id, footprint};
use crate::flash;
use crate::icount;
use crate::report::{Failed, Report};
use crate::setup;
use crate::workspace::Workspace;

#[derive(Debug, Clone, Subcommands)]
pub(crate) enum Verb {
    /// Builds the release image of every board, or of one.
    Build {
        /// Only this board of budgets.toml.
        #[arg(long)]
        board: Option<String>,
    },
    /// Builds one board, checks that it fits, and brings it onto the chip.
    ///
    /// By `probe-rs` where that is installed, else as a UF2 file onto the drive of the
    /// chip's boot loader. Says the command to type where it cannot do it itself.
    Flash {
        /// A board of budgets.toml, such as rp2040.
        #[arg(long)]
        board: String,
    },
    /// Builds, then prints flash and RAM of each board against its budget.
    Size,
    /// Builds, then counts instructions in QEMU against the budget.
    Icount,
    /// Builds, then runs the QEMU board until Ctrl-C.
    ///
    /// The board's UART is a TCP server on loopback: name `tcp:127.0.0.1:PORT` as a
    /// device port in the agent's config.
    Qemu {
        /// Which of the boards that QEMU has.
        #[arg(long, default_value = QEMU_BOARD)]
        board: String,
        /// TCP port of the board's UART.
        #[arg(long, default_value_t = 7386)]
        port: u16,
        /// TCP port of QMP, to set the sensor's temperature; none when absent.
        #[arg(long)]
        qmp_port: Option<u16>,
    },
}

impl Verb {
    /// The one board that it is about, if it is.
    fn board(&self) -> Option<&str> {
        match self {
            Verb::Build { board } => board.as_deref(),
            Verb::Flash { board } | Verb::Qemu { board, .. } => Some(board),
            Verb::Size | Verb::Icount => None,
        }
    }
}

/// The board that QEMU models, and the machine's name there.
const QEMU_BOARD: &str = "qemu-mps2-an386";
const QEMU_MACHINE: &str = "mps2-an386";
const QEMU_PREFIX: &str = "qemu-";
/// The uid that `config/qemu.toml` names.
const QEMU_UID: &str = "0123456789abcdef";

/// # Errors
/// The build that fails, an image over its budget, or no QEMU.
pub(crate) fn run(verb: &Verb, ws: &Workspace, report: &mut Report) -> Result<(), Failed> {
    let boards = report.step("firmware: build", || build(ws, verb.board()))?;
    match verb {
        Verb::Build { .. } => Ok(()),
        Verb::Flash { .. } => report.step("firmware: flash", || {
            size(ws, &boards)?;
            boards.iter().try_for_each(|board| {
                let image = image_path(ws, board)?;
                flash::run(board, &image)
            })
        }),
        Verb::Size => report.step("firmware: size", || size(ws, &boards)),
        Verb::Icount => report.step("firmware: icount", || icount(ws, &boards)),
        Verb::Qemu { port, qmp_port, .. } => {
            report.step("firmware: qemu", || qemu(ws, &boards, *port, *qmp_port))
        }
    }
}

fn build(ws: &Workspace, only: Option<&str>) -> Result<Vec<Board>, String> {
    let all = boards::read(ws)?;
    let boards = match only {
        None => all,
        Some(name) => vec![named(all, name)?],
    };
    for board in &boards {
        run_command(cargo(&ws.boards(), &board_args("build", board)))?;
        let built = image_path(ws, board)?.with_file_name(&board.package);
        let image = image_path(ws, board)?;
        // Two boards may share a package, and cargo names its image after that.
        std::fs::copy(&built, &image).map_err(|e| format!("{}: {e}", built.display()))?;
        let bytes = std::fs::read(&image).map_err(|e| format!("{}: {e}", image.display()))?;
        let id = build_id(&bytes).map_or("none".to_owned(), |id| hex(&id));
        println!("    {}: {}, build id {id}", board.name, image.display());
    }
    Ok(boards)
}

/// The board of a name.
///
/// # Errors
/// Names the boards there are.
fn named(boards: Vec<Board>, name: &str) -> Result<Board, String> {
    let names: Vec<String> = boards.iter().map(|board| board.name.clone()).collect();
    let found = boards.into_iter().find(|board| board.name == name);
    found.ok_or_else(|| format!("no board is called {name}; there are {}", names.join(", ")))
}

/// As the gateway shows the build id of a device.
fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The arguments of a cargo verb for one board. Release, as a debug image does
/// not fit the chip.
pub(crate) fn board_args<'a>(verb: &'a str, board: &'a Board) -> Vec<&'a str> {
    let mut args = vec![verb, "--release", "--target", &board.target];
    args.extend(["-p", &board.package]);
    if !board.features.is_empty() {
        args.extend(["--features", &board.features]);
    }
    args
}

/// The release image of a board, once it was built by this program. All boards share
/// one target folder.
///
/// # Errors
/// When cargo cannot read the boards' workspace.
pub(crate) fn image_path(ws: &Workspace, board: &Board) -> Result<PathBuf, String> {
    Ok(target_dir(&ws.boards())?
        .join(&board.target)
        .join("release")
        .join(format!("{}.elf", board.name)))
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
    let [board] = boards else {
        return Err("one board at a time".to_owned());
    };
    let Some(machine) = board.name.strip_prefix(QEMU_PREFIX) else {
        return Err(format!(
            "QEMU has no {}: only boards whose name begins with {QEMU_PREFIX}",
            board.name
        ));
    };
    let mut command = Command::new(qemu);
    command.args(["-machine", machine, "-nographic", "-monitor", "none"]);
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
    println!(
        "    its log: `forebay device log {QEMU_UID} --config config/qemu.toml --elf {}`",
        image.display()
    );
    run_command(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_hold_at_the_edge() {
        let board = Board {
            name: "a".to_owned(),
            package: "a".to_owned(),
            features: String::new(),
            flash: None,
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
