//! `forebay doctor` as an operator runs it: beside an agent, without one, and on a
//! gateway on which nothing is as it should be. A hang, a secret that is shown, or an
//! agent that is disturbed fails.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use forebay_tests::certificates::{Authority, VALID, Years, write};
use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::postgres::Postgres;
use forebay_tests::process::{Running, ask, forebay_bin};
use forebay_tests::{qemu, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);
/// All checks are done by then, whatever hangs.
const ALL_MAX: Duration = Duration::from_secs(40);
const SECRET: &str = "correct-horse-battery";

fn doctor(dir: &Path, config: &str, more: &[&str]) -> Output {
    fs::write(dir.join("c.toml"), config).unwrap();
    let mut command = Command::new(forebay_bin());
    command
        .args(["doctor", "--config", "c.toml"])
        .args(more)
        .current_dir(dir);
    command.output().unwrap()
}

/// Findings of a run as JSON, and its exit code.
fn findings(dir: &Path, config: &str) -> (Vec<Value>, i32) {
    let output = doctor(dir, config, &["--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}"));
    assert!(
        !text.contains(SECRET) && !errors.contains(SECRET),
        "a secret is shown"
    );
    let code = output.status.code().unwrap();
    (report["checks"].as_array().unwrap().clone(), code)
}

fn levels(findings: &[Value], code: &str) -> Vec<String> {
    let found = findings.iter().filter(|finding| finding["code"] == code);
    found
        .map(|finding| finding["level"].as_str().unwrap().to_owned())
        .collect()
}

#[track_caller]
fn must_be(findings: &[Value], code: &str, level: &str) {
    assert_eq!(levels(findings, code), [level], "{code}: {findings:#?}");
}

fn agent(dir: &Path, device: &Path, broker: u16) -> String {
    format!(
        "[agent]\ngateway = \"g\"\ndata_dir = \"data\"\n[log]\nreserve = \"1MiB\"\n\
         [[device_port]]\nkind = \"serial\"\npath = \"{}\"\n\
         [query]\nsocket = \"{}\"\n[forward]\nbroker = \"127.0.0.1:{broker}\"\n",
        device.display(),
        dir.join("s").display()
    )
}

#[test]
fn beside_a_running_agent_that_is_not_disturbed() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Mosquitto::start();
    let link = dir.path().join("device");
    let link_text = link.to_str().unwrap();
    let _devices = Running::forebay(
        "devices",
        &["device", "sim", "--link", link_text],
        dir.path(),
    );
    wait::until("the device is there", LIMIT, || {
        link.exists().then_some(()).ok_or("not yet")
    });
    let config = agent(dir.path(), &link, broker.port());
    fs::write(dir.path().join("run.toml"), &config).unwrap();
    let path = dir.path().join("run.toml");
    let mut agent = Running::forebay(
        "agent",
        &["run", "--config", path.to_str().unwrap()],
        dir.path(),
    );
    let status = || -> Result<Value, String> {
        let text = ask(
            &["status", "--json", "--config", path.to_str().unwrap()],
            dir.path(),
        )?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    let forwarded = |least: u64| {
        wait::until("readings reach the broker", LIMIT, || {
            let status = status()?;
            let stored = status["stored"].as_u64().unwrap_or(0);
            let waiting = status["forward"]["backlog_readings"]
                .as_u64()
                .unwrap_or(u64::MAX);
            let sent = stored.saturating_sub(waiting);
            (sent > least).then_some(sent).ok_or(status.to_string())
        })
    };
    let sent = forwarded(0);
    let before = status().unwrap();

    let (found, _) = findings(dir.path(), &config);
    must_be(&found, "agent.running", "ok");
    must_be(&found, "port.there", "ok");
    must_be(&found, "broker.mqtt", "ok");
    must_be(&found, "data_dir.writable", "ok");
    let holder = found
        .iter()
        .find(|finding| finding["code"] == "port.holder")
        .unwrap();
    assert_eq!(
        holder["text"], "the running agent has it open",
        "{found:#?}"
    );

    agent.must_run();
    forwarded(sent);
    let after = status().unwrap();
    assert_eq!(
        before["ports"][0]["opens"], after["ports"][0]["opens"],
        "its port stays open"
    );
    for name in ["connected", "disconnects"] {
        let before = &before["forward"][name];
        assert!(!before.is_null(), "{name} is a member of the status");
        assert_eq!(before, &after["forward"][name], "its session stays");
    }
    let left = fs::read_dir(dir.path().join("data")).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["ballast", "lock", "log", "meta"], "nothing is left");
}

