//! The black-box cases for `forebay try`, where their folder stands beside the
//! project. They are no part of it: without the folder there is nothing to run, and
//! the test says so.

use std::process::Command;

use forebay_tests::process::{forebay_bin, root};

/// Parts of the engine that are there.
const PARTS: &str = "tumbling,hopping,sliding,rows,session,zone,chain,emit,percentile,\
    cross-device,lateness,watermark,clock,restart,csv,special-values";

#[test]
fn all_cases_of_the_parts_that_are_there() {
    let folder = root().join("../shared/cases");
    if !folder.is_dir() {
        println!("{} is absent: no case was run", folder.display());
        return;
    }
    let run = Command::new("python3")
        .current_dir(&folder)
        .arg("run")
        .arg("--bin")
        .arg(forebay_bin())
        .args(["--batch-sweep", "--restart-sweep", "--shuffle-sweep"])
        .args(["--needs", PARTS, "engine", "nab"])
        .output()
        .expect("the cases need Python 3.11 as `python3`");
    let said = String::from_utf8_lossy(&run.stdout);
    let failed: Vec<&str> = said
        .lines()
        .filter(|line| !line.starts_with("ok "))
        .collect();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}\n{errors}", failed.join("\n"));
    // A runner that finds nothing would pass too.
    assert!(said.lines().any(|line| line.starts_with("ok ")), "{said}");
}
