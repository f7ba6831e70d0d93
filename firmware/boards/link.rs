//! The build script of every board: puts its memory map where the linker looks, and
//! asks for the linker scripts that its crates bring. No `.cargo/config.toml` is needed
//! for that.

use std::path::PathBuf;
use std::{env, fs, io};

/// Keeps the build id that the linker computes, so that the firmware can say it.
const BUILD_ID: &str = "SECTIONS {
  .note.gnu.build-id : ALIGN(4) {
    __build_id_start = .;
    KEEP(*(.note.gnu.build-id));
    __build_id_end = .;
  } > FLASH
} INSERT AFTER .rodata;
";

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::copy("memory.x", out.join("memory.x"))?;
    fs::write(out.join("build-id.x"), BUILD_ID)?;
    let qemu = env::var("CARGO_PKG_NAME").is_ok_and(|name| name.starts_with("qemu-"));
    if qemu {
        // cortex-m-rt includes it for the names of interrupts; `vectors.rs` has the table itself.
        fs::write(out.join("device.x"), "")?;
    }
    println!("cargo:rustc-link-search={}", out.display());
    for argument in [
        "-Tlink.x",
        "-Tdefmt.x",
        "-Tbuild-id.x",
        "--nmagic",
        "--build-id=sha1",
    ] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    if env::var("CARGO_PKG_NAME").is_ok_and(|name| name == "rp2040") {
        // The second stage of its boot loader, which embassy-rp brings.
        println!("cargo:rustc-link-arg-bins=-Tlink-rp.x");
    }
    println!("cargo:rerun-if-changed=memory.x");
    println!("cargo:rerun-if-changed=../link.rs");
    println!("cargo:rerun-if-env-changed=DEFMT_LOG");
    Ok(())
}
