//! The real binary with a password, a key and a broker that asks for both: what it
//! prints, in whatever trouble, holds neither.

use std::fs;
use std::path::Path;
use std::time::Duration;

use forebay_tests::certificates::{Authority, VALID, write};
use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::process::{Running, ask};
use forebay_tests::wait;
use serde_json::Value;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);
const GOOD: &str = "hunter2-good";
const BAD: &str = "hunter2-bad";

/// All that was printed or answered, and none of it may hold a secret.
struct Said {
    texts: Vec<(String, String)>,
    secrets: Vec<String>,
}

impl Said {
    fn add(&mut self, name: &str, text: String) {
        self.texts.push((name.to_owned(), text));
    }

    fn ask(&mut self, args: &[&str], dir: &Path) {
        let (Ok(text) | Err(text)) = ask(args, dir);
        self.add(&args.join(" "), text);
    }

    fn holds_no_secret(&self) {
        for (name, text) in &self.texts {
            assert!(!text.is_empty(), "{name} says nothing");
            for secret in &self.secrets {
                assert!(!text.contains(secret.as_str()), "{name}: {text}");
            }
        }
    }
}

/// A broker by TLS that wants a certificate, and lets in gw-1 with the good password.
fn broker(dir: &Path, authority: &Authority) -> Mosquitto {
    let (cert, key) = authority.server(&["127.0.0.1"], VALID).write(dir, "server");
    let passwords = dir.join("passwords");
    let made = std::process::Command::new("mosquitto_passwd")
        .args(["-b", "-c"])
        .arg(&passwords)
        .args(["gw-1", GOOD])
        .status()
        .expect("mosquitto_passwd comes with mosquitto: apt-get install mosquitto");
    assert!(made.success());
    Mosquitto::start_with(&format!(
        "certfile {}\nkeyfile {}\ncafile {}\nrequire_certificate true\n\
         allow_anonymous false\npassword_file {}\n",
        cert.display(),
        key.display(),
        dir.join("ca.pem").display(),
        passwords.display()
    ))
}

/// The config, with one destination per version of MQTT.
fn config(port: u16, password: &str) -> String {
    let destination = |name: &str, protocol: &str| {
        format!(
            "[[forward]]\nname = \"{name}\"\nbroker = \"127.0.0.1:{port}\"\n\
             protocol = \"{protocol}\"\ntransport = \"tls\"\nca_file = \"ca.pem\"\n\
             cert_file = \"own.pem\"\nkey_file = \"own.key\"\nusername = \"gw-1\"\n{password}\n\
             backoff_max = \"100ms\"\n"
        )
    };
    format!(
        "[agent]\ngateway = \"gw-1\"\ndata_dir = \"data\"\n{}{}",
        destination("five", "5"),
        destination("three", "3.1.1")
    )
}

/// Whether `good` holds of both destinations in the agent's status.
fn of_both(config: &str, good: impl Fn(&Value) -> bool) -> Result<(), String> {
    let dir = Path::new(config).parent().unwrap();
    let status = ask(&["status", "--json", "--config", config], dir)?;
    let status: Value = serde_json::from_str(&status).map_err(|error| error.to_string())?;
    let destinations = status["destinations"].as_array();
    if destinations.is_some_and(|all| all.len() == 2 && all.iter().all(good)) {
        Ok(())
    } else {
        Err(status["destinations"].to_string())
    }
}

#[test]
fn nothing_that_is_printed_holds_a_secret() {
    let dir = TempDir::new().unwrap();
    let at = dir.path();
    let authority = Authority::new("site");
    write(at, "ca.pem", &authority.pem());
    let own = authority.client("gw-1", VALID);
    own.write(at, "own");
    let broker = broker(at, &authority);
    let key = own.key.lines().nth(1).unwrap().to_owned();
    let mut said = Said {
        texts: Vec::new(),
        secrets: vec!["hunter2".to_owned(), key],
    };
    let from_file = config(broker.port(), "password_file = \"password\"");
    let good = write(at, "forebay.toml", &from_file);
    let good = good.to_str().unwrap().to_owned();
    let bad = at.join("bad.toml");
    let bad = bad.to_str().unwrap();
    write(at, "password", BAD);
    let mut agent = Running::forebay("agent", &["run", "--config", &good], at);
    wait::until("the broker's refusal is in the status", LIMIT, || {
        agent.must_run();
        of_both(&good, |one| {
            let why = one["last_disconnect"].as_str().unwrap_or_default();
            why.contains("does not let this client in")
        })
    });
    said.ask(&["status", "--config", &good], at);
    said.ask(&["status", "--json", "--config", &good], at);
    // The right one is taken up by itself.
    write(at, "password", &format!("{GOOD}\nnot this line\n"));
    wait::until("both destinations are connected", LIMIT, || {
        of_both(&good, |one| one["connected"] == true)
    });
    said.ask(&["status", "--json", "--config", &good], at);
    said.ask(&["config", "check", &good], at);
    said.ask(&["config", "check", "--json", &good], at);
    let printed = agent.printed();
    agent.end_by("TERM");
    said.add("the agent", printed);
    for (name, text) in [
        (
            "not set",
            config(broker.port(), "password_env = \"FOREBAY_NOT_SET\""),
        ),
        (
            "in its place",
            config(broker.port(), "password_env = \"hunter2 in place\""),
        ),
        (
            "no such key",
            config(broker.port(), "password = \"hunter2\""),
        ),
        (
            "a key as certificate",
            from_file.replace("own.pem", "own.key"),
        ),
        (
            "a key as password",
            from_file.replace("\"password\"", "\"own.key\""),
        ),
        ("a key as authority", from_file.replace("ca.pem", "own.key")),
    ] {
        fs::write(bad, text).unwrap();
        said.ask(&["config", "check", bad], at);
        said.ask(&["config", "check", "--json", bad], at);
        if name != "a key as password" {
            let mut agent = Running::forebay(name, &["run", "--config", bad], at);
            let status = agent.wait_for_end("a config that cannot work", LIMIT);
            assert!(!status.success(), "{name}");
            let printed = agent.printed();
            assert!(printed.contains("bad.toml:"), "{name}: {printed}");
            said.add(name, printed);
        }
    }
    said.holds_no_secret();
}
