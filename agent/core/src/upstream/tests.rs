//! Delivery at its worst: messages come in any order, again, or never, the process
//! dies between transaction and ack; every offset counts once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;
use proptest::prelude::*;

use super::apply::{Applier, LoadError, Outcome};
use super::batch::{Batch, Loaded, Table, owner};
use super::counters::Counters;
use super::embed;
use super::rows::RowReader;
use super::tally::Tally;
use crate::limits::{REJECTED_KEPT_MAX, STORE_VALUE_BYTES_MAX};
use crate::log::block::{Block, Body, GapRecord, ReadingRecord, Record, Row, Series, ValueKind};
use crate::log::key::TopicPartition;
use crate::payload::{Encoding, GatewayName, MessageId, SessionNonce, StreamName, push_row};
use crate::record::{GapReason, Missing};
use crate::units::{Epoch, EpochNonce, EventTime, LogId, Mono, Offset, PartitionId, TopicId};

mod forks;
mod shared;

const LOG: LogId = LogId([9; 16]);

/// The sink as a map; a transaction is all or nothing.
#[derive(Default)]
struct Sink {
    tables: BTreeMap<(Table, Vec<u8>), Vec<u8>>,
}

impl Sink {
    fn commit(&mut self, applier: &mut Applier) {
        self.write(&applier.take_batch());
    }

    fn write(&mut self, batch: &Batch) {
        for write in embed::writes(batch) {
            let key = (write.table, write.key);
            match write.value {
                Some(value) => {
                    assert!(value.len() <= STORE_VALUE_BYTES_MAX, "{:?}", key.0);
                    let old = self.tables.insert(key, value);
                    assert!(old.is_none() || !write.must_be_new, "a row came twice");
                }
                None => drop(self.tables.remove(&key)),
            }
        }
    }

    fn table(&self, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
        let entries = self.tables.iter().filter(|((of, _), _)| *of == table);
        entries
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect()
    }

    fn load(&self) -> Applier {
        load(self.table(Table::Marks), self.table(Table::Meta)).unwrap()
    }

    /// (epoch, offset, row) of every row, in key order.
    fn rows(&self) -> Vec<(u32, u64, String)> {
        let mut reader = RowReader::default();
        let mut out = Vec::new();
        for (key, value) in self.table(Table::Rows) {
            for row in reader.push(&key, &value).unwrap() {
                let json = String::from_utf8(row.json).unwrap();
                out.push((row.epoch.0, row.offset.0, json));
            }
        }
        assert!(!reader.is_open());
        out
    }
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn load(marks: Entries, meta: Entries) -> Result<Applier, LoadError> {
    let versions = BTreeMap::new();
    Applier::load(Loaded {
        marks,
        meta,
        versions,
    })
}

fn gateway() -> GatewayName {
    GatewayName::new("gw-1").unwrap()
}

fn stream() -> StreamName {
    StreamName::new("readings").unwrap()
}

const TOPIC: &str = "forebay/v1/gw-1/data/readings/0";

/// A block of readings; every seventh offset is a gap of three.
fn block(epoch: u32, first: u64, count: u64) -> Block {
    let uid = DeviceUid([1; 8]);
    let boot = BootId(epoch);
    let series = Series {
        uid,
        boot,
        channel: ChannelNo(0),
        kind: ValueKind::Scaled { scale: 1 },
        name: Arc::from("temperature"),
        unit: Arc::from("degC"),
    };
    let record = |offset: u64| {
        let time = EventTime(offset as i64 * 1_000_000);
        if offset % 7 == 6 {
            return Record::Gap(GapRecord {
                uid,
                boot,
                first: Ordinal(offset),
                count: 3,
                reason: GapReason::RingFull,
                time,
            });
        }
        Record::Reading(ReadingRecord {
            series: 0,
            ordinal: Ordinal(offset),
            tick: Tick(offset),
            time,
            uncertainty_us: 1,
            value: offset as i64,
            quality: Quality::Ok,
        })
    };
    Block {
        at: TopicPartition {
            topic: TopicId(1),
            partition: PartitionId(0),
        },
        base: Offset(first),
        epoch: Epoch(epoch),
        body: Body::Readings {
            series: vec![series],
            records: (first..first + count).map(record).collect(),
        },
    }
}

/// Of a log that has one history.
fn nonce_of(block: &Block) -> EpochNonce {
    EpochNonce(100 + u64::from(block.epoch.0))
}

fn payload(block: &Block) -> Vec<u8> {
    let id = MessageId::of(&gateway(), LOG, nonce_of(block), &stream(), block);
    Encoding::default().render_block(&id, block).unwrap()
}

/// What came of a part of a log, counted the slow way.
fn expected(blocks: &[Block]) -> (Vec<(u32, u64)>, u64, u64) {
    let mut offsets: Vec<_> = blocks
        .iter()
        .flat_map(|block| (block.base.0..block.end().0).map(|o| (block.epoch.0, o)))
        .collect();
    offsets.sort_unstable();
    offsets.dedup();
    let gaps = offsets.iter().filter(|(_, o)| o % 7 == 6).count() as u64;
    let readings = offsets.len() as u64 - gaps;
    (offsets, readings, gaps)
}

/// Blocks of a log over some epochs. A new epoch may begin before the end of the
/// one before it: that tail was sent and then lost.
fn log() -> impl Strategy<Value = Vec<Block>> {
    let epoch = (prop::collection::vec(1..9u64, 1..8), 0..6u64);
    prop::collection::vec(epoch, 1..4).prop_map(|epochs| {
        let mut head: u64 = 0;
        let mut out = Vec::new();
        for (number, (counts, lost)) in (1..).zip(epochs) {
            head = head.saturating_sub(lost);
            for count in counts {
                out.push(block(number, head, count));
                head += count;
            }
        }
        out
    })
}

#[derive(Debug, Clone)]
enum Step {
    /// Deliver the block of this index, modulo their number.
    Deliver(usize),
    /// A resend that comes merged otherwise: up to three neighbours in one.
    Merged(usize),
    Commit,
    /// Die and start again from what was committed.
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => any::<usize>().prop_map(Step::Deliver),
        2 => any::<usize>().prop_map(Step::Merged),
        3 => Just(Step::Commit),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 0..60)
}

