//! Brings an image onto a chip: by `probe-rs` where that is installed, else as a UF2
//! file onto the drive of the chip's boot loader. What it cannot do itself it says, as
//! the command to type. Knows no chip but by `budgets.toml`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::boards::{Board, Flash, Uf2};
use crate::cargo::run as run_command;
use crate::elf::segments;
use crate::{setup, uf2};

/// # Errors
/// No way to the chip: what to plug in, press, install and type.
pub(crate) fn run(board: &Board, image: &Path) -> Result<(), String> {
    let Some(flash) = &board.flash else {
        return Err(format!(
            "{} is no board to plug in: `cargo xtask firmware qemu --board {}` runs it",
            board.name, board.name
        ));
    };
    if let Some(uf2) = &flash.uf2 {
        let file = write_uf2(image, uf2)?;
        if let Some(drive) = drive(&mounts(), &uf2.drive) {
            let to = drive.join("firmware.uf2");
            std::fs::copy(&file, &to).map_err(|e| format!("{}: {e}", to.display()))?;
            println!(
                "    copied to {}: the board starts by itself",
                drive.display()
            );
            return Ok(());
        }
    }
    let Some(probe_rs) = setup::find("probe-rs") else {
        return Err(by_hand(board, flash, image, "probe-rs is not installed"));
    };
    let mut download = Command::new(&probe_rs);
    download.args(probe_args(flash)).arg(image);
    // It leaves the chip halted.
    let mut reset = Command::new(&probe_rs);
    reset.args(["reset", "--chip", &flash.chip]);
    run_command(download)
        .and_then(|()| run_command(reset))
        .map_err(|error| by_hand(board, flash, image, &error))
}

fn probe_args(flash: &Flash) -> [&str; 3] {
    ["download", "--chip", &flash.chip]
}

fn write_uf2(image: &Path, uf2: &Uf2) -> Result<PathBuf, String> {
    let bytes = std::fs::read(image).map_err(|e| format!("{}: {e}", image.display()))?;
    let file = uf2::file(&segments(&bytes)?, uf2.family)?;
    let path = image.with_extension("uf2");
    std::fs::write(&path, file).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

/// What is mounted where, as the kernel tells.
fn mounts() -> String {
    std::fs::read_to_string("/proc/mounts").unwrap_or_default()
}

/// Where a drive of that label is mounted; desktops mount it under its label.
fn drive(mounts: &str, label: &str) -> Option<PathBuf> {
    mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(PathBuf::from)
        .find(|path| path.file_name().is_some_and(|name| name == label))
}

/// All ways to the chip, for a person.
fn by_hand(board: &Board, flash: &Flash, image: &Path, why: &str) -> String {
    let mut text = format!("{} was not flashed: {why}.", board.name);
    if let Some(uf2) = &flash.uf2 {
        let file = image.with_extension("uf2");
        text += &format!(
            "\nWithout a probe: hold BOOTSEL while you plug the board in; the drive {0} \
             appears. Then:\n  cargo xtask firmware flash --board {1}\nor, where nothing \
             mounts drives by itself:\n  sudo mount /dev/disk/by-label/{0} /mnt && sudo cp {2} \
             /mnt && sudo umount /mnt",
            uf2.drive,
            board.name,
            file.display()
        );
    }
    text += &format!(
        "\nWith a probe on the board's SWD pins:\n  cargo install probe-rs-tools --locked\n  \
         probe-rs {} {} && probe-rs reset --chip {}\nWhen that does not find the chip, or the chip does not answer, \
         hold its reset button and add:\n  --connect-under-reset",
        probe_args(flash).join(" "),
        image.display(),
        flash.chip
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(flash: Option<Flash>) -> Board {
        Board {
            name: "pico".to_owned(),
            package: "pico".to_owned(),
            features: String::new(),
            flash,
            target: "t".to_owned(),
            flash_bytes: 1,
            ram_bytes: 1,
            ring_bytes: 1,
        }
    }

    fn pico() -> Flash {
        Flash {
            chip: "RP2040".to_owned(),
            uf2: Some(Uf2 {
                family: 1,
                drive: "RPI-RP2".to_owned(),
            }),
        }
    }

    #[test]
    fn the_drive_is_found_by_its_label_wherever_it_is_mounted() {
        let mounts = "proc /proc proc rw 0 0\n/dev/sdb1 /media/me/RPI-RP2 vfat rw 0 0\n";
        for (name, label, want) in [
            ("there", "RPI-RP2", Some("/media/me/RPI-RP2")),
            ("another", "RP2350", None),
            ("a part of the name", "RP2", None),
        ] {
            assert_eq!(drive(mounts, label), want.map(PathBuf::from), "{name}");
        }
        assert_eq!(drive("", "RPI-RP2"), None);
    }

    #[test]
    fn what_to_type_is_said_in_full_when_nothing_is_there() {
        let image = Path::new("/t/pico.elf");
        let text = by_hand(&board(None), &pico(), image, "probe-rs is not installed");
        for part in [
            "probe-rs is not installed",
            "BOOTSEL",
            "cargo xtask firmware flash --board pico",
            "/dev/disk/by-label/RPI-RP2",
            "/t/pico.uf2",
            "probe-rs download --chip RP2040 /t/pico.elf",
            "--connect-under-reset",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let probe_only = Flash {
            uf2: None,
            ..pico()
        };
        let text = by_hand(&board(None), &probe_only, image, "no probe");
        assert!(!text.contains("BOOTSEL"), "{text}");
    }

    #[test]
    fn a_board_of_qemu_is_run_instead() {
        let error = run(&board(None), Path::new("/t/pico.elf")).unwrap_err();
        assert!(error.contains("firmware qemu --board pico"), "{error}");
    }
}
