//! Runs the parts, each in a process of its own, and reads what they say.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use clap::ValueEnum as _;

use crate::Args;
use crate::parts::Part;

/// What a part measured.
pub(crate) type Said = BTreeMap<String, f64>;

fn start(part: Part, args: &Args) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let value = part.to_possible_value().ok_or("a part without a name")?;
    let mut command = Command::new(program);
    command
        .args(["part", value.get_name()])
        .arg("--dir")
        .arg(&args.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if args.quick {
        command.arg("--quick");
    }
    if let Some(bytes) = args.backlog_bytes {
        command.args(["--backlog-bytes", &bytes.to_string()]);
    }
    if let Some(values) = &args.values {
        command.arg("--values").arg(values);
    }
    command.spawn().map_err(|error| error.to_string())
}

/// Runs a part to its end.
pub(crate) fn run(part: Part, args: &Args) -> Result<Said, String> {
    let mut child = start(part, args)?;
    let mut said = Said::new();
    let out = child.stdout.take().ok_or("the child has no output")?;
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        if let Some((name, value)) = line.split_once('=')
            && let Ok(value) = value.parse()
        {
            said.insert(name.to_owned(), value);
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() {
        Ok(said)
    } else {
        Err(format!("part {part:?} ended with {status}"))
    }
}

/// Starts a part and waits until it says `word`; gives it and the seconds it took.
fn run_until(part: Part, args: &Args, word: &str) -> Result<(Child, f64), String> {
    let started = Instant::now();
    let mut child = start(part, args)?;
    let out = child.stdout.take().ok_or("the child has no output")?;
    let mut lines = BufReader::new(out).lines().map_while(Result::ok);
    if lines.any(|line| line == word) {
        let seconds = started.elapsed().as_secs_f64();
        // What it says afterwards is heard by nobody, and must not end it.
        std::thread::spawn(move || lines.for_each(drop));
        return Ok((child, seconds));
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    Err(format!("part {part:?} ended with {status} before {word:?}"))
}

/// Kills a part with SIGKILL once it said `word`.
pub(crate) fn run_and_kill(part: Part, args: &Args, word: &str) -> Result<(), String> {
    let (mut child, _) = run_until(part, args, word)?;
    let killed = child.kill().and_then(|()| child.wait());
    killed.map(drop).map_err(|error| error.to_string())
}

/// Seconds from the start of a part to its `word`; it then ends by itself.
pub(crate) fn seconds_to(part: Part, args: &Args, word: &str) -> Result<f64, String> {
    let (mut child, seconds) = run_until(part, args, word)?;
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() {
        Ok(seconds)
    } else {
        Err(format!("part {part:?} ended with {status}"))
    }
}
