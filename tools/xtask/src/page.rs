//! `cargo xtask page`: brings the one outside part of the page, uPlot, from npm into
//! `agent/node/src/api/page/vendor/uplot`, and `--check` says whether what stands there is
//! what npm has. Who builds or runs Forebay needs neither npm nor this.
//!
//! Holds always: version, npm's integrity and the SHA-256 of each file stand in
//! `vendor.toml` beside the files; a test holds the files against it, without a network.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toml_edit::DocumentMut;

use crate::cargo::target_dir;
use crate::npm;
use crate::report::{Failed, Report};
use crate::workspace::Workspace;

const FOLDER: &str = "agent/node/src/api/page/vendor/uplot";
const RECORD: &str = "vendor.toml";
const PACKAGE: &str = "uplot";
/// Another version is taken by changing this and running the verb.
const VERSION: &str = "1.6.32";
/// In the package, and as they are called here.
const FILES: [(&str, &str); 3] = [
    ("dist/uPlot.iife.min.js", "uPlot.iife.min.js"),
    ("dist/uPlot.min.css", "uPlot.min.css"),
    ("LICENSE", "LICENSE"),
];
const HEAD: &str = "\
# Written by `cargo xtask page`. The package of npm whose files stand here unchanged;
# `integrity` is npm's, of the whole package; behind each file stands its SHA-256.
";

/// Fetches and writes, or with `check` fetches and compares.
///
/// # Errors
/// When npm is not there, or has something else than what is recorded.
pub(crate) fn run(ws: &Workspace, report: &mut Report, check: bool) -> Result<(), Failed> {
    let folder = ws.root().join(FOLDER);
    if check {
        report.step("page: vendored files", || compare(&folder))?;
    }
    let (unpacked, integrity) = report.step("page: npm", || fetch(ws))?;
    if check {
        report.step("page: as npm has it", || {
            same(&folder, &unpacked, &integrity)
        })
    } else {
        report.step("page: vendor", || write(&folder, &unpacked, &integrity))
    }
}

/// Unpacks the package below the target folder; gives where, and npm's integrity.
fn fetch(ws: &Workspace) -> Result<(PathBuf, String), String> {
    let dir = target_dir(ws.root())?.join("page-npm");
    let unpacked = npm::unpack(&dir, &format!("{PACKAGE}@{VERSION}"))?;
    Ok((unpacked.folder, unpacked.integrity))
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(folder: &Path, unpacked: &Path, integrity: &str) -> Result<(), String> {
    let mut record = format!(
        "{HEAD}package = \"{PACKAGE}\"\nversion = \"{VERSION}\"\nlicense = \"MIT\"\n\
         integrity = \"{integrity}\"\n\n[files]\n"
    );
    for (from, name) in FILES {
        let bytes = read(&unpacked.join(from))?;
        record += &format!("\"{name}\" = \"{}\"\n", sha256(&bytes));
        let path = folder.join(name);
        fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let path = folder.join(RECORD);
    fs::write(&path, record).map_err(|error| format!("{}: {error}", path.display()))
}

fn record(folder: &Path) -> Result<DocumentMut, String> {
    let text = String::from_utf8(read(&folder.join(RECORD))?).map_err(|e| e.to_string())?;
    text.parse().map_err(|error| format!("{RECORD}: {error}"))
}

/// The files in the clone are those of the record.
fn compare(folder: &Path) -> Result<(), String> {
    let record = record(folder)?;
    let version = record["version"].as_str();
    if version != Some(VERSION) {
        return Err(format!(
            "{RECORD} is of {version:?}, wanted is {VERSION}: cargo xtask page"
        ));
    }
    for (_, name) in FILES {
        let is = sha256(&read(&folder.join(name))?);
        let want = record["files"].get(name).and_then(|item| item.as_str());
        if want != Some(&is) {
            return Err(format!(
                "{name} has the SHA-256 {is}, {RECORD} says {}: cargo xtask page brings it anew",
                want.unwrap_or("nothing")
            ));
        }
    }
    Ok(())
}

/// The record and the files are those that npm gave.
fn same(folder: &Path, unpacked: &Path, integrity: &str) -> Result<(), String> {
    let recorded = record(folder)?;
    let recorded = recorded["integrity"].as_str().unwrap_or_default();
    if recorded != integrity {
        return Err(format!(
            "npm's package has the integrity {integrity}, {RECORD} says {recorded}"
        ));
    }
    for (from, name) in FILES {
        if read(&unpacked.join(from))? != read(&folder.join(name))? {
            return Err(format!("{name} is not the file that npm has"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vendored_files_are_those_of_the_record() {
        let folder = Workspace::here().root().join(FOLDER);
        compare(&folder).expect("as recorded");
        let record = record(&folder).expect("a record");
        let integrity = record["integrity"].as_str().expect("npm's");
        assert!(integrity.starts_with("sha512-"), "{integrity}");
        let license = read(&folder.join("LICENSE")).expect("its licence");
        assert!(String::from_utf8_lossy(&license).contains("MIT License"));
    }

    #[test]
    fn a_changed_file_is_found() {
        let folder = Workspace::here().root().join(FOLDER);
        let copy = std::env::temp_dir().join(format!("forebay-vendor-{}", std::process::id()));
        fs::create_dir_all(&copy).expect("a folder");
        for name in FILES.map(|(_, name)| name).iter().chain([&RECORD]) {
            fs::copy(folder.join(name), copy.join(name)).expect("a copy");
        }
        let good = compare(&copy);
        fs::write(copy.join("uPlot.min.css"), "body{}").expect("written");
        let bad = compare(&copy);
        fs::remove_dir_all(&copy).expect("removed");
        assert_eq!(good, Ok(()));
        let said = bad.expect_err("another file");
        assert!(said.starts_with("uPlot.min.css has the SHA-256"), "{said}");
    }
}
