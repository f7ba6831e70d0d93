//! A folder with a config, and the binary on it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use forebay_tests::process::{ANSWER_LIMIT, Running, ask, forebay_bin};
use forebay_tests::wait;
use serde_json::Value;

/// One gateway without ports and without a broker.
pub(crate) struct Site {
    pub(crate) dir: tempfile::TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) errors: String,
}

impl Ended {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.errors))
    }
}

const CONFIG: &str = r#"[agent]
gateway = "g"
data_dir = "data"
partitions = 2

[log]
generation = "256KiB"

[[device]]
uid = "00000000000000ab"
name = "boiler"

[[window]]
name = "w"
kind = "tumbling"
size = "60s"
aggregates = ["count", "mean"]
"#;

impl Site {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("gw.toml"), CONFIG).expect("written");
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file and gives its name.
    pub(crate) fn file<'a>(&self, name: &'a str, text: &str) -> &'a str {
        fs::write(self.path(name), text).expect("written");
        name
    }

    /// Runs `forebay` with `args` to its end, `stdin` on its standard input.
    pub(crate) fn run(&self, args: &[&str], stdin: &str) -> Ended {
        let mut child = Command::new(forebay_bin())
            .args(args)
            .current_dir(self.dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut to = child.stdin.take().expect("piped");
        // A command that does not read its input may be gone already.
        let _ = to.write_all(stdin.as_bytes());
        drop(to);
        let done = child.wait_with_output().expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Ended {
            code: done.status.code().expect("no signal ended it"),
            out: text(done.stdout),
            errors: text(done.stderr),
        }
    }

    /// Imports a file of the folder into the config's agent.
    pub(crate) fn ingest(&self, name: &str, more: &[&str]) -> Ended {
        let args = ["ingest", "--config", "gw.toml", "--input", name];
        self.run(&[&args, more].concat(), "")
    }

    /// Starts the agent and waits until it has read its log.
    pub(crate) fn agent(&self) -> Running {
        let mut command = Command::new(forebay_bin());
        command
            .args(["run", "--config", "gw.toml"])
            .current_dir(self.dir.path());
        let mut agent = Running::start("agent", command, self.dir.path());
        wait::until("the agent has read its log", ANSWER_LIMIT, || {
            agent.must_run();
            let drained = self.status()?["drained"].clone();
            (drained == true).then_some(()).ok_or(drained.to_string())
        });
        agent
    }

    /// What the running agent says of itself.
    pub(crate) fn status(&self) -> Result<Value, String> {
        let socket = self.path("data/forebay.sock");
        let socket = socket.to_str().expect("UTF-8");
        let text = ask(&["status", "--socket", socket, "--json"], self.dir.path())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    /// Time and value of each reading that the running agent has of a channel.
    pub(crate) fn readings(&self, device: &str, channel: &str) -> Vec<(String, Value)> {
        let args = ["query", "readings", "--config", "gw.toml", "--json"];
        let about = ["--device", device, "--channel", channel];
        let ended = self.run(&[&args[..], &about].concat(), "");
        assert_eq!(ended.code, 0, "{ended:?}");
        let answer = ended.json();
        let readings = answer["readings"].as_array().expect("a list");
        let cells = readings.iter().map(|reading| {
            let time = reading["time"].as_str().expect("a time");
            (time.to_owned(), reading["value"].clone())
        });
        cells.collect()
    }
}

impl Site {
    /// Runs a verb of `forebay log`.
    pub(crate) fn log(&self, verb: &str, more: &[&str]) -> Ended {
        let args = ["log", verb, "--config", "gw.toml"];
        self.run(&[&args, more].concat(), "")
    }

    /// Every reading in the log, as its partition and offset, and the line that an
    /// export has of it.
    pub(crate) fn all_readings(&self) -> BTreeMap<(u64, u64), String> {
        let ended = self.log("export", &["--format", "ndjson"]);
        let lines = ended.out.lines().map(|line| {
            let row: Value = serde_json::from_str(line).expect("a row");
            let number = |name: &str| row[name].as_u64().expect("a number");
            ((number("partition"), number("offset")), line.to_owned())
        });
        lines.collect()
    }

    /// A copy with the same config and data.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        for (path, bytes) in tree(&self.path("data")) {
            let name = path.strip_prefix(self.dir.path()).expect("in it");
            let to = copy.path(name.to_str().expect("UTF-8"));
            fs::create_dir_all(to.parent().expect("a folder")).expect("made");
            fs::write(to, bytes).expect("written");
        }
        copy
    }

    /// The first file in `data/log` whose name has these ends.
    pub(crate) fn one(&self, start: &str, end: &str) -> PathBuf {
        let first = self.all(start, end).into_iter().next();
        first.unwrap_or_else(|| panic!("no {start}..{end}"))
    }

    /// All of them, in order.
    pub(crate) fn all(&self, start: &str, end: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("data/log")).expect("a folder");
        let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        names.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(start) && name.ends_with(end))
        });
        names.sort();
        names
    }
}

/// A log with sealed segments of two topics, and generations that are not sealed.
/// Made once; tests work on copies.
pub(crate) fn filled() -> Site {
    static MADE: OnceLock<Site> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let site = Site::new();
        let text = format!("{}{}", csv("m1", 12_000), csv_lines("boiler", 4_000));
        site.file("in.csv", &text);
        let ended = site.ingest("in.csv", &[]);
        assert_eq!(ended.code, 0, "{ended:?}");
        // A second, small import stays in a database.
        site.file("more.csv", &csv("m2", 500));
        assert_eq!(site.ingest("more.csv", &[]).code, 0);
        site
    });
    made.copy()
}

/// `count` readings of one channel as CSV, a minute apart.
pub(crate) fn csv(device: &str, count: u32) -> String {
    format!("device,channel,time,value\n{}", csv_lines(device, count))
}

/// The same without the header.
pub(crate) fn csv_lines(device: &str, count: u32) -> String {
    let lines = (0..count).map(|n| {
        let time = u64::from(n) * 60_000_000;
        let value = 20.0 + f64::from(n % 97) * 0.1 + f64::from(n).sin();
        format!("{device},temp,{time},{value:?}\n")
    });
    lines.collect()
}

/// Every file below `dir` with its bytes, by its path in it.
pub(crate) fn tree(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}
