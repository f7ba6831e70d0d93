//! Every bound of the MQTT clients and of the embedded broker.

use std::time::Duration;

use forebay_core::limits::MESSAGE_BYTES_MAX;

/// Room of a packet beside its payload: fixed header, topic, user properties.
pub const PACKET_OVERHEAD_BYTES: usize = 4 * 1024;
/// Largest packet sent or taken.
pub const PACKET_BYTES_MAX: usize = MESSAGE_BYTES_MAX + PACKET_OVERHEAD_BYTES;
/// Longest topic sent or taken.
pub const TOPIC_BYTES_MAX: usize = 512;
/// Data messages that a publisher may have unacked at the most.
pub const WINDOW_MAX: u16 = 1024;
/// Messages that a subscriber may hold unacked at the most: with
/// PACKET_BYTES_MAX this bounds its memory.
pub const RECEIVE_MAX: u16 = 1024;
/// Filters of one client: they go out in one packet.
pub const FILTERS_MAX: usize = 16;
/// Requests beside data and acks that may wait in the client: subscribe,
/// birth, will, disconnect.
pub const REQUEST_SLACK: usize = 8;
/// Messages that a subscriber publishes with acks outstanding.
pub const SUBSCRIBER_PUBLISHES_MAX: u16 = 64;
/// Topics whose latest message may wait to be published by a subscriber.
pub const WAITING_PUBLISHES_MAX: usize = 10_000;
/// Events that may wait inside a client for their reader; beyond it the client
/// stops reading from the broker.
pub const WAITING_EVENTS_MAX: usize = 64;
/// Shortest keep-alive that the client library takes.
pub const KEEP_ALIVE_MIN: Duration = Duration::from_secs(5);
/// How long a clean stop may take before the connection is just dropped.
pub const STOP_MAX: Duration = Duration::from_secs(2);

const _: () = assert!(PACKET_OVERHEAD_BYTES > TOPIC_BYTES_MAX + 1024);
const _: () = assert!(PACKET_BYTES_MAX < 268_435_455, "MQTT's own limit");
