//! The HTTP API of the real binary, held against its own OpenAPI document by a contract
//! tester (schemathesis): each path with examples, with values at the edges, with made up
//! good and bad ones. What it makes up is the same each time, and so are the readings.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use forebay_tests::process::{Running, ask, python_program, root, run};
use forebay_tests::{qemu, wait};

const LIMIT: Duration = Duration::from_secs(30);
/// The tester is told to end long before.
const TESTER_LIMIT: Duration = Duration::from_secs(300);
/// Made up requests per path, beside examples and edges.
const EXAMPLES: &str = "40";
const READINGS: u32 = 600;

/// An agent with readings of two devices.
struct Rig {
    dir: tempfile::TempDir,
    running: Running,
    port: u16,
}

impl Rig {
    fn new(more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = qemu::free_port().unwrap();
        let text = format!(
            "[agent]\ngateway = \"gw\"\ndata_dir = \"data\"\n\
             [[device]]\nuid = \"0123456789abcdef\"\nname = \"boiler\"\n\
             [[window]]\nname = \"minute\"\nkind = \"tumbling\"\nsize = \"1m\"\n\
             [[window]]\nname = \"rolling\"\nkind = \"sliding\"\nsize = \"60s\"\n\
             [api]\nlisten = \"127.0.0.1:{port}\"\n{more}\n"
        );
        fs::write(dir.path().join("c.toml"), text).unwrap();
        let args = ["run", "--config", &config_of(&dir)];
        let mut running = Running::forebay("agent", &args, dir.path());
        wait::until("the agent is ready", LIMIT, || {
            running.must_run();
            let got = get(port, "/readyz").map_err(|error| error.to_string())?;
            got.ends_with("ready\n").then_some(()).ok_or(got)
        });
        let rig = Self { dir, running, port };
        rig.import();
        rig
    }

    /// Half of the readings come with an hour between, one is late.
    fn import(&self) {
        let mut csv = String::from("device,channel,time,value,unit\n");
        for n in 0..READINGS {
            let (hour, minute, second) = (10 + n / 300, n / 60 % 5, n % 60);
            let time = format!("2026-03-01T{hour}:{minute:02}:{second:02}Z");
            let _ = writeln!(csv, "boiler,temperature,{time},{n},degC");
            let _ = writeln!(csv, "pump,flow,{time},{n},l/min");
        }
        csv += "boiler,temperature,2026-03-01T09:00:00Z,1,degC\n";
        let path = self.dir.path().join("readings.csv");
        fs::write(&path, csv).unwrap();
        let path = path.to_str().unwrap();
        ask(
            &["ingest", "--config", &config_of(&self.dir), "--input", path],
            self.dir.path(),
        )
        .unwrap();
        wait::until("all is read", LIMIT, || {
            let status = get(self.port, "/api/v1/status").map_err(|error| error.to_string())?;
            status
                .contains("\"readings_behind\":0")
                .then_some(())
                .ok_or(status)
        });
    }
}

fn config_of(dir: &tempfile::TempDir) -> String {
    dir.path().join("c.toml").to_str().unwrap().to_owned()
}

fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut all = String::new();
    stream.read_to_string(&mut all)?;
    Ok(all)
}

fn tester() -> PathBuf {
    python_program(env!("CARGO_TARGET_TMPDIR"), "schemathesis", "schemathesis")
}

#[test]
fn the_api_keeps_to_its_document() {
    let rig = Rig::new("requests_per_second = 100000");
    let mut command = Command::new("sh");
    // It tells what it found on stdout.
    command
        .current_dir(rig.dir.path())
        .args(["-c", "exec \"$0\" \"$@\" > said.txt 2>&1"])
        .arg(tester())
        .arg("--config-file")
        .arg(root().join("tests/tests/api/schemathesis.toml"))
        .arg("run")
        .arg(format!("http://127.0.0.1:{}/api/v1/openapi.json", rig.port))
        .args(["--url", &format!("http://127.0.0.1:{}", rig.port)])
        .args(["--max-examples", EXAMPLES])
        .arg("--generation-deterministic")
        .args(["--phases", "examples,coverage,fuzzing", "--checks", "all"])
        .args(["--request-timeout", "30", "--no-color"])
        // A stream has no end to be waited for.
        .args(["--exclude-path", "/api/v1/stream"])
        .env("HYPOTHESIS_STORAGE_DIRECTORY", rig.dir.path());
    let ended = run(command, rig.dir.path(), TESTER_LIMIT);
    let said = fs::read_to_string(rig.dir.path().join("said.txt")).unwrap();
    assert!(ended.is_ok(), "{said}");
    assert!(
        said.contains("Tested: 13"),
        "all paths but the stream and the document itself: {said}"
    );
    drop(rig.running);
}

#[test]
fn an_address_of_others_needs_a_token_or_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let config = "[agent]\ngateway = \"gw\"\ndata_dir = \"data\"\n[api]\nlisten = \"0.0.0.0:0\"\n";
    fs::write(dir.path().join("c.toml"), config).unwrap();
    let args = ["run", "--config", &config_of(&dir)];
    let mut running = Running::forebay("agent", &args, dir.path());
    let status = running.wait_for_end("the agent refuses to start", LIMIT);
    assert_eq!(status.code(), Some(2), "{}", running.printed());
    let said = running.printed();
    assert!(said.contains("[api] listen"), "{said}");
    assert!(said.contains("give token_file, or tls_cert"), "{said}");
    assert!(!dir.path().join("data").exists(), "nothing was made before");
}

#[test]
fn the_document_is_printed_as_it_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let printed = ask(&["openapi"], dir.path()).unwrap();
    let kept = fs::read_to_string(root().join("agent/node/docs/openapi.json")).unwrap();
    assert_eq!(printed, kept);
}