#[test]
fn where_nothing_is_as_it_should_be() {
    let dir = tempfile::tempdir().unwrap();
    let password = write(dir.path(), "password", SECRET);
    fs::set_permissions(&password, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(dir.path().join("data"), "a file").unwrap();
    fs::write(dir.path().join("no-tty"), "a file").unwrap();
    // One port at which nobody answers, one that takes us and says nothing, one in use.
    let closed = qemu::free_port().unwrap();
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "[agent]\ngateway = \"g\"\ndata_dir = \"data\"\nclock_not_before = \"2250-01-01T00:00:00Z\"\n\
         [query]\nsocket = \"{long}\"\n\
         [[device_port]]\nkind = \"serial\"\npath = \"{dir}/no-tty\"\n\
         [[device_port]]\nkind = \"serial\"\npath = \"{dir}/none\"\n\
         [[device_port]]\nkind = \"tcp\"\naddress = \"127.0.0.1:{closed}\"\n\
         [[forward]]\nname = \"closed\"\nbroker = \"127.0.0.1:{closed}\"\n\
         [[forward]]\nname = \"deaf\"\nbroker = \"127.0.0.1:{deaf}\"\nusername = \"u\"\npassword_file = \"password\"\n\
         [[forward]]\nname = \"nowhere\"\nbroker = \"no-such-host.invalid:1883\"\n\
         [api]\nlisten = \"127.0.0.1:{taken}\"\n",
        dir = dir.path().display(),
        long = "x".repeat(120),
        deaf = deaf.local_addr().unwrap().port(),
        taken = taken.local_addr().unwrap().port(),
    );
    let since = Instant::now();
    let (found, code) = findings(dir.path(), &config);
    assert!(since.elapsed() < ALL_MAX, "it took {:?}", since.elapsed());
    assert_eq!(code, 4);
    for (code, level) in [
        ("config.parse", "ok"),
        ("config.secrets", "warn"),
        ("config.socket", "fail"),
        ("data_dir.exists", "fail"),
        ("clock.year", "fail"),
        ("api.listen", "fail"),
        ("agent.running", "skip"),
    ] {
        must_be(&found, code, level);
    }
    assert_eq!(
        levels(&found, "port.there"),
        ["fail", "warn", "warn"],
        "{found:#?}"
    );
    let of = |about: &str, code: &str| {
        let found = found
            .iter()
            .find(|f| f["about"] == about && f["code"] == code);
        found.map(|found| found["level"].as_str().unwrap().to_owned())
    };
    assert_eq!(
        of("closed", "broker.tcp").as_deref(),
        Some("fail"),
        "{found:#?}"
    );
    assert_eq!(
        of("deaf", "broker.mqtt").as_deref(),
        Some("fail"),
        "{found:#?}"
    );
    assert_eq!(
        of("nowhere", "broker.name").as_deref(),
        Some("fail"),
        "{found:#?}"
    );
    for finding in &found {
        let needs = ["warn", "fail"].contains(&finding["level"].as_str().unwrap());
        assert_eq!(needs, finding["advice"] != "", "{finding}");
    }
    let person = doctor(dir.path(), &config, &[]);
    let text = String::from_utf8(person.stdout).unwrap();
    assert!(text.lines().last().unwrap().contains(" failed, "), "{text}");
    assert!(
        text.contains("chmod 600") && !text.contains('\x1b'),
        "{text}"
    );
}

#[test]
fn a_config_that_does_not_read_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let (found, code) = findings(dir.path(), "[agent]\ngatway = \"g\"\n");
    assert_eq!(code, 4);
    must_be(&found, "config.parse", "fail");
    let text = found[0]["text"].as_str().unwrap();
    assert!(
        text.contains("c.toml:2") && text.contains("gateway"),
        "{text}"
    );
    must_be(&found, "system.version", "ok");
}

