//! A folder with a config, the real agent on it, and what an operator asks it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_tests::process::{ANSWER_LIMIT, Running, forebay_bin};
use forebay_tests::wait;
use serde_json::Value;

/// For a change to get through; a machine under load may need most of it.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// One gateway without ports.
pub(super) struct Site {
    dir: tempfile::TempDir,
    agent: Option<Running>,
}

const CONFIG: &str = r#"[agent]
gateway = "g"
data_dir = "data"
clock = "always"
"#;

impl Site {
    /// The agent's config, with `more` behind its own section.
    pub(super) fn new(more: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let site = Self { dir, agent: None };
        site.configure(more);
        site
    }

    /// Writes the config anew; a start reads it.
    pub(super) fn configure(&self, more: &str) {
        fs::write(self.path("gw.toml"), format!("{CONFIG}{more}")).expect("written");
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Appends to a file of the folder.
    pub(super) fn append(&self, name: &str, text: &str) {
        let mut options = fs::OpenOptions::new();
        let file = options.append(true).create(true).open(self.path(name));
        let mut file = file.expect("opened");
        file.write_all(text.as_bytes()).expect("written");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(forebay_bin());
        command.args(args).current_dir(self.dir.path());
        command
    }

    /// Runs `forebay` to its end; gives what it printed on standard output.
    pub(super) fn ask(&self, args: &[&str]) -> Result<String, String> {
        self.ask_with(args, "")
    }

    fn ask_with(&self, args: &[&str], stdin: &str) -> Result<String, String> {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // A command that does not read its input may be gone already.
        let _ = child
            .stdin
            .take()
            .expect("piped")
            .write_all(stdin.as_bytes());
        let done = child.wait_with_output().expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        if done.status.success() {
            Ok(text(done.stdout))
        } else {
            Err(text(done.stderr))
        }
    }

    fn ask_json(&self, args: &[&str]) -> Result<Value, String> {
        let text = self.ask(&[args, &["--config", "gw.toml", "--json"]].concat())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    /// Starts the agent and waits until it answers.
    pub(super) fn start(&mut self) {
        let command = self.command(&["run", "--config", "gw.toml"]);
        self.agent = Some(Running::start("agent", command, self.dir.path()));
        wait::until("the agent answers", ANSWER_LIMIT, || {
            self.must_run();
            self.status().map(drop)
        });
    }

    pub(super) fn must_run(&mut self) {
        self.agent.as_mut().expect("started").must_run();
    }

    pub(super) fn printed(&self) -> String {
        self.agent.as_ref().expect("started").printed()
    }

    /// As a power cut that spares the disk.
    pub(super) fn kill_9(&mut self) {
        self.agent.take().expect("started").kill_9();
    }

    pub(super) fn stop(&mut self) {
        let status = self.agent.take().expect("started").end_by("TERM");
        assert!(status.success(), "{status}");
    }

    pub(super) fn status(&self) -> Result<Value, String> {
        self.ask_json(&["status"])
    }

    /// What `forebay table ls` says of a table.
    pub(super) fn table(&self, name: &str) -> Result<Value, String> {
        let all = self.ask_json(&["table", "ls"])?;
        let all = all["tables"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|table| table["table"] == name);
        found.ok_or_else(|| format!("no table {name}"))
    }

    /// Key and row of each row that is there now.
    pub(super) fn rows(&self, table: &str) -> Result<Vec<(String, Value)>, String> {
        let answer = self.ask_json(&["table", "show", table])?;
        let rows = answer["rows"].as_array().cloned().unwrap_or_default();
        let row = |row: &Value| {
            let key = row["key"].as_str().unwrap_or_default().to_owned();
            (key, row["row"].clone())
        };
        Ok(rows.iter().map(row).collect())
    }

    /// What became of a row: operation, and the row after it, or before a delete.
    pub(super) fn history(&self, table: &str, key: &str) -> Result<Vec<(String, Value)>, String> {
        let answer = self.ask_json(&["table", "history", table, "--key", key])?;
        let all = answer["history"].as_array().cloned().unwrap_or_default();
        let change = |change: &Value| {
            let op = change["op"].as_str().unwrap_or_default().to_owned();
            let row = change.get("after").or(change.get("before"));
            (op, row.cloned().unwrap_or_default())
        };
        Ok(all.iter().map(change).collect())
    }

    /// Waits until the history of a row is this.
    #[track_caller]
    pub(super) fn wait_for_history(&mut self, table: &str, key: &str, want: &[(&str, Value)]) {
        let want: Vec<_> = want
            .iter()
            .map(|(op, row)| ((*op).to_owned(), row.clone()))
            .collect();
        let what = format!("the history of {key} in {table} is {want:?}");
        wait::until(&what, LIMIT, || {
            self.must_run();
            let got = self.history(table, key)?;
            (got == want).then_some(()).ok_or(format!("{got:?}"))
        });
    }

    /// Hands readings of one device and channel to the running agent.
    #[track_caller]
    pub(super) fn ingest(&self, device: &str, times_and_values: &[(&str, f64)]) {
        let lines = times_and_values.iter().map(|(time, value)| {
            format!(
                "{{\"device\":\"{device}\",\"channel\":\"temp\",\"time\":\"{time}\",\"value\":{value}}}\n"
            )
        });
        let lines: String = lines.collect();
        let args = [
            "ingest", "--config", "gw.toml", "--input", "-", "--format", "ndjson",
        ];
        self.ask_with(&args, &lines).expect("taken");
    }

    /// The rows of a stream of the stopped agent, in their order.
    pub(super) fn stream(&self, name: &str) -> Vec<Value> {
        let args = ["log", "show", "--config", "gw.toml", "--topic", name];
        let text = self.ask(&[&args[..], &["--json", "--limit", "0"]].concat());
        let text = text.expect("the log is whole");
        let line = |line: &str| serde_json::from_str(line).expect("JSON");
        let row = |text| -> Value {
            let record: Value = line(text);
            record["row"].clone()
        };
        text.lines().map(row).collect()
    }
}
