//! What the child writes: records as a pure function of their place and epoch, so
//! that whoever reads one knows what it must be, also after blocks were merged.

use std::sync::Arc;

use forebay_core::log::block::{Block, Body, ReadingRecord, Record, Row, Series};
use forebay_core::log::key::TopicPartition;
use forebay_core::record::ValueKind;
use forebay_core::units::{Epoch, EventTime, Offset, PartitionId, TopicId};
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

/// Readings and two derived topics, with this many partitions each.
pub(crate) const TOPICS: [(TopicId, u16); 3] =
    [(TopicId(0), 2), (TopicId(16), 2), (TopicId(17), 1)];
const CHANNELS: u64 = 3;
const STEP_US: i64 = 250_000;
const START_US: i64 = 1_750_000_000_000_000;

/// All partitions that the child writes to.
pub(crate) fn partitions() -> Vec<TopicPartition> {
    let each = |(topic, count): (TopicId, u16)| {
        (0..count).map(move |partition| TopicPartition {
            topic,
            partition: PartitionId(partition),
        })
    };
    TOPICS.into_iter().flat_map(each).collect()
}

/// One number of (place, epoch): another place or epoch gives another.
fn mixed(at: TopicPartition, offset: Offset, epoch: Epoch) -> u64 {
    let place = u64::from(at.topic.0) << 48 | u64::from(at.partition.0) << 32;
    let mut x = place ^ offset.0 ^ u64::from(epoch.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3 {
        x = (x ^ (x >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    x ^ (x >> 29)
}

fn time(offset: Offset) -> EventTime {
    EventTime(START_US + offset.0 as i64 * STEP_US)
}

/// The series of the reading at a place.
pub(crate) fn series(at: TopicPartition, offset: Offset, epoch: Epoch) -> Series {
    let channel = (offset.0 % CHANNELS) as u8;
    Series {
        uid: DeviceUid([at.partition.0 as u8 + 1; 8]),
        boot: BootId(epoch.0),
        channel: ChannelNo(channel),
        kind: ValueKind::Scaled { scale: 2 },
        name: Arc::from(["temperature", "pressure", "current"][usize::from(channel)]),
        unit: Arc::from("u"),
    }
}

/// The reading at a place; `series` is left at 0.
pub(crate) fn reading(at: TopicPartition, offset: Offset, epoch: Epoch) -> ReadingRecord {
    let mixed = mixed(at, offset, epoch);
    ReadingRecord {
        series: 0,
        ordinal: Ordinal(offset.0),
        tick: Tick(offset.0 * STEP_US as u64 + mixed % 1000),
        time: time(offset),
        uncertainty_us: 500,
        value: (mixed % 200_000) as i64 - 100_000,
        quality: Quality::Ok,
    }
}

/// The row at a place: 20 to 200 bytes.
pub(crate) fn row(at: TopicPartition, offset: Offset, epoch: Epoch) -> Row {
    let mixed = mixed(at, offset, epoch);
    let filler = "x".repeat((mixed % 180) as usize);
    Row {
        time: time(offset),
        line: format!("{{\"n\":{mixed},\"f\":\"{filler}\"}}").into_bytes(),
    }
}

pub(crate) fn is_readings(at: TopicPartition) -> bool {
    at.topic == TopicId(0)
}

/// Whether each record of a block is what its place and epoch say.
///
/// # Errors
/// The first that is not.
pub(crate) fn check(block: &Block) -> Result<(), String> {
    let wrong = |offset: Offset, what: String| {
        Err(format!(
            "{:?} offset {} of epoch {}: {what}",
            block.at, offset.0, block.epoch.0
        ))
    };
    let place = |n: usize| Offset(block.base.0 + n as u64);
    match &block.body {
        Body::Readings {
            series: all,
            records,
        } => {
            for (n, record) in records.iter().enumerate() {
                let offset = place(n);
                let Record::Reading(got) = record else {
                    return wrong(offset, format!("not a reading: {record:?}"));
                };
                let want = ReadingRecord {
                    series: got.series,
                    ..reading(block.at, offset, block.epoch)
                };
                let of = all.get(usize::from(got.series));
                if *got != want || of != Some(&series(block.at, offset, block.epoch)) {
                    return wrong(offset, format!("{got:?} of {of:?}, written was {want:?}"));
                }
            }
        }
        Body::Rows(rows) => {
            for (n, got) in rows.iter().enumerate() {
                let want = row(block.at, place(n), block.epoch);
                if *got != want {
                    return wrong(place(n), format!("{got:?}, written was {want:?}"));
                }
            }
        }
    }
    Ok(())
}
