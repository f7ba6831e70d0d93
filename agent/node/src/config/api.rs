//! `[api]` of an agent and `[upstream_api]` of a receiver: where HTTP is served, to whom,
//! and how much of it at once.
//!
//! Always holds: an address that other machines reach comes with a token or with
//! certificates of clients. Bound: [`HOSTS_MAX`]. Knows no socket and reads no file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::broker::Placed;
use super::error::ConfigError;
use super::reader::{Field, Source, Table};
use super::schema::{Default, Key, Section};

/// `[api]` or `[upstream_api]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiConfig {
    /// Which of them, as sentences name it.
    pub section: &'static str,
    /// `None`: over no network.
    pub listen: Option<Placed<SocketAddr>>,
    /// HTTP for this user of this computer alone; `None`: not served.
    pub socket: Option<PathBuf>,
    pub token_file: Option<Placed<PathBuf>>,
    pub tls: Option<ApiTls>,
    /// Names beside localhost that a request may be for.
    pub hosts: Vec<String>,
    /// At the same time, 1 to [`CONNECTIONS_LIMIT`].
    pub connections: usize,
    /// Of one client, 1 to [`REQUESTS_PER_S_LIMIT`].
    pub requests_per_s: u32,
    /// Answered at the same time, 1 to [`READS_LIMIT`]; 0 of a receiver, which reads nothing.
    pub reads: usize,
    /// Streams that are followed at the same time, 0 to [`STREAMS_LIMIT`]; 0 of a receiver.
    pub streams: usize,
    /// Until an answer has begun, and until it has ended.
    pub request_time: Duration,
}

/// What the server proves itself with, and what clients have to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiTls {
    pub cert: Placed<PathBuf>,
    pub key: Placed<PathBuf>,
    /// Who may sign certificates of clients; with it each client needs one.
    pub client_ca: Option<Placed<PathBuf>>,
}

/// Names in `hosts`.
pub const HOSTS_MAX: usize = 16;
/// Each connection is a task and up to 64 KiB of buffers.
pub const CONNECTIONS_LIMIT: usize = 1024;
pub const REQUESTS_PER_S_LIMIT: u32 = 100_000;
pub const READS_LIMIT: usize = 64;
/// The agent lets so many wait for changes in all; the shell's are among them.
pub const STREAMS_LIMIT: usize = 12;
const _: () = assert!(STREAMS_LIMIT < forebay_core::limits::FOLLOWERS_MAX);
const REQUEST_TIME_MIN: Duration = Duration::from_secs(1);
const REQUEST_TIME_MAX: Duration = Duration::from_secs(600);

const LISTEN_DOC: &str = "Address and port; port 0 takes any that is free; \"off\": only the socket is served.\nOne that other machines reach needs token_file or client_ca.";
const TOKEN_FILE: Key = Key {
    name: "token_file",
    default: Default::None("\"/etc/forebay/api-token\""),
    doc: "File whose first line is a token of 16 characters or more that each request over the network must\nbring, as \"Authorization: Bearer TOKEN\". Others must not be able to read the file.",
};
const TLS_CERT: Key = Key {
    name: "tls_cert",
    default: Default::None("\"/etc/forebay/api.pem\""),
    doc: "PEM file of our certificate, and what signed it: HTTPS instead of HTTP.",
};
const TLS_KEY: Key = Key {
    name: "tls_key",
    default: Default::None("\"/etc/forebay/api.key\""),
    doc: "With tls_cert: PEM file of its private key, not encrypted. Others must not be able to read the file.",
};
const CLIENT_CA: Key = Key {
    name: "client_ca",
    default: Default::None("\"/etc/forebay/clients.pem\""),
    doc: "With tls_cert: PEM file of the authorities that sign certificates of clients. Each client needs one (mutual TLS).",
};
const HOSTS: Key = Key {
    name: "hosts",
    default: Default::None("[\"gateway.example.org\"]"),
    doc: "On a loopback address only requests to localhost, an IP address or one of these names are answered, so\nthat no web site comes in under a name of its own. At most 16.",
};
const CONNECTIONS: Key = Key {
    name: "connections",
    default: Default::Is("128"),
    doc: "Connections at the same time, 1 to 1024; one more is told to come again.",
};
const REQUESTS_PER_SECOND: Key = Key {
    name: "requests_per_second",
    default: Default::Is("500"),
    doc: "Requests of one client address, 1 to 100000, with twice as many at once; one more gets status 429.",
};

