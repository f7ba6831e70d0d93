//! Who gets an answer, and how much a request may be.

use std::sync::Mutex;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::super::limits::{
    ANSWERS_KIB_MAX, BURST_S, HEADER_BYTES_MAX, HEADER_TIME_MAX, HEADERS_MAX, READ_BUFFER_BYTES,
    STALL_MAX, URL_BYTES_MAX,
};
use super::super::{App, Kind, page};
use super::*;

#[test]
fn a_url_is_taken_up_to_its_limit() {
    run(async {
        let rig = Rig::new("").await;
        for (len, status) in [
            (URL_BYTES_MAX - 1, 404),
            (URL_BYTES_MAX, 404),
            (URL_BYTES_MAX + 1, 414),
        ] {
            let path = "/".repeat(len);
            assert_eq!(rig.get(&path).await.status, status, "{len}");
        }
        rig.end().await;
    });
}

#[test]
fn headers_are_taken_up_to_their_limits() {
    run(async {
        let rig = Rig::new("").await;
        // What else is there: host: localhost, connection: close, x.
        let others = "hostlocalhostconnectionclosex".len();
        for (len, status) in [
            (HEADER_BYTES_MAX - 1, 200),
            (HEADER_BYTES_MAX, 200),
            (HEADER_BYTES_MAX + 1, 431),
        ] {
            let header = format!("X: {}\r\n", "y".repeat(len - others));
            assert_eq!(rig.with("/healthz", &header).await.status, status, "{len}");
        }
        for (count, status) in [
            (HEADERS_MAX - 1, 200),
            (HEADERS_MAX, 200),
            (HEADERS_MAX + 1, 431),
        ] {
            let more: String = (0..count - 2).map(|n| format!("X{n}: y\r\n")).collect();
            let got = rig.with("/healthz", &more).await;
            assert_eq!(got.status, status, "{count}");
            assert!(
                status == 200 || got.detail().contains("send fewer"),
                "{got:?}"
            );
        }
        rig.end().await;
    });
}

/// Sends bytes as far as they are taken; what comes back.
async fn push(rig: &Rig, bytes: Vec<u8>) -> Got {
    let (mut read, mut write) = rig.connect().await.into_split();
    let sent = tokio::spawn(async move {
        // One that is answered before its end is taken no further.
        let _ = write.write_all(&bytes).await;
        write
    });
    let mut all = Vec::new();
    let mut part = [0; 4096];
    while let Ok(count @ 1..) = read.read(&mut part).await {
        all.extend_from_slice(&part[..count]);
    }
    let _ = sent.await;
    Got::of(&String::from_utf8_lossy(&all))
}

#[test]
fn what_is_no_request_is_told_so() {
    run(async {
        let rig = Rig::new("").await;
        // As long as is read, and no end of the head in it.
        let filled = |begin: &str| {
            let mut bytes = begin.as_bytes().to_vec();
            bytes.resize(READ_BUFFER_BYTES, b'y');
            bytes
        };
        for (name, bytes, status, says) in [
            (
                "a long head",
                filled("GET / HTTP/1.1\r\nX: "),
                431,
                "headers",
            ),
            ("no HTTP", b"hello\r\n\r\n".to_vec(), 400, "HTTP/1.1"),
            ("no version", b"GET /\r\n\r\n".to_vec(), 400, "HTTP/1.1"),
            (
                "TLS",
                b"\x16\x03\x01\x02\x00\x01\x00\x01".to_vec(),
                400,
                "HTTP/1.1",
            ),
            (
                "a header of no name",
                b"GET / HTTP/1.1\r\n: x\r\n\r\n".to_vec(),
                400,
                "headers",
            ),
        ] {
            let got = push(&rig, bytes).await;
            assert_eq!(got.status, status, "{name}: {got:?}");
            assert!(
                got.head.contains("application/problem+json"),
                "{name}: {got:?}"
            );
            assert!(got.detail().contains(says), "{name}: {got:?}");
        }
        rig.end().await;
    });
}

