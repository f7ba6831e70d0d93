//! A folder with a config, and the binary on it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

    /// Starts the agent and waits until it answers.
    pub(crate) fn agent(&self) -> Running {
        let mut command = Command::new(forebay_bin());
        command
            .args(["run", "--config", "gw.toml"])
            .current_dir(self.dir.path());
        let mut agent = Running::start("agent", command, self.dir.path());
        wait::until("the agent answers", ANSWER_LIMIT, || {
            agent.must_run();
            self.status()
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

/// `count` readings of one channel as CSV, a minute apart.
pub(crate) fn csv(device: &str, count: u32) -> String {
    let lines = (0..count).map(|n| {
        let time = u64::from(n) * 60_000_000;
        let value = 20.0 + f64::from(n % 97) * 0.1 + f64::from(n).sin();
        format!("{device},temp,{time},{value:?}\n")
    });
    format!("device,channel,time,value\n{}", lines.collect::<String>())
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
