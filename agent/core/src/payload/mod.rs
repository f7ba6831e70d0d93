//! What goes over MQTT, as bytes: data of the log, acks and commands of the
//! upstream. Tables and version rules: `agent/core/docs/payload.md`.
//!
//! Always holds: a payload is a pure function of what it says, so a resend is
//! equal byte for byte. Bound: MESSAGE_BYTES_MAX, CONTROL_BYTES_MAX. Knows no
//! broker.

mod ack;
mod compact;
mod control;
mod data;
mod encoding;
mod json;
mod names;
mod parse;
mod parse_record;
mod parse_series;
mod readable;
pub mod sparkplug;
mod squeeze;
#[cfg(test)]
mod tests;
mod text;

pub use ack::{AckMark, AckMessage, AckRun};
pub use compact::{Compact, CompactBody, is_compact};
pub use control::{Command, GatewayStatus, SessionNonce, UpstreamHello};
pub use data::{DataBody, DataMessage, MessageId, Origin};
pub use encoding::{Encoding, FORMATS, Format};
pub use json::{PayloadError, PayloadFault};
pub use names::{
    BadName, DATA_FILTER, GatewayName, StreamName, TOPIC_ROOT, UPSTREAM_TOPIC, parse_data_topic,
};
pub use squeeze::plain;
pub use text::push_row;

/// Version of JSON data messages, their key `v`. Version 1 was never released.
pub const PAYLOAD_VERSION: u64 = 2;
/// Version of all other messages, their key `v`.
pub const CONTROL_VERSION: u64 = 1;