pub const API: Section = Section {
    name: "api",
    many: false,
    doc: "HTTP: queries, Prometheus's queries, metrics and the page. Without this section nothing is served.\nEvery address that is answered: agent/node/docs/api.md.",
    keys: &[
        Key {
            name: "listen",
            default: Default::Is("\"127.0.0.1:7380\""),
            doc: LISTEN_DOC,
        },
        Key {
            name: "socket",
            default: Default::None("\"/run/forebay/api.sock\""),
            doc: "Unix socket that speaks HTTP, for the user that runs the agent: no token is asked for there.\nDefault api.sock in the data_dir of [agent]; \"off\": none.",
        },
        TOKEN_FILE,
        TLS_CERT,
        TLS_KEY,
        CLIENT_CA,
        HOSTS,
        CONNECTIONS,
        REQUESTS_PER_SECOND,
        Key {
            name: "reads",
            default: Default::Is("16"),
            doc: "Answers that are made at the same time, 1 to 64; one more gets status 503.",
        },
        Key {
            name: "streams",
            default: Default::Is("8"),
            doc: "Clients that follow streams at the same time, 0 to 12; one more gets status 503.",
        },
        Key {
            name: "request_time",
            default: Default::Is("\"30s\""),
            doc: "Longest time for an answer, 1s to 10m; streams that are followed have no end.",
        },
    ],
};

pub const UPSTREAM_API: Section = Section {
    name: "upstream_api",
    many: false,
    doc: "HTTP of a receiver: metrics, status, ledger and alarms. Without this section nothing is served.\nEvery address that is answered: agent/node/docs/api.md.",
    keys: &[
        Key {
            name: "listen",
            default: Default::Is("\"127.0.0.1:7381\""),
            doc: LISTEN_DOC,
        },
        Key {
            name: "socket",
            default: Default::None("\"/run/forebay/upstream-api.sock\""),
            doc: "Unix socket that speaks HTTP, for the user that runs the receiver: no token is asked for there.\nDefault api.sock in the data_dir of [upstream]; \"off\": none.",
        },
        TOKEN_FILE,
        TLS_CERT,
        TLS_KEY,
        CLIENT_CA,
        HOSTS,
        CONNECTIONS,
        REQUESTS_PER_SECOND,
        Key {
            name: "request_time",
            default: Default::Is("\"30s\""),
            doc: "Longest time for an answer, 1s to 10m.",
        },
    ],
};

/// The agent's section, where there is one.
pub fn api(
    source: &Source<'_>,
    folder: &Path,
    data_dir: &Path,
) -> Result<Option<ApiConfig>, ConfigError> {
    let table = source.one(&API)?;
    let Some(served) = served(&table, "[api]", folder, data_dir)? else {
        return Ok(None);
    };
    Ok(Some(ApiConfig {
        reads: count(&table, "reads", 1, READS_LIMIT)?,
        streams: count(&table, "streams", 0, STREAMS_LIMIT)?,
        ..served
    }))
}

/// The receiver's section, where there is one.
pub fn upstream_api(
    source: &Source<'_>,
    folder: &Path,
    data_dir: &Path,
) -> Result<Option<ApiConfig>, ConfigError> {
    let table = source.one(&UPSTREAM_API)?;
    served(&table, "[upstream_api]", folder, data_dir)
}

/// What both sections have.
fn served(
    table: &Table<'_>,
    section: &'static str,
    folder: &Path,
    data_dir: &Path,
) -> Result<Option<ApiConfig>, ConfigError> {
    if !table.is_given() {
        return Ok(None);
    }
    let rate = count(
        table,
        "requests_per_second",
        1,
        REQUESTS_PER_S_LIMIT as usize,
    )?;
    let api = ApiConfig {
        section,
        listen: listen(&table.need("listen")?)?,
        socket: match table.get("socket")? {
            None => Some(data_dir.join("api.sock")),
            Some(field) if field.text()? == "off" => None,
            Some(field) => Some(folder.join(field.text()?)),
        },
        token_file: path(table, folder, "token_file")?,
        tls: tls(table, folder)?,
        hosts: hosts(table)?,
        connections: count(table, "connections", 1, CONNECTIONS_LIMIT)?,
        requests_per_s: u32::try_from(rate).expect("up to REQUESTS_PER_S_LIMIT"),
        reads: 0,
        streams: 0,
        request_time: table
            .need("request_time")?
            .timer(REQUEST_TIME_MIN, REQUEST_TIME_MAX)?,
    };
    guarded(&api)?;
    Ok(Some(api))
}

