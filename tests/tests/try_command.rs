//! `forebay try` and `forebay config` as a user runs them: exit codes, which of
//! stdout and stderr says what, and pipes.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use forebay_tests::process::{forebay_bin, root};
use serde_json::Value;

const WINDOW: &str = "[engine]\nout_of_order = \"0s\"\n[[window]]\nname = \"w\"\nkind = \"sliding\"\nsize = \"10s\"\naggregates = [\"count\"]\n";

fn reading(second: u32) -> String {
    format!("{{\"device\":\"d\",\"channel\":\"t\",\"time\":{second}000000,\"value\":1}}\n")
}

fn folder(config: &str, input: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("c.toml"), config).expect("written");
    fs::write(dir.path().join("in"), input).expect("written");
    dir
}

fn forebay(dir: &Path, args: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(forebay_bin())
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut to = child.stdin.take().expect("piped");
    // A command that reads no stdin may be gone already.
    let _ = to.write_all(stdin.as_bytes());
    drop(to);
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn a_run_ends_with_the_code_it_promises() {
    let good = reading(1);
    for (name, config, input, more, code, out, error) in [
        (
            "good",
            WINDOW.to_owned(),
            good.clone(),
            &[][..],
            0,
            1,
            "rejected 0",
        ),
        (
            "a bad line",
            WINDOW.to_owned(),
            format!("{{}}\n{good}"),
            &[],
            0,
            1,
            "in:1: has no device",
        ),
        (
            "a bad line, strict",
            WINDOW.to_owned(),
            format!("{{}}\n{good}"),
            &["--strict"],
            1,
            1,
            "in:1:",
        ),
        (
            "a bad config",
            WINDOW.replace("sliding", "slidin"),
            good.clone(),
            &[],
            2,
            0,
            "c.toml:5: [[window]] kind: \"slidin\"",
        ),
        (
            "a key of another kind",
            WINDOW.replace("sliding", "session"),
            good.clone(),
            &[],
            2,
            0,
            "c.toml:6: [[window]] size: is only for",
        ),
        (
            "a bad batch",
            WINDOW.to_owned(),
            good.clone(),
            &["--batch", "0"],
            2,
            0,
            "--batch",
        ),
    ] {
        let dir = folder(&config, &input);
        let mut args = vec!["try", "--config", "c.toml", "--input", "in"];
        args.extend(more);
        let done = forebay(dir.path(), &args, "");
        let (stdout, stderr) = (text(&done.stdout), text(&done.stderr));
        assert_eq!(done.status.code(), Some(code), "{name}: {stderr}");
        assert_eq!(stdout.lines().count(), out, "{name}: {stdout}");
        assert!(stderr.contains(error), "{name}: {stderr}");
    }
}

#[test]
fn stdin_is_an_input_and_the_last_line_of_stderr_is_the_summary() {
    let dir = folder(WINDOW, &reading(1));
    let args = [
        "try",
        "--config",
        "c.toml",
        "--input",
        "in",
        "--input",
        "-",
        "--summary",
        "json",
    ];
    let done = forebay(dir.path(), &args, &(reading(2) + "nonsense\n"));
    assert_eq!(text(&done.stdout).lines().count(), 2);
    let errors = text(&done.stderr);
    assert!(errors.contains("stdin:2: is not JSON"), "{errors}");
    let summary: Value =
        serde_json::from_str(errors.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (&summary["readings"], &summary["rejected"]),
        (&2.into(), &1.into())
    );
    assert_eq!(summary["devices"]["d"]["accepted"], 2);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let many: String = (0..50_000).map(reading).collect();
    let dir = folder(WINDOW, &many);
    let mut child = Command::new(forebay_bin())
        .args(["try", "--config", "c.toml", "--input", "in"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut first = [0; 64];
    child
        .stdout
        .take()
        .expect("piped")
        .read_exact(&mut first)
        .expect("a line");
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
}

#[test]
fn configs_are_checked() {
    let gateway = root().join("config/gateway.toml");
    let dir = folder("[agent]\ngatewy = \"gw-1\"\n", "");
    for (name, args, code, want) in [
        (
            "good",
            &["config", "check", gateway.to_str().expect("UTF-8")][..],
            0,
            "gateway gw-1",
        ),
        (
            "by option",
            &["config", "check", "--config", "c.toml"],
            2,
            "did you mean \"gateway\"?",
        ),
        (
            "as JSON",
            &["config", "check", "--json", "c.toml"],
            2,
            "\"line\":2",
        ),
        (
            "missing",
            &["config", "check", "none.toml"],
            2,
            "none.toml: cannot be opened",
        ),
    ] {
        let done = forebay(dir.path(), args, "");
        let said = text(&done.stdout) + &text(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{name}: {said}");
        assert!(said.contains(want), "{name}: {said}");
    }
}

#[test]
fn the_reference_is_printed_as_it_is_committed() {
    let dir = folder("", "");
    let done = forebay(dir.path(), &["config", "reference"], "");
    let committed = fs::read_to_string(root().join("config/reference.toml")).expect("committed");
    assert_eq!(text(&done.stdout), committed);
}
