//! What the tests ask: an agent, and a Prometheus server of Debian's, each in a folder of
//! its own and on a free port of loopback, each with the same samples.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forebay_tests::process::{ANSWER_LIMIT, Running, ask, run};
use forebay_tests::wait;
use serde_json::Value;
use tempfile::TempDir;

use super::samples::{Sample, as_ndjson, as_openmetrics};
use super::web;

/// The gateway's name, which is a label of every series.
pub(super) const GATEWAY: &str = "gw";
/// For a part to be ready on a machine under load.
const READY_MAX: Duration = Duration::from_secs(60);
/// Tries to find a port that nobody takes meanwhile.
const PORT_TRIES: usize = 5;

const CONFIG: &str = r#"[agent]
gateway = "gw"
data_dir = "data"
clock = "always"

[[window]]
name = "minute"
kind = "tumbling"
size = "1m"
aggregates = ["count", "mean", "min", "max", "sum", "stddev"]

[api]
listen = "127.0.0.1:0"
"#;

/// An agent that holds the samples.
pub(super) struct Agent {
    pub(super) port: u16,
    // Ended before its folder is removed.
    _running: Running,
    _dir: TempDir,
}

impl Agent {
    pub(super) fn start(samples: &[Sample]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let data_dir = path("data");
        let config = CONFIG.replace("\"data\"", &format!("{data_dir:?}"));
        fs::write(path("gw.toml"), config).expect("written");
        fs::write(path("in.ndjson"), as_ndjson(samples)).expect("written");
        let (config, input) = (path("gw.toml"), path("in.ndjson"));
        let running = Running::forebay("agent", &["run", "--config", &config], dir.path());
        let page = wait::until("the agent says where its page is", ANSWER_LIMIT, || {
            let printed = running.printed();
            let line = printed
                .lines()
                .find_map(|line| line.split("page: http://").nth(1));
            let port =
                line.and_then(|line| line.trim_end_matches('/').rsplit(':').next()?.parse().ok());
            port.ok_or(printed)
        });
        ask(
            &["ingest", "--config", &config, "--input", &input],
            dir.path(),
        )
        .expect("all is taken");
        let agent = Self {
            port: page,
            _running: running,
            _dir: dir,
        };
        let wanted = samples.len() as f64;
        // What was taken is shown once it has been read back.
        wait::until("all readings can be asked for", READY_MAX, || {
            let last = samples
                .iter()
                .map(|sample| sample.millis)
                .max()
                .unwrap_or(0)
                + 1;
            let query =
                web::escaped("sum(count_over_time({__name__!~\".*:.*\",gateway=\"gw\"}[1d]))");
            let path = format!(
                "/api/v1/query?query={query}&rollups=off&time={}",
                last as f64 / 1000.0
            );
            let (_, body) = web::get(agent.port, &path)?;
            let count = body["data"]["result"][0]["value"][1]
                .as_str()
                .unwrap_or("0")
                .parse();
            let count: f64 = count.map_err(|_| body.to_string())?;
            if count == wanted {
                Ok(())
            } else {
                Err(format!("{count} of {wanted}: {body}"))
            }
        });
        agent
    }
}

/// A Prometheus server that holds the samples.
pub(super) struct Prometheus {
    pub(super) port: u16,
    _running: Running,
    _dir: TempDir,
}

impl Prometheus {
    pub(super) fn start(samples: &[Sample]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name).display().to_string();
        fs::write(path("in.om"), as_openmetrics(samples, GATEWAY)).expect("written");
        fs::write(path("prometheus.yml"), "").expect("written");
        let mut blocks = Command::new(program("promtool"));
        blocks.args([
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            &path("in.om"),
            &path("data"),
        ]);
        run(blocks, dir.path(), READY_MAX).expect("promtool makes blocks of the samples");
        let mut failures = String::new();
        for _ in 0..PORT_TRIES {
            let port = free_port();
            match Self::try_start(dir.path(), port) {
                Ok(running) => {
                    return Self {
                        port,
                        _running: running,
                        _dir: dir,
                    };
                }
                Err(printed) => failures.push_str(&printed),
            }
        }
        panic!("Prometheus does not start:\n{failures}");
    }

    fn try_start(dir: &Path, port: u16) -> Result<Running, String> {
        let path = |name: &str| dir.join(name).display().to_string();
        let mut command = Command::new(program("prometheus"));
        command.args([
            format!("--config.file={}", path("prometheus.yml")),
            format!("--storage.tsdb.path={}", path("data")),
            // The samples are older than what it would keep.
            "--storage.tsdb.retention.time=100y".to_owned(),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ]);
        let mut running = Running::start("prometheus", command, dir);
        let ready = wait::until("Prometheus answers or ends", READY_MAX, || {
            if running.ended().is_some() {
                return Ok(false);
            }
            let (status, body) = web::get(port, "/api/v1/query?query=1")?;
            if status == 200 {
                Ok(true)
            } else {
                Err(body.to_string())
            }
        });
        if ready {
            Ok(running)
        } else {
            Err(running.printed())
        }
    }
}

fn program(name: &str) -> String {
    let here = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()));
    assert!(
        here,
        "`{name}` is not installed, and the agent's answers are compared with it: \
         run `cargo xtask setup`, or: apt-get install --no-install-recommends prometheus"
    );
    name.to_owned()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr();
    address.expect("a bound socket has an address").port()
}

/// The data of an answer that must be a good one.
pub(super) fn data(got: web::Got) -> Value {
    let (status, body) = got.expect("an answer");
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["status"], "success", "{body}");
    body["data"].clone()
}
