//! A data directory as this version writes it, kept, and opened by every version
//! after it: nothing in it may read differently, or not at all.
//!
//! Written by `FOREBAY_WRITE_FIXTURE=<dir> cargo test -p forebay-tests --test store
//! fixture`, once per format: an old one is never written anew.

use std::path::Path;
use std::sync::Arc;

use forebay_core::log::appender::Appender;
use forebay_core::log::block::{Body, Row, Series};
use forebay_core::log::decode::decode;
use forebay_core::log::key::{StoredBlock, TopicPartition};
use forebay_core::record::{GapReason, GapRecord, ReadingRecord, Record, ValueKind};
use forebay_core::store::{Store, WriteBatch};
use forebay_core::units::{Epoch, EventTime, Mono, Offset, PartitionId, TopicId};
use forebay_node::store::{LogStore, StoreSettings};
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

const WRITE_VAR: &str = "FOREBAY_WRITE_FIXTURE";
/// Small: so is what is kept.
const SETTINGS: StoreSettings = StoreSettings {
    generation_bytes: 16 * 1024,
    generation_age: std::time::Duration::from_secs(3600),
    ballast_bytes: 0,
};
/// Records per partition in each of two batches: one is sealed, one is not.
const RECORDS: u64 = 600;
/// Each of them is a gap.
const GAP_EVERY: u64 = 97;

fn at(topic: u16, partition: u16) -> TopicPartition {
    TopicPartition {
        topic: TopicId(topic),
        partition: PartitionId(partition),
    }
}

const READINGS: [u16; 2] = [0, 1];
const ROWS: u16 = 16;

fn series(partition: u16, offset: u64) -> Series {
    let channel = offset % 3;
    Series {
        uid: DeviceUid([partition as u8 + 1; 8]),
        boot: BootId(7),
        channel: ChannelNo(channel as u8),
        kind: match channel {
            0 => ValueKind::Scaled { scale: 2 },
            1 => ValueKind::Scaled { scale: 0 },
            _ => ValueKind::Double,
        },
        name: Arc::from(["temperature", "count", "level"][channel as usize]),
        unit: Arc::from(["degC", "", "m"][channel as usize]),
    }
}

fn record(partition: u16, offset: u64) -> Record {
    let time = EventTime(1_700_000_000_000_000 + offset as i64 * 100_003);
    if offset % GAP_EVERY == GAP_EVERY - 1 {
        return Record::Gap(GapRecord {
            uid: DeviceUid([partition as u8 + 1; 8]),
            boot: BootId(7),
            first: Ordinal(offset * 10),
            count: 10,
            reason: GapReason::RingFull,
            time,
        });
    }
    let value = match series(partition, offset).kind {
        ValueKind::Scaled { .. } => (offset * offset % 5003) as i64 - 900,
        ValueKind::Double => ((offset as f64 / 7.0).to_bits()) as i64,
    };
    let quality = if offset % 41 == 3 {
        Quality::Stale
    } else {
        Quality::Ok
    };
    Record::Reading(ReadingRecord {
        series: 0,
        ordinal: Ordinal(offset * 10),
        tick: Tick(offset * 100_000 + 17),
        time,
        uncertainty_us: 40 + (offset % 5) as u32,
        value: if quality == Quality::Ok { value } else { 0 },
        quality,
    })
}

fn row(offset: u64) -> Row {
    Row {
        time: EventTime(1_700_000_000_000_000 + offset as i64 * 60_000_000),
        line: format!("{{\"n\":{offset},\"mean\":{}}}", offset as f64 / 8.0).into_bytes(),
    }
}