#[test]
fn a_client_asks_as_often_as_it_may() {
    run(async {
        let rig = Rig::new("requests_per_second = 1").await;
        for n in 0..BURST_S {
            assert_eq!(rig.get("/healthz").await.status, 200, "{n}");
        }
        let got = rig.get("/healthz").await;
        assert_eq!(got.status, 429);
        assert!(got.head.contains("retry-after: 1"), "{got:?}");
        assert!(got.detail().contains("requests_per_second"), "{got:?}");
        rig.end().await;
    });
}

/// A connection that was answered, so that it has its place, and is kept.
async fn held(rig: &Rig) -> (TcpStream, u16) {
    let mut stream = rig.connect().await;
    let ask = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // One that is refused may be closed before it has said anything.
    let _ = stream.write_all(ask.as_bytes()).await;
    let mut head = [0; 12];
    let _ = stream.read_exact(&mut head).await;
    let status = std::str::from_utf8(&head[9..]).ok().map(str::parse);
    (stream, status.and_then(Result::ok).unwrap_or(0))
}

#[test]
fn connections_are_taken_up_to_their_limit_and_again_when_one_goes() {
    const MOST: usize = 3;
    run(async {
        let rig = Rig::new(&format!("connections = {MOST}")).await;
        let mut kept = Vec::new();
        for (count, status) in [(1, 200), (MOST - 1, 200), (MOST, 200), (MOST + 1, 503)] {
            while kept.len() < count - 1 {
                kept.push(held(&rig).await.0);
            }
            let (stream, got) = held(&rig).await;
            assert_eq!(got, status, "{count}");
            if status == 200 {
                kept.push(stream);
            }
        }
        let got = exchange(rig.connect().await, "").await;
        assert!(got.detail().contains("connections in [api]"), "{got:?}");
        // Both the address and the socket count.
        let socket = rig.dir.path().join("data/api.sock");
        let stream = tokio::net::UnixStream::connect(&socket).await.unwrap();
        assert_eq!(exchange(stream, "").await.status, 503);
        kept.pop();
        // It is let go a moment later.
        loop {
            let (stream, got) = held(&rig).await;
            if got == 200 {
                kept.push(stream);
                break;
            }
        }
        assert_eq!(held(&rig).await.1, 503);
        rig.end().await;
    });
}

#[test]
fn answers_and_what_they_hold_have_their_places() {
    run(async {
        let rig = Rig::new("reads = 2").await;
        let served = rig.config.api.as_ref().unwrap();
        let app = App::new(served, rig.agent.handle());
        let places = [app.place(), app.place()];
        assert!(places.iter().all(Result::is_ok));
        let busy = app.place().unwrap_err();
        assert_eq!((busy.kind, busy.retry_after), (Kind::Busy, Some(1)));
        drop(places);
        assert!(app.place().is_ok());
        for (name, kib, good) in [
            ("less", ANSWERS_KIB_MAX - 1, true),
            ("all", ANSWERS_KIB_MAX, true),
            ("more", ANSWERS_KIB_MAX + 1, false),
        ] {
            assert_eq!(app.hold((kib - 1) * 1024).is_ok(), good, "{name}");
        }
        rig.end().await;
    });
}

#[test]
fn web_sites_get_nothing() {
    run(async {
        let rig = Rig::new("hosts = [\"gw.example\"]").await;
        let port = rig.address.port();
        for (name, headers, status) in [
            ("an address", format!("Host: 127.0.0.1:{port}\r\n"), 200),
            ("its other form", format!("Host: [::1]:{port}\r\n"), 200),
            ("a name of ours", "Host: forebay.localhost\r\n".into(), 200),
            ("of the config", "Host: GW.example:80\r\n".into(), 200),
            ("rebound", "Host: evil.example\r\n".into(), 421),
            ("near", "Host: localhost.evil.example\r\n".into(), 421),
            ("no host", "Host: \r\n".into(), 421),
            ("a page", "Origin: http://evil.example\r\n".into(), 403),
            ("no origin", "Origin: null\r\n".into(), 403),
            ("our page", "Origin: http://localhost\r\n".into(), 200),
            ("a picture", "Sec-Fetch-Site: cross-site\r\n".into(), 403),
            (
                "a link",
                "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n".into(),
                200,
            ),
            ("our script", "Sec-Fetch-Site: same-origin\r\n".into(), 200),
        ] {
            let got = rig.with("/api/v1/status", &headers).await;
            assert_eq!(got.status, status, "{name}: {got:?}");
            assert!(!got.head.contains("access-control"), "{name}");
            assert!(
                got.head.contains("x-content-type-options: nosniff"),
                "{name}"
            );
        }
        rig.end().await;
    });
}

