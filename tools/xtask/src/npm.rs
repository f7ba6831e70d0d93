//! Packages of npm that tests run, each in a folder of its own below `target/npm`. Nothing is
//! installed outside of it, nothing of a package is run, and what is there already stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::{run as run_command, target_dir};
use crate::workspace::Workspace;

/// A package, by its folder below `target/npm`.
struct Package {
    name: &'static str,
    version: &'static str,
    /// npm's, of the whole package.
    integrity: &'static str,
}

const PACKAGES: [Package; 1] = [Package {
    // The rules that the page is held against. MPL 2.0: it is run, not shipped.
    name: "axe-core",
    version: "4.14.1",
    integrity: "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
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

fn bring(below: &Path, package: &Package) -> Result<(), String> {
    let Package { name, version, .. } = package;
    let dir = below.join(name);
    if fs::read_to_string(dir.join("package").join(DONE)).is_ok_and(|there| there == *version) {
        return Ok(());
    }
    let unpacked = unpack(&dir, &format!("{name}@{version}"))?;
    if unpacked.integrity != package.integrity {
        return Err(format!(
            "npm has another {name} {version} than was pinned: {}",
            unpacked.integrity
        ));
    }
    let done = unpacked.folder.join(DONE);
    fs::write(&done, version).map_err(|error| format!("{}: {error}", done.display()))
}

/// What npm has of a package.
pub(crate) struct Unpacked {
    pub(crate) folder: PathBuf,
    /// npm's, of the whole package.
    pub(crate) integrity: String,
}

/// Unpacks `wanted`, a name with a version, into `dir`, and nothing else stays there.
///
/// # Errors
/// When npm is not there, or has no such package.
pub(crate) fn unpack(dir: &Path, wanted: &str) -> Result<Unpacked, String> {
    let at = |error: std::io::Error| format!("{}: {error}", dir.display());
    // What an earlier run left there is not whole, or another version.
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir).map_err(at)?;
    let output = Command::new("npm")
        .args(["pack", "--json", "--ignore-scripts", wanted])
        .current_dir(dir)
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
    let integrity = member(&said, "integrity").ok_or("npm names no integrity")?;
    let archive = member(&said, "filename").ok_or("npm names no file")?;
    let mut command = Command::new("tar");
    command.current_dir(dir).args(["xzf", &archive]);
    run_command(command)?;
    fs::remove_file(dir.join(archive)).map_err(at)?;
    let folder = dir.join("package");
    Ok(Unpacked { folder, integrity })
}

/// The text of a member of npm's JSON: neither name nor text has a quote in it.
fn member(json: &str, name: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{name}\":"))?;
    rest.split('"').nth(1).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_what_npm_says_are_found() {
        let said = "[\n {\"id\": \"uplot@1\",\n \"integrity\": \"sha512-ab==\",\n \"filename\":\"u.tgz\"}]";
        assert_eq!(member(said, "integrity").as_deref(), Some("sha512-ab=="));
        assert_eq!(member(said, "filename").as_deref(), Some("u.tgz"));
        assert_eq!(member(said, "license"), None);
    }
}
