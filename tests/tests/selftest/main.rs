//! `forebay selftest` as a buyer runs it: it passes on a sound disk and under kills and a
//! bad line, finds a disk out that says of writes that they are on it which are not, and
//! leaves nothing behind.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod power;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forebay_tests::process::{Running, forebay_bin, run};
use forebay_tests::wait;
use serde_json::Value;

/// A run of a few seconds, with its drain, on a slow machine.
const LIMIT: Duration = Duration::from_secs(180);

fn command(args: &[&str], disk: &Path, meet: &Path) -> Command {
    let mut command = Command::new(forebay_bin());
    command.arg("selftest").args(args).arg("--dir").arg(disk);
    command.env("TMPDIR", meet);
    command
}

/// A run that ends well, as JSON; afterwards nothing is left.
fn passed(args: &[&str]) -> Value {
    let (disk, meet) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(disk.path().join("users"), "data").unwrap();
    let mut args = args.to_vec();
    args.push("--json");
    let out = tempfile::tempdir().unwrap();
    let text = run(command(&args, disk.path(), meet.path()), out.path(), LIMIT).unwrap();
    let outcome: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outcome["verdict"], "passed", "{outcome:#}");
    for name in [
        "lost",
        "lost_acked",
        "not_applied",
        "stored_twice",
        "applied_twice",
        "damaged",
    ] {
        assert_eq!(outcome[name], 0, "{name}: {outcome:#}");
    }
    assert_eq!(outcome["produced"], outcome["applied"], "{outcome:#}");
    must_be_clean(disk.path(), meet.path());
    outcome
}

#[track_caller]
fn must_be_clean(disk: &Path, meet: &Path) {
    let names = |dir: &Path| -> Vec<_> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(names(disk), ["users"], "the user's data alone");
    assert!(names(meet).is_empty(), "{:?}", names(meet));
}

#[test]
fn a_sound_gateway_passes() {
    let outcome = passed(&["--duration", "3s"]);
    assert_eq!(outcome["restarts"], 1);
    assert!(outcome["fsync_us"]["count"].as_u64().unwrap() > 0);
}

#[test]
fn kills_and_a_bad_line_cost_nothing() {
    let outcome = passed(&[
        "--duration",
        "8s",
        "--power-cut",
        "--link-chaos",
        "--seed",
        "7",
    ]);
    assert!(outcome["kills"].as_u64().unwrap() > 1, "{outcome:#}");
    assert!(
        outcome["faults"]["bytes"].as_u64().unwrap() > 0,
        "{outcome:#}"
    );
    assert!(
        outcome["faults"]["unplugs"].as_u64().unwrap() > 0,
        "{outcome:#}"
    );
    assert_eq!(outcome["recover_ms"]["count"], outcome["kills"]);
}

#[test]
fn an_interrupt_ends_it_and_nothing_is_left() {
    let (disk, meet) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let out = tempfile::tempdir().unwrap();
    fs::write(disk.path().join("users"), "data").unwrap();
    let started = command(&["--duration", "1h"], disk.path(), meet.path());
    let selftest = Running::start("selftest", started, out.path());
    let log = disk.path().join("forebay-selftest/agent/log");
    wait::until("the agent has a log", LIMIT, || {
        log.exists().then_some(()).ok_or("none")
    });
    let children = children_of(selftest.id());
    assert!(!children.is_empty(), "the agent is a process of its own");
    assert_eq!(selftest.end_by("INT").code(), Some(1), "no verdict");
    must_be_clean(disk.path(), meet.path());
    must_end(&children);
}

#[test]
fn the_agent_does_not_outlive_a_killed_test() {
    let (disk, meet) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let out = tempfile::tempdir().unwrap();
    let started = command(&["--duration", "1h"], disk.path(), meet.path());
    let selftest = Running::start("selftest", started, out.path());
    let log = disk.path().join("forebay-selftest/agent/log");
    wait::until("the agent has a log", LIMIT, || {
        log.exists().then_some(()).ok_or("none")
    });
    let children = children_of(selftest.id());
    selftest.kill_9();
    must_end(&children);
    // What it left is no hindrance.
    let mut again = command(&["--duration", "2s", "--json"], disk.path(), meet.path());
    again.env_remove("TMPDIR");
    let text = run(again, out.path(), LIMIT).unwrap();
    assert!(text.contains("\"verdict\":\"passed\""), "{text}");
    assert!(!disk.path().join("forebay-selftest").exists());
}

#[test]
fn nothing_listens_off_loopback() {
    let (disk, meet) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let out = tempfile::tempdir().unwrap();
    let started = command(&["--duration", "1h"], disk.path(), meet.path());
    let selftest = Running::start("selftest", started, out.path());
    let log = disk.path().join("forebay-selftest/agent/log");
    wait::until("the agent has a log", LIMIT, || {
        log.exists().then_some(()).ok_or("none")
    });
    let mut all = children_of(selftest.id());
    all.push(selftest.id());
    let listening: Vec<String> = all.iter().flat_map(|pid| listeners(*pid)).collect();
    assert!(!listening.is_empty(), "the broker listens");
    // 127.0.0.1, as the kernel writes it.
    assert!(
        listening.iter().all(|at| at.starts_with("0100007F:")),
        "{listening:?}"
    );
    assert_eq!(selftest.end_by("TERM").code(), Some(1));
}

/// Addresses at which a process listens.
fn listeners(pid: u32) -> Vec<String> {
    let files = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let sockets: Vec<String> = files
        .filter_map(|file| fs::read_link(file.path()).ok())
        .filter_map(|to| {
            to.to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')
                .map(str::to_owned)
        })
        .collect();
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{pid}/net/{name}")));
    let lines = tables.into_iter().flatten().collect::<String>();
    let lines = lines
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|words| words.get(3) == Some(&"0A"))
        .filter(|words| {
            words
                .get(9)
                .is_some_and(|inode| sockets.iter().any(|s| s == inode))
        })
        .map(|words| words[1].to_owned())
        .collect()
}

fn children_of(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let text: String = texts.collect::<Vec<_>>().join(" ");
    text.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

#[track_caller]
fn must_end(pids: &[u32]) {
    wait::until("the agent has ended", LIMIT, || {
        let lives = |pid: &&u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // One that has ended and that nobody has waited for is gone as well.
            !stat.is_empty() && !stat.contains(") Z ")
        };
        let left: Vec<_> = pids.iter().filter(lives).collect();
        left.is_empty().then_some(()).ok_or(format!("{left:?}"))
    });
}

#[test]
fn what_cannot_be_is_said() {
    let (disk, meet) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let out = tempfile::tempdir().unwrap();
    for (name, args, said) in [
        ("nothing to resume", &["--resume"][..], "is not there"),
        ("too short", &["--duration", "1s"], "must be from"),
        ("seen without a resume", &["--seen", "5"], "--resume"),
        ("no such cut", &["--power-cut=axe"], "pull"),
    ] {
        let error = run(command(args, disk.path(), meet.path()), out.path(), LIMIT).unwrap_err();
        assert!(error.contains(said), "{name}: {error}");
    }
}
