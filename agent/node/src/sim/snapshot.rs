//! What a simulated device counts, at one moment, and whether its sums close.

use forebay_firmware::wire::ids::{BootId, DeviceUid};
use forebay_firmware::wire::message::GapReason;

use super::board::EarlierBoots;

/// `produced` to `gaps` are of the boot that runs, `earlier` of those before it;
/// the others of all boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimSnapshot {
    pub uid: DeviceUid,
    pub boot: BootId,
    /// Whether a gateway answers.
    pub open: bool,
    /// Readings that got an ordinal.
    pub produced: u64,
    /// Readings that the gateway has on its disk.
    pub acked: u64,
    /// First ordinal of this boot that the gateway has not acked: all below is on its
    /// disk, or declared as lost.
    pub settled: u64,
    /// Readings in the device's ring.
    pub waiting: u64,
    /// Readings that were lost before they were acked.
    pub gaps: u64,
    /// `gaps`, by [`GapReason`].
    pub gaps_by_reason: [u64; GapReason::ALL.len()],
    pub earlier: EarlierBoots,
    /// Earlier boots whose losses no gateway has noted yet.
    pub owed_boots: u64,
    /// Times that the device went back and sent unacked frames again.
    pub resends: u64,
    /// Damaged frames from the gateway.
    pub bad_frames: u64,
    /// Faults that the simulated cable made, both ways, byte by byte.
    pub faults: u64,
    /// Times that the cable stalled.
    pub stalls: u64,
    /// Times that the cable was unplugged.
    pub unplugs: u64,
    /// Sampling slots that this computer was too late for; not readings.
    pub missed_samples: u64,
}

impl SimSnapshot {
    /// Readings that got an ordinal, in all boots.
    #[must_use]
    pub fn produced_in_all(&self) -> u64 {
        self.earlier.produced + self.produced
    }

    /// Whether every reading of every boot is acked, waiting or declared lost.
    #[must_use]
    pub fn closes(&self) -> bool {
        let earlier = &self.earlier;
        self.produced == self.acked + self.waiting + self.gaps
            && self.gaps == self.gaps_by_reason.iter().sum::<u64>()
            && earlier.produced == earlier.acked + earlier.gaps + earlier.reset
    }

    /// Whether a gateway could still take something.
    pub(super) fn holds_something(&self) -> bool {
        self.waiting > 0 || self.owed_boots > 0
    }
}

/// A device was told to show where it is; 0 seconds: no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimShows {
    pub uid: DeviceUid,
    pub seconds: u8,
}
