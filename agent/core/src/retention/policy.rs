//! What an operator may say about the room that topics take, and what holds when
//! nothing is said. Knows no segments.

use std::collections::BTreeMap;

use crate::limits::{GENERATION_BYTES_MIN, GENERATIONS_PER_QUOTA};
use crate::units::Span;

/// What happens to new records when a topic has used up its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest segments go, whether they were forwarded or not.
    DropOldest,
    /// What is there stays until it was forwarded. New readings are taken from the
    /// device, counted as rejected and not stored.
    RejectNew,
    /// What is there stays until it was forwarded. Devices wait: their readings stay
    /// in their own rings.
    Block,
}

impl WhenFull {
    /// As the config and the status call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DropOldest => "drop_oldest",
            Self::RejectNew => "reject_new",
            Self::Block => "block",
        }
    }
}

/// How much room a topic may take, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicPolicy {
    /// On disk, with its part of what is not sealed yet.
    pub quota_bytes: u64,
    /// Segments go when they were sealed so long ago, whatever `when_full` says.
    pub age: Option<Span>,
    pub when_full: WhenFull,
}

/// Quota of the readings when the config gives none.
pub const READINGS_QUOTA_BYTES: u64 = 8 << 30;
/// Quota of each derived stream.
pub const DERIVED_QUOTA_BYTES: u64 = 1 << 30;
/// Quota of each topic that the agent keeps for itself: control, late, quarantine.
pub const OWN_QUOTA_BYTES: u64 = 256 << 20;

/// Names of the topics that have no window's name.
pub const FIXED_TOPICS: [&str; 6] = [
    "readings",
    "control",
    "late",
    "quarantine",
    "exchange",
    "changes",
];

/// The policy of a topic of which the config says nothing.
#[must_use]
pub fn default_policy(name: &str) -> TopicPolicy {
    let quota_bytes = match FIXED_TOPICS.iter().position(|fixed| *fixed == name) {
        Some(0) => READINGS_QUOTA_BYTES,
        Some(1..=3) => OWN_QUOTA_BYTES,
        Some(_) | None => DERIVED_QUOTA_BYTES,
    };
    TopicPolicy {
        quota_bytes,
        age: None,
        when_full: WhenFull::DropOldest,
    }
}

/// What the config says about the room of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceConfig {
    /// Bytes of the disk that stay free.
    pub reserve_bytes: u64,
    /// By name of the topic, or of the window that a stream comes from.
    pub topics: BTreeMap<String, TopicPolicy>,
}

impl Default for SpaceConfig {
    fn default() -> Self {
        Self {
            reserve_bytes: 256 << 20,
            topics: BTreeMap::new(),
        }
    }
}

impl SpaceConfig {
    /// The policy of a topic.
    #[must_use]
    pub fn policy(&self, name: &str) -> TopicPolicy {
        let given = self.topics.get(name).copied();
        given.unwrap_or_else(|| default_policy(name))
    }

    /// How large a generation may become when `wanted_bytes` are asked for: a small
    /// part of the smallest quota, because it is what goes at once.
    #[must_use]
    pub fn generation_bytes(&self, wanted_bytes: u64) -> u64 {
        let quotas = self.topics.values().map(|policy| policy.quota_bytes);
        let smallest = quotas.chain([OWN_QUOTA_BYTES]).min();
        let part = smallest.unwrap_or(OWN_QUOTA_BYTES) / GENERATIONS_PER_QUOTA;
        wanted_bytes.min(part).max(GENERATION_BYTES_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_by_name() {
        for (name, quota) in [
            ("readings", READINGS_QUOTA_BYTES),
            ("control", OWN_QUOTA_BYTES),
            ("late", OWN_QUOTA_BYTES),
            ("quarantine", OWN_QUOTA_BYTES),
            ("rolling_1m", DERIVED_QUOTA_BYTES),
        ] {
            let policy = SpaceConfig::default().policy(name);
            assert_eq!(policy.quota_bytes, quota, "{name}");
            assert_eq!(policy.when_full, WhenFull::DropOldest, "{name}");
        }
    }

    #[test]
    fn a_generation_is_a_small_part_of_the_smallest_quota() {
        for (name, wanted, quota, want) in [
            ("as asked", 16 << 20, 8 << 30, 16 << 20),
            ("a sixteenth", 16 << 20, 64 << 20, 4 << 20),
            (
                "one byte under the edge",
                4 << 20,
                (64 << 20) - 1,
                (4 << 20) - 1,
            ),
            ("four megabytes", 16 << 20, 4_000_000, 256 << 10),
            ("smaller than the least", 1, 8 << 30, 256 << 10),
        ] {
            let mut space = SpaceConfig::default();
            let mut policy = default_policy("readings");
            policy.quota_bytes = quota;
            space.topics.insert("readings".into(), policy);
            assert_eq!(space.generation_bytes(wanted), want, "{name}");
        }
    }
}
