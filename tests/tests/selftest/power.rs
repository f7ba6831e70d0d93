//! The guided power cut, on a file system that forgets what was not synced: a sound disk
//! passes, one that ignores syncs is found out.

use std::path::Path;
use std::time::Duration;

use forebay_tests::powercut::cut::Kind;
use forebay_tests::powercut::disk::Disk;
use forebay_tests::powercut::mount::Mounted;
use forebay_tests::process::{Running, run};
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

/// What `--resume` says of a disk, and its exit code.
fn resumed(disk: Disk, more: &[&str], out: &Path) -> Result<Value, String> {
    let mounted = Mounted::over(disk).unwrap_or_else(|error| panic!("{error}"));
    let meet = tempfile::tempdir().unwrap();
    let mut args = vec!["--resume", "--json"];
    args.extend(more);
    let text = run(command(&args, mounted.path(), meet.path()), out, LIMIT)?;
    let left = mounted.path().join("forebay-selftest");
    assert!(!left.exists(), "what passed is removed");
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

#[test]
fn a_sound_disk_keeps_what_was_acked() {
    for kind in Kind::ALL {
        let out = tempfile::tempdir().unwrap();
        let (seen, disk) = pulled(Disk::new(), kind, &[], out.path());
        let outcome = resumed(disk, &["--seen", &seen.to_string()], out.path());
        let outcome = outcome.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert_eq!(outcome["verdict"], "passed", "{kind:?}: {outcome:#}");
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
    let (_, disk) = pulled(liar(), Kind::DropAll, &more, out.path());
    let error = resumed(disk, &more, out.path()).unwrap_err();
    assert!(error.contains("status: 4"), "{error}");
    assert!(witness.exists(), "the notes are kept for a look");
    // By the last number on the screen, when the disk lost the notes as well.
    let out = tempfile::tempdir().unwrap();
    let (seen, disk) = pulled(liar(), Kind::DropAll, &[], out.path());
    let error = resumed(disk, &["--seen", &seen.to_string()], out.path()).unwrap_err();
    assert!(error.contains("status: 4"), "{error}");
}