#[test]
fn a_token_is_asked_for_over_the_network_only() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let token = "0123456789abcdef0123";
        secret_file(dir.path(), "token", &format!("{token}\n"));
        let path = dir.path().join("token");
        let rig = Rig::new(&format!("token_file = \"{}\"", path.display())).await;
        for (name, headers, status) in [
            ("none", String::new(), 401),
            ("right", format!("Authorization: Bearer {token}\r\n"), 200),
            (
                "by its scheme",
                format!("Authorization: bearer {token}\r\n"),
                200,
            ),
            ("longer", format!("Authorization: Bearer {token}0\r\n"), 401),
            (
                "shorter",
                format!("Authorization: Bearer {}\r\n", &token[1..]),
                401,
            ),
            ("empty", "Authorization: Bearer\r\n".into(), 401),
            ("basic", format!("Authorization: Basic {token}\r\n"), 401),
        ] {
            let got = rig.with("/api/v1/status", &headers).await;
            assert_eq!(got.status, status, "{name}");
            let asks = got.head.contains("www-authenticate: bearer");
            assert_eq!(asks, status == 401, "{name}");
            assert!(!got.body.contains(&token[1..]), "{name}: {got:?}");
        }
        assert_eq!(rig.get("/healthz").await.status, 200);
        let socket = rig.dir.path().join("data/api.sock");
        let stream = tokio::net::UnixStream::connect(&socket).await.unwrap();
        assert_eq!(
            exchange(stream, &get("/api/v1/status", "")).await.status,
            200
        );
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        rig.end().await;
        assert!(!socket.exists());
    });
}

#[test]
fn an_answer_says_of_which_run_it_is_to_who_may_ask() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let token = "0123456789abcdef0123";
        secret_file(dir.path(), "token", token);
        let more = format!("token_file = \"{}\"", dir.path().join("token").display());
        let may = format!("Authorization: Bearer {token}\r\n");
        let mut runs = Vec::new();
        for _ in 0..2 {
            let rig = Rig::new(&more).await;
            let value = |got: &Got, name: &str| {
                let line = got.head.lines().find_map(|line| line.strip_prefix(name));
                line.map(str::to_owned)
            };
            for path in ["/api/v1/status", "/api/v1/rolling?window=60s"] {
                let got = rig.with(path, &may).await;
                assert_eq!(value(&got, "forebay-page: "), Some(page::version().into()));
                runs.extend(value(&got, "forebay-run: "));
            }
            for path in ["/api/v1/status", "/healthz", "/readyz", "/"] {
                let got = rig.get(path).await;
                assert_eq!(value(&got, "forebay-run: "), None, "{path}");
            }
            rig.end().await;
        }
        let [first, again, other, _] = &runs[..] else {
            panic!("four answers: {runs:?}")
        };
        assert_eq!(first, again);
        assert_ne!(first, other);
    });
}

/// Files are looked at for each request and connection.
const LOOKS: Patience = Patience {
    header: HEADER_TIME_MAX,
    stall: STALL_MAX,
    look: Duration::ZERO,
};

