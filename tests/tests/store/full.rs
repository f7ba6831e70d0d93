//! A disk that takes no more: a child runs into a limit of file size. What it was
//! told is durable comes back, it writes nothing after the failure, and with space
//! again the log goes on.

use std::path::Path;
use std::process::{Command, Stdio};

use forebay_core::store::Store;
use forebay_node::store::LogStore;

use super::kill::{batch, recovered};

const DIR_VAR: &str = "FOREBAY_TEST_FULL_DIR";
/// In units of the shell's `ulimit -f`: 512 or 1,024 bytes.
const LIMITS: [u64; 3] = [6_000, 9_000, 9_500];

/// The child: runs only when the parent set the variable.
#[test]
fn child_appends_until_the_disk_is_full() {
    let Some(dir) = std::env::var_os(DIR_VAR) else {
        return;
    };
    let mut store = match LogStore::open(Path::new(&dir)) {
        Ok(store) => store,
        Err(error) => {
            println!("\nnot opened: {error}");
            return;
        }
    };
    println!("\nopened");
    let first = recovered(&store);
    for n in first..u64::MAX {
        let done = store.append(&batch(n)).and_then(|()| store.sync());
        match done {
            Ok(()) => println!("\nacked {}", n + 1),
            Err(error) => {
                println!("\nfailed: {error}");
                break;
            }
        }
    }
    assert!(store.append(&batch(0)).is_err());
    assert!(store.sync().is_err());
    // What is in memory can still be read, what is not may fail: but it says so.
    let _ = store.meta(b"x");
    println!("\nrefuses");
}

/// What the child printed, line by line.
fn run_limited(dir: &Path, limit: u64) -> Vec<String> {
    let exe = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f $1; shift; exec \"$@\"", "sh"])
        .arg(limit.to_string())
        .arg(exe)
        .args([
            "--exact",
            "full::child_appends_until_the_disk_is_full",
            "--nocapture",
        ])
        .env(DIR_VAR, dir)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_full_disk_loses_nothing_that_was_acked() {
    let dir = tempfile::tempdir().unwrap();
    let mut acked = 0;
    let mut failures = 0;
    for limit in LIMITS {
        // The second run on the same limit starts on a full disk.
        for _ in 0..2 {
            let lines = run_limited(dir.path(), limit);
            let counts = lines.iter().filter_map(|line| line.strip_prefix("acked "));
            acked = counts
                .map(|n| n.parse().unwrap())
                .next_back()
                .unwrap_or(acked);
            let said = |start: &str| lines.iter().any(|line| line.starts_with(start));
            assert!(
                said("not opened") || (said("failed") && said("refuses")),
                "{lines:?}"
            );
            failures += usize::from(said("failed"));
        }
    }
    assert!(failures >= LIMITS.len() && acked > 0, "{failures} {acked}");
    let mut store = LogStore::open(dir.path()).unwrap();
    let now = recovered(&store);
    assert!(now >= acked, "{acked} were acked, {now} came back");
    store.append(&batch(now)).unwrap();
    store.sync().unwrap();
}
