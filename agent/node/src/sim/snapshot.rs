//! What a simulated device counts, at one moment.

use forebay_firmware::wire::ids::{BootId, DeviceUid};

/// Since the device's boot. produced = acked + waiting + gaps, always.
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
    /// Readings in the device's ring.
    pub waiting: u64,
    /// Readings that were overwritten before they were acked.
    pub gaps: u64,
    /// Times that the device went back and sent unacked frames again.
    pub resends: u64,
    /// Damaged frames from the gateway.
    pub bad_frames: u64,
    /// Faults that the simulated cable made, both ways.
    pub faults: u64,
    /// Sampling slots that this computer was too late for; not readings.
    pub missed_samples: u64,
}
