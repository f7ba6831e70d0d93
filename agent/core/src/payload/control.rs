//! Small messages beside the data: who the upstream is, what it asks of a gateway, and
//! the gateway's status; and the members that they have in common with others.
//!
//! Always holds: `parse` of what `render` gave is equal to it. Bound:
//! CONTROL_BYTES_MAX. Knows no topic.

use std::fmt;

use super::CONTROL_VERSION;
use super::json::{PayloadError, PayloadFault, Reader, need, push_args, push_text, set};
use super::names::{GatewayName, StreamName};
use crate::limits::{CONTROL_BYTES_MAX, NAME_BYTES_MAX};
use crate::units::{Epoch, EpochNonce, LogId, Offset, PartitionId};

/// Drawn by the upstream whenever it may have missed what a broker had acked:
/// at its first start, and when the broker has forgotten its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNonce(pub [u8; 16]);

impl fmt::Display for SessionNonce {
    /// Thirty-two lower-case hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Retained on `forebay/v1/upstream`, sent after subscribing; `online` is false after
/// a clean stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamHello {
    pub session: SessionNonce,
    pub online: bool,
}

/// On `forebay/v1/<gateway>/cmd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Send a partition again from an offset: what came after it is parked.
    Resend {
        log_id: LogId,
        stream: StreamName,
        partition: PartitionId,
        from: Offset,
    },
}

/// Retained on `forebay/v1/<gateway>/status`; with `online` false it is the
/// last will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayStatus {
    pub gateway: GatewayName,
    pub online: bool,
    /// Of the program, such as `0.1.0`.
    pub version: String,
}

impl UpstreamHello {
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let Self { session, online } = self;
        format!("{{\"v\":{CONTROL_VERSION},\"session\":\"{session}\",\"online\":{online}}}")
            .into_bytes()
    }

    /// # Errors
    /// With the byte where it stopped.
    pub fn parse(payload: &[u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader::new(payload, CONTROL_BYTES_MAX)?;
        let (mut v, mut session, mut online) = (None, None, None);
        reader.object(|reader, key| match key {
            "v" => set_version(reader, &mut v),
            "session" => {
                let nonce = hex(reader, "session").map(SessionNonce)?;
                set(reader, &mut session, "session", nonce)
            }
            "online" => {
                let value = reader.boolean()?;
                set(reader, &mut online, "online", value)
            }
            _ => reader.skip_value(),
        })?;
        reader.end()?;
        need(&reader, v, "v")?;
        Ok(Self {
            session: need(&reader, session, "session")?,
            online: need(&reader, online, "online")?,
        })
    }
}

impl Command {
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let Self::Resend {
            log_id,
            stream,
            partition,
            from,
        } = self;
        format!(
            "{{\"v\":{CONTROL_VERSION},\"cmd\":\"resend\",\"log_id\":\"{log_id}\",\"stream\":\"{stream}\",\"partition\":{},\"from\":{}}}",
            partition.0, from.0
        )
        .into_bytes()
    }

    /// # Errors
    /// With the byte where it stopped; also for a command of a newer version.
    pub fn parse(payload: &[u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader::new(payload, CONTROL_BYTES_MAX)?;
        let (mut v, mut cmd, mut log) = (None, None, None);
        let (mut name, mut part, mut from) = (None, None, None);
        reader.object(|reader, key| match key {
            "v" => set_version(reader, &mut v),
            "cmd" => {
                if reader.string(NAME_BYTES_MAX)? != "resend" {
                    return Err(reader.value_error("cmd"));
                }
                set(reader, &mut cmd, "cmd", ())
            }
            "log_id" => {
                let value = log_id(reader)?;
                set(reader, &mut log, "log_id", value)
            }
            "stream" => {
                let value = stream(reader)?;
                set(reader, &mut name, "stream", value)
            }
            "partition" => {
                let value = partition(reader)?;
                set(reader, &mut part, "partition", value)
            }
            "from" => {
                let value = Offset(reader.unsigned(u64::MAX, "from")?);
                set(reader, &mut from, "from", value)
            }
            _ => reader.skip_value(),
        })?;
        reader.end()?;
        need(&reader, v, "v")?;
        need(&reader, cmd, "cmd")?;
        Ok(Self::Resend {
            log_id: need(&reader, log, "log_id")?,
            stream: need(&reader, name, "stream")?,
            partition: need(&reader, part, "partition")?,
            from: need(&reader, from, "from")?,
        })
    }
}

