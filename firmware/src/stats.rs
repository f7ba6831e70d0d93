//! What the device counts. Each sum closes: see [`Stats::closes`].

use forebay_wire::Counters;
use forebay_wire::message::GapReason;

/// Since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Ordinals given out.
    pub produced: u64,
    /// Readings on the gateway's disk (in lossy mode: sent).
    pub acked: u64,
    /// Readings in the ring.
    pub waiting: u64,
    /// Readings lost, by [`GapReason`]; see [`Stats::gap`].
    pub gaps: [u64; GapReason::ALL.len()],
    pub link: LinkStats,
    /// Frames from the gateway.
    pub received: Counters,
}

/// The session's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkStats {
    pub tx_frames: u64,
    /// With delimiters.
    pub tx_bytes: u64,
    /// Sessions opened by a HelloAck.
    pub sessions: u64,
    /// Times that unacked frames were sent again.
    pub resends: u64,
    /// Acks of another boot, or of ordinals never sent; ignored.
    pub stale_acks: u64,
    /// Clock probes that found the queue full.
    pub dropped_probes: u64,
    /// Last round trip from Data to Ack, smoothed, us; 0 before the first.
    pub round_trip_us: u64,
}

impl Stats {
    #[must_use]
    pub fn gap(&self, reason: GapReason) -> u64 {
        self.gaps[reason as usize]
    }

    /// Readings lost for any reason.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.gaps.iter().sum()
    }

    /// The promise: every reading produced is acked, waiting or declared lost.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.produced == self.acked + self.waiting + self.lost()
    }
}
