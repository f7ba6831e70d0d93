//! What publisher and subscriber share: settings, options of the client
//! library, and polling it so that neither silence nor a panic stays unseen.
//!
//! Knows no topics and keeps no state.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{ConnectProperties, LastWill};
use rumqttc::v5::{Event, EventLoop, MqttOptions};
use rumqttc::{NetworkOptions, Outgoing};

use super::backoff::BackoffConfig;
use super::limits::{KEEP_ALIVE_MIN, PACKET_BYTES_MAX};

/// Name and password for the broker. Debug output hides the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Credentials {{ user: {:?}, password: hidden }}",
            self.user
        )
    }
}

/// Where the broker is and how to hold a connection to it.
#[derive(Debug, Clone)]
pub struct MqttConfig {
    pub host: String,
    pub port: u16,
    /// One name per client: a broker drops the older of two with the same.
    pub client_id: String,
    pub credentials: Option<Credentials>,
    /// Pause after which a ping is sent; at least KEEP_ALIVE_MIN.
    pub keep_alive: Duration,
    /// From the first byte to the broker's answer; whole seconds, at least one.
    pub connect_timeout: Duration,
    pub backoff: BackoffConfig,
}

impl MqttConfig {
    /// A client of the broker at `host:port` with the default times.
    #[must_use]
    pub fn new(host: &str, port: u16, client_id: &str) -> Self {
        Self {
            host: host.to_owned(),
            port,
            client_id: client_id.to_owned(),
            credentials: None,
            keep_alive: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(10),
            backoff: BackoffConfig::default(),
        }
    }
}

/// Retained birth, sent on every connect, and last will on the same topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub topic: String,
    pub online: Vec<u8>,
    pub offline: Vec<u8>,
}

/// How a client's session at the broker lives.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionOptions {
    pub(super) clean_start: bool,
    pub(super) expiry_s: u32,
    /// Messages that the broker may send unacked.
    pub(super) receive_max: u16,
    /// Messages that we may send unacked.
    pub(super) inflight_max: u16,
    pub(super) manual_acks: bool,
}

/// The client library's options.
pub(super) fn options(
    config: &MqttConfig,
    session: SessionOptions,
    status: Option<&Status>,
) -> MqttOptions {
    let mut options = MqttOptions::new(&config.client_id, &config.host, config.port);
    let packet_bytes_max =
        u32::try_from(PACKET_BYTES_MAX).expect("the limit is below MQTT's own of 256 MiB");
    let mut properties = ConnectProperties::new();
    properties.session_expiry_interval = Some(session.expiry_s);
    properties.receive_maximum = Some(session.receive_max);
    // The broker drops what is larger; one that sends it all the same is
    // refused by the fixed header, before the payload takes memory.
    properties.max_packet_size = Some(packet_bytes_max);
    let timeout_s = config.connect_timeout.as_secs().max(1);
    let mut network = NetworkOptions::new();
    network.set_tcp_nodelay(true);
    network.set_connection_timeout(timeout_s);
    options
        .set_connect_properties(properties)
        .set_clean_start(session.clean_start)
        .set_keep_alive(config.keep_alive.max(KEEP_ALIVE_MIN))
        .set_connection_timeout(timeout_s)
        .set_outgoing_inflight_upper_limit(session.inflight_max)
        .set_manual_acks(session.manual_acks)
        .set_network_options(network);
    if let Some(credentials) = &config.credentials {
        options.set_credentials(&credentials.user, &credentials.password);
    }
    if let Some(status) = status {
        options.set_last_will(LastWill::new(
            &status.topic,
            status.offline.clone(),
            QoS::AtLeastOnce,
            true,
            None,
        ));
    }
    options
}

/// How long the broker may be silent: pings go out at each keep-alive, so an
/// answer is due after one; a connection cut without a word shows here.
pub(super) fn silence_max(eventloop: &EventLoop) -> Duration {
    eventloop.options.keep_alive().mul_f32(2.5)
}

/// Polls the client library once. A panic in it, say on bytes that it cannot
/// take, is an error of the connection and not of the process.
pub(super) async fn next_event(eventloop: &mut EventLoop) -> Result<Event, String> {
    let mut poll = pin!(eventloop.poll());
    let polled = poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| poll.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
            Err(_) => Poll::Ready(Err("the client library panicked on what the broker sent")),
        },
    );
    match polled.await {
        Ok(Ok(event)) => Ok(event),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panicked) => Err(panicked.to_owned()),
    }
}

/// True when a packet could not be sent because its number was still taken.
/// Nothing here may lead to it; the library recovers from it by luck only.
pub(super) fn is_collision(event: &Event) -> bool {
    matches!(event, Event::Outgoing(Outgoing::AwaitAck(_)))
}

/// Uniform over all of `u64`, for the backoff. Without the system's randomness
/// the middle is as good a guess as any: the wait only loses its spread.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or(u64::MAX / 2)
}

/// A topic that may be published to.
pub(super) fn is_topic(topic: &str) -> bool {
    !topic.is_empty()
        && topic.len() <= super::limits::TOPIC_BYTES_MAX
        && !topic.contains(['+', '#', '\0'])
}
