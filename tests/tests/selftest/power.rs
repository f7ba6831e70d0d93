//! The guided power cut, on a file system that forgets what was not synced: a sound disk
//! passes, one that ignores syncs is found out.

use std::path::Path;
use std::time::Duration;

use forebay_tests::powercut::cut::Kind;
use forebay_tests::powercut::disk::Disk;
use forebay_tests::powercut::mount::Mounted;
use forebay_tests::process::Running;
use forebay_tests::wait;
use forebay_tests::world::dice::Dice;
use serde_json::Value;

use super::{LIMIT, command};

/// What devices should see acked before the power goes.
const ACKED_MIN: u64 = 500;

/// Runs until the power is cut; gives the last number on the screen and what the disk
/// held then.
fn pulled(disk: Disk, kind: Kind, more: &[&str], out: &Path) -> (u64, Disk) {
    let mut dice = Dice::new(7);
    let mounted = Mounted::over(disk).unwrap_or_else(|error| panic!("{error}"));
    let meet = tempfile::tempdir().unwrap();
    let mut args = vec!["--power-cut=pull"];
    args.extend(more);
    let started = command(&args, mounted.path(), meet.path());
    let mut selftest = Running::start("selftest", started, out);
    let shown = |text: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("acked "));
        lines
            .filter_map(|number| number.parse().ok())
            .next_back()
            .unwrap_or(0_u64)
    };
    wait::until("devices see acks", LIMIT, || {
        selftest.must_run();
        let text = selftest.printed();
        (shown(&text) > ACKED_MIN).then_some(()).ok_or(text)
    });
    mounted.disk(|disk| disk.cut_at_step(disk.steps() + 1 + dice.below(40)));
    assert!(
        mounted.wait_for_cut(Duration::from_secs(60)),
        "a running agent writes"
    );
    let seen = shown(&selftest.printed());
    // The power ends all of it at once: the agent goes with the test.
    selftest.kill_9();
    (seen, mounted.cut(kind, &mut dice))
}

/// What `--resume` says of a disk, and whether it removed what it looked at.
fn resumed(disk: Disk, more: &[&str]) -> (Value, bool) {
    let mounted = Mounted::over(disk).unwrap_or_else(|error| panic!("{error}"));
    let meet = tempfile::tempdir().unwrap();
    let mut args = vec!["--resume", "--json"];
    args.extend(more);
    let output = command(&args, mounted.path(), meet.path()).output();
    let output = output.expect("the binary starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let outcome: Value = serde_json::from_str(&text).unwrap_or_else(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        panic!("{error}: {text}{said}")
    });
    let passed = outcome["verdict"] == "passed";
    assert_eq!(output.status.code(), Some(if passed { 0 } else { 4 }));
    let is_gone = !mounted.path().join("forebay-selftest").exists();
    (outcome, is_gone)
}

#[test]
fn a_sound_disk_keeps_what_was_acked() {
    for kind in Kind::ALL {
        let out = tempfile::tempdir().unwrap();
        let (seen, disk) = pulled(Disk::new(), kind, &[], out.path());
        let (outcome, is_gone) = resumed(disk, &["--seen", &seen.to_string()]);
        assert_eq!(outcome["verdict"], "passed", "{kind:?}: {outcome:#}");
        assert!(is_gone, "what passed is removed");
        assert!(
            outcome["acked"].as_u64().unwrap() >= seen,
            "{kind:?}: {outcome:#}"
        );
        assert_eq!(outcome["recover_ms"]["count"], 1, "{outcome:#}");
    }
}

#[test]
fn a_disk_that_ignores_syncs_is_found_out() {
    let liar = || {
        let mut disk = Disk::new();
        disk.ignore_fdatasync();
        disk
    };
    // By notes that lie elsewhere.
    let out = tempfile::tempdir().unwrap();
    let witness = out.path().join("witness");
    let more = ["--witness", witness.to_str().unwrap()];
    let (seen, disk) = pulled(liar(), Kind::DropAll, &more, out.path());
    must_be_found_out(resumed(disk, &more), seen);
    assert!(witness.exists(), "the notes are kept for a look");
    // By the last number on the screen, when the disk lost the notes as well.
    let out = tempfile::tempdir().unwrap();
    let (seen, disk) = pulled(liar(), Kind::DropAll, &[], out.path());
    must_be_found_out(resumed(disk, &["--seen", &seen.to_string()]), seen);
}

#[track_caller]
fn must_be_found_out((outcome, is_gone): (Value, bool), seen: u64) {
    assert_eq!(outcome["verdict"], "failed", "{outcome:#}");
    assert!(
        outcome["lost_acked"].as_u64().unwrap() > 0,
        "{seen}: {outcome:#}"
    );
    assert!(!is_gone, "what failed is kept for a look");
}
