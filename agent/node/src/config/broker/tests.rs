//! Keys of a connection that go together and keys that do not.

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::config::Config;

fn load(lines: &str) -> Result<Config, String> {
    let text = format!("[upstream]\nbroker = \"h:8883\"\n{lines}");
    Config::from_text(Path::new("/etc/forebay/config.toml"), &text).map_err(|e| e.to_string())
}

fn broker_of(lines: &str) -> BrokerConfig {
    let config = load(lines).expect("a good config");
    config.upstream.expect("the section is given").broker
}

#[test]
fn without_keys_it_is_plain_mqtt_5() {
    let broker = broker_of("");
    let plain = BrokerConfig::plain("h:8883", "forebay-upstream");
    assert_eq!(broker, plain);
}

#[test]
fn all_keys_are_read() {
    let broker = broker_of(
        "protocol = \"3.1.1\"\ntransport = \"wss\"\nca_file = \"ca.pem\"\ncert_file = \"/c.pem\"\n\
         key_file = \"c.key\"\nserver_name = \"broker.example.org\"\nws_path = \"/ws?a=b\"\n\
         username = \"u\"\npassword_env = \"PASSWORD_1\"\nkeep_alive = \"1m\"\nbackoff_max = \"5s\"",
    );
    let placed = |value: &str, line, key: &str| Placed {
        value: PathBuf::from(value),
        place: Place {
            file: "/etc/forebay/config.toml".into(),
            line: Some(line),
            key: format!("[upstream] {key}"),
        },
    };
    let name = |value: &str, line, key: &str| Placed {
        value: value.to_owned(),
        place: placed("", line, key).place,
    };
    let want = BrokerConfig {
        protocol: Protocol::V311,
        transport: Transport::Wss,
        tls: TlsKeys {
            ca_file: Some(placed("/etc/forebay/ca.pem", 5, "ca_file")),
            identity: Some(Identity {
                cert_file: placed("/c.pem", 6, "cert_file"),
                key_file: placed("/etc/forebay/c.key", 7, "key_file"),
            }),
            server_name: Some(name("broker.example.org", 8, "server_name")),
        },
        ws_path: "/ws?a=b".into(),
        username: Some("u".into()),
        password: Some(PasswordFrom::Env(name("PASSWORD_1", 11, "password_env"))),
        keep_alive: Duration::from_secs(60),
        backoff_max: Duration::from_secs(5),
        ..BrokerConfig::plain("h:8883", "forebay-upstream")
    };
    assert_eq!(broker, want);
}

#[test]
fn what_cannot_work_is_said_with_its_line() {
    let tls = "transport = \"tls\"\n";
    for (name, lines, want) in [
        (
            "a certificate without its key",
            format!("{tls}cert_file = \"c\""),
            ":4: [upstream] cert_file: needs a key_file beside it",
        ),
        (
            "a key without its certificate",
            format!("{tls}key_file = \"c\""),
            ":4: [upstream] key_file: needs a cert_file beside it",
        ),
        (
            "authorities without TLS",
            "ca_file = \"c\"".into(),
            ":3: [upstream] ca_file: needs transport = \"tls\" or \"wss\" beside it",
        ),
        (
            "a name without TLS",
            "transport = \"ws\"\nserver_name = \"n\"".into(),
            ":4: [upstream] server_name: needs transport = \"tls\" or \"wss\" beside it",
        ),
        (
            "a name that is none",
            format!("{tls}server_name = \"a b\""),
            ":4: [upstream] server_name: \"a b\" is no host name",
        ),
        (
            "a path without a websocket",
            format!("{tls}ws_path = \"/\""),
            ":4: [upstream] ws_path: needs transport = \"ws\" or \"wss\" beside it",
        ),
        (
            "a path that is none",
            "transport = \"ws\"\nws_path = \"mqtt\"".into(),
            ":4: [upstream] ws_path: \"mqtt\" must be a path of a URL",
        ),
        (
            "a password without a user",
            "password_env = \"P\"".into(),
            ":3: [upstream] password_env: needs a username beside it",
        ),
        (
            "two passwords",
            "username = \"u\"\npassword_file = \"f\"\npassword_env = \"P\"".into(),
            ":5: [upstream] password_env: cannot stand beside a password_file",
        ),
        (
            "an unknown version",
            "protocol = \"3.1\"".into(),
            "is none of: 5, 3.1.1 (did you mean \"3.1.1\"?)",
        ),
        (
            "an unknown transport",
            "transport = \"ssl\"".into(),
            "is none of: tcp, tls, ws, wss",
        ),
        (
            "a key that is misspelt",
            "cafile = \"c\"".into(),
            "is not a key here (did you mean \"ca_file\"?)",
        ),
    ] {
        let error = load(&lines).expect_err(name);
        assert!(error.contains(want), "{name}: {error}");
    }
}

#[test]
fn limits_are_what_the_reference_says() {
    let path = |len: usize| format!("transport = \"ws\"\nws_path = \"/{}\"", "x".repeat(len - 1));
    for (name, lines, good) in [
        ("a path of 255", path(255), true),
        ("a path of 256", path(256), true),
        ("a path of 257", path(257), false),
        ("alive each 4s", "keep_alive = \"4999ms\"".into(), false),
        ("alive each 5s", "keep_alive = \"5s\"".into(), true),
        ("alive each hour", "keep_alive = \"1h\"".into(), true),
        (
            "alive each hour and more",
            "keep_alive = \"3601s\"".into(),
            false,
        ),
        ("99ms", "backoff_max = \"99ms\"".into(), false),
        ("100ms", "backoff_max = \"100ms\"".into(), true),
        ("a day", "backoff_max = \"24h\"".into(), true),
        ("a day and more", "backoff_max = \"86401s\"".into(), false),
    ] {
        assert_eq!(load(&lines).is_ok(), good, "{name}");
    }
}

#[test]
fn a_password_in_the_place_of_a_variable_is_not_shown() {
    for value in ["hunter2!", "2hunter2", "a hunter2"] {
        let lines = format!("username = \"u\"\npassword_env = \"{value}\"");
        let error = load(&lines).expect_err(value);
        assert!(!error.contains("hunter2"), "{error}");
        assert!(error.contains("environment variable"), "{error}");
    }
}
