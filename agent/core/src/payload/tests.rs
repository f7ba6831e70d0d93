//! Tests of all payloads, and what they have in common.

mod compact;
mod control;
mod readable;
mod round;

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

use super::*;
use crate::log::block::{Block, Body, GapRecord, ReadingRecord, Record, Row, Series, ValueKind};
use crate::log::key::TopicPartition;
use crate::record::{ClockRecord, ClockTrust, GapReason, UNSYNCED_US};
use crate::units::{Epoch, EpochNonce, EventTime, LogId, Offset, PartitionId, Span, TopicId};

fn gateway() -> GatewayName {
    GatewayName::new("g1").unwrap()
}

fn stream() -> StreamName {
    StreamName::new("readings").unwrap()
}

const LOG: LogId = LogId([0xab; 16]);

fn series(scale: u8) -> Series {
    Series {
        uid: DeviceUid([1, 2, 3, 4, 5, 6, 7, 0xff]),
        boot: BootId(7),
        channel: ChannelNo(0),
        kind: ValueKind::Scaled { scale },
        name: Arc::from("temperature"),
        unit: Arc::from("degC"),
    }
}

fn reading(ordinal: u64, value: i64, quality: Quality) -> Record {
    Record::Reading(ReadingRecord {
        series: 0,
        ordinal: Ordinal(ordinal),
        tick: Tick(ordinal * 1000),
        time: EventTime(1_772_323_200_000_000 + i64::try_from(ordinal).unwrap_or(0) * 250_000),
        uncertainty_us: 50,
        value,
        quality,
    })
}

fn block_of(body: Body) -> Block {
    Block {
        at: TopicPartition {
            topic: TopicId(0),
            partition: PartitionId(3),
        },
        base: Offset(100),
        epoch: Epoch(2),
        body,
    }
}

const JSON: Encoding = Encoding {
    format: Format::Json,
    zstd: false,
};
const COMPACT: Encoding = Encoding {
    format: Format::Compact,
    zstd: false,
};

fn id_of(block: &Block) -> MessageId {
    MessageId::of(&gateway(), LOG, EpochNonce(0xfe), &stream(), block)
}

fn render(block: &Block) -> (MessageId, Vec<u8>) {
    let id = id_of(block);
    let bytes = JSON.render_block(&id, block).unwrap();
    (id, bytes)
}

/// What a message of `block` says: ticks are not in it.
fn said(block: &Block) -> DataMessage {
    let body = match block.body.clone() {
        Body::Readings {
            series,
            mut records,
        } => {
            for record in &mut records {
                if let Record::Reading(reading) = record {
                    reading.tick = Tick(0);
                }
            }
            DataBody::Readings { series, records }
        }
        Body::Rows(rows) => DataBody::Rows(rows.into_iter().map(|row| row.line).collect()),
    };
    let id = id_of(block);
    DataMessage { id, body }
}

fn golden_block() -> Block {
    block_of(Body::Readings {
        series: vec![series(3)],
        records: vec![
            reading(0, 21_500, Quality::Ok),
            reading(1, -5, Quality::Ok),
            reading(2, 0, Quality::BusError),
            Record::Gap(GapRecord {
                uid: DeviceUid([1, 2, 3, 4, 5, 6, 7, 0xff]),
                boot: BootId(7),
                first: Ordinal(3),
                count: 4,
                reason: GapReason::RingFull,
                time: EventTime(1_772_323_201_000_000),
            }),
        ],
    })
}

fn clock_block() -> Block {
    let clock = |now, trust| {
        let now = EventTime(now);
        Record::Clock(ClockRecord { now, trust })
    };
    let Record::Reading(mut unsynced) = reading(0, 21_500, Quality::Ok) else {
        panic!("a reading")
    };
    unsynced.uncertainty_us = UNSYNCED_US;
    let mut other = unsynced;
    other.uncertainty_us = 51;
    block_of(Body::Readings {
        series: vec![series(3)],
        records: vec![
            clock(7_000_000, ClockTrust::No),
            Record::Reading(unsynced),
            clock(1_772_323_201_000_000, ClockTrust::Since(Span(-5))),
            clock(1_772_323_202_000_000, ClockTrust::Yes),
            reading(1, 0, Quality::Ok),
            Record::Reading(other),
            reading(2, 0, Quality::Ok),
        ],
    })
}

fn rows_block() -> Block {
    let lines = [
        r#"{"stream":"w","mean":21.5}"#,
        r#"{"stream":"w","key":null}"#,
    ];
    let rows = lines.map(|line| Row {
        time: EventTime(0),
        line: line.as_bytes().to_vec(),
    });
    block_of(Body::Rows(rows.to_vec()))
}
