//! How much room the log may take: quota and age per topic, a reserve of free disk,
//! and what happens when a topic is full.
//!
//! Says which sealed segments go, which topics take new records, and how many
//! records were dropped. Knows segments by what the store says of them; opens no
//! file, and measures age by the monotonic clock: a wall clock that jumps removes
//! nothing.

mod choose;
mod dropped;
mod live;
mod notices;
mod policy;
mod space;
#[cfg(test)]
mod tests;
mod topic;

pub use self::dropped::{Came, DROPPED_META_PREFIX, DropCounts, drop_counts};
pub use self::notices::size;
pub use self::policy::{
    DERIVED_QUOTA_BYTES, FIXED_TOPICS, OWN_QUOTA_BYTES, READINGS_QUOTA_BYTES, SpaceConfig,
    TopicPolicy, WhenFull, default_policy,
};
pub use self::space::{Progress, Retention, TopicUse};
