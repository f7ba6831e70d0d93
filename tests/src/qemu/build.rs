//! The firmware images of the QEMU boards: named by the environment, or built here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use super::QemuError;

/// A board that QEMU models and we have firmware for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Machine {
    /// Cortex-M4, 4 MiB of RAM, of which the firmware takes 64 KiB.
    #[default]
    Mps2An386,
    /// Cortex-M3, 64 KiB of RAM.
    Lm3s6965evb,
}

impl Machine {
    /// As QEMU calls it; its board is called so too, behind `qemu-`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mps2An386 => "mps2-an386",
            Self::Lm3s6965evb => "lm3s6965evb",
        }
    }

    /// The target that its board is built for.
    pub fn target(self) -> &'static str {
        match self {
            Self::Mps2An386 => "thumbv7em-none-eabi",
            Self::Lm3s6965evb => "thumbv7m-none-eabi",
        }
    }

    /// Names a firmware image that is built already; without it, the image is built.
    pub fn elf_variable(self) -> &'static str {
        match self {
            Self::Mps2An386 => "FOREBAY_QEMU_ELF",
            Self::Lm3s6965evb => "FOREBAY_QEMU_LM3S6965EVB_ELF",
        }
    }
}

/// The firmware image of a machine's board: the one named by
/// [`Machine::elf_variable`], else built now, once a process.
///
/// # Errors
/// [`QemuError::Build`] with cargo's text.
pub fn board_elf(machine: Machine) -> Result<PathBuf, QemuError> {
    static BUILT: [OnceLock<Result<PathBuf, String>>; 2] = [const { OnceLock::new() }; 2];
    if let Some(elf) = std::env::var_os(machine.elf_variable()) {
        return Ok(elf.into());
    }
    let built = BUILT[machine as usize].get_or_init(|| build(machine));
    built.clone().map_err(|text| QemuError::Build {
        target: machine.target(),
        text,
    })
}

fn build(machine: Machine) -> Result<PathBuf, String> {
    let boards = Path::new(env!("CARGO_MANIFEST_DIR")).join("../firmware/boards");
    // A board may have other programs, such as one that counts instructions.
    let image = format!("qemu-{}", machine.name());
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--locked"])
        .args(["--target", machine.target()])
        .args(["--package", &image, "--bin", &image])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(boards)
        // Flags for the host are not flags for the board.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    executable(&output.stdout).ok_or_else(|| "cargo named no executable".to_owned())
}

/// The image's path in cargo's messages, wherever its target folder is.
fn executable(messages: &[u8]) -> Option<PathBuf> {
    messages
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .find_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
}
