//! Packages of npm that tests run, each in a folder of its own below `target/npm`. Nothing is
//! installed outside of it, nothing of a package is run, and what is there already stays.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo::{run as run_command, target_dir};
use crate::workspace::Workspace;

/// A package, by its folder below `target/npm`.
struct Package {
    name: &'static str,
    version: &'static str,
}

const PACKAGES: [Package; 1] = [Package {
    // The rules that the page is held against. MPL 2.0: it is run, not shipped.
    name: "axe-core",
    version: "4.14.1",
}];

/// Written when everything is there: which version.
const DONE: &str = "version.txt";

/// Brings what is missing or was pinned anew.
///
/// # Errors
/// What could not be brought, and how to do it by hand.
pub(crate) fn install(ws: &Workspace) -> Result<(), String> {
    let below = target_dir(ws.root())?.join("npm");
    PACKAGES
        .iter()
        .try_for_each(|package| bring(&below, package))
}

fn bring(below: &Path, Package { name, version }: &Package) -> Result<(), String> {
    let dir = below.join(name);
    if fs::read_to_string(dir.join(DONE)).is_ok_and(|there| there == *version) {
        return Ok(());
    }
    let at = |error: std::io::Error| format!("{}: {error}", dir.display());
    // What an earlier run left there is not whole, or another version.
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).map_err(at)?;
    let wanted = format!("{name}@{version}");
    let output = Command::new("npm")
        .args(["pack", "--ignore-scripts", "--silent", &wanted])
        .current_dir(&dir)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| {
            format!("`npm` does not run: {error}. On Debian or Ubuntu: sudo apt-get install npm")
        })?;
    if !output.status.success() {
        return Err(format!("`npm pack {wanted}` ended with {}", output.status));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let archive = said.lines().last().ok_or("npm names no file")?.trim();
    let mut unpack = Command::new("tar");
    unpack
        .current_dir(&dir)
        .args(["xzf", archive, "--strip-components=1"]);
    run_command(unpack)?;
    fs::remove_file(dir.join(archive)).map_err(at)?;
    fs::write(dir.join(DONE), version).map_err(at)
}
