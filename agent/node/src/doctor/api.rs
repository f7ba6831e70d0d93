//! Whether the address of the HTTP API is free, or ours.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use super::check::Finding;
use super::codes::API_LISTEN;
use super::limits::CONNECT_MAX;
use crate::config::{ApiConfig, Config};

/// Bytes of an answer that are looked at.
const ANSWER_BYTES: u64 = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiFacts {
    /// Of the config.
    pub(super) section: &'static str,
    /// Who serves it.
    pub(super) server: &'static str,
    pub(super) listen: Option<SocketAddr>,
    /// It could be opened just now.
    pub(super) is_free: bool,
    /// Why it cannot be opened, beside being taken.
    pub(super) refused: Option<String>,
    /// Who answers there speaks HTTP, or TLS where the config says so.
    pub(super) answers: bool,
    pub(super) is_running: bool,
}

/// All that a config serves.
pub(super) fn findings(config: &Config, agent_runs: bool) -> Vec<Finding> {
    let upstream = config.upstream.iter();
    let receiver = upstream.filter_map(|upstream| {
        let runs = UnixStream::connect(&upstream.socket).is_ok();
        Some(look(upstream.api.as_ref()?, "receiver", runs))
    });
    let agent = config.api.iter().map(|api| look(api, "agent", agent_runs));
    agent.chain(receiver).map(|facts| judge(&facts)).collect()
}

fn look(config: &ApiConfig, server: &'static str, is_running: bool) -> ApiFacts {
    let listen = config.listen.as_ref().map(|listen| listen.value);
    let mut facts = ApiFacts {
        section: config.section,
        server,
        listen,
        is_free: false,
        refused: None,
        answers: false,
        is_running,
    };
    let Some(listen) = listen else {
        return facts;
    };
    if is_running {
        // Not opened: an agent that is just starting would not get it.
        facts.answers = answers(listen, config.tls.is_some());
        return facts;
    }
    match TcpListener::bind(listen) {
        Ok(_) => facts.is_free = true,
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
        Err(error) => facts.refused = Some(error.to_string()),
    }
    facts
}

fn answers(listen: SocketAddr, is_tls: bool) -> bool {
    let mut at = listen;
    if at.ip().is_unspecified() {
        at.set_ip(if at.is_ipv4() {
            std::net::Ipv4Addr::LOCALHOST.into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        });
    }
    let Ok(mut stream) = TcpStream::connect_timeout(&at, CONNECT_MAX) else {
        return false;
    };
    if is_tls {
        return true;
    }
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let asked = stream
        .set_read_timeout(Some(CONNECT_MAX))
        .and_then(|()| stream.write_all(request.as_bytes()))
        .and_then(|()| stream.take(ANSWER_BYTES).read_to_end(&mut answer));
    asked.is_ok() && answer.starts_with(b"HTTP/1.1 ")
}

fn judge(facts: &ApiFacts) -> Finding {
    let Some(listen) = facts.listen else {
        return Finding::skip(&API_LISTEN, "the API is served over no network");
    };
    let (section, server) = (facts.section, facts.server);
    if listen.port() == 0 {
        let text = format!(
            "any free port of {}: the {server} says at its start which",
            listen.ip()
        );
        return Finding::ok(&API_LISTEN, text);
    }
    let who = format!(
        "`sudo ss -ltnp 'sport = :{}'` shows who has it",
        listen.port()
    );
    if let Some(why) = &facts.refused {
        let advice = "give an address that this computer has in `listen`";
        return Finding::fail(
            &API_LISTEN,
            format!("{listen} cannot be opened: {why}"),
            advice,
        );
    }
    match (facts.is_running, facts.is_free, facts.answers) {
        (true, _, true) => Finding::ok(
            &API_LISTEN,
            format!("the running {server} answers at http://{listen}"),
        ),
        (true, _, false) => Finding::warn(
            &API_LISTEN,
            format!("the {server} runs, and nothing that speaks HTTP answers at {listen}"),
            format!("restart the {server} if `{section}` is new in its config; {who}"),
        ),
        (false, true, _) => Finding::ok(&API_LISTEN, format!("{listen} is free")),
        (false, false, _) => Finding::fail(
            &API_LISTEN,
            format!("{listen} is taken by another program"),
            format!("stop it, or give another `listen`: {who}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;

    use super::super::check::Level;
    use super::*;

    #[test]
    fn a_receiver_serves_at_its_own_address() {
        let dir = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = taken.local_addr().unwrap();
        let text = format!(
            "[upstream]\nbroker = \"127.0.0.1:1\"\ndata_dir = \"up\"\n\
             [upstream_api]\nlisten = \"{listen}\"\n"
        );
        let config = Config::from_text(&dir.path().join("c.toml"), &text).unwrap();
        let level = || {
            let found = findings(&config, false);
            assert_eq!(found.len(), 1);
            (found[0].level, found[0].text.clone())
        };
        assert_eq!(level().0, Level::Fail);
        // A receiver that runs is known by its socket.
        std::fs::create_dir(dir.path().join("up")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("up/upstream.sock"));
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = taken.accept().unwrap();
            // All of it: what is closed unread may take its answer with it.
            let request = std::io::BufReader::new(&stream).lines();
            assert!(request.map(Result::unwrap).any(|line| line.is_empty()));
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        });
        let (ours, said) = level();
        assert!(
            ours == Level::Ok && said.contains("the running receiver answers"),
            "{said}"
        );
        answering.join().unwrap();
        assert_eq!(level().0, Level::Warn);
    }

    #[test]
    fn addresses_of_all_kinds() {
        let listen = Some("127.0.0.1:7380".parse().unwrap());
        let facts = |is_running, is_free, answers| ApiFacts {
            section: "[api]",
            server: "agent",
            listen,
            is_free,
            refused: None,
            answers,
            is_running,
        };
        for (name, facts, want) in [
            (
                "none",
                ApiFacts {
                    listen: None,
                    ..facts(false, false, false)
                },
                Level::Skip,
            ),
            ("free", facts(false, true, false), Level::Ok),
            (
                "any port, of an agent that runs",
                ApiFacts {
                    listen: Some("127.0.0.1:0".parse().unwrap()),
                    ..facts(true, false, false)
                },
                Level::Ok,
            ),
            ("taken", facts(false, false, false), Level::Fail),
            ("ours", facts(true, false, true), Level::Ok),
            ("silent", facts(true, false, false), Level::Warn),
            (
                "no such address",
                ApiFacts {
                    refused: Some("no".into()),
                    ..facts(false, false, false)
                },
                Level::Fail,
            ),
        ] {
            assert_eq!(judge(&facts).level, want, "{name}");
        }
    }
}
