//! The one face of the client library, whose two halves (MQTT 5 and 3.1.1) share
//! neither types nor habits: requests in, what was heard out.
//!
//! Always holds: a panic in the library, say on bytes that it cannot take, is an
//! error of the connection and not of the process. Bound: `requests_max` requests.
//! Keeps no state and knows no topics.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use forebay_core::forward::Refusal;
use rumqttc::{NetworkOptions, Outgoing};

use super::client::{MqttConfig, SessionOptions, Will};
use super::limits::SEND_BUFFER_BYTES;
use super::security::Material;
use crate::config::{Protocol, Transport};

mod failure;
mod v3;
mod v5;

pub(super) use self::failure::Failure;

/// Requests to the library; none of them waits.
#[derive(Debug)]
pub(super) enum Requests {
    V5(rumqttc::v5::AsyncClient),
    V3(rumqttc::AsyncClient),
}

/// The library's connection, which lives as long as it is polled.
pub(super) enum Connection {
    V5(rumqttc::v5::EventLoop),
    V3(rumqttc::EventLoop),
}

/// What the broker agreed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) session_present: bool,
    /// Messages that may be out unacked.
    pub(super) receive_max: u16,
    /// Largest packet that it takes; a broker of 3.1.1 cannot say.
    pub(super) packet_bytes_max: usize,
}

/// Names a received message for its ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Receipt {
    pkid: u16,
    /// Quality of service 0 is not acked.
    qos: u8,
}

impl Receipt {
    pub(super) fn is_acked(self) -> bool {
        self.qos > 0
    }
}

/// What comes out of the library.
#[derive(Debug)]
pub(super) enum Heard {
    Accepted(Accepted),
    /// Of each filter, whether the broker took it.
    Subscribed(Vec<bool>),
    /// The broker answered the message with this number.
    Answered {
        pkid: u16,
        refused: Option<Refusal>,
    },
    Message {
        receipt: Receipt,
        /// The broker has sent it before, and saw no ack.
        again: bool,
        /// `None`: it is no text.
        topic: Option<String>,
        payload: Bytes,
    },
    /// Anything else from the broker.
    SignOfLife,
    /// The oldest message handed over went out under this number.
    Written(u16),
    AckWritten,
    /// Our goodbye is out.
    Goodbye,
    /// A message could not go out because its number was still taken. Nothing here
    /// may lead to it; the library recovers from it by luck only.
    Collision,
    /// Anything else that was sent.
    Sent,
}

impl Heard {
    /// Whether the broker said it.
    pub(super) fn is_incoming(&self) -> bool {
        match self {
            Self::Accepted(_)
            | Self::Subscribed(_)
            | Self::Answered { .. }
            | Self::Message { .. }
            | Self::SignOfLife => true,
            Self::Written(_) | Self::AckWritten | Self::Goodbye | Self::Collision | Self::Sent => {
                false
            }
        }
    }

    fn sent(outgoing: &Outgoing) -> Self {
        match outgoing {
            Outgoing::Publish(pkid) => Self::Written(*pkid),
            Outgoing::PubAck(_) | Outgoing::PubRec(_) => Self::AckWritten,
            Outgoing::Disconnect => Self::Goodbye,
            Outgoing::AwaitAck(_) => Self::Collision,
            Outgoing::Subscribe(_)
            | Outgoing::Unsubscribe(_)
            | Outgoing::PubRel(_)
            | Outgoing::PubComp(_)
            | Outgoing::PingReq
            | Outgoing::PingResp => Self::Sent,
        }
    }
}

/// The library did not take a request: its queue is full or a topic is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotTaken;

/// What a connection is opened with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening<'a> {
    pub(super) config: &'a MqttConfig,
    pub(super) material: &'a Material,
    pub(super) session: SessionOptions,
    pub(super) will: Option<&'a Will>,
    /// Requests that may wait in the library.
    pub(super) requests_max: usize,
}

