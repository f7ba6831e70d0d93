//! Every example config starts: what `config/` ships is what the program takes.
//! Folders and the broker's address are the test's own; all other keys stay.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use forebay_tests::process::{Running, ask, root};
use forebay_tests::{qemu, wait};

const LIMIT: Duration = Duration::from_secs(30);

/// Examples by name. The reference is none: it shows keys, and names no gateway.
fn examples() -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = fs::read_dir(root().join("config"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".toml") && name != "reference.toml")
        .map(|name| {
            let text = fs::read_to_string(root().join("config").join(&name)).unwrap();
            (name, text)
        })
        .collect();
    found.sort();
    found
}

/// The example with folders of its own, and a broker that is not there.
fn moved(text: &str, broker: u16) -> String {
    let mut folders = 0;
    let mut line = |line: &str| {
        if line.starts_with("data_dir = ") {
            folders += 1;
            return format!("data_dir = \"data-{folders}\"\n");
        }
        if line.starts_with("listen = ") {
            return String::from("listen = \"127.0.0.1:0\"\n");
        }
        if line.starts_with("broker = ") {
            return format!("broker = \"127.0.0.1:{broker}\"\n");
        }
        format!("{line}\n")
    };
    text.lines().map(&mut line).collect()
}

/// Starts `verb`, waits until it answers `status`, and ends it as a service manager
/// does.
fn starts(verb: &str, status: &[&str], config: &str, dir: &Path) {
    let mut running = Running::forebay(verb, &[verb, "--config", config], dir);
    wait::until(&format!("{verb} with {config} answers"), LIMIT, || {
        running.must_run();
        let mut args = status.to_vec();
        args.extend(["--json", "--config", config]);
        let answer = ask(&args, dir)?;
        serde_json::from_str::<serde_json::Value>(&answer).map_err(|error| error.to_string())
    });
    let status = running.end_by("TERM");
    assert!(status.success(), "{verb} with {config}: {status}");
}

#[test]
fn every_example_starts_answers_and_ends() {
    let mut started = 0;
    for (name, text) in examples() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(&name);
        let broker = qemu::free_port().unwrap();
        fs::write(&path, moved(&text, broker)).unwrap();
        let config = path.to_str().unwrap();
        if text.contains("\ngateway = ") {
            starts("run", &["status"], config, dir.path());
            started += 1;
        }
        if text.contains("\n[upstream]") {
            starts("upstream", &["upstream", "status"], config, dir.path());
            started += 1;
        }
    }
    assert!(started >= 4, "only {started} examples started");
}

#[test]
fn folders_and_brokers_are_moved_and_nothing_else() {
    let text = "a = 1\ndata_dir = \"/x\"\n[upstream]\ndata_dir = \"/y\"\nbroker = \"h:1\"\n";
    let want = "a = 1\ndata_dir = \"data-1\"\n[upstream]\ndata_dir = \"data-2\"\n\
                broker = \"127.0.0.1:9\"\n";
    assert_eq!(moved(text, 9), want);
}