#[test]
fn certificates_and_users_of_a_broker() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let ca = write(dir.path(), "ca.pem", &authority.pem());
    let other = write(dir.path(), "other.pem", &Authority::new("another").pem());
    let expired = Years(2020, 2021);
    let broker = |names: &[&str], years| {
        let server = authority.server(names, years);
        let (cert, key) = server.write(dir.path(), "server");
        let port = qemu::free_port().unwrap();
        let extra = format!(
            "listener {port} 127.0.0.1\nallow_anonymous true\ncertfile {}\nkeyfile {}\n",
            cert.display(),
            key.display()
        );
        (Mosquitto::start_with(&extra), port)
    };
    for (name, names, years, ca, code, level, said) in [
        (
            "good",
            &["127.0.0.1"][..],
            VALID,
            &ca,
            "broker.certificate",
            "ok",
            "ends in",
        ),
        (
            "another name",
            &["b.example"],
            VALID,
            &ca,
            "broker.tls",
            "fail",
            "is not for",
        ),
        (
            "over",
            &["127.0.0.1"],
            expired,
            &ca,
            "broker.tls",
            "fail",
            "ended at",
        ),
        (
            "another authority",
            &["127.0.0.1"],
            VALID,
            &other,
            "broker.tls",
            "fail",
            "authority",
        ),
    ] {
        let (_broker, port) = broker(names, years);
        let config = format!(
            "[agent]\ngateway = \"g\"\ndata_dir = \"data\"\n[forward]\nbroker = \"127.0.0.1:{port}\"\n\
             transport = \"tls\"\nca_file = \"{}\"\n",
            ca.display()
        );
        let found = wait::until(name, LIMIT, || {
            // Mosquitto opens its listeners one after the other.
            let (found, _) = findings(dir.path(), &config);
            let is_up = levels(&found, "broker.tcp") == ["ok"];
            is_up.then_some(found).ok_or("its port is closed")
        });
        must_be(&found, code, level);
        let finding = found
            .iter()
            .find(|finding| finding["code"] == code)
            .unwrap();
        assert!(
            finding["text"].as_str().unwrap().contains(said),
            "{name}: {finding}"
        );
    }
}

#[test]
fn the_database_of_a_receiver_and_its_rights() {
    let dir = tempfile::tempdir().unwrap();
    let server = Postgres::start();
    let broker = Mosquitto::start();
    let config = |section: &str| {
        format!(
            "[upstream]\nbroker = \"127.0.0.1:{}\"\nsink = \"postgres\"\ndata_dir = \"up\"\n{section}",
            broker.port()
        )
    };
    let section = server.section();
    let (found, _) = findings(dir.path(), &config(&section));
    must_be(&found, "sink.answers", "ok");
    must_be(&found, "sink.tables", "ok");
    let tables = server.number("SELECT count(*) FROM pg_tables WHERE schemaname = 'forebay'");
    assert_eq!(tables, 0, "it only looks");

    let mut admin = server.admin();
    admin
        .batch_execute("CREATE ROLE guest LOGIN PASSWORD 'guest-password'")
        .unwrap();
    let secret = dir.path().join("guest");
    fs::write(&secret, "guest-password").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let ours = format!("{:?}", server.password_file());
    let guest = section
        .replace(&ours, &format!("{secret:?}"))
        .lines()
        .map(|line| match line.starts_with("user") {
            true => "user = \"guest\"\n".to_owned(),
            false => format!("{line}\n"),
        })
        .collect::<String>();
    let (found, code) = findings(dir.path(), &config(&guest));
    must_be(&found, "sink.answers", "ok");
    must_be(&found, "sink.tables", "fail");
    assert_eq!(code, 4);
    let tables = found.iter().find(|found| found["code"] == "sink.tables");
    let advice = tables.unwrap()["advice"].as_str().unwrap();
    assert!(advice.starts_with("GRANT CREATE ON DATABASE"), "{advice}");
    // What it names is enough.
    admin.batch_execute(advice).unwrap();
    let (found, _) = findings(dir.path(), &config(&guest));
    must_be(&found, "sink.tables", "ok");

    let plain = format!("{section}tls = \"verify\"\n");
    let (found, _) = findings(dir.path(), &config(&plain));
    must_be(&found, "sink.answers", "fail");
    let (found, _) = findings(
        dir.path(),
        &config(&section.replace("127.0.0.1", "127.0.0.2")),
    );
    assert_eq!(levels(&found, "sink.answers").len(), 1, "{found:#?}");
}

#[test]
fn the_list_is_that_of_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let list = ask(&["doctor", "--list"], dir.path()).unwrap();
    let page = fs::read_to_string(forebay_tests::process::root().join("agent/node/docs/doctor.md"));
    assert!(page.unwrap().contains(&list));
}
