//! A gateway in a folder of its own, and the shell beside it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use forebay_tests::process::{ANSWER_LIMIT, Running, forebay_bin};
use forebay_tests::wait;
use serde_json::Value;

pub(crate) struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    /// With what stands in the config behind `[agent]` and its name.
    pub(crate) fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = format!("[agent]\ngateway = \"g\"\ndata_dir = \"data\"\n{config}");
        fs::write(dir.path().join("forebay.toml"), config).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(forebay_bin());
        command.args(args).current_dir(self.dir.path());
        command
    }

    pub(crate) fn start(&self, name: &str, args: &[&str]) -> Running {
        Running::start(name, self.command(args), self.dir.path())
    }

    pub(crate) fn agent(&self) -> Running {
        let mut agent = self.start("agent", &["run"]);
        wait::until("the agent answers", ANSWER_LIMIT, || {
            agent.must_run();
            self.json(&["status"])
        });
        agent
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What a command prints that succeeds.
    pub(crate) fn text(&self, args: &[&str]) -> Result<String, String> {
        let output = self.run(args);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.code() {
            Some(0) => Ok(text(&output.stdout)),
            code => Err(format!("{code:?}: {}", text(&output.stderr))),
        }
    }

    pub(crate) fn json(&self, args: &[&str]) -> Result<Value, String> {
        let text = self.text(&[args, &["--json"]].concat())?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// The sentence of a command that ends with exit code 1.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        self.ended(args, 1)
    }

    /// The sentence of a command that ends with this code.
    pub(crate) fn ended(&self, args: &[&str], code: i32) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn show(&self, device: &str) -> Result<Value, String> {
        self.json(&["device", "show", device])
    }

    /// Waits until what the agent knows of a device is as wanted.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, device: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        wait::until(what, ANSWER_LIMIT, || {
            let shown = self.show(device)?;
            if wanted(&shown) {
                Ok(shown)
            } else {
                Err(shown.to_string())
            }
        })
    }
}