#[test]
fn a_token_is_renewed_while_the_agent_runs() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let [old, new] = ["0123456789abcdef", "fedcba9876543210"];
        secret_file(dir.path(), "token", old);
        let path = dir.path().join("token");
        let more = format!("token_file = \"{}\"", path.display());
        let rig = Rig::patient(LOOKS, &more).await;
        let status = async |token: &str| {
            let header = format!("Authorization: Bearer {token}\r\n");
            rig.with("/api/v1/status", &header).await.status
        };
        assert_eq!((status(old).await, status(new).await), (200, 401));
        // Too short to do: the one before stays.
        secret_file(dir.path(), "token", "short");
        assert_eq!((status(old).await, status(new).await), (200, 401));
        secret_file(dir.path(), "token", new);
        assert_eq!((status(old).await, status(new).await), (401, 200));
        rig.end().await;
    });
}

/// An authority, and a certificate that it signed with its key.
fn certificates(name: &str) -> (String, String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::from_params(&params, &key);
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let leaf = leaf.signed_by(&leaf_key, &issuer).unwrap();
    (authority.pem(), leaf.pem(), leaf_key.serialize_pem())
}

#[test]
fn clients_without_a_certificate_get_nothing_over_mutual_tls() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (ca, cert, key) = certificates("localhost");
        let (clients, client, client_key) = certificates("a-client");
        for (name, text) in [("c.pem", &cert), ("c.key", &key), ("ca.pem", &clients)] {
            secret_file(dir.path(), name, text);
        }
        let at = dir.path().display();
        let rig = Rig::new(&format!(
            "tls_cert = \"{at}/c.pem\"\ntls_key = \"{at}/c.key\"\nclient_ca = \"{at}/ca.pem\""
        ))
        .await;
        assert!(rig.api.page().unwrap().starts_with("https://"));
        let ours = (client.as_str(), client_key.as_str());
        for (name, with_one, status) in [("with", Some(ours), 200), ("without", None, 0)] {
            assert_eq!(over_tls(&rig, &ca, with_one).await, status, "{name}");
        }
        rig.end().await;
    });
}

/// Asks for the status as one that trusts `ca` and may have a certificate with its key;
/// 0: there is no answer.
async fn over_tls(rig: &Rig, ca: &str, with_one: Option<(&str, &str)>) -> u16 {
    let mut roots = RootCertStore::empty();
    let trusted = CertificateDer::from_pem_slice(ca.as_bytes()).unwrap();
    roots.add(trusted).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match with_one {
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    let server = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(server, rig.connect().await);
    match stream.await {
        Ok(stream) => exchange(stream, &get("/api/v1/status", "")).await.status,
        Err(_) => 0,
    }
}

#[test]
fn a_certificate_is_renewed_while_the_agent_runs() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (old, cert, key) = certificates("localhost");
        let (new, new_cert, new_key) = certificates("localhost");
        secret_file(dir.path(), "c.pem", &cert);
        secret_file(dir.path(), "c.key", &key);
        let at = dir.path().display();
        let more = format!("tls_cert = \"{at}/c.pem\"\ntls_key = \"{at}/c.key\"");
        let rig = Rig::patient(LOOKS, &more).await;
        for (name, file, text, of_new) in [
            ("as it was", "c.key", key.as_str(), false),
            ("nonsense", "c.pem", "no certificate", false),
            ("a certificate without its key", "c.pem", &new_cert, false),
            ("both", "c.key", &new_key, true),
        ] {
            secret_file(dir.path(), file, text);
            for (ca, want) in [(&old, !of_new), (&new, of_new)] {
                let status = over_tls(&rig, ca, None).await;
                assert_eq!(status == 200, want, "{name}: {status}");
            }
        }
        rig.end().await;
    });
}

#[test]
fn a_port_that_is_taken_is_refused_or_left_to_another() {
    run(async {
        let rig = Rig::new("").await;
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        let say: Say = Arc::new(move |text: &str| heard.lock().unwrap().push_str(text));
        let mut served = rig.config.api.clone().unwrap();
        served.socket = None;
        served.listen.as_mut().unwrap().value = rig.address;
        let start = |taken| Api::start(&served, rig.agent.handle(), taken, &say);
        let error = start(Taken::Refuse).await.unwrap_err();
        assert!(error.contains("another program listens there"), "{error}");
        let other = start(Taken::AnyPort).await.unwrap();
        assert_ne!(other.address(), Some(rig.address));
        rig.end().await;
    });
}