fn merged(blocks: &[Block], at: usize) -> Block {
    let first = &blocks[at];
    let next = blocks[at..].iter().take(3);
    let mut end = first.base;
    for block in next {
        if block.epoch == first.epoch && block.base.0 <= first.end().0.max(end.0) {
            end = block.end();
        }
    }
    block(first.epoch.0, first.base.0, end.0 - first.base.0)
}

proptest! {
    #[test]
    fn each_offset_is_applied_exactly_once(blocks in log(), steps in steps()) {
        let mut sink = Sink::default();
        let mut applier = sink.load();
        applier.renew_session(SessionNonce([1; 16]));
        let deliver = |applier: &mut Applier, block: &Block| {
            let outcome = applier.handle(TOPIC, payload(block).into());
            assert_eq!(outcome, Outcome::Taken { gateway: gateway() });
        };
        for step in steps {
            match step {
                Step::Deliver(n) => deliver(&mut applier, &blocks[n % blocks.len()]),
                Step::Merged(n) => deliver(&mut applier, &merged(&blocks, n % blocks.len())),
                Step::Commit => sink.commit(&mut applier),
                Step::Crash => applier = sink.load(),
            }
        }
        // The gateway sends everything again, in order.
        for block in &blocks {
            deliver(&mut applier, block);
        }
        sink.commit(&mut applier);

        let (offsets, readings, gaps) = expected(&blocks);
        let rows = sink.rows();
        let seen: Vec<_> = rows.iter().map(|(epoch, offset, _)| (*epoch, *offset)).collect();
        prop_assert_eq!(seen, offsets);
        let counters = applier.counters();
        prop_assert_eq!((counters.readings, counters.gap_records), (readings, gaps));
        prop_assert_eq!(counters.gap_readings, 3 * gaps);
        applier.keep_counters();
        sink.commit(&mut applier);
        prop_assert_eq!(sink.load().counters(), counters);
        // The ledger counts the same records, device by device.
        let loaded = sink.load();
        let mut sum = Tally::default();
        loaded.ledger().devices().for_each(|(_, _, tally)| sum.add(&tally.total()));
        prop_assert_eq!((sum.readings, sum.gap_total()), (readings, 3 * gaps));
        prop_assert!(!loaded.ledger().head().begun_late);
        // Rows say what the payload said.
        for block in &blocks {
            let Body::Readings { series, records } = &block.body else {
                panic!("readings")
            };
            for (_, offset, row) in rows.iter().filter(|(epoch, offset, _)| {
                *epoch == block.epoch.0 && (block.base.0..block.end().0).contains(offset)
            }) {
                let record = &records[(offset - block.base.0) as usize];
                let mut want = Vec::new();
                push_row(series, record, &mut want);
                prop_assert_eq!(row.as_bytes(), want);
            }
        }
        let head = blocks.iter().map(|block| block.end().0).max().unwrap();
        if let Some(ack) = sink.load().ack_message(&gateway()) {
            let next: Vec<_> = ack.marks.iter().map(|mark| mark.next.0).collect();
            prop_assert_eq!(next, vec![head]);
            prop_assert_eq!(ack.log_id, LOG);
        }
    }

    #[test]
    fn bytes_never_panic(topic in ".{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut applier = Applier::default();
        applier.handle(&topic, bytes.clone().into());
        applier.handle(TOPIC, bytes.into());
        let mut sink = Sink::default();
        sink.commit(&mut applier);
        prop_assert_eq!(sink.load().counters().rejected, 2);
    }
}

