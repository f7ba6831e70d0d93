//! Readings like those of real devices, the same on every machine, and the blocks that
//! they become. Knows no test.

use std::sync::Arc;

use forebay_core::log::block::{ReadingRecord, Series};
use forebay_core::log::builder::ReadingsBuilder;
use forebay_core::log::key::{BlockKey, StoredBlock, TopicPartition};
use forebay_core::log::merge::Merger;
use forebay_core::record::ValueKind;
use forebay_core::units::{Epoch, EventTime, Offset, PartitionId, TopicId};
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

/// 2026-03-01T00:00:00Z.
pub(crate) const START: i64 = 1_772_323_200_000_000;
pub(crate) const EPOCH: Epoch = Epoch(2);

pub(crate) fn place(topic: u16) -> TopicPartition {
    TopicPartition {
        topic: TopicId(topic),
        partition: PartitionId(3),
    }
}

pub(crate) fn series(channel: u8, kind: ValueKind, name: &str, unit: &str) -> Series {
    Series {
        uid: DeviceUid([1, 2, 3, 4, 5, 6, 7, 8]),
        boot: BootId(9),
        channel: ChannelNo(channel),
        kind,
        name: Arc::from(name),
        unit: Arc::from(unit),
    }
}

/// The same numbers on every machine, one after another.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mixed = self.0 ^ self.0 >> 29;
        (mixed >> 16) % bound
    }

    /// From -most to most.
    pub(crate) fn around(&mut self, most: i64) -> i64 {
        self.below(2 * most as u64 + 1) as i64 - most
    }
}

pub(crate) type Given = (Series, ReadingRecord);

/// A board with `channels` channels at 10 Hz: sampled one after another with some
/// jitter, a new clock fit now and then, values that wander.
pub(crate) fn board(channels: u8, count: usize, dice: &mut Dice) -> Vec<Given> {
    let all: Vec<Series> = (0..channels)
        .map(|n| {
            series(
                n,
                ValueKind::Scaled { scale: 2 },
                &format!("temperature_{n}"),
                "degC",
            )
        })
        .collect();
    let mut values = vec![2_150_i64; usize::from(channels)];
    let mut offset = START - 5_000_000;
    (0..count)
        .map(|n| {
            let channel = n % usize::from(channels);
            let round = (n / usize::from(channels)) as u64;
            if n.is_multiple_of(200) {
                offset += dice.around(40);
            }
            values[channel] += dice.around(60);
            let jitter = dice.below(150) + 220 * channel as u64;
            let tick = 5_000_000 + round * 100_000 + jitter;
            let reading = ReadingRecord {
                series: 0,
                ordinal: Ordinal(70_000 + n as u64),
                tick: Tick(tick),
                time: EventTime(offset + tick as i64),
                uncertainty_us: 180 + (n / 200) as u32,
                value: values[channel],
                quality: Quality::Ok,
            };
            (all[channel].clone(), reading)
        })
        .collect()
}

/// Blocks of `given` as they are written while they come, each full.
pub(crate) fn live(given: &[Given]) -> Vec<StoredBlock> {
    let mut builder = ReadingsBuilder::new();
    let (mut blocks, mut base) = (Vec::new(), Offset(0));
    let mut seal = |builder: &mut ReadingsBuilder| {
        let key = BlockKey {
            at: place(0),
            base,
            chunk: 0,
        };
        base.0 += builder.len() as u64;
        let bytes = builder.seal(key.at, key.base, EPOCH);
        blocks.push(StoredBlock { key, bytes });
    };
    for (series, reading) in given {
        if builder.push_reading(series, reading).is_err() {
            seal(&mut builder);
            assert_eq!(builder.push_reading(series, reading), Ok(()));
        }
    }
    seal(&mut builder);
    blocks
}

pub(crate) fn sealed(blocks: Vec<StoredBlock>) -> Vec<StoredBlock> {
    let mut merger = Merger::new();
    let mut out: Vec<_> = blocks.into_iter().flat_map(|b| merger.push(b)).collect();
    out.extend(merger.finish());
    out
}

/// Named bytes as a file has them: `name:`, then lines of hex.
pub(crate) fn golden(file: &str) -> Vec<(&str, Vec<u8>)> {
    let mut blocks: Vec<(&str, Vec<u8>)> = Vec::new();
    for line in file.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_suffix(':') {
            blocks.push((name, Vec::new()));
            continue;
        }
        let (_, bytes) = blocks.last_mut().unwrap();
        let byte = |text: &[u8]| u8::from_str_radix(std::str::from_utf8(text).unwrap(), 16);
        bytes.extend(line.as_bytes().chunks(2).map(|pair| byte(pair).unwrap()));
    }
    blocks
}

/// The file that [`golden`] reads as this.
pub(crate) fn text(blocks: &[(&str, Vec<u8>)]) -> String {
    let mut out = String::new();
    for (name, bytes) in blocks {
        out += &format!("{name}:\n");
        for line in bytes.chunks(40) {
            out.extend(line.iter().map(|byte| format!("{byte:02x}")));
            out.push('\n');
        }
    }
    out
}
