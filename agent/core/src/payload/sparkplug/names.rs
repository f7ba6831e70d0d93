//! Who an edge node is, and its topics.
//!
//! Always holds: no part of a topic has a separator or a wildcard in it.

use forebay_wire::ids::DeviceUid;
use prost::Message;

use super::proto::{INT64, Metric, Payload, Value};
use crate::payload::names::{BadName, GatewayName, check};

/// First part of all topics of Sparkplug B.
const NAMESPACE: &str = "spBv1.0";

/// A payload and where it goes, never retained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparkplugMessage {
    pub topic: String,
    pub payload: Vec<u8>,
}

/// A gateway as an edge node of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeId {
    group: std::sync::Arc<str>,
    node: GatewayName,
}

impl NodeId {
    /// # Errors
    /// When the group is no name: as gateways, 1 to NAME_BYTES_MAX letters, digits, `_`,
    /// `-` and `.`.
    pub fn new(group: &str, node: &GatewayName) -> Result<Self, BadName> {
        Ok(Self {
            group: check(group)?,
            node: node.clone(),
        })
    }

    pub(super) fn topic(&self, kind: &str) -> String {
        format!("{NAMESPACE}/{}/{kind}/{}", self.group, self.node)
    }

    /// Devices go by their unique ids.
    pub(super) fn device_topic(&self, kind: &str, uid: DeviceUid) -> String {
        format!("{NAMESPACE}/{}/{kind}/{}/{uid}", self.group, self.node)
    }

    /// What the node subscribes to before its birth: commands to it.
    #[must_use]
    pub fn command_topic(&self) -> String {
        self.topic("NCMD")
    }

    /// The last will of a connection attempt, also said before it ends on purpose. Attempts
    /// count up, from any number; the birth of the same connection has the same `bdSeq`.
    #[must_use]
    pub fn death(&self, attempt: u64) -> SparkplugMessage {
        let payload = Payload {
            timestamp: None,
            metrics: vec![bd_seq(attempt, None)],
            seq: None,
        };
        SparkplugMessage {
            topic: self.topic("NDEATH"),
            payload: payload.encode_to_vec(),
        }
    }
}

/// What ties a death to the birth of its connection: 0 to 255.
pub(super) fn bd_seq(attempt: u64, timestamp: Option<u64>) -> Metric {
    Metric {
        name: Some("bdSeq".to_owned()),
        timestamp,
        datatype: Some(INT64),
        value: Some(Value::Long(attempt % 256)),
        ..Metric::default()
    }
}