#[test]
fn what_is_not_ours_is_kept_with_the_reason() {
    let good = payload(&block(1, 0, 3));
    let text = String::from_utf8(good.clone()).unwrap();
    let mut sink = Sink::default();
    let mut applier = sink.load();
    for (name, topic, payload, reason) in [
        (
            "no data topic",
            "forebay/v1/gw-1/status",
            good.clone(),
            "the topic is none",
        ),
        (
            "another gateway",
            "forebay/v1/gw-2/data/readings/0",
            good.clone(),
            "is of gateway gw-1",
        ),
        (
            "another partition",
            "forebay/v1/gw-1/data/readings/1",
            good.clone(),
            "partition 0",
        ),
        ("not JSON", TOPIC, b"hello".to_vec(), "byte 0"),
        (
            "a newer version",
            TOPIC,
            text.replace("\"v\":2", "\"v\":3").into_bytes(),
            "version 3",
        ),
        ("control characters", TOPIC, vec![1; 5000], "byte 0"),
        ("no text", TOPIC, vec![0xff; 5000], "byte 0"),
        (
            "a long topic",
            &"\u{1}".repeat(60_000),
            good.clone(),
            "the topic is none",
        ),
    ] {
        let Outcome::Rejected { reason: said } = applier.handle(topic, payload.into()) else {
            panic!("{name} was taken");
        };
        assert!(said.contains(reason), "{name}: {said}");
        sink.commit(&mut applier);
    }
    assert_eq!(sink.table(Table::Rejected).len(), 8);
    assert!(sink.rows().is_empty());
    // The next good one is taken.
    applier.handle(TOPIC, good.into());
    sink.commit(&mut applier);
    let want = Counters {
        messages: 9,
        readings: 3,
        rejected: 8,
        ..Counters::default()
    };
    assert_eq!(sink.load().counters(), want);
}

#[test]
fn rejected_messages_at_their_limit() {
    let mut sink = Sink::default();
    let mut applier = sink.load();
    for n in 0..REJECTED_KEPT_MAX + 2 {
        applier.handle(TOPIC, b"rubbish"[..].into());
        if n % 300 == 0 {
            sink.commit(&mut applier);
            // Numbers go on after a restart.
            applier = sink.load();
        }
        let kept = (n + 1).min(REJECTED_KEPT_MAX);
        if n + 3 > REJECTED_KEPT_MAX {
            sink.commit(&mut applier);
            assert_eq!(sink.table(Table::Rejected).len() as u64, kept, "after {n}");
        }
    }
    let first = sink.table(Table::Rejected).remove(0).0;
    assert_eq!(first, 2u64.to_be_bytes());
}

