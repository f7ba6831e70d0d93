//! Puts the memory map where the linker looks, and asks for the two scripts that
//! cortex-m-rt and defmt bring. No `.cargo/config.toml` is needed for that.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::copy("memory.x", out.join("memory.x"))?;
    // cortex-m-rt includes it for the names of interrupts; `vectors.rs` has the table itself.
    fs::write(out.join("device.x"), "")?;
    println!("cargo:rustc-link-search={}", out.display());
    for argument in ["-Tlink.x", "-Tdefmt.x", "--nmagic"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    for input in ["memory.x", "build.rs"] {
        println!("cargo:rerun-if-changed={input}");
    }
    for variable in ["DEFMT_LOG", "FOREBAY_BUILD_ID"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    Ok(())
}
