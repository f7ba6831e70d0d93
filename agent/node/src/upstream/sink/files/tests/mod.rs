//! The files sink with messages of a made-up gateway: what goes in comes out, in files that
//! others read, whatever step a crash or a full disk came before.

mod crash;
mod faulty;
mod reading;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::log::block::Block;
use forebay_core::log::block::{Body, Row};
use forebay_core::log::key::TopicPartition;
use forebay_core::payload::{Encoding, GatewayName, MessageId, StreamName};
use forebay_core::record::{
    ClockRecord, ClockTrust, GapReason, GapRecord, Missing, ReadingRecord, Record, Series,
    TablesRecord, UNSYNCED_US, ValueKind,
};
use forebay_core::units::{
    Epoch, EpochNonce, EventTime, LogId, Mono, Offset, PartitionId, Span, TopicId,
};
use forebay_core::upstream::apply::{Applier, Outcome};
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

use super::{FilesSink, opening};
use crate::config::{FilesConfig, FilesFormat};
use crate::upstream::sink::{Committed, Extent, ExtentKind, RowFilter, Sink, SinkError};

/// 2026-03-01T22:00:00Z, so that offsets cross midnight.
const START: i64 = 1_772_402_400_000_000;
const HOUR: i64 = 3_600_000_000;

/// A topic and its payload.
type Message = (String, Vec<u8>);

fn config(folder: &Path, format: FilesFormat) -> FilesConfig {
    FilesConfig {
        format,
        ..FilesConfig::new(folder.to_owned())
    }
}

fn series() -> Vec<Series> {
    let series = |channel, kind, name: &str| Series {
        uid: DeviceUid([0, 0, 0, 0, 0, 0, 0, 7]),
        boot: BootId(3),
        channel: ChannelNo(channel),
        kind,
        name: Arc::from(name),
        unit: Arc::from("degC"),
    };
    vec![
        series(0, ValueKind::Scaled { scale: 2 }, "tempera\"ture"),
        series(1, ValueKind::Double, "pressure"),
        series(2, ValueKind::Scaled { scale: 0 }, "count"),
    ]
}

/// What stands at an offset: all there is, and times half an hour apart.
fn record(offset: u64) -> Record {
    let time = EventTime(START + (offset as i64) * HOUR / 2);
    let step = offset as i64;
    match offset % 8 {
        5 => Record::Gap(GapRecord {
            uid: DeviceUid([7; 8]),
            boot: BootId(3),
            first: Ordinal(offset),
            count: u64::MAX - offset,
            reason: GapReason::PowerLoss,
            time,
        }),
        7 => Record::Tables(TablesRecord {
            upto: Offset(offset / 3),
            time,
        }),
        6 => Record::Clock(ClockRecord {
            now: time,
            trust: match offset % 3 {
                0 => ClockTrust::Yes,
                1 => ClockTrust::No,
                _ => ClockTrust::Since(Span(-step)),
            },
        }),
        kind => Record::Reading(ReadingRecord {
            series: (kind % 3) as u16,
            ordinal: Ordinal(offset),
            tick: Tick(0),
            time,
            uncertainty_us: if kind == 4 { UNSYNCED_US } else { 12 },
            value: match kind % 3 {
                _ if kind == 3 => 0,
                1 => (offset as f64 / 3.0).to_bits().cast_signed(),
                _ => -step * 101,
            },
            quality: if kind == 3 {
                Quality::BusError
            } else {
                Quality::Ok
            },
        }),
    }
}

fn name(gateway: &str) -> GatewayName {
    GatewayName::new(gateway).unwrap()
}

fn id(gateway: &str, stream: &str, partition: u16, (first, last): (u64, u64)) -> MessageId {
    MessageId {
        gateway: name(gateway),
        log_id: LogId([5; 16]),
        epoch: Epoch(1 + (first / 40) as u32),
        nonce: EpochNonce(9),
        stream: StreamName::new(stream).unwrap(),
        partition: PartitionId(partition),
        first: Offset(first),
        last: Offset(last),
    }
}

fn block(id: &MessageId, body: Body) -> Block {
    Block {
        at: TopicPartition {
            topic: TopicId(0),
            partition: id.partition,
        },
        base: id.first,
        epoch: id.epoch,
        body,
    }
}

