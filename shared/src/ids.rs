//! Ids and units of the link. Each is a newtype, so that a boot id cannot be
//! passed where an ordinal is meant.

use core::fmt;

/// Identity of a device for life, burnt in or derived from the chip's own id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceUid(pub [u8; 8]);

impl fmt::Display for DeviceUid {
    /// Sixteen lower-case hex digits: the device's name wherever none was given.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// One power-on or reset of a device. Ticks and ordinals start again with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootId(pub u32);

/// Place of a reading in everything that its device produced in this boot,
/// counted from 0, also for readings that were dropped afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordinal(pub u64);

/// Microseconds since the device's boot, on the device's own clock. Never wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

/// Number of a channel on its device, 0 to [`crate::limits::CHANNELS_MAX`] - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelNo(pub u8);
