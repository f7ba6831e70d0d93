//! What the log holds, as values: readings, gaps and result rows. Knows neither
//! where they came from nor how they become bytes.

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::{GapReason, Quality};

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