fn message(id: &MessageId, payload: Vec<u8>) -> Message {
    (id.gateway.data_topic(&id.stream, id.partition), payload)
}

/// Readings, gaps and clocks of these offsets.
fn readings(gateway: &str, partition: u16, (first, last): (u64, u64)) -> Message {
    let id = id(gateway, "readings", partition, (first, last));
    let body = Body::Readings {
        series: series(),
        records: (first..=last).map(record).collect(),
    };
    let block = block(&id, body);
    message(&id, Encoding::default().render_block(&id, &block).unwrap())
}

fn rows(gateway: &str, (first, last): (u64, u64)) -> Message {
    let id = id(gateway, "minute", 0, (first, last));
    let row = |offset: u64| {
        let time = EventTime(START + (offset as i64) * HOUR);
        let end = forebay_core::utc::time_value(time);
        let line =
            format!("{{\"stream\":\"minute\",\"end\":{end},\n\"n\":{offset},\"mean\":2.50}}");
        Row {
            time,
            line: line.into_bytes(),
        }
    };
    let block = block(&id, Body::Rows((first..=last).map(row).collect()));
    message(&id, Encoding::default().render_block(&id, &block).unwrap())
}

fn missing(gateway: &str, partition: u16, offsets: (u64, u64)) -> Message {
    let id = id(gateway, "readings", partition, offsets);
    message(
        &id,
        Encoding::default().render_missing(&id, Missing::Trimmed),
    )
}

/// Batches as a receiver makes them: two gateways, partitions that lag, a declared gap, a
/// hole that is filled late, and a message that is refused.
fn script() -> Vec<Vec<Message>> {
    vec![
        vec![
            readings("a", 0, (0, 9)),
            readings("b", 1, (0, 4)),
            rows("a", (0, 2)),
        ],
        vec![
            readings("a", 0, (20, 29)),
            ("nonsense".to_owned(), b"x".to_vec()),
        ],
        vec![readings("a", 0, (10, 19)), missing("b", 1, (5, 8))],
        vec![
            readings("b", 1, (9, 12)),
            readings("a", 1, (0, 3)),
            readings("b", 1, (0, 4)),
        ],
        vec![rows("a", (3, 6)), readings("a", 0, (30, 50))],
    ]
}

fn load(sink: &mut dyn Sink) -> Applier {
    Applier::load(sink.load(None).unwrap()).unwrap()
}

/// Judges a batch and commits it; what was refused is in it too.
fn commit(sink: &mut dyn Sink, applier: &mut Applier, batch: &[Message]) -> Result<(), SinkError> {
    for (topic, payload) in batch {
        let outcome = applier.handle(topic, payload.clone().into());
        let nonsense = topic == "nonsense";
        assert_eq!(
            matches!(outcome, Outcome::Rejected { .. }),
            nonsense,
            "{outcome:?}"
        );
    }
    let batch = applier.take_batch();
    if !batch.is_empty() {
        assert_eq!(sink.commit(&batch)?, Committed::Done);
        applier.committed(Mono(0));
    }
    Ok(())
}

/// All rows as lines, in the order in which the sink shows them.
fn lines(sink: &mut dyn Sink) -> Vec<String> {
    let mut out = Vec::new();
    sink.rows(&RowFilter::default(), &mut |row| {
        let mut line = Vec::new();
        row.push_line(&mut line);
        out.push(String::from_utf8(line).unwrap());
        true
    })
    .unwrap();
    out
}

fn extents(sink: &mut dyn Sink) -> Vec<Extent> {
    let mut out = Vec::new();
    let filter = RowFilter::default();
    sink.extents(&filter, &mut |extent| {
        out.push(extent);
        true
    })
    .unwrap();
    out
}

/// What the first `batches` of the script come to, as another sink gives it.
fn expected(batches: usize) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = crate::upstream::EmbeddedSink::open(dir.path()).unwrap();
    let mut applier = load(&mut sink);
    for batch in &script()[..batches] {
        commit(&mut sink, &mut applier, batch).unwrap();
    }
    lines(&mut sink)
}

/// Later than anything is due.
fn later() -> Instant {
    Instant::now() + Duration::from_secs(24 * 3600)
}

fn open(config: &FilesConfig) -> FilesSink {
    FilesSink::open(config).unwrap()
}
