//! Why a connection ended, as a sentence that says who must do what.
//!
//! Always holds: no secret is in it, as none is in what the library says; what the
//! broker says is cut to SAID_CHARS_MAX and printable.

use std::io::{self, ErrorKind};

use super::super::client::MqttConfig;
use super::super::security::{LocalClock, Material, own_times, time_text};
use crate::config::{Protocol, Transport};

/// Longest word of a broker in a sentence.
const SAID_CHARS_MAX: usize = 200;
/// How the library for TLS writes that the other side refuses.
const ALERT: &str = "received fatal alert: ";

/// What a broker answers to whom it does not let in.
const DENIALS: [&str; 6] = [
    "BadUserNamePassword",
    "NotAuthorized",
    "BadClientId",
    "ClientIdentifierNotValid",
    "Banned",
    "BadAuthenticationMethod",
];
/// What it says of a certificate that it does not take, or misses.
const DENYING_ALERTS: [&str; 10] = [
    "CertificateRequired",
    "CertificateExpired",
    "CertificateUnknown",
    "CertificateRevoked",
    "BadCertificate",
    "UnsupportedCertificate",
    "UnknownCA",
    "UnknownCa",
    "AccessDenied",
    "DecryptError",
];

/// What the library said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::mqtt) enum Failure {
    /// No answer in time.
    Silent,
    /// No answer to a ping.
    NoPong,
    /// The broker's answer to our CONNECT.
    Refused(String),
    /// Ended without a word.
    Closed,
    /// The broker said why it ends the connection.
    Dismissed {
        code: String,
        said: Option<String>,
    },
    Tls(String),
    Websocket(String),
    /// What came is no MQTT.
    Nonsense(String),
    Other(String),
}

impl Failure {
    pub(super) fn other(said: &str) -> Self {
        Self::Other(said.to_owned())
    }

    pub(super) fn io(error: &io::Error) -> Self {
        let kind = error.kind();
        if matches!(
            kind,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof
        ) {
            return Self::Closed;
        }
        Self::Other(error.to_string())
    }

    /// Whether the broker knows who we are, or wants to, and does not let us in.
    pub(in crate::mqtt) fn is_denied(&self) -> bool {
        match self {
            Self::Refused(code) | Self::Dismissed { code, .. } => DENIALS.contains(&code.as_str()),
            Self::Tls(said) | Self::Websocket(said) | Self::Other(said) => said
                .split_once(ALERT)
                .is_some_and(|(_, alert)| DENYING_ALERTS.iter().any(|of| alert.starts_with(of))),
            Self::Silent | Self::NoPong | Self::Closed | Self::Nonsense(_) => false,
        }
    }

    /// The sentence, for a connection with these settings that `stood` or never did.
    pub(in crate::mqtt) fn sentence(
        &self,
        config: &MqttConfig,
        material: &Material,
        (stood, clock): (bool, LocalClock),
    ) -> String {
        let address = format!("{}:{}", config.host, config.port);
        if let Some(sentence) = material.verdict(clock) {
            return sentence;
        }
        match self {
            Self::Silent => format!(
                "{address} does not answer within {} s",
                config.connect_timeout.as_secs()
            ),
            Self::NoPong => format!(
                "the broker answers no ping within {} s",
                config.keep_alive().as_secs()
            ),
            Self::Refused(code) => refused(code, config.protocol),
            Self::Closed if stood => "the broker closed the connection".to_owned(),
            Self::Closed => format!(
                "{address} closes the connection before it answers{}",
                other_port(config)
            ),
            Self::Dismissed { code, said } => {
                let said = said.as_deref().map(|said| format!(": {}", shown(said)));
                format!(
                    "the broker ends the connection ({code}){}",
                    said.unwrap_or_default()
                )
            }
            Self::Tls(said) => alert(said, config, material, clock).unwrap_or_else(|| {
                format!(
                    "no TLS with {address} ({}): is this the broker's port for TLS, which often \
                     is 8883?",
                    shown(said)
                )
            }),
            Self::Websocket(said) => alert(said, config, material, clock).unwrap_or_else(|| {
                format!(
                    "websocket with {address}: {}: are port and ws_path (\"{}\") those of the \
                     broker's websocket?",
                    shown(said),
                    config.ws_path
                )
            }),
            Self::Other(said) => alert(said, config, material, clock)
                .unwrap_or_else(|| format!("{address}: {}", shown(said))),
            Self::Nonsense(said) if stood => {
                format!("{address} does not keep to the protocol: {}", shown(said))
            }
            Self::Nonsense(said) => {
                let hint = other_port(config);
                format!(
                    "what answers at {address} speaks no MQTT ({}){hint}",
                    shown(said)
                )
            }
        }
    }
}

/// For a port that may be one for another transport.
fn other_port(config: &MqttConfig) -> &'static str {
    match config.transport {
        Transport::Tcp => ": if this is a port for TLS or websockets, give transport",
        Transport::Ws => ": if this is a port for TLS, give transport = \"wss\"",
        Transport::Tls | Transport::Wss => "",
    }
}

