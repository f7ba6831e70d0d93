//! Whether the address of the HTTP API is free, or ours.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::check::Finding;
use super::codes::API_LISTEN;
use super::limits::CONNECT_MAX;
use crate::config::ApiConfig;

/// Bytes of an answer that are looked at.
const ANSWER_BYTES: u64 = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiFacts {
    pub(super) listen: Option<SocketAddr>,
    /// It could be opened just now.
    pub(super) is_free: bool,
    /// Why it cannot be opened, beside being taken.
    pub(super) refused: Option<String>,
    /// Who answers there speaks HTTP, or TLS where the config says so.
    pub(super) answers: bool,
    pub(super) is_running: bool,
}

pub(super) fn look(config: &ApiConfig, is_running: bool) -> ApiFacts {
    let listen = config.listen.as_ref().map(|listen| listen.value);
    let mut facts = ApiFacts {
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

pub(super) fn judge(facts: &ApiFacts) -> Finding {
    let Some(listen) = facts.listen else {
        return Finding::skip(&API_LISTEN, "the API is served over no network");
    };
    if listen.port() == 0 {
        let text = format!(
            "any free port of {}: the agent says at its start which",
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
            format!("the running agent answers at http://{listen}"),
        ),
        (true, _, false) => Finding::warn(
            &API_LISTEN,
            format!("an agent runs, and nothing that speaks HTTP answers at {listen}"),
            format!("restart the agent if `[api]` is new in its config; {who}"),
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
    use super::super::check::Level;
    use super::*;

    #[test]
    fn addresses_of_all_kinds() {
        let listen = Some("127.0.0.1:7380".parse().unwrap());
        let facts = |is_running, is_free, answers| ApiFacts {
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
