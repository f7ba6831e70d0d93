//! Runs programs in the clone: no stdin, output passed through, and the counts
//! of cargo test's own result lines on the way.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Longest time in which no test ends; the longest of ours takes about two minutes.
const SILENCE_MAX: Duration = Duration::from_secs(15 * 60);

/// `cargo` as the one that runs us, in `dir`, without a terminal to ask.
pub(crate) fn cargo(dir: &Path, args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(dir).args(args);
    command
}

/// Runs to the end, output passed through.
///
/// # Errors
/// Says the command and how it ended.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let line = describe(&command);
    println!("    $ {line}");
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("`{line}` did not start: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{line}` ended with {status}"))
    }
}

/// What a program printed on stdout, if it started and succeeded.
pub(crate) fn capture(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where cargo puts what it builds for the workspace in `dir`, whatever the
/// environment and the user's own config say.
///
/// # Errors
/// When cargo cannot read the workspace.
pub(crate) fn target_dir(dir: &Path) -> Result<PathBuf, String> {
    let mut command = cargo(dir, &["metadata", "--no-deps", "--format-version", "1"]);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("`cargo metadata` did not start: {error}"))?;
    target_dir_in(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| {
        format!(
            "`cargo metadata` names no target folder of {}",
            dir.display()
        )
    })
}

/// The one field, so that no JSON parser is needed. A quote in the path would end
/// it early; the image is then not found, and named.
fn target_dir_in(metadata: &str) -> Option<PathBuf> {
    let (_, rest) = metadata.split_once("\"target_directory\":\"")?;
    let (path, _) = rest.split_once('"')?;
    Some(PathBuf::from(path))
}

/// Tests counted over any number of `cargo test` runs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Counts {
    /// Adds what one line of cargo test says, if it is a result line.
    fn add_line(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test result: ") else {
            return;
        };
        for part in rest.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(word)) = (words.next(), words.next()) else {
                continue;
            };
            let number: u64 = number.parse().unwrap_or(0);
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                _ => {}
            }
        }
    }
}

/// Runs a `cargo test` command, passes its lines on and adds up its counts.
///
/// # Errors
/// Says the command and how it ended; `counts` holds what was counted so far.
pub(crate) fn run_tests(command: Command, counts: &mut Counts) -> Result<(), String> {
    run_within(SILENCE_MAX, command, counts)
}

fn run_within(silence: Duration, mut command: Command, counts: &mut Counts) -> Result<(), String> {
    let line = describe(&command);
    println!("    $ {line}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{line}` did not start: {error}"))?;
    let stdout = child.stdout.take().expect("stdout was asked to be piped");
    let (lines, heard) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let texts = BufReader::new(stdout).split(b'\n').map_while(Result::ok);
        // Nobody listens any more once the silence was too long.
        texts.map_while(|text| lines.send(text).ok()).for_each(drop);
    });
    loop {
        match heard.recv_timeout(silence) {
            Ok(text) => {
                let text = String::from_utf8_lossy(&text);
                println!("{text}");
                counts.add_line(&text);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                end_with_descendants(child.id());
                // Killed just now, and nothing else is known of it.
                let _ = child.wait();
                return Err(format!(
                    "`{line}` was ended: no test said a word for {} minutes, so one hangs; \
                     those that ended are named above",
                    silence.as_secs() / 60
                ));
            }
        }
    }
    let _ = reader.join();
    let status = child
        .wait()
        .map_err(|error| format!("`{line}` was lost: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{line}` ended with {status}"))
    }
}

/// Kills a process and all that it started: a test that hangs is a grandchild.
fn end_with_descendants(root: u32) {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((id, parent_in(&stat)?))
        })
        .collect();
    let ids = descendants(root, &parents);
    let ids = ids.iter().map(ToString::to_string);
    // Without `kill` the run ends all the same; it only leaves the hung test behind.
    let _ = Command::new("kill").arg("-KILL").args(ids).status();
}

/// The parent in a line of `/proc/<id>/stat`; the name before it may hold anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// `root` and all below it, of pairs of process and parent.
fn descendants(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = parents.iter().filter(|(_, of)| *of == parent);
        found.extend(children.map(|(id, _)| *id));
        next += 1;
    }
    found
}

fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_folder_is_one_field_of_the_metadata() {
        let text = r#"{"packages":[],"target_directory":"/a b/target","version":1}"#;
        assert_eq!(target_dir_in(text), Some(PathBuf::from("/a b/target")));
        assert_eq!(target_dir_in("{}"), None);
    }

    #[test]
    fn a_run_that_falls_silent_is_ended_with_what_it_started() {
        let mut command = Command::new("sh");
        let hangs = "echo 'test result: ok. 3 passed; 0 failed'; tail -f /dev/null & wait";
        command.args(["-c", hangs]);
        let mut counts = Counts::default();
        let ended = run_within(Duration::from_millis(300), command, &mut counts);
        assert!(ended.is_err_and(|error| error.contains("one hangs")));
        assert_eq!(counts.passed, 3, "what was said before counts");
    }

    #[test]
    fn a_hung_test_is_found_below_cargo() {
        let parents = [(1, 0), (7, 1), (8, 7), (9, 8), (10, 1), (11, 7)];
        assert_eq!(descendants(7, &parents), [7, 8, 11, 9]);
        assert_eq!(descendants(99, &parents), [99]);
        assert_eq!(parent_in("8 (a ) b) S 7 8 8"), Some(7));
        assert_eq!(parent_in("nonsense"), None);
    }

    #[test]
    fn only_result_lines_count() {
        let ok = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        let bad = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        for (name, lines, want) in [
            ("nothing", vec!["running 12 tests", "test a ... ok"], (0, 0)),
            ("one run", vec![ok], (12, 0)),
            ("runs add up", vec![ok, bad, ok], (27, 2)),
            (
                "a test that prints it",
                vec!["note: test result: ok. 9 passed"],
                (0, 0),
            ),
        ] {
            let mut counts = Counts::default();
            lines.iter().for_each(|line| counts.add_line(line));
            assert_eq!((counts.passed, counts.failed), want, "{name}");
        }
    }
}
