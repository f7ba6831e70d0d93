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
/// Longest password.
pub const PASSWORD_BYTES_MAX: u64 = 4096;
/// Largest file of certificates or keys: the system's authorities take 200 kB.
pub const TLS_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// How often the files of TLS are looked at: a renewed certificate is in use within
/// twice that.
pub const FILES_CHECK: Duration = Duration::from_secs(30);
/// A certificate of ours that ends sooner is spoken of, once a day.
pub const CERTIFICATE_DAYS_LEFT: u64 = 14;
/// What the system holds of what was written: on a slow link the answer to a ping
/// waits behind it, and must come within a keep-alive.
pub const SEND_BUFFER_BYTES: u32 = 128 * 1024;
/// Bytes per second of the slowest link whose client is not given up: 64 kbit/s.
pub const SLOWEST_LINK_BYTES_PER_S: u64 = 8000;
/// How long a broker may leave all messages unanswered, beside what a slow link
/// takes for them.
pub const ANSWER_MAX: Duration = Duration::from_secs(60);
/// What the library waits for one write by 3.1.1; our own watch ends it before.
pub const WRITE_MAX: Duration = Duration::from_secs(3600);
/// Shortest keep-alive that the client library takes.
pub const KEEP_ALIVE_MIN: Duration = Duration::from_secs(5);
/// How long a clean stop may take before the connection is just dropped.
pub const STOP_MAX: Duration = Duration::from_secs(2);

const _: () = assert!(PACKET_OVERHEAD_BYTES > TOPIC_BYTES_MAX + 1024);
const _: () = assert!(PACKET_BYTES_MAX < 268_435_455, "MQTT's own limit");
const _: () = assert!(
    SEND_BUFFER_BYTES as u64 / SLOWEST_LINK_BYTES_PER_S < 20,
    "a ping behind a full buffer is answered within the default keep-alive"
);
const _: () = assert!(
    (WINDOW_MAX as u64 * PACKET_BYTES_MAX as u64) / SLOWEST_LINK_BYTES_PER_S < 40_000,
    "the longest wait of the watch is a matter of hours, not for ever"
);

/// Connections that the embedded broker holds at once.
pub const BROKER_CONNECTIONS_MAX: usize = 64;
/// Pause of the embedded broker when the system has no connection to give.
pub const BROKER_ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Sessions that the embedded broker remembers.
pub const BROKER_SESSIONS_MAX: usize = 64;
/// Filters of one session of the embedded broker.
pub const BROKER_FILTERS_MAX: usize = 64;
/// Bytes that may wait for one session of the embedded broker. Above it the
/// broker refuses the publisher: it never drops what it acked.
pub const BROKER_QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Topics of which the embedded broker retains a message.
pub const BROKER_RETAINED_MAX: usize = 1024;
/// Messages that a client may have unacked at the embedded broker.
pub const BROKER_RECEIVE_MAX: u16 = 1024;
/// Bytes that the embedded broker writes ahead to one client.
pub const BROKER_WRITE_AHEAD_BYTES: usize = 256 * 1024;
/// Time from the first byte to a whole CONNECT at the embedded broker.
pub const BROKER_CONNECT_MAX: Duration = Duration::from_secs(10);

const _: () = assert!(BROKER_QUEUE_BYTES_MAX > PACKET_BYTES_MAX);
