//! What publisher and subscriber share: where the broker is, how a session at it
//! lives, and the host's clock and randomness.
//!
//! Knows no topics and keeps no state.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_core::forward::ConnNo;
use forebay_core::payload::sparkplug::{NodeId, SparkplugMessage};
use rustls::pki_types::UnixTime;

use super::backoff::BackoffConfig;
use super::limits::{FILES_CHECK, KEEP_ALIVE_MIN};
use super::security::LocalClock;
use crate::config::{PasswordFrom, Protocol, TlsKeys, Transport};
use crate::ports::clock_is_synchronised;

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

/// Who we are to the broker, and where the password is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: Option<PasswordFrom>,
}

/// Where the broker is and how to hold a connection to it.
#[derive(Debug, Clone)]
pub struct MqttConfig {
    pub host: String,
    pub port: u16,
    /// One name per client: a broker drops the older of two with the same.
    pub client_id: String,
    pub protocol: Protocol,
    pub transport: Transport,
    /// Begins with a slash.
    pub ws_path: String,
    pub tls: TlsKeys,
    pub login: Option<Login>,
    /// Pause after which a ping is sent; at least KEEP_ALIVE_MIN.
    pub keep_alive: Duration,
    /// From the first byte to the broker's answer; whole seconds, at least one.
    pub connect_timeout: Duration,
    pub backoff: BackoffConfig,
    /// How often the files of TLS are looked at.
    pub files_check: Duration,
}

impl MqttConfig {
    /// A client of the broker at `host:port` over TCP by MQTT 5 with the default times.
    #[must_use]
    pub fn new(host: &str, port: u16, client_id: &str) -> Self {
        Self {
            host: host.to_owned(),
            port,
            client_id: client_id.to_owned(),
            protocol: Protocol::V5,
            transport: Transport::Tcp,
            ws_path: "/mqtt".to_owned(),
            tls: TlsKeys::default(),
            login: None,
            keep_alive: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(10),
            backoff: BackoffConfig::default(),
            files_check: FILES_CHECK,
        }
    }

    /// As the library takes it.
    pub(super) fn keep_alive(&self) -> Duration {
        self.keep_alive.max(KEEP_ALIVE_MIN)
    }
}

/// Retained birth, sent on every connect, and last will on the same topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub topic: String,
    pub online: Vec<u8>,
    pub offline: Vec<u8>,
}

/// What a broker publishes when a connection ends without a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Will {
    pub(super) topic: String,
    pub(super) payload: Vec<u8>,
    pub(super) retain: bool,
}

/// The death of an edge node of Sparkplug. Attempts count from 1, its own count from 0.
pub(super) fn will_of(node: &NodeId, conn: ConnNo) -> Will {
    let SparkplugMessage { topic, payload } = node.death(conn.0.saturating_sub(1));
    Will {
        topic,
        payload,
        retain: false,
    }
}

impl Status {
    pub(super) fn will(&self) -> Will {
        Will {
            topic: self.topic.clone(),
            payload: self.offline.clone(),
            retain: true,
        }
    }
}

/// What the broker remembers of a client that is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    /// Nothing; what it knew is forgotten.
    Fresh,
    /// Subscriptions and messages, so long; by 3.1.1 as long as it likes.
    Kept { expiry_s: u32 },
}

/// How a client's session at the broker lives.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionOptions {
    pub(super) session: Session,
    /// Messages that the broker may send unacked; 3.1.1 cannot tell it.
    pub(super) receive_max: u16,
    /// Messages that we may send unacked.
    pub(super) inflight_max: u16,
    pub(super) manual_acks: bool,
}

/// What this computer's clock says, and whether something keeps it right.
pub(super) fn local_clock() -> LocalClock {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    LocalClock {
        now: UnixTime::since_unix_epoch(since.unwrap_or_default()),
        synchronised: clock_is_synchronised(),
    }
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
