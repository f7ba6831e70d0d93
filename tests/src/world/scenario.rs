//! What room a world's log has, and what happens to its disk.

use std::collections::BTreeMap;

use forebay_core::retention::{SpaceConfig, TopicPolicy, WhenFull};
use forebay_core::store::memory::MemoryDisk;

/// Room and disk of one world.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub space: SpaceConfig,
    pub disk: MemoryDisk,
    /// Others fill the disk for a while, now and then.
    pub fills: bool,
    /// The broker is out of reach for seconds, now and then.
    pub outages: bool,
    /// The gateway is killed and started with more partitions, now and then.
    pub grows: bool,
    /// A window crosses devices.
    pub crosses: bool,
    /// Somebody changes settings of devices and commands them, now and then.
    pub operated: bool,
}

impl Scenario {
    /// Room for everything; generations are sealed.
    #[must_use]
    pub fn roomy() -> Self {
        Self {
            space: SpaceConfig::default(),
            disk: MemoryDisk {
                generation_bytes: 16_000,
                capacity_bytes: u64::MAX,
                foreign_bytes: 0,
            },
            fills: false,
            outages: false,
            grows: false,
            crosses: false,
            operated: false,
        }
    }

    /// Room for everything, and a window that crosses devices.
    #[must_use]
    pub fn crossing() -> Self {
        Self {
            crosses: true,
            ..Self::roomy()
        }
    }

    /// Room for everything, and an operator.
    #[must_use]
    pub fn operated() -> Self {
        Self {
            operated: true,
            ..Self::roomy()
        }
    }

    /// Room for everything, and ever more partitions.
    #[must_use]
    pub fn growing() -> Self {
        Self {
            grows: true,
            ..Self::roomy()
        }
    }

    /// Little room, and ever more partitions.
    #[must_use]
    pub fn growing_small(when_full: WhenFull) -> Self {
        Self {
            grows: true,
            ..Self::small(when_full)
        }
    }

    /// Quotas that a world fills more than once.
    #[must_use]
    pub fn small(when_full: WhenFull) -> Self {
        let policy = |quota_bytes| TopicPolicy {
            quota_bytes,
            age: None,
            when_full,
        };
        let topics = BTreeMap::from([
            ("readings".to_owned(), policy(5_000)),
            ("rolling".to_owned(), policy(40_000)),
        ]);
        Self {
            space: SpaceConfig {
                reserve_bytes: 0,
                topics,
            },
            disk: MemoryDisk {
                // Below what opens a full topic again: what is not sealed cannot go.
                generation_bytes: 4_000,
                capacity_bytes: u64::MAX,
                foreign_bytes: 0,
            },
            fills: false,
            outages: true,
            grows: false,
            crosses: false,
            operated: false,
        }
    }

    /// A disk that others fill and empty again.
    #[must_use]
    pub fn filling(when_full: WhenFull) -> Self {
        let mut scenario = Self::small(when_full);
        scenario.space.reserve_bytes = 10_000;
        for policy in scenario.space.topics.values_mut() {
            policy.quota_bytes *= 100;
        }
        scenario.disk.capacity_bytes = 300_000;
        scenario.fills = true;
        scenario
    }
}
