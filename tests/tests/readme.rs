//! The README's commands, run as they stand there: each block marked `sh` to its
//! end, each `sh background` until the last one is through, as in terminals of
//! their own. Only what would meet a reader's own walk on the same computer is
//! changed: the three ports, and the folder of the config that names them.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forebay_tests::process::{END_LIMIT, Running, root, run, send};
use forebay_tests::{qemu, wait};

/// A command may come before what it asks is up; it may also have to be built.
const STEP_LIMIT: Duration = Duration::from_secs(600);
/// A started process may take this long until its first line.
const SPEAK_LIMIT: Duration = Duration::from_secs(600);
const DEMO: &str = "cargo run --release -- demo";
const TEST: &str = "cargo xtask test";

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Mode {
    ToTheEnd,
    Background,
    /// After everything in the background has ended.
    AtTheEnd,
    /// This very test runs inside it.
    ByCi,
}

/// The fenced `sh` blocks, each line of one a command.
fn commands(readme: &str) -> Vec<(Mode, String)> {
    let mut found = Vec::new();
    let mut mode = None;
    for line in readme.lines() {
        match (line, mode) {
            ("```", _) => mode = None,
            ("```sh", None) => mode = Some(Mode::ToTheEnd),
            ("```sh background", None) => mode = Some(Mode::Background),
            ("```sh at-the-end", None) => mode = Some(Mode::AtTheEnd),
            ("```sh by-ci", None) => mode = Some(Mode::ByCi),
            (command, Some(mode)) => found.push((mode, command.to_owned())),
            (_, None) => {}
        }
    }
    found
}

fn readme() -> Vec<(Mode, String)> {
    commands(&fs::read_to_string(root().join("README.md")).unwrap())
}

#[test]
fn blocks_are_found_with_their_mode() {
    let text = "a\n```sh\nb\nc\n```\n```toml\nd\n```\n```sh background\ne\n```\n";
    let (end, background) = (Mode::ToTheEnd, Mode::Background);
    let want = [(end, "b"), (end, "c"), (background, "e")];
    assert_eq!(
        commands(text),
        want.map(|(mode, line)| (mode, line.to_owned()))
    );
}

#[test]
fn a_fresh_machine_needs_exactly_two_commands() {
    let all = readme();
    let first: Vec<&str> = all.iter().take(2).map(|(_, line)| line.as_str()).collect();
    assert_eq!(first, [DEMO, TEST]);
    let by_ci: Vec<&(Mode, String)> = all.iter().filter(|(mode, _)| *mode == Mode::ByCi).collect();
    assert_eq!(by_ci.len(), 1, "only {TEST} is left to CI");
    assert_eq!(by_ci[0].1, TEST);
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(
        ci.lines().any(|line| line == format!("exec {TEST}")),
        "{ci}"
    );
}

/// A shell for one command line. `exec`, as a shell that Ctrl-C ends would hide how
/// the command itself ended.
fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("exec {line}")])
        .current_dir(root());
    // Mosquitto stands where only root's PATH looks.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/usr/local/sbin"));
    command
}

/// The same command with ports and folders of its own.
struct Walk {
    serial_port: u16,
    broker_port: u16,
    api_port: u16,
    config: String,
}

impl Walk {
    fn new(dir: &Path) -> Self {
        let serial_port = qemu::free_port().unwrap();
        let broker_port = qemu::free_port().unwrap();
        let mut walk = Self {
            serial_port,
            broker_port,
            api_port: qemu::free_port().unwrap(),
            config: String::new(),
        };
        let text = fs::read_to_string(root().join("config/qemu.toml")).unwrap();
        let path = dir.join("qemu.toml");
        fs::write(&path, walk.moved(&text).replace("../target/", "")).unwrap();
        walk.config = path.to_str().unwrap().to_owned();
        walk
    }

    fn moved(&self, text: &str) -> String {
        text.replace("7386", &self.serial_port.to_string())
            .replace("7388", &self.broker_port.to_string())
            .replace("7380", &self.api_port.to_string())
    }

    fn command(&self, line: &str) -> String {
        let line = self.moved(line).replace("config/qemu.toml", &self.config);
        if line == "cargo xtask firmware qemu" {
            return format!("{line} --port {}", self.serial_port);
        }
        line
    }
}

/// Ends a background command as Ctrl-C in its terminal does.
fn interrupt(line: &str, mut process: Running) {
    process.must_run();
    send("INT", &format!("-{}", process.id()));
    let status = process.wait_for_end(&format!("{line} ends after Ctrl-C"), END_LIMIT);
    let ours = line.starts_with("cargo run");
    assert!(
        !ours || status.success(),
        "{line}: {status}\n{}",
        process.printed()
    );
}

/// A started command has said something itself; cargo's own lines do not count.
fn speaks(process: &mut Running) -> Result<(), &'static str> {
    process.must_run();
    let printed = process.printed();
    let own = printed
        .split_once("     Running `")
        .map_or(&*printed, |(_, rest)| rest);
    own.lines().nth(1).map(drop).ok_or("it is silent")
}

#[test]
fn every_command_does_what_the_page_says() {
    let dir = tempfile::tempdir().unwrap();
    let walk = Walk::new(dir.path());
    let mut background: Vec<(String, Running)> = Vec::new();
    let mut at_the_end = Vec::new();
    for (mode, line) in readme() {
        let command = walk.command(&line);
        match mode {
            Mode::ByCi => {}
            Mode::AtTheEnd => at_the_end.push((line, command)),
            Mode::Background => {
                let mut process = Running::group("readme", shell(&command), dir.path());
                wait::until(&line, SPEAK_LIMIT, || speaks(&mut process));
                background.push((line, process));
            }
            Mode::ToTheEnd => {
                // What it asks may not be up yet, or know nothing yet.
                wait::until(&line, STEP_LIMIT, || {
                    background
                        .iter_mut()
                        .for_each(|(_, process)| process.must_run());
                    judge(&line, &run(shell(&command), dir.path(), STEP_LIMIT)?)
                });
            }
        }
    }
    for (line, process) in background.into_iter().rev() {
        interrupt(&line, process);
    }
    for (line, command) in at_the_end {
        let answer = run(shell(&command), dir.path(), STEP_LIMIT).unwrap();
        judge(&line, &answer).unwrap();
    }
}

/// What the page promises of an answer.
fn judge(line: &str, answer: &str) -> Result<(), String> {
    if line.contains("demo") {
        let last = answer.lines().last().unwrap_or_default();
        let counts: serde_json::Value = serde_json::from_str(last).expect(last);
        let count = |key: &str| {
            counts[key]
                .as_u64()
                .unwrap_or_else(|| panic!("{key} in {last}"))
        };
        assert!(count("applied") > 0, "{last}");
        assert_eq!(count("lost"), 0, "{last}");
        assert_eq!(
            count("produced"),
            count("applied") + count("gaps"),
            "{last}"
        );
    }
    if line.contains("upstream status") && !answer.lines().any(has_readings) {
        return Err(answer.to_owned());
    }
    if line.contains("upstream verify") && !answer.lines().any(|line| line.ends_with("yes")) {
        return Err(answer.to_owned());
    }
    let spoke = !answer.trim().is_empty();
    spoke
        .then_some(())
        .ok_or_else(|| format!("{line} prints nothing"))
}

/// A line of the receiver's status: readings, and a figure that is not 0.
fn has_readings(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("readings") && words.next().is_some_and(|count| count != "0")
}
