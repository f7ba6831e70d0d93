//! What is written: readings like those of real devices, the same on every machine.

use std::sync::Arc;

use forebay_core::log::block::{ReadingRecord, Series};
use forebay_core::record::{Figure, ValueKind};
use forebay_core::units::EventTime;
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

/// 2026-03-01T00:00:00Z.
const START: i64 = 1_772_323_200_000_000;
/// Readings between two fits of a device's clock.
const FIT_EACH: u64 = 200;

/// Numbers by chance, one after another from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    /// From -most to most.
    fn around(&mut self, most: i64) -> i64 {
        ((self.next() >> 16) % (2 * most as u64 + 1)) as i64 - most
    }
}

/// One board with some channels at 10 Hz: sampled one after another with jitter, a
/// new clock fit now and then, values that wander.
#[derive(Debug)]
pub(crate) struct Board {
    series: Vec<Series>,
    values: Vec<i64>,
    /// How far a value goes at once: what decides the bytes of a reading.
    step: i64,
    /// Whether a value goes on from the one before.
    wanders: bool,
    dice: Dice,
    count: u64,
    offset: i64,
}

impl Board {
    pub(crate) fn new(device: u64, channels: u8, step: i64) -> Self {
        let series = |n| Series {
            uid: DeviceUid(device.to_be_bytes()),
            boot: BootId(1),
            channel: ChannelNo(n),
            kind: ValueKind::Scaled { scale: 2 },
            name: Arc::from(format!("temperature_{n}")),
            unit: Arc::from("degC"),
        };
        Self {
            series: (0..channels).map(series).collect(),
            values: vec![2_150; usize::from(channels)],
            step,
            wanders: true,
            dice: Dice(device + 1),
            count: 0,
            offset: START,
        }
    }

    /// One whose values have nothing to do with each other: 50 bits each.
    pub(crate) fn noise(seed: u64) -> Self {
        Self {
            wanders: false,
            dice: Dice(seed),
            ..Self::new(9, 1, 1 << 50)
        }
    }

    /// The next reading with its series.
    pub(crate) fn next(&mut self) -> (&Series, ReadingRecord) {
        let channel = (self.count % self.series.len() as u64) as usize;
        let round = self.count / self.series.len() as u64;
        if self.count.is_multiple_of(FIT_EACH) {
            self.offset += self.dice.around(40);
        }
        let before = if self.wanders {
            self.values[channel]
        } else {
            0
        };
        let value = before + self.dice.around(self.step);
        self.values[channel] = value;
        let jitter = self.dice.next() % 150 + 220 * channel as u64;
        let tick = round * 100_000 + jitter;
        let reading = ReadingRecord {
            series: 0,
            ordinal: Ordinal(self.count),
            tick: Tick(tick),
            time: EventTime(self.offset + tick as i64),
            uncertainty_us: 180 + (self.count / FIT_EACH % 50) as u32,
            value,
            quality: Quality::Ok,
        };
        self.count += 1;
        (&self.series[channel], reading)
    }
}

/// Readings of a machine's temperature: each five minutes, as doubles.
pub(crate) fn machine(values: &[f64]) -> Vec<(Series, ReadingRecord)> {
    let series = Series {
        uid: DeviceUid([7; 8]),
        boot: BootId(1 << 31),
        channel: ChannelNo(0),
        kind: ValueKind::Double,
        name: Arc::from("temp"),
        unit: Arc::from(""),
    };
    let reading = |(n, value): (usize, &f64)| {
        let figure = Figure::double(*value)?;
        let reading = ReadingRecord {
            series: 0,
            ordinal: Ordinal(n as u64),
            tick: Tick(0),
            time: EventTime(START + n as i64 * 300_000_000),
            uncertainty_us: 0,
            value: figure.value,
            quality: Quality::Ok,
        };
        Some((series.clone(), reading))
    };
    values.iter().enumerate().filter_map(reading).collect()
}
