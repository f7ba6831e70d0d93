//! One try to reach a broker, step by step, for `forebay doctor`: name, port, TLS,
//! CONNECT. Under a client id of its own, with a fresh session and no will, so that the
//! agent's session is not touched.
//!
//! Always holds: nothing is published or subscribed; no secret is in what it says.
//! Bound: the time that is given.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::client::{self, MqttConfig, Session, SessionOptions};
use super::library::{self, Failure, Heard, Opening};
use super::security::{Material, Validity};
use super::settings::unread;
use crate::config::BrokerConfig;

/// How far a try came when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Files of certificates, keys and passwords.
    Files,
    Name,
    Tcp,
    Tls,
    Mqtt,
}

/// Why it failed, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub step: Step,
    pub text: String,
}

/// A broker that took us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    pub addresses: Vec<SocketAddr>,
    /// From the first byte to its answer.
    pub took: Duration,
    /// Seconds since 1970 at which its certificate ends, and ours.
    pub certificate_ends: Option<u64>,
    pub own_certificate_ends: Option<u64>,
}

/// Tries to reach a broker.
///
/// # Errors
/// Where and why that failed.
pub async fn probe(
    broker: &BrokerConfig,
    client_id: &str,
    limit: Duration,
) -> Result<Reached, Refused> {
    let deadline = Instant::now() + limit;
    let refused = |step, text: String| Refused { step, text };
    let config = unread(broker).map_err(|text| refused(Step::Name, text))?;
    let config = MqttConfig {
        client_id: client_id.to_owned(),
        connect_timeout: limit,
        ..config
    };
    let material =
        Material::load(&config).map_err(|error| refused(Step::Files, error.to_string()))?;
    let addresses = addresses(&config, deadline).await?;
    let late = || refused(Step::Tcp, format!("{} does not answer", broker.address));
    let tcp = timeout_at(deadline, TcpStream::connect(addresses.as_slice())).await;
    let tcp = tcp.map_err(|_| late())?;
    let tcp = tcp.map_err(|error| refused(Step::Tcp, format!("{}: {error}", broker.address)))?;
    let certificate_ends = look_at_certificate(tcp, &config, &material, deadline).await;
    let since = Instant::now();
    connect(&config, &material, deadline).await?;
    Ok(Reached {
        addresses,
        took: since.elapsed(),
        certificate_ends,
        own_certificate_ends: material
            .validity()
            .map(|validity| validity.not_after.as_secs()),
    })
}

async fn addresses(config: &MqttConfig, deadline: Instant) -> Result<Vec<SocketAddr>, Refused> {
    let refused = |text: String| Refused {
        step: Step::Name,
        text,
    };
    let (host, port) = (config.host.as_str(), config.port);
    let found = timeout_at(deadline, tokio::net::lookup_host((host, port))).await;
    let found = found.map_err(|_| refused(format!("nobody knows the name {host} in time")))?;
    let found =
        found.map_err(|error| refused(format!("the name {host} has no address: {error}")))?;
    let found: Vec<SocketAddr> = found.collect();
    if found.is_empty() {
        return Err(refused(format!("the name {host} has no address")));
    }
    Ok(found)
}

/// When the broker's certificate ends. What is wrong with it says the connection itself.
async fn look_at_certificate(
    tcp: TcpStream,
    config: &MqttConfig,
    material: &Material,
    deadline: Instant,
) -> Option<u64> {
    let connector = TlsConnector::from(Arc::clone(&material.tls()?));
    let name = ServerName::try_from(config.host.clone()).ok()?;
    let tls = timeout_at(deadline, connector.connect(name, tcp))
        .await
        .ok()?
        .ok()?;
    let (_, session) = tls.get_ref();
    let leaf = session.peer_certificates()?.first()?;
    Validity::of(leaf).map(|validity| validity.not_after.as_secs())
}

async fn connect(
    config: &MqttConfig,
    material: &Material,
    deadline: Instant,
) -> Result<(), Refused> {
    let (requests, mut connection) = library::open(&Opening {
        config,
        material,
        session: SessionOptions {
            session: Session::Fresh,
            receive_max: 1,
            inflight_max: 1,
            manual_acks: false,
        },
        will: None,
        requests_max: 4,
    });
    let mut stood = false;
    loop {
        let heard = match timeout_at(deadline, connection.next()).await {
            Ok(heard) => heard,
            Err(_) => Err(Failure::Silent),
        };
        match heard {
            Ok(Heard::Accepted(_)) => {
                stood = true;
                if requests.goodbye().is_err() {
                    return Ok(());
                }
            }
            Ok(Heard::Goodbye) => return Ok(()),
            Ok(_) => {}
            // It was there: how the connection ends is no matter.
            Err(_) if stood => return Ok(()),
            Err(failure) => {
                let step = match &failure {
                    Failure::Tls(_) => Step::Tls,
                    Failure::Silent
                    | Failure::NoPong
                    | Failure::Refused(_)
                    | Failure::Closed
                    | Failure::Dismissed { .. }
                    | Failure::Websocket(_)
                    | Failure::Nonsense(_)
                    | Failure::Other(_) => Step::Mqtt,
                };
                let about = (false, client::local_clock());
                let text = failure.sentence(config, material, about);
                return Err(Refused { step, text });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::broker::EmbeddedBroker;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_broker_is_reached_and_its_clients_stay() {
        let broker = EmbeddedBroker::start().unwrap();
        let config = BrokerConfig::plain(&format!("127.0.0.1:{}", broker.port()), "agent");
        let reached = probe(&config, "doctor", LIMIT).await.unwrap();
        assert_eq!(reached.addresses.len(), 1);
        assert_eq!(
            (reached.certificate_ends, reached.own_certificate_ends),
            (None, None)
        );
        broker.stop().await;
    }

    #[tokio::test]
    async fn each_step_is_told() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let deaf = listener.local_addr().unwrap().to_string();
        let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = gone.local_addr().unwrap().to_string();
        drop(gone);
        for (name, address, limit, want) in [
            ("nobody listens", closed.as_str(), LIMIT, Step::Tcp),
            (
                "no such name",
                "no-such-host.invalid:1883",
                LIMIT,
                Step::Name,
            ),
            (
                "no answer",
                deaf.as_str(),
                Duration::from_secs(1),
                Step::Mqtt,
            ),
        ] {
            let refused = probe(&BrokerConfig::plain(address, "c"), "doctor", limit).await;
            assert_eq!(refused.map_err(|refused| refused.step), Err(want), "{name}");
        }
    }
}
