//! What the forwarder counts. Decides nothing.

use super::ids::Refusal;

/// Counts since the start of the process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub published: u64,
    /// Of these, again.
    pub resent: u64,
    pub refused: u64,
    /// Records that are passed over because the broker does not take them.
    pub parked: u64,
    pub disconnects: u64,
    /// Times that the marks went back because the receiver's side lost something.
    pub rewinds: u64,
    /// Blocks sent again to see whether the receiver misses them.
    pub probes: u64,
    /// Messages from the receiver's side that do not read.
    pub messages_bad: u64,
    /// Acks of the receiver about openings of the log that are not ours.
    pub acks_foreign: u64,
    /// Acks that came after newer ones.
    pub acks_late: u64,
    /// Connections that were given up because nothing moved.
    pub stalls: u64,
    pub last_refusal: Option<Refusal>,
}
