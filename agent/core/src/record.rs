//! What the log holds, as values: readings, gaps, what the clock said, how far tables are
//! known, result rows. Knows neither where they came from nor how they become bytes.

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::limits::SCALE_MAX;
use forebay_wire::message::{self, Quality};

use crate::units::{EventTime, Offset, Span};

/// The stream of one channel in one boot of one device, as a block names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    pub uid: DeviceUid,
    pub boot: BootId,
    pub channel: ChannelNo,
    pub kind: ValueKind,
    pub name: Arc<str>,
    pub unit: Arc<str>,
}

/// Largest magnitude of a scaled value: a double holds all integers up to it.
pub const SCALED_VALUE_MAX: u64 = 1 << 53;

/// What the values of a series are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueKind {
    /// A value v stands for v / 10^scale; scale is 0 to [`SCALE_MAX`], and v at
    /// most [`SCALED_VALUE_MAX`] either way.
    Scaled { scale: u8 },
    /// A value is the bits of a finite f64.
    Double,
}

/// Powers of ten that are exact in a double.
const POWERS: [f64; SCALE_MAX as usize + 1] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// A value together with what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    pub value: i64,
    pub kind: ValueKind,
}

impl Figure {
    /// A double; `None` when it is not finite: the log holds numbers only.
    #[must_use]
    pub fn double(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self {
            value: value.to_bits().cast_signed(),
            kind: ValueKind::Double,
        })
    }

    /// The double nearest to the number meant: both operands of the one division
    /// are exact. `None` for what no writer writes: a scale or a scaled value
    /// above its maximum, a double that is no number.
    #[must_use]
    pub fn to_f64(self) -> Option<f64> {
        match self.kind {
            ValueKind::Scaled { scale } => {
                let power = POWERS.get(usize::from(scale))?;
                (self.value.unsigned_abs() <= SCALED_VALUE_MAX).then(|| self.value as f64 / power)
            }
            ValueKind::Double => {
                Some(f64::from_bits(self.value.cast_unsigned())).filter(|v| v.is_finite())
            }
        }
    }
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
    /// As the series' kind says; 0 unless `quality` is ok.
    pub value: i64,
    pub quality: Quality,
}

impl ReadingRecord {
    /// Whether its time comes from a clock that was not trusted.
    #[must_use]
    pub fn is_unsynced(&self) -> bool {
        self.uncertainty_us == UNSYNCED_US
    }

    /// Whether the value is a number of its series' kind.
    #[must_use]
    pub fn has_figure(&self, series: &Series) -> bool {
        let figure = Figure {
            value: self.value,
            kind: series.kind,
        };
        figure.to_f64().is_some()
    }
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

/// Why records of a partition do not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Missing {
    /// Removed to make room, or because of their age.
    Trimmed,
    /// Damaged.
    Lost,
    /// Older than the operator wants them to be when they are sent.
    Expired,
    /// A broker does not take them; the gateway keeps them, and may send them later on
    /// request. Declared for epoch 0, which no opening has: a record that comes after
    /// all still is a first delivery.
    Refused,
}

/// Names of these in JSON.
pub const MISSING: [(Missing, &str); 4] = [
    (Missing::Trimmed, "trimmed"),
    (Missing::Lost, "lost"),
    (Missing::Expired, "expired"),
    (Missing::Refused, "refused"),
];

/// Name of such a reason in JSON.
#[must_use]
pub fn missing_name(reason: Missing) -> &'static str {
    match reason {
        Missing::Trimmed => "trimmed",
        Missing::Lost => "lost",
        Missing::Expired => "expired",
        Missing::Refused => "refused",
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

/// [`ReadingRecord::uncertainty_us`] of a reading whose time comes from a clock that was
/// not trusted: the true time may be any.
pub const UNSYNCED_US: u32 = u32::MAX;

/// What a reading of the gateway's clock is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockTrust {
    /// Nothing is judged by it, nor by what was known before.
    No,
    Yes,
    /// It has just become trusted: the readings before whose time is not known, of the
    /// same opening of the log, happened so much later than they say.
    Since(Span),
}

/// What the gateway's clock said, for whoever reads the log: idleness and the future
/// guard go by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockRecord {
    pub now: EventTime,
    pub trust: ClockTrust,
}

/// Names of these in JSON.
#[must_use]
pub fn trust_name(trust: ClockTrust) -> &'static str {
    match trust {
        ClockTrust::No => "untrusted",
        ClockTrust::Yes => "trusted",
        ClockTrust::Since(_) => "corrected",
    }
}

/// From here on a reader of the partition knows the changes of tables below an offset: the
/// engine applies them at this place, whatever the timing, so that it stays a function of
/// what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TablesRecord {
    /// Changes below this offset of topic `changes` were durable when this was written.
    pub upto: Offset,
    /// What the gateway's clock said then; nothing is judged by it.
    pub time: EventTime,
}

/// What stands at one offset of a readings partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    Reading(ReadingRecord),
    Gap(GapRecord),
    Clock(ClockRecord),
    Tables(TablesRecord),
}

impl Record {
    #[must_use]
    pub fn time(&self) -> EventTime {
        match self {
            Self::Reading(reading) => reading.time,
            Self::Gap(gap) => gap.time,
            Self::Clock(clock) => clock.now,
            Self::Tables(tables) => tables.time,
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
    fn figures_are_the_nearest_doubles() {
        const MOST: i64 = SCALED_VALUE_MAX as i64;
        let scaled = |value, scale| Figure {
            value,
            kind: ValueKind::Scaled { scale },
        };
        let bits = |value: f64| Figure {
            value: value.to_bits().cast_signed(),
            kind: ValueKind::Double,
        };
        for (name, figure, want) in [
            ("no decimals", scaled(7, 0), Some(7.0)),
            ("two", scaled(-215, 2), Some(-2.15)),
            ("largest scale", scaled(1, SCALE_MAX), Some(1e-9)),
            ("one more", scaled(1, SCALE_MAX + 1), None),
            (
                "below the largest",
                scaled(-MOST + 1, 0),
                Some(-MOST as f64 + 1.0),
            ),
            ("largest value", scaled(-MOST, 0), Some(-MOST as f64)),
            ("above it", scaled(-MOST - 1, 0), None),
            ("a double", bits(0.1), Some(0.1)),
            ("largest double", bits(f64::MAX), Some(f64::MAX)),
            ("infinite", bits(f64::INFINITY), None),
            ("no number", bits(f64::NAN), None),
        ] {
            assert_eq!(figure.to_f64(), want, "{name}");
        }
        assert_eq!(Figure::double(0.1), Some(bits(0.1)));
        assert_eq!(Figure::double(f64::NAN), None);
        assert_eq!(Figure::double(f64::NEG_INFINITY), None);
    }

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