impl Opening<'_> {
    /// The library's host: of a websocket it wants the whole address.
    fn host(&self) -> String {
        let MqttConfig {
            host,
            port,
            ws_path,
            ..
        } = self.config;
        let scheme = match self.config.transport {
            Transport::Tcp | Transport::Tls => return host.clone(),
            Transport::Ws => "ws",
            Transport::Wss => "wss",
        };
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.clone()
        };
        format!("{scheme}://{host}:{port}{ws_path}")
    }

    fn transport(&self) -> rumqttc::Transport {
        let tls = self.material.tls().map(rumqttc::TlsConfiguration::Rustls);
        match (self.config.transport, tls) {
            (Transport::Tls, Some(tls)) => rumqttc::Transport::Tls(tls),
            (Transport::Wss, Some(tls)) => rumqttc::Transport::Wss(tls),
            (Transport::Ws, _) => rumqttc::Transport::Ws,
            (Transport::Tcp | Transport::Tls | Transport::Wss, _) => rumqttc::Transport::Tcp,
        }
    }

    fn timeout_s(&self) -> u64 {
        self.config.connect_timeout.as_secs().max(1)
    }

    fn network(&self) -> NetworkOptions {
        let mut network = NetworkOptions::new();
        network.set_tcp_nodelay(true);
        network.set_connection_timeout(self.timeout_s());
        network.set_tcp_send_buffer_size(SEND_BUFFER_BYTES);
        network
    }
}

/// Prepares a connection; polling it connects.
pub(super) fn open(opening: &Opening<'_>) -> (Requests, Connection) {
    match opening.config.protocol {
        Protocol::V5 => {
            let (client, eventloop) =
                rumqttc::v5::AsyncClient::new(v5::options(opening), opening.requests_max);
            (Requests::V5(client), Connection::V5(eventloop))
        }
        Protocol::V311 => {
            let (client, eventloop) = v3::open(opening);
            (Requests::V3(client), Connection::V3(eventloop))
        }
    }
}

impl Connection {
    /// Polls once.
    ///
    /// # Errors
    /// Why the connection ended, or was not made.
    pub(super) async fn next(&mut self) -> Result<Heard, Failure> {
        match self {
            Self::V5(eventloop) => guarded(v5::next(eventloop)).await,
            Self::V3(eventloop) => guarded(v3::next(eventloop)).await,
        }
    }
}

/// A panic inside is a failure.
async fn guarded(next: impl Future<Output = Result<Heard, Failure>>) -> Result<Heard, Failure> {
    let mut next = pin!(next);
    poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| next.as_mut().poll(cx))) {
            Ok(polled) => polled,
            Err(_) => Poll::Ready(Err(Failure::other(
                "the client library panicked on what the broker sent",
            ))),
        },
    )
    .await
}

impl Requests {
    /// Publishes with quality of service 1. User properties are left out by 3.1.1.
    pub(super) fn publish(
        &self,
        topic: String,
        retain: bool,
        payload: Vec<u8>,
        user_properties: Vec<(String, String)>,
    ) -> Result<(), NotTaken> {
        match self {
            Self::V5(client) => v5::publish(client, topic, retain, payload, user_properties),
            Self::V3(client) => v3::publish(client, topic, retain, payload),
        }
    }

    /// Subscribes with quality of service 1.
    pub(super) fn subscribe(&self, filters: &[String]) -> Result<(), NotTaken> {
        match self {
            Self::V5(client) => v5::subscribe(client, filters),
            Self::V3(client) => v3::subscribe(client, filters),
        }
    }

    pub(super) fn ack(&self, receipt: Receipt) -> Result<(), NotTaken> {
        match self {
            Self::V5(client) => v5::ack(client, receipt),
            Self::V3(client) => v3::ack(client, receipt),
        }
    }

    pub(super) fn goodbye(&self) -> Result<(), NotTaken> {
        match self {
            Self::V5(client) => client.try_disconnect().map_err(|_| NotTaken),
            Self::V3(client) => client.try_disconnect().map_err(|_| NotTaken),
        }
    }