fn refused(code: &str, protocol: Protocol) -> String {
    match code {
        "BadUserNamePassword" => {
            format!("the broker refuses the user name or the password ({code})")
        }
        "NotAuthorized" => format!(
            "the broker does not let this client in ({code}): see user name, password, \
             certificate, and the broker's list of who may"
        ),
        "BadClientId" | "ClientIdentifierNotValid" => {
            format!("the broker refuses the client id ({code}): give another as client_id")
        }
        "UnsupportedProtocolVersion" | "RefusedProtocolVersion" => format!(
            "the broker does not speak this version of MQTT ({code}): give protocol = \"{}\"",
            match protocol {
                Protocol::V5 => "3.1.1",
                Protocol::V311 => "5",
            }
        ),
        other => format!("the broker takes no connection ({other})"),
    }
}

/// What the broker refused during TLS, if `said` is that.
fn alert(
    said: &str,
    config: &MqttConfig,
    material: &Material,
    clock: LocalClock,
) -> Option<String> {
    let (_, alert) = said.split_once(ALERT)?;
    let alert: String = alert
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    // It cannot say of a certificate that it is of the future.
    if let Some(sentence) = material.validity().and_then(|v| own_times(v, clock)) {
        return Some(format!("{sentence} (the broker: {alert})"));
    }
    Some(match (alert.as_str(), &config.tls.identity) {
        ("CertificateRequired" | "HandshakeFailure", None) => format!(
            "the broker asks for a certificate of ours ({alert}): give cert_file and key_file"
        ),
        ("CertificateExpired", Some(_)) => {
            let until = material.validity().map(|v| time_text(v.not_after));
            format!(
                "the broker takes our certificate for expired ({alert}), which ends at {}: see to \
                 the broker's clock",
                until.as_deref().unwrap_or("a time that does not read")
            )
        }
        (
            "BadCertificate"
            | "UnknownCA"
            | "UnknownCa"
            | "UnsupportedCertificate"
            | "CertificateUnknown"
            | "CertificateRevoked"
            | "AccessDenied"
            | "DecryptError",
            Some(_),
        ) => format!(
            "the broker does not take our certificate ({alert}): is it signed by an authority \
             that the broker trusts?"
        ),
        ("ProtocolVersion", _) => {
            "the broker speaks neither TLS 1.2 nor 1.3 (ProtocolVersion)".to_owned()
        }
        _ => format!(
            "the broker ends the connection during TLS ({alert}){}",
            match config.transport {
                Transport::Tls | Transport::Wss => "",
                Transport::Tcp | Transport::Ws => ": give transport = \"tls\"",
            }
        ),
    })
}

/// What the other side said, on one line.
fn shown(said: &str) -> String {
    let mut shown: String = said.escape_debug().take(SAID_CHARS_MAX).collect();
    if said.escape_debug().nth(SAID_CHARS_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::UnixTime;

    use super::*;

    fn said(failure: Failure) -> String {
        let config = MqttConfig {
            transport: Transport::Tls,
            ..MqttConfig::new("broker", 8883, "c")
        };
        let clock = LocalClock {
            now: UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000)),
            synchronised: true,
        };
        failure.sentence(&config, &Material::none(), (false, clock))
    }

    #[test]
    fn each_failure_says_what_to_do() {
        let alert = |alert| Failure::Tls(format!("I/O: {ALERT}{alert}"));
        for (name, failure, want) in [
            (
                "silence",
                Failure::Silent,
                "broker:8883 does not answer within 10 s",
            ),
            (
                "password",
                Failure::Refused("BadUserNamePassword".into()),
                "refuses the user name or the password",
            ),
            (
                "version",
                Failure::Refused("UnsupportedProtocolVersion".into()),
                "give protocol = \"3.1.1\"",
            ),
            (
                "asked for a certificate",
                alert("CertificateRequired"),
                "give cert_file and key_file",
            ),
            (
                "no TLS",
                Failure::Tls("InvalidContentType".into()),
                "no TLS with broker:8883",
            ),
            (
                "not found",
                Failure::Websocket("HTTP error: 404 Not Found".into()),
                "ws_path (\"/mqtt\")",
            ),
            (
                "its reason",
                Failure::Dismissed {
                    code: "ServerShuttingDown".into(),
                    said: Some("bye\n".into()),
                },
                "(ServerShuttingDown): bye\\n",
            ),
        ] {
            let said = said(failure);
            assert!(said.contains(want), "{name}: {said}");
        }
    }

    #[test]
    fn what_a_broker_says_is_cut() {
        for (chars, cut) in [
            (SAID_CHARS_MAX - 1, false),
            (SAID_CHARS_MAX, false),
            (SAID_CHARS_MAX + 1, true),
        ] {
            assert_eq!(shown(&"x".repeat(chars)).ends_with("..."), cut, "{chars}");
        }
    }
}