fn count(table: &Table<'_>, name: &str, least: i64, most: usize) -> Result<usize, ConfigError> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let number = table.need(name)?.int(least, most)?;
    Ok(usize::try_from(number).expect("from 0 on"))
}

/// What other machines reach needs to know who asks.
fn guarded(api: &ApiConfig) -> Result<(), ConfigError> {
    let Some(listen) = &api.listen else {
        return Ok(());
    };
    let of_clients = api.tls.as_ref().and_then(|tls| tls.client_ca.as_ref());
    if listen.value.ip().is_loopback() || api.token_file.is_some() || of_clients.is_some() {
        return Ok(());
    }
    Err(listen.place.error(format!(
        "\"{}\" is reached from other machines, who could then read everything: give token_file, or \
         tls_cert, tls_key and client_ca; or listen on \"127.0.0.1:{}\"",
        listen.value,
        listen.value.port()
    )))
}

fn listen(field: &Field<'_>) -> Result<Option<Placed<SocketAddr>>, ConfigError> {
    let text = field.text()?;
    if text == "off" {
        return Ok(None);
    }
    let address = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}").parse(),
        None => text.parse(),
    };
    let value = address.map_err(|_| {
        field.bad("must be an address and a port, such as \"127.0.0.1:7380\" or \"[::1]:7380\", or \"off\"")
    })?;
    Ok(Some(Placed {
        value,
        place: field.place(),
    }))
}

fn tls(table: &Table<'_>, folder: &Path) -> Result<Option<ApiTls>, ConfigError> {
    let cert = path(table, folder, "tls_cert")?;
    let key = path(table, folder, "tls_key")?;
    let client_ca = path(table, folder, "client_ca")?;
    match (cert, key, client_ca) {
        (Some(cert), Some(key), client_ca) => Ok(Some(ApiTls {
            cert,
            key,
            client_ca,
        })),
        (None, None, None) => Ok(None),
        (Some(cert), None, _) => Err(cert.place.error("needs tls_key as well")),
        (None, Some(key), _) => Err(key.place.error("needs tls_cert as well")),
        (None, None, Some(ca)) => Err(ca.place.error("needs tls_cert and tls_key as well")),
    }
}

fn path(
    table: &Table<'_>,
    folder: &Path,
    name: &str,
) -> Result<Option<Placed<PathBuf>>, ConfigError> {
    let Some(field) = table.get(name)? else {
        return Ok(None);
    };
    Ok(Some(Placed {
        value: folder.join(field.text()?),
        place: field.place(),
    }))
}

