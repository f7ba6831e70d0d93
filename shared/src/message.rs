//! The messages of the link, as values. How they become bytes stands in
//! `shared/docs/wire.md`: a struct here never changes its body, a new message
//! takes a new kind.

use heapless::String;

use crate::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use crate::limits::{QUANTITY_BYTES_MAX, UNIT_BYTES_MAX};

mod control;

pub use control::{Cmd, CmdResult, CmdStatus, ConfigChunk, Health, Log, Operation, ReceiveCounts};

/// Why a reading has no value, or that it has one. Append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Quality {
    #[default]
    Ok = 0,
    Stale = 1,
    Saturated = 2,
    BusError = 3,
    CrcError = 4,
    Implausible = 5,
    WarmingUp = 6,
}

impl Quality {
    /// Every variant; its byte on the link is its place here, frozen.
    pub const ALL: [Quality; 7] = [
        Quality::Ok,
        Quality::Stale,
        Quality::Saturated,
        Quality::BusError,
        Quality::CrcError,
        Quality::Implausible,
        Quality::WarmingUp,
    ];

    /// The variant with this byte, if this version knows it.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// One reading as the device holds it; its ordinal follows from its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub channel: ChannelNo,
    pub tick: Tick,
    /// Scaled integer: the figure is `value / 10^scale` of its channel.
    /// Meaningless unless `quality` is [`Quality::Ok`].
    pub value: i32,
    pub quality: Quality,
}

/// Why the device started. Append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ResetCause {
    Unknown = 0,
    PowerOn = 1,
    Pin = 2,
    Software = 3,
    Watchdog = 4,
    Brownout = 5,
}

impl ResetCause {
    /// Every variant; its byte on the link is its place here, frozen.
    pub const ALL: [ResetCause; 6] = [
        ResetCause::Unknown,
        ResetCause::PowerOn,
        ResetCause::Pin,
        ResetCause::Software,
        ResetCause::Watchdog,
        ResetCause::Brownout,
    ];

    /// The variant with this byte, if this version knows it.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// Kind 1: who the device is. Sent at boot and each second until acked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub uid: DeviceUid,
    pub boot: BootId,
    pub protocol_minor: u8,
    /// Hash of the byte tables that the firmware was built with.
    pub schema_hash: u32,
    /// major, minor, patch
    pub firmware_version: [u8; 3],
    pub build_id: [u8; 8],
    pub reset_cause: ResetCause,
    /// Ticks of the hardware counter per second (ticks on the link are always us).
    pub tick_hz: u32,
    /// Readings that the ring holds.
    pub ring_capacity: u32,
    pub channel_count: u8,
}

/// Kind 2: what a channel measures. Sent for each channel after every Hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelInfo {
    pub channel: ChannelNo,
    /// `[a-z][a-z0-9_]*`, unique on its device: the channel's name everywhere.
    pub quantity: String<QUANTITY_BYTES_MAX>,
    pub unit: String<UNIT_BYTES_MAX>,
    /// A value v stands for v / 10^scale; 0 to 9.
    pub scale: u8,
    /// Smallest and largest value that the sensor can mean.
    pub range: (i32, i32),
    /// Declared sampling period, us.
    pub period_us: u32,
}

/// Why readings never reached the gateway. Append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum GapReason {
    RingFull = 0,
    IsrFull = 1,
    SensorOff = 2,
    PowerLoss = 3,
}

impl GapReason {
    /// Every variant; its byte on the link is its place here, frozen.
    pub const ALL: [GapReason; 4] = [
        GapReason::RingFull,
        GapReason::IsrFull,
        GapReason::SensorOff,
        GapReason::PowerLoss,
    ];

    /// The variant with this byte, if this version knows it.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// Kind 4: ordinals that will never come, `first` to `first + count - 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub boot: BootId,
    pub reason: GapReason,
    pub first: Ordinal,
    pub count: u64,
    pub first_tick: Tick,
    pub last_tick: Tick,
}

/// Kind 6: the device's two stamps of a clock probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncReply {
    pub id: u32,
    pub received: Tick,
    pub sent: Tick,
}

/// Kind 9: the session is open; Data may flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelloAck {
    /// Boot that this answers, so that an ack of the last boot opens nothing.
    pub boot: BootId,
    /// First ordinal of this boot that the gateway does not have yet.
    pub next: Ordinal,
    /// Data frames that may be on the way unacked, 1 to WINDOW_FRAMES_MAX.
    pub window: u8,
    /// False: lossy, the device forgets a reading once it was sent.
    pub reliable: bool,
    /// 0 off, 1 error, 2 warn, 3 info, 4 debug, 5 trace.
    pub log_level: u8,
}

/// Kind 10: all ordinals below `next` are on the gateway's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    pub boot: BootId,
    pub next: Ordinal,
    /// Data frames that may be on the way from here on.
    pub credit: u8,
}

/// Kind 11: a clock probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncReq {
    pub id: u32,
}

impl Ack {
    /// What a gateway answers to readings of a device that it does not know, as after
    /// its own restart: an ack of nothing, for a boot that is surely not the device's.
    #[must_use]
    pub fn to_unknown(boot_low: u8) -> Self {
        Ack {
            boot: BootId(u32::from(!boot_low)),
            next: Ordinal(0),
            credit: 0,
        }
    }

    /// Whether the gateway says that it does not know the device of this boot.
    #[must_use]
    pub fn is_to_unknown(&self, boot: BootId) -> bool {
        self.boot != boot && self.next == Ordinal(0) && self.credit == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminants_are_frozen() {
        let quality = [
            (Quality::Ok, 0),
            (Quality::Stale, 1),
            (Quality::Saturated, 2),
            (Quality::BusError, 3),
            (Quality::CrcError, 4),
            (Quality::Implausible, 5),
            (Quality::WarmingUp, 6),
        ];
        for (variant, byte) in quality {
            assert_eq!(
                (variant as u8, Quality::from_byte(byte)),
                (byte, Some(variant))
            );
        }
        let cause = [
            (ResetCause::Unknown, 0),
            (ResetCause::PowerOn, 1),
            (ResetCause::Pin, 2),
            (ResetCause::Software, 3),
            (ResetCause::Watchdog, 4),
            (ResetCause::Brownout, 5),
        ];
        for (variant, byte) in cause {
            assert_eq!(
                (variant as u8, ResetCause::from_byte(byte)),
                (byte, Some(variant))
            );
        }
        let reason = [
            (GapReason::RingFull, 0),
            (GapReason::IsrFull, 1),
            (GapReason::SensorOff, 2),
            (GapReason::PowerLoss, 3),
        ];
        for (variant, byte) in reason {
            assert_eq!(
                (variant as u8, GapReason::from_byte(byte)),
                (byte, Some(variant))
            );
        }
        assert_eq!(
            (
                Quality::from_byte(7),
                ResetCause::from_byte(6),
                GapReason::from_byte(4)
            ),
            (None, None, None)
        );
    }
}
