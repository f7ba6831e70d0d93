//! Batches of made-up messages, and what a sink shows of them.

use std::sync::Arc;

use bytes::Bytes;
use forebay_core::payload::{DataBody, DataMessage, GatewayName, MessageId, StreamName};
use forebay_core::record::{ReadingRecord, Record, Series, ValueKind};
use forebay_core::units::{Epoch, EpochNonce, EventTime, LogId, Offset, PartitionId};
use forebay_core::upstream::batch::{Applied, Batch};
use forebay_core::upstream::ranges::OffsetRange;
use forebay_core::upstream::rows::StoredRow;
use forebay_node::config::PostgresConfig;
use forebay_node::upstream::{Committed, Extent, PostgresSink, RowFilter, Sink};
use forebay_tests::postgres::Postgres;
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

/// The receiver's config for a server.
pub(super) fn config(server: &Postgres) -> PostgresConfig {
    server.config()
}

pub(super) fn open(server: &Postgres) -> PostgresSink {
    PostgresSink::open(&config(server)).unwrap()
}

pub(super) fn gateway(name: &str) -> GatewayName {
    GatewayName::new(name).unwrap()
}

/// Identity of offsets of gateway `gw`, log 5, partition 0, epoch 1.
pub(super) fn id(gw: &str, stream: &str, first: u64, count: u64) -> MessageId {
    MessageId {
        gateway: gateway(gw),
        log_id: LogId([5; 16]),
        epoch: Epoch(1),
        nonce: EpochNonce(0xabc),
        stream: StreamName::new(stream).unwrap(),
        partition: PartitionId(0),
        first: Offset(first),
        last: Offset(first + (count - 1)),
    }
}

pub(super) fn series(channel: &str, kind: ValueKind) -> Series {
    Series {
        uid: DeviceUid([0, 0, 0, 0, 0, 0, 0xab, 0xcd]),
        boot: BootId(7),
        channel: ChannelNo(3),
        kind,
        name: channel.into(),
        unit: "degC".into(),
    }
}

pub(super) fn scaled(channel: &str) -> Series {
    series(channel, ValueKind::Scaled { scale: 2 })
}

pub(super) fn reading(ordinal: u64, time: i64, value: i64) -> ReadingRecord {
    ReadingRecord {
        series: 0,
        ordinal: Ordinal(ordinal),
        tick: Tick(0),
        time: EventTime(time),
        uncertainty_us: 40,
        value,
        quality: Quality::Ok,
    }
}

/// Readings one second apart, of a channel `temperature`, from this time on.
pub(super) fn readings(first: u64, count: u64, time: i64) -> DataBody {
    let one = |n: u64| {
        let time = time + n as i64 * 1_000_000;
        Record::Reading(reading(first + n, time, n as i64))
    };
    DataBody::Readings {
        series: vec![scaled("temperature")],
        records: (0..count).map(one).collect(),
    }
}

/// A message of which these offsets are new.
pub(super) fn applied(id: MessageId, body: DataBody, fresh: &[(u64, u64)]) -> Applied {
    let range = |(start, end): &(u64, u64)| OffsetRange::new(Offset(*start), Offset(*end)).unwrap();
    Applied {
        message: Arc::new(DataMessage { id, body }),
        payload: Bytes::new(),
        fresh: fresh.iter().map(range).collect(),
    }
}

/// All of a message is new.
pub(super) fn whole(id: MessageId, body: DataBody) -> Applied {
    let fresh = [(id.first.0, id.last.0 + 1)];
    applied(id, body, &fresh)
}

/// A batch of one gateway, judged on `version`.
pub(super) fn batch(gw: &str, version: u64, applied: Vec<Applied>) -> Batch {
    Batch {
        applied,
        entries: Vec::new(),
        gateways: vec![(gateway(gw), version)],
    }
}

#[track_caller]
pub(super) fn commit(sink: &mut dyn Sink, batch: &Batch) {
    assert_eq!(sink.commit(batch).unwrap(), Committed::Done);
}

pub(super) fn rows(sink: &mut dyn Sink, filter: &RowFilter) -> Vec<StoredRow> {
    let mut out = Vec::new();
    sink.rows(filter, &mut |row| {
        out.push(row);
        true
    })
    .unwrap();
    out
}

/// Rows as texts.
pub(super) fn texts(sink: &mut dyn Sink) -> Vec<String> {
    let rows = rows(sink, &RowFilter::default()).into_iter();
    rows.map(|row| String::from_utf8(row.json).unwrap())
        .collect()
}

/// Runs of offsets, neighbours put together.
pub(super) fn extents(sink: &mut dyn Sink) -> Vec<Extent> {
    let mut out: Vec<Extent> = Vec::new();
    sink.extents(&RowFilter::default(), &mut |extent| {
        if let Some(last) = out.last_mut()
            && last.source == extent.source
            && (last.epoch, last.nonce, last.kind) == (extent.epoch, extent.nonce, extent.kind)
            && last.first.0 + last.count == extent.first.0
        {
            last.count += extent.count;
        } else {
            out.push(extent);
        }
        true
    })
    .unwrap();
    out
}