    /// Size of a message with quality of service 1 as a packet, in bytes.
    pub(super) fn packet_bytes(
        &self,
        topic: &str,
        payload_bytes: usize,
        user_properties: &[(String, String)],
    ) -> usize {
        // Topic and packet number with their lengths.
        let bare = 2 + topic.len() + 2 + payload_bytes;
        let rest = match self {
            Self::V3(_) => bare,
            Self::V5(_) => {
                let pairs = user_properties.iter();
                let properties = pairs
                    .map(|(key, value)| 1 + 2 + key.len() + 2 + value.len())
                    .sum();
                bare + length_bytes(properties) + properties
            }
        };
        1 + length_bytes(rest) + rest
    }
}

/// Bytes of MQTT's variable length for this value.
fn length_bytes(value: usize) -> usize {
    match value {
        0..=127 => 1,
        128..=16_383 => 2,
        16_384..=2_097_151 => 3,
        2_097_152.. => 4,
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use rumqttc::mqttbytes::v4;
    use rumqttc::v5::mqttbytes::{QoS, v5};

    use super::*;
    use crate::mqtt::client::Session;

    fn requests(protocol: Protocol) -> Requests {
        let config = MqttConfig {
            protocol,
            ..MqttConfig::new("h", 1, "c")
        };
        open(&Opening {
            config: &config,
            material: &Material::none(),
            session: SessionOptions {
                session: Session::Fresh,
                receive_max: 10,
                inflight_max: 10,
                manual_acks: false,
            },
            will: None,
            requests_max: 10,
        })
        .0
    }

    #[test]
    fn the_size_of_a_packet_is_what_the_library_writes() {
        let properties = |pairs: usize| vec![("key".to_owned(), "value".to_owned()); pairs];
        for payload in [
            0, 1, 100, 108, 109, 110, 127, 16_000, 16_367, 16_368, 70_000, 260_000,
        ] {
            for pairs in [0, 1, 9, 10, 40] {
                let user_properties = properties(pairs);
                let mut publish = v5::Publish::new(
                    "forebay/v1/g",
                    QoS::AtLeastOnce,
                    vec![0; payload],
                    Some(v5::PublishProperties {
                        user_properties: user_properties.clone(),
                        ..v5::PublishProperties::default()
                    }),
                );
                publish.pkid = 7;
                let mut out = BytesMut::new();
                v5::Packet::Publish(publish)
                    .write(&mut out, None)
                    .expect("written");
                let found =
                    requests(Protocol::V5).packet_bytes("forebay/v1/g", payload, &user_properties);
                assert_eq!(found, out.len(), "5, {payload}, {pairs}");
                let mut publish =
                    v4::Publish::new("forebay/v1/g", rumqttc::QoS::AtLeastOnce, vec![0; payload]);
                publish.pkid = 7;
                let mut out = BytesMut::new();
                publish.write(&mut out).expect("written");
                let found = requests(Protocol::V311).packet_bytes(
                    "forebay/v1/g",
                    payload,
                    &user_properties,
                );
                assert_eq!(found, out.len(), "3.1.1, {payload}");
            }
        }
    }

    #[test]
    fn a_websocket_is_reached_by_its_whole_address() {
        for (name, host, transport, want) in [
            ("tcp", "h", Transport::Tcp, "h"),
            ("tls v6", "::1", Transport::Tls, "::1"),
            ("ws", "h", Transport::Ws, "ws://h:80/mqtt"),
            ("wss v6", "::1", Transport::Wss, "wss://[::1]:80/mqtt"),
        ] {
            let config = MqttConfig {
                transport,
                ..MqttConfig::new(host, 80, "c")
            };
            let opening = Opening {
                config: &config,
                material: &Material::none(),
                session: SessionOptions {
                    session: Session::Fresh,
                    receive_max: 1,
                    inflight_max: 1,
                    manual_acks: false,
                },
                will: None,
                requests_max: 1,
            };
            assert_eq!(opening.host(), want, "{name}");
        }
    }
}