#[test]
fn a_hole_that_is_declared_is_passed_and_stands_in_the_rows() {
    let (mut sink, mut applier) = (Sink::default(), Applier::default());
    applier.renew_session(SessionNonce([1; 16]));
    let next = |applier: &Applier| {
        let ack = applier.ack_message(&gateway()).expect("something came");
        (ack.marks[0].epoch.0, ack.marks[0].next.0)
    };
    let missing = |epoch, first, last| {
        let mut id = MessageId::of(
            &gateway(),
            LOG,
            EpochNonce(1),
            &stream(),
            &block(epoch, first, 1),
        );
        id.last = Offset(last);
        Encoding::default().render_missing(&id, Missing::Trimmed)
    };
    applier.handle(TOPIC, payload(&block(1, 10, 5)).into());
    applier.handle(TOPIC, payload(&block(1, 20, 5)).into());
    sink.commit(&mut applier);
    applier.committed(Mono(0));
    assert_eq!((next(&applier), applier.holes()), ((1, 0), 1));
    for again in 0..2 {
        // Declared by a later opening, over what was applied as well.
        applier.handle(TOPIC, missing(2, 0, 21).into());
        sink.commit(&mut applier);
        applier.committed(Mono(1));
        assert_eq!((next(&applier), applier.holes()), ((2, 25), 0), "{again}");
        assert_eq!(applier.counters().missing, 15, "{again}");
    }
    let rows = sink.rows().into_iter().filter(|(epoch, ..)| *epoch == 2);
    let rows: Vec<_> = rows.map(|(_, offset, row)| (offset, row)).collect();
    let row = |first: u64, last: u64| {
        let text = "{\"missing\":\"trimmed\",\"first_offset\":";
        (first, format!("{text}{first},\"last_offset\":{last}}}"))
    };
    assert_eq!(rows, [row(0, 9), row(15, 19)]);
    let mut again = sink.load();
    again.renew_session(SessionNonce([1; 16]));
    assert_eq!(next(&again), (2, 25));
    assert_eq!(applier.poll_resend(Mono(u64::MAX)), None);
}

#[test]
fn rows_of_a_result_stream_keep_their_bytes() {
    let lines = ["{\"avg\":1.50,\"n\":3}", "{ \"avg\": null }"];
    let rows = lines.map(|line| Row {
        time: EventTime(0),
        line: line.as_bytes().to_vec(),
    });
    let block = Block {
        body: Body::Rows(rows.to_vec()),
        ..block(1, 0, 1)
    };
    let mut sink = Sink::default();
    let mut applier = sink.load();
    applier.handle(TOPIC, payload(&block).into());
    sink.commit(&mut applier);
    let stored: Vec<_> = sink.rows().into_iter().map(|(_, _, row)| row).collect();
    assert_eq!(stored, lines);
    assert_eq!(applier.counters().rows, 2);
    assert_eq!(applier.counters().readings, 0);
}

#[test]
fn a_second_log_of_a_gateway_is_another_history() {
    let mut sink = Sink::default();
    let mut applier = sink.load();
    applier.renew_session(SessionNonce([7; 16]));
    assert_eq!(applier.ack_message(&gateway()), None);
    applier.handle(TOPIC, payload(&block(1, 0, 5)).into());
    let other = block(1, 0, 2);
    let id = MessageId::of(&gateway(), LogId([8; 16]), EpochNonce(1), &stream(), &other);
    applier.handle(
        TOPIC,
        Encoding::default()
            .render_block(&id, &other)
            .unwrap()
            .into(),
    );
    sink.commit(&mut applier);
    let loaded = sink.load();
    assert_eq!(loaded.counters().readings, 7);
    assert_eq!(loaded.partitions(), 2);
    let ack = loaded.ack_message(&gateway()).unwrap();
    assert_eq!((ack.log_id, ack.marks[0].next), (LogId([8; 16]), Offset(2)));
    assert_eq!(loaded.session(), Some(SessionNonce([7; 16])));
    assert_eq!(loaded.gateways().collect::<Vec<_>>(), [&gateway()]);
}

#[test]
fn stored_entries_that_cannot_be_read_are_named() {
    let entry = |key: &[u8], value: &[u8]| vec![(key.to_vec(), value.to_vec())];
    for (name, marks, meta) in [
        ("mark", entry(b"x", b"y"), vec![]),
        ("session", vec![], entry(b"session", b"short")),
        ("counters", vec![], entry(b"counters", b"\x02")),
        ("rejected_next", vec![], entry(b"rejected_next", b"")),
        ("current.gw", vec![], entry(b"current.gw", b"")),
        (
            "device.gw",
            vec![],
            entry(b"device.gw\0\0\0\0\0\0\0\0\x01", b""),
        ),
        ("ledger", vec![], entry(b"ledger", b"\x02")),
        ("current.a b", vec![], entry(b"current.a b", &[0; 16])),
    ] {
        let error = load(marks, meta).unwrap_err().to_string();
        let key = if name == "mark" { "x" } else { name };
        assert!(error.contains(key), "{name}: {error}");
    }
    load(vec![], entry(b"of a newer version", b"")).unwrap();
}
