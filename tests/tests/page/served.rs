//! An agent that serves its page, in a folder of its own: started, killed, started again, and
//! given what was recorded. Knows no browser.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_tests::process::{ANSWER_LIMIT, Running, ask};
use forebay_tests::wait;
use serde_json::Value;
use tempfile::TempDir;

const CONFIG: &str = "forebay.toml";
const HTTP_LIMIT: Duration = Duration::from_secs(30);

/// Dropping it ends the agent.
pub(crate) struct Served {
    agent: Option<Running>,
    port: u16,
    dir: TempDir,
}

impl Served {
    /// One in this folder that does not run yet; `config` is made for the port of its HTTP.
    pub(crate) fn new(dir: TempDir, config: impl FnOnce(u16) -> String) -> Self {
        let port = free_port();
        fs::write(dir.path().join(CONFIG), config(port)).unwrap();
        Self {
            agent: None,
            port,
            dir,
        }
    }

    /// Starts that program on the data that is there; returns when it serves.
    pub(crate) fn starts(&mut self, program: &Path) {
        let mut command = Command::new(program);
        command.args(["run", "--config"]).arg(self.path(CONFIG));
        let mut agent = Running::start("agent", command, self.dir.path());
        wait::until("the agent serves", ANSWER_LIMIT, || {
            agent.must_run();
            http(self.port, "/readyz")
        });
        self.agent = Some(agent);
    }

    pub(crate) fn dies(&mut self) {
        self.agent.take().unwrap().kill_9();
    }

    /// # Panics
    /// When it was started and has ended by itself.
    #[track_caller]
    pub(crate) fn must_run(&mut self) {
        if let Some(agent) = &mut self.agent {
            agent.must_run();
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Of its page.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// What the API answers.
    #[track_caller]
    pub(crate) fn api(&self, path: &str) -> Value {
        let text = http(self.port, &format!("/api/v1/{path}")).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// Gives readings of the past to the running agent, in the form that the name says.
    pub(crate) fn ingest(&self, name: &str, text: &str) {
        let (input, config) = (self.path(name), self.path(CONFIG));
        fs::write(&input, text).unwrap();
        let (input, config) = (input.to_str().unwrap(), config.to_str().unwrap());
        let args = ["ingest", "--input", input, "--config", config];
        ask(&args, self.dir.path()).unwrap();
    }
}

/// What this computer's clock says.
pub(crate) fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_micros()).unwrap()
}

/// One that an agent may have again after a restart.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// The body of an answer with status 200. As HTTP/1.0: it ends with its connection.
fn http(port: u16, path: &str) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(text)?;
    stream.set_read_timeout(Some(HTTP_LIMIT)).map_err(text)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(text)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(text)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.into()),
        Some(_) | None => Err(format!("{path}: {answer}")),
    }
}
