//! Says what is wrong with a certificate, and whether it is the certificate or this
//! computer's clock: a gateway that boots in 1970 sees only certificates of the future.
//!
//! Always holds: a sentence that begins with "clock:" asks the reader to see to the
//! clock. Reads no clock: what it says is an argument.

use forebay_core::units::EventTime;
use forebay_core::utc;
use rustls::CertificateError;
use rustls::pki_types::UnixTime;

use super::Validity;

/// 2026-01-01T00:00:00Z: this program was made later, so a clock that says less was
/// never set.
const MADE_AFTER_S: u64 = 1_767_225_600;

/// This computer's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mqtt) struct LocalClock {
    pub(in crate::mqtt) now: UnixTime,
    /// The system says that something keeps it right.
    pub(in crate::mqtt) synchronised: bool,
}

/// Whose certificate it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mqtt) enum Peer {
    Broker,
    Ours,
}

impl Peer {
    fn certificate(self) -> &'static str {
        match self {
            Self::Broker => "the broker's certificate",
            Self::Ours => "our certificate (cert_file)",
        }
    }
}

/// What is wrong with the broker's certificate.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the library's own, which may get more variants"
)]
pub(in crate::mqtt) fn sentence(error: &CertificateError, clock: LocalClock) -> String {
    match error {
        CertificateError::NotValidYetContext { time, not_before } => {
            let clock = LocalClock {
                now: *time,
                ..clock
            };
            too_early(Peer::Broker, *not_before, clock)
        }
        CertificateError::ExpiredContext { time, not_after } => {
            let clock = LocalClock {
                now: *time,
                ..clock
            };
            too_late(Peer::Broker, *not_after, clock)
        }
        CertificateError::UnknownIssuer => String::from(
            "the broker's certificate is not signed by any authority that we trust: \
             give the one that signed it as ca_file",
        ),
        CertificateError::BadSignature => String::from(
            "the broker's certificate names an authority that we trust and is signed with another \
             key: has that authority been made anew? Give the new one as ca_file",
        ),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let names: Vec<_> = presented.iter().take(5).map(|name| shown(name)).collect();
            format!(
                "the broker's certificate is not for {} but for {}: connect to one of these \
                 names, or give one as server_name",
                expected.to_str(),
                if names.is_empty() {
                    "no name at all".to_owned()
                } else {
                    names.join(", ")
                }
            )
        }
        other => format!("the broker's certificate cannot be used: {other}"),
    }
}

/// What is wrong with our own certificate at this time, if its times are.
pub(in crate::mqtt) fn own_times(validity: Validity, clock: LocalClock) -> Option<String> {
    if clock.now < validity.not_before {
        return Some(too_early(Peer::Ours, validity.not_before, clock));
    }
    (clock.now > validity.not_after).then(|| too_late(Peer::Ours, validity.not_after, clock))
}

fn too_early(whose: Peer, not_before: UnixTime, clock: LocalClock) -> String {
    let (certificate, from) = (whose.certificate(), time_text(not_before));
    let now = time_text(clock.now);
    if is_unset(clock.now) {
        format!(
            "clock: this computer's clock says {now}, which is before this program was made, and \
             {certificate} is valid only from {from}: set the clock"
        )
    } else if clock.synchronised {
        format!(
            "{certificate} is valid only from {from}, and this computer's clock, which is \
             synchronised, says {now}: wait, or have one issued that is valid now"
        )
    } else {
        format!(
            "clock: {certificate} is valid only from {from}, and this computer's clock, which \
             nothing synchronises, says {now}: set the clock"
        )
    }
}

fn too_late(whose: Peer, not_after: UnixTime, clock: LocalClock) -> String {
    let (certificate, until) = (whose.certificate(), time_text(not_after));
    let now = time_text(clock.now);
    if clock.synchronised {
        format!("{certificate} ended at {until}, and it is {now}: renew it")
    } else {
        format!(
            "{certificate} ended at {until}, and this computer's clock, which nothing \
             synchronises, says {now}: renew it, or set the clock if that is not the time"
        )
    }
}

fn is_unset(now: UnixTime) -> bool {
    now.as_secs() < MADE_AFTER_S
}

/// RFC 3339, or the seconds of a time that no calendar has.
pub(in crate::mqtt) fn time_text(time: UnixTime) -> String {
    let us = time.as_secs().checked_mul(1_000_000);
    let us = us.and_then(|us| i64::try_from(us).ok()).unwrap_or(i64::MAX);
    let value = utc::time_value(EventTime(us));
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// A name that the broker chose: one line, not too long.
fn shown(name: &str) -> String {
    name.escape_debug().take(80).collect()
}
