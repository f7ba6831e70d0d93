//! Connections by TLS and websockets to Mosquitto, by both versions of MQTT: what
//! carries messages, what does not, and what is said then.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_node::config::{Identity, PasswordFrom, Place, Placed, Protocol, TlsKeys, Transport};
use forebay_node::mqtt::client::{Login, MqttConfig};
use forebay_node::mqtt::publisher::LinkEvent;
use forebay_tests::certificates::{Authority, EXPIRED, NOT_YET, Signed, VALID, Years, write};
use forebay_tests::mosquitto::Mosquitto;
use tempfile::TempDir;

use super::support::{Publisher, Subscriber, mqtt};

const DATA: &str = "forebay/v1/g/data/readings/0";
const VERSIONS: [Protocol; 2] = [Protocol::V5, Protocol::V311];
const LOCAL: &[&str] = &["127.0.0.1", "localhost"];

/// A folder with the files of both sides.
struct Site {
    dir: TempDir,
    authority: Authority,
}

fn placed<T>(value: T, key: &str) -> Placed<T> {
    Placed {
        value,
        place: Place {
            file: "forebay.toml".into(),
            line: Some(1),
            key: format!("[forward] {key}"),
        },
    }
}

impl Site {
    fn new() -> Self {
        let authority = Authority::new("site");
        let dir = TempDir::new().unwrap();
        write(dir.path(), "ca.pem", &authority.pem());
        Self { dir, authority }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Lines of Mosquitto's listener with this certificate.
    fn listener(&self, server: &Signed) -> String {
        let (cert, key) = server.write(self.dir.path(), "server");
        format!("certfile {}\nkeyfile {}\n", cert.display(), key.display())
    }

    fn broker(&self, years: Years, more: &str) -> Mosquitto {
        let server = self.authority.server(LOCAL, years);
        Mosquitto::start_with(&format!("{}{more}", self.listener(&server)))
    }

    /// A broker of websockets over TLS.
    fn websocket(&self, more: &str) -> Mosquitto {
        let server = self.authority.server(LOCAL, VALID);
        Mosquitto::start_with(&format!("websocket\n{}{more}", self.listener(&server)))
    }

    /// Lines of a listener that asks clients for a certificate.
    fn mutual(&self) -> String {
        let ca = self.path("ca.pem");
        format!("cafile {}\nrequire_certificate true\n", ca.display())
    }

    /// A client that trusts our authority.
    fn client(&self, port: u16) -> MqttConfig {
        MqttConfig {
            transport: Transport::Tls,
            tls: TlsKeys {
                ca_file: Some(placed(self.path("ca.pem"), "ca_file")),
                ..TlsKeys::default()
            },
            files_check: Duration::from_millis(20),
            ..mqtt(port, "gateway-1")
        }
    }

    /// The same, with a certificate of its own.
    fn identified(&self, port: u16, own: &Signed) -> MqttConfig {
        let mut config = self.client(port);
        config.tls.identity = Some(identity(self.dir.path(), own));
        config
    }
}

fn identity(dir: &Path, own: &Signed) -> Identity {
    let (cert, key) = own.write(dir, "own");
    Identity {
        cert_file: placed(cert, "cert_file"),
        key_file: placed(key, "key_file"),
    }
}

/// Messages go from a publisher to a subscriber, each with these settings.
async fn carries(config: &MqttConfig) {
    const COUNT: u64 = 300;
    let upstream = MqttConfig {
        client_id: "upstream-1".into(),
        ..config.clone()
    };
    let mut upstream = Subscriber::with(upstream, 64, &["forebay/v1/+/data/#"]);
    upstream.connected().await;
    let mut publisher = Publisher::with(config.clone(), 50, &[]);
    let sending = tokio::spawn(async move {
        publisher.send_all(DATA, COUNT).await;
        publisher.handle.stop().await;
    });
    for n in 0..COUNT {
        let (token, topic, payload) = upstream.message().await;
        assert_eq!((topic.as_str(), payload), (DATA, n.to_string()));
        upstream.handle.ack(token).unwrap();
    }
    sending.await.unwrap();
    upstream.handle.stop().await;
}

/// Why this client gets no connection.
async fn refused(config: &MqttConfig) -> String {
    let mut publisher = Publisher::with(config.clone(), 10, &[]);
    let mut event = publisher.next().await;
    // It says who must do what first.
    if matches!(event, LinkEvent::Denied(_)) {
        event = publisher.next().await;
    }
    match event {
        LinkEvent::Disconnected { reason, .. } => reason,
        event @ (LinkEvent::Connected { .. }
        | LinkEvent::Acked { .. }
        | LinkEvent::Refused { .. }
        | LinkEvent::SubscriptionRefused { .. }
        | LinkEvent::Denied(_)
        | LinkEvent::Note(_)
        | LinkEvent::Message { .. }) => panic!("{event:?}"),
    }
}

fn by(protocol: Protocol, config: MqttConfig) -> MqttConfig {
    MqttConfig { protocol, ..config }
}

#[tokio::test]
async fn every_transport_carries_messages_by_both_versions() {
    let site = Site::new();
    let plain = Mosquitto::start();
    let tls = site.broker(VALID, "");
    let ws = Mosquitto::start_with("websocket\n");
    let wss = site.websocket("");
    for protocol in VERSIONS {
        carries(&by(protocol, mqtt(plain.port(), "gateway-1"))).await;
        carries(&by(protocol, site.client(tls.port()))).await;
        carries(&MqttConfig {
            transport: Transport::Ws,
            ..by(protocol, mqtt(ws.websocket_port(), "gateway-1"))
        })
        .await;
        carries(&MqttConfig {
            transport: Transport::Wss,
            ..by(protocol, site.client(wss.websocket_port()))
        })
        .await;
    }
}

#[tokio::test]
async fn a_certificate_of_ours_lets_us_in() {
    let site = Site::new();
    let broker = site.broker(VALID, &site.mutual());
    let own = site.authority.client("gw-1", VALID);
    for protocol in VERSIONS {
        carries(&by(protocol, site.identified(broker.port(), &own))).await;
    }
    let broker = site.websocket(&site.mutual());
    carries(&MqttConfig {
        transport: Transport::Wss,
        ..site.identified(broker.websocket_port(), &own)
    })
    .await;
}

#[tokio::test]
async fn without_a_good_certificate_of_ours_it_is_said_why() {
    let site = Site::new();
    let broker = site.broker(VALID, &site.mutual());
    let stranger = Authority::new("elsewhere").client("gw-1", VALID);
    let expired = site.authority.client("gw-1", EXPIRED);
    let early = site.authority.client("gw-1", NOT_YET);
    let port = broker.port();
    for protocol in VERSIONS {
        let said = refused(&by(protocol, site.client(port))).await;
        assert!(
            said.contains("asks for a certificate of ours"),
            "none: {said}"
        );
        for (name, own, want) in [
            ("a stranger's", &stranger, "does not take our certificate"),
            (
                "expired",
                &expired,
                "our certificate (cert_file) ended at 2021-01-01T00:00:00Z",
            ),
            (
                "of the future",
                &early,
                "our certificate (cert_file) is valid only from 2098-01-01",
            ),
        ] {
            let said = refused(&by(protocol, site.identified(port, own))).await;
            assert!(said.contains(want), "{name}: {said}");
        }
    }
}

#[tokio::test]
async fn a_broker_that_cannot_be_trusted_is_said_why() {
    let site = Site::new();
    let server = |years| site.authority.server(LOCAL, years);
    let elsewhere = Authority::new("elsewhere").server(LOCAL, VALID);
    let named = site.authority.server(&["broker.example.org"], VALID);
    for (name, certificate, want) in [
        (
            "another authority",
            elsewhere,
            "is not signed by any authority that we trust",
        ),
        (
            "expired",
            server(EXPIRED),
            "the broker's certificate ended at 2021-01-01T00:00:00Z",
        ),
        (
            "of the future",
            server(NOT_YET),
            "valid only from 2098-01-01T00:00:00Z",
        ),
        ("another name", named, "is not for 127.0.0.1 but for"),
    ] {
        let broker = Mosquitto::start_with(&site.listener(&certificate));
        for protocol in VERSIONS {
            let said = refused(&by(protocol, site.client(broker.port()))).await;
            assert!(said.contains(want), "{name}: {said}");
        }
    }
    let broker = Mosquitto::start_with(
        &site.listener(&site.authority.server(&["broker.example.org"], VALID)),
    );
    let mut config = site.client(broker.port());
    config.tls.server_name = Some(placed("broker.example.org".to_owned(), "server_name"));
    carries(&config).await;
    // The system's authorities know nothing of ours.
    config.tls.ca_file = None;
    let said = refused(&config).await;
    assert!(
        said.contains("certificate authorities") || said.contains("not signed by"),
        "{said}"
    );
}

#[tokio::test]
async fn a_wrong_port_is_said_to_be_one() {
    let site = Site::new();
    let (plain, tls) = (Mosquitto::start(), site.broker(VALID, ""));
    let ws = Mosquitto::start_with("websocket\n");
    for protocol in VERSIONS {
        let said = refused(&by(protocol, site.client(plain.port()))).await;
        assert!(said.contains("is this the broker's port for TLS"), "{said}");
        let websocket = |port| MqttConfig {
            transport: Transport::Ws,
            connect_timeout: Duration::from_secs(1),
            ..by(protocol, mqtt(port, "gateway-1"))
        };
        let said = refused(&websocket(plain.port())).await;
        assert!(said.contains("ws_path (\"/mqtt\")"), "{said}");
        for config in [
            mqtt(tls.port(), "gateway-1"),
            mqtt(ws.websocket_port(), "gateway-1"),
        ] {
            let said = refused(&MqttConfig {
                connect_timeout: Duration::from_secs(1),
                ..by(protocol, config)
            })
            .await;
            assert!(said.contains("transport"), "{said}");
        }
    }
}

fn login(site: &Site, password: &str) -> Login {
    let file = write(site.dir.path(), "password", password);
    Login {
        user: "gw-1".into(),
        password: Some(PasswordFrom::File(placed(file, "password_file"))),
    }
}

/// Lines of a broker that lets in gw-1 with "s3cret" only.
fn passwords(site: &Site) -> String {
    let file = site.path("passwords");
    let made = std::process::Command::new("mosquitto_passwd")
        .args(["-b", "-c"])
        .arg(&file)
        .args(["gw-1", "s3cret"])
        .status()
        .expect("mosquitto_passwd comes with mosquitto: apt-get install mosquitto");
    assert!(made.success());
    format!("allow_anonymous false\npassword_file {}\n", file.display())
}

#[tokio::test]
async fn a_password_is_read_anew_for_each_attempt() {
    let site = Site::new();
    let broker = Mosquitto::start_with(&passwords(&site));
    for protocol in VERSIONS {
        let config = MqttConfig {
            login: Some(login(&site, "s3cret")),
            ..by(protocol, mqtt(broker.port(), "gateway-1"))
        };
        carries(&config).await;
        login(&site, "wr0ng");
        let mut publisher = Publisher::with(config.clone(), 10, &[]);
        let said = publisher.disconnected().await;
        assert!(said.contains("does not let this client in"), "{said}");
        assert!(!said.contains("wr0ng"), "{said}");
        login(&site, "s3cret");
        publisher.connected().await;
        std::fs::remove_file(site.path("password")).unwrap();
        let said = refused(&config).await;
        let want = "forebay.toml:1: [forward] password_file: ";
        assert!(
            said.starts_with(want) && said.contains("No such file"),
            "{said}"
        );
    }
}

/// Lines of a broker at which a client may use the topics of its certificate's name.
fn topics_by_certificate(site: &Site) -> String {
    let rights = "pattern readwrite forebay/v1/%c/#\npattern readwrite forebay/v1/%u/#\n\
                  user watcher\ntopic readwrite #\n";
    let file = write(site.dir.path(), "rights", rights);
    let file = file.display();
    format!(
        "{}use_identity_as_username true\nacl_file {file}\n",
        site.mutual()
    )
}

/// A renewed certificate is in use without a restart, and nobody takes the gateway
/// for away meanwhile.
#[tokio::test]
async fn a_renewed_certificate_is_taken_up() {
    let site = Site::new();
    let broker = site.broker(VALID, &topics_by_certificate(&site));
    let elsewhere = TempDir::new().unwrap();
    for (protocol, gateway) in [(Protocol::V5, "gateway-5"), (Protocol::V311, "gateway-3")] {
        let old = site.authority.client("old", VALID);
        let config = MqttConfig {
            client_id: gateway.into(),
            ..by(protocol, site.identified(broker.port(), &old))
        };
        let mut watching = MqttConfig {
            client_id: format!("upstream-of-{gateway}"),
            ..config.clone()
        };
        let watcher = site.authority.client("watcher", VALID);
        watching.tls.identity = Some(identity(elsewhere.path(), &watcher));
        let status = format!("forebay/v1/{gateway}/status");
        let filters = [status.as_str(), "forebay/v1/new/data"];
        let mut watcher = Subscriber::with(watching, 10, &filters);
        watcher.connected().await;
        let mut publisher = Publisher::with(config, 10, &[]);
        let (conn, _) = publisher.connected().await;
        publisher.send(conn, 0, "forebay/v1/new/data", b"before".to_vec());
        let new = site.authority.client("new", VALID);
        // Half of a change: the connection stands, and it is said.
        write(site.dir.path(), "own.pem", &new.cert);
        let said = loop {
            if let LinkEvent::Note(said) = publisher.next().await {
                break said;
            }
        };
        assert!(said.contains("is not the key of the certificate"), "{said}");
        write(site.dir.path(), "own.key", &new.key);
        let said = publisher.disconnected().await;
        assert!(said.contains("files of TLS have changed"), "{said}");
        let (conn, _) = publisher.connected().await;
        publisher.send(conn, 0, "forebay/v1/new/data", b"after".to_vec());
        // What the old certificate sent there is not taken.
        for want in ["online", "online", "after"] {
            let (token, _, payload) = watcher.message().await;
            assert_eq!(payload, want);
            watcher.handle.ack(token).unwrap();
        }
        publisher.handle.stop().await;
        watcher.handle.stop().await;
    }
}

/// An authority that is replaced, with the broker's certificate.
#[tokio::test]
async fn a_renewed_authority_is_taken_up() {
    let site = Site::new();
    let mut broker = site.broker(VALID, "");
    let mut publisher = Publisher::with(site.client(broker.port()), 10, &[]);
    publisher.connected().await;
    let next = Authority::new("next");
    next.server(LOCAL, VALID).write(site.dir.path(), "server");
    broker.restart();
    let said = loop {
        let said = publisher.disconnected().await;
        if said.contains("authority") {
            break said;
        }
    };
    assert!(
        said.contains("is not signed by any authority that we trust"),
        "{said}"
    );
    write(site.dir.path(), "ca.pem", &next.pem());
    publisher.connected().await;
}
