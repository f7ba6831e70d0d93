//! What is looked at each second, as plain figures: whoever knows the stages fills it in.
//! Decides nothing.

use forebay_wire::ids::DeviceUid;

use super::stalled::DeviceFacts;
use crate::forward::Standing;
use crate::retention::{TopicUse, WhenFull};
use crate::units::PortId;

/// A topic of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicFacts {
    pub name: String,
    pub used_bytes: u64,
    pub quota_bytes: u64,
    pub full: bool,
    pub near_full: bool,
    pub when_full: WhenFull,
    /// Records that went before they had arrived.
    pub dropped_unsent: u64,
}

impl TopicFacts {
    /// Of the room that a topic takes.
    #[must_use]
    pub fn of(topic: TopicUse) -> Self {
        Self {
            name: topic.name,
            used_bytes: topic.used_bytes,
            quota_bytes: topic.policy.quota_bytes,
            full: topic.full,
            near_full: topic.alarm,
            when_full: topic.policy.when_full,
            dropped_unsent: topic.counts.unconfirmed,
        }
    }
}

/// What waits of one topic for a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BacklogFacts {
    pub topic: String,
    pub bytes: u64,
    /// What the log can keep of it.
    pub room_bytes: u64,
}

impl BacklogFacts {
    /// Part of the room that it takes.
    #[must_use]
    pub fn percent(&self) -> u64 {
        let percent = u128::from(self.bytes) * 100 / u128::from(self.room_bytes.max(1));
        u64::try_from(percent).unwrap_or(u64::MAX)
    }
}

/// A destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationFacts {
    pub standing: Standing,
    /// Per topic.
    pub backlog: Vec<BacklogFacts>,
}

/// A source of tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFacts {
    pub name: String,
    /// It does not go on by itself.
    pub failed: Option<String>,
    /// It goes on by itself: what it waits for.
    pub waits: Option<String>,
}

/// The log and its disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreFacts {
    /// Why it cannot be written.
    pub trouble: Option<String>,
    /// That the disk is at its reserve.
    pub low: Option<String>,
    /// Records that were found lost in this run, and that readers missed.
    pub lost: u64,
    /// Damaged files that stand in quarantine, whenever they were set aside, and that nobody
    /// has dealt with.
    pub set_aside: u64,
}

/// What the engine counted in this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineFacts {
    pub rows_different: u64,
    /// Rows without a topic or too long, rows of a full topic, and readings of series
    /// beyond those that are taken.
    pub left_out: u64,
    /// Readings in the topic `quarantine`, of all runs.
    pub quarantined: u64,
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub clock_trusted: bool,
    /// In order of uid.
    pub devices: Vec<(DeviceUid, DeviceFacts)>,
    /// Devices that were turned away.
    pub devices_refused: u64,
    /// Ports that are open, in order.
    pub open_ports: Vec<PortId>,
    pub topics: Vec<TopicFacts>,
    pub destinations: Vec<DestinationFacts>,
    pub sources: Vec<SourceFacts>,
    pub store: StoreFacts,
    pub engine: EngineFacts,
}
