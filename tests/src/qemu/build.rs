//! The firmware image of the QEMU board: named by the environment, or built here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use super::QemuError;

/// Names a firmware image that is built already; without it, the image is built.
pub const ELF_VARIABLE: &str = "FOREBAY_QEMU_ELF";
/// The target that the board is built for.
pub const TARGET: &str = "thumbv7em-none-eabi";

/// The firmware image: the one named by [`ELF_VARIABLE`], else built now, once a process.
///
/// # Errors
/// [`QemuError::Build`] with cargo's text.
pub fn board_elf() -> Result<PathBuf, QemuError> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(elf) = std::env::var_os(ELF_VARIABLE) {
        return Ok(elf.into());
    }
    BUILT.get_or_init(build).clone().map_err(QemuError::Build)
}

fn build() -> Result<PathBuf, String> {
    let boards = Path::new(env!("CARGO_MANIFEST_DIR")).join("../firmware/boards");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--locked", "--target", TARGET])
        .args([
            "--package",
            "qemu-mps2-an386",
            "--message-format",
            "json-render-diagnostics",
        ])
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
