//! What an operator says of one destination. Knows no machine.
//!
//! Bound: [`DESTINATIONS_MAX`](crate::limits::DESTINATIONS_MAX) destinations of a
//! gateway; the config reader keeps to it.

use std::collections::BTreeMap;

use crate::limits::MESSAGE_BYTES_MAX;
use crate::payload::Encoding;
use crate::payload::sparkplug::NodeId;
use crate::units::Span;

/// Name of a destination that was not given one: its marks stand where those of a
/// gateway with one destination always stood.
pub const DEFAULT_DESTINATION: &str = "default";

/// What goes out first when there is a backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All of a partition in its order.
    OldestFirst,
    /// What comes in now; the backlog fills what the window leaves.
    LiveFirst,
}

/// Settings of one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardConfig {
    /// Unique among the destinations: the marks are kept under it.
    pub name: String,
    /// Messages on their way, 1 and up; the broker may take fewer. A kill may send
    /// FORWARD_UNKEPT_WINDOWS of them again.
    pub window: u16,
    /// A broker that acks nothing for so long is given up.
    pub ack_timeout: Span,
    /// How records are written.
    pub encoding: Encoding,
    /// Instead of messages in `encoding` it gets readings as an edge node of Sparkplug
    /// says them.
    pub sparkplug: Option<NodeId>,
    /// Topics of the log that it gets, by the names of streams; empty: all.
    pub topics: Vec<String>,
    pub order: Order,
    /// Readings a second of the backlog at the most; `None`: as fast as it goes.
    pub rate: Option<u32>,
    /// Longest payload, up to MESSAGE_BYTES_MAX: a block above it is split.
    pub message_bytes_max: usize,
    /// Whether retention waits for it.
    pub retain: bool,
    /// By topic: records older than this are declared as expired instead of sent.
    pub within: BTreeMap<String, Span>,
}

impl ForwardConfig {
    /// The one destination of a gateway, with defaults for all but these two.
    #[must_use]
    pub fn new(window: u16, ack_timeout: Span) -> Self {
        Self {
            name: DEFAULT_DESTINATION.to_owned(),
            window,
            ack_timeout,
            encoding: Encoding::default(),
            sparkplug: None,
            topics: Vec::new(),
            order: Order::OldestFirst,
            rate: None,
            message_bytes_max: MESSAGE_BYTES_MAX,
            retain: true,
            within: BTreeMap::new(),
        }
    }

    /// Whether records of this stream go there.
    #[must_use]
    pub fn wants(&self, stream: &str) -> bool {
        self.topics.is_empty() || self.topics.iter().any(|topic| topic == stream)
    }
}
