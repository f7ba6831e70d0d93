//! What goes over MQTT, as bytes: data of the log, acks and commands of the
//! upstream. Tables and version rules: `agent/core/docs/payload.md`.
//!
//! Always holds: a payload is a pure function of what it says, so a resend is
//! equal byte for byte. Bound: MESSAGE_BYTES_MAX, CONTROL_BYTES_MAX. Knows no
//! broker.

mod control;
mod data;
mod json;
mod names;
mod parse;
#[cfg(test)]
mod tests;

pub use control::{AckMark, AckMessage, Command, GatewayStatus, SessionNonce, UpstreamHello};
pub use data::{DataBody, DataGap, DataMessage, DataReading, DataRecord, Figure, MessageId};
pub use json::{PayloadError, PayloadFault};
pub use names::{
    BadName, DATA_FILTER, GatewayName, StreamName, TOPIC_ROOT, UPSTREAM_TOPIC, parse_data_topic,
};

/// Version of all payloads, the key `v`.
pub const PAYLOAD_VERSION: u64 = 1;
