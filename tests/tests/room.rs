//! The room of the log with the real binary on a real disk: a quota that holds, a log
//! that is full, a config that names what is not there.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use forebay_tests::process::{ANSWER_LIMIT, Running, ask, forebay_bin};
use forebay_tests::wait;
use serde_json::Value;

/// Readings of the input: more than the quota takes, at 8 bytes of noise each.
const READINGS: u64 = 600_000;
const QUOTA_BYTES: u64 = 4_000_000;

struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new(topic: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let config =
            format!("[agent]\ngateway = \"g\"\ndata_dir = \"data\"\n\n[[topic]]\n{topic}\n");
        fs::write(dir.path().join("gw.toml"), config).expect("written");
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(forebay_bin());
        command.args(args).current_dir(self.dir.path());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the binary starts")
    }

    fn agent(&self) -> Running {
        let command = self.command(&["run", "--config", "gw.toml"]);
        let mut agent = Running::start("agent", command, self.dir.path());
        wait::until("the agent answers", ANSWER_LIMIT, || {
            agent.must_run();
            self.status()
        });
        agent
    }

    fn status(&self) -> Result<Value, String> {
        let socket = self.path("data/forebay.sock");
        let socket = socket.to_str().expect("UTF-8");
        let text = ask(&["status", "--socket", socket, "--json"], self.dir.path())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    fn readings_topic(&self) -> Result<Value, String> {
        let status = self.status()?;
        let topics = status["space"]["topics"].as_array().ok_or("no topics")?;
        let readings = topics.iter().find(|topic| topic["topic"] == "readings");
        readings.cloned().ok_or_else(|| "no readings".into())
    }

    /// Imports values that do not compress.
    fn ingest(&self) -> Output {
        let mut text = String::from("device,channel,time,value\n");
        let mut noise = 1_u64;
        for n in 0..READINGS {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let value = noise as f64 / u64::MAX as f64;
            let _ = writeln!(text, "m1,temp,{},{value}", n * 1000);
        }
        fs::write(self.path("in.csv"), text).expect("written");
        self.run(&["ingest", "--config", "gw.toml", "--input", "in.csv"])
    }
}

/// Length of all files below a folder; one that goes meanwhile has none.
fn bytes_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

#[test]
fn a_quota_of_four_megabytes_holds_and_what_went_is_counted() {
    let site = Site::new("name = \"readings\"\nquota = \"4MB\"");
    let agent = site.agent();
    let ended = site.ingest();
    assert!(ended.status.success(), "{ended:?}");
    let limit = QUOTA_BYTES + QUOTA_BYTES / 20;
    wait::until("the quota holds", ANSWER_LIMIT, || {
        let used = bytes_below(&site.path("data/log"));
        if used <= limit {
            Ok(())
        } else {
            Err(format!("{used} bytes of {limit}"))
        }
    });
    let topic = site.readings_topic().expect("it answers");
    let dropped = topic["dropped"].as_u64().expect("a count");
    assert!(dropped > 0 && dropped < READINGS, "{topic}");
    assert!(topic["oldest"].is_string(), "{topic}");
    assert_eq!(topic["alarm"], true, "{topic}");
    let status = site.status().expect("it answers");
    assert_eq!(status["stored"], READINGS, "received, whatever was dropped");
    agent.kill_9();
    let agent = site.agent();
    let again = site.readings_topic().expect("it answers");
    let after = again["dropped"].as_u64().expect("a count");
    assert!(after >= dropped && after < READINGS, "{again}");
    let status = site.status().expect("it answers");
    assert_eq!(status["stored"], READINGS, "{status}");
    assert_eq!(status["lost"], 0, "{status}");
    assert!(agent.end_by("TERM").success());
}

#[test]
fn a_full_log_that_drops_nothing_refuses_an_import_and_says_why() {
    let site = Site::new("name = \"readings\"\nquota = \"4MB\"\nwhen_full = \"reject_new\"");
    let agent = site.agent();
    let ended = site.ingest();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(errors.contains("topic readings is full"), "{errors}");
    let topic = site.readings_topic().expect("it answers");
    assert_eq!(topic["dropped"], 0, "{topic}");
    assert_eq!(topic["full"], true, "{topic}");
    let status = site.status().expect("it answers");
    let health = status["space"]["trouble"].as_str().unwrap_or_default();
    assert!(health.contains("topic readings is full"), "{status}");
    assert!(agent.end_by("TERM").success());
}

#[test]
fn a_topic_that_is_not_there_is_refused_before_the_log_is_touched() {
    let site = Site::new("name = \"reading\"");
    let ended = site.run(&["run", "--config", "gw.toml"]);
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(
        errors.contains("gw.toml:6: [[topic]] name: \"reading\" is none of")
            && errors.contains("did you mean \"readings\"?"),
        "{errors}"
    );
    assert!(!site.path("data").exists(), "nothing was made");
}
