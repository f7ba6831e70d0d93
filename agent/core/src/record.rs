//! What the log holds, as values: readings, gaps and result rows. Knows neither
//! where they came from nor how they become bytes.

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::{self, Quality};

use crate::units::EventTime;

/// The stream of one channel in one boot of one device, as a block names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    pub uid: DeviceUid,
    pub boot: BootId,
    pub channel: ChannelNo,
    /// A value v stands for v / 10^scale; 0 to 9.
    pub scale: u8,
    pub name: Arc<str>,
    pub unit: Arc<str>,
}

/// One reading in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingRecord {
    /// Index into the block's series.
    pub series: u16,
    pub ordinal: Ordinal,
    pub tick: Tick,
    pub time: EventTime,
    /// Half width of the interval that holds the true time, us.
    pub uncertainty_us: u32,
    /// Scaled integer, see [`Series::scale`]; 0 unless `quality` is ok.
    pub value: i32,
    pub quality: Quality,
}

/// Why ordinals will never come: what a device can say, and what only the gateway
/// knows. Its byte in a block is its number here: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum GapReason {
    RingFull = 0,
    IsrFull = 1,
    SensorOff = 2,
    PowerLoss = 3,
    /// The readings arrived, and the log had no room for them.
    LogFull = 4,
}

impl From<message::GapReason> for GapReason {
    fn from(reason: message::GapReason) -> Self {
        match reason {
            message::GapReason::RingFull => Self::RingFull,
            message::GapReason::IsrFull => Self::IsrFull,
            message::GapReason::SensorOff => Self::SensorOff,
            message::GapReason::PowerLoss => Self::PowerLoss,
        }
    }
}

/// Ordinals that will never come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapRecord {
    pub uid: DeviceUid,
    pub boot: BootId,
    pub first: Ordinal,
    pub count: u64,
    pub reason: GapReason,
    /// When the gap ended, mapped from its last tick.
    pub time: EventTime,
}

/// What stands at one offset of a readings partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    Reading(ReadingRecord),
    Gap(GapRecord),
}

impl Record {
    #[must_use]
    pub fn time(&self) -> EventTime {
        match self {
            Self::Reading(reading) => reading.time,
            Self::Gap(gap) => gap.time,
        }
    }
}

/// One result line of a derived stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub time: EventTime,
    /// The JSON object as the engine wrote it, without a newline.
    pub line: Vec<u8>,
}

/// Names of the qualities in JSON, in order of their codes.
pub const QUALITIES: [(Quality, &str); 7] = [
    (Quality::Ok, "ok"),
    (Quality::Stale, "stale"),
    (Quality::Saturated, "saturated"),
    (Quality::BusError, "bus_error"),
    (Quality::CrcError, "crc_error"),
    (Quality::Implausible, "implausible"),
    (Quality::WarmingUp, "warming_up"),
];

/// Names of the gap reasons in JSON, in order of their codes.
pub const GAPS: [(GapReason, &str); 5] = [
    (GapReason::RingFull, "ring_full"),
    (GapReason::IsrFull, "isr_full"),
    (GapReason::SensorOff, "sensor_off"),
    (GapReason::PowerLoss, "power_loss"),
    (GapReason::LogFull, "log_full"),
];

/// Name of a quality in JSON.
#[must_use]
pub fn quality_name(quality: Quality) -> &'static str {
    QUALITIES[usize::from(quality as u8)].1
}

/// Name of a gap reason in JSON.
#[must_use]
pub fn gap_name(reason: GapReason) -> &'static str {
    GAPS[usize::from(reason as u8)].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_order_of_codes() {
        for (code, (quality, _)) in QUALITIES.iter().enumerate() {
            assert_eq!(usize::from(*quality as u8), code);
        }
        for (code, (reason, _)) in GAPS.iter().enumerate() {
            assert_eq!(usize::from(*reason as u8), code);
        }
    }

    #[test]
    fn what_a_device_says_keeps_its_number() {
        for reason in message::GapReason::ALL {
            assert_eq!(GapReason::from(reason) as u8, reason as u8);
        }
    }
}