fn hosts(table: &Table<'_>) -> Result<Vec<String>, ConfigError> {
    let Some(field) = table.get("hosts")? else {
        return Ok(Vec::new());
    };
    let names = field.texts(HOSTS_MAX)?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    if names
        .iter()
        .any(|name| name.is_empty() || !name.bytes().all(plain))
    {
        return Err(field.error("must be names of hosts, without a port"));
    }
    Ok(names.iter().map(|name| name.to_ascii_lowercase()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<ApiConfig>, String> {
        let source = Source::parse(Path::new("c.toml"), text).map_err(|error| error.to_string())?;
        api(&source, Path::new("/etc/fb"), Path::new("/data")).map_err(|error| error.to_string())
    }

    fn section(more: &str) -> String {
        format!("[api]\n{more}\n")
    }

    #[test]
    fn nothing_is_served_without_the_section() {
        assert_eq!(read(""), Ok(None));
        let api = read("[api]\n").unwrap().unwrap();
        assert_eq!(api.listen.unwrap().value.to_string(), "127.0.0.1:7380");
        assert_eq!(api.socket, Some(PathBuf::from("/data/api.sock")));
    }

    #[test]
    fn a_receiver_has_a_section_of_its_own() {
        let read = |text: &str| {
            let source = Source::parse(Path::new("c.toml"), text).unwrap();
            upstream_api(&source, Path::new("/etc/fb"), Path::new("/up"))
                .map_err(|error| error.to_string())
        };
        assert_eq!(read("[api]\n"), Ok(None));
        let served = read("[upstream_api]\n").unwrap().unwrap();
        assert_eq!(served.listen.unwrap().value.to_string(), "127.0.0.1:7381");
        assert_eq!(served.socket, Some(PathBuf::from("/up/api.sock")));
        assert_eq!((served.section, served.reads), ("[upstream_api]", 0));
        let said = read("[upstream_api]\nlisten = \"0.0.0.0:1\"\n").unwrap_err();
        assert!(said.contains("c.toml:2: [upstream_api] listen"), "{said}");
        // It reads nothing, and follows nothing.
        for key in ["reads", "streams"] {
            let said = read(&format!("[upstream_api]\n{key} = 1\n")).unwrap_err();
            assert!(said.contains(key), "{said}");
        }
    }

    #[test]
    fn other_machines_need_a_token_or_certificates() {
        let tls = "tls_cert = \"c\"\ntls_key = \"k\"\n";
        for (name, text, good) in [
            ("loopback", "listen = \"127.0.0.1:0\"".to_owned(), true),
            ("its other form", "listen = \"[::1]:0\"".to_owned(), true),
            ("by name", "listen = \"localhost:80\"".to_owned(), true),
            ("all of it", "listen = \"127.255.1.2:1\"".to_owned(), true),
            ("open", "listen = \"0.0.0.0:0\"".to_owned(), false),
            ("open 6", "listen = \"[::]:0\"".to_owned(), false),
            (
                "one of ours",
                "listen = \"192.168.1.1:80\"".to_owned(),
                false,
            ),
            (
                "mapped",
                "listen = \"[::ffff:127.0.0.1]:80\"".to_owned(),
                false,
            ),
            (
                "token",
                "listen = \"0.0.0.0:0\"\ntoken_file = \"t\"".to_owned(),
                true,
            ),
            ("tls alone", format!("listen = \"0.0.0.0:0\"\n{tls}"), false),
            (
                "mutual",
                format!("listen = \"0.0.0.0:0\"\n{tls}client_ca = \"a\""),
                true,
            ),
            ("off", "listen = \"off\"".to_owned(), true),
        ] {
            let got = read(&section(&text));
            match got {
                Ok(_) => assert!(good, "{name}"),
                Err(said) => {
                    assert!(!good, "{name}: {said}");
                    assert!(said.contains("c.toml:2: [api] listen"), "{said}");
                    assert!(said.contains("token_file"), "{said}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        for (name, text, word) in [
            ("no port", "listen = \"127.0.0.1\"", "a port"),
            ("a name", "listen = \"gateway:80\"", "address"),
            ("a key alone", "tls_key = \"k\"", "needs tls_cert"),
            ("a certificate alone", "tls_cert = \"k\"", "needs tls_key"),
            ("authorities alone", "client_ca = \"k\"", "needs tls_cert"),
            ("a url", "hosts = [\"http://x\"]", "names of hosts"),
            ("a port of a host", "hosts = [\"x:80\"]", "names of hosts"),
            ("connections 0", "connections = 0", "from 1 to 1024"),
            ("connections 1025", "connections = 1025", "from 1 to 1024"),
            ("rate 0", "requests_per_second = 0", "from 1 to 100000"),
            ("rate", "requests_per_second = 100001", "from 1 to 100000"),
            ("reads 0", "reads = 0", "from 1 to 64"),
            ("reads 65", "reads = 65", "from 1 to 64"),
            ("streams 13", "streams = 13", "from 0 to 12"),
            ("no time", "request_time = \"999ms\"", "from 1s to 600s"),
            ("too long", "request_time = \"601s\"", "from 1s to 600s"),
        ] {
            let said = read(&section(text)).expect_err(name);
            assert!(said.contains(word), "{name}: {said}");
        }
        for text in [
            "connections = 1",
            "connections = 1024",
            "requests_per_second = 100000",
            "reads = 64",
            "streams = 12",
            "streams = 0",
            "request_time = \"1s\"",
            "request_time = \"10m\"",
        ] {
            assert!(read(&section(text)).is_ok(), "{text}");
        }
        let most: Vec<String> = (0..HOSTS_MAX).map(|n| format!("\"h{n}\"")).collect();
        let most = most.join(",");
        assert!(read(&section(&format!("hosts = [{most}]"))).is_ok());
        assert!(read(&section(&format!("hosts = [{most},\"x\"]"))).is_err());
    }
}