fn blocks(epoch: Epoch, from: u64) -> Vec<StoredBlock> {
    let mut out = Vec::new();
    for partition in READINGS {
        let mut appender = Appender::readings(at(0, partition), epoch, Offset(from));
        for offset in from..from + RECORDS {
            match record(partition, offset) {
                Record::Reading(reading) => {
                    appender.push_reading(&series(partition, offset), &reading, Mono(0));
                }
                Record::Gap(gap) => appender.push_gap(&gap, Mono(0)),
                Record::Clock(clock) => appender.push_clock(&clock, Mono(0)),
                Record::Tables(tables) => appender.push_tables(&tables, Mono(0)),
            }
        }
        appender.seal();
        out.extend(appender.take_sealed());
    }
    let mut appender = Appender::rows(at(ROWS, 0), epoch, Offset(from));
    for offset in from..from + RECORDS {
        appender.push_row(&row(offset), Mono(0));
    }
    appender.seal();
    out.extend(appender.take_sealed());
    out
}

#[test]
fn a_fixture_is_written_when_it_is_asked_for() {
    let Some(dir) = std::env::var_os(WRITE_VAR) else {
        return;
    };
    let (mut store, opened) = LogStore::open(Path::new(&dir), SETTINGS).unwrap();
    let batch = |from| WriteBatch {
        blocks: blocks(opened.info.epoch, from),
        meta: vec![(b"fixture".to_vec(), b"kept".to_vec())],
    };
    store.append(&batch(0)).unwrap();
    store.seal_all().unwrap();
    store.append(&batch(RECORDS)).unwrap();
    store.sync().unwrap();
}

/// Copies a directory with all in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// All records of a partition, with the series of each reading.
fn read(store: &LogStore, at: TopicPartition) -> Vec<(Option<Series>, Record)> {
    let mut out = Vec::new();
    for stored in store.read(at, Offset(0), usize::MAX).unwrap() {
        let block = decode(stored.key, &stored.bytes).unwrap();
        assert_eq!(block.base.0, out.len() as u64);
        let Body::Readings { series, records } = block.body else {
            panic!("readings");
        };
        out.extend(records.into_iter().map(|record| match record {
            Record::Reading(mut reading) => {
                let series = series[usize::from(reading.series)].clone();
                reading.series = 0;
                (Some(series), Record::Reading(reading))
            }
            Record::Gap(_) | Record::Clock(_) | Record::Tables(_) => (None, record),
        }));
    }
    out
}

#[test]
fn a_data_directory_of_format_1_opens() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/data-1");
    let dir = tempfile::tempdir().unwrap();
    copy(&kept, dir.path());
    let (mut store, opened) = LogStore::open(dir.path(), SETTINGS).unwrap();
    assert_eq!((opened.losses, opened.notes), (vec![], vec![]));
    assert_eq!(opened.info.epoch, Epoch(2));
    assert_eq!(opened.segments.len(), 2, "{:?}", opened.segments);
    for partition in READINGS {
        let got = read(&store, at(0, partition));
        assert_eq!(got.len() as u64, 2 * RECORDS);
        for (offset, (named, got)) in (0..).zip(got) {
            assert_eq!(got, record(partition, offset), "{offset}");
            if let Some(named) = named {
                assert_eq!(named, series(partition, offset), "{offset}");
            }
        }
        assert_eq!(opened.heads[&at(0, partition)], Offset(2 * RECORDS));
    }
    let rows = store.read(at(ROWS, 0), Offset(0), usize::MAX).unwrap();
    let rows =
        rows.iter().flat_map(
            |stored| match decode(stored.key, &stored.bytes).unwrap().body {
                Body::Rows(rows) => rows,
                Body::Readings { .. } => panic!("rows"),
            },
        );
    assert_eq!(
        rows.collect::<Vec<_>>(),
        (0..2 * RECORDS).map(row).collect::<Vec<_>>()
    );
    assert_eq!(store.meta(b"fixture").unwrap(), Some(b"kept".to_vec()));
    // And it goes on.
    let batch = WriteBatch {
        blocks: blocks(opened.info.epoch, 2 * RECORDS),
        meta: Vec::new(),
    };
    store.append(&batch).unwrap();
    store.sync().unwrap();
    assert_eq!(read(&store, at(0, 1)).len() as u64, 3 * RECORDS);
}
