//! Names that stand in MQTT topics, and the topics.
//!
//! Always holds: a name has no topic separator or wildcard in it, so a topic
//! built from names means what it says. Bound: NAME_BYTES_MAX.

use std::fmt;
use std::sync::Arc;

use crate::limits::NAME_BYTES_MAX;
use crate::units::PartitionId;

/// All topics start with this; the number is the version of the topic layout.
pub const TOPIC_ROOT: &str = "forebay/v1";
/// Where the upstream says who it is.
pub const UPSTREAM_TOPIC: &str = "forebay/v1/upstream";
/// What the upstream subscribes to.
pub const DATA_FILTER: &str = "forebay/v1/+/data/+/+";

/// A name that cannot be one, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadName {
    pub name: String,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        write!(
            f,
            "{name:?} is no name: use 1 to {NAME_BYTES_MAX} letters, digits, '_', '-' and '.'"
        )
    }
}

impl std::error::Error for BadName {}

/// A name as it is kept.
pub(super) fn check(name: &str) -> Result<Arc<str>, BadName> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    if fits {
        Ok(name.into())
    } else {
        Err(BadName {
            name: name.chars().take(80).collect(),
        })
    }
}

/// Name of a gateway, unique among those that share an upstream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GatewayName(Arc<str>);

/// Name of a stream of the log: `readings`, or a derived one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(Arc<str>);

impl GatewayName {
    /// # Errors
    /// When the text is no name.
    pub fn new(name: &str) -> Result<Self, BadName> {
        check(name).map(Self)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Topic of the data of one partition.
    #[must_use]
    pub fn data_topic(&self, stream: &StreamName, partition: PartitionId) -> String {
        format!("{TOPIC_ROOT}/{self}/data/{stream}/{}", partition.0)
    }

    /// Retained: whether the gateway is online.
    #[must_use]
    pub fn status_topic(&self) -> String {
        format!("{TOPIC_ROOT}/{self}/status")
    }

    /// Retained: up to where the upstream has applied the gateway's data.
    #[must_use]
    pub fn ack_topic(&self) -> String {
        format!("{TOPIC_ROOT}/{self}/ack")
    }

    /// Commands to the gateway.
    #[must_use]
    pub fn cmd_topic(&self) -> String {
        format!("{TOPIC_ROOT}/{self}/cmd")
    }
}

impl StreamName {
    /// # Errors
    /// When the text is no name.
    pub fn new(name: &str) -> Result<Self, BadName> {
        check(name).map(Self)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GatewayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Gateway, stream and partition of a data topic; `None` for another topic.
#[must_use]
pub fn parse_data_topic(topic: &str) -> Option<(GatewayName, StreamName, PartitionId)> {
    let rest = topic.strip_prefix(TOPIC_ROOT)?.strip_prefix('/')?;
    let mut parts = rest.split('/');
    let gateway = GatewayName::new(parts.next()?).ok()?;
    if parts.next()? != "data" {
        return None;
    }
    let stream = StreamName::new(parts.next()?).ok()?;
    let text = parts.next()?;
    let partition = PartitionId(text.parse().ok()?);
    // One spelling per partition: no signs and no leading zeros.
    let same = partition.0.to_string() == text;
    (same && parts.next().is_none()).then_some((gateway, stream, partition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_at_their_edges() {
        let of = |n: usize| "a".repeat(n);
        for (name, text, fits) in [
            ("empty", String::new(), false),
            ("one", of(1), true),
            ("below the limit", of(NAME_BYTES_MAX - 1), true),
            ("at the limit", of(NAME_BYTES_MAX), true),
            ("over the limit", of(NAME_BYTES_MAX + 1), false),
            ("all kinds", "Plant-7_b.2".to_owned(), true),
            ("separator", "a/b".to_owned(), false),
            ("wildcard +", "+".to_owned(), false),
            ("wildcard #", "#".to_owned(), false),
            ("space", "a b".to_owned(), false),
            ("not ascii", "é".to_owned(), false),
            ("nul", "a\0".to_owned(), false),
        ] {
            assert_eq!(GatewayName::new(&text).is_ok(), fits, "{name}");
            assert_eq!(StreamName::new(&text).is_ok(), fits, "{name}");
        }
    }

    #[test]
    fn a_data_topic_reads_back() {
        let gateway = GatewayName::new("g1").unwrap();
        let stream = StreamName::new("temp_1m").unwrap();
        let topic = gateway.data_topic(&stream, PartitionId(65535));
        assert_eq!(topic, "forebay/v1/g1/data/temp_1m/65535");
        assert_eq!(
            parse_data_topic(&topic),
            Some((gateway, stream, PartitionId(65535)))
        );
    }

    #[test]
    fn other_topics_are_none() {
        for topic in [
            "",
            "forebay/v1",
            "forebay/v2/g/data/s/0",
            "forebay/v1/g/data/s",
            "forebay/v1/g/data/s/0/x",
            "forebay/v1/g/data/s/00",
            "forebay/v1/g/data/s/+1",
            "forebay/v1/g/data/s/65536",
            "forebay/v1/g/status",
            "forebay/v1//data/s/0",
            "xforebay/v1/g/data/s/0",
        ] {
            assert_eq!(parse_data_topic(topic), None, "{topic}");
        }
    }
}