impl GatewayStatus {
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let mut out = String::new();
        push_args(&mut out, format_args!("{{\"v\":{CONTROL_VERSION}"));
        push_args(&mut out, format_args!(",\"gateway\":\"{}\"", self.gateway));
        push_args(
            &mut out,
            format_args!(",\"online\":{},\"version\":", self.online),
        );
        push_text(&mut out, &self.version);
        out.push('}');
        out.into_bytes()
    }

    /// # Errors
    /// With the byte where it stopped.
    pub fn parse(payload: &[u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader::new(payload, CONTROL_BYTES_MAX)?;
        let (mut v, mut name, mut online, mut version) = (None, None, None, None);
        reader.object(|reader, key| match key {
            "v" => set_version(reader, &mut v),
            "gateway" => {
                let value = gateway(reader)?;
                set(reader, &mut name, "gateway", value)
            }
            "online" => {
                let value = reader.boolean()?;
                set(reader, &mut online, "online", value)
            }
            "version" => {
                let value = reader.text(NAME_BYTES_MAX)?;
                set(reader, &mut version, "version", value)
            }
            _ => reader.skip_value(),
        })?;
        reader.end()?;
        need(&reader, v, "v")?;
        Ok(Self {
            gateway: need(&reader, name, "gateway")?,
            online: need(&reader, online, "online")?,
            version: need(&reader, version, "version")?,
        })
    }
}

pub(super) fn set_version(
    reader: &mut Reader<'_>,
    slot: &mut Option<()>,
) -> Result<(), PayloadError> {
    version(reader, CONTROL_VERSION)?;
    set(reader, slot, "v", ())
}

/// Reads the version, which must be `known`.
pub(super) fn version(reader: &mut Reader<'_>, known: u64) -> Result<(), PayloadError> {
    let found = reader.unsigned(u64::MAX, "v")?;
    if found == known {
        return Ok(());
    }
    Err(reader.error(PayloadFault::Version { found }))
}

pub(super) fn gateway(reader: &mut Reader<'_>) -> Result<GatewayName, PayloadError> {
    let text = reader.string(NAME_BYTES_MAX)?;
    GatewayName::new(&text).map_err(|_| reader.value_error("gateway"))
}

pub(super) fn stream(reader: &mut Reader<'_>) -> Result<StreamName, PayloadError> {
    let text = reader.string(NAME_BYTES_MAX)?;
    StreamName::new(&text).map_err(|_| reader.value_error("stream"))
}

pub(super) fn log_id(reader: &mut Reader<'_>) -> Result<LogId, PayloadError> {
    hex(reader, "log_id").map(LogId)
}

pub(super) fn epoch(reader: &mut Reader<'_>) -> Result<Epoch, PayloadError> {
    reader.narrow("epoch").map(Epoch)
}

pub(super) fn nonce(reader: &mut Reader<'_>) -> Result<EpochNonce, PayloadError> {
    hex(reader, "nonce").map(|bytes| EpochNonce(u64::from_be_bytes(bytes)))
}

pub(super) fn partition(reader: &mut Reader<'_>) -> Result<PartitionId, PayloadError> {
    reader.narrow("partition").map(PartitionId)
}

/// Reads exactly `2 * N` lower-case hex digits.
pub(super) fn hex<const N: usize>(
    reader: &mut Reader<'_>,
    key: &'static str,
) -> Result<[u8; N], PayloadError> {
    let text = reader.string(2 * N)?;
    let mut out = [0; N];
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks_exact(2);
    if text.len() != 2 * N {
        return Err(reader.value_error(key));
    }
    for (byte, pair) in out.iter_mut().zip(pairs) {
        let (high, low) = digit(pair[0])
            .zip(digit(pair[1]))
            .ok_or_else(|| reader.value_error(key))?;
        *byte = high << 4 | low;
    }
    Ok(out)
}
